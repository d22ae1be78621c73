//! Who may do what: users and roles from a file, proof of a password, limits, and a record of what was done.
//!
//! | module | question |
//! |---|---|
//! | `users` | who is there, and which tables are theirs? |
//! | `scram` | did they prove that they know their password? |
//! | `attempts` | how often may somebody try? |
//! | `tokens` | whom does a bearer token stand for? |
//! | `limits` | how much may a user use? |
//! | `audit` | what was done, by whom? |
//!
//! It knows no protocol and no SQL.

mod attempts;
mod audit;
mod limits;
mod scram;
mod tokens;
mod users;

pub(crate) use attempts::Attempts;
pub use audit::Audit;
pub(crate) use limits::{Connected, where_set};
pub use limits::{Limits, Use};
pub use scram::Verifier;
pub(crate) use scram::{Binding, ScramExchange};
pub(crate) use tokens::Tokens;
pub use users::{Role, RoleEntry, User, UserEntry, Users, UsersFile};

/// Why somebody was not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// User or password are wrong; which of them is not said.
    #[error("password authentication failed for user \"{0}\"")]
    WrongPassword(String),
    /// Nothing was shown.
    #[error("authentication is required: give a user name and a password, or a token")]
    Missing,
    /// The token is unknown, forged or expired.
    #[error("the token is not valid or has expired: log in again")]
    BadToken,
    /// Too many failures from there, or for this user.
    #[error("too many failed logins: try again in {0} seconds")]
    TooOften(u64),
    /// The user has as many connections as allowed.
    #[error(
        "user \"{user}\" already has {limit} connections: close one, or raise {}",
        where_set("connections")
    )]
    TooManyConnections {
        /// Who.
        user: String,
        /// How many are allowed.
        limit: usize,
    },
    /// The server is about to end.
    #[error("the server is shutting down: connect again later")]
    ShuttingDown,
    /// The handshake makes no sense.
    #[error("malformed login: {0}")]
    Malformed(String),
}

/// Bytes nobody can guess.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    use ring::rand::SecureRandom;
    let mut bytes = [0; N];
    // A system without random numbers cannot keep anything apart: going on would be worse than ending.
    ring::rand::SystemRandom::new().fill(&mut bytes).expect("the system gives random numbers");
    bytes
}
