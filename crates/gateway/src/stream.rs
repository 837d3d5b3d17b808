//! One stream: a partition of a log that this process owns, or a way into a pipeline of this process; its bounds, and the names of its requests.
//!
//! Owns what happens between a request's records and its answer. Does not own what is known of a request's name (`gateway::keys`), the
//! commit to a log (`object_log::owner`), nor the way into a pipeline (`gateway::direct`). An append goes on although its client has gone
//! away: otherwise nobody could say what became of it when the client sends it again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use dataflow::{BlockBuilder, Effect, RecordBlock, Runtime};
use metrics::{counter, histogram};
use object_log::error::AppendFault;
use object_log::{Append, AppendError, Appended, Appender, Clock, labels};
use xxhash_rust::xxh3::xxh3_64;

use crate::body::{BodyBounds, PACKED_MIN, PACKED_RATIO_MIN};
use crate::budget::{Budget, Held};
use crate::direct::Direct;
use crate::keys::{Begin, Fate, Key, Keys, Stored};
use crate::options::Format;
use crate::records::ROW_BYTES;
use crate::refusal::{Kind, Refusal};

/// Bytes of a request's name.
pub const KEY_BYTES_MAX: usize = 255;

/// Seconds between two lines of the log about rows that were left out.
const SAID_EVERY_S: u64 = 10;

/// Records, and the only one's body as it came if the log can keep it so.
#[derive(Debug)]
pub struct Packed {
    /// The records.
    pub records: RecordBlock,
    /// As [`object_log::Append::packed`] says.
    pub packed: Option<Bytes>,
    /// Of a request of OTLP, the rows to count once it is stored.
    pub otlp: Option<OtlpRows>,
}

/// Rows of a request of OTLP.
#[derive(Clone, Copy, Debug)]
pub struct OtlpRows {
    /// Those in its record.
    pub taken: u64,
    /// Those that cannot be read, and were left out.
    pub rejected: u64,
}

/// Where a stream's records become durable.
#[derive(Clone)]
pub(crate) enum Destination {
    Log(Appender),
    Pipeline(Arc<Direct>),
}

impl Destination {
    /// Appends records and waits until they are durable: the position of the first, if it is known. A pipeline takes them within `take_max` or not at all.
    async fn append(
        &self,
        append: Append,
        runtime: &Arc<dyn Runtime>,
        take_max: Duration,
    ) -> Result<Option<u64>, Refusal> {
        match self {
            Self::Log(appender) => match appender.append(append).await {
                Ok(Appended::At(first)) => Ok(Some(first)),
                Ok(Appended::Known) => Ok(None),
                Err(error) => Err(refusal(&error)),
            },
            // What came compressed is of no use beside its records.
            Self::Pipeline(direct) => direct.append(append.records, runtime, take_max).await.map(Some),
        }
    }
}

/// A stream that requests fill: its format and bounds, where its records become durable, and the names of its requests.
pub struct Stream {
    /// Its whole name.
    pub name: String,
    /// The partition of its log; 0 without one.
    pub partition: u32,
    /// What its bodies hold.
    pub format: Format,
    /// The bounds on one of them.
    pub bounds: BodyBounds,
    pub(crate) budget: Budget,
    pub(crate) destination: Mutex<Option<Destination>>,
    pub(crate) keys: Mutex<Keys>,
    /// A request without a name is named after its bytes.
    pub(crate) drops_repeats: bool,
    pub(crate) runtime: Arc<dyn Runtime>,
    /// When the log last said that rows were left out, in seconds of the runtime and one; 0 for never.
    pub(crate) rejected_said_s: AtomicU64,
    /// By which names expire: that of the log, whose stamps names have after a restart.
    pub(crate) clock: Clock,
}

