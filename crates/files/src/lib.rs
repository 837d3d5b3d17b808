//! Files of this host that others write, rename, copy and delete while they are read.
//!
//! Owns what makes a file itself ([`identity`]), what makes one another's copy ([`copies`]), where links lead ([`links`]), and how a name is opened
//! that may be no file's. Does not own which files are read, or where a reader is in one: `sources::file` and `gateway::files` know that.

pub mod copies;
pub mod identity;
pub mod links;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
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

/// The hash that bytes of files are compared by. Recorded: it never changes.
pub fn hash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}
