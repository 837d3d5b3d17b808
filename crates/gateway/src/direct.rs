//! Requests that go straight into a pipeline of this process, without a log between them.
//!
//! Owns the requests between their arrival and their seal. A request is answered once a seal of the pipeline's journal has its records. Does not
//! own the seal (the engine), nor the bytes in memory: each request is held by its budgets until it is answered.
//!
//! ```text
//! append ─▶ waiting ─▶ handed out, with positions ─▶ sealed ─▶ answered
//!              ▲ │                │ the lane is opened again from its journal
//!   no reader ─┘ └─ closed, or    └─▶ refused: it is not stored, and its sender sends it again
//!                   not taken in time
//! ```
//!
//! Positions are numbers of records, and a reader goes on with the number that the journal names. So a number may have been given to another
//! request before, but only to one that was never sealed: its sender was told so, or got no answer.

mod queue;
mod source;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dataflow::{Partition, RecordBlock, Runtime};
use tokio::sync::{Notify, oneshot};

use crate::refusal::{Kind, Refusal};
use queue::Queue;

pub use source::DirectSource;

/// What became of a request: the position of its first record.
type Fate = Result<u64, Refusal>;

/// The way from a stream into a pipeline.
#[derive(Debug)]
pub struct Direct {
    /// What the pipeline's journal and its dead letters call the stream.
    partition: Partition,
    queue: Mutex<Queue<oneshot::Sender<Fate>>>,
    /// Something has come, or has changed, that the reader wants to know of.
    news: Notify,
}

impl Direct {
    /// A way into the pipeline, which calls the stream `name`.
    pub fn new(name: &str) -> Arc<Self> {
        Arc::new(Self { partition: Partition::new(name, 0), queue: Mutex::default(), news: Notify::new() })
    }

    fn queue(&self) -> MutexGuard<'_, Queue<oneshot::Sender<Fate>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives records to the pipeline and waits until they are sealed: the position of the first. What the pipeline does not take within `take_max` is taken
    /// back: while nothing is sealed, its sender repeats it again and again, and each time would be sealed.
    ///
    /// # Errors
    /// [`Kind::NotYet`] leaves open whether they are sealed; all others mean that they are not.
    pub(crate) async fn append(
        &self,
        mut records: RecordBlock,
        runtime: &Arc<dyn Runtime>,
        take_max: Duration,
    ) -> Fate {
        records.partition = self.partition.clone();
        let (tell, mut fate) = oneshot::channel();
        let Ok(number) = self.queue().push(records, tell) else { return Err(stopping()) };
        self.news.notify_one();
        let in_time = runtime.timeout(take_max, &mut fate).await;
        let known = match in_time {
            Some(known) => known,
            None => {
                let is_withdrawn = self.queue().withdraw(number).is_some();
                if is_withdrawn {
                    return Err(not_taken(take_max));
                }
                fate.await
            }
        };
        known.unwrap_or_else(|_| {
            let message = "the pipeline ended before the records were known to be sealed; send again";
            Err(Refusal::new(Kind::NotYet, message))
        })
    }

    /// Whether the pipeline has begun to read: until then nothing is sealed, and requests wait.
    pub(crate) fn is_open(&self) -> bool {
        self.queue().has_reader()
    }

    /// Whether no more is taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue().is_closed()
    }

    /// Takes no more. What the pipeline has not been given is refused; what it has may still be sealed.
    pub fn close(&self) {
        let refused = self.queue().close();
        refused.into_iter().for_each(|tell| answer(tell, Err(stopping())));
        self.news.notify_one();
    }

    /// The pipeline has ended: of what it was given and has not sealed nobody knows what became.
    pub fn end(&self) {
        self.close();
        self.queue().forget();
    }

    /// All records below `position` are sealed.
    fn sealed(&self, position: u64) {
        let sealed = self.queue().sealed(position);
        sealed.into_iter().for_each(|(first, tell)| answer(tell, Ok(first)));
    }

    /// A new reader begins at `position`, where the journal stands; the number of the reader.
    fn open(&self, position: u64) -> u64 {
        let (reader, sealed, lost) = self.queue().open(position);
        sealed.into_iter().for_each(|(first, tell)| answer(tell, Ok(first)));
        lost.into_iter().for_each(|tell| {
            let message = "the pipeline was opened again before the records were sealed, and they are not stored; send again";
            answer(tell, Err(Refusal::new(Kind::Unavailable, message)));
        });
        reader
    }
}

fn not_taken(take_max: Duration) -> Refusal {
    let message = format!(
        "the pipeline has not taken the records within {} s, and they are not stored; send again",
        take_max.as_secs_f32()
    );
    Refusal::new(Kind::Unavailable, message)
}

fn stopping() -> Refusal {
    Refusal::new(Kind::Unavailable, "the pipeline is stopping; send again, when it runs")
}

/// The request may be gone: then nobody waits for the answer.
fn answer(tell: oneshot::Sender<Fate>, fate: Fate) {
    let _ = tell.send(fate);
}

#[cfg(test)]
mod tests;
