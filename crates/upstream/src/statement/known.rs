//! The resolution of names in a statement, for DataFusion's SQL planner.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableFunctionArgs;
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, ResolvedTableReference, Result, TableReference, plan_datafusion_err};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::var_provider::{VarType, is_system_variables};
use datafusion::logical_expr::{AggregateUDF, Expr, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::ParserOptions;

use crate::statement::repeated::OwnNames;
use crate::statement::using::MergedColumns;

/// Returns the session's SQL options.
pub(crate) fn options(state: &SessionState) -> ParserOptions {
    let of = &state.config_options().sql_parser;
    ParserOptions {
        parse_float_as_decimal: of.parse_float_as_decimal,
        enable_ident_normalization: of.enable_ident_normalization,
        enable_options_value_normalization: of.enable_options_value_normalization,
        support_varchar_with_length: of.support_varchar_with_length,
        map_string_types_to_utf8view: of.map_string_types_to_utf8view,
        collect_spans: of.collect_spans,
        default_null_ordering: of.default_null_ordering.as_str().into(),
    }
}

/// The tables that a statement reads, and the session's functions.
pub(crate) struct Known<'a> {
    state: &'a SessionState,
    tables: HashMap<ResolvedTableReference, Arc<dyn TableSource>>,
    types: Option<Arc<dyn TypePlanner>>,
    relations: Vec<Arc<dyn RelationPlanner>>,
}

impl<'a> Known<'a> {
    /// Looks up the tables of a statement. `types` knows the type names that a cast may use.
    pub(crate) async fn of(
        state: &'a SessionState,
        statement: &Statement,
        types: Option<Arc<dyn TypePlanner>>,
    ) -> Result<Self> {
        let own: [Arc<dyn RelationPlanner>; 2] = [Arc::new(MergedColumns), Arc::new(OwnNames)];
        let relations = own.into_iter().chain(state.relation_planners().iter().cloned()).collect();
        let mut known = Known { state, tables: HashMap::new(), types, relations };
        for reference in state.resolve_table_references(statement)? {
            let name = known.resolved(reference);
            if let Ok(schema) = state.schema_for_ref(name.clone())
                && let Some(table) = schema.table(&name.table).await?
            {
                known.tables.insert(name, provider_as_source(table));
            }
        }
        Ok(known)
    }

    /// The session.
    pub(crate) fn state(&self) -> &SessionState {
        self.state
    }

    /// Returns whether unquoted names are folded to lower case.
    pub(crate) fn folds_names(&self) -> bool {
        self.state.config_options().sql_parser.enable_ident_normalization
    }

    fn resolved(&self, name: TableReference) -> ResolvedTableReference {
        let catalog = &self.state.config_options().catalog;
        name.resolve(&catalog.default_catalog, &catalog.default_schema)
    }
}

impl ContextProvider for Known<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let name = self.resolved(name);
        self.tables.get(&name).cloned().ok_or_else(|| plan_datafusion_err!("table '{name}' not found"))
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let function = self.state.table_functions().get(name).cloned();
        let function = function.ok_or_else(|| plan_datafusion_err!("table function '{name}' not found"))?;
        let start = self.state.execution_props().query_execution_start_time;
        let context = SimplifyContext::builder()
            .with_config_options(self.state.config_options().clone())
            .with_query_execution_start_time(start)
            .build();
        let (simplifier, schema) = (ExprSimplifier::new(context), DFSchema::empty());
        let constant = |arg| simplifier.coerce(arg, &schema).and_then(|arg| simplifier.simplify(arg));
        let args = args.into_iter().map(constant).collect::<Result<Vec<_>>>()?;
        let table = function.create_table_provider_with_args(TableFunctionArgs::new(&args, self.state))?;
        Ok(provider_as_source(table))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relations
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        self.types.clone()
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.state.scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, names: &[String]) -> Option<DataType> {
        let of = if is_system_variables(names) { VarType::System } else { VarType::UserDefined };
        self.state.execution_props().get_var_provider(of)?.get_type(names)
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}
