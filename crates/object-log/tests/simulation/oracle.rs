//! What must hold, checked whenever the store changes and whenever anybody is told something.
//!
//! Owns an account of its own of what was promised, and the rules L1 to L9. Does not own what happens (`drive`, `actors`), nor any code of
//! the log but its names and the reading of its bytes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dataflow::{Partition, RecordBlock};
use object_log::names::{Names, QueueId, Written};
use object_log::object;
use object_log::root::{Claim, ROOT_BYTES_MAX, Root};
use store::{Key, Prefix};

use crate::drive::Plan;
use crate::executor::{Pid, WALL_BEGIN_MS};

/// Violations that are kept; a broken log has thousands.
const KEPT: usize = 10;

/// A stamp of the true time and what a clock may be off by, both ways and at both ends.
const SKEW_US: u64 = 2 * 1_000 * crate::drive::SKEW_MS as u64;

/// What became of a position.
#[derive(Clone, Debug, PartialEq)]
struct Record {
    text: String,
    committed_us: u64,
    /// The time that its commit was given by its owner's clock.
    stamp_us: u64,
}

/// An owner's note, by a reading of its own: the queue, and from where on labels are needed, if they are.
#[derive(Clone, Copy, Debug)]
pub struct Noted {
    queue: QueueId,
    epoch: u64,
    position: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct NoteRegister {
    #[prost(bytes = "vec", tag = "1")]
    queue: Vec<u8>,
    #[prost(uint64, tag = "2")]
    epoch: u64,
    #[prost(uint64, tag = "5")]
    position: u64,
    #[prost(bytes = "vec", tag = "6")]
    body: Vec<u8>,
}

impl Noted {
    /// What a note's register says; nothing if no files are followed.
    pub fn read(bytes: &Bytes) -> Option<Self> {
        let register = <NoteRegister as prost::Message>::decode(&bytes[4..bytes.len() - 4]).ok()?;
        let queue = QueueId(u128::from_be_bytes(register.queue.try_into().ok()?));
        let NoteRegister { epoch, position, .. } = register;
        (register.body.first() == Some(&1)).then_some(Self { queue, epoch, position })
    }
}

pub struct Oracle {
    pub violations: Vec<String>,
    is_told: bool,
    age_max_us: Option<u64>,
    keep_min_us: u64,
    bytes_max: Option<u64>,
    /// For how long a name is known, and what clocks of this run may be off by; `None` where one is a day ahead.
    window_us: u64,
    skew_us: Option<u64>,
    lines_of_files: Vec<u64>,
    names: Names,
    present: Option<Root>,
    records: BTreeMap<(QueueId, u64), Record>,
    texts: BTreeMap<(QueueId, String), u64>,
    objects: BTreeMap<String, u64>,
    /// Bytes of objects by the position at which they end.
    sizes: BTreeMap<(QueueId, u64), u64>,
    /// The position and stamp of each record of a request with a name, where it is for the last time.
    named: BTreeMap<(QueueId, String), (u64, u64)>,
    /// When an owner last began with a request of this name.
    begun: BTreeMap<String, u64>,
    /// How many lines of each file are in the log.
    lines: BTreeMap<(QueueId, usize), u64>,
    claims: BTreeSet<(QueueId, u64)>,
    pub claimed: u64,
    pub recreated: u64,
    pub read: u64,
    pub answered: u64,
    pub known: u64,
    pub followed: u64,
    pub notes: u64,
    pub dropped_by_bytes: u64,
    /// How far each consumer has truly come, by its name and the queue.
    pub done: BTreeMap<(String, QueueId), u64>,
}

impl Oracle {
    pub fn new(plan: &Plan, is_told: bool) -> Self {
        Self {
            violations: Vec::new(),
            is_told,
            age_max_us: plan.settings.retention.age_max.map(|age| age.as_micros() as u64),
            keep_min_us: plan.settings.retention.keep_min.map_or(0, |keep| keep.as_micros() as u64),
            bytes_max: plan.settings.retention.bytes_max,
            window_us: plan.window_ms.unsigned_abs() * 1_000,
            skew_us: plan.skew_us(),
            lines_of_files: plan.files.iter().map(|file| file.lines).collect(),
            names: Names::new(&Prefix::new("log").expect("a prefix"), 0).expect("short"),
            present: None,
            records: BTreeMap::new(),
            texts: BTreeMap::new(),
            objects: BTreeMap::new(),
            sizes: BTreeMap::new(),
            named: BTreeMap::new(),
            begun: BTreeMap::new(),
            lines: BTreeMap::new(),
            claims: BTreeSet::new(),
            claimed: 0,
            recreated: 0,
            read: 0,
            answered: 0,
            known: 0,
            followed: 0,
            notes: 0,
            dropped_by_bytes: 0,
            done: BTreeMap::new(),
        }
    }

