//! The owner of a partition: accepts appends, makes objects of them, uploads several at a time and commits many at once.
//!
//! Owns the task and its bounds. Does not own the rules (`decide`), nor retention (`collect`), which it only starts.
//!
//! ```text
//! append ─▶ open batch ─cut─▶ encode ─▶ upload ─▶ uploaded, in order ─swap─▶ answered
//!                              several at a time        one swap at a time
//! ```
//! An append is answered once a root that holds it is durable (L5). Objects enter the log in the order in which they were cut, whichever was
//! uploaded first. The root is never read before a swap: the tag of the last one serves, and a swap that is refused or not
//! answered is followed by a read, which decides.

mod admit;
mod aside;
mod run;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dataflow::{BlockBuilder, Effect, Task};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use crate::decide::{Linger, Retention};
use crate::error::{AppendError, AppendFault, LogError};
use crate::note::Notes;
use crate::object::{APPEND_BYTES_MAX, APPEND_ROWS_MAX, Append, OBJECT_CUT_MAX, OBJECT_RAW_MAX};
use crate::partition::LogPartition;
use crate::root::Root;
use run::Run;

/// Bytes of memory that one permit stands for.
const PERMIT_BYTES: usize = 1 << 10;

/// The bounds, waits and housekeeping of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// An object is cut at so many bytes as they are stored; what is compressed only there counts as it came. At most [`OBJECT_CUT_MAX`] and
    /// a quarter of [`memory_bytes`](Self::memory_bytes), since the next batch grows while the one before it is uploaded and committed.
    pub object_bytes: usize,
    /// The shortest wait of an append for others.
    pub linger_min: Duration,
    /// The longest, and the time between two commits under load.
    pub linger_max: Duration,
    /// Objects that are encoded or uploaded at a time.
    pub uploads_max: usize,
    /// Bytes of appends that were not answered yet; beyond it `append` waits.
    pub memory_bytes: usize,
    /// What may be dropped.
    pub retention: Retention,
    /// How often retention is applied.
    pub collect_every: Duration,
    /// How often orphans are swept, besides once at the start.
    pub sweep_every: Duration,
    /// An owner that has committed nothing for so long asks whether it still owns the partition: otherwise one that slept says that it is ready
    /// until the next append comes. A read each, some 90,000 a month at 30 s.
    pub look_every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            object_bytes: OBJECT_CUT_MAX,
            linger_min: Duration::from_millis(5),
            linger_max: Duration::from_millis(500),
            uploads_max: 8,
            memory_bytes: 256 << 20,
            retention: Retention { acknowledged: true, ..Retention::default() },
            collect_every: Duration::from_secs(10),
            sweep_every: Duration::from_secs(6 * 3_600),
            look_every: Duration::from_secs(30),
        }
    }
}

impl Settings {
    fn linger(&self) -> Linger {
        Linger {
            object_bytes: self.object_bytes.min(self.memory_bytes / 4).clamp(1, OBJECT_CUT_MAX),
            raw_bytes: OBJECT_RAW_MAX / 2,
            min: self.linger_min,
            max: self.linger_max,
            uploads_max: self.uploads_max.max(1),
        }
    }
}

/// A positive answer: the records are in the log, durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// At this position and those after it.
    At(u64),
    /// They were in the log before this append came, or their position is no longer known.
    Known,
}

type Answer = Result<Appended, AppendError>;

struct Message {
    append: Append,
    permit: OwnedSemaphorePermit,
    answer: oneshot::Sender<Answer>,
}

/// Appends to one owner. Clones append to the same one.
#[derive(Clone)]
pub struct Appender {
    messages: mpsc::UnboundedSender<Message>,
    memory: Arc<Semaphore>,
    memory_bytes: usize,
}

impl Appender {
    /// Appends records, and returns once they are durable and in the log. Waits while the owner has as many bytes as it may. A future that is
    /// dropped leaves the effect unknown.
    ///
    /// # Errors
    /// As [`AppendError`] says; after [`Effect::Unknown`] the same append may be sent again under its ordinal, to this owner or a later one.
    pub async fn append(&self, append: Append) -> Answer {
        let append = append.without_raw();
        let (bytes, stored) = (append.raw_bytes(), append.stored_bytes());
        let rows = append.records.len();
        let refuse =
            |message: String| AppendError { effect: Effect::None, fault: AppendFault::Refused, message };
        if rows == 0 || rows > APPEND_ROWS_MAX || bytes > APPEND_BYTES_MAX {
            return Err(refuse(format!(
                "an append has 1 to {APPEND_ROWS_MAX} records and at most {APPEND_BYTES_MAX} bytes, not {rows} records with {bytes} bytes"
            )));
        }
        let is_block = rows == 1 || (rows <= BlockBuilder::RECORDS_MAX && bytes <= BlockBuilder::BYTES_MAX);
        if append.packed.as_ref().is_some_and(|packed| !is_block || packed.len() > APPEND_BYTES_MAX) {
            return Err(refuse("only the records of one block can come compressed".to_owned()));
        }
        if !append.records.cut.is_empty() {
            return Err(refuse("a record that is not whole cannot be appended".to_owned()));
        }
        let held = (stored + 24 * rows).min(self.memory_bytes);
        let permits = u32::try_from(held / PERMIT_BYTES + 1).unwrap_or(u32::MAX);
        let Ok(permit) = self.memory.clone().acquire_many_owned(permits).await else {
            return Err(stopped(Effect::None));
        };
        let (answer, answered) = oneshot::channel();
        if self.messages.send(Message { append, permit, answer }).is_err() {
            return Err(stopped(Effect::None));
        }
        answered.await.unwrap_or_else(|_| Err(stopped(Effect::Unknown)))
    }
}

