//! Where each known file is, and which files are new.
//!
//! Owns every decision on what a file is to the pipeline. Does not own when it is asked, nor what is done (`watch`). Nothing is kept between two
//! looks but what spares work ([`Memory`]): the journal's positions and the files themselves decide, so a start decides as a running pipeline does.
//!
//! | a known file                                         | what it is                                                              |
//! |------------------------------------------------------|-------------------------------------------------------------------------|
//! | whose device and inode have the content that was read | there, whatever its name                                                |
//! | of which another file has the content that was read   | there: a copy, whose original was emptied, overwritten or deleted        |
//! | in whose place another file has all that was read     | there: it was replaced, as `rsync`, an editor or a restored backup do     |
//! | that is shorter than it was, and the same so far      | cut: refused                                                            |
//! | that is nowhere, and was read to its end             | finished                                                                |
//! | that is nowhere, and was not                          | lost: refused                                                           |
//!
//! | a file that is none of those                          | what it is                                                              |
//! |-------------------------------------------------------|-------------------------------------------------------------------------|
//! | compressed                                            | left out: it was rotated, and read before                                |
//! | in place of a known one that is open still, with all of it    | left out until that one has been let go, and then read on       |
//! | called like a copy of a known or new one, and the same so far | left out until that one is emptied, or goes on otherwise          |
//! | the same as a known one's copy so far, and had what is in the copy | left out until it goes on otherwise: it was cut                |
//! | called like a copy of a finished one, with all of it  | left out; read on if it has more                                          |
//! | under 1,024 bytes, and written within the last second | left for the next look: little is known to know it by                     |
//! | emptied or written over since it was listed           | left for the next look, for the same reason                              |
//! | any other one                                         | new                                                                     |
//!
//! Two files with the same beginning may be a file and its copy, or two. Where names and bytes cannot tell, it is a copy: the log says so
//! (`copies`).
//!
//! Files are opened after they were listed, so a name may lead to another file by then. What could not be opened for that reason may be what is
//! looked for: no known file is missing at this look that it may be.

mod copies;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::time::Duration;

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Partition, PartitionStart, SourceError, SourceFault};
use files::copies::is_compressed;
use files::identity::head;
use files::names::quoted;
use files::{Beginning, Identity, Node};

use copies::{Others, stem};

use super::is_there;
use super::known::{Content, Is, Known};
use super::survey::{Entry, Survey};
use crate::file::find;

/// A file is known by its first bytes, and later ones may begin alike: with so many it is told from all others.
pub(super) const KNOWN_BY: u64 = 1024;
/// A file that is written goes on within this time, or what it has now is all that there is to know it by.
pub(super) const SETTLED: Duration =
    if cfg!(test) { Duration::from_millis(150) } else { Duration::from_secs(1) };
/// Of fewer bytes nothing is known ([`Identity`]).
const SHORT: u64 = 16;
/// A known file that is not found is looked for so often before that means anything: a copy may be on another disk that is slow.
const LOOKS_OF_LOST: u32 = 3;
/// So many looks in a row at which names changed while they were listed are told to the operator: half a minute, or more.
const LOOKS_UNSTEADY: u32 = 30;

/// What spares work at the next look.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Of files that may be copies, each with the partition of its original: bytes that are known to be the same.
    compared: HashMap<(u64, Partition), u64>,
    /// Files that are left out for good, as long as they are what they were.
    left: HashMap<u64, (Node, u64)>,
    /// Copies that were named in the log.
    told: BTreeSet<String>,
    /// Known files that were not found, and how often.
    lost: BTreeMap<Partition, u32>,
    /// Looks in a row that have seen nothing stand still.
    unsteady: u32,
    /// Whether nobody asks for new files.
    ignores_new: bool,
}

/// A file under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub path: String,
    pub node: Node,
}

/// What a look has found.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// Known files that were not open, where they are.
    pub placed: Vec<(Partition, Spot)>,
    /// Known files that are nowhere, with nothing left to read.
    pub finished: Vec<Partition>,
    /// Known files of which something is lost.
    pub refused: Vec<(Partition, SourceError)>,
    /// Files that nobody has read.
    pub new: Vec<PartitionStart>,
}

