//! Which files are copies of others, or may be.
//!
//! Owns the comparison of one file with all that it may be called a copy of. Does not own what follows from it (`decide`), nor how content is compared
//! (`known`).

use std::collections::HashMap;
use std::path::Path;

use dataflow::SourceError;
use files::copies::{Alike, compare, is_name_of_copy};
use files::identity::head;
use files::{Beginning, Node};

use super::{Look, Spot, Unknown, opened};
use crate::file::find;
use crate::file::follow::known::{Content, Is};
use crate::file::follow::survey::Entry;

/// Files that are new, or will be, by the beginning that names of their copies have.
#[derive(Default)]
pub(super) struct Others<'a>(HashMap<&'a str, Vec<&'a Unknown<'a>>>);

impl<'a> Others<'a> {
    pub(super) fn add(&mut self, unknown: &'a Unknown<'a>) {
        self.0.entry(stem(&unknown.entry.path)).or_default().push(unknown);
    }

    /// Those that a file may be a copy of, by its name and its first bytes.
    fn of_copy(&self, unknown: &Unknown<'_>) -> impl Iterator<Item = &'a Unknown<'a>> {
        let of_stem = stems(&unknown.entry.path).filter_map(|stem| self.0.get(stem)).flatten().copied();
        of_stem.filter(|other| {
            other.head.starts_with(&unknown.head) && is_name_of_copy(&other.entry.path, &unknown.entry.path)
        })
    }
}

