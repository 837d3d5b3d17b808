//! Who uses the log: owners, producers, consumers.
//!
//! Owns what each of them does next, and which of their settings a seed draws. Does not own the log, which is the real one, nor what must
//! hold (`oracle`).

use std::sync::Arc;
use std::time::Duration;

use dataflow::{BlockBuilder, Effect, Partition, RecordBlock, Runtime, Task};
use futures::future::{BoxFuture, Either, select};
use object_log::acks::Acknowledger;
use object_log::error::AppendFault;
use object_log::names::QueueId;
use object_log::reader::Read;
use object_log::{Append, Appended, Appender, LogError, LogPartition, LogReader, Owner, Root};
use store::Prefix;

use crate::executor::{Pid, WORLD};
use crate::followed::{Place, follow};
use crate::names;
use crate::sim_store::World;
use crate::variant::Variant;

/// Processes from here on are consumers; those below are owners.
pub const CONSUMERS: Pid = 1_000;

/// The runtime of a process, unless a variant has it lie.
struct Lying {
    inner: Arc<dyn Runtime>,
    variant: Option<Variant>,
}

impl Runtime for Lying {
    fn wall_ms(&self) -> i64 {
        let ahead = if self.variant == Some(Variant::ClockADayAhead) { 86_400_000 } else { 0 };
        // Ahead only now and then: a clock that is always ahead is as good as any other.
        let is_ahead = self.inner.elapsed().as_secs() % 40 >= 20;
        self.inner.wall_ms() + if is_ahead { ahead } else { 0 }
    }

    fn elapsed(&self) -> Duration {
        self.inner.elapsed()
    }

    fn begin_ms(&self) -> i64 {
        self.inner.begin_ms()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.inner.sleep(time)
    }

    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) -> Task {
        self.inner.spawn(name, task)
    }

    fn compute(&self, job: Box<dyn FnOnce() + Send>) {
        self.inner.compute(job);
    }

    fn compute_threads(&self) -> usize {
        self.inner.compute_threads()
    }

    fn random(&self) -> u128 {
        match self.variant {
            Some(Variant::SameRandom) => 4,
            _ => self.inner.random(),
        }
    }
}

impl World {
    /// Whether a process is an owner.
    pub fn is_owner(&self, pid: Pid) -> bool {
        (1..CONSUMERS).contains(&pid)
    }

    pub fn partition(self: &Arc<Self>, pid: Pid) -> LogPartition {
        let runtime = Arc::new(Lying { inner: self.executor.runtime(pid), variant: self.variant });
        LogPartition::new(self.store(pid), &Prefix::new("log").expect("a prefix"), 0, runtime)
            .expect("a partition")
    }
}

/// Owners that producers know of: more than are ever late with their start, so that the one that owns the log is among them.
pub const KNOWN: usize = 8;

/// Those, as they became ready; earlier ones may sleep, or be dead.
pub type Known = Arc<std::sync::Mutex<Vec<(Pid, Appender)>>>;

/// An owner: claims, reads what it must know, and commits until it is fenced or killed. It follows files or does not.
pub async fn owner(world: Arc<World>, pid: Pid, known: Known, follows: bool) {
    let partition = world.partition(pid);
    let before = match world.variant {
        Some(Variant::LabelsBeforeClaim) => {
            let seen = partition.look().await.ok().flatten();
            world.executor.sleep_us(2_000_000).await;
            seen.map(|seen| seen.root)
        }
        _ => None,
    };
    let mut settings = world.plan.settings;
    match (world.variant, &mut settings.retention) {
        (Some(Variant::KeptTooShort), retention) => retention.keep_min = None,
        (Some(Variant::HalfTheBytes), retention) => {
            retention.bytes_max = retention.bytes_max.map(|bytes| bytes / 2)
        }
        _ => {}
    }
    let mut owner = match Owner::start(partition.clone(), &format!("owner {pid}"), settings).await {
        Ok(owner) => owner,
        Err(error) => return world.note(|| format!("owner {pid} did not start: {error}")),
    };
    let begun = owner.root();
    world.note(|| format!("owner {pid} owns epoch {}", begun.epoch));
    // Before anything is read, and until all is.
    if world.variant != Some(Variant::NotPinned) {
        owner.pin().set(Some(0));
    }
    let opened = async {
        let place = match world.plan.files.is_empty() {
            true => None,
            false => Some(Place::open(&world, &partition, &owner, follows).await?),
        };
        let keys = names::read(&world, &partition, &owner, before.as_ref()).await?;
        match &place {
            Some(place) => place.started(),
            None => owner.pin().set(None),
        }
        Ok::<_, LogError>((place, keys))
    };
    let (place, keys) = match opened.await {
        Ok(opened) => opened,
        Err(error) => return ended(&world, pid, &begun, &Err(error)),
    };
    {
        let mut known = known.lock().expect("no panic");
        known.push((pid, owner.appender()));
        let excess = known.len().saturating_sub(KNOWN);
        known.drain(..excess);
    }
    let appender = owner.appender();
    let following = async {
        match place {
            Some(place) => follow(world.clone(), place, appender.clone()).await,
            None => std::future::pending().await,
        }
    };
    let serving = names::serve(world.clone(), pid, keys, appender.clone(), partition.clock().clone());
    // Whatever of these ends, the process does.
    let result = tokio::select! {
        biased;
        lost = owner.lost() => lost,
        followed = following => followed,
        () = serving => Ok(()),
    };
    ended(&world, pid, &begun, &result);
}

