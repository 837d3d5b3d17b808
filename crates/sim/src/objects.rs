//! The simulated object store: a local disk with names that are not durable at once, or object storage.
//!
//! Owns the [`Store`] that the engine writes, within that trait's contract: what an answer promises is kept, and everything it
//! leaves open happens. One thing beyond it happens too: a proxy before the store may send a put twice, and then nobody is told that it was done. Does
//! not own what objects mean (`oracle`).
//!
//! | kind           | a put                                   | its process dies meanwhile | a loss of power                   |
//! |----------------|-----------------------------------------|----------------------------|-----------------------------------|
//! | local disk     | seen, then durable, then answered       | it stops where it was: a   | what was not durable may be gone, |
//! |                |                                         | torn file of another name  | what was deleted may be back      |
//! | object storage | seen and durable at once, then answered | it goes on                 | nothing                           |

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use dataflow::Effect;
use store::{Entry, ErrorKind, Key, LIST_LIMIT_MAX, Operation, Prefix, Put, Store, StoreError};

use crate::executor::{MOVER, Pid, REPLAYER, WORLD};
use crate::plan::PutFault;
use crate::replayer;
use crate::world::{State, World};

#[derive(Clone, Debug)]
struct Object {
    bytes: Bytes,
    is_durable: bool,
}

/// The simulated store: objects, and which of them a loss of power would take.
#[derive(Debug, Default)]
pub struct Objects {
    all: BTreeMap<String, Object>,
    /// Deleted since the last harden: a loss of power may bring them back.
    deleted: BTreeMap<String, Bytes>,
    is_local: bool,
    away_until_us: u64,
    full_until_us: u64,
    /// Changes when the content is replaced: what is under way then never lands.
    run: u64,
    /// The newer content, while an older copy stands in its place.
    set_aside: Option<BTreeMap<String, Object>>,
    /// Objects are written under their own names, and not under others until they are whole: a broken store.
    pub is_in_place: bool,
    /// While set, nothing becomes durable, and whoever asks for it is told so.
    is_sync_broken: bool,
    /// The process that was told so first, and when.
    pub sync_failed: Option<(Pid, u64)>,
    /// Processes that die in the middle of a put, with the time until they are started again.
    pub doomed: Vec<(Pid, u64)>,
    /// Whether the next put of a replay is the last thing that its process does: its name is there, and not durable.
    pub replayer_dies: bool,
}

impl Objects {
    /// An empty store.
    pub fn new(is_local: bool) -> Self {
        Self { is_local, ..Self::default() }
    }

    /// Nothing answers until then.
    pub fn away(&mut self, until_us: u64) {
        self.away_until_us = until_us;
    }

    /// Nothing is taken until then.
    pub fn full(&mut self, until_us: u64) {
        self.full_until_us = until_us;
    }

    /// From now on fsync fails.
    pub fn break_sync(&mut self) {
        self.is_sync_broken = true;
    }

    /// True while fsync fails.
    pub fn is_sync_broken(&self) -> bool {
        self.is_sync_broken
    }

    /// The disk is another one.
    pub fn mend_sync(&mut self) {
        (self.is_sync_broken, self.sync_failed) = (false, None);
    }

    /// The object's bytes, if it is durable.
    pub fn durable(&self, key: &str) -> Option<&Bytes> {
        self.all.get(key).filter(|o| o.is_durable).map(|o| &o.bytes)
    }

    /// True while the object stands there, and a loss of power may still take it.
    pub fn is_open(&self, key: &str) -> bool {
        self.all.get(key).is_some_and(|o| !o.is_durable)
    }

    /// A copy of everything that is durable.
    pub fn backup(&self) -> Backup {
        Backup(self.all.iter().filter(|(_, o)| o.is_durable).map(|(k, o)| (k.clone(), o.clone())).collect())
    }

    /// Puts an older copy in place of the content.
    pub fn roll_back(&mut self, backup: Backup) {
        self.run += 1;
        self.set_aside = Some(std::mem::replace(&mut self.all, backup.0));
    }

    /// True while an older copy stands in place of the content.
    pub fn is_rolled_back(&self) -> bool {
        self.set_aside.is_some()
    }

