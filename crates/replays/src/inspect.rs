//! Reads all of a lane's replay log and verifies it, for `forebay store check`.
//!
//! Owns what is compared: checksums and forms of every object, that the objects follow each other, and that nothing is missing between
//! them and the place where the lane stands. Does not own the rest of the store (`engine::inspect`). Only reads; what is retired
//! meanwhile is not reported as missing.

use dataflow::position;
use engine::inspect::Finding;
use protocol::Lane;
use store::{ErrorKind, StoreError};

use super::object::ReplayError;
use super::taken::{BYTES_MAX, Snapshot};
use super::{Log, LogError, stands_at};

const WAY_OUT: &str = "restore the object from a copy of the store that was made while the pipeline was stopped. Nothing was guessed";

/// What was read of a replay log, and what of it is damaged or missing.
#[derive(Debug, Default)]
pub struct Inspected {
    /// Objects that were read.
    pub objects: u64,
    /// What is damaged or missing.
    pub findings: Vec<Finding>,
}

/// Reads the log and what is remembered of its retired part. `lane` is the lane as its journal says.
///
/// # Errors
/// When the store cannot be read.
pub async fn inspect(log: &Log, lane: &Lane) -> Result<Inspected, StoreError> {
    let mut found = Inspected::default();
    let mut expected = stands_at(lane).map(position::low);
    let begins = log.numbers("replays").await.map_err(of_store)?;
    // Asked for after the objects: what was retired meanwhile is covered by one of these.
    let ends = log.numbers("replayed").await.map_err(of_store)?;
    let retired = ends.last().copied().unwrap_or(0);
    for begin in begins {
        if let Some(expected) = expected.filter(|expected| begin > *expected.max(&retired)) {
            found.findings.push(missing(log, expected, begin));
        }
        match log.at(begin).await {
            Ok(Some(replay)) => {
                found.objects += 1;
                expected = expected.map_or(Some(replay.end()), |at| Some(at.max(replay.end())));
            }
            Ok(None) => {}
            Err(LogError::Object { object, why }) => {
                found.findings.push(damaged(
                    object,
                    &why,
                    "records of dead letters on their way through the pipeline once more \
                     cannot be read: the pipeline goes on, and they wait",
                ));
                // Its end is not known, so nothing can be said of what follows.
                expected = None;
            }
            Err(error) => return Err(of_store(error)),
        }
    }
    for end in ends {
        let key = log.key("replayed", end);
        let Some(bytes) = log.store.get(&key, BYTES_MAX).await? else { continue };
        found.objects += 1;
        if let Err(why) = Snapshot::from_bytes(end, &bytes) {
            let means = "which dead letters were replayed already is not known: none is replayed";
            found.findings.push(damaged(key.as_str().to_owned(), &why, means));
        }
    }
    for number in log.numbers("purged").await.map_err(of_store)? {
        let key = log.key("purged", number);
        let Some(bytes) = log.store.get(&key, BYTES_MAX).await? else { continue };
        found.objects += 1;
        if let Err(why) = Snapshot::from_bytes(number, &bytes) {
            let means = "which dead letters were purged is not known: nothing is purged or verified";
            found.findings.push(damaged(key.as_str().to_owned(), &why, means));
        }
    }
    Ok(found)
}

fn damaged(object: String, why: &ReplayError, means: &str) -> Finding {
    Finding { object, what: why.to_string(), means: means.to_owned(), way_out: WAY_OUT }
}

fn missing(log: &Log, from: u64, to: u64) -> Finding {
    Finding {
        object: log.key("replays", from).as_str().to_owned(),
        what: format!("missing: the log holds records from {to} on, and those from {from} were not read yet"),
        means: "records of dead letters that were to be replayed are lost to the replay; the dead letters are where they were, \
                and `--again` takes them once more"
            .to_owned(),
        way_out: WAY_OUT,
    }
}

/// Listing and reading fail by the store alone, apart from damage.
fn of_store(error: LogError) -> StoreError {
    match error {
        LogError::Store(error) => error,
        other => StoreError::new(ErrorKind::Io, store::Operation::List, "replays", other.to_string()),
    }
}

#[cfg(test)]
mod tests;
