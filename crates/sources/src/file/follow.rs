//! Follows files: wakes those that have grown, and finds new ones.
//!
//! Owns when files are looked at. Does not own what became of one (`job`), nor which one is new (`recognize`).
//!
//! A file that was read to its end waits, open, so that it is read on when it was renamed or deleted. Beyond [`OPEN_MAX`] files, those that
//! waited for the longest time are closed; they are looked for again once what stands under their name is another file, or has changed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use dataflow::{Event, PartitionStart, ReadFrom, SourceError, SourceFault};

use super::reader::{Item, Parked, Shared};
use super::recognize::{Follow, Known, recognize};
use super::{Claims, Namesakes};
use crate::queue::Sender;

/// Pause between two looks at files that wait.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// Looks between two at the folders, and at the names of files that are not open.
const LOOKS_A_SCAN: u32 = 10;
/// A file that is not found is looked for so often: it may be on its way to another name.
pub(super) const TRIES: u32 = 20;
/// One that was read to its end, and of which nothing is missed.
pub(super) const TRIES_OF_FINISHED: u32 = 5;
/// A deleted file is let go after so many looks without a change: its writer may not have noticed yet.
const LOOKS_OF_DELETED: u32 = 50;
/// Files that wait open: a quarter of the files that a process may have open on most systems.
const OPEN_MAX: usize = 256;

/// What is shared with the source.
pub(super) struct Looks {
    pub namesakes: Arc<Namesakes>,
    pub claims: (Arc<Claims>, String),
}

/// Looks at files until the reader is gone.
pub(super) fn follow(shared: &Shared, sender: &Sender<Item>, looks: &Looks) {
    let mut follow = Follow::running();
    // What was found is told once; the pipeline adds it when it has recorded it.
    let mut told = Vec::new();
    let mut look = 0_u32;
    while !sender.wait_closed(PAUSE) {
        look = look.wrapping_add(1);
        let is_scan = look.is_multiple_of(LOOKS_A_SCAN);
        wake(shared, is_scan);
        if !is_scan {
            continue;
        }
        match find(shared, looks, &mut follow, &mut told) {
            Ok(found) => {
                for start in found {
                    if sender.send(Ok(Event::Found(start)), 0).is_err() {
                        return;
                    }
                }
            }
            // The next look may be luckier.
            Err(error) if error.fault == SourceFault::Away => {
                tracing::warn!(%error, "new files cannot be looked for; trying again");
            }
            Err(error) => {
                // Whoever reads the files is told, and ends.
                let _ = sender.send(Err(error), 0);
                return;
            }
        }
    }
}

/// Wakes files that have changed, and closes some that have not.
fn wake(shared: &Shared, is_scan: bool) {
    let mut open = 0;
    shared.wake(&mut |parked| {
        open += usize::from(parked.state.is_some());
        has_changed(parked, is_scan)
    });
    let mut excess = open.saturating_sub(OPEN_MAX);
    if excess > 0 {
        shared.wake(&mut |parked| {
            // They wait in the order in which they were read to their end.
            if excess > 0 && parked.state.take().is_some() {
                excess -= 1;
                parked.job.close();
            }
            false
        });
    }
}

fn has_changed(parked: &mut Parked, is_scan: bool) -> bool {
    let Some(before) = parked.state else {
        return is_scan && !is_where_it_was(parked);
    };
    let Some(now) = parked.job.state() else {
        parked.job.close();
        return true;
    };
    if now.bytes != parked.job.offset() || now.changed_ns != before.changed_ns {
        return true;
    }
    parked.looks += 1;
    if now.is_deleted && parked.looks >= LOOKS_OF_DELETED {
        // Nothing leads to it any more, so that is what will be found.
        parked.job.close();
        return true;
    }
    false
}

/// Whether a file that is not open stands where it was read, with as many bytes.
fn is_where_it_was(parked: &Parked) -> bool {
    let (from, at) = (&parked.job.from, &parked.at);
    let same = |metadata: Metadata| {
        let identity = files::Identity::parse(&from.identity);
        let is_same = identity.is_some_and(|identity| identity.node().is(&files::Node::of(&metadata)));
        is_same && metadata.is_file() && metadata.size() == parked.bytes
    };
    std::fs::metadata(at).is_ok_and(same)
}

fn find(
    shared: &Shared,
    looks: &Looks,
    follow: &mut Follow,
    told: &mut Vec<Known>,
) -> Result<Vec<PartitionStart>, SourceError> {
    let paths = &shared.options.paths;
    let shown = super::shown(paths)?;
    // Behind the files: what is read by then is known.
    let mut known = shared.known();
    told.retain(|told| known.iter().all(|known| known.from.partition != told.from.partition));
    known.extend(told.iter().cloned());
    let (claims, name) = &looks.claims;
    let look = recognize(paths, &shown, &known, (claims, name), Some(follow))?;
    looks.namesakes.set(&look.recognized);
    let is_new = |start: &PartitionStart| known.iter().all(|known| known.from.partition != start.partition);
    let found: Vec<PartitionStart> = look.recognized.into_iter().filter(is_new).collect();
    let of = |start: &PartitionStart| ReadFrom {
        partition: start.partition.clone(),
        identity: start.identity.clone(),
        next: start.next,
        leader_epoch: start.leader_epoch,
    };
    told.extend(found.iter().map(|start| Known::new(of(start))));
    Ok(found)
}
