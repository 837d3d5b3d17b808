//! From a URL to a store.
//!
//! Owns which schemes there are. Does not own what a store does once it is open. Messages show a URL's scheme only,
//! since what follows may hold a password.
//!
//! | url                            | store                                         |
//! |--------------------------------|-----------------------------------------------|
//! | `file:///var/lib/forebay`      | [`FileStore`] in that folder                  |
//! | `file://data`, `data`, `./data`| [`FileStore`], relative to the working folder |
//! | `memory://`                    | a new [`MemoryStore`], gone with the process  |

use std::path::Path;
use std::sync::Arc;

use crate::{BlockingPool, ErrorKind, FileStore, MemoryStore, Operation, Store, StoreError, TokioPool};

/// Opens the store at `url`; blocking work goes to tokio's pool. Blocks the calling thread for a few fsyncs.
pub fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    open_with(url, Arc::new(TokioPool))
}

/// Opens the store at `url` only to read; `None` if there is none. Leaves no trace and refuses puts and deletes.
pub fn open_to_read(url: &str) -> Result<Option<Arc<dyn Store>>, StoreError> {
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
        // Refusals are the same as for writing; a store in memory is empty in every process but its own.
        _ => open_with(url, Arc::new(TokioPool)).map(|_| None),
    }
}

/// Opens the store at `url`; blocking work goes to `pool`. Paths are taken as they stand, without percent signs decoded.
pub fn open_with(url: &str, pool: Arc<dyn BlockingPool>) -> Result<Arc<dyn Store>, StoreError> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("file", url));
    let refuse =
        |kind, reason: String| Err(StoreError::new(kind, Operation::Open, format!("{scheme}://…"), reason));
    match scheme {
        "memory" if rest.is_empty() => Ok(Arc::new(MemoryStore::default())),
        "memory" => refuse(ErrorKind::Url, "a store in memory has no name".to_owned()),
        "file" if rest.is_empty() => refuse(ErrorKind::Url, "there is no path".to_owned()),
        "file" if rest.contains('\0') => refuse(ErrorKind::Url, "the path holds a zero byte".to_owned()),
        "file" => Ok(Arc::new(FileStore::open(Path::new(rest), pool)?)),
        "s3" | "gs" | "az" => refuse(
            ErrorKind::Url,
            format!("this build has no store for `{scheme}`, only for `file` and `memory`"),
        ),
        _ => refuse(ErrorKind::Url, "the scheme is not known, only `file` and `memory` are".to_owned()),
    }
}

#[cfg(test)]
mod tests;
