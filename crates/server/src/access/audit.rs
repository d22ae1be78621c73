//! The audit log: one JSON object per line for every login, refusal and statement.
//!
//! The acting thread writes each line under a lock with one write. Lines of several threads therefore do not mix,
//! and the file has the line before the thread continues. The log has the text of statements, but never passwords or
//! tokens. A new file can be read by its owner only.
//!
//! If a line cannot be written, for example because the disk is full, the next login or statement tries again. By default
//! it is refused as long as that fails.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

use crate::error::ServeError;

/// The audit log's file, if there is one.
#[derive(Debug, Default)]
pub struct Audit {
    path: Option<PathBuf>,
    /// Set if logins and statements are refused without the log.
    must_work: bool,
    file: Mutex<Option<File>>,
    failing: AtomicBool,
}

impl Audit {
    /// Opens the file for appending.
    pub(crate) fn open(path: Option<&Path>, must_work: bool) -> Result<Self, ServeError> {
        let path = path.map(Path::to_owned);
        let audit = Audit { path, must_work, file: Mutex::default(), failing: AtomicBool::new(false) };
        audit.reopen()?;
        Ok(audit)
    }

    /// Opens the file again, after it was renamed by log rotation.
    pub(crate) fn reopen(&self) -> Result<(), ServeError> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path);
        let file = file.map_err(|error| ServeError::file("the audit log", path, error))?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(())
    }

    /// Writes a line: the event, the user, and further fields.
    pub fn write(&self, event: &str, user: &str, more: &[(&str, Value)]) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = file.as_mut() else { return };
        let mut line = Map::new();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        line.insert("unix_s".to_owned(), unix.as_secs_f64().into());
        line.insert("event".to_owned(), event.into());
        line.insert("user".to_owned(), user.into());
        for (name, value) in more {
            line.insert((*name).to_owned(), value.clone());
        }
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        match file.write_all(text.as_bytes()) {
            Ok(()) => self.failing.store(false, Ordering::Relaxed),
            Err(error) => {
                self.failing.store(true, Ordering::Relaxed);
                tracing::error!(%error, "the audit log cannot be written");
            }
        }
    }

    /// Returns true if logins and statements may continue. If the last line could not be written, writes another one.
    pub(crate) fn may_go_on(&self) -> bool {
        if self.must_work && self.failing.load(Ordering::Relaxed) {
            self.write("audit log continues", "", &[]);
        }
        !(self.must_work && self.failing.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_json_and_survive_being_moved_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let audit = Audit::open(Some(&path), true).unwrap();
        audit.write("statement", "ann\n", &[("sql", "SELECT '\n'".into()), ("rows", 3.into())]);
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        audit.reopen().unwrap();
        audit.write("login", "bob", &[]);
        let old = std::fs::read_to_string(folder.path().join("old")).unwrap();
        let line: Value = serde_json::from_str(old.trim_end()).unwrap();
        assert_eq!((line["user"].as_str(), line["rows"].as_u64()), (Some("ann\n"), Some(3)));
        assert_eq!(old.lines().count(), 1);
        assert!(std::fs::read_to_string(&path).unwrap().contains("bob"));
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions()) & 0o77,
            0
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_stops_those_who_need_the_log() {
        let full = Some(Path::new("/dev/full"));
        for must_work in [true, false] {
            let audit = Audit::open(full, must_work).unwrap();
            assert!(audit.may_go_on());
            audit.write("login", "ann", &[]);
            assert_eq!(audit.may_go_on(), !must_work);
        }
    }
}
