//! Bearer tokens: random, with an end, known to this process only.
//!
//! A token stands for a user's name. Whether that user is still there and what they may do is looked up each time, so that a
//! user who was removed is out at once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;

use super::random;

/// So many tokens are valid at once; then those that end first go.
const TOKENS_MAX: usize = 100_000;

/// The tokens that were given out.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// By hash: whoever reads this memory by accident has no token.
    known: Mutex<HashMap<Vec<u8>, (String, Instant)>>,
}

impl Tokens {
    /// A token for this user.
    pub(crate) fn give(&self, user: &str, lifetime: Duration, now: Instant) -> String {
        let token = URL_SAFE_NO_PAD.encode(random::<32>());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TOKENS_MAX {
            known.retain(|_, (_, end)| *end > now);
        }
        if known.len() >= TOKENS_MAX
            && let Some(first) = known.iter().min_by_key(|(_, (_, end))| *end).map(|(hash, _)| hash.clone())
        {
            known.remove(&first);
        }
        known.insert(hash(&token), (user.to_owned(), now + lifetime));
        token
    }

    /// Whom the token stands for; `None` if it was never given out or has ended.
    pub(crate) fn user(&self, token: &str, now: Instant) -> Option<String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = hash(token);
        let (user, end) = known.get(&hash)?.clone();
        if end <= now {
            known.remove(&hash);
            return None;
        }
        Some(user)
    }
}

fn hash(token: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, token.as_bytes()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_until_it_ends() {
        let (tokens, now, hour) = (Tokens::default(), Instant::now(), Duration::from_secs(3600));
        let token = tokens.give("ann", hour, now);
        assert_eq!(tokens.user(&token, now).as_deref(), Some("ann"));
        assert_eq!(tokens.user(&token, now + hour), None);
        assert_eq!(tokens.user(&token, now), None, "forgotten when it ended");
        assert_eq!(tokens.user("", now), None);
        assert_ne!(tokens.give("ann", hour, now), tokens.give("ann", hour, now));
    }
}
