//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side: verifiers, and the exchange that proves a password without
//! sending it.
//!
//! A verifier has PostgreSQL's form, `SCRAM-SHA-256$iterations:salt$stored key:server key`, so one from `pg_authid`
//! works here. A client cannot log in with a verifier. Over TLS a proof can be bound to the server's certificate
//! (SCRAM-SHA-256-PLUS with `tls-server-end-point`, RFC 5929). Then a man in the middle cannot relay it.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pgwire::api::auth::sasl::scram::gen_salted_password;
use ring::{digest, hmac};

use super::{AccessError, random};

/// Number of hashing rounds for passwords that are set here.
const ITERATIONS: u32 = 4096;
/// Maximum number of rounds in a verifier from a file. With more, logins would keep processors busy.
const ITERATIONS_MAX: u32 = 1_000_000;
const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 32;

/// Checks a password, but does not reveal it.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: [u8; KEY_BYTES],
    server_key: [u8; KEY_BYTES],
}

impl Verifier {
    /// A verifier of this password, with a new salt.
    pub fn of(password: &str) -> Self {
        Self::salted(password, random::<SALT_BYTES>().to_vec())
    }

    fn salted(password: &str, salt: Vec<u8>) -> Self {
        let iterations = NonZeroU32::new(ITERATIONS).unwrap_or(NonZeroU32::MIN);
        let keys = Keys::of(password, &salt, iterations);
        Verifier { iterations, salt, stored_key: keys.stored, server_key: keys.server }
    }

    /// A fake verifier that no password fits. Its salt is the same each time for the same name, so clients cannot
    /// find out which users exist.
    pub(crate) fn mock(secret: &[u8], user: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let salt = hmac::sign(&key, user.as_bytes()).as_ref()[..SALT_BYTES].to_vec();
        let iterations = NonZeroU32::new(ITERATIONS).unwrap_or(NonZeroU32::MIN);
        Verifier { iterations, salt, stored_key: random(), server_key: random() }
    }

    /// Returns true if this is the password. Takes milliseconds on purpose.
    pub fn fits(&self, password: &str) -> bool {
        let keys = Keys::of(password, &self.salt, self.iterations);
        same(&keys.stored, &self.stored_key)
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (salt, stored) = (STANDARD.encode(&self.salt), STANDARD.encode(self.stored_key));
        write!(f, "SCRAM-SHA-256${}:{salt}${stored}:{}", self.iterations, STANDARD.encode(self.server_key))
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(..)")
    }
}

impl FromStr for Verifier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (rounds, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
            let (iterations, salt) = rounds.split_once(':')?;
            let (stored, server) = keys.split_once(':')?;
            let key = |text: &str| <[u8; KEY_BYTES]>::try_from(STANDARD.decode(text).ok()?).ok();
            Some(Verifier {
                iterations: iterations.parse().ok().filter(|n: &NonZeroU32| n.get() <= ITERATIONS_MAX)?,
                salt: STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty())?,
                stored_key: key(stored)?,
                server_key: key(server)?,
            })
        };
        parse().ok_or_else(|| {
            "not a verifier as in SCRAM-SHA-256$4096:salt$stored:server; use `coscan user`".to_owned()
        })
    }
}

struct Keys {
    stored: [u8; KEY_BYTES],
    server: [u8; KEY_BYTES],
}

impl Keys {
    fn of(password: &str, salt: &[u8], iterations: NonZeroU32) -> Self {
        let salted = gen_salted_password(password, salt, iterations.get() as usize);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &salted);
        let client = hmac::sign(&key, b"Client Key");
        Keys { stored: sha256(client.as_ref()), server: bytes32(hmac::sign(&key, b"Server Key").as_ref()) }
    }
}

/// The channel binding of a login.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding<'a> {
    /// Binding is not possible: the connection is not encrypted, or the certificate has no hash to bind to.
    NotOffered,
    /// Binding is possible, but the client chose not to bind.
    Declined,
    /// The login is bound to this hash of the server's certificate.
    EndPoint(&'a [u8]),
}

/// One login: the client's first message, the server's, the client's proof, the server's.
pub(crate) struct ScramExchange {
    verifier: Verifier,
    /// The text that the client repeats in its proof: the header of its first message, and the binding.
    binding: Vec<u8>,
    nonce: String,
    first_messages: String,
}

