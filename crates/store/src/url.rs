//! From a URL to a store.
//!
//! Owns which schemes there are. Does not own what a store does once it is open. Messages show a URL's scheme only,
//! since what follows may hold a password.
//!
//! | url                            | store                                         |
//! |--------------------------------|-----------------------------------------------|
//! | `file:///var/lib/forebay`      | [`FileStore`] in that folder                  |
//! | `file://data`, `data`, `./data`| [`FileStore`], relative to the working folder |
//! | `s3://bucket/prefix`           | S3 and what speaks like it (feature `s3`)     |
//! | `gs://bucket/prefix`           | Google Cloud Storage (feature `gcs`)          |
//! | `az://container/prefix`        | Azure Blob Storage (feature `azure`)          |
//! | `memory://`                    | a new [`MemoryStore`], lost with the process |

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Access, access, statvfs};

use crate::{
    BlockingPool, ErrorKind, FileStore, MemoryStore, Operation, Remote, Store, StoreError, TokioPool,
};

/// Opens the store at `url`; blocking work goes to tokio's pool. Blocks the calling thread for a few fsyncs. Object storage
/// is reached with `remote` and is not asked for anything yet: see [`Store::probe`].
pub fn open(url: &str, remote: &Remote) -> Result<Arc<dyn Store>, StoreError> {
    open_with(url, Arc::new(TokioPool), remote)
}

/// Opens the store at `url` only to read; `None` if there is none. Leaves no trace; local disk refuses puts and deletes.
pub fn open_to_read(url: &str, remote: &Remote) -> Result<Option<Arc<dyn Store>>, StoreError> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("file", url));
    match scheme {
        "file" if !rest.is_empty() && !rest.contains('\0') => {
            let path = Path::new(rest);
            let is_there =
                path.try_exists().map_err(|e| StoreError::io(Operation::Open, rest, "look for it", e))?;
            if !is_there {
                return Ok(None);
            }
            Ok(Some(Arc::new(FileStore::open_to_read(path, Arc::new(TokioPool))?)))
        }
        "s3" | "gs" | "az" => open(url, remote).map(Some),
        // Refusals are the same as for writing; a store in memory is empty in every process but its own.
        _ => open(url, remote).map(|_| None),
    }
}

/// Free bytes below which a folder has no room for a store: a start and its first seal take some kilobytes, the file system's own books
/// some more.
const ROOM_MIN: u64 = 1 << 20;

/// Whether a store on local disk at `url` could be written now, as far as that can be seen without writing: the folder, or the nearest one
/// above it that exists, may be written and has room, and a folder that is there would be opened. Object storage and memory are not checked.
///
/// # Errors
/// When it could not, with the way out.
pub fn could_write(url: &str) -> Result<(), StoreError> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("file", url));
    if scheme != "file" || rest.is_empty() || rest.contains('\0') {
        return Ok(());
    }
    let root = Path::new(rest).components().as_path();
    if let Some(why) = crate::file::objection(root) {
        return Err(StoreError::new(ErrorKind::NotSupported, Operation::Open, rest, why));
    }
    let failed = |what: &str, error: io::Error| Err(StoreError::io(Operation::Put, rest, what, error));
    let above = Path::new(rest).ancestors().find(|path| path.exists() && !path.as_os_str().is_empty());
    let folder = above.unwrap_or(Path::new("."));
    if let Err(error) = access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        let error = StoreError::io(Operation::Put, rest, "write to its folder", error.into());
        // A store that others have filled, and that cannot be written now, is not waited for.
        return Err(if crate::file::is_used(root) {
            error.with_kind(ErrorKind::NotSupported)
        } else {
            error
        });
    }
    match statvfs(folder) {
        // Some file systems count no files.
        Ok(room) if room.f_files > 0 && room.f_favail == 0 => {
            failed("make a file (the file system has none left)", io::ErrorKind::StorageFull.into())
        }
        Ok(room) if room.f_bavail.saturating_mul(room.f_frsize) < ROOM_MIN => {
            let left = room.f_bavail.saturating_mul(room.f_frsize);
            failed(&format!("find room ({left} bytes are free)"), io::ErrorKind::StorageFull.into())
        }
        Ok(_) => Ok(()),
        Err(error) => failed("ask for its room", error.into()),
    }
}

/// Opens the store at `url`; blocking work goes to `pool`. Paths are taken as they stand, without percent signs decoded.
pub fn open_with(
    url: &str,
    pool: Arc<dyn BlockingPool>,
    remote: &Remote,
) -> Result<Arc<dyn Store>, StoreError> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("file", url));
    let refuse =
        |kind, reason: String| Err(StoreError::new(kind, Operation::Open, format!("{scheme}://…"), reason));
    match scheme {
        "memory" if rest.is_empty() => Ok(Arc::new(MemoryStore::default())),
        "memory" => refuse(ErrorKind::Url, "a store in memory has no name".to_owned()),
        "file" if rest.is_empty() => refuse(ErrorKind::Url, "there is no path".to_owned()),
        "file" if rest.contains('\0') => refuse(ErrorKind::Url, "the path holds a zero byte".to_owned()),
        "file" => Ok(Arc::new(FileStore::open(Path::new(rest), pool)?)),
        "s3" | "gs" | "az" => remote_store(url, scheme, remote),
        _ => refuse(
            ErrorKind::Url,
            "the scheme is not known, only `file`, `s3`, `gs`, `az` and `memory` are".to_owned(),
        ),
    }
}

#[cfg(feature = "object")]
fn remote_store(url: &str, _scheme: &str, remote: &Remote) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(crate::ObjectStorage::new(url, remote)?))
}

#[cfg(not(feature = "object"))]
fn remote_store(_url: &str, scheme: &str, _remote: &Remote) -> Result<Arc<dyn Store>, StoreError> {
    let reason = format!("this build has no store for `{scheme}`");
    Err(StoreError::new(ErrorKind::Url, Operation::Open, format!("{scheme}://…"), reason))
}

#[cfg(test)]
mod tests;