/// An owner has ended, which it may not for a reason that lies in the log.
fn ended(world: &World, pid: Pid, begun: &Root, result: &Result<(), LogError>) {
    world.note(|| format!("owner {pid} ended: {result:?}"));
    if let Err(
        error @ (LogError::Missing { .. }
        | LogError::Format { .. }
        | LogError::Truncated { .. }
        | LogError::Refused(_)),
    ) = result
    {
        let mut state = world.state();
        // One that is none any more may miss what was deleted since.
        let is_owner = state
            .oracle
            .present()
            .is_some_and(|root| root.claim() == begun.claim() && root.queue == begun.queue);
        if is_owner {
            state.oracle.violate(format!("L2: owner {pid} ended: {error}"));
        }
    }
}

/// A collector that takes what no root names for garbage: the fault of a peer, made by hand.
pub async fn careless_collector(world: Arc<World>, pid: Pid) {
    let partition = world.partition(pid);
    loop {
        world.executor.sleep_us(200_000).await;
        let Ok(page) = partition.store().list(&partition.names().data(), None, 1_000).await else { continue };
        let Ok(seen) = partition.root().await else { continue };
        for entry in page {
            let Some((queue, written)) = partition.names().parse(&entry.key) else { continue };
            let named = seen.root.spans().any(|span| match span.of {
                object_log::segment::Of::Entry(entry) => entry.written() == written,
                object_log::segment::Of::Segment(reference) => reference.run == written.run,
            });
            if queue == seen.root.queue_id() && !named {
                // Whether it is deleted does not matter to whoever does not look.
                let _ = partition.store().delete(&entry.key).await;
            }
        }
    }
}

/// A producer: sends its appends in order, each until it is answered.
pub async fn producer(world: Arc<World>, number: u64, appends: u64, known: Known) {
    let mut id = u128::from(world.draw(u64::MAX)) << 8 | u128::from(number);
    let (mut ordinal, mut done) = (0, 0);
    let mut answered: Option<String> = None;
    while done < appends {
        let rows = 1 + world.draw(3);
        let texts: Vec<String> = (0..rows).map(|row| format!("p{number}.{done}.{id:x}.{row}")).collect();
        // Whether every owner that was asked has said no.
        let mut is_denied = true;
        loop {
            let appender = pick(&world, &known);
            let Some(appender) = appender else {
                world.executor.sleep_us(100_000).await;
                continue;
            };
            let append =
                Append { producer: Some((id, ordinal)), records: block(&texts), packed: None, digest: None };
            let patience_us = 200_000 + world.draw(20_000_000);
            let answer = match world.variant {
                Some(Variant::AnsweredEarly) if world.percent(30) => {
                    let sent = Box::pin(appender.append(append));
                    // Handed over, and nobody waits.
                    let _ = select(sent, Box::pin(world.executor.sleep_us(1_000))).await;
                    Some(Ok(Appended::Known))
                }
                _ => {
                    let answered = Box::pin(appender.append(append));
                    match select(answered, Box::pin(world.executor.sleep_us(patience_us))).await {
                        Either::Left((answer, _)) => Some(answer),
                        Either::Right(_) => None,
                    }
                }
            };
            match answer {
                Some(Ok(appended)) => {
                    let is_known = appended == Appended::Known;
                    world.state().oracle.answered(&texts, is_known);
                    ordinal += 1;
                    answered = texts.first().cloned();
                    break;
                }
                Some(Err(error)) if error.fault == AppendFault::UnknownProducer => {
                    // The log was created again: begin anew, with other records, for these may be in the one that is gone.
                    world.note(|| format!("producer {number} is not known any more"));
                    if let Some(text) = answered.take() {
                        world.state().oracle.forgotten(&text);
                    }
                    (id, ordinal) = (id + (1 << 96), 0);
                    break;
                }
                Some(Err(error)) => {
                    is_denied &= error.effect == Effect::None;
                    if error.fault == AppendFault::Gap {
                        world
                            .state()
                            .oracle
                            .violate(format!("L5: an append that was answered is not known: {error}"));
                        break;
                    }
                    if is_denied {
                        world.state().oracle.denied(&texts);
                    }
                }
                None => is_denied = false,
            }
            if world.variant == Some(Variant::RepeatIsAnotherAppend) && !is_denied {
                (id, ordinal) = (id + (1 << 96), 0);
            }
            world.executor.sleep_us(50_000 + world.draw(500_000)).await;
        }
        done += 1;
        if world.percent(30) {
            world.executor.sleep_us(world.draw(3_000_000)).await;
        }
    }
    world.note(|| format!("producer {number} is done"));
}

