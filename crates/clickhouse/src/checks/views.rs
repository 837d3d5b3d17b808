//! Whether a materialized view writes the same rows into the same partitions when an insert is repeated.
//!
//! Owns which functions of a view may give something else the second time. Does not own which views hang on a table (`checks::read`), nor what a target's
//! engine means (`checks::engine`).

use super::memory::{Memory, check_window};
use super::read::{Server, View};
use super::{Engine, Fault, check_engine};
use crate::types::identifier;

/// Partitions that one frame may touch in a view's target: the server's own default.
pub(super) const VIEW_PARTITIONS_MAX: u32 = 100;

pub(super) fn check_view(view: &View, server: &Server, faults: &mut Vec<Fault>) -> Option<(Engine, Memory)> {
    let (name, quoted) = (view.target_name(), view.target_quoted());
    let Some(target) = &view.target else {
        faults.push(Fault::stop(format!(
            "materialized view `{}` writes into `{name}`, which does not exist, or which user `{}` may not see: make it, drop the view, or let the user see \
             it with `GRANT SHOW TABLES ON {quoted} TO {}`",
            view.name,
            server.known.user,
            identifier(&server.known.user)
        )));
        return None;
    };
    let engine = check_engine(target, &name, faults)?;
    let of_target = check_window(&engine, &name, &quoted, server, faults);
    if !is_unpartitioned(&target.partition_key)
        && let Some(word) = unstable_function(&view.select)
    {
        faults.push(Fault::stop(format!(
            "materialized view `{}` calls `{word}()`, and its target `{name}` is partitioned by `{}`: a repeated insert could \
             land in another partition, where its token is not known; take the value from a column, or drop the partition key",
            view.name, target.partition_key
        )));
    }
    Some((engine, of_target))
}

pub(super) fn is_unpartitioned(key: &str) -> bool {
    matches!(key.trim(), "" | "tuple()")
}

/// Functions without a fixed value, in lower case: of a clock, of chance, of where a row stands in its block, and of the server or query at work. Older
/// servers keep the names by which they were called, others write `today()` for `CURDATE()`. Values of dictionaries and of `joinGet` may change as well,
/// but seldom, and views are full of them.
const UNSTABLE: [&str; 67] = [
    "arraypartialshuffle",
    "arrayrandomsample",
    "arrayshuffle",
    "blocknumber",
    "blockserializedsize",
    "blocksize",
    "connection_id",
    "connectionid",
    "curdate",
    "current_date",
    "current_query_id",
    "current_timestamp",
    "currentqueryid",
    "datetimetouuidv7",
    "displayname",
    "fqdn",
    "fullhostname",
    "fuzzbits",
    "generaterandomstructure",
    "generateserialid",
    "generatesnowflakeid",
    "generateulid",
    "generateuuidv4",
    "generateuuidv7",
    "getserverport",
    "hostname",
    "initial_query_id",
    "initial_query_start_time",
    "initialqueryid",
    "initialquerystarttime",
    "localtime",
    "localtimestamp",
    "now",
    "now64",
    "nowinblock",
    "nowinblock64",
    "query_id",
    "queryid",
    "rand",
    "rand32",
    "rand64",
    "randbernoulli",
    "randbinomial",
    "randcanonical",
    "randchisquared",
    "randconstant",
    "randexponential",
    "randfisherf",
    "randlognormal",
    "randnegativebinomial",
    "randnormal",
    "randomfixedstring",
    "randomprintableascii",
    "randomstring",
    "randomstringutf8",
    "randpoisson",
    "randstudentt",
    "randuniform",
    "rownumberinallblocks",
    "rownumberinblock",
    "serveruuid",
    "today",
    "transactionid",
    "uptime",
    "utc_timestamp",
    "utctimestamp",
    "yesterday",
];

/// The first function in a SELECT that may give another value at each call, as it is written there. The server writes no blank before a bracket.
fn unstable_function(select: &str) -> Option<&str> {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    select.match_indices('(').find_map(|(bracket, _)| {
        let before = &select[..bracket];
        let word = &before[before.trim_end_matches(is_of_word).len()..];
        UNSTABLE.contains(&word.to_ascii_lowercase().as_str()).then_some(word)
    })
}