impl ScramExchange {
    /// Takes the client's first message and returns the answer.
    pub(crate) fn begin(
        verifier: Verifier,
        first: &[u8],
        bound: Binding<'_>,
    ) -> Result<(Self, String), AccessError> {
        let wrong = || AccessError::Malformed("first message of SCRAM".to_owned());
        let first = std::str::from_utf8(first).map_err(|_| wrong())?;
        let mut parts = first.splitn(3, ',');
        let (flag, authorised) = (parts.next().ok_or_else(wrong)?, parts.next().ok_or_else(wrong)?);
        let bare = parts.next().ok_or_else(wrong)?;
        // `y` means that the client could bind but saw no offer. If binding was offered, a man in the middle removed
        // the offer.
        let fits = match bound {
            Binding::NotOffered => matches!(flag, "n" | "y"),
            Binding::Declined => flag == "n",
            Binding::EndPoint(_) => flag == "p=tls-server-end-point",
        };
        if !fits || !(authorised.is_empty() || authorised.starts_with("a=")) {
            return Err(wrong());
        }
        let nonce = bare.split(',').find_map(|part| part.strip_prefix("r=")).ok_or_else(wrong)?;
        if nonce.is_empty() || bare.starts_with("m=") {
            return Err(wrong());
        }
        let nonce = format!("{nonce}{}", STANDARD.encode(random::<18>()));
        let answer = format!("r={nonce},s={},i={}", STANDARD.encode(&verifier.salt), verifier.iterations);
        let first_messages = format!("{bare},{answer}");
        let mut binding = format!("{flag},{authorised},").into_bytes();
        if let Binding::EndPoint(hash) = bound {
            binding.extend_from_slice(hash);
        }
        Ok((ScramExchange { verifier, binding, nonce, first_messages }, answer))
    }

    /// Takes the client's proof and returns the server's. `None` if the client's proof is wrong.
    pub(crate) fn finish(self, last: &[u8]) -> Result<Option<String>, AccessError> {
        let wrong = || AccessError::Malformed("last message of SCRAM".to_owned());
        let last = std::str::from_utf8(last).map_err(|_| wrong())?;
        let (without_proof, proof) = last.rsplit_once(",p=").ok_or_else(wrong)?;
        let proof =
            <[u8; KEY_BYTES]>::try_from(STANDARD.decode(proof).map_err(|_| wrong())?).map_err(|_| wrong())?;
        let mut parts = without_proof.split(',');
        let binding = parts.next().and_then(|part| part.strip_prefix("c=")).ok_or_else(wrong)?;
        let nonce = parts.next().and_then(|part| part.strip_prefix("r=")).ok_or_else(wrong)?;
        if binding != STANDARD.encode(&self.binding) || nonce != self.nonce {
            return Ok(None);
        }
        let message = format!("{},{without_proof}", self.first_messages);
        let sign = |key: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message.as_bytes());
        let signature = sign(&self.verifier.stored_key);
        let client_key: Vec<u8> = proof.iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        if !same(&sha256(&client_key), &self.verifier.stored_key) {
            return Ok(None);
        }
        Ok(Some(format!("v={}", STANDARD.encode(sign(&self.verifier.server_key)))))
    }
}

