//! Whether a materialized view writes the same rows into the same partitions when an insert is repeated.
//!
//! Owns which functions of a view may give something else the second time. Does not own which views hang on a table (`checks::read`), nor what a target's
//! engine means (`checks::engine`).

use super::memory::{Memory, check_window};
use super::read::{Server, View};
use super::{Engine, Fault, check_engine};

/// Partitions that one frame may touch in a view's target: the server's own default.
pub(super) const VIEW_PARTITIONS_MAX: u32 = 100;

pub(super) fn check_view(view: &View, server: &Server, faults: &mut Vec<Fault>) -> Option<(Engine, Memory)> {
    let (name, quoted) = (view.target_name(), view.target_quoted());
    let Some(target) = &view.target else {
        faults.push(Fault::stop(format!(
            "materialized view `{}` writes into `{name}`, which does not exist: drop the view, or make its target",
            view.name
        )));
        return None;
    };
    let engine = check_engine(target, &name, faults)?;
    let of_target = check_window(&engine, &name, &quoted, server, faults);
    if !is_unpartitioned(&target.partition_key)
        && let Some(word) = unstable_function(&view.select)
    {
        faults.push(Fault::stop(format!(
            "materialized view `{}` calls `{word}`, and its target `{name}` is partitioned by `{}`: a repeated insert could \
             land in another partition, where its token is not known; take the time from a column, or drop the partition key",
            view.name, target.partition_key
        )));
    }
    Some((engine, of_target))
}

pub(super) fn is_unpartitioned(key: &str) -> bool {
    matches!(key.trim(), "" | "tuple()")
}

/// The first function in a SELECT that gives another value at each call.
fn unstable_function(select: &str) -> Option<&'static str> {
    const UNSTABLE: &[&str] = &[
        "now(",
        "now64(",
        "nowInBlock(",
        "today(",
        "yesterday(",
        "rand(",
        "rand32(",
        "rand64(",
        "randConstant(",
        "randCanonical(",
        "generateUUIDv4(",
        "generateUUIDv7(",
        "generateULID(",
        "generateSnowflakeID(",
        "hostName(",
        "rowNumberInAllBlocks(",
        "rowNumberInBlock(",
        "blockNumber(",
    ];
    let lower = select.to_lowercase();
    UNSTABLE.iter().copied().find(|name| {
        let name = name.to_lowercase();
        lower
            .match_indices(&name)
            .any(|(at, _)| !lower[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_'))
    })
}
