//! The recipe for files of one schema: the query's expressions over it, and the variants of reading row
//! groups.
//!
//! Most files of a table have the same schema. The recipe of the first file serves the following ones as long
//! as all expressions are equal. A recipe per file would take more memory than the data of many wide files.

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

/// The expressions of a scan over a file, in terms of its schema.
#[derive(Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) projection: ProjectionExprs,
    pub(crate) conjuncts: Vec<Arc<dyn PhysicalExpr>>,
    /// Filters that joins fill.
    pub(crate) join_filters: Vec<Arc<dyn PhysicalExpr>>,
    /// The file's schema, coerced to the table's types.
    pub(crate) physical_schema: SchemaRef,
    /// The same with short decimals in 64 bits.
    pub(crate) decoding_schema: SchemaRef,
}

/// The common base of all variants of a file, and of other files like it.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) asked: Asked,
    /// As in `asked`, over `decoding_schema`.
    pub(crate) projection: ProjectionExprs,
    pub(crate) conjuncts: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) join_filters: Vec<JoinFilter>,
    pub(crate) output_schema: SchemaRef,
    pub(crate) marks: bool,
    /// The view number of `projection`, if it computes nothing.
    pub(crate) view: Option<u64>,
    /// The shared answers of conjuncts, and the partition that uses them.
    answers: Option<(Arc<SharedAnswers>, usize)>,
    /// By the decided conjuncts.
    variants: Mutex<Vec<(Vec<bool>, Arc<Variant>)>>,
}

impl Recipe {
    /// Builds a recipe. With `marks`, its output has short decimals, too. `join_filters` are those of
    /// `asked`.
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

    /// Shares the answers of conjuncts, for this partition.
    pub(crate) fn sharing(self, answers: &Arc<SharedAnswers>, partition: usize) -> Self {
        Recipe { answers: Some((Arc::clone(answers), partition)), ..self }
    }

    /// Returns the share of a conjunct in the answers of other queries, if it has one.
    pub(crate) fn shared(&self, conjunct: &Arc<dyn PhysicalExpr>) -> Option<Part<Conjunct>> {
        let (answers, partition) = self.answers.as_ref()?;
        Some(answers.part(conjunct, &self.asked.decoding_schema, *partition))
    }

    /// Returns the variant for these decided conjuncts.
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
    /// Returns the last recipe if its expressions are equal. Otherwise makes one with `make`.
    pub(crate) fn of(&self, asked: Asked, make: impl FnOnce(Asked) -> Result<Recipe>) -> Result<Arc<Recipe>> {
        if let Some(last) = lock(&self.0).clone().filter(|last| last.asked == asked) {
            return Ok(last);
        }
        let made = Arc::new(make(asked)?);
        *lock(&self.0) = Some(Arc::clone(&made));
        Ok(made)
    }
}