fn stopped(effect: Effect) -> AppendError {
    let message = "the owner of the log has stopped; send the append to the present one".to_owned();
    AppendError { effect, fault: AppendFault::Stopped, message }
}

/// A partition that this process owns. Dropping it ends its task; what was not answered may be in the log or not.
pub struct Owner {
    appender: Appender,
    root: watch::Receiver<Root>,
    pinned: Pin,
    hurried: watch::Sender<bool>,
    done: oneshot::Receiver<Result<(), LogError>>,
    _task: Task,
}

/// A position from which on nothing is deleted, whatever retention says: what stands there is still to be read by the owner itself. Clones are the same pin.
#[derive(Clone, Debug)]
pub struct Pin(Arc<AtomicU64>);

impl Pin {
    fn nowhere() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }

    /// Keeps what is at `position` or behind it; `None` keeps nothing.
    pub fn set(&self, position: Option<u64>) {
        self.0.store(position.unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Keeps what is at `position` or behind it too, besides what is kept already.
    pub fn lower(&self, position: u64) {
        self.0.fetch_min(position, Ordering::AcqRel);
    }

    fn position(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

impl Owner {
    /// Claims the partition and starts the task that commits.
    ///
    /// # Errors
    /// As [`LogPartition::claim`].
    pub async fn start(partition: LogPartition, owner: &str, settings: Settings) -> Result<Self, LogError> {
        let seen = partition.claim(owner).await?;
        let (messages, received) = mpsc::unbounded_channel();
        let memory_bytes = settings.memory_bytes.max(APPEND_BYTES_MAX + 24 * 1_024);
        let memory = Arc::new(Semaphore::new(memory_bytes / PERMIT_BYTES + 1));
        let (published, root) = watch::channel(seen.root.clone());
        let (hurried, hurry) = watch::channel(false);
        let (end, done) = oneshot::channel();
        let runtime = partition.runtime().clone();
        let pinned = Pin::nowhere();
        let run = Run::new(partition, seen, settings, (received, published, hurry), pinned.clone());
        let task = runtime.spawn(
            "log-owner",
            Box::pin(async move {
                // Nothing receives this if the owner was dropped.
                let _ = end.send(run.run().await);
            }),
        );
        let appender = Appender { messages, memory, memory_bytes };
        Ok(Self { appender, root, pinned, hurried, done, _task: task })
    }

    /// A handle by which records are appended; it may be cloned.
    pub fn appender(&self) -> Appender {
        self.appender.clone()
    }

    /// The newest root that this owner has swapped in.
    pub fn root(&self) -> Root {
        self.root.borrow().clone()
    }

    /// The newest root, as it changes.
    pub fn roots(&self) -> watch::Receiver<Root> {
        self.root.clone()
    }

    /// What keeps records from being deleted; at first nothing. What is pinned right after the start was not deleted before.
    pub fn pin(&self) -> Pin {
        self.pinned.clone()
    }

    /// Keeps what stands behind the partition's note, for an owner that notes nothing, right after its start: labels there are all that says what the owner before it has
    /// appended, and the next one that notes reads them. Where nobody follows files any more, all behind the last note stays until an owner comes that knows so.
    ///
    /// # Errors
    /// When the store fails for good, or the register is damaged; nothing more is deleted then.
    pub async fn keep_behind_note(&self, partition: &LogPartition) -> Result<(), LogError> {
        let pin = self.pin();
        // Until it is known where the note stands.
        pin.set(Some(0));
        let (_, found) = Notes::open(partition.clone(), &self.root()).await?;
        pin.set(found.map(|found| found.note.position));
        Ok(())
    }

    /// From now on nothing waits for [`Settings::linger_max`]: whoever stops waits for what was appended, and for what still comes.
    pub fn hurry(&self) {
        // Only a task that has ended does not hear it.
        let _ = self.hurried.send(true);
    }

    /// Commits what was appended, and ends once all appenders are dropped.
    ///
    /// # Errors
    /// When the partition was lost to another owner, or the store failed for good.
    pub async fn close(self) -> Result<(), LogError> {
        let Self { appender, done, _task, .. } = self;
        drop(appender);
        done.await.unwrap_or(Ok(()))
    }

    /// Ends when the partition is lost, with the reason.
    pub async fn lost(&mut self) -> Result<(), LogError> {
        (&mut self.done).await.unwrap_or(Ok(()))
    }
}

#[cfg(test)]
mod tests;