impl Stream {
    /// The time for records that come now, Unix milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.runtime.wall_ms()
    }

    /// Checks that the stream's records are JSON: a protocol whose records are must not fill another one.
    ///
    /// # Errors
    /// [`Kind::Media`] if they are not.
    pub fn takes_json(&self) -> Result<(), Refusal> {
        match self.format {
            Format::Json => Ok(()),
            Format::Csv(_)
            | Format::Avro(_)
            | Format::Protobuf
            | Format::Lines
            | Format::Message
            | Format::Otlp(_) => {
                let message = format!("stream `{}` does not take JSON; what is sent here is JSON", self.name);
                Err(Refusal::new(Kind::Media, message))
            }
        }
    }

    /// Names of requests that are known or on their way.
    pub fn known_keys(&self) -> usize {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Bytes in memory for requests that were not answered.
    pub fn held_bytes(&self) -> usize {
        self.budget.held_bytes()
    }

    /// The name of a request: what the client calls it, with the records that it is for; or else, where repeats are dropped, its bytes. `packed` are
    /// those that the log keeps instead of the records, if there are any. For a compute thread.
    ///
    /// # Errors
    /// [`Kind::Malformed`] when the name is empty or too long.
    pub fn key(
        &self,
        client: &str,
        named: Option<&[u8]>,
        records: &RecordBlock,
        packed: Option<&Bytes>,
    ) -> Result<Option<Key>, Refusal> {
        let ends = &records.payloads.ends;
        let Some(named) = named else {
            let key = || match packed {
                // What came compressed comes again with the same bytes, and they are fewer.
                Some(packed) => Key::of_bytes(client, packed, &[]),
                None => Key::of_bytes(client, &records.payloads.bytes, ends),
            };
            return Ok((self.drops_repeats && !records.is_empty()).then(key));
        };
        if named.is_empty() || named.len() > KEY_BYTES_MAX {
            let message =
                format!("`Idempotency-Key` has {} bytes; it takes 1 to {KEY_BYTES_MAX}", named.len());
            return Err(Refusal::new(Kind::Malformed, message));
        }
        let ends = xxh3_64(&ends.iter().flat_map(|end| end.to_le_bytes()).collect::<Vec<u8>>());
        let tag = (xxh3_64(&records.payloads.bytes) ^ ends.rotate_left(17)) & !labels::LABELS;
        Ok(Some(Key::named(client, named, tag)))
    }

    /// Appends records and waits until they are durable in the log, for `wait_max` at the longest. All of them are taken or none. `held` is what they take
    /// of the budgets. A future that is dropped leaves the append under way.
    ///
    /// # Errors
    /// [`Kind::NotYet`] leaves open whether they are in the log; all others mean that they are not.
    pub async fn append(
        self: &Arc<Self>,
        records: RecordBlock,
        key: Option<Key>,
        held: Held,
        wait_max: Duration,
    ) -> Result<Stored, Refusal> {
        self.append_packed(Packed { records, packed: None, otlp: None }, key, held, wait_max).await
    }

    /// The same, of a record that may have come compressed.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub async fn append_packed(
        self: &Arc<Self>,
        records: Packed,
        key: Option<Key>,
        held: Held,
        wait_max: Duration,
    ) -> Result<Stored, Refusal> {
        let stored = self.append_once(records, key, held, wait_max).await;
        stored.map_err(|mut refusal| {
            // Said only to who has used it: other protocols have no such header.
            if refusal.kind == Kind::NotYet && key.is_some_and(|key| !key.is_of_bytes()) {
                refusal.message.push_str(", under the same `Idempotency-Key`");
            }
            refusal
        })
    }

    /// Appends records under a name that no other request has taken, or waits for the answer of the one that has.
    async fn append_once(
        self: &Arc<Self>,
        records: Packed,
        key: Option<Key>,
        held: Held,
        wait_max: Duration,
    ) -> Result<Stored, Refusal> {
        let start = |records, key, held| {
            let (tell, fate) = tokio::sync::watch::channel(None);
            self.start(records, key, held, (tell, wait_max))?;
            Ok(fate)
        };
        let mut fate = match key {
            None => start(records, None, held)?,
            Some(named) => {
                match self.begin(named) {
                    Begin::New(tell, fate) => {
                        self.start(records, key, held, (tell, wait_max))?;
                        fate
                    }
                    Begin::OnItsWay(fate) => {
                        // The first one is held until it is stored: while the store is away, retries must not take the room of others too.
                        drop((records, held));
                        let mut stored = self.wait(fate, wait_max).await?;
                        stored.is_repeat = true;
                        self.count_repeat();
                        return Ok(stored);
                    }
                    Begin::Known(stored) => {
                        self.count_repeat();
                        return Ok(stored);
                    }
                    Begin::Differs => {
                        let message = "the `Idempotency-Key` was used for other records; give each request one of its own";
                        return Err(Refusal::new(Kind::KeyReused, message));
                    }
                    Begin::Full if named.is_of_bytes() => {
                        // Its sender was promised nothing, and must not wait for those that were.
                        counter!("forebay_gateway_unrecognized_total", "stream" => self.name.clone())
                            .increment(1);
                        start(records, None, held)?
                    }
                    Begin::Full => {
                        let message =
                            "too many `Idempotency-Key`s are remembered; retry later, or omit the header";
                        return Err(Refusal::new(Kind::Busy, message));
                    }
                }
            }
        };
        let begun = self.runtime.elapsed();
        let stored = self.wait_for(&mut fate, wait_max).await?;
        let took = self.runtime.elapsed().saturating_sub(begun);
        histogram!("forebay_gateway_append_seconds", "stream" => self.name.clone())
            .record(took.as_secs_f64());
        Ok(stored)
    }

    /// Appends records under a label of the caller's own, and waits until they are durable, however long that takes.
    ///
    /// # Errors
    /// As [`Appender::append`] says.
    pub(crate) async fn append_labelled(
        &self,
        records: RecordBlock,
        label: (u128, u64),
        held: Held,
    ) -> Result<(), AppendError> {
        let destination = self.destination.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(Destination::Log(appender)) = destination else {
            let message = "the gateway is stopping".to_owned();
            return Err(AppendError { effect: Effect::None, fault: AppendFault::Stopped, message });
        };
        let (rows, bytes) = (records.len() as u64, records.payloads.bytes.len() as u64);
        appender.append(Append { producer: Some(label), records, packed: None, digest: None }).await?;
        drop(held);
        self.count_appended(rows, bytes);
        Ok(())
    }

    /// The records' bodies, compressed, where a log keeps them so; `None` where the log compresses them with their neighbours, since they are few, or the records of
    /// several blocks. So what waits for a commit takes as little memory as it will take in the log. For a compute thread.
    pub(crate) fn pack(&self, records: &RecordBlock) -> Option<Bytes> {
        let bytes = &records.payloads.bytes;
        let is_log = matches!(
            &*self.destination.lock().unwrap_or_else(PoisonError::into_inner),
            Some(Destination::Log(_))
        );
        let is_plain = records.keys.is_none() && records.headers.is_none() && records.absent.is_empty();
        let is_block = records.len() == 1
            || (records.len() <= BlockBuilder::RECORDS_MAX && bytes.len() <= BlockBuilder::BYTES_MAX);
        if !is_log || !is_plain || !is_block || bytes.len() < PACKED_MIN {
            return None;
        }
        let packed = zstd::bulk::compress(bytes, object_log::object::LEVEL).ok()?;
        // Without the room that the compressor wanted: it is held by its length.
        (packed.len() <= bytes.len() / PACKED_RATIO_MIN).then(|| Bytes::from(packed.into_boxed_slice()))
    }

    fn count_appended(&self, rows: u64, bytes: u64) {
        counter!("forebay_gateway_records_total", "stream" => self.name.clone()).increment(rows);
        counter!("forebay_gateway_record_bytes_total", "stream" => self.name.clone()).increment(bytes);
    }

    fn count_otlp(&self, OtlpRows { taken, rejected }: OtlpRows) {
        counter!("forebay_gateway_otlp_rows_total", "stream" => self.name.clone()).increment(taken);
        if rejected > 0 {
            counter!("forebay_gateway_otlp_rejected_rows_total", "stream" => self.name.clone())
                .increment(rejected);
        }
    }

    /// Whether rows that were left out are worth a line of the log now: one sender could fill it. The counter counts all.
    pub(crate) fn may_say_rejected(&self) -> bool {
        let now_s = self.runtime.elapsed().as_secs() + 1;
        let said = self.rejected_said_s.load(Ordering::Relaxed);
        let is_due = said == 0 || now_s >= said + SAID_EVERY_S;
        is_due
            && self
                .rejected_said_s
                .compare_exchange(said, now_s, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    fn count_repeat(&self) {
        counter!("forebay_gateway_repeats_total", "stream" => self.name.clone()).increment(1);
    }

    fn begin(&self, key: Key) -> Begin {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.begin(key, self.clock.now_ms())
    }

    /// Starts an append on a task of its own, for somebody who waits for `wait_max`.
    fn start(
        self: &Arc<Self>,
        Packed { records, packed, otlp }: Packed,
        key: Option<Key>,
        held: Held,
        (tell, wait_max): (tokio::sync::watch::Sender<Option<Result<Stored, Refusal>>>, Duration),
    ) -> Result<(), Refusal> {
        let destination = self.destination.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(destination) = destination else {
            let refusal =
                Refusal::new(Kind::Unavailable, "the gateway is stopping; send again, to the next one");
            self.end(key, &Err(refusal.clone()));
            return Err(refusal);
        };
        let stream = self.clone();
        let (rows, bytes) = (records.len() as u64, records.payloads.bytes.len() as u64);
        let producer = key.map(|key| labels::label(key.id, key.tag));
        let mut append = Append { producer, records, packed, digest: None };
        let mut held = held;
        if append.packed.is_some() && matches!(destination, Destination::Log(_)) {
            // The log keeps what is compressed, so nothing else waits for its answer.
            append = append.without_raw();
            held.shrink_to(append.stored_bytes() + ROW_BYTES * append.records.len());
        }
        tokio::spawn(async move {
            // A little earlier, so that a sender is told that nothing is stored, and not that nobody knows.
            let outcome = destination.append(append, &stream.runtime, wait_max / 10 * 9).await;
            let outcome = outcome.map(|first| Stored { first, rows, is_repeat: false });
            drop(held);
            if let Ok(stored) = &outcome {
                stream.count_appended(rows, bytes);
                // Here, because its sender may get no answer, and what it then sends again is a repeat. What the log knew before has no position.
                if let Some(counted) = otlp.filter(|_| stored.first.is_some()) {
                    stream.count_otlp(counted);
                }
            }
            stream.end(key, &outcome);
            // The client may be gone.
            tell.send_replace(Some(outcome));
        });
        Ok(())
    }

    fn end(&self, key: Option<Key>, outcome: &Result<Stored, Refusal>) {
        if let Some(key) = key {
            let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            keys.end(key, outcome, self.clock.now_ms());
        }
    }

    async fn wait(&self, mut fate: Fate, wait_max: Duration) -> Result<Stored, Refusal> {
        self.wait_for(&mut fate, wait_max).await
    }

    async fn wait_for(&self, fate: &mut Fate, wait_max: Duration) -> Result<Stored, Refusal> {
        match self.runtime.timeout(wait_max, fate.wait_for(Option::is_some)).await {
            Some(Ok(outcome)) => outcome.clone().expect("waited for"),
            Some(Err(_)) => Err(Refusal::new(
                Kind::NotYet,
                "the gateway stopped before the records were known to be durable; send again",
            )),
            None => Err(Refusal::new(
                Kind::NotYet,
                format!(
                    "the records are not durable after {} s and may become so; send again",
                    wait_max.as_secs_f32()
                ),
            )),
        }
    }

    /// The way into the pipeline that it fills, if it fills one.
    pub(crate) fn direct(&self) -> Option<Arc<Direct>> {
        match &*self.destination.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Destination::Pipeline(direct)) => Some(direct.clone()),
            Some(Destination::Log(_)) | None => None,
        }
    }

    /// Requests that a pipeline was not given are refused: it is about to end.
    pub(crate) fn stop_waiting(&self) {
        if let Some(direct) = self.direct() {
            direct.close();
        }
    }

    /// Whether what fills it becomes durable: not before its pipeline reads.
    pub(crate) fn is_open(&self) -> bool {
        match &*self.destination.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Destination::Pipeline(direct)) => direct.is_open(),
            Some(Destination::Log(_)) | None => true,
        }
    }

    /// Takes no more.
    pub(crate) fn close(&self) {
        *self.destination.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn refusal(error: &object_log::AppendError) -> Refusal {
    let kind = match (error.effect, error.fault) {
        (Effect::Unknown, _) => Kind::NotYet,
        (Effect::None, AppendFault::Refused) => Kind::TooLarge,
        (
            Effect::None,
            AppendFault::Gap
            | AppendFault::UnknownProducer
            | AppendFault::TooManyProducers
            | AppendFault::Fenced
            | AppendFault::Stopped,
        ) => Kind::Unavailable,
    };
    Refusal::new(kind, error.message.clone())
}
