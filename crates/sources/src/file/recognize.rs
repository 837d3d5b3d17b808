//! Which of the files that are there a pipeline has read, and which are new to it.
//!
//! Owns the comparison at one look, for a start and, while files are followed, every second. Does not own where a known file is (`place`).
//!
//! | a file that is new                                   | read once      | followed                                              |
//! |------------------------------------------------------|----------------|-------------------------------------------------------|
//! | compressed                                           | read           | left out: it is a rotated one that was read before     |
//! | called like a copy of another one, and the same so far | read         | held back: the other one is about to be emptied         |
//! | so short that little is known to know it by          | read           | held back until it has grown or has not for one look   |
//! | a known one, or its copy, that was not found just now | left           | held back until it is known where that one is           |
//! | another one than was shown under its name            | left           | held back: it was renamed since                         |
//! | any other one                                        | read           | read                                                  |

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use dataflow::{Partition, PartitionStart, ReadFrom, SourceError, SourceFault};
use files::copies::{Alike, compare, is_compressed, is_name_of_copy};
use files::{Identity, Likeness, Node};

use super::place::{self, Place};
use super::{Claims, find};

/// A file is known by its first bytes, and later ones may begin alike: with so many it is told from all others.
const KNOWN_BY: u64 = 1024;
/// Fewer tell it from no copy.
const KNOWN_BY_MIN: u64 = 64;

/// A file that the pipeline has read.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub from: ReadFrom,
    /// The name under which it is open, or was last.
    pub at: Option<String>,
    /// Nothing more comes of it.
    pub is_over: bool,
}

impl Known {
    pub(super) fn new(from: ReadFrom) -> Self {
        Self { from, at: None, is_over: false }
    }

    /// Where it is; under the name that it had last before it is looked for.
    fn place(&self, paths: &dyn Fn() -> Result<Vec<String>, SourceError>) -> Result<Place, SourceError> {
        if let (Some(at), Some(identity)) = (&self.at, Identity::parse(&self.from.identity))
            && let Ok(file) = File::open(at)
            && identity.compare(&file).is_ok_and(|likeness| likeness == Likeness::Same)
        {
            return Ok(Place::At(file, at.clone()));
        }
        place::find(&self.from, paths)
    }
}

/// What is kept between two looks while files are followed.
#[derive(Debug, Default)]
pub(super) struct Follow {
    /// Of files that may be copies, each with the name of its original: bytes that are known to be the same.
    compared: BTreeMap<(String, String), u64>,
    /// How much was in short files at the last look.
    short: BTreeMap<String, u64>,
    /// Compressed files that were named in the log.
    told: BTreeSet<String>,
    /// The source is read already, so files that appear now may still be short.
    is_running: bool,
}

/// A file that may have copies.
struct Original {
    name: String,
    at: String,
    identity: Option<Identity>,
}

/// What a look has found.
#[derive(Debug)]
pub(super) struct Look {
    /// The files that are there, as the pipeline knows them.
    pub recognized: Vec<PartitionStart>,
    /// Whether known files were read to their end and are nowhere any more.
    pub has_finished: bool,
}

/// Where the known files are.
#[derive(Default)]
struct Placed<'a> {
    by_path: BTreeMap<String, &'a Known>,
    nodes: Vec<Node>,
    /// Not found just now.
    missed: Vec<&'a Known>,
    /// Found nowhere, with nothing left to read.
    finished: Vec<&'a Known>,
}

/// What `shown` is to a pipeline that has read `known`; with `follow` by the rules of files that are followed.
///
/// # Errors
/// When a known file cannot be placed at a start, another input reads a file, or no path means one.
pub(super) fn recognize(
    paths: &[String],
    shown: &[PartitionStart],
    known: &[Known],
    (claims, name): (&Claims, &str),
    mut follow: Option<&mut Follow>,
) -> Result<Look, SourceError> {
    let streams: Vec<&str> = known.iter().map(|known| &*known.from.partition.stream).collect();
    if follow.is_none() {
        find::check(paths, &streams)?;
    }
    let is_running = follow.as_ref().is_some_and(|follow| follow.is_running);
    let placed = placed(known, shown, is_running)?;
    // A file that was rotated is its input's still, under the name that it has now.
    let all = placed.by_path.keys().map(String::as_str);
    let all = all.chain(shown.iter().map(|start| &*start.partition.stream));
    claims.take(name, all).map_err(|why| SourceError::new(SourceFault::Config, why))?;
    let mut originals: Vec<Original> = Vec::new();
    if follow.is_some() {
        originals.extend(placed.by_path.iter().map(|(path, known)| Original {
            name: known.from.partition.stream.to_string(),
            at: path.clone(),
            identity: Identity::parse(&known.from.identity),
        }));
    }
    let (mut recognized, mut short) = (Vec::new(), Vec::new());
    for start in shown {
        let path = &start.partition.stream;
        match placed.by_path.get(&**path) {
            // Its identity as it was recorded: the text may cover less than today's.
            Some(known) if known.from.partition.stream == *path => recognized.push(PartitionStart {
                partition: known.from.partition.clone(),
                identity: known.from.identity.clone(),
                ..start.clone()
            }),
            // It is read under the name that it had.
            Some(_) => {}
            None => {
                let Some(file) = placed.of_new(start)? else { continue };
                let namesakes = known.iter().filter(|known| known.from.partition.stream == *path);
                let index = namesakes.map(|known| known.from.partition.index + 1).max().unwrap_or(0);
                let new = PartitionStart { partition: Partition::new(path.clone(), index), ..start.clone() };
                match follow.as_mut().map_or(Waits::No, |follow| follow.waits(&new, &file, &originals)) {
                    Waits::No => {
                        originals.push(Original {
                            name: path.to_string(),
                            at: path.to_string(),
                            identity: Identity::parse(&new.identity),
                        });
                        recognized.push(new);
                    }
                    Waits::Short => short.push(new),
                    Waits::Left => {}
                }
            }
        }
    }
    // A pipeline without any file would have nothing to wait for.
    if recognized.is_empty() && known.is_empty() {
        recognized.append(&mut short);
    }
    if let Some(follow) = follow {
        let is_there = |path: &String| shown.iter().any(|start| *start.partition.stream == **path);
        follow.compared.retain(|(copy, _), _| is_there(copy));
        follow.short.retain(|path, _| is_there(path));
        follow.told.retain(is_there);
    }
    Ok(Look { recognized, has_finished: !placed.finished.is_empty() })
}

