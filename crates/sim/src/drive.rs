//! One run from begin to end: records arrive, faults strike, processes die and are started again.
//!
//! Owns the order of events, the supervisor that keeps a process running, and the bound within which all must be settled once faults have
//! ceased. Does not own what a process runs (`pipeline`), what a fault does (`strikes`, and to a single operation `objects` and `table`), when
//! a person comes (`persons`), nor which end of a process is right (`ends`).

mod ends;
mod persons;
mod pipeline;
mod strikes;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex};

use engine::{EngineError, Outcome, Pipeline, Status};
use tokio::sync::watch;

use crate::executor::{Pid, WORLD, lock};
use crate::objects::Backup;
use crate::plan::{Fault, Plan, When};
use crate::variant::Variant;
use crate::world::{Violation, World};
use pipeline::pipeline;

/// Simulated time within which all is settled after the last fault: several times the longest pause of anything.
const SETTLE_US_MAX: u64 = 20 * 60 * 1_000_000;

/// Polls of a whole run at the most: a run takes some ten thousand, and one that does not end is a violation too.
const POLLS_MAX: u64 = 6_000_000;

/// Simulated time of a whole run at the most: a run takes minutes, and a sleeper some hours.
const TIME_US_MAX: u64 = 72 * 3_600 * 1_000_000;

/// Within so long a process must have stopped whose store cannot sync any more, microseconds.
const STOP_US_MAX: u64 = 3 * 60 * 1_000_000;

/// How often it is looked whether all is settled, microseconds.
const LOOK_US: u64 = 500_000;

/// Starts of a process at the most.
const STARTS_MAX: u32 = 400;

/// How a run went.
#[derive(Clone, Debug)]
pub struct Report {
    /// The first rule that was broken, if one was.
    pub violation: Option<Violation>,
    /// Stands for everything that happened, in its order.
    pub hash: u64,
    /// Polls of all tasks.
    pub polls: u64,
    /// Simulated microseconds.
    pub time_us: u64,
    /// Journal records.
    pub records: u64,
    /// Positions that a person has moved back over.
    pub read_again: u64,
    /// Seals that have closed what was open because every input had ended.
    pub closings: u64,
    /// Processes that were started.
    pub starts: u32,
    /// True if the run ended with a stop that the model expects.
    pub is_stopped: bool,
    /// The last events, if they were asked for.
    pub trace: Vec<String>,
}

type Ended = Arc<Mutex<BTreeMap<Pid, Result<Outcome, EngineError>>>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Running,
    Frozen,
}

struct Process {
    life: Life,
    stop: watch::Sender<bool>,
    status: Arc<Status>,
    /// Store errors before it was started.
    store_errors: u64,
    is_asked: bool,
    /// Where the broker's partitions ended when it was started, if it is to end there.
    drains: Option<Vec<u64>>,
    /// Partitions that were cut before it was started.
    cuts: u64,
    /// How many times something damaged was copied anew before.
    copies: u64,
}

#[derive(Clone, Debug)]
enum Act {
    Record(usize),
    AddPartition,
    End(usize),
    /// Somebody runs the pipeline again that has come to its end.
    Again,
    Strike(Fault),
    Start,
    Thaw(Pid),
    Ask,
    Move,
    Replay(usize),
    Alter(bool),
    TakeBackup(usize),
    Wake,
    Look,
}

struct Drive {
    world: Arc<World>,
    variant: Option<Variant>,
    acts: BinaryHeap<Reverse<(u64, u64)>>,
    by_number: BTreeMap<u64, Act>,
    acts_made: u64,
    polls: Vec<(u64, Fault)>,
    processes: BTreeMap<Pid, Process>,
    ended: Ended,
    starts: u32,
    backups: BTreeMap<usize, (Backup, Vec<(usize, u64)>)>,
    rolled_back_since: Option<u64>,
    /// Set while a person is at work; turns true when all is answered.
    person: Option<Arc<Mutex<bool>>>,
    /// Set while a person moves the pipeline; turns true when that is done.
    mover: Option<Arc<Mutex<bool>>>,
    /// When a lane stopped last that asks a person.
    doubt_us: u64,
    /// How many times a person came to answer.
    answers: u64,
    /// Since when the source of one of several inputs refuses, as the status of the newest process says.
    refused_us: Option<u64>,
    /// Acts that must have happened before the run is over.
    open_acts: u64,
    calm_since: Option<u64>,
    last: Option<Pid>,
    /// Runs that have come to their end, one after the other, and had nothing to read.
    idle_runs: u32,
    is_done: bool,
    is_stopped: bool,
}

