//! What a pipeline knows of a file that it follows, and how another file compares with that.
//!
//! Owns the comparison by content. Does not own where files are looked for (`survey`), nor what follows from a comparison (`decide`).

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use dataflow::{ReadFrom, SourceError};
use files::copies::is_name_of_copy;
use files::{Beginning, Identity, Node, links};

use super::survey::{Entry, folder};
use crate::file::mark::{self, Mark};
use crate::file::place;

pub(super) use crate::file::place::EVIDENCE_MIN;

/// So few say nothing even if the file that had them was emptied.
const EVIDENCE_OF_EMPTIED_MIN: u64 = 16;

/// Where the content of a known file is.
#[derive(Clone, Debug)]
pub(super) enum Is {
    /// In this file, which is open, or will be at once.
    Open { node: Node, path: String },
    /// In this file as it was when it was closed, at the end of what it had.
    Closed { node: Node, path: String, bytes: u64, modified: Option<SystemTime> },
    /// Nobody has looked yet, or not where it was.
    Lost,
    /// Nowhere; all that was known of it has been read.
    Finished,
}

/// A file that the pipeline reads, or has read.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Where it is read on.
    pub from: ReadFrom,
    /// What is known to know it by: what was recorded, or more of it.
    pub identity: Identity,
    pub is: Is,
}

/// How the content of a file compares with that of a known one, as far as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// It has all that was read; so many bytes were compared.
    All(u64),
    /// It has less, and nothing else.
    Part,
    /// It has something else.
    Other,
}

impl Known {
    /// Of a file that was recorded; `None` if this program has not recorded it.
    pub fn new(from: ReadFrom) -> Option<Self> {
        let identity = Identity::parse(&from.identity)?;
        Some(Self { from, identity, is: Is::Lost })
    }

    /// The position that it was read to.
    ///
    /// # Errors
    /// When the position is none of a file.
    pub fn next(&self) -> Result<u64, SourceError> {
        self.from.plain()
    }

    pub fn mark(&self) -> Mark {
        Mark::from(self.from.leader_epoch)
    }

    /// The file that has its content now, unless that is not known.
    pub fn node(&self) -> Option<(Node, &str)> {
        match &self.is {
            Is::Open { node, path } | Is::Closed { node, path, .. } => Some((*node, path)),
            Is::Lost | Is::Finished => None,
        }
    }

    /// Compares the content of a file that begins with `head`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn content(&self, file: &File, head: &[u8]) -> io::Result<Content> {
        let next = u64::try_from(self.from.next).unwrap_or(u64::MAX);
        let bytes = file.metadata()?.len();
        Ok(match self.identity.beginning(head) {
            Beginning::Other => Content::Other,
            Beginning::Shorter => Content::Part,
            Beginning::Alike if bytes < next => Content::Part,
            Beginning::Alike if !self.mark().fits(file, next)? => Content::Other,
            Beginning::Alike => Content::All(self.evidence()),
        })
    }

    /// So many bytes at once are compared at least where a file has all that was read.
    pub fn evidence(&self) -> u64 {
        let next = u64::try_from(self.from.next).unwrap_or(u64::MAX);
        let marked = if self.mark().has_hash() { next.min(mark::BYTES) } else { 0 };
        self.identity.covers().max(marked)
    }

    /// The names that the file had when it was first seen: its own, and the one that links led to.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.from.partition.stream).chain(self.identity.real())
    }

    /// Where it is looked for: the folders of its names, and of those that links lead to from there now.
    pub fn folders(&self) -> BTreeSet<PathBuf> {
        let names = place::names(&self.from.partition.stream, &self.identity);
        names.iter().map(|name| links::folder(name)).collect()
    }

    /// Whether a file may be called so because it is a copy of this one: in its folder, or where the source looks.
    pub fn may_have_copy(&self, entry: &Entry) -> bool {
        let has_folder = |path: &str| folder(path) == folder(&entry.path);
        let is_near =
            || entry.is_meant || self.names().chain(self.node().map(|(_, path)| path)).any(has_folder);
        self.names().any(|name| is_name_of_copy(name, &entry.path)) && is_near()
    }

    /// Whether a file stands under a name that this one had when it was first seen.
    pub fn had_name_of(&self, entry: &Entry) -> bool {
        self.names().any(|name| name == entry.path)
    }

    /// Whether so many bytes that are left of the file, and are the same, show that it was cut; fewer may begin what is written into it instead.
    pub fn was_cut(&self, bytes: u64) -> bool {
        self.identity.compares(bytes) >= EVIDENCE_MIN
    }

    /// Whether so many bytes that are the same show that a file is a copy; fewer are enough if the file that had them has lost them. For a file that is
    /// looked for and of which nothing was read any number is: what is taken for its copy is read from the beginning, so no line is left out by mistake.
    pub fn is_enough(&self, evidence: u64, was_emptied: bool) -> bool {
        let is_unread = self.from.next == 0 && matches!(self.is, Is::Lost);
        is_unread || evidence >= if was_emptied { EVIDENCE_OF_EMPTIED_MIN } else { EVIDENCE_MIN }
    }
}
