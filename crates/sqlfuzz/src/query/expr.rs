//! Draws expressions of every class of types over the columns in scope.

use super::draw::Drawer;
use super::relation::Named;
use super::{Expr, Item, Query, Select};
use crate::data::kind::Class;
use crate::data::literal;
use crate::data::spread::Code;

const COMPARISONS: [&str; 8] = ["=", "=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"];
const PATTERNS: [&str; 12] =
    ["%", "00%", "%a%", "_0%", "0001ash", "%\\_%", "a%b", "", "%r", "k_%", "%ü%", "0__2%"];

impl Drawer<'_> {
    /// Draws a condition over these columns.
    pub(crate) fn condition(&mut self, scope: &[Named], depth: usize) -> Expr {
        let bool_of = |template: &str, exprs: Vec<Expr>| Expr::of(Class::Bool, template, exprs);
        if depth > 0 {
            let inner = |drawer: &mut Self| drawer.condition(scope, depth - 1);
            match self.dice.below(24) {
                0..=1 => return bool_of("({} AND {})", vec![inner(self), inner(self)]),
                2..=4 => return bool_of("({} OR {})", vec![inner(self), inner(self)]),
                5 => return bool_of("(NOT {})", vec![inner(self)]),
                6 => {
                    return bool_of(
                        "(CASE WHEN {} THEN {} ELSE {} END)",
                        vec![inner(self), inner(self), inner(self)],
                    );
                }
                7 => return bool_of("coalesce({}, {})", vec![inner(self), inner(self)]),
                8 => {
                    let test = *self.dice.pick(&[
                        "IS TRUE",
                        "IS NOT TRUE",
                        "IS FALSE",
                        "IS UNKNOWN",
                        "IS NOT UNKNOWN",
                    ]);
                    return bool_of(&format!("({{}} {test})"), vec![inner(self)]);
                }
                9..=10 => return self.guarded(scope),
                11..=12 if depth > 1 => return self.correlated(scope),
                _ => {}
            }
        }
        match self.dice.below(20) {
            0 => {
                let column = self.dice.pick(scope).expr();
                let test = *self.dice.pick(&["IS NULL", "IS NOT NULL"]);
                bool_of(&format!("({{}} {test})"), vec![column])
            }
            1 if self.shapes.volatile => Expr::text(
                Class::Bool,
                *self.dice.pick(&["(random() < 2)", "(random() >= 0)", "(random() > 1)"]),
            ),
            2..=3 => self.text_test(scope),
            4..=5 => self.in_list(scope),
            6 => {
                let (column, class) = self.comparable(scope);
                let (low, high) = (self.value(class, column.origin), self.value(class, column.origin));
                let not = *self.dice.pick(&["", "", "NOT "]);
                bool_of(&format!("({{}} {not}BETWEEN {{}} AND {{}})"), vec![column.expr(), low, high])
            }
            7..=8 => {
                let class =
                    *self.dice.pick(&[Class::Int, Class::Decimal, Class::Float, Class::Text, Class::Date]);
                let op = *self.dice.pick(&COMPARISONS);
                let (left, right) = (self.expr(class, scope, 1), self.expr(class, scope, 1));
                bool_of(&format!("({{}} {op} {{}})"), vec![left, right])
            }
            9 => match self.column_of(Class::Bool, scope) {
                Some(column) => column,
                None => Expr::literal(Class::Bool, *self.dice.pick(&["true", "false"])),
            },
            _ => {
                let (column, class) = self.comparable(scope);
                let value = self.value(class, column.origin);
                let op = *self.dice.pick(&COMPARISONS);
                if self.dice.one_in(5) {
                    return bool_of(&format!("({{}} {op} {{}})"), vec![value, column.expr()]);
                }
                bool_of(&format!("({{}} {op} {{}})"), vec![column.expr(), value])
            }
        }
    }

    fn text_test(&mut self, scope: &[Named]) -> Expr {
        let text = self.expr(Class::Text, scope, 0);
        let pattern = *self.dice.pick(&PATTERNS);
        let op = *self.dice.pick(&["LIKE", "LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE", "~", "!~", "~*"]);
        let pattern =
            if op.contains('~') { pattern.replace('%', ".*").replace('\\', "") } else { pattern.to_owned() };
        let pattern = Expr::literal(Class::Text, format!("'{pattern}'"));
        match self.dice.below(6) {
            0 => Expr::of(Class::Bool, "starts_with({}, '00')", [text]),
            1 => Expr::of(Class::Bool, "(strpos({}, 'a') > 2)", [text]),
            _ => Expr::of(Class::Bool, &format!("({{}} {op} {{}})"), [text, pattern]),
        }
    }

    fn in_list(&mut self, scope: &[Named]) -> Expr {
        let (column, class) = self.comparable(scope);
        let length = *self.dice.pick(&[1, 2, 3, 5, 8, 40]);
        let mut list: Vec<Expr> = (0..length).map(|_| self.value(class, column.origin)).collect();
        if self.dice.one_in(6) {
            list.push(Expr::text(class, "NULL"));
        }
        let not = *self.dice.pick(&["", "", "", "NOT "]);
        let list = Expr::list(class, "(", list, ")");
        Expr::of(Class::Bool, &format!("({{}} {not}IN {{}})"), [column.expr(), list])
    }

    /// Draws a condition with a part that fails for some rows, and another part that guards it.
    fn guarded(&mut self, scope: &[Named]) -> Expr {
        let class = *self.dice.pick(&[Class::Int, Class::Int, Class::Decimal]);
        let (a, b) = (self.expr(class, scope, 0), self.expr(class, scope, 0));
        let text = self.expr(Class::Text, scope, 0);
        // OR is no guard: DataFusion evaluates both sides unless the first is true for a whole batch. Nor is
        // a CASE of booleans, which it rewrites to AND and OR.
        let (template, exprs) = match self.dice.below(4) {
            0 => ("({} <> 0 AND {} / {} > 1)", vec![b.clone(), a, b]),
            1 => ("(coalesce(CASE WHEN {} = 0 THEN 0 END, {} / {}) > 1)", vec![b.clone(), a, b]),
            2 => ("(CASE WHEN {} = 0 THEN 0 ELSE {} % {} END < 3)", vec![b.clone(), a, b]),
            _ => (
                "(CASE WHEN {} ~ '^[0-9]{1,9}$' THEN CAST({} AS BIGINT) ELSE 7 END > 5)",
                vec![text.clone(), text],
            ),
        };
        Expr::of(Class::Bool, template, exprs)
    }

    /// Draws a condition with a subquery, which is mostly correlated.
    fn correlated(&mut self, scope: &[Named]) -> Expr {
        let inner = self.table();
        let outer = self.dice.pick(scope).clone();
        let same: Vec<Named> =
            inner.scope.iter().filter(|c| c.class == outer.class && c.sorts).cloned().collect();
        let Some(key) = same.first().cloned() else {
            let filter = vec![self.condition(&inner.scope, 0)];
            let query = Query::select(Select { filter, ..Select::of(vec![one()], inner.relation) });
            return Expr::with_query(Class::Bool, "EXISTS ({})", None, query);
        };
        let mut filter = vec![self.condition(&inner.scope, 0)];
        let correlation = Expr::of(Class::Bool, "{} = {}", [key.expr(), outer.expr()]);
        match self.dice.below(4) {
            0..=1 => {
                filter.push(correlation);
                let not = *self.dice.pick(&["", "NOT "]);
                let query = Query::select(Select { filter, ..Select::of(vec![one()], inner.relation) });
                Expr::with_query(Class::Bool, &format!("{not}EXISTS ({{}})"), None, query)
            }
            2 => {
                let not = *self.dice.pick(&["", "NOT "]);
                let items = vec![Item::new(key.expr(), "x0")];
                let query = Query::select(Select { filter, ..Select::of(items, inner.relation) });
                Expr::with_query(Class::Bool, &format!("({{}} {not}IN ({{}}))"), Some(outer.expr()), query)
            }
            _ => {
                let function = if key.extremes_depend_on_order() {
                    "count"
                } else {
                    self.dice.word(&["max", "min", "count"])
                };
                if self.dice.one_in(2) {
                    filter.push(correlation);
                }
                let value = Expr::of(key.class, &format!("{function}({{}})"), [key.expr()]);
                let query = Query::select(Select {
                    filter,
                    ..Select::of(vec![Item::new(value, "x0")], inner.relation)
                });
                let op = *self.dice.pick(&COMPARISONS);
                Expr::with_query(Class::Bool, &format!("({{}} {op} ({{}}))"), Some(outer.expr()), query)
            }
        }
    }

    /// Draws a column that can be compared with literals.
    pub(crate) fn comparable(&mut self, scope: &[Named]) -> (Named, Class) {
        let mut column = self.dice.pick(scope).clone();
        for _ in 0..6 {
            if !matches!(column.class, Class::List | Class::Struct | Class::Map | Class::Null) {
                break;
            }
            column = self.dice.pick(scope).clone();
        }
        let class = column.class;
        (column, class)
    }

    pub(crate) fn column_of(&mut self, class: Class, scope: &[Named]) -> Option<Expr> {
        let fitting: Vec<&Named> = scope.iter().filter(|column| column.class == class).collect();
        if fitting.is_empty() { None } else { Some(self.dice.pick(&fitting).expr()) }
    }

    /// Draws a literal that occurs in the column, if its origin is known. Otherwise draws one of the class.
    pub(crate) fn value(&mut self, class: Class, origin: Option<(usize, usize)>) -> Expr {
        if let Some((table, column)) = origin {
            let rows = self.database.tables[table].rows().max(1);
            let column = &self.database.tables[table].columns[column];
            let row = self.dice.below(rows + rows / 8 + 1) as u64;
            let code = column.spread.code(column.seed, row);
            return Expr::literal(class, literal(&column.kind.arrow(), code));
        }
        let small = Code::Small(self.dice.below(30) as i64 - 3);
        let code = if self.dice.one_in(8) { Code::Special(self.dice.bits() >> 8) } else { small };
        use datafusion::arrow::datatypes::{DataType, TimeUnit};
        let data_type = match class {
            Class::Bool => DataType::Boolean,
            Class::Int => DataType::Int64,
            Class::Float => DataType::Float64,
            Class::Decimal => DataType::Decimal128(9, 2),
            Class::Text => DataType::Utf8,
            Class::Binary => DataType::Binary,
            Class::Date => DataType::Date32,
            Class::Time => DataType::Time64(TimeUnit::Nanosecond),
            Class::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Class::Interval => {
                return Expr::text(class, *self.dice.pick(&["INTERVAL '1 month'", "INTERVAL '3 days'"]));
            }
            Class::Duration => DataType::Duration(TimeUnit::Second),
            _ => return Expr::text(class, "NULL"),
        };
        Expr::literal(class, literal(&data_type, code))
    }

    /// Draws an expression of any class that results may have.
    pub(crate) fn any_expr(&mut self, scope: &[Named], depth: usize) -> Expr {
        let class = *self.dice.pick(&[
            Class::Int,
            Class::Int,
            Class::Decimal,
            Class::Decimal,
            Class::Float,
            Class::Text,
            Class::Text,
            Class::Bool,
            Class::Date,
            Class::Timestamp,
        ]);
        let class = match self.dice.pick(scope).class {
            Class::List | Class::Struct | Class::Map | Class::Null | Class::Interval => class,
            _ if self.dice.one_in(3) => class,
            own => own,
        };
        if self.dice.one_in(10) {
            return self.part_of_nested(scope).unwrap_or_else(|| Expr::text(Class::Int, "1"));
        }
        self.expr(class, scope, depth)
    }

    fn part_of_nested(&mut self, scope: &[Named]) -> Option<Expr> {
        let (class, template) = *self.dice.pick(&[
            (Class::Struct, "get_field({}, 'x')"),
            (Class::List, "{}[1]"),
            (Class::List, "array_length({})"),
            (Class::List, "cardinality({})"),
            (Class::Map, "{}['k1']"),
            (Class::Map, "map_keys({})"),
        ]);
        let column = self.column_of(class, scope)?;
        Some(Expr::of(Class::List, template, [column]))
    }

    /// Draws an expression of the class: a column, a literal, or a computation.
    pub(crate) fn expr(&mut self, class: Class, scope: &[Named], depth: usize) -> Expr {
        if depth == 0 || self.dice.one_in(3) {
            return match self.column_of(class, scope) {
                Some(column) if self.dice.below(8) > 0 => column,
                _ => self.value(class, None),
            };
        }
        let depth = depth - 1;
        if self.shapes.volatile && self.dice.one_in(40) {
            let of = self.expr(class, scope, depth);
            return Expr::of(class, "volatile_same({})", [of]);
        }
        match self.dice.below(8) {
            0 => {
                let condition = self.condition(scope, depth.min(1));
                let (yes, no) = (self.expr(class, scope, depth), self.expr(class, scope, depth));
                return Expr::of(class, "CASE WHEN {} THEN {} ELSE {} END", [condition, yes, no]);
            }
            1 => {
                let function = *self.dice.pick(&["coalesce", "nullif", "greatest", "least"]);
                let (a, b) = (self.expr(class, scope, depth), self.expr(class, scope, depth));
                return Expr::of(class, &format!("{function}({{}}, {{}})"), [a, b]);
            }
            _ => {}
        }
        let text = *self.dice.pick(templates(class));
        let wanted: Vec<Class> = arguments(text, class);
        let exprs: Vec<Expr> = wanted.into_iter().map(|class| self.expr(class, scope, depth)).collect();
        Expr::of(class, &stripped(text), exprs)
    }
}

