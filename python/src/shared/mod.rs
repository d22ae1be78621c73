//! An engine that several processes of one user share.
//!
//! It runs in a process of its own, the host, which the first connection starts (`python/lib/coscan/shared.py`) and which
//! ends when it has had no connection for a while. A connection is one HTTP/2 connection over a Unix socket, by Arrow
//! Flight: requests are actions, rows are streams. Its session, with its tables and settings, ends with it.
//!
//! | module | contents |
//! |---|---|
//! | `host` | the process: its socket, which connections it takes, its end |
//! | `service` | requests and streams of a connection |
//! | `paths` | paths relative to the folder of the client |
//! | `client` | the other end |

pub(crate) mod client;
pub(crate) mod host;
mod paths;
mod service;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{DataFusionError, ParamValues, Result, ScalarValue};
use serde::{Deserialize, Serialize};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::errors::{Failure, failure};
use crate::scan::Scan;
use crate::session::{Pairs, Start};

/// The type of all actions; their bodies are [`Request`]s.
const ACTION: &str = "coscan";

/// The key of a status for the class of the exception.
const CLASS: &str = "coscan-class";

/// Bytes of a stream, and of a frame of it, that are on their way at once. HTTP/2 begins with 64 and 16 KiB, for networks.
const WINDOW_BYTES: u32 = 16 << 20;
const FRAME_BYTES: u32 = 1 << 20;

/// What a client asks for. The answer is a JSON value, and after it the schema of a statement.
#[derive(Debug, Deserialize, Serialize)]
enum Request {
    /// Begins the session. `start` is the engine that the client would have started.
    Open {
        start: Start,
        folder: PathBuf,
    },
    Plan {
        sql: String,
        given: Option<Given>,
    },
    Explain {
        statement: u64,
        verbose: bool,
        analyze: bool,
    },
    Limit {
        statement: u64,
        rows: usize,
    },
    Forget {
        statement: u64,
    },
    RegisterFiles {
        name: String,
        locations: Vec<String>,
        options: Pairs,
    },
    RegisterStore {
        address: String,
        options: Pairs,
    },
    Attach {
        name: String,
        address: String,
    },
    Deregister {
        name: String,
    },
    Tables,
    Stats,
    Chunks {
        cells: usize,
    },
}

/// Which rows a stream has.
#[derive(Debug, Deserialize, Serialize)]
enum Stream {
    Statement(u64),
    Scan(Scan),
}

/// Values of parameters: a batch with one row in Arrow's format. A list is for `$1`, otherwise columns have names.
#[derive(Debug, Deserialize, Serialize)]
struct Given {
    is_list: bool,
    row: Vec<u8>,
}

impl Given {
    fn new(values: ParamValues) -> Result<Self> {
        let (is_list, values) = match values {
            ParamValues::List(values) => {
                (true, values.into_iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect())
            }
            ParamValues::Map(values) => (false, values.into_iter().collect::<Vec<_>>()),
        };
        let mut row = Vec::new();
        if !values.is_empty() {
            let columns = values.iter().map(|(name, value)| Ok((name, value.value.to_array()?)));
            let batch = RecordBatch::try_from_iter_with_nullable(
                columns.collect::<Result<Vec<_>>>()?.into_iter().map(|(name, array)| (name, array, true)),
            )?;
            let mut writer = StreamWriter::try_new(&mut row, &batch.schema())?;
            writer.write(&batch)?;
            writer.finish()?;
        }
        Ok(Given { is_list, row })
    }

    fn values(&self) -> Result<ParamValues> {
        let batch = match self.row.as_slice() {
            [] => RecordBatch::new_empty(Arc::new(Schema::empty())),
            row => StreamReader::try_new(row, None)?.next().transpose()?.ok_or_else(|| {
                DataFusionError::Internal("the values of parameters are missing".to_owned())
            })?,
        };
        let value =
            |at: usize| Ok(ScalarAndMetadata::from(ScalarValue::try_from_array(batch.column(at), 0)?));
        if self.is_list {
            return Ok(ParamValues::List((0..batch.num_columns()).map(value).collect::<Result<_>>()?));
        }
        let named = |(at, field): (usize, &Arc<Field>)| Ok((field.name().clone(), value(at)?));
        let schema = batch.schema();
        Ok(ParamValues::Map(
            schema.fields().iter().enumerate().map(named).collect::<Result<HashMap<_, _>>>()?,
        ))
    }
}

/// An error as an answer.
fn status(error: &DataFusionError) -> Status {
    let failure = failure(error);
    let mut status = Status::new(Code::Unknown, failure.text);
    if let Ok(class) = MetadataValue::try_from(failure.class.as_str()) {
        status.metadata_mut().insert(CLASS, class);
    }
    status
}

/// The error of an answer. Without a class it is one of the connection.
fn error_of(status: &Status) -> DataFusionError {
    let class = status.metadata().get(CLASS).and_then(|class| class.to_str().ok());
    let failure = match class {
        Some(class) => Failure { class: class.to_owned(), text: status.message().to_owned() },
        None => Failure {
            class: "OperationalError".to_owned(),
            text: format!("the shared engine does not answer, it may have been ended: {}", status.message()),
        },
    };
    DataFusionError::External(Box::new(failure))
}
