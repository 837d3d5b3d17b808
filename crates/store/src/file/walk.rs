//! Listings of folders, in the order of whole keys and in bounded memory.
//!
//! Owns the walk. Does not own what is done with an entry.
//!
//! A folder is placed as if its name ended in a slash, which is how its keys compare with its siblings. One pass over a
//! folder keeps only the smallest names that a page can take; if they turn out to be empty folders, another pass continues
//! behind them. Names that no key can have, links and special files are passed over: they are not the store's.

use std::collections::BinaryHeap;
use std::fs;
use std::io;
use std::path::Path;

use super::disk::{Disk, is_absent};
use crate::key::{self, is_segment};
use crate::{Entry, Key, Operation, Prefix, StoreError};

/// Names that one pass keeps at least, so that empty folders do not cost a pass each.
const NAMES_MIN: usize = 256;

/// The page of [`crate::Store::list`].
pub(super) fn list(
    disk: &Disk,
    prefix: &Prefix,
    after: Option<&Key>,
    limit: usize,
) -> Result<Vec<Entry>, StoreError> {
    let mut name = prefix.as_str().to_owned();
    if !name.is_empty() {
        name.push('/');
    }
    let after = match after.map(Key::as_str) {
        None => None,
        Some(after) => match after.strip_prefix(&name) {
            Some(below) => Some(below),
            None if after < name.as_str() => None,
            None => return Ok(Vec::new()),
        },
    };
    let mut page = Page { entries: Vec::new(), limit };
    let folder = disk.path(prefix.segments());
    page.fill(&folder, &mut name, after)
        .map_err(|error| StoreError::io(Operation::List, prefix, "read its folders", error))?;
    Ok(page.entries)
}

/// Calls `visit` for every folder below `folder` and for the folder itself, what is inside before what holds it. What
/// vanishes meanwhile is passed over.
pub(super) fn visit_folders(folder: &Path, visit: &impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    visit_below(folder, visit, key::SEGMENTS_MAX)
}

fn visit_below(folder: &Path, visit: &impl Fn(&Path) -> io::Result<()>, depth_left: usize) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return unless_absent(Err(error)),
    };
    for entry in entries {
        let entry = entry?;
        let is_ours = entry.file_name().to_str().is_some_and(is_segment);
        if depth_left > 0 && is_ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            visit_below(&entry.path(), visit, depth_left - 1)?;
        }
    }
    unless_absent(visit(folder))
}

struct Page {
    entries: Vec<Entry>,
    limit: usize,
}

impl Page {
    /// Adds what lies below `folder`, whose keys begin with `name`, and sorts behind `after` (relative to the folder).
    fn fill(&mut self, folder: &Path, name: &mut String, after: Option<&str>) -> io::Result<()> {
        let mut passed: Option<String> = None;
        while self.entries.len() < self.limit {
            let names_max = (self.limit - self.entries.len()).max(NAMES_MIN);
            let names = smallest_names(folder, after, passed.as_deref(), names_max)?;
            let is_last = names.len() < names_max;
            for child in &names {
                if self.entries.len() == self.limit {
                    return Ok(());
                }
                self.add(folder, name, child, after)?;
            }
            passed = names.into_iter().next_back();
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Adds the object `child`, or what lies below it if it ends in a slash.
    fn add(&mut self, folder: &Path, name: &mut String, child: &str, after: Option<&str>) -> io::Result<()> {
        let length = name.len();
        name.push_str(child);
        let path = folder.join(child);
        if child.ends_with('/') {
            if name.matches('/').count() < key::SEGMENTS_MAX {
                self.fill(&path, name, after.and_then(|after| after.strip_prefix(child)))?;
            }
        } else {
            match path.symlink_metadata() {
                // A name that is too long for a key is not the store's.
                Ok(found) => {
                    if let Ok(key) = Key::new(name.as_str()) {
                        self.entries.push(Entry { key, size_bytes: found.len() });
                    }
                }
                Err(error) => unless_absent(Err(error))?,
            }
        }
        name.truncate(length);
        Ok(())
    }
}

/// The smallest names in `folder` that can lead to keys behind `after` and that sort behind `passed`, in order; at most
/// `names_max`. Folders end in a slash.
fn smallest_names(
    folder: &Path,
    after: Option<&str>,
    passed: Option<&str>,
    names_max: usize,
) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return unless_absent(Err(error)).map(|()| Vec::new()),
    };
    let mut smallest: BinaryHeap<String> = BinaryHeap::new();
    for entry in entries {
        let entry = entry?;
        let Ok(mut name) = entry.file_name().into_string() else { continue };
        let Ok(kind) = entry.file_type() else { continue };
        if !is_segment(&name) || !(kind.is_dir() || kind.is_file()) {
            continue;
        }
        if kind.is_dir() {
            name.push('/');
        }
        let is_behind =
            after.is_none_or(|after| name.as_str() > after || (kind.is_dir() && after.starts_with(&name)));
        if !is_behind || passed.is_some_and(|passed| name.as_str() <= passed) {
            continue;
        }
        if smallest.len() < names_max {
            smallest.push(name);
        } else if smallest.peek().is_some_and(|largest| name < *largest) {
            smallest.pop();
            smallest.push(name);
        }
    }
    Ok(smallest.into_sorted_vec())
}

fn unless_absent(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if is_absent(&error) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
