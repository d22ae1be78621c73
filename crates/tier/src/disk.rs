//! Atomic file writes, and locks between processes.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// Writes a temporary file and renames it.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_extension("tmp");
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&part, path)).inspect_err(|_| {
        let _ = fs::remove_file(&part);
    })
}

/// Takes a lock if it is free. A child process that is about to run a command shares its parent's open files and
/// their locks. A lock that seems to be taken is therefore tried again for a moment.
pub(crate) fn take(lock: &File) -> Result<(), TryLockError> {
    for _ in 0..LOOKS {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_LOOKS),
            done => return done,
        }
    }
    lock.try_lock()
}

const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
