//! What a seed stands for: the shape of the pipeline, the records, and the faults.
//!
//! Owns the drawing of all three before a run begins, so that a run with some of its faults left out is still the same
//! run otherwise, and a failure can be made smaller. Does not own what a fault does (`drive`, and the part of the world it hits).

use std::fmt;
use std::time::Duration;

use engine::Settings;
use operators::dedup::Late;

use crate::executor::WALL_BEGIN_MS;
use crate::random::Random;
use crate::records::Record;

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
    /// Others insert into the same table.
    OtherWriters { at_us: u64, inserts: u64 },
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
    /// Table partitions that rows spread over.
    pub table_partitions: u64,
    /// The lane's bounds.
    pub settings: Settings,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

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
            table_partitions: r.one_of(&[1, 1, 1, 2, 3]),
            settings: settings(r, window_ms),
            faults: Vec::new(),
        };
        plan.faults = faults(r, length_us, &plan);
        plan.draw_more(length_us);
        if plan.faults.iter().any(|f| matches!(f, Fault::Rollback { .. })) {
            // That a store was rolled back is told by the source; while it is away, nobody knows. An assumption of the protocol
            // (docs/design/protocol.md), and no seed breaks it.
            plan.settings.owner_quiet_min = Duration::from_secs(1 << 30);
        }
        plan
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
                11 => Fault::OtherWriters { at_us, inserts: r.between(1, plan.token_window * 2) },
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