    /// Brings the newer content back.
    pub fn bring_back(&mut self) {
        self.run += 1;
        if let Some(all) = self.set_aside.take() {
            self.all = all;
        }
    }
}

/// An older copy of the store.
#[derive(Clone, Debug)]
pub struct Backup(BTreeMap<String, Object>);

impl State {
    fn create(&mut self, pid: Pid, key: &str, bytes: Bytes, is_durable: bool) {
        self.note("put", bytes.len() as u64, || format!("`{key}` by process {pid}, durable: {is_durable}"));
        if self.objects.is_rolled_back() {
            self.violate(
                "C5",
                format!("`{key}` was written into a store that is older than what was published"),
            );
        }
        self.objects.deleted.remove(key);
        if let Some((first, records)) = replayer::object(key, &bytes) {
            self.broker.replay(first, records);
        }
        self.objects.all.insert(key.to_owned(), Object { bytes, is_durable: false });
        if is_durable {
            self.make_durable(key);
        }
    }

    fn make_durable(&mut self, key: &str) {
        let Some(object) = self.objects.all.get_mut(key) else { return };
        if !std::mem::replace(&mut object.is_durable, true) {
            let bytes = object.bytes.clone();
            self.became_durable(key, &bytes);
        }
    }

    /// Power is lost: what was not durable may be gone, and what was deleted may be back.
    pub fn lose_power(&mut self) {
        self.objects.run += 1;
        let open: Vec<String> =
            self.objects.all.iter().filter(|(_, o)| !o.is_durable).map(|(k, _)| k.clone()).collect();
        for key in open {
            if self.random.percent(50) {
                self.note("vanished", 0, || format!("`{key}`"));
                if let (true, Some(first)) = (key.contains("/replays/"), protocol::names::number(&key)) {
                    self.broker.lose_replay(first);
                }
                self.objects.all.remove(&key);
            } else {
                self.make_durable(&key);
            }
        }
        for (key, bytes) in std::mem::take(&mut self.objects.deleted) {
            if self.random.percent(50) {
                self.note("back again", 0, || format!("`{key}`"));
                self.objects.all.insert(key, Object { bytes, is_durable: true });
            }
        }
    }
}

/// The store as one process sees it.
pub struct SimStore {
    /// Where it is.
    pub world: Arc<World>,
    /// Whose it is.
    pub pid: Pid,
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimStore({})", self.pid)
    }
}

fn error(kind: ErrorKind, operation: Operation, key: &str, effect: Effect) -> StoreError {
    StoreError::new(kind, operation, key, "made to fail").with_effect(effect)
}

impl SimStore {
    /// The process that a write lives and dies with.
    fn writer(&self) -> Pid {
        match self.pid {
            MOVER | REPLAYER => WORLD,
            pid if self.world.plan.is_local => pid,
            _ => WORLD,
        }
    }

    /// One read: it takes its time, sees the store at one instant of it, and may fail.
    async fn read<T>(
        &self,
        operation: Operation,
        key: &str,
        look: impl FnOnce(&mut State) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let fault = self.world.state().operations.read();
        self.world.pause(50, 1_500).await;
        let seen = {
            let mut state = self.world.state();
            let is_away = state.now_us() < state.objects.away_until_us;
            if is_away || fault == Some(None) {
                let effect = if operation == Operation::Delete { Effect::Unknown } else { Effect::None };
                state.note("store", 2, || format!("{operation} `{key}` by process {} fails", self.pid));
                Err(state.fail(ErrorKind::Io, operation, key, effect))
            } else {
                look(&mut state)
            }
        };
        if let Some(Some(slow_ms)) = fault {
            self.world.executor.sleep_us(slow_ms * 1_000).await;
        }
        self.world.pause(20, 800).await;
        seen
    }
}

/// What a put comes to at the instant when it takes effect.
enum Landing {
    Failed(ErrorKind, Effect),
    Never,
    Late(u64),
    Exists,
    Created,
}

/// A put on its way.
#[derive(Clone)]
struct Writing {
    pid: Pid,
    key: String,
    bytes: Bytes,
    /// The content that it is meant for.
    run: u64,
    fault: Option<PutFault>,
}