/// What names of copies of a file begin with.
pub(super) fn stem(path: &str) -> &str {
    Path::new(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}

/// What names may begin with that a file is called like the copy of.
fn stems(path: &str) -> impl Iterator<Item = &str> {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.char_indices().map(|(at, _)| &name[..at]).chain([name])
}

impl<'a> Look<'a> {
    /// The known files that a file may be called a copy of, those whose place it has taken, and those that it was itself: it may have been cut.
    pub(super) fn originals(&self, entry: &Entry) -> Vec<usize> {
        let of_stem = stems(&entry.path).filter_map(|stem| self.by_stem.get(stem)).flatten().copied();
        let is_original =
            |at: &usize| self.known[*at].may_have_copy(entry) || self.is_in_place_of(entry, *at);
        let mut originals: Vec<usize> = of_stem.filter(is_original).collect();
        let of_inode = self.by_inode.get(&entry.node.inode).into_iter().flatten().copied();
        let was_it = |at: &usize| self.known[*at].identity.node().is(&entry.node);
        let others: Vec<usize> = of_inode.filter(|at| was_it(at) && !originals.contains(at)).collect();
        originals.extend(others);
        originals
    }

    /// Whether a file stands where a known one stood that no name leads to any more: `rsync`, an editor or a restored backup puts a file with the same
    /// content there.
    fn is_in_place_of(&self, entry: &Entry, at: usize) -> bool {
        let is_gone = |spot: &Spot| self.survey.at_node(&spot.node).is_none();
        self.known[at].had_name_of(entry) && self.spots[at].as_ref().is_none_or(is_gone)
    }

    pub(super) fn content(&self, at: usize, unknown: &Unknown<'a>) -> Result<Content, SourceError> {
        if self.known[at].identity.beginning(&unknown.head) == Beginning::Other {
            return Ok(Content::Other);
        }
        // One that has gone meanwhile is seen to be by the next look.
        let Some((file, head)) = self.open(unknown.entry)? else { return Ok(Content::Part) };
        let content = self.known[at].content(&file, &head);
        let content = content.map_err(|error| find::failed(&unknown.entry.path, "read", &error))?;
        Ok(match content {
            Content::All(evidence) if !self.known[at].is_enough(evidence, self.was_emptied(at)) => {
                Content::Part
            }
            content => content,
        })
    }

    /// Whether the file that a known one was is there, and has not its content.
    fn was_emptied(&self, at: usize) -> bool {
        self.spots[at].is_none() && self.survey.at_node(&self.known[at].identity.node()).is_some()
    }

    /// Whether a file is a copy, or may be: then it waits for what becomes of the original.
    pub(super) fn is_copy(
        &mut self,
        unknown: &Unknown<'a>,
        others: &Others<'_>,
    ) -> Result<bool, SourceError> {
        for at in self.originals(unknown.entry) {
            let content = self.content(at, unknown)?;
            let is_copy = match (&self.spots[at], content) {
                (_, Content::Other) => false,
                // The one before is open still. Once it has been let go this one is read on in its place.
                (Some(_), content) if self.is_in_place_of(unknown.entry, at) => {
                    if matches!(content, Content::All(_)) {
                        self.tell_in_place(unknown.entry, at);
                        return Ok(true);
                    }
                    false
                }
                (Some(spot), Content::All(_) | Content::Part) => self.is_alike(unknown, at, &spot.clone())?,
                // Part of a file that is looked for: whatever becomes of that is said first.
                (None, Content::Part) => matches!(self.known[at].is, Is::Lost) && self.is_part(at, unknown),
                (None, Content::All(_)) => true,
            };
            if is_copy {
                self.tell(unknown.entry, &self.known[at].from.partition.to_string());
                return Ok(true);
            }
        }
        for other in others.of_copy(unknown) {
            let (Some((file, _)), Some((original, _))) = (opened(unknown.entry)?, opened(other.entry)?)
            else {
                return Ok(true);
            };
            let mut compared = 0;
            let alike = compare(&file, &original, &mut compared);
            let failed = |error| find::failed(&unknown.entry.path, "read", &error);
            // Only now: while it begins as it did when it was to be named, it is what was compared. Emptied since, it is named by what is in the copy alone.
            let begins = head(&original).map_err(|error| find::failed(&other.entry.path, "read", &error))?;
            let is_intact = begins.starts_with(&other.head);
            if !is_intact || alike.map_err(failed)? == Alike::SoFar {
                self.tell(unknown.entry, &other.entry.path);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a file that has nothing but the beginning of a known one may be part of that: of its copy, or what was left when it was cut.
    fn is_part(&self, at: usize, unknown: &Unknown<'_>) -> bool {
        let known = &self.known[at];
        known.may_have_copy(unknown.entry) || known.was_cut(unknown.head.len() as u64)
    }

    /// Whether all of a file is the beginning of a known one, which stands elsewhere; true if that cannot be told at the moment.
    fn is_alike(&mut self, unknown: &Unknown<'a>, at: usize, spot: &Spot) -> Result<bool, SourceError> {
        let known = &self.known[at];
        let Ok(original) = files::open(&spot.path) else { return Ok(true) };
        if !original.metadata().is_ok_and(|metadata| Node::of(&metadata).is(&spot.node)) {
            return Ok(true);
        }
        let pair = (unknown.entry.node.inode, known.from.partition.clone());
        let Some((file, _)) = self.open(unknown.entry)? else { return Ok(true) };
        let compared = self.memory.compared.entry(pair.clone()).or_default();
        let alike = compare(&file, &original, compared);
        let failed = |error| find::failed(&spot.path, "read", &error);
        // Only now: while it has what was read of it, it is what was compared.
        let is_intact =
            matches!(known.content(&original, &head(&original).map_err(failed)?), Ok(Content::All(_)));
        if is_intact && matches!(alike, Ok(Alike::SoFar)) {
            return Ok(true);
        }
        self.memory.compared.remove(&pair);
        Ok(!is_intact || alike.is_err())
    }

    fn tell_in_place(&mut self, entry: &Entry, at: usize) {
        if self.memory.told.insert(entry.path.clone()) {
            tracing::info!(
                file = entry.path,
                of = %self.known[at].from.partition,
                "the file has all that was read of the one that had its name before, and that one is open still, so it is left out until no name leads to that \
                 one any more, and then read on; delete that one if it has been moved to another place"
            );
        }
    }

    fn tell(&mut self, entry: &Entry, of: &str) {
        if self.memory.told.insert(entry.path.clone()) {
            tracing::warn!(
                file = entry.path,
                of,
                "the file has the name and so far the bytes of a copy, as `copytruncate` makes it, so it is left out until the original is \
                 emptied, or one of the two goes on otherwise"
            );
        }
    }
}
