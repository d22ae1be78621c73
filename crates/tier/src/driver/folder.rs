//! A folder whose files are recalled and released by commands, as with an HSM or LTFS.
//!
//! A command gets one path, runs in a process group of its own, and is killed when it takes too long.

use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use object_store::local::LocalFileSystem;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::config::{Folder, TierConfig};
use crate::driver::{Driver, Ledger, Opened};
use crate::error::TierError;
use crate::fragment::Fragment;

/// Maximum bytes of a command's output that are kept for its error.
const SAID_BYTES_MAX: u64 = 400;

/// Time limit of the short commands, `release` and `online`.
const SHORT: Duration = Duration::from_secs(60);

/// The first pause between two runs of `online`.
const FIRST_LOOK: Duration = Duration::from_millis(50);

#[derive(Debug)]
struct Commands {
    tier: String,
    folder: Folder,
}

pub(super) fn open(config: &TierConfig, folder: &Folder) -> Result<Opened, TierError> {
    let store = LocalFileSystem::new();
    let driver = Commands { tier: config.name.clone(), folder: folder.clone() };
    Ok((Arc::new(store), Arc::new(driver)))
}

#[async_trait]
impl Driver for Commands {
    async fn is_online(&self, fragment: &Fragment) -> Result<bool, TierError> {
        let Some(command) = &self.folder.online else { return Ok(false) };
        let ended = self.run(command, fragment, SHORT).await?;
        match ended.status.code() {
            Some(0) => Ok(true),
            // A shell that cannot run the command exits with 126 or 127. This does not mean "offline".
            Some(126 | 127) | None => Err(self.failed(command, fragment, ended.outcome())),
            Some(_) => Ok(false),
        }
    }

    fn looks_again(&self) -> Option<Duration> {
        Some(self.folder.poll)
    }

    async fn has_begun(&self, _: &Fragment) -> Result<bool, TierError> {
        Ok(true)
    }

    async fn restore(
        &self,
        fragment: &Fragment,
        timeout: Duration,
        ledger: &dyn Ledger,
    ) -> Result<(), TierError> {
        let until = Instant::now() + timeout;
        ledger.asks()?;
        let ended = self.run(&self.folder.recall, fragment, timeout).await?;
        if !ended.status.success() {
            return Err(self.failed(&self.folder.recall, fragment, ended.outcome()));
        }
        self.online(fragment, until, timeout).await
    }

    async fn release(&self, fragment: &Fragment) {
        let Some(command) = &self.folder.release else { return };
        let ended = self.run(command, fragment, SHORT).await;
        let failed = match ended {
            Ok(ended) if ended.status.success() => return,
            Ok(ended) => self.failed(command, fragment, ended.outcome()),
            Err(error) => error,
        };
        // The query has its data. Only the tier's own disk fills up.
        tracing::warn!(%failed, "release");
    }

    fn tags_survive(&self) -> bool {
        false
    }
}

impl Commands {
    /// Waits until `online` says that the file can be read. A recall may end when the system has only accepted it.
    async fn online(&self, fragment: &Fragment, until: Instant, timeout: Duration) -> Result<(), TierError> {
        if self.folder.online.is_none() {
            return Ok(());
        }
        let mut pause = FIRST_LOOK;
        while !self.is_online(fragment).await? {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let (tier, file) = (self.tier.clone(), fragment.to_string());
                let last = "'online' says that the file is not there".to_owned();
                return Err(TierError::NotThere { tier, file, after: timeout, last });
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(self.folder.poll.max(FIRST_LOOK));
        }
        Ok(())
    }

    async fn run(
        &self,
        command: &[String],
        fragment: &Fragment,
        timeout: Duration,
    ) -> Result<Ended, TierError> {
        let path = path_of(fragment);
        let arguments: Vec<String> =
            command.iter().map(|a| a.replace("{path}", &path.to_string_lossy())).collect();
        let ended = tokio::task::spawn_blocking(move || run(&arguments, timeout)).await;
        let ended = ended.unwrap_or_else(|error| Err(format!("was given up: {error}")));
        ended.map_err(|outcome| self.failed(command, fragment, outcome))
    }

    fn failed(&self, command: &[String], fragment: &Fragment, outcome: String) -> TierError {
        let command = command.join(" ").replace("{path}", &path_of(fragment).to_string_lossy());
        TierError::Command { tier: self.tier.clone(), file: fragment.to_string(), command, outcome }
    }
}

/// In a store of the whole file system, locations have no leading slash.
fn path_of(fragment: &Fragment) -> PathBuf {
    Path::new("/").join(&fragment.location)
}

struct Ended {
    status: ExitStatus,
    said: String,
}

impl Ended {
    fn outcome(&self) -> String {
        if self.said.is_empty() { self.status.to_string() } else { format!("{}: {}", self.status, self.said) }
    }
}