impl State {
    fn land(&mut self, put: &Writing) -> Landing {
        let now_us = self.now_us();
        let is_away = now_us < self.objects.away_until_us || put.run != self.objects.run;
        let (word, landing) = match put.fault {
            _ if is_away => ("is refused", Landing::Failed(ErrorKind::Io, Effect::None)),
            Some(PutFault::Refused) => ("is refused", Landing::Failed(ErrorKind::Io, Effect::None)),
            _ if now_us < self.objects.full_until_us => {
                ("finds no room", Landing::Failed(ErrorKind::Full, Effect::None))
            }
            Some(PutFault::LostBefore) => {
                ("is lost, not done", Landing::Failed(ErrorKind::Io, Effect::Unknown))
            }
            Some(PutFault::LostLate(ms)) => ("is lost, and done later", Landing::Late(ms)),
            Some(PutFault::Torn(ms)) => {
                self.objects.doomed.push((put.pid, ms));
                if self.objects.is_in_place && !self.objects.all.contains_key(&put.key) {
                    self.create(put.pid, &put.key, put.bytes.slice(..put.bytes.len() / 2), true);
                }
                ("is cut short: its process dies", Landing::Never)
            }
            _ if self.objects.all.contains_key(&put.key) => ("comes after another", Landing::Exists),
            _ => {
                let is_durable = !self.objects.is_local;
                self.create(put.pid, &put.key, put.bytes.clone(), is_durable);
                return Landing::Created;
            }
        };
        self.note("store", 1, || format!("put `{}` by process {} {word}", put.key, put.pid));
        landing
    }

    /// Whether the process that has put a replay dies now.
    fn replayer_dies(&mut self, put: &Writing) -> bool {
        let dies = put.pid == REPLAYER
            && put.key.contains("/replays/")
            && std::mem::take(&mut self.objects.replayer_dies);
        if dies {
            self.note("fault", 0, || format!("the process that put `{}` dies", put.key));
            self.objects.doomed.push((put.pid, 0));
        }
        dies
    }

    fn sync_failed(&mut self, pid: Pid, operation: Operation, key: &str) -> StoreError {
        let now_us = self.now_us();
        self.note("store", 8, || format!("{operation} `{key}` by process {pid}: fsync fails"));
        if self.objects.sync_failed.is_none_or(|(first, _)| first != pid) {
            self.objects.sync_failed = Some((pid, now_us));
        }
        self.fail(ErrorKind::SyncFailed, operation, key, Effect::Unknown)
    }

    fn fail(&mut self, kind: ErrorKind, operation: Operation, key: &str, effect: Effect) -> StoreError {
        self.store_errors += 1;
        StoreError::new(kind, operation, key, "made to fail").with_effect(effect)
    }
}

/// One put, as a task of its own.
async fn put(world: Arc<World>, put: Writing) -> Result<Put, StoreError> {
    let failed = |kind, effect| Err(world.state().fail(kind, Operation::Put, &put.key, effect));
    world.pause(100, 2_500).await;
    if let Some(PutFault::Slow(ms)) = put.fault {
        world.executor.sleep_us(ms * 1_000).await;
    }
    let landing = world.state().land(&put);
    match landing {
        Landing::Failed(kind, effect) => return failed(kind, effect),
        // It lies where no list shows it, and the next process sweeps it away; on object storage it is nothing at all.
        Landing::Never => return std::future::pending().await,
        Landing::Late(ms) => {
            let (late, put) = (world.clone(), put.clone());
            world.spawn(async move {
                late.executor.sleep_us(ms * 1_000).await;
                let mut state = late.state();
                if state.objects.run == put.run && !state.objects.all.contains_key(&put.key) {
                    state.create(put.pid, &put.key, put.bytes, true);
                }
            });
            return failed(ErrorKind::Io, Effect::Unknown);
        }
        Landing::Exists => {
            world.pause(20, 800).await;
            return Ok(Put::Exists);
        }
        Landing::Created => {}
    }
    if world.state().replayer_dies(&put) {
        return std::future::pending().await;
    }
    if world.plan.is_local && put.fault != Some(PutFault::Unhardened) {
        world.pause(20, 600).await;
        let mut state = world.state();
        if state.objects.is_sync_broken {
            return Err(state.sync_failed(put.pid, Operation::Put, &put.key));
        }
        if state.objects.run == put.run {
            state.make_durable(&put.key);
        }
    }
    world.pause(20, 800).await;
    match put.fault {
        Some(PutFault::LostAfter | PutFault::Unhardened) => {
            world.state().note("store", 7, || format!("the answer to put `{}` is lost", put.key));
            failed(ErrorKind::Io, Effect::Unknown)
        }
        Some(PutFault::Twice) => {
            world
                .state()
                .note("store", 9, || format!("put `{}` was sent twice: it is there already", put.key));
            Ok(Put::Exists)
        }
        _ => Ok(Put::Created),
    }
}

