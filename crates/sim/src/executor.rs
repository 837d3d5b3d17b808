//! One thread, one clock, one order: all tasks of all processes of a run.
//!
//! Owns which ready task is polled next (by the seed), the simulated time, and what a process is: a number under which tasks are
//! spawned, which can be killed (all its futures are dropped, wherever they wait) and frozen (they are not polled, while the world
//! goes on). Does not own what the tasks do.
//!
//! Time moves only when no task is ready, to the next timer; besides each poll takes a microsecond. A job for a compute thread is a
//! task of its own, so that it runs at any later moment.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use dataflow::{Runtime, Task};
use futures::future::BoxFuture;

use crate::random::Random;

/// The number of a process. [`WORLD`] is everything that is not the engine.
pub type Pid = u32;

/// The process of servers, brokers and networks: never killed, never frozen.
pub const WORLD: Pid = 0;

/// The operator's command that moves a pipeline. The world runs it; what it writes to the store bears its number, so that its death in the middle
/// of a put is not taken for that of another command.
pub const MOVER: Pid = Pid::MAX;

/// The operators' commands that replay dead letters; as [`MOVER`].
pub const REPLAYER: Pid = Pid::MAX - 1;

/// What the wall clock shows when a run begins, Unix milliseconds.
pub const WALL_BEGIN_MS: i64 = 1_700_000_000_000;

/// What one poll takes, in microseconds: a loop that never waits cannot stop the time.
const POLL_US: u64 = 1;

struct Slot {
    pid: Pid,
    /// `None` while it is being polled.
    future: Option<BoxFuture<'static, ()>>,
    wake: Arc<TaskWake>,
    waker: Waker,
}

struct TaskWake {
    id: usize,
    scheduled: AtomicBool,
    ready: Arc<Mutex<Vec<usize>>>,
}

impl Wake for TaskWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.scheduled.swap(true, Ordering::Relaxed) {
            lock(&self.ready).push(self.id);
        }
    }
}

#[derive(Default)]
struct Timer {
    waker: Mutex<Option<Waker>>,
}

/// A timer in the heap; ordered by its time, then by its number.
struct Due(Reverse<(u64, u64)>, Arc<Timer>);

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

struct Inner {
    now_us: u64,
    /// A task's number is never used again.
    tasks: Vec<Option<Slot>>,
    timers: BinaryHeap<Due>,
    timers_made: u64,
    frozen: BTreeSet<Pid>,
    /// Ready tasks of frozen processes.
    held: Vec<usize>,
    clocks_ms: BTreeMap<Pid, i64>,
    order: Random,
    draws: Random,
    polls: u64,
    engine_polls: u64,
    hash: u64,
}

/// All tasks of a run. Clones share them.
#[derive(Clone)]
pub struct Executor {
    inner: Arc<Mutex<Inner>>,
    ready: Arc<Mutex<Vec<usize>>>,
}

/// The one thread that uses a run can only find a lock poisoned after a panic, and then the state is as good as before.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Executor {
    /// An executor that orders its tasks by `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner {
                now_us: 0,
                tasks: Vec::new(),
                timers: BinaryHeap::new(),
                timers_made: 0,
                frozen: BTreeSet::new(),
                held: Vec::new(),
                clocks_ms: BTreeMap::new(),
                order: Random::new(seed, 1),
                draws: Random::new(seed, 2),
                polls: 0,
                engine_polls: 0,
                hash: seed,
            })),
            ready: Arc::default(),
        }
    }

    /// The clock, threads and randomness of one process.
    pub fn runtime(&self, pid: Pid) -> Arc<dyn Runtime> {
        Arc::new(ProcessRuntime { executor: self.clone(), pid })
    }

    /// Microseconds since the run began.
    pub fn now_us(&self) -> u64 {
        lock(&self.inner).now_us
    }

    /// Polls so far of tasks that are not the world's.
    pub fn engine_polls(&self) -> u64 {
        lock(&self.inner).engine_polls
    }

    /// Polls so far.
    pub fn polls(&self) -> u64 {
        lock(&self.inner).polls
    }

    /// Stands for everything that happened so far, in its order.
    pub fn hash(&self) -> u64 {
        lock(&self.inner).hash
    }

    /// Takes a fact into the [`hash`](Self::hash).
    pub fn mix(&self, fact: u64) {
        lock(&self.inner).mix(fact);
    }

    /// Starts a task of a process and gives back its number.
    pub fn spawn(&self, pid: Pid, future: BoxFuture<'static, ()>) -> usize {
        let mut inner = lock(&self.inner);
        let id = inner.tasks.len();
        let wake = Arc::new(TaskWake { id, scheduled: AtomicBool::new(true), ready: self.ready.clone() });
        let waker = Waker::from(wake.clone());
        inner.tasks.push(Some(Slot { pid, future: Some(future), wake, waker }));
        lock(&self.ready).push(id);
        id
    }

    /// Waits for some microseconds.
    pub fn sleep_us(&self, time_us: u64) -> Sleep {
        let until_us = self.now_us().saturating_add(time_us);
        Sleep { executor: self.clone(), until_us, timer: None }
    }

    /// Ends a task.
    fn abort(&self, id: usize) {
        // Dropped without the lock: what the future holds may end other tasks.
        let slot = lock(&self.inner).tasks[id].take();
        drop(slot);
    }

    /// Drops everything that a process is, at whatever await each of its tasks stands.
    pub fn kill(&self, pid: Pid) {
        let mut gone = Vec::new();
        {
            let mut inner = lock(&self.inner);
            inner.frozen.remove(&pid);
            for slot in &mut inner.tasks {
                if slot.as_ref().is_some_and(|s| s.pid == pid) {
                    gone.push(slot.take());
                }
            }
        }
        drop(gone);
    }

    /// Stops polling the tasks of a process.
    pub fn freeze(&self, pid: Pid) {
        lock(&self.inner).frozen.insert(pid);
    }

    /// Undoes [`freeze`](Self::freeze).
    pub fn thaw(&self, pid: Pid) {
        let mut inner = lock(&self.inner);
        inner.frozen.remove(&pid);
        let held = std::mem::take(&mut inner.held);
        lock(&self.ready).extend(held);
    }

    /// Moves the wall clock of a process.
    pub fn jump(&self, pid: Pid, by_ms: i64) {
        *lock(&self.inner).clocks_ms.entry(pid).or_default() += by_ms;
    }

    /// Polls one ready task; false if there is none.
    pub fn step(&self) -> bool {
        let (id, pid, mut future, waker) = {
            let mut inner = lock(&self.inner);
            inner.fire();
            let Some(id) = inner.next_ready(&self.ready) else { return false };
            inner.polls += 1;
            inner.now_us += POLL_US;
            let now_us = inner.now_us;
            inner.mix(now_us ^ ((id as u64) << 40));
            let slot = inner.tasks[id].as_mut().expect("a task that was just found");
            slot.wake.scheduled.store(false, Ordering::Relaxed);
            let Some(future) = slot.future.take() else { return true };
            (id, slot.pid, future, slot.waker.clone())
        };
        if pid != WORLD {
            lock(&self.inner).engine_polls += 1;
        }
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut inner = lock(&self.inner);
        let gone = match (&polled, &mut inner.tasks[id]) {
            (Poll::Pending, Some(slot)) => {
                slot.future = Some(future);
                None
            }
            (_, slot) => Some((slot.take(), future)),
        };
        drop(inner);
        drop(gone);
        true
    }

    /// When the next timer is due.
    pub fn next_timer_us(&self) -> Option<u64> {
        let mut inner = lock(&self.inner);
        while let Some(due) = inner.timers.peek() {
            if lock(&due.1.waker).is_some() {
                return Some(due.0.0.0);
            }
            inner.timers.pop();
        }
        None
    }

    /// Moves the time; it never goes back.
    pub fn advance_to(&self, us: u64) {
        let mut inner = lock(&self.inner);
        inner.now_us = inner.now_us.max(us);
    }
}