/// Runs a command to its end, or kills it with all its child processes.
fn run(arguments: &[String], timeout: Duration) -> Result<Ended, String> {
    let Some((program, rest)) = arguments.split_first() else { return Err("is empty".to_owned()) };
    // A file takes the output without a thread that reads it.
    let mut said = tempfile::tempfile().map_err(|error| error.to_string())?;
    let errors = said.try_clone().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).process_group(0);
    let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let status = wait(&mut child, timeout)?;
    let mut text = Vec::new();
    let read = said.rewind().and_then(|()| (&mut said).take(SAID_BYTES_MAX).read_to_end(&mut text));
    let said = read.map(|_| String::from_utf8_lossy(&text).split_whitespace().collect::<Vec<_>>().join(" "));
    Ok(Ended { status, said: said.unwrap_or_default() })
}

fn wait(child: &mut Child, timeout: Duration) -> Result<ExitStatus, String> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(2);
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status);
        }
        if started.elapsed() >= timeout {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait();
            return Err(format!("killed after {} s without an end", timeout.as_secs_f64()));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragment::sample;

    /// A ledger that records nothing.
    struct Free;

    impl Ledger for Free {
        fn asks(&self) -> Result<(), TierError> {
            Ok(())
        }

        fn taken(&self) {}
    }

    fn commands(recall: &str, online: Option<&str>) -> Commands {
        let shell = |text: &str| vec!["sh".to_owned(), "-c".to_owned(), text.to_owned(), "{path}".to_owned()];
        let folder = Folder {
            recall: shell(recall),
            release: None,
            online: online.map(shell),
            poll: Duration::from_millis(10),
            placement: None,
            drives: 1,
            switch: Duration::ZERO,
            seek: Duration::ZERO,
            transfer: 1,
            price_request: 0.0,
            price_gb: 0.0,
        };
        Commands { tier: "tape".to_owned(), folder }
    }

    #[tokio::test]
    async fn a_command_that_fails_says_why() {
        let fragment = sample("a/b", 1);
        let error = commands("echo no tape $0 >&2; exit 3", None)
            .restore(&fragment, SHORT, &Free)
            .await
            .expect_err("3");
        let text = error.to_string();
        assert!(text.contains("exit status: 3: no tape /a/b"), "{text}");
        assert!(commands("exit 0", None).restore(&fragment, SHORT, &Free).await.is_ok());
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_killed_with_its_children() {
        let dir = tempfile::tempdir().expect("a folder");
        // The shell's child holds a lock as long as it lives.
        let (begun, lock) = (dir.path().join("begun"), dir.path().join("lock"));
        let recall = format!("(flock 9; echo > {}; sleep 1000) 9>{} & wait", begun.display(), lock.display());
        // On a slow machine the shell needs a while to begin.
        for timeout in [200, 2_000, 20_000].map(Duration::from_millis) {
            let error =
                commands(&recall, None).restore(&sample("a", 1), timeout, &Free).await.expect_err("killed");
            let text = error.to_string();
            assert!(text.contains(&format!("killed after {} s", timeout.as_secs_f64())), "{text}");
            if begun.exists() {
                break;
            }
        }
        assert!(begun.exists(), "the shell had time to begin");
        let lock = std::fs::File::open(lock).expect("the lock");
        let killed = Instant::now();
        while lock.try_lock().is_err() {
            assert!(killed.elapsed() < Duration::from_secs(20), "the child of the shell went on");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn a_recall_that_ends_too_early_is_waited_for_until_the_timeout() {
        let dir = tempfile::tempdir().expect("a folder");
        let asked = dir.path().join("asked");
        // The fifth question is answered with yes.
        let online = format!("echo >> {0}; [ $(wc -l < {0}) -ge 5 ]", asked.display());
        let fragment = sample("a", 1);
        commands("exit 0", Some(&online)).restore(&fragment, SHORT, &Free).await.expect("it came");
        assert_eq!(std::fs::read_to_string(&asked).expect("questions").lines().count(), 5);
        let error =
            commands("exit 0", Some("exit 1")).restore(&fragment, Duration::from_millis(100), &Free).await;
        let error = error.expect_err("it does not come").to_string();
        assert!(error.contains("'online' says that the file is not there"), "{error}");
    }

    #[tokio::test]
    async fn offline_is_an_exit_code_and_not_a_missing_program() {
        let fragment = sample("a", 1);
        assert!(commands("", Some("exit 0")).is_online(&fragment).await.expect("runs"));
        assert!(!commands("", Some("exit 1")).is_online(&fragment).await.expect("runs"));
        assert!(commands("", Some("no-such-program-at-all")).is_online(&fragment).await.is_err());
        assert!(!commands("", None).is_online(&fragment).await.expect("nothing to run"));
    }
}
