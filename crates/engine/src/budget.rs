//! How long the tables' memories of tokens last, at the rate at which tokens are used: measured, shown, warned of.
//!
//! Owns the measuring with each poll of a table, the two metrics and the one warning. Does not own the arithmetic
//! (`dataflow::Tokens`) or what a doubt does when a token is no proof any more (`protocol::doubt`).

use dataflow::Budget;
use metrics::gauge;

use crate::target::Target;
use crate::{Settings, Status};

/// Reports a table that was just seen.
pub fn tell(target: &Target, settings: &Settings, status: &Status) {
    let Some((now, was_scarce)) = look(target, settings) else { return };
    let name = target.table.name();
    gauge!("forebay_token_memory_seconds", "table" => name.to_owned()).set(seconds(now.memory_ms));
    gauge!("forebay_token_needed_seconds", "table" => name.to_owned()).set(seconds(now.needed_ms));
    status.update(|s| s.tables.entry(name.to_owned()).or_default().tokens = Some(now));
    if now.is_scarce && !was_scarce {
        tracing::warn!(
            table = name,
            tokens = now.remembered,
            tokens_per_s = now.used_per_s,
            memory_s = seconds(now.memory_ms),
            needed_s = seconds(now.needed_ms),
            "the table forgets insert tokens too soon: an insert whose answer is lost takes up to `needed_s`, which is more than half of \
             what the memory lasts at the present rate of all writers. Such an insert is then looked for in the table before it is sent \
             again, and where that cannot be done the pipeline stops and asks. Raise the deduplication window of the table and \
             of its views' targets, cut larger batches, or lower `sink.clickhouse.timeout`"
        );
    } else if was_scarce && !now.is_scarce {
        tracing::info!(
            table = name,
            memory_s = seconds(now.memory_ms),
            "the table remembers insert tokens long enough again"
        );
    }
}

/// The budget by what is known now, and whether the one before was scarce; `None` if the table's rules measure nothing.
fn look(target: &Target, settings: &Settings) -> Option<(Budget, bool)> {
    let mut tokens = target.tokens();
    tokens.meter.see(&target.seen());
    let needed_ms = u64::try_from(settings.token_needed().as_millis()).unwrap_or(u64::MAX);
    let was = tokens.is_scarce;
    let now = tokens.meter.budget(needed_ms)?;
    tokens.is_scarce = now.is_scarce;
    Some((now, was))
}

fn seconds(ms: u64) -> f64 {
    if ms == u64::MAX { f64::INFINITY } else { ms as f64 / 1_000.0 }
}
