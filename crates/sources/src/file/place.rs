//! Where the file is that a position belongs to, after its name was given to another one or to none.
//!
//! Owns the search and what follows from it. Does not own the comparison (`files`) or which names a source has (`find`).
//!
//! | under its name stands                 | what is read                                                                 |
//! |---------------------------------------|------------------------------------------------------------------------------|
//! | the file itself                       | it; at the position or beyond, or it was cut                                 |
//! | the file, cut                         | nothing: refused                                                             |
//! | nothing, or another file              | the file under its new name in the same folder, or among the paths           |
//! | the file, emptied or written over     | its copy in the same folder, whose name begins alike (`copytruncate`)        |
//! | and neither is found                  | nothing more if it was read to its end; else refused                         |

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use dataflow::{ReadFrom, SourceError, SourceFault};
use files::{Identity, Likeness};

use super::find::failed;

/// Stands in [`ReadFrom::leader_epoch`] with a position at which the file ended when it was read to there: the file may go.
pub(super) const READ_TO_ITS_END: i32 = 1;
/// Stands there with any other position.
pub(super) const NOT_AT_ITS_END: i32 = 0;

/// Files of a folder that are inspected; more are no folder of logs.
const SIBLINGS_MAX: usize = 100_000;

/// A name that was given to more files than this is not a log's.
pub(super) const NAMESAKES_MAX: u32 = 1 << 16;

/// The file of a position.
#[derive(Debug)]
pub(super) enum Place {
    /// Here it is, open at its start.
    At(File, String),
    /// Nowhere, and nothing of it is missed.
    Finished,
}

/// Finds the file that `from` means; `paths` gives the names of other files that it may have been given.
///
/// # Errors
/// [`SourceFault::Refused`] when its records may be lost. As `paths`, and when the file's folder cannot be listed: a file that nobody
/// could look for is not known to be gone.
pub(super) fn find(
    from: &ReadFrom,
    paths: &dyn Fn() -> Result<Vec<String>, SourceError>,
) -> Result<Place, SourceError> {
    let path = &*from.partition.stream;
    let next = from.plain()?;
    let refuse = |message: String| Err(SourceError::new(SourceFault::Refused, message).at(&from.partition));
    if from.partition.index >= NAMESAKES_MAX {
        return refuse(format!("file `{path}` has no partition `{}`", from.partition.index));
    }
    let (found, file, now) = match File::open(path) {
        Ok(file) => {
            let failed = |error| failed(path, "opened", &error);
            let now = Identity::of(&file).map_err(failed)?;
            let found = match Identity::parse(&from.identity) {
                Some(identity) => identity.compare(&file).map_err(failed)?,
                None => Likeness::Other,
            };
            (Some(found), Some(file), now.to_string())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (None, None, String::new()),
        Err(error) => return Err(failed(path, "opened", &error)),
    };
    if let (Some(Likeness::Same), Some(file)) = (found, file) {
        return Ok(Place::At(file, path.to_owned()));
    }
    if found == Some(Likeness::Cut) {
        return refuse(format!(
            "file `{path}` was cut to fewer bytes than it had when it was first seen; it was read to position `{next}`, and whether \
             anything behind it is lost nobody can tell. Bring the whole file back in place (`cat whole > file`), or take it out of the \
             pipeline with `forebay forget FILE --file {path}`"
        ));
    }
    if let Some(identity) = Identity::parse(&from.identity) {
        let was_copied = matches!(found, Some(Likeness::Emptied | Likeness::Overwritten));
        if let Some(place) = elsewhere(path, &identity, next, was_copied, paths)? {
            return Ok(place);
        }
        // Nothing was ever in it that could be missed, or nothing is left of it that was not read.
        if from.leader_epoch == READ_TO_ITS_END {
            tracing::info!(file = path, position = next, "a file that was read to its end was deleted");
            return Ok(Place::Finished);
        }
    }
    let recorded = &from.identity;
    let what = match found {
        None => "is gone".to_owned(),
        Some(Likeness::Emptied) => "was emptied".to_owned(),
        Some(Likeness::Overwritten) => format!("was written over (recorded `{recorded}`, now `{now}`)"),
        _ => format!("is another one than was read (recorded `{recorded}`, now `{now}`)"),
    };
    refuse(format!(
        "file `{path}` {what}, and the one before was read to position `{next}` only, not to its end; it is in its folder under no other \
         name. Bring it back, or take it out of the pipeline with `forebay forget FILE --file {path}`: what was not read of it is lost then"
    ))
}

/// The file under another name.
fn elsewhere(
    path: &str,
    identity: &Identity,
    next: u64,
    was_copied: bool,
    paths: &dyn Fn() -> Result<Vec<String>, SourceError>,
) -> Result<Option<Place>, SourceError> {
    let mut copies = Vec::new();
    let stem = stem(path);
    for sibling in siblings(path)? {
        let is_copy = || sibling.name().is_some_and(|name| name.starts_with(&stem));
        if sibling.inode == identity.node().inode {
            if let Some(place) = open(&sibling.path, identity, Likeness::Same) {
                return Ok(Some(place));
            }
        } else if was_copied && is_copy() {
            copies.push(sibling.path);
        }
    }
    for other in paths()? {
        let other = PathBuf::from(other);
        if std::fs::metadata(&other).is_ok_and(|metadata| metadata.ino() == identity.node().inode)
            && let Some(place) = open(&other, identity, Likeness::Same)
        {
            return Ok(Some(place));
        }
    }
    copies.sort();
    let is_long = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|metadata| metadata.len() >= next);
    Ok(copies.iter().filter(|path| is_long(path)).find_map(|path| open(path, identity, Likeness::Copy)))
}

fn open(path: &Path, identity: &Identity, wanted: Likeness) -> Option<Place> {
    let file = File::open(path).ok()?;
    let is_it = identity.compare(&file).ok()? == wanted;
    let name = path.to_str()?.to_owned();
    is_it.then_some(Place::At(file, name))
}

struct Sibling {
    path: PathBuf,
    inode: u64,
}

impl Sibling {
    fn name(&self) -> Option<String> {
        Some(self.path.file_name()?.to_str()?.to_owned())
    }
}

fn siblings(path: &str) -> Result<Vec<Sibling>, SourceError> {
    let folder = match Path::new(path).parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let failed = |error| failed(&folder.display().to_string(), "listed", &error);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let sibling = |entry: std::fs::DirEntry| {
        let metadata = entry.metadata().ok().filter(Metadata::is_file)?;
        Some(Sibling { path: entry.path(), inode: metadata.ino() })
    };
    let mut found = Vec::new();
    for entry in entries.take(SIBLINGS_MAX) {
        // One that has gone since it was listed is none.
        found.extend(sibling(entry.map_err(failed)?));
    }
    Ok(found)
}

/// The beginning that a copy's name has in common with the file's: `app` for `app.log`.
fn stem(path: &str) -> String {
    let name = Path::new(path).file_stem().and_then(|stem| stem.to_str());
    name.unwrap_or_default().to_owned()
}
