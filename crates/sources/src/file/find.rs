//! Which files a list of paths and patterns means.
//!
//! Owns the meaning of a path or pattern, the look at all names at one moment, and the refusal of what is no regular file. Does not own
//! which file a position belongs to once names have moved (`file::place`).

use std::collections::BTreeSet;
use std::path::Path;

use dataflow::{SourceError, SourceFault};
use files::names::{self, is_pattern};
use files::{Identity, Node};

use super::fault_of;

/// More matches than this are a mistake in the pattern.
const FILES_MAX: usize = 100_000;

/// The files that exist, each once, in the order of the paths and sorted within a pattern.
pub(super) fn files(paths: &[String]) -> Result<Vec<String>, SourceError> {
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    for path in paths {
        for file in matches(path)? {
            if seen.insert(file.clone()) {
                files.push(file);
            }
        }
        if files.len() > FILES_MAX {
            return Err(config(format!("the paths match more than `{FILES_MAX}` files")));
        }
    }
    Ok(files)
}

/// Whether one of the paths is `file`, or a pattern that means it. The file itself need not exist (any more).
pub(super) fn covers(paths: &[String], file: &str) -> bool {
    paths
        .iter()
        .any(|path| path == file || glob::Pattern::new(path).is_ok_and(|pattern| pattern.matches(file)))
}

fn matches(path: &str) -> Result<Vec<String>, SourceError> {
    match std::fs::metadata(path) {
        Ok(metadata) => return regular(path, &metadata).map(|()| vec![path.to_owned()]),
        // No file need be called as a pattern is written.
        Err(_) if is_pattern(path) => {}
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        // Such as in a folder that may not be searched: the file may be there.
        Err(error) => return Err(failed(path, "inspected", &error)),
    }
    let found = glob::glob(path).map_err(|error| {
        config(format!("pattern `{path}` is wrong at character `{}`: {}", error.pos, error.msg))
    })?;
    let mut files = Vec::new();
    for entry in found {
        let entry = entry.map_err(|error| {
            let message = format!("cannot look into `{}`: {}", error.path().display(), error.error());
            SourceError::new(fault_of(error.error()), message)
        })?;
        if entry.is_file() {
            let Some(name) = entry.to_str() else { return Err(no_utf8(&entry)) };
            files.push(name.to_owned());
        }
        if files.len() > FILES_MAX {
            break;
        }
    }
    match names::not_utf8(path, 1).first() {
        Some(unreadable) => Err(no_utf8(unreadable)),
        None => Ok(files),
    }
}

fn no_utf8(path: &Path) -> SourceError {
    let name = names::escaped(path);
    config(format!(
        "the name `{name}` is not UTF-8, and the paths match it; rename it (`mv $'{name}' NEW`, in bash), or choose a pattern that does not match it"
    ))
}

/// Refuses a path that means no file and never meant one of those that were read (`streams`): it is a mistake.
pub(super) fn check(paths: &[String], streams: &[&str]) -> Result<(), SourceError> {
    for path in paths {
        let is_meant = |stream: &&str| covers(std::slice::from_ref(path), stream);
        if matches(path)?.is_empty() && !streams.iter().any(is_meant) {
            return Err(config(match is_pattern(path) {
                true => format!("pattern `{path}` matches no file"),
                false => format!("file `{path}` does not exist"),
            }));
        }
    }
    Ok(())
}

/// Whether there is no such file, and nothing hides one. No file has a name that is too long.
fn is_missing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}

/// Refuses what is no file that can be read again.
fn regular(path: &str, metadata: &std::fs::Metadata) -> Result<(), SourceError> {
    if metadata.is_dir() {
        return Err(config(format!("`{path}` is a directory: name its files with `{path}/*`")));
    }
    if !metadata.is_file() {
        let way = "pipe it into standard input and name `-`";
        return Err(config(format!("`{path}` is no regular file, so it cannot be read again: {way}")));
    }
    Ok(())
}

/// Looks at the names again after so many renames in a row have come between; a rotation is far shorter.
const LOOKS_MAX: usize = 20;

/// The files of `paths` with what makes each itself, all as they were at one moment: a file that is renamed while names are listed would
/// stand under two of them, and be read twice.
///
/// # Errors
/// As [`files`] and the reading of a file's beginning. [`SourceFault::Away`] when names change faster than they can be listed.
pub(super) fn at_one_moment(paths: &[String]) -> Result<Vec<(String, Identity)>, SourceError> {
    steady(|| {
        let mut found = Vec::new();
        for path in files(paths)? {
            if let Some(identity) = identity(&path)? {
                found.push((path, identity));
            }
        }
        Ok(found)
    })
}

/// What `look` finds, once every name still means the same file behind it.
pub(super) fn steady(
    mut look: impl FnMut() -> Result<Vec<(String, Identity)>, SourceError>,
) -> Result<Vec<(String, Identity)>, SourceError> {
    let stands = |(path, identity): &(String, Identity)| leads_to(path, identity);
    for _ in 0..LOOKS_MAX {
        let found = look()?;
        if found.iter().all(stands) {
            return Ok(found);
        }
    }
    let message = "files are renamed faster than their names can be looked at; trying again";
    Err(SourceError::new(SourceFault::Away, message))
}

/// Whether the name leads to this file now.
pub(super) fn leads_to(path: &str, identity: &Identity) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| Node::of(&metadata).is(&identity.node()))
}

/// The identity of the file at `path` as it is now; `None` for an empty one, which has no record and nothing to know it by, and for
/// one that has gone meanwhile.
fn identity(path: &str) -> Result<Option<Identity>, SourceError> {
    let file = match files::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, "opened", &error)),
    };
    let failed = |error| failed(path, "read", &error);
    if file.metadata().map_err(failed)?.len() == 0 {
        return Ok(None);
    }
    Identity::of(&file).map(|identity| Some(identity.reached_by(path))).map_err(failed)
}

/// An error of a call on `path`.
pub(super) fn failed(path: &str, what: &str, error: &std::io::Error) -> SourceError {
    SourceError::new(fault_of(error), format!("file `{path}` cannot be {what}: {error}"))
}

fn config(message: String) -> SourceError {
    SourceError::new(SourceFault::Config, message)
}

#[cfg(test)]
mod tests;
