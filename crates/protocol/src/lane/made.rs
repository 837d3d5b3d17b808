//! Frames that were sealed before they were written.
//!
//! Owns the rule by which a seal may leave its segment to be written later, or never ([`Made`]). Whoever misses the segment makes it again from the
//! records that the frame names, so these must be all that the seal has read, and the frame all that it holds. Does not own who may leave a segment
//! out, nor how it is made again (the engine).
//!
//! | a frame that names its records            | the seal                                                       |
//! |-------------------------------------------|----------------------------------------------------------------|
//! | with another frame, or a change of state  | is refused: they would be in the segment too                   |
//! | of other records than the seal's ranges   | is refused: the frame would come out with other rows           |
//! | of exactly these                          | holds (C2): what is sent is durable in the source until it is settled |

use super::{Violation, violation};
use crate::record::{Frame, Made, RUNS_MAX, Record, Run, Seal};

/// Whether each frame that is to be made again can be.
///
/// # Errors
/// A violation of C2.
pub(super) fn check(record: &Record, seal: &Seal) -> Result<(), Violation> {
    for frame in &seal.frames {
        if let Some(made) = &frame.made {
            check_made(seal, frame, made).map_err(|what| violation(record, "C2", what))?;
        }
    }
    Ok(())
}

fn check_made(seal: &Seal, frame: &Frame, made: &Made) -> Result<(), String> {
    let named = format!("frame {} of table {}, to be made again,", frame.ordinal, frame.table);
    if seal.frames.len() != 1 || !seal.states.is_empty() || !seal.refusals.is_empty() {
        return Err(format!("{named} is not all that its seal holds"));
    }
    if made.runs.is_empty() || made.runs.len() > RUNS_MAX {
        return Err(format!("{named} names {} runs of records", made.runs.len()));
    }
    for range in &seal.ranges {
        let mut at = range.from();
        for Run { from, next, .. } in made.runs.iter().filter(|run| run.partition == range.partition) {
            if u128::from(*from) != at || next < from {
                return Err(format!("{named} has records {from}..{next} of partition {}", range.partition));
            }
            at = u128::from(*next);
        }
        if at != range.next() {
            return Err(format!(
                "{named} has not all records that were read of partition {}",
                range.partition
            ));
        }
    }
    let is_read = |run: &Run| seal.ranges.iter().any(|range| range.partition == run.partition);
    if !made.runs.iter().all(is_read) {
        return Err(format!("{named} has records of a partition that was not read"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