#[async_trait]
impl Store for SimStore {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        let mut joined = BytesMut::new();
        body.iter().for_each(|piece| joined.extend_from_slice(piece));
        let writing = {
            let mut state = self.world.state();
            Writing {
                pid: self.pid,
                key: key.as_str().to_owned(),
                bytes: joined.freeze(),
                run: state.objects.run,
                fault: state.operations.put(),
            }
        };
        self.world.run_as(self.writer(), put(self.world.clone(), writing)).await
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        let found = self.read(Operation::Get, key.as_str(), |state| {
            Ok(state.objects.all.get(key.as_str()).map(|o| o.bytes.clone()))
        });
        let found = found.await?;
        match found {
            Some(bytes) if bytes.len() as u64 > bytes_max => {
                Err(error(ErrorKind::TooLarge, Operation::Get, key.as_str(), Effect::None))
            }
            found => Ok(found),
        }
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        let found = self.read(Operation::Get, key.as_str(), |state| {
            Ok(state.objects.all.get(key.as_str()).map(|o| o.bytes.clone()))
        });
        let Some(bytes) = found.await? else { return Ok(None) };
        if range.end > bytes.len() as u64 || range.start > range.end {
            return Err(error(ErrorKind::OutOfRange, Operation::Get, key.as_str(), Effect::None));
        }
        Ok(Some(bytes.slice(range.start as usize..range.end as usize)))
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let folder = match prefix.as_str() {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        self.read(Operation::List, prefix.as_str(), |state| {
            let from = after.map_or(folder.as_str(), |after| after.as_str().max(folder.as_str()));
            let keys = state.objects.all.range(from.to_owned()..);
            let below = keys.take_while(|(key, _)| key.starts_with(&folder));
            let after = below.filter(|(key, _)| after.is_none_or(|after| key.as_str() > after.as_str()));
            let entry = |(key, object): (&String, &Object)| Entry {
                key: Key::new(key.as_str()).expect("a key that was put"),
                size_bytes: object.bytes.len() as u64,
            };
            Ok(after.take(limit.min(LIST_LIMIT_MAX)).map(entry).collect())
        })
        .await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        let (key, pid) = (key.as_str().to_owned(), self.pid);
        self.read(Operation::Delete, &key, |state| {
            if let Some(object) = state.objects.all.remove(&key) {
                state.note("delete", 0, || format!("`{key}` by process {pid}"));
                if state.objects.is_local {
                    state.objects.deleted.insert(key.clone(), object.bytes);
                }
                state.was_deleted(&key);
            }
            Ok(())
        })
        .await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        let folder = format!("{}/", prefix.as_str());
        let pid = self.pid;
        self.read(Operation::Harden, prefix.as_str(), |state| {
            if state.objects.is_sync_broken {
                return Err(state.sync_failed(pid, Operation::Harden, &folder));
            }
            let below = |key: &&String| key.starts_with(&folder);
            let open: Vec<String> = state.objects.all.keys().filter(below).cloned().collect();
            open.iter().for_each(|key| state.make_durable(key));
            state.objects.deleted.retain(|key, _| !key.starts_with(&folder));
            Ok(())
        })
        .await
    }

    fn describe(&self) -> String {
        "sim://".to_owned()
    }
}
