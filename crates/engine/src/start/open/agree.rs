//! Whether what a source shows, and the pipeline file names, agrees with what the lane has read.
//!
//! Owns the checks, and the words with the way out where they fail. Does not own when they are made, nor what follows ([`super`]).
//!
//! | what is compared                                | what a difference means                                              |
//! |-------------------------------------------------|----------------------------------------------------------------------|
//! | inputs and streams with the pipeline file       | one was taken out of the file: it is to be forgotten, or put back    |
//! | identities with those that were read            | the stream was deleted and created again                             |
//! | what was published with where the lane stands   | the store was lost, rolled back to an older copy, or is another one  |

use std::collections::BTreeSet;
use std::sync::Arc;

use dataflow::position::{self, Position};
use dataflow::{Partition, Streams};
use protocol::Lane;
use protocol::lane::PartitionState;

use super::{Shown, knew, place};
use crate::EngineError;
use crate::inputs::{Inlet, quoted};

/// An input that the lane reads and the pipeline file no longer names: the operator has to say what that means.
pub(super) fn check_inputs(lane: &Lane, names: &[Arc<str>]) -> Result<(), String> {
    for (number, known) in (0..).zip(&lane.inputs) {
        if !names.iter().any(|name| **name == *known.name) && lane.reading().any(|(_, p)| p.input == number) {
            return Err(format!(
                "input `{0}` is no longer in the pipeline file, though this pipeline has read it; nothing was read or sealed. To take it out \
                 of the pipeline run `forebay forget FILE --input {1}`; otherwise put it back into the file under this name (`source:` in place of \
                 `inputs:` has the name `source`)",
                known.name,
                quoted(&known.name)
            ));
        }
    }
    Ok(())
}

/// A stream that the lane reads and the pipeline file no longer names: the operator has to say what that means.
pub(super) fn check_named(lane: &Lane, input: &Inlet) -> Result<(), String> {
    let source = &*input.source;
    let own = lane.reading().filter(|(_, p)| p.input == input.number);
    let streams: BTreeSet<&str> = own.map(|(_, p)| p.stream.as_str()).collect();
    let gone: Vec<&str> = streams.into_iter().filter(|stream| !source.covers(stream)).collect();
    if gone.is_empty() {
        return Ok(());
    }
    let flag = match source.streams() {
        Streams::Topics => "--topic",
        Streams::Files => "--file",
        Streams::Logs | Streams::Others => "--stream",
    };
    let named: Vec<String> = gone.iter().map(|stream| format!("`{stream}`")).collect();
    let flags: Vec<String> = gone.iter().map(|stream| format!("{flag} {}", quoted(stream))).collect();
    let (verb, it) = if gone.len() == 1 { ("is", "it") } else { ("are", "them") };
    let mut flags = flags.join(" ");
    if input.has_others {
        flags = format!("--input {} {flags}", quoted(&input.name));
    }
    Err(format!(
        "{} {verb} no longer in the pipeline file, though this pipeline has read {it}; nothing was read or sealed. To take {it} out of \
         the pipeline run `forebay forget FILE {}`; otherwise put {it} back into the file",
        named.join(", "),
        flags
    ))
}

/// A stream that has another identity than the one that the lane has read under its name.
pub(super) fn check_identities(lane: &Lane, shown: &Shown) -> Result<(), String> {
    for p in &shown.partitions {
        let Some(at) = place(lane, &p.partition) else { continue };
        let known = &lane.partitions[at];
        if !known.identity.is_empty() && !p.identity.is_empty() && known.identity != p.identity {
            return Err(format!(
                "`{}` is not the stream that this pipeline has read: its identity was `{}` and is `{}`; it was deleted and \
                 created again. Records of the new one would be taken for old ones. To read the new one, run `forebay forget FILE \
                 --stream {}` and start again: it is then read from where `start` says",
                p.partition,
                known.identity,
                p.identity,
                quoted(&p.partition.stream)
            ));
        }
    }
    Ok(())
}

/// Whether the store is the newest copy, as far as what was published tells.
///
/// # Errors
/// When it is older, or knows nothing of what was read.
pub fn check_store(lane: &Lane, shown: &Shown) -> Result<(), EngineError> {
    check_published(lane, shown).map_err(EngineError::Mismatch)
}

