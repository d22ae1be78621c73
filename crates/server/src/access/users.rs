//! The file of users and roles.
//!
//! ```toml
//! [roles.analyst]            # beside `read` (every table) and `admin` (everything)
//! tables = ["lineitem", "part*"]
//! queries = 4                # limits, see `Limits`
//!
//! [users.ann]
//! role = "analyst"
//! verifier = "SCRAM-SHA-256$4096:..."
//! ```
//!
//! The file has no passwords.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::{Limits, Use, Verifier, random};
use crate::error::ServeError;

/// Permissions and limits of a group of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// Set if the role may do everything: create and drop tables, write files, change the engine, stop queries of
    /// other users.
    pub admin: bool,
    /// Names of the tables that it sees. `*` at the end stands for any text.
    pub tables: Vec<String>,
    /// Limits of each of its users.
    pub limits: Limits,
}

impl Role {
    /// A built-in role, `admin` or `read`. Both see every table.
    pub(crate) fn built_in(admin: bool, limits: &Limits) -> Self {
        let name = if admin { "admin" } else { "read" };
        Role { name: name.to_owned(), admin, tables: vec!["*".to_owned()], limits: limits.clone() }
    }

    /// Returns true if the role sees this table.
    pub fn sees(&self, table: &str) -> bool {
        self.admin || self.tables.iter().any(|pattern| fits(pattern, table))
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// A user that is logged in.
#[derive(Clone, Debug)]
pub struct User {
    /// The name.
    pub name: String,
    /// The role.
    pub role: Arc<Role>,
    /// The current use.
    pub used: Arc<Use>,
    /// The end of this version of the user.
    pub(crate) ended: Ended,
    /// Set if the server asks for no password, so that any client may have this name.
    pub(crate) anonymous: bool,
}

impl User {
    /// Returns true if statements of a user of this name are the user's own. Without passwords, all are.
    pub(crate) fn owns(&self, name: &str) -> bool {
        self.anonymous || self.name == name
    }
}

/// Tells holders of a user that it was removed, or got another role or password. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Ended(Arc<watch::Sender<bool>>);

impl Default for Ended {
    fn default() -> Self {
        Ended(Arc::new(watch::Sender::new(false)))
    }
}

impl Ended {
    pub(crate) fn is_ended(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the end.
    pub(crate) async fn wait(&self) {
        // The sender is in `self`, so it cannot be gone.
        let _ = self.0.subscribe().wait_for(|ended| *ended).await;
    }

    fn end(&self) {
        self.0.send_replace(true);
    }
}

/// The contents of the file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UsersFile {
    /// Roles besides `read` and `admin`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, RoleEntry>,
    /// Users.
    #[serde(default)]
    pub users: BTreeMap<String, UserEntry>,
}

/// A role in the file. Limits have the names of [`Limits::NAMES`].
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct RoleEntry {
    /// Set if the role may do everything.
    #[serde(default)]
    pub admin: bool,
    /// Tables that it sees.
    #[serde(default)]
    pub tables: Vec<String>,
    /// Its limits.
    #[serde(flatten)]
    pub limits: toml::Table,
}

/// A user in the file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UserEntry {
    /// The role's name.
    pub role: String,
    /// The verifier of the password.
    pub verifier: String,
}

impl UsersFile {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or its contents are wrong.
    pub fn read(path: &Path) -> Result<Self, ServeError> {
        let failed = |problem: String| ServeError::file("the users file", path, problem);
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        toml::from_str(&text).map_err(|error| failed(error.to_string()))
    }

    /// Replaces the file atomically, so that a server never reads half of it. The new file has owner, group and mode of
    /// the old one. A file that did not exist can be read by its owner only.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ServeError> {
        let failed = |problem: String| ServeError::file("the users file", path, problem);
        let text = toml::to_string(self).map_err(|error| failed(error.to_string()))?;
        let beside = path.with_extension("new");
        let write = || {
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(&beside)?;
            keep_owner(path, &file)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, path)
        };
        write().map_err(|error| {
            // What is left of a failure is no file of users.
            let _ = fs::remove_file(&beside);
            failed(error.to_string())
        })
    }
}

/// Gives a file owner, group and mode of the file at `path`, if there is one.
fn keep_owner(path: &Path, file: &fs::File) -> io::Result<()> {
    let old = match fs::metadata(path) {
        Ok(old) => old,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let new = file.metadata()?;
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            fchown(file, Some(old.uid()), Some(old.gid())).map_err(|error| {
                let (user, group) = (old.uid(), old.gid());
                io::Error::other(format!("cannot keep owner {user} and group {group}: {error}; run the command as root or as the owner"))
            })?;
        }
    }
    file.set_permissions(old.permissions())
}

#[derive(Debug, Default)]
struct Known {
    verifiers: HashMap<String, (Verifier, Arc<Role>, Ended)>,
}

/// The users of a running server. Their current use stays when the file is read again.
#[derive(Debug)]
pub struct Users {
    known: RwLock<Known>,
    used: Mutex<HashMap<String, (Limits, Arc<Use>)>>,
    /// Secret for the salts of unknown users.
    secret: [u8; 32],
}

impl Users {
    /// An empty set of users.
    pub(crate) fn none() -> Self {
        Users { known: RwLock::default(), used: Mutex::default(), secret: random() }
    }

    /// Reads the file again, and ends users that were removed or changed. On failure nothing changes.
    pub(crate) fn reload(&self, path: &Path, defaults: &Limits) -> Result<usize, ServeError> {
        let mut known = Known::of(&UsersFile::read(path)?, defaults)
            .map_err(|problem| ServeError::file("the users file", path, problem))?;
        let count = known.verifiers.len();
        let mut before = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for (name, (verifier, role, ended)) in &before.verifiers {
            match known.verifiers.get_mut(name) {
                Some(now) if now.0.to_string() == verifier.to_string() && now.1 == *role => {
                    now.2 = ended.clone()
                }
                _ => ended.end(),
            }
        }
        *before = known;
        Ok(count)
    }

