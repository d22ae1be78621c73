//! Methods of DataFusion's traits that compile in little time.
//!
//! A method of `async_trait` has lifetimes with bounds. Under bounds the compiler proves for each method by itself that the
//! future is `Send`. Where the future holds a plan or an expression, the proof visits all types below
//! [`LogicalPlan`](datafusion::logical_expr::LogicalPlan), which took seven seconds a method, nine tenths of the time to check
//! `coscan-datafusion`. In a function without bounds the compiler proves each type once for the crate.

/// Implements a method of a trait by an `async` method of the type, `boxed!(Type::method as method_of_the_trait)`, inside of
/// the trait's `impl`, without `#[async_trait]`.
///
/// It knows `create_physical_plan` of `QueryPlanner`, `create` of `TableProviderFactory`, `try_new` of `UrlTableFactory`, and
/// `scan`, `scan_with_args` and `insert_into` of `TableProvider`. The crate needs `datafusion` and `futures`.
#[macro_export]
macro_rules! boxed {
    ($type:ident::$method:ident as create_physical_plan) => {
        fn create_physical_plan<'s, 'l, 'c, 'f>(
            &'s self,
            logical: &'l ::datafusion::logical_expr::LogicalPlan,
            session: &'c dyn ::datafusion::catalog::Session,
        ) -> $crate::Boxed<'f, ::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>
        where
            's: 'f,
            'l: 'f,
            'c: 'f,
        {
            fn boxed<'f>(
                this: &'f $type,
                logical: &'f ::datafusion::logical_expr::LogicalPlan,
                session: &'f dyn ::datafusion::catalog::Session,
            ) -> $crate::Boxed<'f, ::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
                ::std::boxed::Box::pin(this.$method(logical, session))
            }
            boxed(self, logical, session)
        }
    };
    ($type:ident::$method:ident as create) => {
        fn create<'s, 'c, 'd, 'f>(
            &'s self,
            session: &'c dyn ::datafusion::catalog::Session,
            command: &'d ::datafusion::logical_expr::CreateExternalTable,
        ) -> $crate::Boxed<'f, ::std::sync::Arc<dyn ::datafusion::catalog::TableProvider>>
        where
            's: 'f,
            'c: 'f,
            'd: 'f,
        {
            fn boxed<'f>(
                this: &'f $type,
                session: &'f dyn ::datafusion::catalog::Session,
                command: &'f ::datafusion::logical_expr::CreateExternalTable,
            ) -> $crate::Boxed<'f, ::std::sync::Arc<dyn ::datafusion::catalog::TableProvider>> {
                ::std::boxed::Box::pin(this.$method(session, command))
            }
            boxed(self, session, command)
        }
    };
    ($type:ident::$method:ident as try_new) => {
        fn try_new<'s, 'n, 'f>(
            &'s self,
            name: &'n str,
        ) -> $crate::Boxed<'f, Option<::std::sync::Arc<dyn ::datafusion::catalog::TableProvider>>>
        where
            's: 'f,
            'n: 'f,
        {
            fn boxed<'f>(
                this: &'f $type,
                name: &'f str,
            ) -> $crate::Boxed<'f, Option<::std::sync::Arc<dyn ::datafusion::catalog::TableProvider>>> {
                ::std::boxed::Box::pin(this.$method(name))
            }
            boxed(self, name)
        }
    };
    ($type:ident::$method:ident as scan) => {
        fn scan<'s, 'c, 'p, 'e, 'f>(
            &'s self,
            session: &'c dyn ::datafusion::catalog::Session,
            projection: Option<&'p Vec<usize>>,
            filters: &'e [::datafusion::logical_expr::Expr],
            limit: Option<usize>,
        ) -> $crate::Boxed<'f, ::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>
        where
            's: 'f,
            'c: 'f,
            'p: 'f,
            'e: 'f,
        {
            fn boxed<'f>(
                this: &'f $type,
                session: &'f dyn ::datafusion::catalog::Session,
                projection: Option<&'f Vec<usize>>,
                filters: &'f [::datafusion::logical_expr::Expr],
                limit: Option<usize>,
            ) -> $crate::Boxed<'f, ::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
                ::std::boxed::Box::pin(this.$method(session, projection, filters, limit))
            }
            boxed(self, session, projection, filters, limit)
        }
    };
    ($type:ident::$method:ident as scan_with_args) => {
        fn scan_with_args<'a, 's, 'c, 'f>(
            &'s self,
            session: &'c dyn ::datafusion::catalog::Session,
            args: ::datafusion::catalog::ScanArgs<'a>,
        ) -> $crate::Boxed<'f, ::datafusion::catalog::ScanResult>
        where
            'a: 'f,
            's: 'f,
            'c: 'f,
        {
            fn boxed<'f>(
                this: &'f $type,
                session: &'f dyn ::datafusion::catalog::Session,
                args: ::datafusion::catalog::ScanArgs<'f>,
            ) -> $crate::Boxed<'f, ::datafusion::catalog::ScanResult> {
                ::std::boxed::Box::pin(this.$method(session, args))
            }
            boxed(self, session, args)
        }
    };
    ($type:ident::$method:ident as insert_into) => {
        fn insert_into<'s, 'c, 'f>(
            &'s self,
            session: &'c dyn ::datafusion::catalog::Session,
            input: ::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>,
            operation: ::datafusion::logical_expr::dml::InsertOp,
        ) -> $crate::Boxed<'f, ::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>
        where
            's: 'f,
            'c: 'f,
        {
            fn boxed<'f>(
                this: &'f $type,
                session: &'f dyn ::datafusion::catalog::Session,
                input: ::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>,
                operation: ::datafusion::logical_expr::dml::InsertOp,
            ) -> $crate::Boxed<'f, ::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
                ::std::boxed::Box::pin(this.$method(session, input, operation))
            }
            boxed(self, session, input, operation)
        }
    };
}

/// The future of a method of [`boxed!`](crate::boxed).
pub type Boxed<'f, T> = futures::future::BoxFuture<'f, datafusion::common::Result<T>>;
