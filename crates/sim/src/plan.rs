//! What a seed stands for: the shape of the pipeline, the records, and the faults.
//!
//! Owns the drawing of all three before a run begins, so that a run with some of its faults left out is still the same
//! run otherwise, and a failure can be made smaller. Does not own what a fault does (`drive`, and the part of the world it hits).

pub mod altered;
pub mod inputs;
mod joined;
pub mod moved;
mod released;
pub mod replayed;
mod sources;
mod tables;
mod unnested;

use std::fmt;
use std::time::Duration;

use engine::Settings;
use operators::dedup::Late;
use tokens::trust;

use crate::executor::WALL_BEGIN_MS;
use crate::pairs::Joins;
use crate::random::Random;
use crate::records::Record;
use crate::results::Aggregates;

/// When a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At a simulated time, microseconds.
    At(u64),
    /// Right after so many polls of the engine's tasks: any await point is as likely as any other.
    Poll(u64),
}

/// What becomes of one put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutFault {
    /// Not done, and the writer knows.
    Refused,
    /// Done, the answer is lost.
    LostAfter,
    /// Not done, the answer is lost.
    LostBefore,
    /// Done much later, the answer is lost at once.
    LostLate(u64),
    /// Seen by readers but not durable, the answer is lost. As a lost answer on object storage.
    Unhardened,
    /// Done, after so many milliseconds.
    Slow(u64),
    /// Its process dies in the middle of the bytes, and is started again so many milliseconds later.
    Torn(u64),
}

/// What becomes of one insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertFault {
    /// The server has too many parts: not done, and the client knows.
    Refused,
    /// Done, the answer is lost.
    LostAfter,
    /// Not done, the answer is lost.
    LostBefore,
    /// A copy stays in the network for so many milliseconds; the client's connection is reset at once.
    LateCopy(u64),
    /// The server takes so many milliseconds; the client gives up before, or not.
    Slow(u64),
    /// The server dies before it has done anything, for so many milliseconds.
    CrashBefore(u64),
    /// The server dies between the token's line and the rows.
    CrashAtToken(u64),
    /// The server dies after the rows, before its answer.
    CrashAfter(u64),
    /// The rows are in the table, and the view fails: the client is told so.
    ViewFails,
    /// The rows are in the table; the server dies before the view has them.
    CrashBeforeView(u64),
    /// The same, between the token's line of the view's target and its rows.
    CrashAtViewToken(u64),
    /// Its bytes travel for so many milliseconds, and before the last of them others insert, one by one or as one block.
    OnTheWay {
        /// Milliseconds.
        ms: u64,
        /// Inserts.
        others: u64,
        /// As one block.
        at_once: bool,
    },
    /// A proxy sends the request twice: the second is turned down while the first runs, and its answer is the one that arrives.
    Twice,
}

/// What a person does to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// TRUNCATE, while the pipeline runs: rows and tokens are gone.
    Truncated,
    /// DROP and CREATE, while the pipeline runs: another table of that name, empty.
    Recreated,
    /// Another table with the same rows takes its place while the pipeline stands still and no insert is on its way.
    Exchanged,
}

