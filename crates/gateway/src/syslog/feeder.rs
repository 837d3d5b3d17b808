//! Gathers records and appends them, one append at a time.
//!
//! Owns the order: while an append is under way the next records gather, so those of one connection stay in their order, and one commit of
//! the log takes as many as have come. Owns what is counted. Does not own what a message becomes (`syslog::parse`), nor what is done where
//! there is no room, which each transport decides (`syslog::tcp`, `syslog::udp`). Nothing is appended twice: what an append has come to is
//! not known only if the log was lost, or the pipeline ended, and then the process ends. A pipeline that is opened again, for other columns, drops what it
//! was handed and has not sealed: it is handed to it again, since no sender sends it again.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use dataflow::RecordBlock;
use metrics::counter;
use tokio::task::JoinHandle;

use super::Sink;
use super::frames::Frame;
use super::parse::{parse, write_record};
use crate::budget::Held;
use crate::gate::Gate;
use crate::records::{Parsed, Rows};
use crate::refusal::{Kind, Refusal};
use crate::stream::Stream;

/// Nobody waits for an answer, so an append takes as long as the store is away.
const APPEND_WAIT_MAX: Duration = Duration::from_secs(365 * 86_400);
/// Pause before room is asked for again that others hold.
pub(super) const ROOM_PAUSE: Duration = Duration::from_millis(50);

/// How messages may be read, in metrics.
const FORMATS: [&str; 3] = ["rfc5424", "rfc3164", "raw"];

/// Records on their way into a stream.
pub(super) struct Feeder {
    sink: Sink,
    /// They go into a pipeline of this process, so a copy is kept until they are sealed.
    is_direct: bool,
    rows: Option<Rows>,
    under_way: Option<JoinHandle<()>>,
    scratch: Vec<u8>,
    /// Not yet counted in metrics: messages by their format, those that were cut, and those that found no room.
    taken: [u64; FORMATS.len()],
    cut: u64,
    dropped: u64,
}

impl Feeder {
    pub(super) fn new(sink: Sink) -> Self {
        Self {
            is_direct: sink.stream.direct().is_some(),
            sink,
            rows: None,
            under_way: None,
            scratch: Vec::new(),
            taken: [0; FORMATS.len()],
            cut: 0,
            dropped: 0,
        }
    }

    /// Takes a message.
    ///
    /// # Errors
    /// When there is no room; nothing was taken then.
    pub(super) fn push(&mut self, frame: Frame<'_>, peer: &str) -> Result<(), Refusal> {
        let Sink { gate, stream, .. } = &self.sink;
        let now_ms = stream.now_ms();
        let message = parse(frame.bytes);
        self.scratch.clear();
        write_record(&mut self.scratch, &message, now_ms, peer, frame.is_cut);
        if self.rows.is_none() {
            let rows = Rows::new(now_ms, gate.hold(stream), 0)?;
            self.rows = Some(if self.is_direct { rows.twice() } else { rows });
        }
        if let Some(rows) = &mut self.rows {
            rows.push(&self.scratch)?;
        }
        let format = FORMATS.iter().position(|format| *format == message.format).unwrap_or_default();
        self.taken[format] += 1;
        self.cut += u64::from(frame.is_cut);
        Ok(())
    }

    /// Takes a message as soon as there is room.
    pub(super) async fn push_when_room(&mut self, frame: Frame<'_>, peer: &str) {
        while self.push(frame, peer).is_err() {
            self.start();
            match self.under_way {
                Some(_) => self.appended().await,
                None => tokio::time::sleep(ROOM_PAUSE).await,
            }
        }
    }

    /// Takes note of a message that found no room.
    pub(super) fn drop_one(&mut self) {
        self.dropped += 1;
    }

    /// Counts those since it was asked last, and says how many they are; also while an append waits for a store that is away.
    pub(super) fn tell_dropped(&mut self) {
        if self.dropped == 0 {
            return;
        }
        let Sink { stream, transport, .. } = &self.sink;
        let count = std::mem::take(&mut self.dropped);
        tracing::warn!(
            stream = stream.name,
            messages = count,
            "messages of syslog were dropped for want of room"
        );
        dropped(&stream.name, transport, "no_room", count);
    }

    /// Appends what has gathered, unless an append is under way.
    pub(super) fn start(&mut self) {
        if self.under_way.is_some() {
            return;
        }
        self.count();
        let Some(rows) = self.rows.take_if(|rows| !rows.is_empty()) else { return };
        let Sink { gate, stream, transport, .. } = self.sink.clone();
        self.under_way = Some(tokio::spawn(async move {
            let Parsed { records, held, .. } = rows.done();
            let rows = records.len() as u64;
            if let Err(refusal) = append(&gate, &stream, records, held).await {
                let reason = refusal.kind.word();
                tracing::error!(
                    stream = stream.name,
                    messages = rows,
                    reason,
                    "messages of syslog could not be appended, and nobody sends them again: {}",
                    refusal.message
                );
                dropped(&stream.name, transport, reason, rows);
            }
        }));
    }

    /// Ends with the append that is under way; never, if there is none. Nothing is lost if it is dropped.
    pub(super) async fn appended(&mut self) {
        match &mut self.under_way {
            Some(append) => {
                // It panics only by a fault of ours, which the runtime reports.
                let _ = append.await;
                self.under_way = None;
            }
            None => pending().await,
        }
    }

    /// Ends once everything that was taken is durable, or is known not to become so.
    pub(super) async fn finish(mut self) {
        loop {
            self.start();
            if self.under_way.is_none() {
                return;
            }
            self.appended().await;
        }
    }

    fn count(&mut self) {
        let Sink { stream, transport, .. } = &self.sink;
        for (format, count) in FORMATS.into_iter().zip(&mut self.taken) {
            if *count > 0 {
                counter!("forebay_gateway_syslog_messages_total", "stream" => stream.name.clone(), "transport" => *transport, "format" => format)
                    .increment(std::mem::take(count));
            }
        }
        if self.cut > 0 {
            counter!("forebay_gateway_syslog_cut_total", "stream" => stream.name.clone(), "transport" => *transport)
                .increment(std::mem::take(&mut self.cut));
        }
    }
}

/// Appends records, and into a pipeline that takes more again as long as they are certainly not stored.
async fn append(
    gate: &Gate,
    stream: &Arc<Stream>,
    records: RecordBlock,
    mut held: Held,
) -> Result<(), Refusal> {
    let Some(direct) = stream.direct() else {
        return stream.append(records, None, held, APPEND_WAIT_MAX).await.map(drop);
    };
    let bytes = held.bytes();
    loop {
        let appended = stream.append(records.clone(), None, held, APPEND_WAIT_MAX).await;
        match appended {
            Err(refusal) if refusal.kind == Kind::Unavailable && !direct.is_closed() => {}
            done => return done.map(drop),
        }
        held = gate.hold(stream);
        // They are in memory whether there is room or not, and must not wait for what gathers behind them.
        let _ = held.take(bytes);
    }
}

/// Counts messages that are lost.
pub(super) fn dropped(stream: &str, transport: &'static str, reason: &'static str, count: u64) {
    counter!("forebay_gateway_syslog_dropped_total", "stream" => stream.to_owned(), "transport" => transport, "reason" => reason)
        .increment(count);
}
