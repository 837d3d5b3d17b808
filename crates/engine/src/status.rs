//! What a running lane reports to users and programs.
//!
//! Owns the shared snapshot (for `/status`, progress and readiness) and the names of the metrics. Updated once a block or
//! a seal, never once a record. Does not own how it is shown.
//!
//! | metric                                   | labels            | meaning                                           |
//! |------------------------------------------|-------------------|---------------------------------------------------|
//! | `forebay_records_read_total`             |                   | records handed out by the source                  |
//! | `forebay_records_replayed_total`         |                   | records of dead letters that were read again      |
//! | `forebay_bytes_read_total`               |                   | bytes of their bodies                             |
//! | `forebay_records_duplicate_total`        |                   | dropped as known duplicates                       |
//! | `forebay_records_filtered_total`         |                   | dropped by a rule                                 |
//! | `forebay_records_late_total`             |                   | dropped as too late                               |
//! | `forebay_records_late_kept_total`        |                   | written though too late to be told from a duplicate; a part of what is written |
//! | `forebay_dead_letters_total`             | `reason`          | put into the dead letters                         |
//! | `forebay_refused_duplicates_total`           |                   | dropped as duplicates of rows that were refused later |
//! | `forebay_rows_sealed_total`              | `table`           | rows made durable for a table                     |
//! | `forebay_rows_replaced_total`            | `table`           | rows not sent, because a later row of their batch has the same key |
//! | `forebay_bytes_sealed_total`             |                   | bytes of segments written                         |
//! | `forebay_rows_settled_total`             | `table`           | rows positively in the table                      |
//! | `forebay_seal_seconds`                   |                   | encode done to seal durable                       |
//! | `forebay_insert_seconds`                 | `table`           | one insert, sent to answered                      |
//! | `forebay_end_to_end_seconds`             |                   | record time to visible in the table (samples)     |
//! | `forebay_insert_retries_total`           | `table`, `kind`   | inserts without a positive answer                 |
//! | `forebay_watermark_lag_seconds`          |                   | wall clock minus the watermark of the newest seal |
//! | `forebay_backpressure_seconds`           |                   | time without reading because what is behind has no room; it only rises |
//! | `forebay_stage_cpu_seconds`              | `stage`           | CPU spent so far (see [`crate::stage`]); it only rises |
//! | `forebay_problem`                        | `place`, `state`  | what is waited for (see [`crate::problem`])       |
//! | `forebay_lane_reopened_total`            | `table`           | times that the lane was opened again (see [`crate::reopened`]) |
//! | `forebay_token_memory_seconds`           | `table`           | how long the table remembers a token at the present rate |
//! | `forebay_token_needed_seconds`           | `table`           | how long a doubt may count on it: half of the memory must be longer |
//! | `forebay_doubts_total`                   | `table`, `decision` | decisions on frames in doubt                    |
//! | `forebay_partition_lag_records`          | `partition`       | end minus sealed position, or what the source counts |
//! | `forebay_records_expired_total`          | `partition`       | at most so many records of a partition found late were gone by then |
//! | `forebay_spool_bytes`, `forebay_spool_frames` |              | sealed and not settled                            |
//! | `forebay_state_keys`, `forebay_state_bytes` | `step`         | state: all entries, bytes of memory               |
//! | `forebay_state_held_records`             | `step`            | records that a state has absorbed and not released |
//! | `forebay_records_absorbed_total`, `forebay_records_released_total` | | into states, and out of them with a result   |
//! | `forebay_records_unmatched_total`        |                   | of those released, the ones that a join never matched |
//! | `forebay_state_keys_spilled`, `forebay_state_file_bytes` | `step` | keys that lie in files, and the files' bytes  |
//! | `forebay_state_works_total`              |                   | closings and mergers finished                     |
//! | `forebay_state_bytes_written_total`      |                   | bytes of files written by them                    |
//! | `forebay_accounts_records`               | `input`, `what`   | what became of all sealed records of an input since genesis: `read` is the sum of the others |
//! | `forebay_accounts_rows`                  | `table`, `what`   | what became of all rows of a table since genesis: `sealed` is the sum of the others but `replaced`, which were never sent |
//! | `forebay_accounts_add_up`                |                   | 1 while it is                                     |
//! | `forebay_accounts_mismatches_total`      |                   | seals, settled frames and ends of runs whose rows do not add up: each ends the run |
//! | `forebay_checkpoints_total`              |                   | checkpoints written                               |
//! | `forebay_objects_retired_total`          |                   | objects of the store deleted                      |
//! | `forebay_store_objects`, `forebay_store_bytes` | `kind`, `standing` | what the last sweep of the store left        |
//! | `forebay_store_requests_total`           | `kind`, `outcome` | requests to the store (see [`crate::measured`])   |
//! | `forebay_store_bytes_total`              | `kind`            | bytes put and got                                 |
//! | `forebay_store_request_seconds`          | `kind`            | one request to the store                          |

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use dataflow::position::{self, Position};
use dataflow::{Budget, Effect, SourceError, TableFault};
use protocol::record::Counts;

