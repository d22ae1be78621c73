//! What is computed from the expressions of a query for files of one schema: how their row groups are read.
//!
//! Most files of a table have the same schema. What is computed for the first is used for the following ones as long
//! as all expressions are equal. For each of many wide files it would take more memory than their data.

use std::sync::{Arc, Mutex};

use coscan_operators::Part;
use coscan_operators::short_decimals::{over_short_columns, without_widening};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;

use crate::file::join_filter::JoinFilter;
use crate::file::shared_answers::{Conjunct, SharedAnswers};
use crate::file::variant::Variant;
use crate::file::view::Views;
use crate::lock::lock;

/// What is read of a file, in terms of its schema.
#[derive(Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) projection: ProjectionExprs,
    pub(crate) conjuncts: Vec<Arc<dyn PhysicalExpr>>,
    /// What joins fill.
    pub(crate) join_filters: Vec<Arc<dyn PhysicalExpr>>,
    /// The file's schema, coerced to what the table wants.
    pub(crate) physical_schema: SchemaRef,
    /// The same with short decimals in 64 bits.
    pub(crate) decoding_schema: SchemaRef,
}

/// What all variants of a file, and of other files like it, are made of.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) asked: Asked,
    /// As in `asked`, over `decoding_schema`.
    pub(crate) projection: ProjectionExprs,
    pub(crate) conjuncts: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) join_filters: Vec<JoinFilter>,
    pub(crate) output_schema: SchemaRef,
    pub(crate) marks: bool,
    /// The number of what `projection` makes of the file's columns, if it computes nothing.
    pub(crate) view: Option<u64>,
    /// What is shared of what conjuncts say, and for which partition.
    answers: Option<(Arc<SharedAnswers>, usize)>,
    /// By which conjuncts are decided.
    variants: Mutex<Vec<(Vec<bool>, Arc<Variant>)>>,
}

impl Recipe {
    /// If rows are to be marked, what leaves has short decimals, too. `join_filters` are those of `asked`.
    pub(crate) fn new(
        asked: Asked,
        mut join_filters: Vec<JoinFilter>,
        output_schema: SchemaRef,
        marks: bool,
        views: &Views,
    ) -> Result<Self> {
        let decoding_schema = &asked.decoding_schema;
        let over_short = |expr| over_short_columns(expr, &asked.physical_schema, decoding_schema);
        let mut projection = asked.projection.clone().try_map_exprs(over_short)?;
        if marks {
            projection = projection.try_map_exprs(|expr| without_widening(expr, decoding_schema))?;
        }
        let conjuncts = asked.conjuncts.iter().cloned().map(over_short).collect::<Result<_>>()?;
        for join_filter in &mut join_filters {
            join_filter.filter = over_short(Arc::clone(&join_filter.filter))?;
        }
        let view = views.number(&projection, decoding_schema);
        let (answers, variants) = (None, Mutex::default());
        Ok(Recipe {
            asked,
            projection,
            conjuncts,
            join_filters,
            output_schema,
            marks,
            view,
            answers,
            variants,
        })
    }

    /// The same for a partition that shares what conjuncts say.
    pub(crate) fn sharing(self, answers: &Arc<SharedAnswers>, partition: usize) -> Self {
        Recipe { answers: Some((Arc::clone(answers), partition)), ..self }
    }

    /// What is shared of what a conjunct says, if anything.
    pub(crate) fn shared(&self, conjunct: &Arc<dyn PhysicalExpr>) -> Option<Part<Conjunct>> {
        let (answers, partition) = self.answers.as_ref()?;
        Some(answers.part(conjunct, &self.asked.decoding_schema, *partition))
    }

    /// How to read row groups with these decided conjuncts.
    pub(crate) fn variant(&self, decided: &[bool]) -> Result<Arc<Variant>> {
        let mut variants = lock(&self.variants);
        if let Some((_, known)) = variants.iter().find(|(of, _)| of == decided) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(Variant::new(self, decided)?);
        variants.push((decided.to_vec(), Arc::clone(&made)));
        Ok(made)
    }
}

/// The recipe of the file that was planned last.
#[derive(Debug, Default)]
pub(crate) struct LastRecipe(Mutex<Option<Arc<Recipe>>>);

impl LastRecipe {
    /// The recipe for what is asked of a file, which `make` makes.
    pub(crate) fn of(&self, asked: Asked, make: impl FnOnce(Asked) -> Result<Recipe>) -> Result<Arc<Recipe>> {
        if let Some(last) = lock(&self.0).clone().filter(|last| last.asked == asked) {
            return Ok(last);
        }
        let made = Arc::new(make(asked)?);
        *lock(&self.0) = Some(Arc::clone(&made));
        Ok(made)
    }
}
