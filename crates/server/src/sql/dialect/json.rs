//! Functions that make JSON.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
};

use crate::sql::ast::{call, literal, text};
use crate::sql::functions::AS_JSON;

/// Functions that make JSON. A text among their arguments is a string, but JSON is a part of the result.
pub(super) fn made(function: &mut Function, name: &str) -> Option<Expr> {
    const MAKES: [&str; 10] = [
        "to_json",
        "to_jsonb",
        "json_build_object",
        "jsonb_build_object",
        "json_build_array",
        "jsonb_build_array",
        "json_agg",
        "jsonb_agg",
        "json_object_agg",
        "jsonb_object_agg",
    ];
    let name = match name {
        "array_to_json" | "row_to_json" => {
            function.name = Ident::new("to_json").into();
            "to_json"
        }
        name => name,
    };
    if !MAKES.contains(&name) {
        return None;
    }
    if let FunctionArguments::List(list) = &mut function.args {
        for arg in &mut list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(of)) = arg {
                mark(of);
            }
        }
    }
    if let Some(kind) = name.strip_suffix("_object_agg") {
        return lists_of(function).map(|lists| call(&format!("{kind}_of_lists"), lists));
    }
    let of_list = name.strip_suffix("_agg").map(|kind| format!("{kind}_of_list"))?;
    function.name = Ident::new("array_agg").into();
    Some(call(&of_list, vec![Expr::Function(function.clone())]))
}

/// Marks values that are JSON, also in arrays and records.
fn mark(of: &mut Expr) {
    match of {
        Expr::Array(array) => {
            // A constant has the type of the other elements.
            if let Some(cast) = array.elem.iter().find_map(json_cast) {
                for constant in array.elem.iter_mut().filter(|element| text(element).is_some()) {
                    *constant = call(cast, vec![constant.clone()]);
                }
            }
            array.elem.iter_mut().for_each(mark);
        }
        Expr::Tuple(values) => *of = record(std::mem::take(values)),
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if name.to_string().eq_ignore_ascii_case("row") =>
        {
            let values = list.args.drain(..).filter_map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
                _ => None,
            });
            *of = record(values.collect());
        }
        of => *of = call(AS_JSON, vec![of.clone()]),
    }
}

/// The function of a cast to JSON.
fn json_cast(of: &Expr) -> Option<&'static str> {
    let Expr::Function(function) = of else { return None };
    let name = function.name.to_string();
    ["json", "jsonb"].into_iter().find(|cast| *cast == name)
}

/// A record without names, which are `f1`, `f2` and so on in PostgreSQL.
fn record(values: Vec<Expr>) -> Expr {
    let named = values.into_iter().zip(1..).flat_map(|(mut value, at)| {
        mark(&mut value);
        [literal(format!("f{at}")), value]
    });
    call("named_struct", named.collect())
}

/// An aggregate of each argument of an aggregate, as lists in the same order.
fn lists_of(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let of = |arg: &FunctionArg| {
        let list = FunctionArgumentList { args: vec![arg.clone()], ..list.clone() };
        let args = FunctionArguments::List(list);
        Expr::Function(Function { name: Ident::new("array_agg").into(), args, ..function.clone() })
    };
    Some(list.args.iter().map(of).collect())
}
