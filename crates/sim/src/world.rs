//! The state of everything that is not the engine, in one place and under one lock.
//!
//! Owns the trace of what happened and the first violation. Does not own the behaviour of its parts (`broker`, `objects`,
//! `server`), nor the rules (`oracle`). The lock is never held over an await.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::broker::Broker;
use crate::executor::{Executor, Pid, WORLD, lock};
use crate::objects::Objects;
use crate::oracle::Oracle;
use crate::plan::{Fault, InsertFault, Plan, PutFault};
use crate::random::Random;
use crate::server::Server;

/// Lines that a trace keeps: the last ones, which say how it came to the end.
const TRACE_LINES_MAX: usize = 400;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// C1 to C10, `liveness`, or `stop` for a stop that the model does not expect.
    pub rule: &'static str,
    /// What was seen.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// Faults of single operations, by their number.
#[derive(Debug, Default)]
pub struct Operations {
    puts: (u64, BTreeMap<u64, PutFault>),
    reads: (u64, BTreeMap<u64, Option<u64>>),
    inserts: (u64, BTreeMap<u64, InsertFault>),
    asks: (u64, BTreeMap<u64, ()>),
    /// Set when faults have ceased.
    pub is_over: bool,
}

fn take<T: Copy>(of: &mut (u64, BTreeMap<u64, T>), is_over: bool) -> Option<T> {
    of.0 += 1;
    of.1.remove(&(of.0 - 1)).filter(|_| !is_over)
}

impl Operations {
    fn new(plan: &Plan) -> Self {
        let mut all = Self::default();
        for fault in &plan.faults {
            match *fault {
                Fault::Put { nth, how } => drop(all.puts.1.insert(nth, how)),
                Fault::Read { nth, slow_ms } => drop(all.reads.1.insert(nth, slow_ms)),
                Fault::Insert { nth, how } => drop(all.inserts.1.insert(nth, how)),
                Fault::Ask { nth } => drop(all.asks.1.insert(nth, ())),
                _ => {}
            }
        }
        all
    }

    /// What becomes of the next put.
    pub fn put(&mut self) -> Option<PutFault> {
        take(&mut self.puts, self.is_over)
    }

    /// What becomes of the next read.
    pub fn read(&mut self) -> Option<Option<u64>> {
        take(&mut self.reads, self.is_over)
    }

    /// What becomes of the next insert.
    pub fn insert(&mut self) -> Option<InsertFault> {
        take(&mut self.inserts, self.is_over)
    }

    /// True if the next question fails.
    pub fn ask(&mut self) -> bool {
        take(&mut self.asks, self.is_over).is_some()
    }
}

/// Everything under the lock.
pub struct State {
    /// For latencies and choices of the world.
    pub random: Random,
    /// Where records are.
    pub broker: Broker,
    /// Where rows end.
    pub server: Server,
    /// Where the journal is.
    pub objects: Objects,
    /// What must hold.
    pub oracle: Oracle,
    /// What goes wrong with single operations.
    pub operations: Operations,
    /// The first violation.
    pub violation: Option<Violation>,
    /// Replays of dead letters under way.
    pub replaying: u32,
    /// Store errors handed out so far: a start that meets one may end with it.
    pub store_errors: u64,
    trace: Option<VecDeque<String>>,
    executor: Executor,
}

impl State {
    /// Notes an event: it counts in the run's hash, and stands in its trace if one is kept.
    pub fn note(&mut self, kind: &'static str, fact: u64, line: impl FnOnce() -> String) {
        self.executor.mix(fact ^ (kind.len() as u64) << 56);
        if let Some(trace) = &mut self.trace {
            if trace.len() == TRACE_LINES_MAX {
                trace.pop_front();
            }
            let us = self.executor.now_us();
            trace.push_back(format!("{:>9}.{:03} ms  {kind}: {}", us / 1_000, us % 1_000, line()));
        }
    }

    /// Notes a violation; the first one counts.
    pub fn violate(&mut self, rule: &'static str, what: String) {
        self.note("VIOLATION", 0, || format!("{rule}: {what}"));
        self.violation.get_or_insert(Violation { rule, what });
    }

    /// Whether all that the broker holds is sealed and settled, and all results that are due are out.
    pub fn is_settled(&self) -> bool {
        self.broker.is_read(&self.oracle.sealed())
            && !self.oracle.has_expired(&self.broker)
            && self.oracle.is_settled()
            && self.oracle.is_out()
            && !self.oracle.has_lost(&self.broker)
    }

    /// The lines of the trace.
    pub fn trace(&self) -> Vec<String> {
        self.trace.iter().flatten().cloned().collect()
    }

    /// Microseconds since the begin.
    pub fn now_us(&self) -> u64 {
        self.executor.now_us()
    }
}

/// The world of one run.
pub struct World {
    /// Who runs everything.
    pub executor: Executor,
    /// What was drawn.
    pub plan: Plan,
    state: Mutex<State>,
}

impl World {
    /// The world at the begin of a run.
    pub fn new(plan: Plan, with_trace: bool) -> Arc<Self> {
        let executor = Executor::new(plan.seed);
        let state = State {
            random: Random::new(plan.seed, 4),
            broker: Broker::new(&plan),
            server: Server::new(&plan),
            objects: Objects::new(plan.is_local),
            oracle: Oracle::new(&plan),
            operations: Operations::new(&plan),
            violation: None,
            replaying: 0,
            store_errors: 0,
            trace: with_trace.then(VecDeque::new),
            executor: executor.clone(),
        };
        Arc::new(Self { executor, plan, state: Mutex::new(state) })
    }

    /// The state; not to be held over an await.
    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits between `low_us` and `high_us` microseconds.
    pub async fn pause(&self, low_us: u64, high_us: u64) {
        let us = self.state().random.between(low_us, high_us);
        self.executor.sleep_us(us).await;
    }

    /// Runs `work` as a task of process `pid` and waits for it. It goes on if the caller is gone, but not without its process.
    pub async fn run_as<T: Send + 'static>(
        &self,
        pid: Pid,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let (done, result) = futures::channel::oneshot::channel();
        self.executor.spawn(
            pid,
            Box::pin(async move {
                // The caller may be gone.
                let _ = done.send(work.await);
            }),
        );
        match result.await {
            Ok(result) => result,
            // The process is gone, and the caller with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Runs `work` as a task of the world.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(WORLD, Box::pin(work));
    }
}
