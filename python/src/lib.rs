//! The native half of the Python package `coscan`: engines, queries, and the conversion of values. The classes that
//! users see are in `python/lib/coscan`, with their documentation; they hold the objects of this module.
//!
//! | module | contents |
//! |---|---|
//! | `core` | an engine with its threads; waiting without holding the interpreter; forks |
//! | `connection` | a connection: an engine in this process, or one that processes share |
//! | `session` | operations of a session: tables, stores, statements |
//! | `shared` | an engine in a process of its own, and connections to it |
//! | `query` | a planned statement, its running stream of rows, and a complete result |
//! | `scan` | scans of a table for the caller's own loops |
//! | `parameters` | Python's values as parameters of statements |
//! | `words` | changes of single words in a statement's text |
//! | `values` | rows as Python's values |
//! | `extension` | cooperative scans for sessions of the package `datafusion` |
//! | `functions` | functions of such sessions that are this library's, too |
//! | `errors` | exceptions |

mod connection;
mod core;
mod errors;
mod extension;
mod functions;
mod parameters;
mod query;
mod scan;
mod session;
mod shared;
mod values;
mod words;

use std::ffi::OsString;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Runs the program `coscan` with these arguments and returns its exit status.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| coscan_cli::run(arguments))
}

/// All settings: name, kind of value, summary, default.
#[pyfunction]
fn settings() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    let row = |setting: &'static coscan_datafusion::options::Setting| {
        (setting.name, setting.value, setting.summary, setting.default)
    };
    coscan_datafusion::options::settings().map(row).collect()
}

#[pymodule]
fn _coscan(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // SAFETY: the thread is attached to an interpreter while it imports.
    if unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) } != 0 {
        return Err(PyImportError::new_err(
            "coscan does not work in subinterpreters: import it in the main interpreter",
        ));
    }
    // One thread carries results to event loops. Queries run on the threads of their engines.
    let mut carrier = tokio::runtime::Builder::new_multi_thread();
    carrier.worker_threads(1).thread_name("coscan-asyncio").enable_time();
    pyo3_async_runtimes::tokio::init(carrier);
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<connection::Connection>()?;
    module.add_class::<extension::Extension>()?;
    module.add_class::<query::Query>()?;
    module.add_class::<query::Rows>()?;
    module.add_class::<query::Table>()?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(shared::host::host, module)?)?;
    module.add_function(wrap_pyfunction!(settings, module)?)
}
