//! SCRAM, the client's side (RFC 5802, with the hashes of RFC 7677).
//!
//! Owns the messages and the proofs: that we know the password, and that the broker knows what was made of it. Does not own
//! who carries the messages (`login`). Passwords are taken as they are, as Kafka's own clients do. Pure but for the nonce.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SecureRandom;
use ring::{digest, hmac, pbkdf2};

/// Which hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

/// Rounds that a broker may ask for: below, a stolen exchange is too easily guessed from (RFC 7677); above, it would keep us
/// busy for seconds. Kafka itself asks for 4,096 to 16,384.
const ROUNDS: std::ops::RangeInclusive<u32> = 4_096..=1_000_000;
const NONCE_BYTES: usize = 24;
/// The header `n,,` (no channel is bound, nobody else is acted for) in base64.
const HEADER: &str = "n,,";
const HEADER_BASE64: &str = "biws";

/// Why an exchange ends. Shows nothing of the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScramError {
    #[error("the broker's message does not follow SCRAM")]
    Malformed,
    #[error("the broker's nonce does not extend ours: it answers another login")]
    Nonce,
    #[error("the broker asks for `{0}` rounds, and {min} to {max} are done", min = ROUNDS.start(), max = ROUNDS.end())]
    Rounds(u32),
    #[error("the broker failed to prove that it knows the password; it may be an impostor")]
    Signature,
    #[error("the system has no random numbers for a nonce")]
    Random,
}

/// A nonce that nobody can foresee.
pub(super) fn nonce() -> Result<String, ScramError> {
    let mut bytes = [0; NONCE_BYTES];
    ring::rand::SystemRandom::new().fill(&mut bytes).map_err(|_| ScramError::Random)?;
    Ok(STANDARD.encode(bytes))
}

/// An exchange after its first message.
pub(super) struct Exchange {
    hash: Hash,
    nonce: String,
    /// The first message without its header.
    first: String,
}

impl Exchange {
    /// An exchange for `user`; `nonce` is used once.
    pub(super) fn new(hash: Hash, user: &str, nonce: String) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let first = format!("n={user},r={nonce}");
        Self { hash, nonce, first }
    }

    /// The first message.
    pub(super) fn first(&self) -> Vec<u8> {
        format!("{HEADER}{}", self.first).into_bytes()
    }

    /// The last message, by the broker's first, and what its last must hold.
    pub(super) fn last(
        &self,
        server_first: &[u8],
        password: &str,
    ) -> Result<(Vec<u8>, Expected), ScramError> {
        let server_first = std::str::from_utf8(server_first).map_err(|_| ScramError::Malformed)?;
        let mut parts = server_first.split(',');
        let mut part =
            |name: &str| parts.next().and_then(|part| part.strip_prefix(name)).ok_or(ScramError::Malformed);
        // An `m=` in front would be an extension that must be understood: nothing else may come first.
        let (nonce, salt, rounds) = (part("r=")?, part("s=")?, part("i=")?);
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ScramError::Nonce);
        }
        let salt = STANDARD.decode(salt).map_err(|_| ScramError::Malformed)?;
        let rounds: u32 = rounds.parse().map_err(|_| ScramError::Malformed)?;
        let rounds = NonZeroU32::new(rounds)
            .filter(|rounds| ROUNDS.contains(&rounds.get()))
            .ok_or(ScramError::Rounds(rounds))?;

        let (hashing, deriving, digesting) = self.hash.algorithms();
        let mut salted = vec![0; digesting.output_len()];
        pbkdf2::derive(deriving, rounds, &salt, password.as_bytes(), &mut salted);
        let salted = hmac::Key::new(hashing, &salted);
        let client_key = hmac::sign(&salted, b"Client Key");
        let stored_key = digest::digest(digesting, client_key.as_ref());
        let server_key = hmac::sign(&salted, b"Server Key");

        let mut last = format!("c={HEADER_BASE64},r={nonce}");
        let whole = format!("{},{server_first},{last}", self.first);
        let signature = hmac::sign(&hmac::Key::new(hashing, stored_key.as_ref()), whole.as_bytes());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        write!(last, ",p={}", STANDARD.encode(proof)).expect("a string takes all");
        let expected = Expected { key: hmac::Key::new(hashing, server_key.as_ref()), whole };
        Ok((last.into_bytes(), expected))
    }
}

/// What proves that the broker knows the password too.
pub(super) struct Expected {
    key: hmac::Key,
    whole: String,
}

impl Expected {
    /// Checks the broker's last message.
    pub(super) fn check(&self, server_last: &[u8]) -> Result<(), ScramError> {
        let server_last = std::str::from_utf8(server_last).map_err(|_| ScramError::Malformed)?;
        let part = server_last.split(',').next().and_then(|part| part.strip_prefix("v="));
        let signature = part.and_then(|part| STANDARD.decode(part).ok()).ok_or(ScramError::Malformed)?;
        hmac::verify(&self.key, self.whole.as_bytes(), &signature).map_err(|_| ScramError::Signature)
    }
}

impl Hash {
    fn algorithms(self) -> (hmac::Algorithm, pbkdf2::Algorithm, &'static digest::Algorithm) {
        match self {
            Self::Sha256 => (hmac::HMAC_SHA256, pbkdf2::PBKDF2_HMAC_SHA256, &digest::SHA256),
            Self::Sha512 => (hmac::HMAC_SHA512, pbkdf2::PBKDF2_HMAC_SHA512, &digest::SHA512),
        }
    }
}

#[cfg(test)]
mod tests;
