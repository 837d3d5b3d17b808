//! What a seed stands for: the shape of the pipeline, the records, and the faults.
//!
//! Owns that all three are drawn before a run begins, so that a run with some of its faults left out is still the same
//! run otherwise, and a failure can be made smaller; and the lane's bounds. The modules below draw one thing each. Does not own what a fault does
//! (`drive`, and the part of the world it hits).

pub mod altered;
mod arrivals;
mod chained;
mod drawn;
pub mod ended;
mod fault;
pub mod inputs;
mod joined;
pub mod moved;
mod released;
pub mod replayed;
mod resent;
mod rolled;
mod servers;
mod sources;
mod tables;
mod unnested;
mod untimed;
mod upserted;
mod windows;

use std::time::Duration;

use engine::Settings;
use operators::dedup::Late;
use tokens::trust;

use crate::changes::Changes;
use crate::pairs::Joins;
use crate::random::Random;
use crate::results::Aggregates;
pub use arrivals::Arrival;
use arrivals::{arrivals, poison};
use drawn::faults;
pub use fault::{Change, Fault, InsertFault, PutFault, When};

/// Everything that is drawn from a seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Partitions at the begin.
    pub partitions: u32,
    /// When one more partition appears, microseconds; its number is `partitions`.
    pub partition_added_us: Option<u64>,
    /// The records, by time.
    pub arrivals: Vec<Arrival>,
    /// Ids of records that the server does not take, from the second of these times on (microseconds).
    pub poison: Vec<(u64, u64)>,
    /// The dedup window; `None` is unbounded.
    pub window: Option<Duration>,
    /// What becomes of late records.
    pub late: Late,
    /// True if the store is a local disk: its names are durable only after an fsync, and its writes die with their process.
    pub is_local: bool,
    /// True if the table has a provenance column.
    pub has_provenance: bool,
    /// True if the table feeds a view.
    pub has_view: bool,
    /// Tokens that the table remembers.
    pub token_window: u64,
    /// How long it remembers them, milliseconds; `None` if only the number counts.
    pub token_age_ms: Option<u64>,
    /// Tokens that one block costs: two where the server writes two hashes.
    pub tokens_per_block: u64,
    /// True if others insert asynchronously, so that one block may hold any number of tokens.
    pub others_at_once: bool,
    /// True if some records have times far in the future.
    pub has_future: bool,
    /// False if the source keeps no published positions, as files do not.
    pub keeps_positions: bool,
    /// Replicas behind a balancer; 1 is a plain table.
    pub replicas: u64,
    /// Table partitions that rows spread over.
    pub table_partitions: u64,
    /// The lane's number.
    pub lane: u32,
    /// Places of the tables for rows.
    pub tables: Vec<usize>,
    /// Whether rows are dealt out by their keys; otherwise each table gets all.
    pub is_routed: bool,
    /// Whether a step makes two rows of some records.
    pub multiplies: bool,
    /// Whether steps before dedup make a row of each item of a record.
    pub unnests: bool,
    /// The window that stands in place of dedup, if one does.
    pub aggregates: Option<Aggregates>,
    /// The join that does.
    pub joins: Option<Joins>,
    /// The upsert that does.
    pub changes: Option<Changes>,
    /// How many inputs share the partitions.
    pub inputs: u32,
    /// The lane's bounds.
    pub settings: Settings,
    /// How its inputs end, if they do.
    pub ends: Option<ended::Ends>,
    /// When a person moves it back, if one does.
    pub moved: Option<moved::Moved>,
    /// What a person does to the columns of the first table.
    pub alters: Vec<altered::Alter>,
    /// The dead letters that persons replay.
    pub replays: Vec<replayed::Replay>,
    /// Whether the source lets go of what is published, and the pipeline has no step.
    pub releases: bool,
    /// Whether the source lets go of what is sealed: its records were sent, and whoever sent them is answered then.
    pub pushes: bool,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

/// Tokens and parts that one insert costs in the view's target, which is partitioned otherwise than the table.
pub const VIEW_TOKENS: u64 = 2;

/// Every so manyth seed keeps most keys of a dedup, and most open windows, in files.
pub const STATE_IN_FILES: u64 = 3;

/// How long a client waits for the answer to an insert at the most, milliseconds.
const ANSWER_MS_MAX: u64 = 30_000;

