//! The simulated store, and the world around it: what is there, and what goes wrong on the way.
//!
//! Owns time, what is there, and what goes wrong on the way. Does not own which faults a run has (`drive`), nor the rules of a store
//! (`store::conformance`).
//!
//! A request takes its time there and back. Its answer may be lost although it was done; it may be done long after the caller has given up
//! ("a sleeper in the network"); or it may be lost on the way there. A process that dies does not take its requests with it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use dataflow::Effect;
use futures::future::{Either, select};
use store::{Entry, ErrorKind, Key, Operation, Prefix, Put, Store, StoreError, Swap, Tag};

use crate::drive::Plan;
use crate::executor::{Executor, Pid, WORLD};
use crate::names::Door;
use crate::oracle::{Noted, Oracle};
use crate::random::Random;
use crate::variant::Variant;

/// A caller gives a request up after this.
const GIVEN_UP_US: u64 = 3_000_000;

pub struct World {
    pub executor: Executor,
    pub plan: Plan,
    pub variant: Option<Variant>,
    /// Owners that take requests with names, newest last.
    pub doors: Mutex<Vec<Door>>,
    state: Mutex<State>,
}

/// The register that owners note in.
const NOTE: &str = "log/p/0/note";

pub struct State {
    pub random: Random,
    pub objects: BTreeMap<String, Bytes>,
    pub registers: BTreeMap<String, (Bytes, u64)>,
    pub swaps: u64,
    pub away_until_us: u64,
    pub is_healed: bool,
    pub oracle: Oracle,
    pub lost: u64,
    pub deletes: u64,
    /// What each process has read first of the owners' note: as it started.
    pub notes_read: BTreeMap<Pid, Option<Bytes>>,
}

impl World {
    pub fn new(executor: Executor, plan: Plan, variant: Option<Variant>, is_told: bool) -> Arc<Self> {
        let state = State {
            random: Random::new(plan.seed, 7),
            objects: BTreeMap::new(),
            registers: BTreeMap::new(),
            swaps: 0,
            away_until_us: 0,
            is_healed: false,
            oracle: Oracle::new(&plan, is_told),
            lost: 0,
            deletes: 0,
            notes_read: BTreeMap::new(),
        };
        Arc::new(Self { executor, plan, variant, doors: Mutex::default(), state: Mutex::new(state) })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, text: impl FnOnce() -> String) {
        let now_us = self.executor.now_us();
        self.state().oracle.note(now_us, text);
    }

    pub fn draw(&self, bound: u64) -> u64 {
        self.state().random.below(bound)
    }

    pub fn percent(&self, share: u64) -> bool {
        self.state().random.percent(share)
    }

    pub fn store(self: &Arc<Self>, pid: Pid) -> Arc<dyn Store> {
        Arc::new(SimStore { world: self.clone(), pid })
    }
}

/// The store as one process sees it.
struct SimStore {
    world: Arc<World>,
    pid: Pid,
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimStore({})", self.pid)
    }
}

/// What becomes of one request.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Plain,
    LostThere,
    LostBack,
    Sleeps(u64),
}

impl SimStore {
    async fn request<T: Send + 'static>(
        &self,
        operation: Operation,
        key: &str,
        apply: impl FnOnce(&mut State, u64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let world = self.world.clone();
        let is_write = matches!(operation, Operation::Put | Operation::Delete);
        let (there_us, back_us, way, is_away) = {
            let mut state = world.state();
            let share = if state.is_healed { 0 } else { world.plan.faults_percent };
            let way = match state.random.below(100) {
                n if n >= share => Way::Plain,
                n if n % 3 == 0 => Way::LostThere,
                n if n % 3 == 1 => Way::LostBack,
                _ => Way::Sleeps(state.random.between(1_000_000, 60_000_000)),
            };
            let way = if matches!(way, Way::Sleeps(_)) && !is_write { Way::Plain } else { way };
            state.lost += u64::from(way != Way::Plain);
            let is_away = world.executor.now_us() < state.away_until_us;
            (state.random.between(500, 60_000), state.random.between(500, 20_000), way, is_away)
        };
        let failed =
            |effect| StoreError::new(ErrorKind::Io, operation, key, "made to fail").with_effect(effect);
        if is_away {
            world.executor.sleep_us(there_us).await;
            return Err(failed(Effect::None));
        }
        let (answer, answered) = tokio::sync::oneshot::channel();
        let (inner, pid, name) = (world.clone(), self.pid, key.to_owned());
        // The network goes on, whatever becomes of the process.
        world.executor.spawn(
            WORLD,
            Box::pin(async move {
                inner.executor.sleep_us(there_us).await;
                if way == Way::LostThere {
                    return;
                }
                if let Way::Sleeps(us) = way {
                    inner.executor.sleep_us(us).await;
                }
                let now_us = inner.executor.now_us();
                let result = {
                    let mut state = inner.state();
                    state.oracle.note(now_us, || {
                        format!(
                            "{pid} {operation} `{name}`{}",
                            if way == Way::Plain { "" } else { " (in trouble)" }
                        )
                    });
                    apply(&mut state, now_us)
                };
                inner.executor.sleep_us(back_us).await;
                if way != Way::LostBack {
                    let _ = answer.send(result);
                }
            }),
        );
        match select(answered, Box::pin(world.executor.sleep_us(GIVEN_UP_US))).await {
            Either::Left((Ok(result), _)) => result,
            // A task that has dropped its answer: the caller waits as for any other.
            Either::Left((Err(_), sleep)) => {
                sleep.await;
                Err(failed(if is_write { Effect::Unknown } else { Effect::None }))
            }
            Either::Right(_) => Err(failed(if is_write { Effect::Unknown } else { Effect::None })),
        }
    }
}