impl Inner {
    fn mix(&mut self, fact: u64) {
        self.hash = (self.hash ^ fact).wrapping_mul(0x9fb2_1c65_1e98_df25).rotate_left(23);
    }

    fn fire(&mut self) {
        while self.timers.peek().is_some_and(|due| due.0.0.0 <= self.now_us) {
            let due = self.timers.pop().expect("just looked at");
            let waker = lock(&due.1.waker).take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn next_ready(&mut self, ready: &Mutex<Vec<usize>>) -> Option<usize> {
        let mut ready = lock(ready);
        loop {
            if ready.is_empty() {
                return None;
            }
            // Which of them was woken first must not count: tokio's `watch` wakes its waiters in an order of its own.
            ready.sort_unstable();
            let at = self.order.below(ready.len() as u64) as usize;
            let id = ready.remove(at);
            match &self.tasks[id] {
                None => {}
                Some(slot) if self.frozen.contains(&slot.pid) => self.held.push(id),
                Some(_) => return Some(id),
            }
        }
    }
}

/// Ends when the simulated time has come.
pub struct Sleep {
    executor: Executor,
    until_us: u64,
    timer: Option<Arc<Timer>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let executor = self.executor.clone();
        let mut inner = lock(&executor.inner);
        if inner.now_us >= self.until_us {
            return Poll::Ready(());
        }
        match &self.timer {
            Some(timer) => *lock(&timer.waker) = Some(context.waker().clone()),
            None => {
                let timer = Arc::new(Timer { waker: Mutex::new(Some(context.waker().clone())) });
                inner.timers_made += 1;
                let number = inner.timers_made;
                inner.timers.push(Due(Reverse((self.until_us, number)), timer.clone()));
                self.timer = Some(timer);
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = &self.timer {
            lock(&timer.waker).take();
        }
    }
}

struct ProcessRuntime {
    executor: Executor,
    pid: Pid,
}

impl Runtime for ProcessRuntime {
    fn wall_ms(&self) -> i64 {
        let inner = lock(&self.executor.inner);
        WALL_BEGIN_MS
            + (inner.now_us / 1_000) as i64
            + inner.clocks_ms.get(&self.pid).copied().unwrap_or_default()
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.executor.now_us())
    }

    fn begin_ms(&self) -> i64 {
        WALL_BEGIN_MS
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.executor.sleep_us(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)))
    }

    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) -> Task {
        let (executor, id) = (self.executor.clone(), self.executor.spawn(self.pid, task));
        Task::new(move || executor.abort(id))
    }

    fn compute(&self, job: Box<dyn FnOnce() + Send>) {
        self.executor.spawn(self.pid, Box::pin(async move { job() }));
    }

    fn compute_threads(&self) -> usize {
        2
    }

    fn random(&self) -> u128 {
        let mut inner = lock(&self.executor.inner);
        u128::from(inner.draws.word()) << 64 | u128::from(inner.draws.word())
    }
}