use crate::problem::{self, Noticed, Problem, STORE, State};
use crate::survey::Survey;
use crate::totals::Totals;
use crate::turns::Turns;

/// What the lane is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Claiming, restoring, checking.
    Starting,
    /// Reading.
    Running,
    /// Not reading because too much is undelivered.
    Paused,
    /// Finishing what was read.
    Draining,
    /// Done.
    Stopped,
}

impl Phase {
    /// The word in status and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
        }
    }
}

/// How far a partition was read and sealed, and where it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionStatus {
    /// Next position to read.
    pub next: Position,
    /// Next position after the newest seal.
    pub sealed: Position,
    /// Position after the newest record in the source, as last asked.
    pub end: Option<Position>,
    /// What stood behind the newest seal when it was last asked for, as [`dataflow::Source::behind`] counts it; `None` where positions say it.
    pub behind: Option<u64>,
    /// Records at most that retention took before the partition was found; they are not read.
    pub expired: u64,
}

/// What was sealed for a table, and what of it was settled or refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableStatus {
    /// Frames sealed.
    pub frames_sealed: u64,
    /// Frames settled.
    pub frames_settled: u64,
    /// Rows sealed since the start of this run, and those that were sealed and not settled then. A lane that is opened again goes on with its run.
    pub rows_sealed: u64,
    /// Rows settled since the start of this run.
    pub rows_settled: u64,
    /// Sealed rows that the server has refused since the start of this run; they are dead letters.
    pub rows_refused: u64,
    /// Frames that may be sent before the next frontier is recorded.
    pub window: u64,
    /// How long the table remembers tokens; `None` before the first poll.
    pub tokens: Option<Budget>,
    /// How often the lane was opened again for the table.
    pub turns: Turns,
}

/// What the store was asked for, of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreUse {
    /// Requests, whatever came of them.
    pub requests: u64,
    /// Those without a good answer.
    pub errors: u64,
    /// Bytes of objects that were put or got.
    pub bytes: u64,
}

/// The lane at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What it is doing.
    pub phase: Phase,
    /// What all sealed records of each input became, since its genesis.
    pub inputs: BTreeMap<String, Counts>,
    /// Partitions by name (`stream/index`, with several inputs `input:stream/index`).
    pub partitions: BTreeMap<String, PartitionStatus>,
    /// Tables by name.
    pub tables: BTreeMap<String, TableStatus>,
    /// What all sealed records became, since genesis.
    pub sealed: Totals,
    /// What all sealed records had become when this process took the lane over: the difference from `sealed` is this run.
    pub sealed_at_start: Totals,
    /// What was read and not sealed yet.
    pub unsealed: Totals,
    /// Records that this process has read from its source. Replayed records are not among them.
    pub read: u64,
    /// Records of dead letters that this process has read again.
    pub replayed: u64,
    /// Where the replay log begins that this pipeline reads: positions below it count records that an earlier pipeline of the name has replayed, and
    /// the partition's positions go on from there.
    pub replays_from: u64,
    /// Dead letters by reason, since the start of this process.
    pub dead_letters: BTreeMap<&'static str, u64>,
    /// Sealed and not settled bytes.
    pub spool_bytes: u64,
    /// Keys held by all steps.
    pub state_keys: u64,
    /// How many of them are in files.
    pub state_keys_spilled: u64,
    /// Bytes of memory held by all steps.
    pub state_bytes: u64,
    /// Bytes of the files in use.
    pub state_file_bytes: u64,
    /// Low watermark, Unix milliseconds.
    pub watermark_ms: i64,
    /// What is waited for, by place: the name of a table or an input ([`problem::SOURCE`] for the only one of the short form), or [`problem::STORE`].
    pub problems: BTreeMap<String, Problem>,
    /// What was left in the store by the last sweep; `None` before the first.
    pub store: Option<Survey>,
    /// Requests to the store by kind (`put`, `get`, `list`, `delete`, `harden`), since the start of this process.
    pub store_requests: BTreeMap<&'static str, StoreUse>,
    /// CPU spent by the stages that compute, by their words, since the start of this process.
    pub cpu: BTreeMap<&'static str, Duration>,
}

