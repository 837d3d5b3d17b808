//! Which segments stay unwritten, because their source holds the records.
//!
//! Owns that decision, and the wait for memory before a seal. Does not own the segments that stay ([`crate::unwritten`]), nor who makes one again after a
//! crash ([`crate::remake`]).

use std::time::Duration;

use bytes::Bytes;
use protocol::record::{Frame, Made};

use crate::context::Context;
use crate::cut::Cut;
use crate::objects::NextReader;
use crate::target::Target;

/// How long a segment that must be written waits for memory at the most: a table that answers settles a frame of 50 MB within it. Behind a table that does not keep up, one
/// seal a second goes into the spool even so.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How often the wait looks for a request to stop.
const LOOK_FOR_MEMORY_EVERY: Duration = Duration::from_millis(100);

/// What a cut's only frame is made of, if its segment may be written later: it holds nothing else, and its body stays in memory.
pub fn made_of(context: &Context, cut: &mut Cut, sealed: &[(usize, Frame, Bytes)]) -> Option<Made> {
    if !may_leave(context, cut, sealed) || next_reader(context, sealed) != NextReader::Start {
        return None;
    }
    let runs = cut.runs.take().filter(|runs| !runs.is_empty())?;
    Some(Made { runs, watermark_ms: cut.judged_by_ms })
}

/// Whether the segment of a cut may stay unwritten, if there is memory for its body.
fn may_leave(context: &Context, cut: &Cut, sealed: &[(usize, Frame, Bytes)]) -> bool {
    let [(place, ..)] = sealed else { return false };
    let is_all = cut.refusals.is_empty() && cut.fates.is_empty() && cut.letters == 0;
    is_all && context.may_leave && !context.is_stopping() && !context.targets[*place].takes_dead_letters
}

/// Waits until settled frames free enough memory, if there is one table and it answers: a body that finds no room is written and read again, which costs more than the wait.
/// Where the source holds the records nothing is written at all then, and the wait lasts as long as the table answers. Elsewhere senders may wait for the seal: the wait
/// is [`WAIT_MAX`], and none if the frames that are settled next free no memory, as behind an outage. With several tables a slow one does not hold up the others: its
/// segments are written.
pub async fn wait_for_memory(context: &Context, cut: &Cut, sealed: &[(usize, Frame, Bytes)]) {
    let bytes_max = context.settings.body_cache_bytes_max;
    let mut tables = context.targets.iter().enumerate().filter(|(_, target)| !target.takes_dead_letters);
    let (Some((place, target)), None) = (tables.next(), tables.next()) else { return };
    let bytes: u64 = sealed.iter().filter(|(of, ..)| *of == place).map(|(_, frame, _)| frame.len).sum();
    let until = context.runtime.elapsed() + WAIT_MAX;
    // An insert in doubt may wait for what stands behind this seal: the dead letter of a refused row, or the end of the lane.
    while (1..=bytes_max).contains(&bytes)
        && !target.has_room(bytes, bytes_max)
        && !context.is_stopping()
        && !context.spool.has_refusals()
    {
        let now = context.runtime.elapsed();
        let left = match may_leave(context, cut, sealed) {
            true => context.objects.unwritten.patience(target.index, now),
            false if takes_soon(context, target) => until.checked_sub(now).filter(|left| !left.is_zero()),
            false => None,
        };
        let Some(left) = left else { return };
        context.runtime.timeout(left.min(LOOK_FOR_MEMORY_EVERY), target.freed.notified()).await;
    }
}

/// Whether inserts are answered, and the next answers free memory.
fn takes_soon(context: &Context, target: &Target) -> bool {
    target.is_answered() && !target.is_held() && target.frees_soon(context.settings.in_flight_max)
}

/// Who reads the segment next: nobody while this owner lives, if all of its bodies will be kept.
pub fn next_reader(context: &Context, sealed: &[(usize, Frame, Bytes)]) -> NextReader {
    let bytes_max = context.settings.body_cache_bytes_max;
    let will_keep = |(place, target): (usize, &Target)| {
        let own = sealed.iter().filter(|(of, ..)| *of == place);
        target.has_room(own.map(|(_, frame, _)| frame.len).sum(), bytes_max)
    };
    let all_kept = context.targets.iter().enumerate().all(will_keep);
    if all_kept { NextReader::Start } else { NextReader::Soon }
}
