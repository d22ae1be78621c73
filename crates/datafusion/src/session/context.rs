//! A session together with its engine: the short way to cooperative SQL.
//!
//! For a session with its own rules, functions or catalogs use [`crate::session::install`].

use std::sync::Arc;

use coscan_engine::{Engine, Policy, memory_bytes};
use coscan_upstream::PlainSql;
use datafusion::common::{DataFusionError, ParamValues, Result};
use datafusion::dataframe::DataFrame;
use datafusion::execution::cache::cache_manager::{
    DEFAULT_FILE_STATISTICS_MEMORY_LIMIT, DEFAULT_METADATA_CACHE_LIMIT,
};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::error::from_engine;
use crate::load_control::{QueryPool, lender_of};
use crate::options::CoscanOptions;
use crate::session::install::install;
use crate::session::url_tables::with_url_tables;
use crate::stores::EnvironmentStores;

/// A DataFusion session whose scans are cooperative, and the engine that they use.
///
/// Cloning is cheap; clones share session and engine.
///
/// ```
/// use coscan_datafusion::CoscanContext;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::common::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("numbers.parquet").display().to_string();
/// let coscan = CoscanContext::builder().set("policy", "relevance").set("buffer", "64MB").build()?;
/// # coscan.sql(&format!("COPY (SELECT 1 AS n UNION ALL SELECT 2) TO '{path}'")).await?.collect().await?;
/// coscan.register_parquet("numbers", &path).await?;
/// let batches = coscan.sql("SELECT n FROM numbers").await?.collect().await?;
/// assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CoscanContext {
    /// The session.
    pub ctx: SessionContext,
    /// The engine.
    pub engine: Engine,
}

impl CoscanContext {
    /// Starts a builder with default settings.
    pub fn builder() -> CoscanContextBuilder {
        CoscanContextBuilder::default()
    }

    /// Registers a Parquet file or a folder of them, local or `s3://`, `gs://`, `az://`, `http(s)://`.
    ///
    /// A folder with levels of the form `key=value` becomes a table partitioned by these keys. Unregistered
    /// stores are configured from environment variables ([`EnvironmentStores`]). `docs/tables.md` describes
    /// which files are read, and the columns of the table.
    ///
    /// # Errors
    /// If the name is taken, the location cannot be listed, or a footer cannot be read.
    pub async fn register_parquet(&self, name: &str, path_or_url: &str) -> Result<()> {
        self.register_parquet_with(name, path_or_url, &[]).await
    }

    /// Registers a table as [`Self::register_parquet`] does, with options such as
    /// `("coscan.clustered_with", "orders (l_orderkey = o_orderkey)")`.
    ///
    /// # Errors
    /// As [`Self::register_parquet`], or if an option is unknown or has an invalid value.
    pub async fn register_parquet_with(
        &self,
        name: &str,
        path_or_url: &str,
        options: &[(&str, &str)],
    ) -> Result<()> {
        self.register_parquet_files(name, &[path_or_url], options).await
    }

    /// Registers the files at several paths or URLs of one store as one table, as
    /// [`Self::register_parquet_with`] does.
    ///
    /// # Errors
    /// As [`Self::register_parquet_with`], or if two locations are equal or in different stores.
    pub async fn register_parquet_files(
        &self,
        name: &str,
        paths_or_urls: &[&str],
        options: &[(&str, &str)],
    ) -> Result<()> {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let locations: Vec<_> = paths_or_urls.iter().map(|location| quoted(location)).collect();
        let (name, locations) = (name.replace('"', "\"\""), locations.join(", "));
        let mut sql = format!("CREATE EXTERNAL TABLE \"{name}\" STORED AS PARQUET LOCATION ({locations})");
        let options = options.iter().map(|(key, value)| format!("{} {}", quoted(key), quoted(value)));
        let options = options.collect::<Vec<_>>().join(", ");
        if !options.is_empty() {
            sql += &format!(" OPTIONS ({options})");
        }
        self.ctx.plain_sql(&sql).await?.collect().await?;
        Ok(())
    }

    /// Plans a statement as [`coscan_datafusion::sql`](crate::sql) does. `SET` and `CREATE` take effect at
    /// once.
    ///
    /// # Errors
    /// If the statement cannot be parsed or planned, or a setting has an invalid value.
    pub async fn sql(&self, sql: &str) -> Result<DataFrame> {
        coscan_upstream::sql(&self.ctx, sql).await
    }

    /// Plans and starts a statement with the values of its parameters, `$1` and so on, or `$name`.
    ///
    /// # Errors
    /// As [`sql`](Self::sql), and if a parameter has no value.
    pub async fn sql_with_values(&self, sql: &str, values: ParamValues) -> Result<DataFrame> {
        coscan_upstream::sql_with_values(&self.ctx, sql, values).await
    }

    /// Opens another session on the same engine, with its own tables and `SET`s, and with the formats of tables
    /// that this one knows. It must not change settings of the engine, unless the [`CoscanOptions`] in
    /// `config` make it an administrator.
    pub fn new_session(&self, config: SessionConfig) -> SessionContext {
        let builder = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(self.ctx.runtime_env())
            .with_default_features()
            .with_table_factories(self.ctx.state().table_factories().clone());
        SessionContext::new_with_state(install(builder, self.engine.clone()).build())
    }
}

