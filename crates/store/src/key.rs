//! Names of objects and folders, valid on every file system and object store.
//!
//! Owns the rules for names and their order. Does not own which names the engine uses.
//!
//! A key is one or more segments joined by `/`. A segment has 1 to [`SEGMENT_BYTES_MAX`] characters out of
//! `A-Z a-z 0-9 . _ = -` and does not begin with a dot: that keeps `.` and `..` out and leaves dotted names to the
//! stores themselves. Keys that differ only in case are different; a file system that folds case will not do.

use std::fmt;
use std::str::FromStr;

/// Bytes of one segment at the most. File systems end at 255.
pub const SEGMENT_BYTES_MAX: usize = 200;
/// Bytes of a whole key at the most. Object stores end at 1,024 and may put a prefix of their own in front.
pub const KEY_BYTES_MAX: usize = 800;
/// Segments of a key at the most: a listing keeps one open folder for each.
pub const SEGMENTS_MAX: usize = 16;

/// The name of an object. Ordered by its bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// A folder: the root of the store, or all keys that begin with the given segments.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Prefix(Option<Key>);

/// Why a text is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nothing before, between or after slashes.
    #[error("`{key}` has an empty segment; join one or more names by single slashes")]
    EmptySegment {
        /// The text, shortened if long.
        key: String,
    },
    /// Begins with a dot.
    #[error("`{key}` has a segment that begins with a dot; such names belong to the store itself")]
    LeadingDot {
        /// The text, shortened if long.
        key: String,
    },
    /// A character outside of the alphabet.
    #[error("`{key}` holds `{found}`; allowed are letters, digits and `.`, `_`, `=`, `-`")]
    Character {
        /// The text, shortened if long.
        key: String,
        /// The first such character, escaped.
        found: String,
    },
    /// More bytes or segments than allowed.
    #[error(
        "`{key}` is too long; a key has at most {KEY_BYTES_MAX} bytes in {SEGMENTS_MAX} segments of \
         {SEGMENT_BYTES_MAX} bytes"
    )]
    TooLong {
        /// The text, shortened.
        key: String,
    },
}

impl Key {
    /// Checks `text` and makes it a key.
    pub fn new(text: impl Into<String>) -> Result<Self, KeyError> {
        let text = text.into();
        check(&text)?;
        Ok(Self(text))
    }

    /// The key `self/rest`, where `rest` may have several segments.
    pub fn join(&self, rest: &str) -> Result<Self, KeyError> {
        Self::new(format!("{}/{rest}", self.0))
    }

    /// The whole key, segments joined by `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The segments in order; at least one.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// The last segment: the object's name in its folder.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().expect("a key has at least one segment")
    }

    /// The folder that the object lies in.
    pub fn folder(&self) -> Prefix {
        Prefix(self.0.rsplit_once('/').map(|(folder, _)| Self(folder.to_owned())))
    }
}

impl Prefix {
    /// The root: every object of the store.
    pub fn root() -> Self {
        Self(None)
    }

    /// Checks `text` and makes it a prefix. The empty text is the root; one slash at the end is allowed.
    pub fn new(text: &str) -> Result<Self, KeyError> {
        if text.is_empty() {
            return Ok(Self::root());
        }
        Ok(Self(Some(Key::new(text.strip_suffix('/').unwrap_or(text))?)))
    }

    /// The key `self/rest`.
    pub fn join(&self, rest: &str) -> Result<Key, KeyError> {
        match &self.0 {
            None => Key::new(rest),
            Some(folder) => folder.join(rest),
        }
    }

    /// Whether `key` lies below this folder.
    pub fn contains(&self, key: &Key) -> bool {
        match &self.0 {
            None => true,
            Some(folder) => key.0.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/')),
        }
    }

    /// The folder's segments; none for the root.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(Key::segments)
    }

    /// The folder without a slash at the end; empty for the root.
    pub fn as_str(&self) -> &str {
        self.0.as_ref().map_or("", Key::as_str)
    }
}

impl From<Key> for Prefix {
    fn from(folder: Key) -> Self {
        Self(Some(folder))
    }
}

impl From<&Key> for Prefix {
    fn from(folder: &Key) -> Self {
        Self(Some(folder.clone()))
    }
}

impl FromStr for Key {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::new(text)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.as_str())
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// Whether `segment` may stand between slashes, apart from the length of the whole key.
pub(crate) fn is_segment(segment: &str) -> bool {
    !segment.is_empty()
        && segment.len() <= SEGMENT_BYTES_MAX
        && !segment.starts_with('.')
        && segment.chars().all(is_allowed)
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '=' | '-')
}

fn check(text: &str) -> Result<(), KeyError> {
    let key = || text.escape_debug().take(80).collect::<String>();
    if text.len() > KEY_BYTES_MAX {
        return Err(KeyError::TooLong { key: key() });
    }
    let mut segments = 0;
    for segment in text.split('/') {
        segments += 1;
        if let Some(found) = segment.chars().find(|&c| !is_allowed(c)) {
            return Err(KeyError::Character { key: key(), found: found.escape_debug().to_string() });
        }
        if segment.is_empty() {
            return Err(KeyError::EmptySegment { key: key() });
        }
        if segment.starts_with('.') {
            return Err(KeyError::LeadingDot { key: key() });
        }
        if segment.len() > SEGMENT_BYTES_MAX || segments > SEGMENTS_MAX {
            return Err(KeyError::TooLong { key: key() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