#[async_trait]
impl Store for SimStore {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        let (name, bytes) = (key.to_string(), Bytes::from(body.concat()));
        let bytes = match self.world.variant {
            Some(Variant::HalfAnObject) if name.contains("/data/") => bytes.slice(..bytes.len() - 1),
            _ => bytes,
        };
        let put = self.request(Operation::Put, key.as_str(), move |state, _| {
            if state.objects.contains_key(&name) {
                return Ok(Put::Exists);
            }
            state.objects.insert(name, bytes);
            Ok(Put::Created)
        });
        match (put.await, self.world.variant) {
            (Err(error), Some(Variant::LostPutIsCreated)) if error.effect == Effect::Unknown => {
                Ok(Put::Created)
            }
            (result, _) => result,
        }
    }

    async fn get(&self, key: &Key, _bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        let name = key.to_string();
        let lies = self.world.variant == Some(Variant::SegmentLosesAnEntry) && name.contains("/segments/");
        let found =
            self.request(Operation::Get, key.as_str(), move |state, _| Ok(state.objects.get(&name).cloned()));
        found.await.map(|found| found.map(|bytes| if lies { crate::variant::shorter(bytes) } else { bytes }))
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        let name = key.to_string();
        self.request(Operation::Get, key.as_str(), move |state, _| {
            let part = |bytes: &Bytes| {
                let at = |bound: u64| bytes.len().min(bound as usize);
                bytes.slice(at(range.start)..at(range.end))
            };
            Ok(state.objects.get(&name).map(part))
        })
        .await
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let (prefix, after) = (prefix.clone(), after.map(Key::to_string).unwrap_or_default());
        let name = prefix.to_string();
        self.request(Operation::List, &name, move |state, _| {
            let names = state.objects.iter().filter(|(name, _)| **name > after);
            let entries = names.map(|(name, bytes)| Entry {
                key: Key::new(name.clone()).expect("a key"),
                size_bytes: bytes.len() as u64,
            });
            Ok(entries.filter(|entry| prefix.contains(&entry.key)).take(limit).collect())
        })
        .await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        let (name, pid) = (key.to_string(), self.pid);
        self.request(Operation::Delete, key.as_str(), move |state, _| {
            let was_there = state.objects.remove(&name).is_some();
            state.deletes += u64::from(was_there);
            let note = state.registers.get(NOTE).map(|(bytes, _)| bytes);
            // One that a former owner has put behind this one's look binds nobody: who put it was fenced, and has appended nothing behind it.
            let is_known = state.notes_read.get(&pid).is_some_and(|read| read.as_ref() == note);
            let noted =
                note.and_then(Noted::read).filter(|noted| is_known || state.oracle.is_of_present(noted));
            state.oracle.deleted(pid, &name, was_there, noted);
            Ok(())
        })
        .await
    }

    async fn read_register(&self, key: &Key, _bytes_max: u64) -> Result<Option<(Bytes, Tag)>, StoreError> {
        let (name, pid) = (key.to_string(), self.pid);
        let found = self.request(Operation::Get, key.as_str(), move |state, _| {
            let found = state.registers.get(&name);
            if name == NOTE {
                state.notes_read.entry(pid).or_insert_with(|| found.map(|(bytes, _)| bytes.clone()));
            }
            Ok(found.map(|(bytes, swap)| (bytes.clone(), Tag::new(swap.to_string()))))
        });
        let found = found.await?;
        Ok(found.map(|(bytes, tag)| {
            let bytes = match self.world.variant {
                Some(Variant::AckOneAhead)
                    if key.as_str().contains("/acks/") && self.world.is_owner(self.pid) =>
                {
                    crate::variant::acked_ahead(bytes)
                }
                Some(Variant::WatermarksForgotten) if key.as_str().ends_with("/root") => {
                    crate::variant::without_watermarks(bytes)
                }
                _ => bytes,
            };
            (bytes, tag)
        }))
    }

    async fn compare_and_set(
        &self,
        key: &Key,
        expected: Option<&Tag>,
        body: Bytes,
    ) -> Result<Swap, StoreError> {
        let (name, pid, expected) = (key.to_string(), self.pid, expected.map(|tag| tag.as_str().to_owned()));
        let variant = self.world.variant;
        let is_root = name.ends_with("/root");
        let swap = self.request(Operation::Put, key.as_str(), move |state, now_us| {
            let found = state.registers.get(&name).map(|(_, swap)| swap.to_string());
            let is_expected = found == expected
                || (variant == Some(Variant::TagIgnored) && found.is_some() && expected.is_some());
            if !is_expected {
                return Ok(Swap::Refused);
            }
            state.swaps += 1;
            state.registers.insert(name.clone(), (body.clone(), state.swaps));
            let State { oracle, objects, swaps, .. } = state;
            if is_root {
                oracle.swapped(now_us, pid, &body, objects);
            }
            oracle.notes += u64::from(name.ends_with("/note"));
            Ok(Swap::Done(Tag::new(swaps.to_string())))
        });
        let result = swap.await;
        match (variant, result) {
            (Some(Variant::LostSwapIsDone), Err(error)) if is_root && error.effect == Effect::Unknown => {
                Ok(Swap::Done(Tag::new("unknown")))
            }
            (Some(Variant::RefusedSwapIsDone), Ok(Swap::Refused)) if is_root => {
                Ok(Swap::Done(Tag::new("unknown")))
            }
            (_, result) => result,
        }
    }

    async fn harden(&self, _prefix: &Prefix) -> Result<(), StoreError> {
        Ok(())
    }

    fn describe(&self) -> String {
        "sim://store".to_owned()
    }
}