fn check_published(lane: &Lane, shown: &Shown) -> Result<(), String> {
    for (partition, published) in &shown.published {
        let Some(at) = place(lane, partition) else {
            if !knew(lane, partition.input, &partition.stream) {
                check_unknown(shown, partition, *published)?;
            } else if !lane.partitions.iter().any(|p| is_of(p, partition)) {
                check_late(shown, partition, *published)?;
            }
            continue;
        };
        // One that was moved back was read further before, and the source may know.
        let sealed = lane.read_to(at);
        // A stream that was forgotten and came back was read further before.
        let all = lane.partitions.iter().enumerate().filter(|(_, p)| is_of(p, partition));
        let before = all.map(|(at, _)| lane.read_to(at)).max();
        // Who begins at the first record that is held reads nothing of what was published and is gone: a source may publish what it deletes.
        let held = shown.partitions.iter().find(|p| p.partition == *partition).map(|p| p.first);
        let is_gone = lane.partitions[at].next == 0 && held.is_some_and(|first| *published <= first);
        if *published > before.unwrap_or(sealed) && !is_gone && is_same(lane, at, shown) {
            return Err(rolled_back(shown, partition, (*published, sealed)));
        }
    }
    Ok(())
}

fn rolled_back(shown: &Shown, partition: &Partition, (published, sealed): (Position, Position)) -> String {
    let again = shown.reader.map_or_else(String::new, |setting| format!(" and {}", another(setting)));
    let held = shown.partitions.iter().find(|p| p.partition == *partition).map(|p| p.first);
    let to = position::shown(held.map_or(published, |first| first.max(published)));
    let moved = shown.reader.map_or_else(String::new, |_| {
        format!(
            ". Or others have moved that position: if by mistake, set it back to {} with the source's own tools, and nothing is lost. If records were \
             skipped, expired or cut off, to give up what is in between, run `forebay reset FILE --to '{}/{}={to}'`",
            position::shown(sealed),
            partition.stream,
            partition.index
        )
    });
    format!(
        "the source says that `{partition}` was read up to {}, but the store is at {}: the store was rolled back to an older copy, and reading \
         on would write rows twice. Restore the newer store; or, to read everything again, empty the table, run `forebay reset FILE --yes`{again}{moved}",
        position::shown(published),
        position::shown(sealed)
    )
}

/// What makes a source forget how far it was read.
fn another(setting: &str) -> String {
    format!("give the source another `{setting}`")
}

fn is_of(known: &PartitionState, partition: &Partition) -> bool {
    known.is(partition.input, &partition.stream, partition.index)
}

/// A partition of a stream that the store knows, which came later and was read: the store is from before that.
fn check_late(shown: &Shown, partition: &Partition, published: Position) -> Result<(), String> {
    let first = shown.partitions.iter().find(|p| p.partition == *partition).map(|p| p.first);
    if first.is_some_and(|first| published > first) {
        return Err(format!(
            "the source says that `{partition}` was read up to {}, but the store does not know this partition: the store was \
             rolled back to an older copy, from before the partition was added, and reading it from the start would write rows twice. \
             Restore the newer store, or give the pipeline a new name and an empty table",
            position::shown(published)
        ));
    }
    Ok(())
}

/// Whether the partition that is shown is the one that the lane has read: of another one, what was published says nothing.
fn is_same(lane: &Lane, at: usize, shown: &Shown) -> bool {
    let known = &lane.partitions[at];
    let now = shown.partitions.iter().find(|p| is_of(known, &p.partition));
    now.is_none_or(|now| {
        now.identity == known.identity || now.identity.is_empty() || known.identity.is_empty()
    })
}

/// A partition that the store does not know, though its positions were published: the store is lost, or another one.
fn check_unknown(shown: &Shown, partition: &Partition, published: Position) -> Result<(), String> {
    let next = shown.partitions.iter().find(|p| p.partition == *partition).map(|p| p.next);
    if next.is_some_and(|next| published > next) {
        return Err(format!(
            "the source says that `{partition}` was read up to {}, but the store does not know this partition: the store was lost, \
             or is another one, and reading from the start would write rows twice. Restore the store; or, to read everything into \
             an empty table, {}",
            position::shown(published),
            // What this machine has noted of files goes with the journal.
            shown.reader.map_or_else(|| "run `forebay reset FILE --yes`".to_owned(), another)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
