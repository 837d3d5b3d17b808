//! Files that are followed: read on as they grow and are rotated, and new ones as they appear.
//!
//! Owns the source's answers for followed files: what is there, where known files are, how far they reach. Does not own what a line is (`lines`), nor
//! files that are read to their end and no further (`reader`).
//!
//! There is no state but the journal's: each file is a partition with an identity, a position and a mark of the bytes in front of it. One thread looks
//! at folders (`watch`), and decides alone which file is which (`decide`), as a start does; others read what it has found (`reader`, `reading`).
//!
//! | module    | owns                                                              |
//! |-----------|-------------------------------------------------------------------|
//! | `survey`  | what stands under which name, at one moment                        |
//! | `known`   | whether a file has the content of a known one                      |
//! | `decide`  | where each known file is, and which files are new                  |
//! | `watch`   | when that is asked, and what is done then                          |
//! | `lists`   | which files are to be read, wait, or are looked for                |
//! | `reader`  | the threads that read, and the events                              |
//! | `reading` | the bytes of one open file, and that they are its own              |

mod decide;
mod known;
mod lists;
mod reader;
mod reading;
mod survey;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::source::first_record;
use dataflow::{
    Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, SourceError, SourceFault,
};
use files::{Beginning, Identity, Node};

use super::FileOptions;
use super::claims::Claims;
use super::mark::Mark;
use crate::thread;
use decide::{Decision, Memory, SETTLED, Spot};
use known::{Is, Known};
use survey::{Entry, Survey, TICK, Times, folder};

/// So often the folders are listed for one look, until nothing was renamed meanwhile.
const LISTINGS_MAX: usize = 5;

/// What a source of followed files shares with its readers.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    places: Arc<Places>,
    claims: Arc<Claims>,
    /// The name of the input.
    input: String,
}

/// Where each known file was at the last look.
#[derive(Debug, Default)]
struct Places(Mutex<BTreeMap<Partition, Spot>>);

impl Shared {
    /// Of the input of that name.
    pub(super) fn new(claims: Arc<Claims>, input: &str) -> Self {
        Self { places: Arc::default(), claims, input: input.to_owned() }
    }

    /// Takes files for this input, one name each.
    fn claim<'p>(&self, paths: impl Iterator<Item = &'p str>) -> Result<(), String> {
        self.claims.take(&self.input, paths)
    }
}

impl Places {
    fn set(&self, known: &BTreeMap<Partition, Known>) {
        let spot = |known: &Known| known.node().map(|(node, path)| Spot { path: path.to_owned(), node });
        let spots = known.iter().filter_map(|(partition, known)| Some((partition.clone(), spot(known)?)));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = spots.collect();
    }