/// Builds a [`CoscanContext`].
#[derive(Default)]
pub struct CoscanContextBuilder {
    settings: Vec<(String, String)>,
    from_env: bool,
    config: Option<SessionConfig>,
    target_partitions: Option<usize>,
    memory_limit_bytes: Option<usize>,
    engine: Option<Engine>,
    own_policy: Option<Policy>,
    process_memory_bytes: Option<u64>,
    administrator: Option<bool>,
    url_tables: bool,
}

impl CoscanContextBuilder {
    /// Sets `coscan.<name>`, like `SET`; see [`crate::options::settings`].
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the sharing policy by name.
    pub fn policy(self, policy: &str) -> Self {
        self.set("policy", policy)
    }

    /// Sets a custom sharing policy. A policy that is set by name takes precedence.
    pub fn own_policy(mut self, policy: Policy) -> Self {
        self.own_policy = Some(policy);
        self
    }

    /// Sets the size of the buffer, in bytes.
    pub fn buffer_bytes(self, bytes: u64) -> Self {
        self.set("buffer", &bytes.to_string())
    }

    /// Sets the limit on all reads together, in bytes per second.
    pub fn read_limit(self, bytes_per_s: u64) -> Self {
        self.set("read_limit", &bytes_per_s.to_string())
    }

    /// Takes settings that are not set here from `COSCAN_*` environment variables.
    pub fn from_env(mut self) -> Self {
        self.from_env = true;
        self
    }

    /// Sets DataFusion's own configuration.
    pub fn session_config(mut self, config: SessionConfig) -> Self {
        self.config = Some(config);
        self
    }

    /// Sets the number of partitions of a query.
    pub fn target_partitions(mut self, partitions: usize) -> Self {
        self.target_partitions = Some(partitions);
        self
    }

    /// Sets the memory for sorts, joins and aggregates, in bytes. The engine's buffer is separate. On an
    /// engine that this session starts, the limit is for all sessions together (`coscan.query_memory`). On an
    /// existing engine it is for this session.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory_limit_bytes = Some(bytes);
        self
    }

    /// Uses an existing engine. Settings of the engine then have no effect.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = Some(engine);
        self
    }

    /// Sets the memory of which the default buffer is a share, in bytes. The default is the memory that the
    /// machine and the control group allow.
    pub fn process_memory(mut self, bytes: u64) -> Self {
        self.process_memory_bytes = Some(bytes);
        self
    }

    /// Sets whether `SET` in this session may change settings of the engine, which apply to all its sessions.
    /// By default it may if the session starts its engine, and may not on an existing engine.
    pub fn administrator(mut self, allowed: bool) -> Self {
        self.administrator = Some(allowed);
        self
    }

    /// Allows `SELECT * FROM 'file.parquet'`, for names with a slash, a dot or a star. Then every user of SQL
    /// can read any file of this process.
    pub fn url_tables(mut self, allowed: bool) -> Self {
        self.url_tables = allowed;
        self
    }

    /// Starts the engine and opens the session.
    ///
    /// # Errors
    ///
    /// If a setting is unknown or impossible.
    pub fn build(self) -> Result<CoscanContext> {
        let mut options = if self.from_env { CoscanOptions::from_env()? } else { CoscanOptions::default() };
        for (name, value) in &self.settings {
            options.set_value(name, value)?;
        }
        let mut config = self.config.unwrap_or_default().with_information_schema(true);
        if let Some(partitions) = self.target_partitions {
            config = config.with_target_partitions(partitions);
        }
        options.administrator = self.administrator.unwrap_or(self.engine.is_none());
        let own_engine = self.engine.is_none();
        let memory = self.process_memory_bytes.unwrap_or_else(memory_bytes);
        let engine = match self.engine {
            Some(engine) => engine,
            None => {
                let settings = options.engine_settings.resolve(memory, config.target_partitions());
                let mut settings =
                    settings.map_err(|error| DataFusionError::Configuration(error.to_string()))?;
                if let Some(policy) = self.own_policy
                    && options.engine_settings.get("policy").is_none()
                {
                    settings.policy = policy;
                }
                Engine::new(settings).map_err(from_engine)?
            }
        };
        let lender = own_engine.then(|| {
            let given = self.memory_limit_bytes.map(|bytes| bytes as u64);
            options.query_memory = options.query_memory.or(given);
            lender_of(&engine, options.query_memory, memory)
        });
        config.options_mut().extensions.insert(options);
        let files = engine.files_bytes_max() as usize;
        // Listings are not cached, so that a replaced file is seen.
        let mut runtime = RuntimeEnvBuilder::new()
            .with_object_list_cache_limit(0)
            .with_metadata_cache_limit(files.max(DEFAULT_METADATA_CACHE_LIMIT))
            .with_file_statistics_cache_limit((files / 2).max(DEFAULT_FILE_STATISTICS_MEMORY_LIMIT))
            .with_object_store_registry(Arc::new(EnvironmentStores::default()));
        runtime = match (lender, self.memory_limit_bytes) {
            (Some(lender), _) => {
                runtime.with_memory_pool(Arc::new(QueryPool::outside(lender, engine.clone())))
            }
            (None, Some(bytes)) => runtime.with_memory_limit(bytes, 1.0),
            (None, None) => runtime,
        };
        let builder = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime.build_arc()?)
            .with_default_features();
        let mut ctx = SessionContext::new_with_state(install(builder, engine.clone()).build());
        if self.url_tables {
            ctx = with_url_tables(ctx);
        }
        Ok(CoscanContext { ctx, engine })
    }
}
