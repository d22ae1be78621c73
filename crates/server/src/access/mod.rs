//! Access control: users and roles from a file, password checks, limits, and an audit log.
//!
//! | module | contents |
//! |---|---|
//! | `users` | users, roles and the tables that they see |
//! | `scram` | proof of a password |
//! | `attempts` | throttling of failed logins |
//! | `tokens` | bearer tokens and their users |
//! | `limits` | limits per user |
//! | `audit` | log of actions and their users |
//!
//! These modules know no protocol and no SQL.

mod attempts;
mod audit;
mod limits;
mod scram;
mod tokens;
mod users;

pub(crate) use attempts::Attempts;
pub use audit::Audit;
pub(crate) use limits::{Connected, Opened, where_set};
pub use limits::{Limits, Use};
pub use scram::Verifier;
pub(crate) use scram::{Binding, ScramExchange};
pub(crate) use tokens::Tokens;
pub(crate) use users::Ended;
pub use users::{Role, RoleEntry, User, UserEntry, Users, UsersFile};

/// Reasons to refuse a login.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The user or the password is wrong. The error does not say which.
    #[error("password authentication failed for user \"{0}\"")]
    WrongPassword(String),
    /// The client sent no credentials.
    #[error("authentication is required: give a user name and a password, or a token")]
    Missing,
    /// The token is unknown, forged or expired.
    #[error("the token is not valid or has expired: log in again")]
    BadToken,
    /// Too many failures from this address or for this user.
    #[error("too many failed logins: try again in {0} seconds")]
    TooOften(u64),
    /// The user has as many connections as allowed.
    #[error(
        "user \"{user}\" already has {limit} connections: close one, or raise {}",
        where_set("connections")
    )]
    TooManyConnections {
        /// The user.
        user: String,
        /// The limit.
        limit: usize,
    },
    /// There are too many connections. The text names the limit.
    #[error("{0}")]
    NoRoom(String),
    /// The audit log cannot be written.
    #[error(
        "the audit log cannot be written, so that logins and statements are refused: free space for it, or set audit-failure to continue"
    )]
    NoAudit,
    /// The server is shutting down.
    #[error("the server is shutting down: connect again later")]
    ShuttingDown,
    /// The handshake is malformed.
    #[error("malformed login: {0}")]
    Malformed(String),
}

/// Unpredictable bytes.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    use ring::rand::SecureRandom;
    let mut bytes = [0; N];
    // Without random numbers, salts and tokens could be guessed. Ending is better than continuing.
    ring::rand::SystemRandom::new().fill(&mut bytes).expect("the system gives random numbers");
    bytes
}
