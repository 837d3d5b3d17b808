//! Looks at followed files, and acts on what has changed.
//!
//! Owns when files and folders are looked at, and how many files are open. Does not own what a file is to the pipeline (`decide`).
//!
//! A file that was read to its end waits, open, so that it is read on when it is renamed or deleted. Beyond [`OPEN_MAX`] of them those that have waited
//! for the longest time are closed, and seen to grow by the looks at the folders.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dataflow::{Event, Partition, PartitionStart, SourceError, SourceFault};
use files::copies::is_name_of_copy;

use super::decide::{Decision, KNOWN_BY, Memory, Spot};
use super::known::{Is, Known};
use super::lists::{OPEN_MAX, Shared};
use super::reader::Item;
use super::survey::{Entry, Survey};
use super::{in_passing, is_there, look};
use crate::queue::{Closed, Sender};

/// Pause between two looks at open files that wait.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 100 });
/// Looks at open files between two at the folders, and for each file that is there: a look takes two calls of the system a file, about five microseconds,
/// so looking takes less than a tenth of one core however many there are.
const LOOKS_A_SCAN: u64 = 10;
const FILES_A_LOOK: u64 = 1_000;
/// A deleted file is let go after so many looks without a change: its writer may not have noticed yet.
const LOOKS_OF_DELETED: u32 = 50;

/// Looks at files until the reader is gone.
pub(super) fn watch(shared: &Shared, sender: &Sender<Item>) {
    let mut memory = if shared.options.ends { Memory::of_known() } else { Memory::default() };
    let (mut looks_left, mut told) = (0, None);
    loop {
        wake(shared);
        if looks_left == 0 {
            match scan(shared, &mut memory).map_err(|error| in_passing(error, &shared.options)) {
                Ok(Scan { decision, compared, files }) => {
                    looks_left = LOOKS_A_SCAN + files / FILES_A_LOOK;
                    told = None;
                    if act(shared, sender, decision, &compared).is_err() {
                        return;
                    }
                }
                // The next look may be luckier.
                Err(error) if error.fault == SourceFault::Away => {
                    looks_left = LOOKS_A_SCAN;
                    // It may stay for long, and each look meets it.
                    if told.replace(error.message.clone()).as_ref() != Some(&error.message) {
                        tracing::warn!(%error, "files cannot be looked for; trying again");
                    }
                    if sender.is_empty() && sender.send(Err(error), 0).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    // Whoever reads the files hears of it, and ends.
                    let _ = sender.send(Err(error), 0);
                    return;
                }
            }
        }
        looks_left -= 1;
        if sender.wait_closed(PAUSE) {
            return;
        }
    }
}

/// Has open files read that have changed, and closes some that have not.
fn wake(shared: &Shared) {
    let mut open = 0;
    let changed = shared.change(|work| {
        let (mut changed, mut waiting) = (Vec::new(), Vec::new());
        for mut parked in std::mem::take(&mut work.parked) {
            let Some(reading) = &parked.job.open else {
                waiting.push(parked);
                continue;
            };
            open += 1;
            parked.looks += 1;
            match reading.state() {
                Ok(now) if now != parked.state => work.jobs.push_back(parked.job),
                // Nothing leads to it any more.
                Ok(now) if now.is_deleted && parked.looks >= LOOKS_OF_DELETED => changed.push(parked.job),
                Ok(_) => waiting.push(parked),
                Err(_) => changed.push(parked.job),
            }
        }
        let mut excess = usize::saturating_sub(open, OPEN_MAX);
        for parked in
            waiting.iter_mut().filter(|parked| parked.job.open.is_some() && !parked.state.is_deleted)
        {
            if excess == 0 {
                break;
            }
            excess -= 1;
            parked.close();
            work.known.insert(parked.job.known.from.partition.clone(), parked.job.known.clone());
        }
        work.parked = waiting;
        changed
    });
    changed.into_iter().for_each(|job| shared.lose(job));
}

/// What a look at the folders has found.
struct Scan {
    decision: Decision,
    /// The files that were known, as they were when others were compared with them.
    compared: Vec<Known>,
    files: u64,
}

/// Looks at the folders.
fn scan(shared: &Shared, memory: &mut Memory) -> Result<Scan, SourceError> {
    let paths = &shared.options.paths;
    let survey = Survey::of(paths)?;
    closed(shared, &survey);
    let known: Vec<Known> = {
        let work = shared.lock();
        let left = work.left.values().chain(work.told.values());
        work.known.values().chain(left).cloned().collect()
    };
    let decision = look(paths, &survey, &known, memory)?;
    Ok(Scan { decision, compared: known, files: survey.entries.len() as u64 })
}

/// The new files that are new still; the others are decided by the next look. If a file was added since they were compared, any of them may be that one.
fn still_new(
    mut new: Vec<PartitionStart>,
    compared: &[Known],
    now: &BTreeMap<Partition, Known>,
) -> Vec<PartitionStart> {
    let partitions: BTreeSet<&Partition> = compared.iter().map(|known| &known.from.partition).collect();
    if now.keys().any(|partition| !partitions.contains(partition)) {
        return Vec::new();
    }
    new.retain(|start| !is_overtaken(start, compared, now));
    new
}

