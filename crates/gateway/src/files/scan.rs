//! What is there, found at one look at the folders, and which of it is known.
//!
//! Owns the match of files with known ones by device and inode, and how young a copy must be. Does not own the patterns and the names of
//! copies (`files::find`), nor what becomes of a file that nobody knows (`files::follower`).

use std::collections::HashMap;

use files::{Identity, Node};

use super::find::{Folders, Found};
use super::table::Mark;

/// By how much the clock of a file system may be behind: it goes in ticks.
const CLOCK_MS: i64 = 1_000;

/// A file whose copy is looked for.
pub(super) struct Copied {
    pub path: String,
    pub at: String,
    pub identity: Identity,
    pub read: u64,
    pub mark: Mark,
    pub met_ms: i64,
    /// Bytes by which a copy must be known.
    pub bytes_min: u64,
}

/// What is there, as it was found once.
pub(super) struct Scan {
    found: Vec<Found>,
    is_taken: Vec<bool>,
    by_inode: HashMap<u64, Vec<usize>>,
    pub folders: Folders,
}

impl Scan {
    pub fn new(found: Vec<Found>) -> Self {
        let mut by_inode: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, found) in found.iter().enumerate() {
            by_inode.entry(found.node.inode).or_default().push(at);
        }
        Self { is_taken: vec![false; found.len()], found, by_inode, folders: Folders::default() }
    }

    fn at(&self, node: Node) -> Option<usize> {
        let mut at = self.by_inode.get(&node.inode).into_iter().flatten();
        at.find(|at| self.found[**at].node.is(&node)).copied()
    }

    /// The file with this node, which is a known one.
    pub fn take(&mut self, node: Node) -> Option<&Found> {
        let at = self.at(node)?;
        self.is_taken[at] = true;
        Some(&self.found[at])
    }

    /// The file with this node is no known one.
    pub fn give_back(&mut self, node: Node) {
        if let Some(at) = self.at(node) {
            self.is_taken[at] = false;
        }
    }

    /// A file with this node that no pattern means: under its name, or another one in its folder.
    pub fn elsewhere(&mut self, path: &str, node: Node) -> Option<(String, u64)> {
        if let Ok(metadata) = std::fs::metadata(path)
            && Node::of(&metadata).is(&node)
        {
            return Some((path.to_owned(), metadata.len()));
        }
        let sibling = self.folders.beside(path).into_iter().find(|sibling| sibling.node.is(&node))?;
        Some((sibling.path, sibling.bytes))
    }

    pub fn unknown(&self) -> impl Iterator<Item = &Found> {
        self.found.iter().zip(&self.is_taken).filter(|(_, is_taken)| !**is_taken).map(|(found, _)| found)
    }
}

/// Whether a file was created after another one was met, as its copy is; also where that is not known.
pub(super) fn is_young(node: Node, met_ms: i64) -> bool {
    let birth_ms = i64::try_from(node.birth_ns / 1_000_000).unwrap_or(i64::MAX);
    node.birth_ns == 0 || birth_ms >= met_ms - CLOCK_MS
}