/// The owner that became ready last, or now and then an earlier one: one that was late is fenced by then, and nobody starts another.
fn pick(world: &World, known: &Known) -> Option<Appender> {
    let known = known.lock().expect("no panic");
    let last = known.len().checked_sub(1)?;
    let back = if last > 0 && world.percent(15) { 1 + world.draw(last as u64) as usize } else { 0 };
    Some(known[last - back].1.clone())
}

/// Records of these texts.
pub fn block(texts: &[String]) -> RecordBlock {
    let mut builder = BlockBuilder::new(Partition::new("any", 0), 0);
    for (row, text) in texts.iter().enumerate() {
        builder.push(row as u64, row as i64, Some(text.as_bytes()));
    }
    builder.take()
}

/// What a consumer's own journal says: the queue, and the next position.
pub type Journal = Arc<std::sync::Mutex<Option<(QueueId, u64)>>>;

/// A consumer: reads on from where its journal is, and acknowledges what is in it.
pub async fn consumer(world: Arc<World>, pid: Pid, name: String, journal: Journal) {
    loop {
        let ended = consume(&world, pid, &name, &journal).await;
        world.note(|| format!("{name} ({pid}) ended: {ended:?}"));
        match ended {
            Err(LogError::Recreated { .. }) if world.variant == Some(Variant::IdentityIgnored) => {
                let mut journal = journal.lock().expect("no panic");
                if let (Some((queue, _)), Some(root)) = (journal.as_mut(), world.state().oracle.present()) {
                    *queue = root.queue_id();
                }
            }
            // An operator has looked, and begins with the new log.
            Err(LogError::Recreated { .. }) => *journal.lock().expect("no panic") = None,
            Err(LogError::Truncated { low, .. }) if world.plan.drops_unread() => {
                if let Some((_, next)) = journal.lock().expect("no panic").as_mut() {
                    *next = low;
                }
            }
            Err(
                error @ (LogError::Truncated { .. }
                | LogError::Beyond { .. }
                | LogError::Missing { .. }
                | LogError::Format { .. }),
            ) => {
                // An object may be gone because the log is.
                let is_present = {
                    let state = world.state();
                    let queue = journal.lock().expect("no panic").map(|(queue, _)| queue);
                    state.oracle.present().is_some_and(|root| Some(root.queue_id()) == queue)
                };
                if is_present {
                    world.state().oracle.violate(format!("L6: {name} cannot read on: {error}"));
                }
            }
            Ok(()) | Err(_) => {}
        }
        world.executor.sleep_us(300_000).await;
    }
}

async fn consume(world: &Arc<World>, pid: Pid, name: &str, journal: &Journal) -> Result<(), LogError> {
    let partition = world.partition(pid);
    let begun = *journal.lock().expect("no panic");
    let (queue, from) = match begun {
        Some(begun) => begun,
        None => {
            let root = partition.root().await?.root;
            (root.queue_id(), root.low)
        }
    };
    let mut acknowledger = Acknowledger::claim(partition.clone(), name, queue).await?;
    let mut reader = LogReader::open(partition.clone(), Partition::new("log", 0), queue, from).await;
    if matches!(reader, Err(LogError::Truncated { .. })) && begun.is_none() {
        // Between the look at the root and the claim.
        let low = partition.root().await?.root.low;
        reader = LogReader::open(partition.clone(), Partition::new("log", 0), queue, low).await;
    }
    let mut reader = reader?;
    loop {
        match reader.next().await? {
            Read::Block(block) => {
                let expected =
                    journal.lock().expect("no panic").filter(|(of, _)| *of == queue).map(|(_, next)| next);
                world.state().oracle.read(name, queue, expected.unwrap_or(block.positions[0]), &block);
                let next = dataflow::position::low(block.next);
                if world.variant == Some(Variant::AcknowledgedEarly) {
                    acknowledger.acknowledge(next).await?;
                }
                // The work on it takes its time; then it is in the journal, in one step.
                world.executor.sleep_us(world.draw(400_000)).await;
                *journal.lock().expect("no panic") = Some((queue, next));
                world.state().oracle.done.insert((name.to_owned(), queue), next);
                if world.percent(50) {
                    acknowledger.acknowledge(next).await?;
                }
            }
            Read::CaughtUp(next) => {
                // What is not in the journal is not acknowledged.
                let done = journal.lock().expect("no panic").filter(|(of, _)| *of == queue);
                acknowledger.acknowledge(done.map_or(0, |(_, done)| done.min(next))).await?;
                world.executor.sleep_us(200_000).await;
            }
        }
    }
}

/// Spawns a task of the world.
pub fn spawn(world: &Arc<World>, pid: Pid, task: impl Future<Output = ()> + Send + 'static) {
    world.executor.spawn(pid, Box::pin(task));
}

/// Spawns a task that nothing kills.
pub fn spawn_world(world: &Arc<World>, task: impl Future<Output = ()> + Send + 'static) {
    spawn(world, WORLD, task);
}