/// One look in the making.
struct Look<'a> {
    survey: &'a Survey,
    known: &'a [Known],
    memory: &'a mut Memory,
    /// Files that have the content of a known one.
    owned: HashMap<u64, (Node, usize)>,
    /// Of each known file, where it is.
    spots: Vec<Option<Spot>>,
    /// Known files that are compressed.
    packed: Vec<usize>,
    /// Known files by the beginning that names of their copies have.
    by_stem: HashMap<String, Vec<usize>>,
    /// And by the file that each was.
    by_inode: HashMap<u64, Vec<usize>>,
    /// Files whose names led elsewhere when they were to be opened.
    moved: RefCell<Vec<&'a Entry>>,
}

/// A file that is no known one. It is not open: there may be any number.
struct Unknown<'a> {
    entry: &'a Entry,
    head: Vec<u8>,
}

/// Whether there is anything to decide: a known file that is nowhere, or one that nobody knows.
pub(super) fn has_doubt(survey: &Survey, known: &[Known], memory: &Memory) -> bool {
    let nodes: HashMap<u64, Node> =
        known.iter().filter_map(|known| known.node()).map(|(node, _)| (node.inode, node)).collect();
    let is_owned = |entry: &Entry| nodes.get(&entry.node.inode).is_some_and(|node| node.is(&entry.node));
    known.iter().any(|known| matches!(known.is, Is::Lost))
        || survey.entries.iter().any(|entry| entry.bytes > 0 && !is_owned(entry) && !memory.is_left(entry))
}

/// Decides over what was found. `is_sure` says that it stood there at one moment; otherwise nothing is new, and nothing is gone.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn decide(
    survey: &Survey,
    known: &[Known],
    memory: &mut Memory,
    is_sure: bool,
) -> Result<Decision, SourceError> {
    if is_sure {
        memory.unsteady = 0;
    }
    let mut look = Look::new(survey, known, memory);
    look.by_node()?;
    let mut unknown = Vec::new();
    if is_sure {
        unknown = look.unknown()?;
        look.by_content(&unknown)?;
    }
    let placed = known.iter().zip(&look.spots).filter(|(known, _)| known.node().is_none());
    let mut decision = Decision {
        placed: placed
            .filter_map(|(known, spot)| Some((known.from.partition.clone(), spot.clone()?)))
            .collect(),
        ..Decision::default()
    };
    if is_sure {
        unknown.retain(|unknown| look.owner(&unknown.entry.node).is_none());
        if !look.memory.ignores_new {
            decision.new = look.new_files(&unknown)?;
        }
        look.missing(&mut decision)?;
    }
    look.forget_what_is_gone();
    Ok(decision)
}

impl Memory {
    /// Of looks at known files alone.
    pub fn of_known() -> Self {
        Self { ignores_new: true, ..Self::default() }
    }

    /// Notes a look that has seen nothing stand still; true if there were so many in a row that it should be logged.
    pub fn should_log_unsteady(&mut self) -> bool {
        self.unsteady = self.unsteady.saturating_add(1);
        self.unsteady == LOOKS_UNSTEADY
    }

    fn is_left(&self, entry: &Entry) -> bool {
        let left = self.left.get(&entry.node.inode);
        left.is_some_and(|(node, bytes)| node.is(&entry.node) && *bytes == entry.bytes)
    }

    fn leave(&mut self, entry: &Entry) {
        self.left.insert(entry.node.inode, (entry.node, entry.bytes));
    }
}

/// Whether what was read of a file's beginning will do to know it by. What was listed says nothing of that alone: the file may have been emptied since.
fn is_known_by(head: &[u8], entry: &Entry) -> bool {
    let read = head.len() as u64;
    read >= KNOWN_BY || (read > 0 && read == entry.bytes && entry.is_settled(SETTLED))
}