/// One thing that goes wrong. Times in `_us` are simulated microseconds since the begin, those in `_ms` last as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are when, how long, and which operation by its number")]
pub enum Fault {
    /// The newest process dies, and is started again.
    Kill { when: When, down_ms: u64 },
    /// The newest process is stopped as by SIGSTOP, another takes over, and it wakes.
    Freeze { when: When, for_ms: u64, successor_ms: u64 },
    /// A second process is started beside the first.
    SecondOwner { when: When },
    /// The newest process is asked to stop, and started again.
    Stop { when: When, down_ms: u64 },
    /// Every process dies, and what was not durable may be gone.
    PowerLoss { when: When, down_ms: u64 },
    /// The store is replaced by an older copy of itself.
    Rollback { backup_us: u64, at_us: u64 },
    /// The store answers nothing.
    StoreAway { at_us: u64, for_ms: u64 },
    /// The store takes nothing.
    DiskFull { at_us: u64, for_ms: u64 },
    /// The server dies and comes back.
    ServerCrash { when: When, down_ms: u64 },
    /// The server cannot be reached.
    ServerAway { at_us: u64, for_ms: u64 },
    /// One table takes nothing and says nothing, while the others do.
    TableAway { at_us: u64, place: usize, for_ms: u64 },
    /// Others insert into the same table, one by one or as one block: asynchronous inserts that the server writes together.
    OtherWriters { at_us: u64, inserts: u64, at_once: bool },
    /// A replica falls behind what is in the table.
    ReplicaLags { at_us: u64, node: u64, for_ms: u64 },
    /// From then on fsync fails, until the process has stopped and the disk is another.
    SyncFails { at_us: u64 },
    /// The wall clock of the newest process jumps.
    ClockJump { at_us: u64, by_ms: i64 },
    /// The server's wall clock jumps.
    ServerClockJump { at_us: u64, by_ms: i64 },
    /// The broker answers nothing.
    SourceAway { at_us: u64, for_ms: u64 },
    /// A partition has no leader for a while.
    PartitionLost { at_us: u64, partition: u32, for_ms: u64 },
    /// A partition gets a leader that lacks the newest so many records: later ones take their positions.
    Election { at_us: u64, partition: u32, records: u64 },
    /// A person changes the table.
    Table { at_us: u64, change: Change, down_ms: u64 },
    /// The oldest records of a partition that are still to be read are gone at the broker.
    Expiry { at_us: u64, partition: u32 },
    /// What arrives next in a partition has a flipped bit, until somebody copies it anew.
    Damage { at_us: u64, partition: u32 },
    /// The newest so many records of a partition are gone, and nobody writes to it any more: a file that is cut.
    Cut { at_us: u64, partition: u32, records: u64 },
    /// The newest process dies, and one is started that is to end when it has read what is there.
    Drain { when: When },
    /// One put to the store.
    Put { nth: u64, how: PutFault },
    /// One read, listing or delete fails, or is slow by so many milliseconds.
    Read { nth: u64, slow_ms: Option<u64> },
    /// One insert.
    Insert { nth: u64, how: InsertFault },
    /// One question to the server fails.
    Ask { nth: u64 },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A record, and when the broker has it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Microseconds after the begin.
    pub at_us: u64,
    /// The partition's number.
    pub partition: u32,
    /// The record.
    pub record: Record,
}

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
    /// How many inputs share the partitions.
    pub inputs: u32,
    /// The lane's bounds.
    pub settings: Settings,
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

/// How long a client waits for the answer to an insert at the most, milliseconds.
const ANSWER_MS_MAX: u64 = 30_000;

/// How long an insert may take at the least, milliseconds: tokens are remembered for twice as long.
const INSERT_MS_MIN: u64 = 2_000;