/// Whether what was decided of a new file is out of date: it may be a copy of one that was read on since it was compared, which could not be told from what
/// took its place by the few bytes that were known of it.
fn is_overtaken(start: &PartitionStart, compared: &[Known], now: &BTreeMap<Partition, Known>) -> bool {
    let is_of = |known: &&Known| is_name_of_copy(&known.from.partition.stream, &start.partition.stream);
    let few = compared.iter().filter(|known| known.evidence() < KNOWN_BY).filter(is_of);
    few.filter_map(|known| Some((known, now.get(&known.from.partition)?)))
        .any(|(known, now)| now.from.next != known.from.next)
}

/// Has files read that are not open and have changed; those that are not where they were are looked for.
fn closed(shared: &Shared, survey: &Survey) {
    shared.change(|work| {
        for known in work.known.values_mut() {
            if let Is::Open { node, path } = &mut known.is
                && let Some(entry) = survey.at_node(node)
            {
                path.clone_from(&entry.path);
            }
        }
    });
    let is_same = |entry: &Entry, bytes: u64, modified| entry.bytes == bytes && entry.modified == modified;
    let lost = shared.change(|work| {
        let (mut lost, mut waiting) = (Vec::new(), Vec::new());
        for mut parked in std::mem::take(&mut work.parked) {
            let Is::Closed { node, path, bytes, modified } = &mut parked.job.known.is else {
                waiting.push(parked);
                continue;
            };
            match survey.at_node(node) {
                Some(entry) if is_same(entry, *bytes, *modified) => {
                    path.clone_from(&entry.path);
                    waiting.push(parked);
                }
                Some(entry) => {
                    let spot = Spot { path: entry.path.clone(), node: entry.node };
                    work.found(parked.job, spot);
                }
                // In its folder, under a name that the paths do not mean.
                None if is_there(path, node, Some((*bytes, *modified))) => waiting.push(parked),
                None => lost.push(parked.job),
            }
        }
        work.parked = waiting;
        lost
    });
    lost.into_iter().for_each(|job| shared.lose(job));
}

/// Does what was decided.
fn act(shared: &Shared, sender: &Sender<Item>, decision: Decision, compared: &[Known]) -> Result<(), Closed> {
    let Decision { placed, finished, refused, new } = decision;
    let ends = shared.options.ends;
    shared.change(|work| {
        for (partition, spot) in placed {
            let over = if ends { None } else { work.over.remove(&partition) };
            if let Some(job) = work.lost.remove(&partition).or(over) {
                work.found(job, spot);
            }
        }
    });
    for partition in finished {
        let Some(from) = over(shared, &partition) else { continue };
        tracing::info!(
            file = %partition,
            position = %dataflow::position::shown(from.next),
            "a file that was read to its end is gone"
        );
        let event = match ends {
            true => Event::Ended { partition, next: from.next },
            false => Event::CaughtUp { partition, next: from.next, leader_epoch: from.leader_epoch },
        };
        sender.send(Ok(event), 0)?;
    }
    for (partition, error) in refused {
        if over(shared, &partition).is_some() {
            sender.send(Err(error), 0)?;
        }
    }
    let new = claimed(shared, sender, new, compared)?;
    shared.source.places.set(&shared.lock().known);
    for start in new {
        sender.send(Ok(Event::Found(start)), 0)?;
    }
    Ok(())
}

/// Nothing more comes of a file that was looked for, unless a copy with more of it appears.
fn over(shared: &Shared, partition: &Partition) -> Option<dataflow::ReadFrom> {
    shared.change(|work| {
        let mut job = work.lost.remove(partition)?;
        job.known.is = Is::Finished;
        let from = job.known.from.clone();
        work.known.insert(partition.clone(), job.known.clone());
        work.over.insert(partition.clone(), job);
        Some(from)
    })
}

/// New files that no other input reads, noted until they are added.
fn claimed(
    shared: &Shared,
    sender: &Sender<Item>,
    new: Vec<PartitionStart>,
    compared: &[Known],
) -> Result<Vec<PartitionStart>, Closed> {
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let known: BTreeMap<Partition, Known> = shared.lock().known.clone();
    let read: BTreeSet<&str> = known.values().filter_map(|known| Some(known.node()?.1)).collect();
    let all = read.into_iter().chain(new.iter().map(|start| &*start.partition.stream));
    if let Err(why) = shared.source.claim(all) {
        sender.send(Err(SourceError::new(SourceFault::Config, why)), 0)?;
        return Ok(Vec::new());
    }
    Ok(shared.change(|work| {
        let new = still_new(new, compared, &work.known);
        let told = new.iter().map(|start| (start.partition.clone(), super::told(start)));
        work.told.extend(told);
        new
    }))
}

#[cfg(test)]
mod tests;