/// How long an insert may take at the least, milliseconds: tokens are remembered for twice as long.
const INSERT_MS_MIN: u64 = 2_000;

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, 3);
        let r = &mut random;
        let length_us = r.between(3, 40) * 1_000_000;
        let partitions = r.between(1, 3) as u32;
        let partition_added_us = r.percent(15).then(|| r.between(1, length_us));
        let window_ms = r.percent(50).then(|| r.one_of(&[160, 1_600, 16_000, 64_000]));
        let late = r.one_of(&[Late::Keep, Late::Keep, Late::DeadLetter, Late::Drop]);
        let arrivals = arrivals(r, length_us, partitions, partition_added_us);
        let poison = poison(r, length_us, &arrivals);
        let has_poison = !poison.is_empty();
        let token_window = r.one_of(&[8, 16, 16, 40, 100]);
        let mut plan = Self {
            seed,
            partitions,
            partition_added_us,
            arrivals,
            poison,
            window: window_ms.map(Duration::from_millis),
            late,
            is_local: r.percent(50),
            // Without provenance a refused frame in doubt waits for a person, as documented.
            has_provenance: r.percent(90) || has_poison,
            has_view: r.percent(10),
            token_window,
            token_age_ms: None,
            tokens_per_block: 1,
            others_at_once: false,
            has_future: false,
            keeps_positions: true,
            replicas: 1,
            table_partitions: r.one_of(&[1, 1, 1, 2, 3]),
            lane: (seed % 3) as u32,
            tables: vec![0],
            is_routed: false,
            multiplies: false,
            unnests: false,
            aggregates: None,
            joins: None,
            changes: None,
            inputs: 1,
            settings: settings(r, window_ms),
            ends: None,
            moved: None,
            alters: Vec::new(),
            releases: false,
            pushes: false,
            replays: Vec::new(),
            faults: Vec::new(),
        };
        plan.faults = faults(r, length_us, &plan);
        plan.draw_more(length_us);
        plan.draw_servers(length_us);
        plan.draw_sources(length_us);
        plan.draw_tables(length_us);
        plan.draw_inputs();
        if plan.faults.iter().any(|f| matches!(f, Fault::Rollback { .. })) {
            // That a store was rolled back is told by the source; while it is away, nobody knows. An assumption of the protocol
            // (docs/design/protocol.md), and no seed breaks it. What is sealed then waits for the source, so that one which
            // refuses for good would leave it there.
            plan.settings.owner_quiet_min = Duration::from_secs(1 << 30);
            plan.faults.retain(|f| !matches!(f, Fault::Election { records: 1.., .. } | Fault::Expiry { .. }));
        }
        plan.remember_enough();
        plan
    }

    /// Whether a step has most of its state in files.
    pub fn is_in_files(&self) -> bool {
        let is_of_the_seed = self.seed.is_multiple_of(STATE_IN_FILES);
        self.aggregates
            .map_or(is_of_the_seed, |window| window.can_spill() && (window.spills || is_of_the_seed))
    }

    /// The places of tables for rows that are not of the last step.
    pub fn beside(&self) -> impl Iterator<Item = usize> {
        let of_joins = self.joins.map_or([None; 2], |joins| joins.beside);
        let of_windows = self.aggregates.and_then(|window| window.beside);
        of_joins.into_iter().chain([of_windows]).flatten()
    }

    /// Tokens that one frame costs at most.
    pub fn tokens_per_frame(&self) -> u64 {
        self.tokens_per_block * if self.has_view { VIEW_TOKENS } else { 1 }
    }

    /// Tokens that frames of ours may use between the gate of an insert and its rows at the most: those of the window before it and of
    /// the one behind it.
    pub fn own_tokens_max(&self) -> u64 {
        let cost = self.tokens_per_frame();
        2 * cost * trust::frames(self.token_window, cost).min(self.settings.window_frames_max)
    }

    /// How long a client waits for the answer to an insert, and the server works on it where tokens are forgotten by age: shorter than
    /// half of the age, with room for the looks before and after.
    pub fn insert_time_us(&self) -> u64 {
        let age_ms = self.token_age_ms.unwrap_or(u64::MAX);
        let ms_max = trust::insert_time_ms_max(age_ms, self.looks_ms());
        ms_max.clamp(500, ANSWER_MS_MAX) * 1_000
    }

    fn looks_ms(&self) -> u64 {
        (self.settings.facts_every + self.settings.retry_pause_max).as_millis() as u64
    }

    /// As the checks of a table have it, whatever was drawn.
    fn remember_enough(&mut self) {
        let least = trust::tokens_min(self.settings.in_flight_max as u64, self.tokens_per_frame());
        self.token_window = self.token_window.max(least);
        let looks_ms = self.looks_ms();
        self.token_age_ms = self.token_age_ms.map(|ms| ms.max(2 * (looks_ms + INSERT_MS_MIN)));
        self.settings.insert_time_max = Duration::from_micros(self.insert_time_us());
    }

    /// How far ahead of the true time a watermark may be at the most, milliseconds; `None` where wall clocks jump ahead too.
    pub fn watermark_ahead_ms_max(&self) -> Option<i64> {
        let jumps = self.faults.iter().any(|f| matches!(f, Fault::ClockJump { by_ms: 1.., .. }));
        (self.window.is_some() && !jumps).then_some(self.settings.future_ms_max + 1_000)
    }

    /// The same plan with only some of its faults.
    pub fn with_faults(&self, faults: Vec<Fault>) -> Self {
        Self { faults, ..self.clone() }
    }
}

fn settings(r: &mut Random, window_ms: Option<u64>) -> Settings {
    let ms = Duration::from_millis;
    Settings {
        batch_rows_max: r.between(3, 30),
        batch_age_max: ms(r.one_of(&[5, 20, 100, 400])),
        in_flight_max: r.between(1, 4) as usize,
        window_frames_max: r.between(1, 8),
        spool_bytes_max: r.one_of(&[1_500, 4_000, 1 << 20, 1 << 20]),
        spool_age_max: Duration::from_secs(r.one_of(&[10, 3_600, 86_400])),
        body_cache_bytes_max: r.one_of(&[0, 1_000, 1 << 20]),
        settle_age_max: ms(r.one_of(&[20, 200, 1_000])),
        idle_after: ms(r.one_of(&[500, 3_000, 30_000])),
        skew_ms_max: window_ms.filter(|_| r.percent(40)).map(|ms| ms as i64 * 4 + 20_000),
        checkpoint_bytes_min: r.one_of(&[200, 1_000, 1 << 20]),
        checkpoint_records_max: r.one_of(&[5, 12, 40, 1_000]),
        facts_every: ms(r.one_of(&[500, 2_000, 5_000])),
        retry_pause_max: ms(r.one_of(&[100, 1_000, 5_000])),
        ..Settings::default()
    }
}
