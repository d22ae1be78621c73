//! Relations with merged columns: joined tables whose columns keep their qualifiers, and merged columns with
//! another qualifier.
//!
//! SQL cannot give a computed column a qualifier beside those of other tables. So such a relation is written
//! as a subquery whose name begins with [`MERGED`], and planned here.

use datafusion::common::{Column, Result, TableReference};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::TableFactor;

/// The prefix of the names of relations with merged columns, and of these columns while they have no
/// qualifier.
pub(crate) const MERGED: &str = "coscan merged ";

/// Plans such relations.
#[derive(Debug)]
pub(crate) struct MergedColumns;

impl RelationPlanner for MergedColumns {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Derived { alias, .. } = &mut relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let Some(alias) = alias.take_if(|alias| alias.name.value.starts_with(MERGED)) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let plan = context.plan(relation)?;
        let name = TableReference::bare(alias.name.value);
        let columns: Vec<Expr> =
            plan.schema().columns().into_iter().map(|column| qualified(column, &name)).collect();
        let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// Returns the column, with the qualifier if it is a merged one.
fn qualified(column: Column, relation: &TableReference) -> Expr {
    let name = match &column.relation {
        None => column.name.strip_prefix(MERGED).map(str::to_owned),
        Some(_) => None,
    };
    match name {
        Some(name) => Expr::Column(column).alias_qualified(Some(relation.clone()), name),
        None => Expr::Column(column),
    }
}
