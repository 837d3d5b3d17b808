//! One run: from a seed to a plan, its faults, and the end in which everything must come right.
//!
//! Owns the drawing of a plan, and the end. Does not own the store and its faults (`store`), nor those who use the log (`actors`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use object_log::Settings;
use object_log::decide::Retention;

use crate::actors::{self, CONSUMERS, Journal, Known};
use crate::executor::{Executor, Pid};
use crate::names;
use crate::random::Random;
use crate::sim_store::World;
use crate::variant::Variant;

/// What a wall clock is off by at the most.
pub const SKEW_MS: i64 = 20_000;

/// Seconds for which a run keeps what is acknowledged, at the most; its end waits twice as long behind the last record.
const KEEP_MAX_S: u64 = 60;

const DAY_MS: i64 = 86_400_000;

/// Counts of a report.
pub const COUNTS: usize = 11;

/// Simulated time after which a run that has not come right never will.
const TIME_MAX_US: u64 = 3_600_000_000;

/// What a seed makes.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub settings: Settings,
    pub faults_percent: u64,
    pub producers: u64,
    pub appends: u64,
    pub consumers: u64,
    /// Clients that name their requests, and requests of each.
    pub clients: u64,
    pub requests: u64,
    /// For how long a name is known.
    pub window_ms: i64,
    pub files: Vec<Followed>,
    pub troubles: Vec<Trouble>,
}

/// A file that grows.
#[derive(Clone, Copy, Debug)]
pub struct Followed {
    pub born_us: u64,
    /// Between two lines.
    pub gap_us: u64,
    /// In the end.
    pub lines: u64,
}

/// Something that happens to the world.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    Kill,
    Freeze(u64),
    Another,
    KillConsumer(u64),
    TwoConsumers(u64),
    Jump(i64),
    /// The newest owner's clock is a day ahead for so long, and then right again.
    DayAhead(u64),
    Away(u64),
    Recreate {
        everything: bool,
    },
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed, 3);
        let age_max = random.percent(30).then(|| Duration::from_secs(random.between(60, 120)));
        let linger_max = Duration::from_millis(random.one_of(&[1, 20, 500]));
        let settings = Settings {
            object_bytes: random.one_of(&[1, 200, 1 << 20]),
            linger_min: Duration::from_millis(random.below(10)),
            linger_max,
            uploads_max: random.between(1, 8) as usize,
            retention: Retention { acknowledged: true, age_max, ..Retention::default() },
            collect_every: Duration::from_millis(random.between(300, 5_000)),
            sweep_every: Duration::from_millis(random.between(2_000, 20_000)),
            ..Settings::default()
        };
        let count = random.below(9);
        let mut troubles = Vec::new();
        troubles.extend((0..count).map(|_| match random.below(16) {
            0..3 => Trouble::Kill,
            3..6 => Trouble::Freeze(random.between(1_000_000, 90_000_000)),
            6..8 => Trouble::Another,
            8..10 => Trouble::KillConsumer(random.below(2)),
            10..11 => Trouble::TwoConsumers(random.below(2)),
            11..13 => Trouble::Jump(random.between(0, 2 * SKEW_MS as u64) as i64 - SKEW_MS),
            13..15 => Trouble::Away(random.between(500_000, 20_000_000)),
            _ => Trouble::Recreate { everything: random.percent(50) },
        }));
        // Drawn apart, so that all else of a seed stays as it was.
        let mut clocks = Random::new(seed, 9);
        let mut settings = settings;
        settings.retention.keep_min =
            clocks.percent(40).then(|| Duration::from_secs(clocks.between(20, KEEP_MAX_S)));
        // A clock that is ahead makes records old too early, as docs/design/log.md says; what must hold then is that the log goes on.
        if settings.retention.keep_min.is_some() && age_max.is_none() && clocks.percent(60) {
            let at = clocks.below(troubles.len() as u64 + 1) as usize;
            troubles.insert(at, Trouble::DayAhead(clocks.between(1_000_000, 20_000_000)));
        }
        // And so are names and files.
        let mut named = Random::new(seed, 11);
        let keep_ms = settings.retention.keep_min.map_or(0, |keep| keep.as_millis() as u64);
        let clients = if keep_ms > 0 { named.below(3) } else { 0 };
        let window_ms = (keep_ms * named.between(30, 90) / 100) as i64;
        let requests = named.between(2, 12);
        let count = if named.percent(50) { named.between(1, 3) } else { 0 };
        let files = (0..count).map(|_| Followed {
            born_us: named.below(20_000_000),
            gap_us: named.between(50_000, 1_000_000),
            lines: named.between(1, 30),
        });
        let files = files.collect();
        settings.look_every = Duration::from_millis(Random::new(seed, 13).between(1_000, 40_000));
        settings.retention.bytes_max = named.percent(20).then(|| named.between(300, 20_000));
        Self {
            clients,
            requests,
            window_ms,
            files,
            seed,
            settings,
            faults_percent: random.one_of(&[0, 2, 6]),
            troubles,
            producers: random.between(1, 4),
            appends: random.between(10, 60),
            consumers: random.between(1, 2),
        }
    }
}