/// Runs a plan to its end, with the engine or one that `variant` has broken, and says what the oracle found.
pub fn run(plan: &Plan, variant: Option<Variant>, with_trace: bool) -> Report {
    let world = World::new(plan.clone(), with_trace);
    let mut drive = Drive {
        world: world.clone(),
        variant,
        acts: BinaryHeap::new(),
        by_number: BTreeMap::new(),
        acts_made: 0,
        polls: Vec::new(),
        processes: BTreeMap::new(),
        ended: Ended::default(),
        starts: 0,
        backups: BTreeMap::new(),
        rolled_back_since: None,
        person: None,
        mover: None,
        doubt_us: 0,
        answers: 0,
        refused_us: None,
        open_acts: 0,
        calm_since: None,
        last: None,
        idle_runs: 0,
        is_done: false,
        is_stopped: false,
    };
    drive.schedule();
    let driven = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drive.run_out()));
    if driven.is_err() {
        drive.violate("panic", "the engine panicked; its message is on standard error".into());
    }
    let pids: Vec<Pid> = (1..=drive.starts).collect();
    pids.into_iter().for_each(|pid| world.executor.kill(pid));
    world.executor.kill(WORLD);
    let state = world.state();
    Report {
        violation: state.violation.clone(),
        hash: world.executor.hash(),
        polls: world.executor.polls(),
        time_us: world.executor.now_us(),
        records: state.oracle.records(),
        read_again: state.oracle.read_again,
        closings: state.oracle.closings(),
        starts: drive.starts,
        is_stopped: drive.is_stopped,
        trace: state.trace(),
    }
}

impl Drive {
    fn at(&mut self, us: u64, act: Act) {
        if !matches!(act, Act::Look | Act::Wake | Act::Again) {
            self.open_acts += 1;
        }
        self.acts_made += 1;
        self.acts.push(Reverse((us, self.acts_made)));
        self.by_number.insert(self.acts_made, act);
    }

    fn after_ms(&mut self, ms: u64, act: Act) {
        self.at(self.world.executor.now_us() + ms * 1_000, act);
    }

    fn schedule(&mut self) {
        let world = self.world.clone();
        let plan = &world.plan;
        for (n, arrival) in plan.arrivals.iter().enumerate() {
            self.at(arrival.at_us, Act::Record(n));
        }
        if let Some(us) = plan.partition_added_us {
            self.at(us, Act::AddPartition);
        }
        for (n, us) in plan.ends.iter().flat_map(|ends| ends.times()) {
            self.at(us, Act::End(n));
        }
        if let Some(moved) = plan.moved {
            self.at(moved.at_us, Act::Move);
        }
        for alter in &plan.alters {
            self.at(alter.at_us, Act::Alter(alter.is_drop));
        }
        for (n, replay) in plan.replays.iter().enumerate() {
            self.at(replay.at_us, Act::Replay(n));
        }
        for (n, fault) in plan.faults.iter().enumerate() {
            let when = match *fault {
                Fault::Kill { when, .. }
                | Fault::Freeze { when, .. }
                | Fault::SecondOwner { when }
                | Fault::Stop { when, .. }
                | Fault::PowerLoss { when, .. }
                | Fault::Drain { when }
                | Fault::ServerCrash { when, .. } => when,
                Fault::Rollback { backup_us, at_us } => {
                    self.at(backup_us, Act::TakeBackup(n));
                    When::At(at_us)
                }
                Fault::StoreAway { at_us, .. }
                | Fault::DiskFull { at_us, .. }
                | Fault::ServerAway { at_us, .. }
                | Fault::TableAway { at_us, .. }
                | Fault::OtherWriters { at_us, .. }
                | Fault::Narrowed { at_us }
                | Fault::ReplicaLags { at_us, .. }
                | Fault::Expiry { at_us, .. }
                | Fault::Damage { at_us, .. }
                | Fault::Cut { at_us, .. }
                | Fault::SyncFails { at_us }
                | Fault::ClockJump { at_us, .. }
                | Fault::ServerClockJump { at_us, .. }
                | Fault::SourceAway { at_us, .. }
                | Fault::Election { at_us, .. }
                | Fault::Table { at_us, .. }
                | Fault::PartitionLost { at_us, .. } => When::At(at_us),
                Fault::Put { .. } | Fault::Read { .. } | Fault::Insert { .. } | Fault::Ask { .. } => continue,
            };
            match when {
                When::At(us) => self.at(us, Act::Strike(*fault)),
                When::Poll(polls) => self.polls.push((polls, *fault)),
            }
        }
        self.polls.sort_by_key(|(polls, _)| Reverse(*polls));
        self.at(0, Act::Start);
        self.at(LOOK_US, Act::Look);
    }