    /// The verifier of this user's password, and the user if it exists. Unknown users get a fake verifier.
    pub(crate) fn find(&self, name: &str) -> (Verifier, Option<User>) {
        let found = self.known.read().unwrap_or_else(PoisonError::into_inner).verifiers.get(name).cloned();
        match found {
            Some((verifier, role, ended)) => (verifier, Some(User { ended, ..self.user(name, role) })),
            None => (Verifier::mock(&self.secret, name), None),
        }
    }

    /// A user with its current use, shared by all its connections.
    pub(crate) fn user(&self, name: &str, role: Arc<Role>) -> User {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        // Invented names must not fill the memory. Users with current use are kept.
        if used.len() > 10_000 {
            used.retain(|_, (_, used)| Arc::strong_count(used) > 1);
        }
        let fresh = || (role.limits.clone(), Use::new(&role.limits));
        let entry = used.entry(name.to_owned()).or_insert_with(fresh);
        if entry.0 != role.limits {
            *entry = fresh();
        }
        let (name, used, ended) = (name.to_owned(), entry.1.clone(), Ended::default());
        User { name, used, role, ended, anonymous: false }
    }
}

impl Known {
    fn of(file: &UsersFile, defaults: &Limits) -> Result<Self, String> {
        let mut roles: HashMap<String, Arc<Role>> = [true, false]
            .map(|admin| Role::built_in(admin, defaults))
            .map(|r| (r.name.clone(), Arc::new(r)))
            .into();
        for (name, entry) in &file.roles {
            let mut limits = defaults.clone();
            for (limit, value) in &entry.limits {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                limits
                    .set(limit, &value)
                    .map_err(|wanted| format!("role {name}: {limit} is not {wanted}"))?;
            }
            let role = Role { name: name.clone(), admin: entry.admin, tables: entry.tables.clone(), limits };
            if roles.insert(name.clone(), Arc::new(role)).is_some() {
                return Err(format!("role {name} is built in: choose another name"));
            }
        }
        let user = |(name, entry): (&String, &UserEntry)| {
            let verifier =
                entry.verifier.parse().map_err(|wrong| format!("user {name}: verifier is {wrong}"))?;
            let role = roles
                .get(&entry.role)
                .ok_or_else(|| format!("user {name}: there is no role {}", entry.role))?;
            Ok((name.clone(), (verifier, role.clone(), Ended::default())))
        };
        Ok(Known { verifiers: file.users.iter().map(user).collect::<Result<_, String>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(text: &str) -> Result<Known, String> {
        let file: UsersFile = toml::from_str(text).map_err(|error| error.to_string())?;
        Known::of(&file, &Limits::default())
    }

    #[test]
    fn roles_say_which_tables_and_how_much() {
        let verifier = Verifier::of("x");
        let text = format!(
            "[roles.few]\ntables = [\"a\", \"b_*\"]\nqueries = 2\nmemory = \"1MiB\"\n\
             [users.ann]\nrole = \"few\"\nverifier = \"{verifier}\"\n[users.root]\nrole = \"admin\"\nverifier = \"{verifier}\"\n"
        );
        let known = known(&text).unwrap();
        let role = &known.verifiers["ann"].1;
        assert!(role.sees("a") && role.sees("b_1") && !role.sees("ab") && !role.sees("b"));
        assert_eq!((role.limits.queries, role.limits.memory_bytes), (2, 1 << 20));
        assert!(known.verifiers["root"].1.admin && known.verifiers["root"].1.sees("anything"));
    }

    #[test]
    fn mistakes_are_named() {
        let verifier = Verifier::of("x");
        for (text, named) in [
            ("[users.ann]\nrole = \"read\"\nverifier = \"x\"\n".to_owned(), "user ann"),
            (format!("[users.ann]\nrole = \"raed\"\nverifier = \"{verifier}\"\n"), "raed"),
            ("[roles.few]\nspeed = 3\n".to_owned(), "speed"),
            ("[roles.admin]\n".to_owned(), "built in"),
            ("[user.ann]\n".to_owned(), "user"),
        ] {
            let error = known(&text).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_kept_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        let mut file = UsersFile::default();
        let entry = UserEntry { role: "read".to_owned(), verifier: Verifier::of("x").to_string() };
        file.users.insert("ann \"q\"".to_owned(), entry);
        file.write(&path).unwrap();
        let users = Users::none();
        assert_eq!(users.reload(&path, &Limits::default()).unwrap(), 1);
        let (verifier, user) = users.find("ann \"q\"");
        assert!(verifier.fits("x") && user.is_some_and(|user| !user.role.admin));
        assert!(users.find("bob").1.is_none());
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o77,
            0
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            file.write(&path).unwrap();
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o640,
                "a mode that was set stays"
            );
        }
        let before = users.find("ann \"q\"").1.unwrap();
        users.reload(&path, &Limits::default()).unwrap();
        assert!(!before.ended.is_ended(), "nothing has changed");
        file.users.get_mut("ann \"q\"").unwrap().verifier = Verifier::of("y").to_string();
        file.write(&path).unwrap();
        users.reload(&path, &Limits::default()).unwrap();
        assert!(before.ended.is_ended(), "another password");
        fs::write(&path, "nonsense").unwrap();
        assert!(users.reload(&path, &Limits::default()).is_err());
        assert!(users.find("ann \"q\"").1.is_some(), "what was known stays");
    }
}