impl Plan {
    /// Records may go that a consumer has not read.
    pub fn drops_unread(&self) -> bool {
        self.settings.retention.age_max.is_some() || self.settings.retention.bytes_max.is_some()
    }

    /// What clocks may be off by, all jumps together; `None` where one is a day ahead for a while.
    pub fn skew_us(&self) -> Option<u64> {
        self.troubles.iter().try_fold(0, |skew_us, trouble| match trouble {
            Trouble::Jump(by_ms) => Some(skew_us + by_ms.unsigned_abs() * 1_000),
            Trouble::DayAhead(_) => None,
            _ => Some(skew_us),
        })
    }

    /// Lines that each file has at a time.
    pub fn lines(&self, now_us: u64) -> Vec<u64> {
        let lines = |file: &Followed| match now_us.checked_sub(file.born_us) {
            Some(age_us) => (1 + age_us / file.gap_us).min(file.lines),
            None => 0,
        };
        self.files.iter().map(lines).collect()
    }
}

/// What a run has shown.
pub struct Report {
    pub violations: Vec<String>,
    pub hash: u64,
    counts: [u64; COUNTS],
}

impl Report {
    pub fn counts(&self) -> [u64; COUNTS] {
        self.counts
    }
}

struct Run {
    world: Arc<World>,
    known: Known,
    next_owner: Pid,
    owners: Vec<Pid>,
    consumers: Vec<(Vec<Pid>, String, Journal)>,
    next_consumer: Pid,
    random: Random,
    configured: Random,
}

pub fn run(plan: &Plan, variant: Option<Variant>, is_told: bool) -> Report {
    let executor = Executor::new(plan.seed);
    let world = World::new(executor, plan.clone(), variant, is_told);
    if is_told {
        println!("{plan:#?}");
    }
    let mut run = Run {
        world: world.clone(),
        known: Arc::default(),
        next_owner: 1,
        owners: Vec::new(),
        consumers: Vec::new(),
        next_consumer: CONSUMERS,
        random: Random::new(plan.seed, 5),
        configured: Random::new(plan.seed, 13),
    };
    run.all();
    let executor = world.executor.clone();
    // Tasks hold the world, which holds the executor, which holds the tasks.
    for pid in (0..run.next_owner).chain(CONSUMERS..run.next_consumer) {
        executor.kill(pid);
    }
    let mut state = world.state();
    let oracle = &state.oracle;
    let counts = [
        oracle.answered,
        oracle.known,
        state.swaps,
        state.deletes,
        oracle.claimed,
        state.lost,
        oracle.recreated,
        oracle.read,
        oracle.followed,
        oracle.notes,
        oracle.dropped_by_bytes,
    ];
    Report { violations: std::mem::take(&mut state.oracle.violations), hash: executor.hash(), counts }
}

