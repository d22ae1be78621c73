//! Files that appear under their name only when they are complete.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A file under its temporary name. It is removed unless it is published.
pub struct Partial {
    /// The file to write to.
    pub file: File,
    /// Its temporary name.
    pub at: PathBuf,
    target: PathBuf,
    published: bool,
}

impl Partial {
    /// Creates the temporary file. `target` is unchanged until [`publish`](Self::publish).
    pub fn create(target: &Path) -> anyhow::Result<Self> {
        let name = target.file_name().context("no file name")?.to_string_lossy();
        let at = target.with_file_name(format!(".{name}.partial"));
        let file = File::options().create(true).truncate(false).write(true).open(&at)?;
        // The file of a killed run is overwritten; the file of a running one is not.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("another coscan is writing it just now; wait for that to finish")
            }
            Err(TryLockError::Error(error)) => tracing::debug!(%error, "the file system has no locks"),
        }
        file.set_len(0)?;
        Ok(Partial { file, at, target: target.to_owned(), published: false })
    }

    /// Flushes the file and renames it to its name.
    pub fn publish(mut self) -> anyhow::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.at, &self.target)?;
        self.published = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.published {
            // A file that cannot be removed stays.
            let _ = fs::remove_file(&self.at);
        }
    }
}
