//! How far files were read, noted outside of the store.
//!
//! A broker keeps the positions that a pipeline publishes, and so shows that a store was rolled back to an older copy. A file keeps
//! nothing: every row since that copy would be read and written a second time. So the positions of a source of files are noted in the
//! user's folder for state (`$XDG_STATE_HOME/forebay/read`, or below `~/.local/state`), which a copy of the store does not hold.
//!
//! Owns the note and when it counts. Does not own what follows from it (`engine::start::open`): the source says what it has
//! "published", as a broker does.
//!
//! | the note and the journal                               | what is shown as published |
//! |--------------------------------------------------------|----------------------------|
//! | no note, or one that cannot be read                    | nothing                    |
//! | there is no journal: the table is asked instead        | nothing; the note goes     |
//! | the same file was read further than the journal says   | its position               |
//! | a file that the journal has never heard of             | its position               |
//! | all else                                               | nothing                    |
//!
//! It proves nothing on another machine, which has notes of its own even where the folder is shared, for another user, or where there is no such folder; it is never needed to go on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use dataflow::{
    Event, Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Source, SourceError, Streams,
};
use engine::problem::SOURCE;
use protocol::Lane;
use serde::{Deserialize, Serialize};
use store::Store;

/// Bytes of a note that is read: a hundred thousand files with long names.
const NOTE_BYTES_MAX: u64 = 32 << 20;

/// Where the system says which machine this is.
const MACHINE: &str = "/etc/machine-id";

/// Where a lane's note lies.
#[derive(Clone, Debug)]
pub struct Note {
    path: PathBuf,
    store: String,
    lane: String,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    /// What the note is about: the name of its file is only a checksum of it.
    store: String,
    lane: String,
    read: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    stream: String,
    index: u32,
    identity: String,
    /// Records below were sealed.
    next: Position,
}

impl Note {
    /// The note for an input of a lane of a store; `None` where there is no folder for it.
    pub fn of(store: &dyn Store, lane: &str, input: &str) -> Option<Self> {
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
        Some(Self::below(&state, &on_machine(store.describe(), Path::new(MACHINE)), lane, input))
    }

    fn below(state: &Path, store: &str, lane: &str, input: &str) -> Self {
        let (name, of_input) = match input {
            SOURCE => (lane.replace('/', "."), String::new()),
            _ => (format!("{}.{input}", lane.replace('/', ".")), format!("\n{input}")),
        };
        let sum = crc32c::crc32c(format!("{store}\n{lane}{of_input}").as_bytes());
        let name = format!("{name}-{sum:08x}.json");
        let path = state.join("forebay/read").join(name);
        Self { path, store: store.to_owned(), lane: lane.to_owned() }
    }

    fn read(&self) -> Vec<Entry> {
        let is_small = std::fs::metadata(&self.path).is_ok_and(|found| found.len() <= NOTE_BYTES_MAX);
        let bytes = if is_small { std::fs::read(&self.path).unwrap_or_default() } else { Vec::new() };
        // A note that is damaged or another's says nothing.
        let written: Written = serde_json::from_slice(&bytes).unwrap_or_default();
        if written.store == self.store && written.lane == self.lane { written.read } else { Vec::new() }
    }