fn one() -> Item {
    Item::new(Expr::text(Class::Int, "1"), "x0")
}

/// Templates of expressions of a class. Letters in braces give the classes of arguments; the default is the
/// class itself.
fn templates(class: Class) -> &'static [&'static str] {
    match class {
        Class::Bool => {
            &["({} AND {})", "({} OR {})", "(NOT {})", "({i} > {i})", "({t} = {t})", "({d} <= {d})"]
        }
        Class::Int => &[
            "({} + {})",
            "({} - {})",
            "({} * {})",
            "({} / nullif({}, 0))",
            "({} % nullif({}, 0))",
            "abs({})",
            "(- {})",
            "length({t})",
            "character_length({t})",
            "CAST({b} AS INT)",
            "TRY_CAST({t} AS BIGINT)",
            "TRY_CAST({d} AS INT)",
            "TRY_CAST({f} AS SMALLINT)",
            "date_part('month', {s})",
            "extract(day FROM {a})",
            "({} & {})",
            "({} | 3)",
            "ascii({t})",
            "({} / 3)",
            "CAST({} AS BIGINT)",
        ],
        Class::Float => &[
            "({} + {})",
            "({} * {})",
            "({} - {})",
            "({} / {})",
            "CAST({i} AS DOUBLE)",
            "CAST({d} AS DOUBLE)",
            "TRY_CAST({t} AS DOUBLE)",
            "floor({})",
            "round({})",
            "abs({})",
            "sqrt(abs({}))",
            "({} % 2)",
            "CAST({} AS REAL)",
        ],
        Class::Decimal => &[
            "({} + {})",
            "({} - {})",
            "({} * {})",
            "({} / nullif({}, 0))",
            "({} * (1 - {}))",
            "({} + 1)",
            "(2 * {})",
            "({} % nullif({}, 0))",
            "abs({})",
            "round({}, 1)",
            "CAST({i} AS DECIMAL(20, 2))",
            "TRY_CAST({} AS DECIMAL(7, 1))",
            "CAST({} AS DECIMAL(38, 10))",
            "TRY_CAST({t} AS DECIMAL(12, 3))",
            "(- {})",
            "({} * {i})",
        ],
        Class::Text => &[
            "({} || {})",
            "upper({})",
            "lower({})",
            "substr({}, 2, 3)",
            "left({}, 2)",
            "trim({})",
            "replace({}, '0', 'o')",
            "CAST({i} AS VARCHAR)",
            "CAST({d} AS VARCHAR)",
            "CAST({a} AS VARCHAR)",
            "concat({}, '-', {})",
            "reverse({})",
            "lpad({}, 9, '*')",
            "split_part({}, ' ', 1)",
            "CAST({s} AS VARCHAR)",
            "CAST({b} AS VARCHAR)",
        ],
        Class::Date => &[
            "({} + INTERVAL '1 day')",
            "CAST({s} AS DATE)",
            "date_trunc('month', {})",
            "({} - INTERVAL '2 months')",
            "TRY_CAST({t} AS DATE)",
        ],
        Class::Timestamp => &[
            "date_trunc('hour', {})",
            "({} + INTERVAL '1 month')",
            "({} - INTERVAL '90 minutes')",
            "CAST({a} AS TIMESTAMP)",
            "date_bin(INTERVAL '1 day', {})",
            "({} AT TIME ZONE 'America/New_York')",
            "CAST({} AS TIMESTAMP(3))",
            "to_timestamp_seconds({i})",
            "TRY_CAST({t} AS TIMESTAMP)",
        ],
        _ => &["{}"],
    }
}

/// Returns the classes of a template's arguments.
fn arguments(template: &str, own: Class) -> Vec<Class> {
    let marks = template.split('{').skip(1).map(|rest| rest.chars().next());
    marks
        .map(|mark| match mark {
            Some('i') => Class::Int,
            Some('t') => Class::Text,
            Some('d') => Class::Decimal,
            Some('f') => Class::Float,
            Some('b') => Class::Bool,
            Some('a') => Class::Date,
            Some('s') => Class::Timestamp,
            _ => own,
        })
        .collect()
}

/// Returns the template with empty braces.
fn stripped(template: &str) -> String {
    ["i", "t", "d", "f", "b", "a", "s"]
        .iter()
        .fold(template.to_owned(), |text, mark| text.replace(&format!("{{{mark}}}"), "{}"))
}
