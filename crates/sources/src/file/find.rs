//! Which files a list of paths and patterns means, and what makes a file itself.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use dataflow::{SourceError, SourceFault};

use super::fault_of;

/// Bytes at the head of a file that its identity covers: enough to tell two logs apart, few enough to be there early.
const HEAD_BYTES: usize = 256;

/// More matches than this are a mistake in the pattern.
const FILES_MAX: usize = 100_000;

/// The files, each once, in the order of the paths and sorted within a pattern.
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
    if Path::new(path).exists() {
        regular(path)?;
        return Ok(vec![path.to_owned()]);
    }
    if !path.contains(['*', '?', '[']) {
        return Err(config(format!("file `{path}` does not exist")));
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
            let Some(name) = entry.to_str() else {
                return Err(config(format!("file name `{}` is not UTF-8", entry.display())));
            };
            files.push(name.to_owned());
        }
        if files.len() > FILES_MAX {
            break;
        }
    }
    if files.is_empty() {
        return Err(config(format!("pattern `{path}` matches no file")));
    }
    Ok(files)
}

fn regular(path: &str) -> Result<(), SourceError> {
    let metadata = std::fs::metadata(path).map_err(|error| failed(path, "looked at", &error))?;
    if metadata.is_dir() {
        return Err(config(format!("`{path}` is a directory: name its files with `{path}/*`")));
    }
    if !metadata.is_file() {
        let way = "pipe it into standard input and name `-`";
        return Err(config(format!("`{path}` is no regular file, so it cannot be read again: {way}")));
    }
    Ok(())
}

/// The identity of the file at `path` as it is now.
pub(super) fn identity(path: &str) -> Result<String, SourceError> {
    let failed = |error| failed(path, "opened", &error);
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    identity_over(&mut file, &metadata, HEAD_BYTES).map_err(failed)
}

/// True if `recorded` is an identity of this file, which may have grown since. Reads from the file's start.
pub(super) fn is_same(file: &mut File, recorded: &str) -> std::io::Result<(bool, String)> {
    let metadata = file.metadata()?;
    let covered = recorded.split(':').nth(2).and_then(|n| n.parse::<usize>().ok());
    let now = identity_over(file, &metadata, covered.unwrap_or(HEAD_BYTES).min(HEAD_BYTES))?;
    Ok((now == recorded, now))
}

/// Inode, birth, bytes covered, their hash. The device is left out: its number changes when a disk is mounted again.
fn identity_over(file: &mut File, metadata: &Metadata, bytes_max: usize) -> std::io::Result<String> {
    let mut head = Vec::with_capacity(bytes_max);
    file.by_ref().take(bytes_max as u64).read_to_end(&mut head)?;
    // Not every file system keeps the birth; the inode and the bytes have to do there.
    let birth = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let birth_ns = birth.map_or(0, |time| time.as_nanos());
    let hash = xxhash_rust::xxh3::xxh3_64(&head);
    Ok(format!("{}:{birth_ns}:{}:{hash:016x}", metadata.ino(), head.len()))
}

/// An error of a call on `path`.
pub(super) fn failed(path: &str, what: &str, error: &std::io::Error) -> SourceError {
    SourceError::new(fault_of(error), format!("file `{path}` cannot be {what}: {error}"))
}

fn config(message: String) -> SourceError {
    SourceError::new(SourceFault::Config, message)
}
