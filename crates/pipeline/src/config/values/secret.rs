//! Texts that must never be seen: passwords, tokens, private keys.
//!
//! Owns that it is shown as `***` in every form. Does not own where the text comes from: `${NAME}` and `file:` are put in place before
//! (`values::reference`).

use std::fmt;
use std::str::FromStr;

use super::{Kind, text_kind};

/// A secret. It shows itself as `***` in every form; only [`Secret::reveal`] gives the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Bytes that a secret may have: more than any key file, less than a file named by mistake.
    pub const BYTES_MAX: usize = 64 << 10;

    /// The text itself, for the one call that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for Secret {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > Self::BYTES_MAX {
            return Err(format!("has more than {} bytes", Self::BYTES_MAX));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Kind for Secret {
    const KIND: &'static str = "secret";
    const CALLED: &'static str = "secret: `${NAME}`, `file:/path`, or the text itself";
    const EXAMPLE: &'static str = "${CLICKHOUSE_PASSWORD}";
}
text_kind!(Secret);