    fn get(&self) -> BTreeMap<Partition, Spot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Starts to read.
pub(super) fn read(
    options: &FileOptions,
    from: Vec<ReadFrom>,
    shared: &Shared,
) -> Result<Box<dyn Reader>, SourceError> {
    Ok(Box::new(reader::FollowReader::start(options.clone(), from, shared.clone())?))
}

/// An error of a read that is running. A file that cannot be opened, or a name that is no text, ends none: whoever has put it there may give it its permissions or
/// another name in a moment, and the others are read meanwhile. For a drain it is a mistake, as it is at a start.
fn in_passing(error: SourceError, options: &FileOptions) -> SourceError {
    match error.fault {
        SourceFault::Config if !options.ends => SourceError { fault: SourceFault::Away, ..error },
        SourceFault::Config
        | SourceFault::Away
        | SourceFault::Lookup
        | SourceFault::Refused
        | SourceFault::Store => error,
    }
}

/// The files that are there and have anything in them; perhaps none, which [`recognize`] judges.
///
/// # Errors
/// When they cannot be listed.
pub(super) fn partitions(paths: &[String]) -> Result<Vec<PartitionStart>, SourceError> {
    let mut starts = Vec::new();
    for entry in Survey::of(paths)?.entries.into_iter().filter(|entry| entry.bytes > 0) {
        let Ok(file) = files::open(&entry.path) else { continue };
        let Ok(identity) = Identity::of(&file) else { continue };
        starts.push(start(&entry.path, 0, identity.reached_by(&entry.path).to_string()));
    }
    Ok(starts)
}

fn nothing(paths: &[String]) -> SourceError {
    let message = format!("no file that can be followed is at `{}` so far", paths.join("`, `"));
    SourceError::new(SourceFault::Away, message)
}

fn start(path: &str, index: u32, identity: String) -> PartitionStart {
    PartitionStart {
        partition: Partition::new(path, index),
        identity,
        next: 0,
        first: 0,
        leader_epoch: NO_LEADER_EPOCH,
    }
}

/// The known files that are there, and those that are new. Whatever cannot be told at this moment is left to the reader, which looks again. A new file
/// that is `shown` by an identity of its own keeps it: it was read before it was taken out of the pipeline.
///
/// # Errors
/// [`SourceFault::Away`] when nothing is known, and nothing can be read yet. [`SourceFault::Config`] when another input reads a file.
pub(super) fn recognize(
    paths: &[String],
    shown: &[PartitionStart],
    known: Vec<ReadFrom>,
    shared: &Shared,
) -> Result<Vec<PartitionStart>, SourceError> {
    let mut known: BTreeMap<Partition, Known> =
        known.into_iter().filter_map(Known::new).map(|known| (known.from.partition.clone(), known)).collect();
    let all: Vec<Known> = known.values().cloned().collect();
    let survey = Survey::of(paths)?;
    let mut decision = look(paths, &survey, &all, &mut Memory::default())?;
    let is_fresh = |entry: &Entry| entry.bytes > 0 && !entry.is_settled(SETTLED);
    if known.is_empty() && decision.new.is_empty() && survey.entries.iter().any(is_fresh) {
        // A small file is read once it has not been written for a while. Nothing is wrong with the source until then.
        thread::pause(SETTLED);
        decision = look(paths, &Survey::of(paths)?, &all, &mut Memory::default())?;
    }
    if known.is_empty() && decision.new.is_empty() {
        return Err(nothing(paths));
    }
    let mut recognized = Vec::new();
    for (partition, Spot { path, node }) in decision.placed {
        let Some(known) = known.get_mut(&partition) else { continue };
        known.is = Is::Open { node, path };
        let Partition { stream, index, .. } = &partition;
        recognized.push(PartitionStart {
            partition: partition.clone(),
            ..start(stream, *index, known.from.identity.clone())
        });
    }
    let shown: BTreeMap<&Partition, &PartitionStart> =
        shown.iter().map(|shown| (&shown.partition, shown)).collect();
    for mut start in decision.new {
        if let Some(shown) = shown.get(&start.partition).filter(|shown| is_shown(shown, &start)) {
            start.identity.clone_from(&shown.identity);
        }
        known.insert(start.partition.clone(), told(&start));
        recognized.push(start);
    }
    let claimed = shared.claim(known.values().filter_map(|known| Some(known.node()?.1)));
    claimed.map_err(|why| SourceError::new(SourceFault::Config, why))?;
    shared.places.set(&known);
    Ok(recognized)
}

/// Whether a new file, shown as the same partition, is shown by what was known of it before. What was shown of it just now may be a few bytes: those are nothing to know it by.
fn is_shown(shown: &PartitionStart, start: &PartitionStart) -> bool {
    let (Some(before), Some(now)) = (Identity::parse(&shown.identity), Identity::parse(&start.identity))
    else {
        return false;
    };
    let begins_so = || {
        let head = files::open(&*start.partition.stream).and_then(|file| files::identity::head(&file));
        head.is_ok_and(|head| before.beginning(&head) == Beginning::Alike)
    };
    let is_enough = before.covers() >= known::EVIDENCE_MIN;
    before.node().is(&now.node()) && is_enough && begins_so()
}

/// A new file as it is known.
fn told(start: &PartitionStart) -> Known {
    let from = ReadFrom {
        partition: start.partition.clone(),
        identity: start.identity.clone(),
        next: start.next,
        leader_epoch: start.leader_epoch,
    };
    let identity = Identity::parse(&start.identity).expect("it was made of a file");
    let is = Is::Open { node: identity.node(), path: start.partition.stream.to_string() };
    Known { from, identity, is }
}

/// How far files reach: those that were found at the last look, or, where nobody reads them, those that are there.
pub(super) fn ends(paths: &[String], shared: &Shared) -> Result<Vec<(Partition, Position)>, SourceError> {
    let places = shared.places.get();
    if places.is_empty() {
        let entries = Survey::of(paths)?.entries.into_iter();
        return Ok(entries.map(|entry| (Partition::new(entry.path, 0), entry.bytes.into())).collect());
    }
    let end = |(partition, Spot { path, node }): (Partition, Spot)| {
        let metadata = std::fs::metadata(path).ok().filter(|metadata| Node::of(metadata).is(&node))?;
        Some((partition, metadata.len().into()))
    };
    Ok(places.into_iter().filter_map(end).collect())
}

/// The record at a position.
pub(super) async fn record(
    options: &FileOptions,
    at: ReadFrom,
    shared: &Shared,
) -> Result<Option<RecordBlock>, SourceError> {
    let position = at.next;
    // What goes with a position belongs to no other.
    let leader_epoch = Mark::none(Mark::from(at.leader_epoch).is_end).epoch();
    let at = ReadFrom { leader_epoch, ..at };
    let options = FileOptions { ends: true, ..options.clone() };
    // What it finds is not where the source's own files are.
    let shared = Shared { places: Arc::default(), ..shared.clone() };
    let mut reader = reader::FollowReader::start(options, vec![at], shared)?;
    let record = first_record(&mut reader, position).await?;
    Ok(record.map(|record| RecordBlock { leader_epoch: NO_LEADER_EPOCH, ..record }))
}

/// Looks at what is there until it stood there at one moment; decides what is certain otherwise.
fn look(
    paths: &[String],
    survey: &Survey,
    known: &[Known],
    memory: &mut Memory,
) -> Result<Decision, SourceError> {
    if !decide::has_doubt(survey, known, memory) {
        return Ok(Decision::default());
    }
    let lost = known.iter().filter(|known| matches!(known.is, Is::Lost));
    let of_lost: BTreeSet<PathBuf> = lost.flat_map(Known::folders).collect();
    let mut folders: BTreeSet<PathBuf> = survey.entries.iter().map(|entry| folder(&entry.path)).collect();
    folders.extend(of_lost.iter().cloned());
    let mut decision = Decision::default();
    for _ in 0..LISTINGS_MAX {
        let before = Times::of(&folders);
        thread::pause(TICK);
        if Times::of(&folders) != before {
            continue;
        }
        let mut survey = Survey::of(paths)?;
        survey.widen(&of_lost)?;
        if Times::of(&folders) == before {
            return decide::decide(&survey, known, memory, true);
        }
        decision = decide::decide(&survey, known, memory, false)?;
    }
    if memory.should_log_unsteady() {
        tracing::warn!(
            paths = paths.join(", "),
            "in the folders of followed files names change faster than they can be listed, so new files are not found; keep the files in a folder in which \
             few others are created and renamed"
        );
    }
    Ok(decision)
}

/// Whether a path leads to a file, with these bytes and this time.
fn is_there(path: &str, node: &Node, as_it_was: Option<(u64, Option<SystemTime>)>) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| {
        let now = (metadata.len(), metadata.modified().ok());
        Node::of(&metadata).is(node) && as_it_was.is_none_or(|before| before == now)
    })
}

#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