    pub fn note(&self, now_us: u64, text: impl FnOnce() -> String) {
        if self.is_told {
            println!("{:>12.6} {}", now_us as f64 / 1e6, text());
        }
    }

    pub fn violate(&mut self, what: String) {
        if self.violations.len() < KEPT {
            self.violations.push(what);
        }
    }

    /// The root was deleted: what comes next is another log.
    pub fn deleted_root(&mut self) {
        self.present = None;
        self.recreated += 1;
    }

    pub fn present(&self) -> Option<&Root> {
        self.present.as_ref()
    }

    /// A root was swapped in.
    pub fn swapped(&mut self, now_us: u64, pid: Pid, bytes: &Bytes, objects: &BTreeMap<String, Bytes>) {
        if bytes.len() as u64 > ROOT_BYTES_MAX {
            self.violate(format!("L8: the root has {} bytes", bytes.len()));
        }
        let root = match Root::from_bytes(bytes) {
            Ok(root) => root,
            Err(error) => {
                return self.violate(format!("L1: process {pid} wrote a root that cannot be read: {error}"));
            }
        };
        self.note(now_us, || {
            format!(
                "    root: epoch {} low {} cleaned {} next {} by {pid}",
                root.epoch, root.low, root.cleaned, root.next
            )
        });
        let queue = root.queue_id();
        let before = self.present.take().filter(|before| before.queue == root.queue);
        if before.is_none() && self.claims.iter().any(|(known, _)| *known == queue) {
            self.violate(format!("L9: queue {queue} is there for the second time"));
        }
        self.check_claim(before.as_ref(), &root);
        if let Some(before) = &before {
            self.check_low(now_us, before, &root);
        }
        let from = before.map_or(0, |before| before.next);
        for entry in root.tail.iter().filter(|entry| entry.first >= from) {
            if (entry.epoch, entry.run) != (root.epoch, root.run) {
                self.violate(format!(
                    "L4: an object of epoch {} entered the log in epoch {}",
                    entry.epoch, root.epoch
                ));
            }
            let key = self.names.object(queue, entry.written()).to_string();
            let Some(bytes) = objects.get(&key) else {
                self.violate(format!("L2: `{key}` is committed and not there"));
                continue;
            };
            if self.objects.insert(key.clone(), entry.end()).is_some() {
                self.violate(format!("L3: `{key}` is committed twice"));
            }
            self.sizes.insert((queue, entry.end()), entry.bytes);
            let stamp_us = entry.stamp_ms.saturating_sub(WALL_BEGIN_MS).max(0).unsigned_abs() * 1_000;
            let shown = Partition::new("log", 0);
            let blocks = object::decode(queue, entry, bytes).and_then(|object| {
                object.frames.iter().map(|frame| frame.block(&shown)).collect::<Result<Vec<_>, _>>()
            });
            match blocks {
                Err(error) => self.violate(format!("L2: `{key}` is committed, and {error}")),
                Ok(blocks) => blocks
                    .iter()
                    .for_each(|block| self.committed((now_us, stamp_us), (queue, root.low), block)),
            }
        }
        self.present = Some(root);
    }

    fn check_claim(&mut self, before: Option<&Root>, root: &Root) {
        let is_new = before.is_none_or(|before| before.claim() != root.claim());
        if is_new {
            self.claimed += 1;
            let follows = before.map_or(root.epoch == 1, |before| root.epoch == before.epoch + 1);
            if !follows || !self.claims.insert((root.queue_id(), root.epoch)) {
                self.violate(format!(
                    "L4: epoch {} was claimed behind {:?}",
                    root.epoch,
                    before.map(Root::claim)
                ));
            }
        }
        let falls = |before: &Root| {
            before.next > root.next
                || before.low > root.low
                || before.cleaned > root.cleaned
                || before.revision >= root.revision
        };
        if before.is_some_and(falls) {
            let what = |root: &Root| (root.revision, root.low, root.cleaned, root.next);
            self.violate(format!("L1: the root went back from {:?} to {:?}", before.map(what), what(root)));
        }
    }