    fn run_out(&mut self) {
        let executor = self.world.executor.clone();
        while !self.is_done && self.world.state().violation.is_none() {
            let now_us = executor.now_us();
            if executor.polls() > POLLS_MAX || now_us > TIME_US_MAX {
                return self.violate("liveness", "the run does not end".into());
            }
            if let Some(Reverse((us, number))) = self.acts.peek().copied()
                && us <= now_us
            {
                self.acts.pop();
                if let Some(act) = self.by_number.remove(&number) {
                    self.act(act);
                }
                continue;
            }
            if executor.step() {
                self.strike_by_polls();
                self.see_torn();
                self.see_ends();
                self.see_answers();
                continue;
            }
            let next_act = self.acts.peek().map(|Reverse((us, _))| *us);
            let next = [executor.next_timer_us(), next_act].into_iter().flatten().min();
            match next {
                Some(us) => executor.advance_to(us),
                None => return self.violate("liveness", "nothing will ever happen any more".into()),
            }
        }
    }

    fn violate(&self, rule: &'static str, what: String) {
        self.world.state().violate(rule, what);
    }

    fn act(&mut self, act: Act) {
        if !matches!(act, Act::Look | Act::Wake | Act::Again) {
            self.open_acts -= 1;
        }
        match act {
            Act::Record(n) => {
                let arrival = self.world.plan.arrivals[n];
                self.world.state().broker.push(arrival.partition, arrival.record);
            }
            Act::AddPartition => {
                let mut state = self.world.state();
                if state.broker.streams.len() == self.world.plan.partitions as usize {
                    state.note("broker", 0, || "a partition appears".into());
                    state.broker.add_partition();
                }
            }
            Act::End(n) => {
                let mut state = self.world.state();
                state.note("broker", n as u64, || format!("partition {n} ends"));
                state.broker.end(n);
            }
            Act::Again => self.run_again(),
            Act::Strike(fault) => self.strike(fault),
            Act::Start => self.start(),
            Act::Thaw(pid) => self.thaw(pid),
            Act::Ask => self.ask_a_person(),
            Act::Move => self.move_back(),
            Act::Replay(n) => self.replay(n),
            Act::Alter(is_drop) => {
                let mut state = self.world.state();
                state.note("alter", u64::from(is_drop), || {
                    format!("the table has no column `time`: {is_drop}")
                });
                state.server.tables[0].lacks_time = is_drop;
            }
            Act::TakeBackup(n) => {
                let state = self.world.state();
                self.backups.insert(n, (state.objects.backup(), state.oracle.sealed()));
            }
            Act::Wake => self.world.state().broker.wake(),
            Act::Look => {
                self.look();
                self.at(self.world.executor.now_us() + LOOK_US, Act::Look);
            }
        }
    }

    fn newest(&self) -> Option<Pid> {
        self.processes.iter().rfind(|(_, p)| p.life == Life::Running).map(|(pid, _)| *pid)
    }

    fn kill(&mut self, pid: Pid) {
        self.world.executor.kill(pid);
        self.processes.remove(&pid);
        lock(&self.ended).remove(&pid);
    }