/// A problem that comes and goes is logged again after so long: each of a frame's refused rows is one that ends with the next row.
const LOGGED_AGAIN_MS: i64 = 60_000;

/// A snapshot that the lane's tasks keep up to date.
#[derive(Debug)]
pub struct Status(Mutex<Snapshot>, Mutex<LoggedByPlace>);

/// When which problem was logged last, and whether its end is still to be logged, by place and state: a few of each.
type LoggedByPlace = BTreeMap<(String, &'static str), (i64, bool)>;

impl Default for Status {
    fn default() -> Self {
        let snapshot = Snapshot {
            phase: Phase::Starting,
            inputs: BTreeMap::new(),
            partitions: BTreeMap::new(),
            tables: BTreeMap::new(),
            sealed: Totals::default(),
            sealed_at_start: Totals::default(),
            unsealed: Totals::default(),
            read: 0,
            replayed: 0,
            replays_from: 0,
            dead_letters: BTreeMap::new(),
            spool_bytes: 0,
            state_keys: 0,
            state_keys_spilled: 0,
            state_bytes: 0,
            state_file_bytes: 0,
            watermark_ms: i64::MIN,
            problems: BTreeMap::new(),
            store: None,
            store_requests: BTreeMap::new(),
            cpu: BTreeMap::new(),
        };
        Self(Mutex::new(snapshot), Mutex::default())
    }
}

impl Status {
    /// A copy of what is known now.
    pub fn snapshot(&self) -> Snapshot {
        self.lock().clone()
    }

    /// Changes the snapshot; `change` must be short and must not wait.
    pub fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        change(&mut self.lock());
    }

    /// Something at `place` is waited for: `words` say why, `now_ms` is the wall clock. Logged when it begins, once a minute. (A store that loses
    /// one answer in a hundred would fill the log; those who ask it say what they wait for.)
    pub fn met(&self, place: &str, state: State, words: &str, effect: Effect, noticed: Noticed, now_ms: i64) {
        let state = state.behind(words);
        let (now, begun) = {
            let mut snapshot = self.lock();
            let before = snapshot.problems.remove(place);
            let was = before.as_ref().map(|problem| problem.state);
            let (now, begun) = problem::met(before, state, words, effect, noticed, now_ms);
            snapshot.problems.insert(place.to_owned(), now.clone());
            if begun {
                // Under the lock: who has seen it in a snapshot finds it in the metric.
                was.inspect(|was| problem::tell(place, *was, false));
                problem::tell(place, state, true);
            }
            (now, begun)
        };
        if !begun {
            return;
        }
        if place != STORE && self.should_log(place, state, now_ms) {
            let (effect, remedy) = (problem::effect_word(now.effect), state.remedy());
            tracing::warn!(place, state = state.word(), effect, remedy, "waiting: {}", now.words);
        }
    }

    /// As [`Status::met`], for a question about a table that has no answer; `effect` is that of the insert for which it was asked.
    pub fn unanswered(&self, table: &str, fault: TableFault, words: &str, effect: Effect, now_ms: i64) {
        if let Some(state) = State::of_table(fault) {
            self.met(table, state, words, effect, Noticed::Asking, now_ms);
        }
    }

    fn should_log(&self, place: &str, state: State, now_ms: i64) -> bool {
        let mut logged = self.logged();
        let last = logged.get(&(place.to_owned(), state.word())).copied();
        // A clock that went back logs again.
        let is_due =
            last.is_none_or(|(last, _)| !(0..LOGGED_AGAIN_MS).contains(&now_ms.saturating_sub(last)));
        if is_due {
            logged.insert((place.to_owned(), state.word()), (now_ms, true));
        }
        is_due
    }

    /// The end of a problem is logged once for each logged beginning.
    fn should_log_end(&self, place: &str, state: State) -> bool {
        self.logged()
            .get_mut(&(place.to_owned(), state.word()))
            .is_some_and(|(_, is_open)| std::mem::take(is_open))
    }

    fn logged(&self) -> MutexGuard<'_, LoggedByPlace> {
        // A panic while the lock was held costs at most a line.
        self.1.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// An input gives no records at the moment, because of what `error` says. One that refuses is no longer waited for, so that stays what is told of it.
    pub fn source_away(&self, input: &str, error: &SourceError, now_ms: i64) {
        let state = State::of_source(error.fault);
        if !self.refuses(input) {
            self.met(input, state, &error.message, Effect::None, Noticed::Asking, now_ms);
        }
    }

    /// The source of an input answers again. Only a record shows that a lookup's other side does too.
    pub fn source_is_back(&self, input: &str) {
        let state = self.lock().problems.get(input).map(|problem| problem.state);
        if matches!(state, Some(State::SourceAway | State::OwnLimit)) {
            self.ended(input, Noticed::Asking);
        }
    }

    fn refuses(&self, input: &str) -> bool {
        let is_refusal =
            |problem: &Problem| matches!(problem.state, State::InputRefuses | State::SourceRefuses);
        self.lock().problems.get(input).is_some_and(is_refusal)
    }

    /// How often the source of an input was met away since it last answered; `None` while it is not.
    pub fn source_away_times(&self, input: &str) -> Option<u64> {
        let snapshot = self.lock();
        snapshot
            .problems
            .get(input)
            .filter(|problem| matches!(problem.state, State::SourceAway | State::OwnLimit))
            .map(|problem| problem.times)
    }

    /// The source of an input refuses. Where `others` are read, they go on; otherwise the process ends once all that is sealed is in the
    /// table.
    pub fn source_refuses(&self, input: &str, others: bool, words: &str, now_ms: i64) {
        let state = if others { State::InputRefuses } else { State::SourceRefuses };
        self.met(input, state, words, Effect::None, Noticed::Asking, now_ms);
    }

    /// All is well at `place`, as far as those can tell who ask; one who inserts can tell all.
    pub fn ended(&self, place: &str, by: Noticed) {
        let ended = {
            let mut snapshot = self.lock();
            let is_over = |p: &Problem| by == Noticed::Inserting || p.noticed == by;
            let ended = if snapshot.problems.get(place).is_some_and(is_over) {
                snapshot.problems.remove(place)
            } else {
                None
            };
            // Under the lock, as its beginning.
            ended.as_ref().inspect(|ended| problem::tell(place, ended.state, false));
            ended
        };
        if let Some(ended) = ended
            && place != STORE
            && self.should_log_end(place, ended.state)
        {
            tracing::info!(place, state = ended.state.word(), times = ended.times, "no longer waiting");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        // A panic while the lock was held leaves numbers that are at worst one update old.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl TableStatus {
    /// Sealed rows of which it is not known yet what becomes of them.
    pub fn rows_in_flight(&self) -> u64 {
        self.rows_sealed.saturating_sub(self.rows_settled.saturating_add(self.rows_refused))
    }
}

impl PartitionStatus {
    /// Records between `sealed` and the end, those that are no more among them: as a consumer group's lag counts from what is committed. Where positions
    /// cannot be counted, what the source counts. `None` while the end is not known.
    pub fn lag(&self) -> Option<u64> {
        position::between(self.sealed, self.end?).or(self.behind)
    }
}

impl Snapshot {
    /// Records that the source holds and that are not sealed yet; `None` while the ends are not known.
    pub fn lag(&self) -> Option<u64> {
        self.partitions.values().map(PartitionStatus::lag).sum()
    }
}

#[cfg(test)]
mod tests;