/// Kinds of faults, each of which a seed has or has not.
const KINDS: u64 = 17;

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
            inputs: 1,
            settings: settings(r, window_ms),
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

    /// The plan of the same seed with a window in place of dedup. The server refuses none of its rows: a result is no record.
    pub fn windowed(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        let mut random = Random::new(seed, 10);
        let r = &mut random;
        let (size_ms, lateness_ms) = (r.one_of(&[100, 1_000, 5_000]), r.one_of(&[0, 0, 200, 5_000]));
        plan.aggregates = Some(Aggregates { size_ms, lateness_ms });
        // Its event time is the column's.
        plan.window.get_or_insert(Duration::from_secs(16));
        plan.poison.clear();
        (plan.is_routed, plan.multiplies) = (false, false);
        plan
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

    /// Draws from numbers of its own again: what a server and those around it do beside what is drawn above.
    fn draw_servers(&mut self, length_us: u64) {
        let mut random = Random::new(self.seed, 6);
        let r = &mut random;
        let ops = self.arrivals.len() as u64;
        self.tokens_per_block = if r.percent(20) { 2 } else { 1 };
        self.replicas = if r.percent(20) { r.between(2, 3) } else { 1 };
        // Nothing may be trusted then: seen by itself, it must not hide what others break.
        self.others_at_once = r.percent(10);
        if self.replicas > 1 {
            for fault in &mut self.faults {
                // A keeper takes token and part together.
                if let Fault::Insert { how, .. } = fault {
                    *how = match *how {
                        InsertFault::CrashAtToken(ms) => InsertFault::CrashBefore(ms),
                        InsertFault::CrashAtViewToken(ms) => InsertFault::CrashBeforeView(ms),
                        how => how,
                    };
                }
            }
            for _ in 0..r.between(0, 4) {
                let (at_us, node) = (r.below(length_us), r.below(self.replicas));
                self.faults.push(Fault::ReplicaLags { at_us, node, for_ms: r.one_of(&[500, 5_000, 40_000]) });
            }
        }
        if r.percent(15) {
            for _ in 0..r.between(1, 3) {
                self.faults.push(Fault::Insert { nth: r.below(ops / 2), how: InsertFault::Twice });
            }
        }
        if r.percent(15) {
            // The answer is lost, and others write while the resend travels.
            for _ in 0..r.between(1, 4) {
                let nth = r.below(ops / 2);
                let lost =
                    r.one_of(&[InsertFault::LostAfter, InsertFault::LostAfter, InsertFault::LostBefore]);
                let (ms, others) = (r.one_of(&[1, 300, 5_000]), r.between(1, self.token_window * 2));
                let at_once = self.others_at_once && r.percent(70);
                self.faults.push(Fault::Insert { nth, how: lost });
                let how = InsertFault::OnTheWay { ms, others, at_once };
                (1..=r.between(1, 3)).for_each(|n| self.faults.push(Fault::Insert { nth: nth + n, how }));
            }
        }
        if self.others_at_once {
            for _ in 0..r.between(1, 3) {
                let inserts = r.between(1, self.token_window * 2);
                self.faults.push(Fault::OtherWriters { at_us: r.below(length_us), inserts, at_once: true });
            }
        }
        if r.percent(6) {
            // What is sealed waits for the server when the process dies, and the source refuses the next one.
            let (at_us, partition) = (r.below(length_us), r.below(u64::from(self.partitions)) as u32);
            let down_ms = r.one_of(&[1, 1_000]);
            self.faults.push(Fault::ServerAway { at_us, for_ms: r.one_of(&[500, 20_000]) });
            self.faults.push(Fault::Expiry { at_us: at_us + r.below(2_000_000), partition });
            self.faults.push(Fault::Kill { when: When::At(at_us + r.below(2_000_000)), down_ms });
        }
        self.draw_times(r);
        if self.is_local && r.percent(10) {
            self.faults.push(Fault::SyncFails { at_us: r.below(length_us) });
        }
    }

    /// Draws from numbers of its own, so that a kind of fault can be added and the seeds are the same in everything else.
    fn draw_more(&mut self, length_us: u64) {
        let mut random = Random::new(self.seed, 5);
        let r = &mut random;
        self.token_age_ms = r.percent(25).then(|| r.one_of(&[4_000, 20_000, 120_000]));
        self.settings.drain_time_max = Duration::from_millis(r.one_of(&[30_000, 30_000, 2_000, 50]));
        if self.token_age_ms.is_some() {
            // The ages of tokens and of what was seen of the server go by the same clock, which must not go back.
            self.faults.retain(|f| !matches!(f, Fault::ServerClockJump { by_ms, .. } if *by_ms < 0));
        }
        let ops = self.arrivals.len() as u64;
        let has = |r: &mut Random| r.percent(15);
        if has(r) {
            for _ in 0..r.between(1, 3) {
                let partition = r.below(u64::from(self.partitions)) as u32;
                let records = if r.percent(30) { 0 } else { r.between(1, 12) };
                self.faults.push(Fault::Election { at_us: r.below(length_us), partition, records });
            }
        }
        if has(r) {
            let changes = [Change::Truncated, Change::Recreated, Change::Exchanged, Change::Exchanged];
            let down_ms = r.one_of(&[1, 1_000, 8_000]);
            // A view's target keeps rows and tokens that a TRUNCATE takes from the table.
            let change = r.one_of(&changes[usize::from(self.has_view)..]);
            self.faults.push(Fault::Table { at_us: r.below(length_us), change, down_ms });
        }
        if has(r) {
            for _ in 0..r.between(1, 2) {
                let at_us = r.below(length_us);
                let when = if r.percent(50) { When::At(at_us) } else { When::Poll(r.below(ops * 40)) };
                self.faults.push(Fault::Drain { when });
            }
        }
        if has(r) {
            for _ in 0..r.between(1, 3) {
                let how = PutFault::Torn(r.one_of(&[1, 50, 1_000]));
                self.faults.push(Fault::Put { nth: r.below(ops), how });
            }
        }
        if self.has_view {
            for _ in 0..r.between(1, 6) {
                let down_ms = r.one_of(&[10, 1_000, 8_000]);
                let how = match r.below(4) {
                    0 | 1 => InsertFault::ViewFails,
                    2 => InsertFault::CrashBeforeView(down_ms),
                    _ => InsertFault::CrashAtViewToken(down_ms),
                };
                self.faults.push(Fault::Insert { nth: r.below(ops / 2), how });
            }
        }
    }

    /// Record times that are far ahead, and a partition that yields nothing but rejects.
    fn draw_times(&mut self, r: &mut Random) {
        let Some(window_ms) = self.window.map(|window| window.as_millis() as i64) else { return };
        // As the pipeline file has it: within a quarter of a window nothing is freed.
        self.settings.future_ms_max = self.settings.future_ms_max.min(window_ms / 4);
        if r.percent(25) {
            self.has_future = true;
            for arrival in &mut self.arrivals {
                if !r.percent(4) {
                    continue;
                }
                arrival.record.time_ms += r.one_of(&[window_ms / 2, window_ms * 3, 3_600_000, 86_400_000]);
            }
        }
        if self.partitions > 1 && r.percent(10) {
            let rejects = self.arrivals.iter_mut().filter(|arrival| arrival.partition == 0);
            rejects.for_each(|arrival| arrival.record.is_good = false);
        }
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

fn arrivals(r: &mut Random, length_us: u64, partitions: u32, added_us: Option<u64>) -> Vec<Arrival> {
    let records = r.between(40, 240);
    let keys = r.between(20, 400);
    let mut next = vec![0_u64; partitions as usize + 1];
    let mut times: Vec<u64> = (0..records).map(|_| r.below(length_us)).collect();
    // Bursts: some records come together.
    for n in 1..times.len() {
        if r.percent(70) {
            times[n] = times[n - 1] + r.below(3_000);
        }
    }
    times.sort_unstable();
    let mut all: Vec<Arrival> = Vec::new();
    for (n, at_us) in times.into_iter().enumerate() {
        let with_added = u64::from(partitions) + u64::from(added_us.is_some_and(|added| at_us > added));
        let partition = r.below(with_added) as u32;
        let position = &mut next[partition as usize];
        // Gaps, as compaction and transactions leave them.
        if r.percent(3) {
            *position += r.between(1, 20);
        }
        let behind_ms = if r.percent(5) { r.below(90_000) } else { r.below(200) };
        let copy = (!all.is_empty() && r.percent(20)).then(|| {
            let near = all.len().saturating_sub(10) as u64;
            let from =
                if r.percent(50) { r.between(near, all.len() as u64 - 1) } else { r.below(all.len() as u64) };
            all[from as usize].record
        });
        let record = Record {
            position: *position,
            id: n as u64 + 1,
            key: copy.map_or_else(|| r.below(keys), |c| c.key),
            time_ms: match copy {
                Some(copy) if r.percent(60) => copy.time_ms,
                _ => WALL_BEGIN_MS + (at_us / 1_000) as i64 - behind_ms as i64,
            },
            is_good: !r.percent(3),
        };
        *position += 1;
        all.push(Arrival { at_us, partition, record });
    }
    all
}

fn poison(r: &mut Random, length_us: u64, arrivals: &[Arrival]) -> Vec<(u64, u64)> {
    if !r.percent(25) {
        return Vec::new();
    }
    let from_us = if r.percent(50) { 0 } else { r.below(length_us) };
    (0..r.between(1, 5))
        .map(|_| (arrivals[r.below(arrivals.len() as u64) as usize].record.id, from_us))
        .collect()
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

fn faults(r: &mut Random, length_us: u64, plan: &Plan) -> Vec<Fault> {
    // Swarm: a seed has few kinds of faults, so that each is also seen without the others.
    let has: u64 = if r.percent(10) { 0 } else { r.word() & r.word() };
    let mut all = Vec::new();
    let ops = plan.arrivals.len() as u64;
    for kind in (0..KINDS).filter(|kind| has & (1 << kind) != 0) {
        let times = r.between(1, 4);
        for _ in 0..times {
            let at_us = r.below(length_us);
            let when = if r.percent(30) { When::At(at_us) } else { When::Poll(r.below(ops * 40)) };
            let down_ms = r.one_of(&[1, 50, 1_000, 8_000]);
            let for_ms = r.one_of(&[20, 500, 3_000, 20_000]);
            let fault = match kind {
                0 | 1 => Fault::Kill { when, down_ms },
                2 => {
                    let for_ms = r.one_of(&[300, 5_000, 60_000, 60_000, 900_000, 4 * 3_600_000]);
                    Fault::Freeze { when, for_ms, successor_ms: r.one_of(&[10, 200, 4_000]) }
                }
                3 => Fault::SecondOwner { when },
                4 => Fault::Stop { when, down_ms },
                5 => Fault::PowerLoss { when, down_ms },
                6 => Fault::Rollback { backup_us: r.below(at_us.max(1)), at_us },
                7 => Fault::StoreAway { at_us, for_ms },
                8 => Fault::DiskFull { at_us, for_ms },
                9 => Fault::ServerCrash { when, down_ms },
                10 => Fault::ServerAway { at_us, for_ms },
                11 => Fault::OtherWriters {
                    at_us,
                    inserts: r.between(1, plan.token_window * 2),
                    at_once: false,
                },
                12 if r.percent(50) => {
                    Fault::ClockJump { at_us, by_ms: r.one_of(&[-3_600_000, -5_000, -3, 5_000, 86_400_000]) }
                }
                12 => {
                    Fault::ServerClockJump { at_us, by_ms: r.one_of(&[-600_000, -3_000, -1, 3_000, 600_000]) }
                }
                13 if r.percent(50) => Fault::SourceAway { at_us, for_ms },
                13 => Fault::PartitionLost {
                    at_us,
                    partition: r.below(u64::from(plan.partitions)) as u32,
                    for_ms,
                },
                14 => Fault::Put { nth: r.below(ops), how: put_fault(r) },
                15 => Fault::Insert { nth: r.below(ops / 2), how: insert_fault(r) },
                _ if r.percent(50) => {
                    Fault::Read { nth: r.below(ops * 3), slow_ms: r.percent(50).then_some(for_ms) }
                }
                _ => Fault::Ask { nth: r.below(ops / 3) },
            };
            all.push(fault);
        }
    }
    // Inserts go wrong most often where it matters: in every second seed.
    if r.percent(50) {
        for _ in 0..r.between(1, 6) {
            all.push(Fault::Insert { nth: r.below(ops / 2), how: insert_fault(r) });
        }
    }
    all
}

fn put_fault(r: &mut Random) -> PutFault {
    match r.below(6) {
        0 => PutFault::Refused,
        1 => PutFault::LostAfter,
        2 => PutFault::LostBefore,
        3 => PutFault::LostLate(r.one_of(&[5, 300, 5_000, 120_000])),
        4 => PutFault::Unhardened,
        _ => PutFault::Slow(r.one_of(&[20, 2_000, 30_000])),
    }
}

fn insert_fault(r: &mut Random) -> InsertFault {
    let down_ms = r.one_of(&[10, 1_000, 8_000]);
    match r.below(8) {
        0 => InsertFault::Refused,
        1 => InsertFault::LostAfter,
        2 => InsertFault::LostBefore,
        3 => InsertFault::LateCopy(r.one_of(&[5, 200, 3_000, 25_000])),
        4 => InsertFault::Slow(r.one_of(&[200, 5_000, 45_000, 90_000])),
        5 => InsertFault::CrashBefore(down_ms),
        6 => InsertFault::CrashAtToken(down_ms),
        _ => InsertFault::CrashAfter(down_ms),
    }
}