    fn write(&self, read: Vec<Entry>) -> std::io::Result<()> {
        let written = Written { store: self.store.clone(), lane: self.lane.clone(), read };
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder)?;
        let temporary = self.path.with_extension(format!("{}.tmp", std::process::id()));
        std::fs::write(&temporary, serde_json::to_vec(&written)?)?;
        std::fs::rename(&temporary, &self.path)
    }

    fn remove(&self) {
        // What is not there, or cannot be removed, is overwritten by the first position that is noted.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A store as this machine has it: the folder of the notes may be shared with others, which have other stores and files by the same names.
fn on_machine(store: String, machine: &Path) -> String {
    let id = std::fs::read_to_string(machine).unwrap_or_default();
    match id.trim() {
        // In a container there often is none.
        "" => store,
        id => format!("{store} on machine {id}"),
    }
}

/// The positions of `noted` that a journal must know if it is the newest one.
fn ahead(noted: &[Entry], lane: &Lane) -> Vec<(Partition, Position)> {
    if lane.pipeline.is_empty() {
        return Vec::new();
    }
    let is_ahead = |entry: &&Entry| {
        let mut of_stream = lane.partitions.iter().filter(|p| p.stream == entry.stream).peekable();
        if of_stream.peek().is_none() {
            return entry.next > 0;
        }
        let same = of_stream.filter(|p| p.index == entry.index && p.identity == entry.identity);
        same.map(|p| p.next).max().is_some_and(|next| entry.next > next)
    };
    let shown = |entry: &Entry| (Partition::new(entry.stream.as_str(), entry.index), entry.next);
    noted.iter().filter(is_ahead).map(shown).collect()
}

/// A source that notes how far it was read.
pub struct Noted {
    inner: Arc<dyn Source>,
    note: Note,
    /// As the journal has recorded them.
    identities: Identities,
    ahead: Vec<(Partition, Position)>,
}

type Identities = Arc<Mutex<BTreeMap<Partition, String>>>;

impl Noted {
    /// `inner`, held against the lane as it is in the store. `is_reading` if this process is about to run the pipeline.
    pub async fn new(inner: Arc<dyn Source>, note: Note, store: &dyn Store, is_reading: bool) -> Self {
        // The note first: an owner that runs notes only what its journal holds already.
        let noted = note.read();
        let ahead = match engine::journal::load(store, &note.lane).await {
            Ok(lane) if lane.pipeline.is_empty() => {
                if is_reading {
                    note.remove();
                }
                Vec::new()
            }
            Ok(lane) => ahead(&noted, &lane),
            // Whoever opens the lane says why.
            Err(_) => Vec::new(),
        };
        Self { inner, note, identities: Identities::default(), ahead }
    }
}

fn remember(identities: &Identities, from: &ReadFrom) {
    let mut identities = identities.lock().unwrap_or_else(PoisonError::into_inner);
    identities.insert(from.partition.clone(), from.identity.clone());
}

#[async_trait]
impl Source for Noted {
    fn streams(&self) -> Streams {
        self.inner.streams()
    }

    fn connect(&self) {
        self.inner.connect();
    }

    fn covers(&self, stream: &str) -> bool {
        self.inner.covers(stream)
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        self.inner.partitions().await
    }

    async fn recognize(
        &self,
        shown: Vec<PartitionStart>,
        known: Vec<ReadFrom>,
    ) -> Result<Vec<PartitionStart>, SourceError> {
        self.inner.recognize(shown, known).await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.ends().await
    }

    async fn behind(&self, from: &[(Partition, Position)]) -> Result<Vec<(Partition, u64)>, SourceError> {
        self.inner.behind(from).await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        from.iter().for_each(|from| remember(&self.identities, from));
        let inner = self.inner.read(from).await?;
        Ok(Box::new(NotedReader { inner, identities: self.identities.clone() }))
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        let entries = {
            let identities = self.identities.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = |(partition, next): &(Partition, Position)| {
                let (stream, index) = (partition.stream.to_string(), partition.index);
                Some(Entry { stream, index, identity: identities.get(partition)?.clone(), next: *next })
            };
            positions.iter().filter_map(entry).collect()
        };
        if let Err(error) = self.note.write(entries) {
            let path = self.note.path.display();
            tracing::debug!(%error, %path, "how far files were read is not noted");
        }
        self.inner.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let mut published = self.inner.published().await?;
        published.extend(self.ahead.iter().cloned());
        Ok(published)
    }

    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        self.inner.record(at).await
    }

    fn reader(&self) -> Option<&'static str> {
        self.inner.reader()
    }

    fn releases(&self) -> bool {
        self.inner.releases()
    }

    fn stands_aside(&self) -> bool {
        self.inner.stands_aside()
    }

    fn wants_seals(&self) -> bool {
        self.inner.wants_seals()
    }

    fn sealed(&self, positions: &[(Partition, Position)]) {
        self.inner.sealed(positions);
    }

    fn wants_fates(&self, partition: &Partition) -> bool {
        self.inner.wants_fates(partition)
    }
}

/// Remembers what is added while it is read.
struct NotedReader {
    inner: Box<dyn Reader>,
    identities: Identities,
}

#[async_trait]
impl Reader for NotedReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        self.inner.next().await
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        remember(&self.identities, &from);
        self.inner.add(from).await
    }

    fn remove(&mut self, partition: &Partition) {
        self.inner.remove(partition);
    }

    fn pause(&mut self, partition: &Partition) {
        self.inner.pause(partition);
    }

    fn resume(&mut self, partition: &Partition) {
        self.inner.resume(partition);
    }
}

#[cfg(test)]
mod tests;
