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