    fn thaw(&mut self, pid: Pid) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.life = Life::Running;
            self.world.state().note("fault", u64::from(pid), || format!("process {pid} wakes"));
            self.world.executor.thaw(pid);
        }
    }

    /// Starts a process unless the owner runs, or one that is on its way to own the lane.
    fn start(&mut self) {
        let owner = self.world.state().oracle.owner().unwrap_or_default();
        let is_running = self.processes.iter().any(|(pid, p)| p.life == Life::Running && *pid >= owner);
        if !is_running && self.person.is_none() {
            self.start_another(false);
        }
    }

    fn start_another(&mut self, drain: bool) {
        self.starts += 1;
        if self.starts > STARTS_MAX {
            return self.violate("liveness", format!("{STARTS_MAX} processes were started"));
        }
        let pid = self.starts;
        let (stop, asked) = watch::channel(false);
        let (store_errors, ends, cuts, copies) = {
            let state = self.world.state();
            let ends = state.broker.streams.iter().map(|s| s.end).collect();
            (state.store_errors, ends, state.broker.cuts, state.broker.copies)
        };
        let drains = drain.then_some(ends);
        if drain {
            self.world.state().oracle.drains(pid);
        }
        let pipeline = Pipeline { drain, ..pipeline(&self.world, pid, self.variant) };
        let (life, status) = (Life::Running, pipeline.status.clone());
        self.processes
            .insert(pid, Process { life, stop, status, store_errors, is_asked: false, drains, cuts, copies });
        self.world.state().note("start", u64::from(pid), || format!("process {pid}, drain: {drain}"));
        let ended = self.ended.clone();
        self.world.executor.spawn(
            pid,
            Box::pin(async move {
                let result = engine::run(pipeline, asked).await;
                lock(&ended).insert(pid, result);
            }),
        );
    }

    /// Whether nothing is to come but what the pipeline does.
    fn is_calm(&self) -> bool {
        let is_anybody_at_work =
            self.person.is_some() || self.mover.is_some() || self.world.state().replaying > 0;
        self.open_acts == 0 && self.rolled_back_since.is_none() && !is_anybody_at_work
    }

    /// Looks whether the run is over: faults have ceased, and all that the broker holds is sealed and settled.
    fn look(&mut self) {
        let now_us = self.world.executor.now_us();
        if let Some(since_us) = self.rolled_back_since
            && now_us - since_us > SETTLE_US_MAX
        {
            return self.violate("stop", "a store that was rolled back is not refused".into());
        }
        let sync_failed = self.world.state().objects.sync_failed;
        if let Some((pid, since_us)) = sync_failed
            && now_us - since_us > STOP_US_MAX
            && self.processes.get(&pid).is_some_and(|p| p.life == Life::Running)
        {
            return self
                .violate("stop", format!("process {pid} goes on though its store cannot sync any more"));
        }
        self.stop_what_asks(now_us);
        self.stop_what_refuses(now_us);
        if !self.is_calm() {
            return;
        }
        let since_us = *self.calm_since.get_or_insert(now_us);
        self.polls.clear();
        let (is_settled, unsettled) = {
            let mut state = self.world.state();
            state.operations.is_over = true;
            (state.is_settled(), state.oracle.unsettled())
        };
        if now_us - since_us > SETTLE_US_MAX {
            return self.violate(
                "liveness",
                format!("not settled within {SETTLE_US_MAX} us after the last fault: {unsettled}"),
            );
        }
        if self.last.is_some() {
            return;
        }
        self.start();
        self.stop_what_reads_no_more();
        // A run whose inputs have all ended comes to its end by itself.
        if is_settled && !self.world.state().broker.has_ended() {
            let owner = self.world.state().oracle.owner();
            let mut processes = self.processes.iter_mut();
            let running = processes.rfind(|(pid, p)| p.life == Life::Running && Some(**pid) == owner);
            if let Some((pid, process)) = running {
                process.is_asked = true;
                self.last = Some(*pid);
                // If it has ended meanwhile, the next one is asked.
                let _ = process.stop.send(true);
            }
        }
    }
}