/// Finds the known files.
fn placed<'a>(
    known: &'a [Known],
    shown: &[PartitionStart],
    is_running: bool,
) -> Result<Placed<'a>, SourceError> {
    let others = || Ok(shown.iter().map(|start| start.partition.stream.to_string()).collect());
    let mut placed = Placed::default();
    for known in known {
        if known.is_over {
            placed.finished.push(known);
            continue;
        }
        match known.place(&others) {
            Ok(Place::At(file, path)) => {
                placed.nodes.extend(file.metadata().map(|metadata| Node::of(&metadata)));
                placed.by_path.insert(path, known);
            }
            // Whoever reads it says what it is, if it is still so then.
            Ok(Place::Finished) | Err(_) if is_running => placed.missed.push(known),
            Ok(Place::Finished) => placed.finished.push(known),
            // A file that is missed ends the start here, before anything new is recorded.
            Err(error) => return Err(error),
        }
    }
    Ok(placed)
}

impl Placed<'_> {
    /// The file that was shown, if it is still there and none of those that are known.
    fn of_new(&self, start: &PartitionStart) -> Result<Option<File>, SourceError> {
        let path = &*start.partition.stream;
        let failed = |error| find::failed(path, "opened", &error);
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let node = Node::of(&file.metadata().map_err(failed)?);
        let is_shown = Identity::parse(&start.identity).is_some_and(|identity| identity.node().is(&node));
        let is_placed = self.nodes.iter().any(|placed| placed.is(&node));
        let is_like = |known: &&Known, likenesses: &[Likeness]| {
            let identity = Identity::parse(&known.from.identity);
            identity.is_some_and(|identity| {
                identity.compare(&file).is_ok_and(|likeness| likenesses.contains(&likeness))
            })
        };
        let is_missed = self.missed.iter().any(|known| {
            *known.from.partition.stream == *path
                || known.at.as_deref() == Some(path)
                || is_like(known, &[Likeness::Same, Likeness::Copy])
        });
        let is_finished = self.finished.iter().any(|known| is_like(known, &[Likeness::Same]));
        Ok((is_shown && !is_placed && !is_missed && !is_finished).then_some(file))
    }
}

/// Whether a new file waits for a later look.
enum Waits {
    No,
    /// It is too short.
    Short,
    /// It is left out, perhaps for now.
    Left,
}

impl Follow {
    /// For looks of a source that is read already.
    pub(super) fn running() -> Self {
        Self { is_running: true, ..Self::default() }
    }

    fn waits(&mut self, new: &PartitionStart, file: &File, originals: &[Original]) -> Waits {
        let path = &*new.partition.stream;
        if is_compressed(file) {
            if self.told.insert(path.to_owned()) {
                tracing::warn!(
                    file = path,
                    "a compressed file is left out: only files that grow are followed"
                );
            }
            return Waits::Left;
        }
        let Some(identity) = Identity::parse(&new.identity) else { return Waits::Left };
        if originals.iter().any(|original| self.is_copy((path, &identity), file, original)) {
            return Waits::Left;
        }
        let covers = identity.covers();
        let before = self.short.insert(path.to_owned(), covers);
        let is_short = match self.is_running {
            true => covers < KNOWN_BY && before != Some(covers),
            false => covers < KNOWN_BY_MIN,
        };
        if is_short { Waits::Short } else { Waits::No }
    }

    /// Whether a file is the copy of one that is read, or may be.
    fn is_copy(&mut self, (path, own): (&str, &Identity), file: &File, original: &Original) -> bool {
        let folder = |path: &str| Path::new(path).parent().map(Path::to_owned);
        if !is_name_of_copy(&original.name, path) || folder(&original.at) != folder(path) {
            return false;
        }
        let Some(identity) = original.identity.as_ref().filter(|of| of.may_begin_like(own)) else {
            return false;
        };
        let Ok(of) = File::open(&original.at) else { return true };
        let pair = (path.to_owned(), original.name.clone());
        let alike = compare(file, &of, self.compared.entry(pair.clone()).or_default());
        // Only now: while it is what it was, so is what was compared.
        match (identity.begins_like(&of), alike) {
            (Ok(Some(_)), Ok(Alike::SoFar) | Err(_)) => true,
            (Ok(Some(_)), Ok(Alike::Other)) => {
                self.compared.remove(&pair);
                false
            }
            // It was compared with what has replaced the original; the next look knows where that is.
            (Ok(None) | Err(_), _) => {
                self.compared.remove(&pair);
                true
            }
        }
    }
}
