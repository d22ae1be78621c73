//! Bearer tokens: random, with an expiry time, known only to this process.
//!
//! A token stands for a user's name. Each use looks up the user and its role again. A token ends when its user is
//! removed, or gets another role or password.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;

use super::{Ended, User, random};

/// Maximum number of valid tokens in all and per user. Beyond it, those that expire first are removed.
const TOKENS_MAX: usize = 100_000;
const TOKENS_OF_USER_MAX: usize = 1000;

/// The issued tokens.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// By hash, so that a leak of this memory reveals no token.
    known: Mutex<HashMap<Vec<u8>, Token>>,
}

/// A token's user, and its end.
#[derive(Clone, Debug)]
struct Token {
    user: String,
    end: Instant,
    ended: Ended,
}

impl Token {
    fn is_good(&self, now: Instant) -> bool {
        self.end > now && !self.ended.is_ended()
    }
}

impl Tokens {
    /// Issues a token for this user.
    pub(crate) fn give(&self, user: &User, lifetime: Duration, now: Instant) -> String {
        let token = URL_SAFE_NO_PAD.encode(random::<32>());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TOKENS_OF_USER_MAX {
            known.retain(|_, token| token.is_good(now));
        }
        // A user with too many tokens loses tokens of its own, not those of other users.
        let is_own = |token: &Token| token.user == user.name;
        let many = known.values().filter(|token| is_own(token)).count() >= TOKENS_OF_USER_MAX;
        if many || known.len() >= TOKENS_MAX {
            let whose = known.iter().filter(|(_, token)| !many || is_own(token));
            let first = whose.min_by_key(|(_, token)| token.end).map(|(hash, _)| hash.clone());
            first.map(|first| known.remove(&first));
        }
        let kept = Token { user: user.name.clone(), end: now + lifetime, ended: user.ended.clone() };
        known.insert(hash(&token), kept);
        token
    }

    /// The user of a token. `None` if the token was never issued or has expired, or its user was changed since.
    pub(crate) fn user(&self, token: &str, now: Instant) -> Option<String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = hash(token);
        if known.get(&hash)?.is_good(now) {
            return known.get(&hash).map(|token| token.user.clone());
        }
        known.remove(&hash);
        None
    }
}

fn hash(token: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, token.as_bytes()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Limits, Role, Users};

    fn user(name: &str) -> User {
        Users::none().user(name, std::sync::Arc::new(Role::built_in(false, &Limits::default())))
    }

    #[test]
    fn a_token_is_good_until_it_ends() {
        let (tokens, now, hour) = (Tokens::default(), Instant::now(), Duration::from_secs(3600));
        let token = tokens.give(&user("ann"), hour, now);
        assert_eq!(tokens.user(&token, now).as_deref(), Some("ann"));
        assert_eq!(tokens.user(&token, now + hour), None);
        assert_eq!(tokens.user(&token, now), None, "forgotten when it ended");
        assert_eq!(tokens.user("", now), None);
        assert_ne!(tokens.give(&user("ann"), hour, now), tokens.give(&user("ann"), hour, now));
    }

    #[test]
    fn one_user_does_not_push_out_tokens_of_others() {
        let (tokens, now, hour) = (Tokens::default(), Instant::now(), Duration::from_secs(3600));
        let bobs = tokens.give(&user("bob"), hour, now);
        let later = |n: usize| now + Duration::from_micros(n as u64);
        let ann = user("ann");
        let anns: Vec<_> = (0..=TOKENS_OF_USER_MAX).map(|n| tokens.give(&ann, hour, later(n))).collect();
        assert_eq!(tokens.user(&bobs, now).as_deref(), Some("bob"));
        assert_eq!(tokens.user(&anns[0], now), None, "the first of too many");
        assert!(
            tokens.user(&anns[1], now).is_some() && tokens.user(&anns[TOKENS_OF_USER_MAX], now).is_some()
        );
    }
}