    /// L7: what goes has been done by every consumer and was kept for as long as names need, or is old, or is beyond the bytes.
    fn check_low(&mut self, now_us: u64, before: &Root, root: &Root) {
        for position in before.low..root.low {
            let queue = root.queue_id();
            let is_done = !root.consumers.is_empty()
                && root
                    .consumers
                    .iter()
                    .all(|name| self.done.get(&(name.clone(), queue)).is_some_and(|done| *done > position));
            let is_old = self.age_max_us.is_some_and(|age_max_us| {
                let record = self.records.get(&(queue, position));
                record.is_none_or(|record| record.committed_us + age_max_us < now_us + SKEW_US)
            });
            let is_beyond = self.bytes_max.is_some_and(|bytes_max| {
                // The first that ends behind the position holds it.
                let mut from = self.sizes.range((queue, position + 1)..=(queue, u64::MAX));
                from.next().is_some() && from.map(|(_, bytes)| bytes).sum::<u64>() >= bytes_max
            });
            let is_kept = self.skew_us.is_some_and(|skew_us| {
                let record = self.records.get(&(queue, position));
                record.is_some_and(|record| record.stamp_us + self.keep_min_us > now_us + skew_us)
            });
            match (is_done, is_kept) {
                _ if is_old => {}
                _ if is_beyond => self.dropped_by_bytes += 1,
                (true, false) => {}
                (true, true) => {
                    return self.violate(format!("L7: position {position} went before its name was old"));
                }
                (false, _) => {
                    return self.violate(format!(
                        "L7: position {position} went before {:?} had done it",
                        root.consumers
                    ));
                }
            }
        }
    }

    fn committed(
        &mut self,
        (now_us, stamp_us): (u64, u64),
        (queue, low): (QueueId, u64),
        block: &RecordBlock,
    ) {
        for row in 0..block.len() {
            let (position, text) = (block.positions[row], text(block, row));
            self.note(now_us, || format!("    {position}: {text}"));
            let before = self.texts.insert((queue, text.clone()), position);
            if text.starts_with('n') {
                self.named(&text, (queue, low), (position, stamp_us));
            } else if let Some(at) = before {
                self.violate(format!("L3: `{text}` is in the log at {at} and at {position}"));
            }
            if let Some(file) = text.strip_prefix('f') {
                self.line(file, queue);
            }
            let record = Record { text, committed_us: now_us, stamp_us };
            if let Some(other) = self.records.insert((queue, position), record) {
                self.violate(format!("L9: position {position} was `{}` before", other.text));
            }
        }
    }

    /// L3 of names: a request is in the log once, as long as its name is known and its records are held.
    fn named(&mut self, text: &str, (queue, low): (QueueId, u64), (position, stamp_us): (u64, u64)) {
        let name = text.rsplit_once('.').expect("a name and a row").0;
        let begun_us = self.begun.get(name).copied().unwrap_or(0);
        let before = self.named.insert((queue, text.to_owned()), (position, stamp_us));
        let (Some((at, stamp_us)), Some(skew_us)) = (before, self.skew_us) else { return };
        if at >= low && begun_us + skew_us < stamp_us + self.window_us {
            self.violate(format!(
                "L3: `{text}` is in the log at {at} and at {position}, which was asked for {} ms behind it",
                begun_us.saturating_sub(stamp_us) / 1_000
            ));
        }
    }

    /// L5 of files: each line once, in its order, and none is left out.
    fn line(&mut self, text: &str, queue: QueueId) {
        self.followed += 1;
        let (file, line) = text.split_once('.').expect("a file and a line");
        let (file, line): (usize, u64) = (file.parse().expect("a number"), line.parse().expect("a number"));
        let next = self.lines.entry((queue, file)).or_insert(0);
        let expected = std::mem::replace(next, line + 1);
        if line != expected {
            self.violate(format!("L5: line {line} of file {file} is in the log, where {expected} was due"));
        }
    }

    /// An owner begins with a request of this name.
    pub fn begins(&mut self, name: &str, now_us: u64) {
        self.begun.insert(name.to_owned(), now_us);
    }

    /// Whether all lines of all files are in the present log.
    pub fn has_all_lines(&self) -> bool {
        let Some(root) = &self.present else { return false };
        let has = |file: usize| self.lines.get(&(root.queue_id(), file)).copied().unwrap_or(0);
        self.lines_of_files.iter().enumerate().all(|(file, lines)| has(file) == *lines)
    }

    /// Whether the present owner has written a note.
    pub fn is_of_present(&self, noted: &Noted) -> bool {
        self.present.as_ref().is_some_and(|root| root.claim().epoch == noted.epoch)
    }