impl Run {
    fn all(&mut self) {
        let plan = self.world.plan.clone();
        self.start_owner(true);
        for number in 0..plan.consumers {
            self.consumers.push((Vec::new(), format!("consumer-{number}"), Journal::default()));
            self.start_consumer(number as usize);
        }
        if self.world.variant == Some(Variant::SweepsThePresent) {
            let pid = self.next_consumer;
            self.next_consumer += 1;
            actors::spawn(&self.world, pid, actors::careless_collector(self.world.clone(), pid));
        }
        let left = Arc::new(AtomicU64::new(plan.producers + plan.clients));
        for number in 0..plan.clients {
            let (world, left) = (self.world.clone(), left.clone());
            actors::spawn_world(&self.world, async move {
                names::client(world, number, plan.requests).await;
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        for number in 0..plan.producers {
            let (world, known, left) = (self.world.clone(), self.known.clone(), left.clone());
            actors::spawn_world(&self.world, async move {
                actors::producer(world, number, plan.appends, known).await;
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        for trouble in plan.troubles {
            let until_us = self.world.executor.now_us() + self.random.between(100_000, 15_000_000);
            self.until(until_us, || false);
            self.make(trouble);
        }
        let until_us = self.world.executor.now_us() + 2_000_000;
        self.until(until_us, || false);
        self.heal();
        let is_done = self.until(TIME_MAX_US, || left.load(Ordering::Relaxed) == 0);
        if !is_done {
            return self.violate(format!(
                "L5: {} producers and clients got no answer in an hour without faults",
                left.load(Ordering::Relaxed)
            ));
        }
        self.end();
    }

    /// Everything that was sent is answered: consumers read it all, and what is garbage goes.
    fn end(&mut self) {
        let consumers: Vec<_> =
            self.consumers.iter().map(|(_, name, journal)| (name.clone(), journal.clone())).collect();
        let world = self.world.clone();
        // The owner that has the log in the end may follow no files: then one comes that does.
        let until_us = self.world.executor.now_us() + 60_000_000;
        if !self.until(until_us, || world.state().oracle.has_all_lines()) {
            self.start_owner(true);
        }
        let until_us = self.world.executor.now_us() + 600_000_000;
        let are_done = self.until(until_us, || {
            let state = world.state();
            let Some(root) = state.oracle.present() else { return false };
            let is_at_end = |journal: &Journal| match *journal.lock().expect("no panic") {
                Some(at) => at == (root.queue_id(), root.next),
                // All had gone before it could read any.
                None => root.low == root.next,
            };
            state.oracle.has_all_lines() && consumers.iter().all(|(_, journal)| is_at_end(journal))
        });
        if !are_done {
            let at: Vec<_> = consumers
                .iter()
                .map(|(name, journal)| (name.clone(), *journal.lock().expect("no panic")))
                .collect();
            let (next, has_lines) = {
                let state = self.world.state();
                (state.oracle.present().map(|root| root.next), state.oracle.has_all_lines())
            };
            let told =
                format!("L1: consumers have not read to the end at {next:?}: {at:?}; all lines: {has_lines}");
            return self.violate(told);
        }
        // One more owner, when no request of an earlier one is on its way any more; its first sweep finds what they have left.
        let until_us = self.world.executor.now_us() + 70_000_000;
        self.until(until_us, || false);
        for pid in std::mem::take(&mut self.owners) {
            self.world.executor.kill(pid);
        }
        self.start_owner(true);
        let until_us = self.world.executor.now_us() + 120_000_000;
        self.until(until_us, || false);
        let mut state = self.world.state();
        let objects = std::mem::take(&mut state.objects);
        state.oracle.quiet(&objects);
    }

    fn start_owner(&mut self, follows: bool) {
        let pid = self.next_owner;
        self.next_owner += 1;
        self.owners.push(pid);
        let known = self.known.clone();
        actors::spawn(&self.world, pid, actors::owner(self.world.clone(), pid, known, follows));
    }

    /// One that follows files, or now and then does not, as another configuration says.
    fn start_another(&mut self) {
        let follows = !self.configured.percent(15);
        self.start_owner(follows);
    }

    fn start_consumer(&mut self, number: usize) {
        let pid = self.next_consumer;
        self.next_consumer += 1;
        let (pids, name, journal) = &mut self.consumers[number];
        pids.push(pid);
        let task = actors::consumer(self.world.clone(), pid, name.clone(), journal.clone());
        actors::spawn(&self.world, pid, task);
    }

    fn make(&mut self, trouble: Trouble) {
        self.world.note(|| format!("-- {trouble:?}"));
        let executor = self.world.executor.clone();
        let newest = self.owners.last().copied().unwrap_or(0);
        match trouble {
            Trouble::Kill => {
                executor.kill(newest);
                self.start_another();
            }
            Trouble::Freeze(us) => {
                executor.freeze(newest);
                let thawing = executor.clone();
                actors::spawn_world(&self.world, async move {
                    thawing.sleep_us(us).await;
                    thawing.thaw(newest);
                });
                self.start_another();
            }
            Trouble::Another => self.start_another(),
            Trouble::KillConsumer(number) => {
                let number = number as usize % self.consumers.len();
                for pid in std::mem::take(&mut self.consumers[number].0) {
                    executor.kill(pid);
                }
                self.start_consumer(number);
            }
            Trouble::TwoConsumers(number) => {
                // The earlier run sleeps and wakes up beside the later one. Its journal is not what is tested here, so it is ended then.
                let number = number as usize % self.consumers.len();
                for pid in std::mem::take(&mut self.consumers[number].0) {
                    executor.freeze(pid);
                    let ending = executor.clone();
                    actors::spawn_world(&self.world, async move {
                        ending.sleep_us(10_000_000).await;
                        ending.kill(pid);
                    });
                }
                self.start_consumer(number);
            }
            Trouble::Jump(by_ms) => {
                // From where it is to somewhere within the bound.
                for pid in &self.owners {
                    executor.jump(*pid, by_ms / self.owners.len() as i64);
                }
            }
            Trouble::DayAhead(us) => {
                executor.jump(newest, DAY_MS);
                let righting = executor.clone();
                actors::spawn_world(&self.world, async move {
                    righting.sleep_us(us).await;
                    righting.jump(newest, -DAY_MS);
                });
            }
            Trouble::Away(us) => self.world.state().away_until_us = executor.now_us() + us,
            Trouble::Recreate { everything } => {
                let mut state = self.world.state();
                state.registers.remove("log/p/0/root");
                if everything {
                    state.objects.clear();
                    state.registers.clear();
                }
                state.oracle.deleted_root();
                drop(state);
                self.start_another();
            }
        }
    }

    /// No more faults; everybody awake; one fresh owner.
    fn heal(&mut self) {
        self.world.note(|| "-- healed".to_owned());
        {
            let mut state = self.world.state();
            (state.is_healed, state.away_until_us) = (true, 0);
        }
        for pid in &self.owners {
            self.world.executor.thaw(*pid);
        }
        self.start_owner(true);
    }

    /// Runs until then, or until `is_done`; false if the time has come first.
    fn until(&mut self, until_us: u64, is_done: impl Fn() -> bool) -> bool {
        let executor = self.world.executor.clone();
        let mut polls = 0u64;
        loop {
            polls += 1;
            if polls.is_multiple_of(16) && is_done() {
                return true;
            }
            if executor.step() {
                if executor.now_us() >= until_us {
                    return false;
                }
                continue;
            }
            if is_done() {
                return true;
            }
            match executor.next_timer_us() {
                Some(us) if us < until_us => executor.advance_to(us),
                _ => {
                    executor.advance_to(until_us);
                    return false;
                }
            }
        }
    }

    fn violate(&self, what: String) {
        self.world.state().oracle.violate(what);
    }
}
