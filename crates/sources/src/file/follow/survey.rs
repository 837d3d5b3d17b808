//! What stands under which name at one look.
//!
//! Owns the listing of patterns and folders, and the proof that no name has moved while they were listed. Does not own what a file is to
//! the pipeline (`decide`).
//!
//! A folder is listed entry by entry, so a file that is renamed meanwhile may be met under both of its names, or under none. A rename
//! changes the time of the folder; the system's clock of such times goes in ticks of up to ten milliseconds. So a listing is taken for
//! what stood at one moment only if the folders have the same time before a pause longer than a tick, behind that pause, and at the end.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use dataflow::{SourceError, SourceFault};
use files::{Node, links};

use crate::file::find;

/// Files of a folder that are inspected; more are no folder of logs.
const SIBLINGS_MAX: usize = 100_000;

/// Longer than a tick of the clock that file systems take.
pub(super) const TICK: Duration = Duration::from_millis(20);

/// A file that is there.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub path: String,
    pub node: Node,
    pub bytes: u64,
    /// When it was written last; `None` where the file system keeps no such time.
    pub modified: Option<SystemTime>,
    /// Whether the paths of the source mean it; others are in the folder of a file that was read.
    pub is_meant: bool,
}

/// The files that are there, each under one of its names.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub entries: Vec<Entry>,
    by_inode: HashMap<u64, Vec<usize>>,
    by_path: HashMap<String, usize>,
    seen: HashSet<(Option<u64>, u64)>,
}

/// The times of folders.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Times(BTreeMap<PathBuf, Option<SystemTime>>);

impl Survey {
    /// Of the files that the paths mean.
    ///
    /// # Errors
    /// When a folder cannot be listed, or a path means what is no file.
    pub fn of(paths: &[String]) -> Result<Self, SourceError> {
        let mut survey = Self::default();
        // A folder that has gone while it was listed is not there at the next look.
        let passing = |error: SourceError| match error.fault {
            SourceFault::Refused => SourceError { fault: SourceFault::Away, ..error },
            SourceFault::Away | SourceFault::Lookup | SourceFault::Config | SourceFault::Store => error,
        };
        for path in find::files(paths).map_err(passing)? {
            survey.add(path, true)?;
        }
        Ok(survey)
    }

    /// And of the other files in these folders.
    ///
    /// # Errors
    /// When one of them cannot be listed: a file that nobody could look for is not known to be gone.
    pub fn widen(&mut self, folders: &BTreeSet<PathBuf>) -> Result<(), SourceError> {
        for folder in folders {
            let failed = |error| find::failed(&folder.display().to_string(), "listed", &error);
            let entries = match std::fs::read_dir(folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            for entry in entries.take(SIBLINGS_MAX) {
                let path = entry.map_err(failed)?.path();
                if let Some(path) = path.to_str() {
                    self.add(path.to_owned(), false)?;
                }
            }
        }
        Ok(())
    }

    /// One file counts once, whatever leads to it.
    fn add(&mut self, path: String, is_meant: bool) -> Result<(), SourceError> {
        if self.by_path.contains_key(&path) {
            return Ok(());
        }
        let metadata = match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            // A name that nobody asked for.
            Err(_) if !is_meant => return Ok(()),
            Err(error) => return Err(find::failed(&path, "inspected", &error)),
        };
        let node = Node::of(&metadata);
        if !self.seen.insert((node.device, node.inode)) {
            return Ok(());
        }
        let at = self.entries.len();
        self.by_inode.entry(node.inode).or_default().push(at);
        self.by_path.insert(path.clone(), at);
        let modified = metadata.modified().ok();
        self.entries.push(Entry { path, node, bytes: metadata.len(), modified, is_meant });
        Ok(())
    }

    /// The file that is this one.
    pub fn at_node(&self, node: &Node) -> Option<&Entry> {
        let of_inode = self.by_inode.get(&node.inode)?;
        of_inode.iter().map(|at| &self.entries[*at]).find(|entry| entry.node.is(node))
    }
}

impl Entry {
    /// Whether it has not been written for so long. Where nobody can say, it has not.
    pub fn is_settled(&self, time: Duration) -> bool {
        let since = |modified: SystemTime| modified.elapsed().unwrap_or(Duration::MAX);
        self.modified.is_none_or(|modified| since(modified) >= time)
    }
}

impl Times {
    /// Of these folders now.
    pub fn of(folders: &BTreeSet<PathBuf>) -> Self {
        let time =
            |folder: &PathBuf| std::fs::metadata(folder).and_then(|metadata: Metadata| metadata.modified());
        Self(folders.iter().map(|folder| (folder.clone(), time(folder).ok())).collect())
    }
}

/// The folder of a path.
pub(super) fn folder(path: &str) -> PathBuf {
    links::folder(Path::new(path))
}
