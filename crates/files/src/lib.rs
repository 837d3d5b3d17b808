//! Files of this host that others write, rename, copy and delete while they are read.
//!
//! Owns what makes a file itself ([`identity`]), what makes one another's copy ([`copies`]), where links lead ([`links`]), which names are no text ([`names`]), and how a name
//! is opened that may be no file's. Does not own which files are read, or where a reader is in one: `sources::file` and `gateway::files` know that.

pub mod copies;
pub mod identity;
pub mod links;
pub mod names;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

pub use identity::{Beginning, Identity, Likeness, Node};

/// Opens a file to be read. A name may be given to a FIFO or a device at any time, which would have whoever opens it wait for its writer.
///
/// # Errors
/// [`NotFound`](std::io::ErrorKind::NotFound) when the name leads to nothing that is a file, too.
pub fn open(path: impl AsRef<Path>) -> std::io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    let (kind, what) = match kind.is_dir() {
        true => (std::io::ErrorKind::IsADirectory, "it is a directory"),
        false => (std::io::ErrorKind::NotFound, "it is no regular file"),
    };
    Err(std::io::Error::new(kind, what))
}

/// Bytes before a position that a file is known by: more than a line, so that lines of one form do not look alike.
pub const BEFORE_BYTES: u64 = 1024;

/// The hash of the [`BEFORE_BYTES`] bytes before a position of a plain file, or of all if there are fewer; `None` if the file does not reach there, and of the
/// position 0.
///
/// # Errors
/// When the file cannot be read.
pub fn hash_before(file: &File, position: u64) -> std::io::Result<Option<u64>> {
    let length = position.min(BEFORE_BYTES);
    let mut bytes = [0; BEFORE_BYTES as usize];
    let bytes = &mut bytes[..length as usize];
    match file.read_exact_at(bytes, position - length) {
        Ok(()) => Ok((!bytes.is_empty()).then(|| hash(bytes))),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The hash that bytes of files are compared by. Recorded: it never changes.
pub fn hash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}
