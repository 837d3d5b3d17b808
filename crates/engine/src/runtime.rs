//! The real clock, threads and randomness.
//!
//! Owns the implementation of [`Runtime`] over tokio and a pool of threads for computing. Does not own the contract (`dataflow::runtime`),
//! nor how much is computed at a time ([`crate::lane`], [`crate::seal`]). This is the one place on the data's path that reads the system's
//! clock.
#![allow(clippy::disallowed_methods, reason = "this is the seam that the other modules are sent to")]

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dataflow::{Runtime, Task};
use futures::future::BoxFuture;

type Job = Box<dyn FnOnce() + Send>;

/// Tokio for waiting, own threads for computing.
pub struct TokioRuntime {
    handle: tokio::runtime::Handle,
    begin: Instant,
    begin_ms: i64,
    jobs: mpsc::Sender<Job>,
    threads: usize,
    seed: RandomState,
    drawn: AtomicU64,
}

impl TokioRuntime {
    /// A runtime with `threads` threads for computing, on the tokio runtime of the caller.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or if the system gives no threads.
    pub fn new(threads: usize) -> Arc<Self> {
        let threads = threads.max(1);
        // The queue itself has no bound; those who compute bound what they have under way (`lane`, `seal`).
        let (jobs, queue) = mpsc::channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        for n in 0..threads {
            let queue = queue.clone();
            std::thread::Builder::new()
                .name(format!("compute-{n}"))
                .spawn(move || {
                    loop {
                        let job = match queue.lock() {
                            Ok(queue) => queue.recv(),
                            Err(_) => return,
                        };
                        let Ok(job) = job else { return };
                        // A panic ends the job, not the thread: who waits for the job sees that it is gone.
                        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                    }
                })
                .expect("the system gives a thread at the start");
        }
        Arc::new(Self {
            handle: tokio::runtime::Handle::current(),
            begin: Instant::now(),
            begin_ms: wall_ms(),
            jobs,
            threads,
            seed: RandomState::new(),
            drawn: AtomicU64::new(0),
        })
    }

    /// 64 bits from the process's random keys: unpredictable enough for nonces, which need to be unique, not secret.
    fn draw(&self) -> u64 {
        let mut hasher = self.seed.build_hasher();
        hasher.write_u64(self.drawn.fetch_add(1, Ordering::Relaxed));
        hasher.write_u32(std::process::id());
        hasher.write_u128(self.begin.elapsed().as_nanos());
        hasher.finish()
    }
}

/// The system's clock, Unix milliseconds.
fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or_else(|before| -(before.duration().as_millis() as i64), |d| d.as_millis() as i64)
}

impl Runtime for TokioRuntime {
    fn wall_ms(&self) -> i64 {
        wall_ms()
    }

    fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    fn begin_ms(&self) -> i64 {
        self.begin_ms
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) -> Task {
        let task = self.handle.spawn(task).abort_handle();
        Task::new(move || task.abort())
    }

    fn compute(&self, job: Job) {
        // The threads end only when this sender is dropped.
        let _ = self.jobs.send(job);
    }

    fn compute_threads(&self) -> usize {
        self.threads
    }

    fn thread_cpu(&self) -> Duration {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        // A clock that begins with the thread is never negative, and its nanoseconds are below a second.
        Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
    }

    fn random(&self) -> u128 {
        u128::from(self.draw()) << 64 | u128::from(self.draw())
    }
}
