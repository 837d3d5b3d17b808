//! Whether a lane is under the name by which it is asked for.
//!
//! Owns the refusal of a name that a lane has left, of one that it has not reached yet, and of one whose lane is being removed. Does not own
//! the rename ([`crate::rename`]) nor the removal ([`crate::remove`]).

use protocol::Lane;

use crate::EngineError;

/// Whether the lane is here, and not on its way to or under another name.
///
/// # Errors
/// When it is not, with the name to use or the way to finish.
pub fn check(lane: &Lane, folder: &str) -> Result<(), EngineError> {
    let name = folder.split('/').next().unwrap_or(folder);
    if let Some(from) = &lane.arriving_from {
        return Err(unfinished(from, name));
    }
    if lane.removed.is_some_and(|removed| !removed.is_done) {
        return Err(EngineError::Mismatch(format!(
            "pipeline `{name}` is being deleted from its store, by `forebay delete` or `forebay reset`, and that was not finished; nothing was read \
             or written. To finish it: `forebay reset FILE --yes`"
        )));
    }
    match &lane.renamed {
        None => Ok(()),
        Some(renamed) if renamed.is_done => Err(EngineError::Mismatch(format!(
            "pipeline `{name}` was renamed to `{0}`: its journal, state and rows in flight are there, and reading the source under this \
             name again would write every row twice; nothing was read or written. Write `pipeline: {0}` into the pipeline file",
            renamed.to
        ))),
        Some(renamed) => Err(unfinished(name, &renamed.to)),
    }
}

fn unfinished(from: &str, to: &str) -> EngineError {
    EngineError::Mismatch(format!(
        "pipeline `{from}` is being renamed to `{to}`, and that was not finished; nothing was read or written. To finish it: `forebay \
         rename FILE {to} --yes`"
    ))
}
