//! What damage means, and the way out, in words.
//!
//! Owns what is lost with each kind of object, by the table, frame or step that needs it, and the remedy. Does not own what is read,
//! or the finding itself (`inspect`).

use protocol::{Lane, names};

use super::Finding;
use super::parts::Part;

const RESTORE: &str = "restore the object from a copy of the store that was made while the pipeline was stopped; without \
     one, empty the table, run `forebay reset FILE --yes` and give the source another `group`, `subscription` or `consumer`, which reads \
     everything again; or ask for help with the store as it is. Nothing was guessed";

/// The same for an object that holds nothing but the state of steps.
const RESTORE_STATE: &str = "restore the object from a copy of the store that was made while the pipeline was stopped; without \
     one, and if no sealed insert waits, start once with `forebay run FILE --new-state STEP --yes`: the step begins empty, and what it remembers is lost, \
     with the records in its open windows or its join. Nothing was guessed";

/// A record that cannot be read or that breaks an invariant.
pub(super) fn record(object: &str, what: String) -> Finding {
    Finding {
        object: object.to_owned(),
        what,
        means: "the journal cannot be followed beyond it: the pipeline does not start, and a running one stops when it is \
                replaced"
            .into(),
        way_out: RESTORE,
    }
}

/// Records from `expected` up to `found` are not there.
pub(super) fn records_missing(folder: &str, expected: u64, found: u64, floor: u64) -> Finding {
    let means = match expected == floor && floor > 0 {
        true => {
            "the checkpoint that the floor names is missing, and with it everything that was folded into it"
        }
        false => "the journal has a hole: positions, frames and state of these records are unknown",
    };
    Finding {
        object: names::journal(folder, expected),
        what: match found - expected {
            1 => "missing".to_owned(),
            more => format!("missing, with the {} records after it", more - 1),
        },
        means: means.into(),
        way_out: RESTORE,
    }
}

/// An object whose parts are missing or damaged.
pub(super) fn object(lane: &Lane, object: &str, parts: &[Part], what: &str) -> Finding {
    let mut means = Vec::new();
    for part in parts {
        match part {
            Part::Frame(frame) => {
                let table = lane.tables.get(frame.table as usize);
                let name = table.map_or("an unknown table", |t| t.name.as_str());
                let is_settled = table.is_some_and(|t| frame.ordinal < t.frontier);
                means.push(match is_settled {
                    true => format!("frame {} of `{name}` is in the table already, nothing is lost", frame.ordinal),
                    false => format!(
                        "{} rows of frame {} of `{name}` are sealed, perhaps not in the table, and cannot be sent",
                        frame.rows, frame.ordinal
                    ),
                });
            }
            Part::Delta(delta) => {
                means.push(format!("keys that step {} has seen are lost", step(lane, delta.step)))
            }
            Part::Whole { step: n, .. } => {
                means.push(format!("the state of step {} is lost", step(lane, *n)))
            }
            Part::File { step: n, .. } => {
                means.push(format!("keys of step {} that lie in it are lost", step(lane, *n)))
            }
        }
    }
    means.dedup();
    let more = means.len().saturating_sub(3);
    means.truncate(3);
    let mut means = means.join("; ");
    if more > 0 {
        means.push_str(&format!("; and {more} more of this kind"));
    }
    let is_state = !parts.is_empty() && !parts.iter().any(|part| matches!(part, Part::Frame(_)));
    let way_out = if is_state { RESTORE_STATE } else { RESTORE };
    Finding { object: object.to_owned(), what: what.to_owned(), means, way_out }
}

fn step(lane: &Lane, index: u32) -> String {
    lane.steps.get(index as usize).map_or_else(|| index.to_string(), |step| format!("`{}`", step.name))
}