impl<'a> Look<'a> {
    fn new(survey: &'a Survey, known: &'a [Known], memory: &'a mut Memory) -> Self {
        let (mut owned, mut by_stem) = (HashMap::new(), HashMap::<String, Vec<usize>>::new());
        let mut by_inode = HashMap::<u64, Vec<usize>>::new();
        let mut spots = Vec::with_capacity(known.len());
        for (at, known) in known.iter().enumerate() {
            for name in known.names() {
                by_stem.entry(stem(name).to_owned()).or_default().push(at);
            }
            by_inode.entry(known.identity.node().inode).or_default().push(at);
            // It may have been renamed since it was opened.
            let spot = known.node().map(|(node, before)| {
                let path = survey.at_node(&node).map_or(before, |entry| &*entry.path);
                Spot { path: path.to_owned(), node }
            });
            owned.extend(spot.as_ref().map(|spot| (spot.node.inode, (spot.node, at))));
            spots.push(spot);
        }
        Self {
            survey,
            known,
            memory,
            owned,
            spots,
            packed: Vec::new(),
            by_stem,
            by_inode,
            moved: RefCell::default(),
        }
    }

    fn owner(&self, node: &Node) -> Option<usize> {
        self.owned.get(&node.inode).filter(|(owned, _)| owned.is(node)).map(|(_, at)| *at)
    }

    fn place(&mut self, at: usize, entry: &Entry) {
        self.owned.insert(entry.node.inode, (entry.node, at));
        self.spots[at] = Some(Spot { path: entry.path.clone(), node: entry.node });
    }

    /// Known files that are themselves, whatever their names are now.
    fn by_node(&mut self) -> Result<(), SourceError> {
        let mut order: Vec<usize> = (0..self.known.len()).filter(|at| self.spots[*at].is_none()).collect();
        // Several may have been read of one file, each until it was emptied: whoever was read furthest is known best.
        let rank = |at: &usize| (self.known[*at].from.next, self.known[*at].from.partition.index);
        order.sort_by_key(|at| std::cmp::Reverse(rank(at)));
        for at in order {
            let known = &self.known[at];
            let Some(entry) = self.survey.at_node(&known.identity.node()) else { continue };
            if self.owner(&entry.node).is_some() {
                continue;
            }
            let Some((file, head)) = self.open(entry)? else { continue };
            if known.identity.beginning(&head) == Beginning::Alike && is_compressed(&file) {
                // It was read before files were followed.
                self.packed.push(at);
                self.owned.insert(entry.node.inode, (entry.node, at));
                continue;
            }
            let content =
                known.content(&file, &head).map_err(|error| find::failed(&entry.path, "read", &error))?;
            if matches!(content, Content::All(_)) {
                match known.is {
                    // It was away, and nothing was added to it.
                    Is::Finished if u128::from(entry.bytes) <= known.from.next => {
                        self.owned.insert(entry.node.inode, (entry.node, at));
                    }
                    Is::Open { .. } | Is::Closed { .. } | Is::Lost | Is::Finished => self.place(at, entry),
                }
            }
        }
        Ok(())
    }