fn sha256(bytes: &[u8]) -> [u8; KEY_BYTES] {
    bytes32(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn bytes32(bytes: &[u8]) -> [u8; KEY_BYTES] {
    let mut all = [0; KEY_BYTES];
    all.copy_from_slice(bytes);
    all
}

/// Compares in constant time, so that the time does not reveal the first difference.
fn same(left: &[u8; KEY_BYTES], right: &[u8; KEY_BYTES]) -> bool {
    left.iter().zip(right).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client's side, for a given first answer of the server.
    fn proof(password: &str, bare: &str, answer: &str) -> String {
        bound_proof(password, bare, answer, b"n,,")
    }

    fn bound_proof(password: &str, bare: &str, answer: &str, binding: &[u8]) -> String {
        let field =
            |name: &str| answer.split(',').find_map(|part| part.strip_prefix(name)).unwrap().to_owned();
        let salt = STANDARD.decode(field("s=")).unwrap();
        let salted = gen_salted_password(password, &salt, field("i=").parse().unwrap());
        let client = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &salted), b"Client Key");
        let without_proof = format!("c={},r={}", STANDARD.encode(binding), field("r="));
        let message = format!("{bare},{answer},{without_proof}");
        let stored = sha256(client.as_ref());
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &stored), message.as_bytes());
        let proof: Vec<u8> = client.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        format!("{without_proof},p={}", STANDARD.encode(proof))
    }

    fn login(verifier: &Verifier, password: &str) -> Option<String> {
        let bare = "n=,r=rOprNGfwEbeRWgbNEkqO";
        let first = format!("n,,{bare}");
        let (exchange, answer) =
            ScramExchange::begin(verifier.clone(), first.as_bytes(), Binding::NotOffered).unwrap();
        exchange.finish(proof(password, bare, &answer).as_bytes()).unwrap()
    }

    /// The verifier that PostgreSQL 15 made for the user of RFC 7677's example with its salt.
    #[test]
    fn a_verifier_has_the_form_of_postgresql_and_the_values_of_the_rfc() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::salted("pencil", salt);
        let text = verifier.to_string();
        assert_eq!(
            text,
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
             wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
        assert_eq!(text.parse::<Verifier>().unwrap(), verifier);
    }

    #[test]
    fn the_password_and_no_other_is_let_in() {
        let verifier = Verifier::of("s3cret é");
        assert!(verifier.fits("s3cret é") && !verifier.fits("s3cret e") && !verifier.fits(""));
        assert!(login(&verifier, "s3cret é").is_some_and(|proof| proof.starts_with("v=")));
        assert_eq!(login(&verifier, "secret"), None);
        assert_eq!(login(&Verifier::mock(b"key", "nobody"), "x"), None);
    }

    #[test]
    fn a_proof_cannot_be_replayed_or_forged() {
        let verifier = Verifier::of("x");
        let bare = "n=,r=abc";
        let first = format!("n,,{bare}");
        let begin = || ScramExchange::begin(verifier.clone(), first.as_bytes(), Binding::NotOffered).unwrap();
        let (_, earlier) = begin();
        let recorded = proof("x", bare, &earlier);
        assert_eq!(begin().0.finish(recorded.as_bytes()).unwrap(), None);
        for message in ["", "c=biws", "c=biws,r=abc,p=", "c=biws,r=abc,p=!!", "p=AAAA", "\u{0}\u{0}"] {
            assert!(begin().0.finish(message.as_bytes()).is_err(), "{message:?}");
        }
        for message in ["", "n", "n,,", "p=tls-server-end-point,,n=,r=a", "n,,m=x,r=a", "n,,n=a", "n,,n=,r="]
        {
            let begun = ScramExchange::begin(verifier.clone(), message.as_bytes(), Binding::NotOffered);
            assert!(begun.is_err(), "{message:?}");
        }
    }

    #[test]
    fn a_proof_is_good_for_one_certificate_and_is_not_talked_down() {
        let verifier = Verifier::of("x");
        let bare = "n=,r=abc";
        let begin = |flag: &str, bound: Binding<'_>| {
            ScramExchange::begin(verifier.clone(), format!("{flag},,{bare}").as_bytes(), bound)
        };
        let flag = "p=tls-server-end-point";
        let login = |seen: &[u8]| {
            let (exchange, answer) = begin(flag, Binding::EndPoint(b"hash of this server")).unwrap();
            let binding = [format!("{flag},,").as_bytes(), seen].concat();
            exchange.finish(bound_proof("x", bare, &answer, &binding).as_bytes()).unwrap()
        };
        assert!(login(b"hash of this server").is_some());
        assert_eq!(login(b"hash of another one"), None);
        assert_eq!(login(b""), None);
        for (flag, bound) in [
            ("y", Binding::Declined),
            (flag, Binding::Declined),
            (flag, Binding::NotOffered),
            ("n", Binding::EndPoint(b"hash")),
            ("y", Binding::EndPoint(b"hash")),
            ("p=tls-unique", Binding::EndPoint(b"hash")),
        ] {
            assert!(begin(flag, bound).is_err(), "{flag} {bound:?}");
        }
        assert!(begin("n", Binding::Declined).is_ok() && begin("y", Binding::NotOffered).is_ok());
    }

    #[test]
    fn a_name_that_nobody_has_looks_like_one_that_somebody_has() {
        let salt = |verifier: Verifier| verifier.salt;
        assert_eq!(salt(Verifier::mock(b"key", "a")), salt(Verifier::mock(b"key", "a")));
        assert_ne!(salt(Verifier::mock(b"key", "a")), salt(Verifier::mock(b"key", "b")));
        assert_eq!(salt(Verifier::mock(b"key", "a")).len(), SALT_BYTES);
    }

    #[test]
    fn what_is_no_verifier_is_refused() {
        for text in
            ["", "x", "SCRAM-SHA-256$", "SCRAM-SHA-256$0:AA==$AA==:AA==", "SCRAM-SHA-256$4096:AA==$AA==:AA=="]
        {
            assert!(text.parse::<Verifier>().is_err(), "{text}");
        }
    }
}
