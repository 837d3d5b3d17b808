//! Whether a table, and each target of its views, remembers tokens for long enough.
//!
//! Owns the two settings of a table that say so, and the statement that raises them. Does not own how many tokens and how much time are needed
//! (`tokens::trust`), nor which tables an insert reaches (`checks`, `checks::views`).

use std::time::Duration;

use tokens::trust;

use super::read::Server;
use super::{Engine, Fault, WINDOW};
use crate::config::TableConfig;

/// How long a replicated table remembers tokens.
const AGE_SETTING: &str = "replicated_deduplication_window_seconds";
/// What is advised for it, in seconds: a week, ClickHouse's own default for a long time.
const AGE_S: u64 = 604_800;

/// What a table and its views' targets remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Tokens.
    pub(crate) window: u64,
    /// Milliseconds; `u64::MAX` if only the number counts.
    pub(crate) age_ms: u64,
}

impl Memory {
    /// What a table of this engine remembers; nothing where neither it nor the server says.
    pub(super) fn of(engine: &Engine, server: &Server) -> Self {
        let read = |setting: &str| {
            let said = engine.setting(setting).or_else(|| server.table_default(engine.replicated, setting));
            said.unwrap_or(0)
        };
        let age_ms = if engine.replicated { read(AGE_SETTING).saturating_mul(1_000) } else { u64::MAX };
        Self { window: read(window_setting(engine)), age_ms }
    }

    /// What both remember.
    pub(super) fn and(self, other: Self) -> Self {
        Self { window: self.window.min(other.window), age_ms: self.age_ms.min(other.age_ms) }
    }
}

/// What to say before a setting of a table is changed: of a replicated one only the replica that is told so changes it. All of them forget tokens, each by its
/// own setting, and a poll shows that of one.
pub(super) fn on_each_replica(engine: &Engine) -> &'static str {
    match engine.replicated && !engine.is_shared() {
        true => ". A table's settings are not replicated: change it on every replica (`ON CLUSTER`)",
        false => "",
    }
}

/// What a table remembers, and a fault if that is nothing.
pub(super) fn check_window(
    engine: &Engine,
    name: &str,
    quoted: &str,
    server: &Server,
    faults: &mut Vec<Fault>,
) -> Memory {
    let (setting, memory) = (window_setting(engine), Memory::of(engine, server));
    let on_each = on_each_replica(engine);
    if memory.window == 0 {
        faults.push(Fault::fixed_by(
            format!("table `{name}` does not remember insert tokens (`{setting}` is 0), so a repeated insert doubles its rows{on_each}"),
            format!("ALTER TABLE {quoted} MODIFY SETTING {setting} = {WINDOW}"),
        ));
    }
    if memory.age_ms == 0 {
        faults.push(Fault::fixed_by(
            format!("table `{name}` forgets insert tokens at once (`{AGE_SETTING}` is 0){on_each}"),
            format!("ALTER TABLE {quoted} MODIFY SETTING {AGE_SETTING} = {AGE_S}"),
        ));
    }
    memory
}

/// The name of the setting that says how many tokens a table remembers.
fn window_setting(engine: &Engine) -> &'static str {
    if engine.replicated { "replicated_deduplication_window" } else { "non_replicated_deduplication_window" }
}

/// Every insert that may be under way must find its token again after all the others, within the half of the memory that a
/// resend may count on (`tokens::trust::tokens_min`), and before half of its age is over (`tokens::trust::insert_time_ms_max`).
pub(super) fn check_room(
    config: &TableConfig,
    engine: &Engine,
    name: &str,
    quoted: &str,
    memory: Memory,
    parts: u64,
    faults: &mut Vec<Fault>,
) {
    let in_flight = config.inserts_in_flight.max(1);
    let need = trust::tokens_min(in_flight, parts);
    let on_each = on_each_replica(engine);
    if memory.window > 0 && memory.window < need {
        let setting = window_setting(engine);
        faults.push(Fault::fixed_by(
            format!(
                "table `{name}` remembers {} insert tokens (`{setting}`); with {in_flight} inserts in flight, of up to {parts} tokens each, it needs \
                 at least {need}: half of them for other writers, and twice that, because an insert whose answer is lost is resent only \
                 while fewer than half of the tokens have been used since{on_each}",
                memory.window
            ),
            format!("ALTER TABLE {quoted} MODIFY SETTING {setting} = {}", need.max(WINDOW)),
        ));
    }
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let (time_ms, margin_ms) = (ms(config.insert_time_max), ms(config.resend_margin));
    let time_ms_max = trust::insert_time_ms_max(memory.age_ms, margin_ms);
    if memory.age_ms > 0 && time_ms > time_ms_max {
        let age_s = (time_ms + margin_ms).div_ceil(1_000).saturating_mul(2);
        let lower = match time_ms_max / 1_000 {
            0 => String::new(),
            s => format!("lower `sink.clickhouse.timeout` to {s}s or less, or "),
        };
        faults.push(Fault::fixed_by(
            format!(
                "table `{name}` forgets an insert token after {} s (`{AGE_SETTING}`), and an insert may take {} s \
                 (`sink.clickhouse.timeout`). An insert whose answer is lost can be resent only within half of that age, of which {} s are \
                 for polling the server: {lower}let the table remember tokens for longer{on_each}",
                memory.age_ms / 1_000,
                time_ms / 1_000,
                margin_ms / 1_000
            ),
            format!("ALTER TABLE {quoted} MODIFY SETTING {AGE_SETTING} = {}", age_s.max(AGE_S)),
        ));
    }
}