    /// The files that no known one is, those with the shorter names first: originals before their copies.
    fn unknown(&mut self) -> Result<Vec<Unknown<'a>>, SourceError> {
        let survey = self.survey;
        let mut unknown = Vec::new();
        for entry in survey.entries.iter().filter(|entry| entry.bytes > 0) {
            if self.owner(&entry.node).is_some() || self.memory.is_left(entry) {
                continue;
            }
            let Some((file, head)) = self.open(entry)? else { continue };
            if is_compressed(&file) {
                if entry.is_meant {
                    tracing::warn!(
                        file = entry.path,
                        "a compressed file is left out: with `follow: true` only files that grow are read"
                    );
                }
                self.memory.leave(entry);
                continue;
            }
            unknown.push(Unknown { entry, head });
        }
        unknown.sort_by_key(|unknown| (unknown.entry.path.len(), unknown.entry.path.clone()));
        Ok(unknown)
    }

    /// Known files that were copied before they were emptied, overwritten or deleted: the rest is in the copy.
    fn by_content(&mut self, unknown: &[Unknown<'a>]) -> Result<(), SourceError> {
        let mut pairs = Vec::new();
        for (of, unknown) in unknown.iter().enumerate() {
            for at in self.originals(unknown.entry) {
                if self.spots[at].is_none()
                    && let Content::All(evidence) = self.content(at, unknown)?
                {
                    pairs.push((at, of, evidence));
                }
            }
        }
        // Whoever was read furthest, or by most bytes, is known best; the longest copy has the most.
        let rank = |(at, of, evidence): &(usize, usize, u64)| {
            let (known, entry) = (&self.known[*at], unknown[*of].entry);
            (known.from.next, *evidence, entry.bytes, std::cmp::Reverse(entry.path.clone()))
        };
        pairs.sort_by_cached_key(|pair| std::cmp::Reverse(rank(pair)));
        for (at, of, _) in pairs {
            let (known, entry) = (&self.known[at], unknown[of].entry);
            if self.spots[at].is_some() || self.owner(&entry.node).is_some() {
                continue;
            }
            if matches!(known.is, Is::Finished) && u128::from(entry.bytes) <= known.from.next {
                tracing::info!(
                    file = entry.path,
                    of = %known.from.partition,
                    "the file is a copy of one that was read to its end, so it is left out"
                );
                self.memory.leave(entry);
                continue;
            }
            tracing::info!(
                file = entry.path,
                of = %known.from.partition,
                position = %dataflow::position::shown(known.from.next),
                "the file has all that was read of one that is not there any more, so it is its copy, and read on from there"
            );
            self.place(at, entry);
        }
        Ok(())
    }

    /// Files that nobody has read.
    fn new_files(&mut self, unknown: &[Unknown<'a>]) -> Result<Vec<PartitionStart>, SourceError> {
        let mut new = Vec::new();
        // Those that are read from now on or later: a copy of one of them is none.
        let mut others = Others::default();
        let mut indexes: HashMap<&str, u32> = HashMap::new();
        for Partition { stream, index, .. } in self.known.iter().map(|known| &known.from.partition) {
            let next = indexes.entry(stream).or_default();
            *next = (*next).max(index + 1);
        }
        for unknown in unknown.iter().filter(|unknown| unknown.entry.is_meant) {
            if self.memory.is_left(unknown.entry) || self.is_copy(unknown, &others)? {
                continue;
            }
            others.add(unknown);
            if !is_known_by(&unknown.head, unknown.entry) {
                continue;
            }
            let path = &*unknown.entry.path;
            // What was compared is what is recorded; more of the file may be there by now.
            let identity = Identity::of_head(unknown.entry.node, &unknown.head).reached_by(path);
            new.push(PartitionStart {
                partition: Partition::new(path, indexes.get(path).copied().unwrap_or(0)),
                identity: identity.to_string(),
                next: 0,
                first: 0,
                leader_epoch: NO_LEADER_EPOCH,
            });
        }
        Ok(new)
    }

    /// Known files that were found nowhere.
    fn missing(&mut self, decision: &mut Decision) -> Result<(), SourceError> {
        for (at, known) in self.known.iter().enumerate() {
            let partition = &known.from.partition;
            if self.spots[at].is_some() || !matches!(known.is, Is::Lost) {
                self.memory.lost.remove(partition);
                continue;
            }
            if self.packed.contains(&at) {
                tracing::info!(file = %partition, "a compressed file was read before files were followed; nothing more is read of it");
                decision.finished.push(partition.clone());
                continue;
            }
            let entry = self.survey.at_node(&known.identity.node());
            let found = match entry {
                Some(entry) => match self.open(entry)? {
                    Some((file, head)) => {
                        let content = known.content(&file, &head);
                        Some((entry, content.map_err(|error| find::failed(&entry.path, "read", &error))?))
                    }
                    None => None,
                },
                None => None,
            };
            let is_it_perhaps =
                |moved: &&Entry| moved.node.is(&known.identity.node()) || known.may_have_copy(moved);
            if self.moved.borrow().iter().any(is_it_perhaps) {
                continue;
            }
            let looks = self.memory.lost.entry(partition.clone()).or_default();
            *looks += 1;
            let looks = *looks;
            if looks < LOOKS_OF_LOST {
                continue;
            }
            let next = known.next()?;
            let refuse_with = |what: &str, first: &str| {
                let (path, index) = (&partition.stream, partition.index);
                let (copy, named) = (quoted(&format!("{path}.back")), quoted(&format!("{path}/{index}")));
                // That one alone: the others of its name are read on, or known by their copies.
                let message = format!(
                    "file `{path}` {what}; it was read to position `{next}`, and there is no copy of it. Bring it back beside it (`cp whole {copy}`), or \
                     {first}take it out of the pipeline with `forebay forget FILE --partition {named}`: what was not read of it is lost then"
                );
                (partition.clone(), SourceError::new(SourceFault::Refused, message).at(partition))
            };
            let refuse = |what: &str| refuse_with(what, "");
            match found {
                // It has come back since it was looked for.
                Some((entry, Content::All(_))) if self.owner(&entry.node).is_none() => {}
                // Nothing, or hardly anything: something else is being written.
                Some((entry, Content::Part)) if entry.bytes > 0 && !entry.is_settled(SETTLED) => {}
                Some((entry, Content::Part)) if entry.bytes >= SHORT && !known.mark().is_end => {
                    // It is the file that was left, so it would come back where it was left, beyond its end.
                    let first = "remove what is left of it and ";
                    decision.refused.push(refuse_with("was cut to fewer bytes than it had", first));
                }
                // Its beginning may have been written once more, such as the header of CSV; what follows shows what it is.
                Some((entry, Content::Part)) if known.was_cut(entry.bytes) && !self.memory.ignores_new => {
                    if looks == LOOKS_OF_LOST {
                        tracing::warn!(
                            file = entry.path,
                            bytes = entry.bytes,
                            position = next,
                            "the file was cut, and what is left of it has been read; it is read on once it has other lines than before, or all of them"
                        );
                    }
                }
                _ if known.mark().is_end => decision.finished.push(partition.clone()),
                None => decision.refused.push(refuse("is gone, and was not read to its end")),
                Some((entry, _)) if entry.bytes == 0 => {
                    decision.refused.push(refuse("was emptied, and was not read to its end"));
                }
                Some(_) => decision.refused.push(refuse("was written over, and was not read to its end")),
            }
        }
        Ok(())
    }

    /// Opens a file ([`opened`]), and notes one whose name leads elsewhere by now.
    fn open(&self, entry: &'a Entry) -> Result<Option<(File, Vec<u8>)>, SourceError> {
        let opened = opened(entry)?;
        if opened.is_none() && !is_there(&entry.path, &entry.node, None) {
            self.moved.borrow_mut().push(entry);
        }
        Ok(opened)
    }

    fn forget_what_is_gone(&mut self) {
        let inodes: BTreeSet<u64> = self.survey.entries.iter().map(|entry| entry.node.inode).collect();
        let paths: BTreeSet<&str> = self.survey.entries.iter().map(|entry| &*entry.path).collect();
        self.memory.compared.retain(|(inode, _), _| inodes.contains(inode));
        self.memory.left.retain(|inode, _| inodes.contains(inode));
        self.memory.told.retain(|path| paths.contains(&**path));
    }
}

/// The file of an entry and its first bytes; `None` if it is not there any more.
fn opened(entry: &Entry) -> Result<Option<(File, Vec<u8>)>, SourceError> {
    let failed = |error| find::failed(&entry.path, "opened", &error);
    let file = match files::open(&entry.path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        // Nobody has asked to read it.
        Err(_) if !entry.is_meant => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !Node::of(&file.metadata().map_err(failed)?).is(&entry.node) {
        return Ok(None);
    }
    let head = head(&file).map_err(failed)?;
    Ok(Some((file, head)))
}

#[cfg(test)]
mod tests;