    /// An object was deleted, when the log had this note.
    pub fn deleted(&mut self, pid: Pid, name: &str, was_there: bool, noted: Option<Noted>) {
        let Some(root) = &self.present else { return };
        let Some((queue, _)) = self.names.parse(&Key::new(name).expect("a key")) else { return };
        let is_noted = |noted: Noted| {
            noted.queue == queue && self.objects.get(name).is_some_and(|end| *end > noted.position)
        };
        if was_there && queue == root.queue_id() && noted.is_some_and(is_noted) {
            let told = format!("L6: process {pid} deleted `{name}`, whose labels are behind {noted:?}");
            return self.violate(told);
        }
        let is_held = self.objects.get(name).is_some_and(|end| *end > root.low);
        if was_there && queue == root.queue_id() && is_held {
            self.violate(format!("L6: process {pid} deleted `{name}`, which is in the log"));
        }
    }

    /// A producer was told that its records are in the log.
    pub fn answered(&mut self, texts: &[String], is_known: bool) {
        self.answered += 1;
        self.known += u64::from(is_known);
        for text in texts {
            if !self.is_in_a_log(text) {
                self.violate(format!("L5: `{text}` was answered, and is in no log"));
            }
        }
    }

    /// A producer was told that its records are not in the log, by every owner that it has asked.
    pub fn denied(&mut self, texts: &[String]) {
        for text in texts {
            if self.is_in_a_log(text) {
                self.violate(format!("L5: `{text}` was said not to be in the log, and is"));
            }
        }
    }

    /// A producer was told that nothing is known of it, which had an answer for `text` before.
    pub fn forgotten(&mut self, text: &str) {
        let queue = self.present.as_ref().map(Root::queue_id);
        if queue.is_some_and(|queue| self.texts.contains_key(&(queue, text.to_owned()))) {
            self.violate(format!(
                "L3: the producer of `{text}` is in the log, and its watermark is not known"
            ));
        }
    }

    fn is_in_a_log(&self, text: &str) -> bool {
        let queues: BTreeSet<QueueId> = self.claims.iter().map(|(queue, _)| *queue).collect();
        queues.into_iter().any(|queue| self.texts.contains_key(&(queue, text.to_owned())))
    }

    /// A consumer was given records of a queue, or of what it takes for it.
    pub fn read(&mut self, consumer: &str, queue: QueueId, expected: u64, block: &RecordBlock) {
        let mut expected = expected;
        for row in 0..block.len() {
            self.read += 1;
            let (position, text) = (block.positions[row], text(block, row));
            if position != expected {
                self.violate(format!("L1: {consumer} was given {position} where {expected} was due"));
            }
            expected = position + 1;
            match self.records.get(&(queue, position)) {
                Some(record) if record.text == text => {}
                other => self
                    .violate(format!("L9: {consumer} read `{text}` at {position}, where there is {other:?}")),
            }
        }
    }

    /// What is stored once all is quiet: nothing but what the log has, and what its present owner may commit.
    pub fn quiet(&mut self, objects: &BTreeMap<String, Bytes>) {
        let Some(root) = self.present.clone() else {
            return self.violate("there is no log at the end".into());
        };
        // All is acknowledged, and older than anything is kept for.
        if root.cleaned != root.next {
            self.violate(format!(
                "L6: all {} records are acknowledged and old, and only {} are gone, {} of them deleted",
                root.next, root.low, root.cleaned
            ));
        }
        let present = root.claim();
        for name in objects.keys().filter(|name| name.contains("/data/")) {
            let Some((queue, Written { epoch, run, .. })) =
                self.names.parse(&Key::new(name.clone()).expect("a key"))
            else {
                continue;
            };
            let is_held =
                queue == root.queue_id() && self.objects.get(name).is_some_and(|end| *end > root.cleaned);
            if !is_held && (queue != root.queue_id() || Claim { epoch, run } != present) {
                self.violate(format!("L6: `{name}` is an orphan that no sweep has found"));
            }
        }
        for (key, end) in &self.objects.clone() {
            let (queue, _) = self.names.parse(&Key::new(key.clone()).expect("a key")).expect("ours");
            if queue == root.queue_id() && *end > root.low && !objects.contains_key(key) {
                self.violate(format!("L6: `{key}` is in the log and not there"));
            }
        }
    }
}

pub fn text(block: &RecordBlock, row: usize) -> String {
    String::from_utf8_lossy(block.payloads.get(row)).into_owned()
}
