//! The senders: requests of the workload over connections that stay open.
//!
//! Owns the making, compression and pacing of requests. Does not own connections, nor what is done when a request is turned away ([`wire`]).

mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use hyper::body::Bytes;
use tokio::task::JoinSet;
use workloads::buffer::Workload;

use super::{Compression, Over};
use wire::Connection;

/// For collectors that keep everything, a second of zstd buys little.
const ZSTD_LEVEL: i32 = 1;

/// Where requests go, and how.
#[derive(Clone, Debug)]
pub struct Target {
    /// `host:port`.
    pub address: String,
    /// The route.
    pub over: Over,
    /// How bodies are compressed.
    pub compression: Compression,
}

/// What is sent.
pub struct Load {
    workload: Workload,
    compression: Compression,
    /// All bodies, made before; none where they are made when they are due.
    made: Vec<Bytes>,
    rate: Option<u64>,
    /// Requests that were sent and wait for their answer.
    under_way: AtomicU64,
}

/// What became of it.
#[derive(Debug, Default)]
pub struct Sent {
    /// Records of requests that were answered as durable.
    pub records: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Requests that were sent once more.
    pub again: u64,
    /// From the first request to the last answer.
    pub took: Duration,
    /// From sending to the answer, of each request, in order of size; with the waits of those that were turned away.
    pub answers_s: Vec<f64>,
    /// How late a request was begun, at the most.
    pub late_max: Duration,
}

impl Load {
    /// All requests, made and compressed now.
    ///
    /// # Errors
    /// When a compressor fails.
    pub fn made(workload: Workload, compression: Compression) -> anyhow::Result<Self> {
        let under_way = AtomicU64::new(0);
        let mut load = Self { workload, compression, made: Vec::new(), rate: None, under_way };
        let requests = load.workload.spec().requests;
        load.made =
            (0..requests).map(|n| load.body(n, load.workload.start_ns(n))).collect::<anyhow::Result<_>>()?;
        Ok(load)
    }

    /// Requests that are made when they are due, at so many records a second.
    pub fn at_a_rate(workload: Workload, compression: Compression, rate: u64) -> Self {
        let under_way = AtomicU64::new(0);
        Self { workload, compression, made: Vec::new(), rate: Some(rate), under_way }
    }

    /// Bytes of the bodies for each record, if they are made.
    pub fn bytes_per_record(&self) -> Option<f64> {
        let bytes: usize = self.made.iter().map(Bytes::len).sum();
        (bytes > 0).then(|| bytes as f64 / self.workload.records_total() as f64)
    }

    /// How long it takes at its rate; `None` without one.
    pub fn length(&self) -> Option<Duration> {
        self.due(self.workload.spec().requests)
    }

    /// Whether a request waits for its answer at this moment.
    pub fn is_under_way(&self) -> bool {
        self.under_way.load(Relaxed) > 0
    }

    fn body(&self, n: u64, start_ns: u64) -> anyhow::Result<Bytes> {
        let mut plain = Vec::new();
        self.workload.write(n, start_ns, &mut plain);
        Ok(match self.compression {
            Compression::None => plain.into(),
            Compression::Zstd => zstd::bulk::compress(&plain, ZSTD_LEVEL).context("zstd")?.into(),
            Compression::Gzip => {
                let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                std::io::Write::write_all(&mut packer, &plain).context("gzip")?;
                packer.finish().context("gzip")?.into()
            }
        })
    }

    /// When a request is due, counted from the beginning.
    fn due(&self, n: u64) -> Option<Duration> {
        let records = n * u64::from(self.workload.spec().records_per_request);
        self.rate.map(|rate| Duration::from_secs_f64(records as f64 / rate as f64))
    }

    /// Sends everything, `senders` requests at a time.
    ///
    /// # Errors
    /// When a request is refused for good, or a connection breaks.
    pub async fn send(
        self: &Arc<Self>,
        target: &Target,
        senders: u32,
        began: Instant,
    ) -> anyhow::Result<Sent> {
        let next = Arc::new(AtomicU64::new(0));
        let began_at = SystemTime::now() - began.elapsed();
        let mut tasks = JoinSet::new();
        for _ in 0..senders {
            let (load, next, target) = (self.clone(), next.clone(), target.clone());
            tasks.spawn(async move { load.sender(&target, &next, began, began_at).await });
        }
        let mut sent = Sent::default();
        while let Some(done) = tasks.join_next().await {
            sent.add(done.context("a sender panicked")??);
        }
        sent.took = began.elapsed();
        sent.answers_s.sort_by(f64::total_cmp);
        Ok(sent)
    }

    async fn sender(
        self: Arc<Self>,
        target: &Target,
        next: &AtomicU64,
        began: Instant,
        began_at: SystemTime,
    ) -> anyhow::Result<Sent> {
        let mut sent = Sent::default();
        let mut connection = Connection::open(target).await?;
        loop {
            let n = next.fetch_add(1, Relaxed);
            if n >= self.workload.spec().requests {
                return Ok(sent);
            }
            let body = match self.due(n) {
                None => self.made.get(n as usize).context("a request that was made")?.clone(),
                Some(due) => {
                    tokio::time::sleep_until((began + due).into()).await;
                    sent.late_max = sent.late_max.max(began.elapsed().saturating_sub(due));
                    let load = self.clone();
                    tokio::task::spawn_blocking(move || load.body(n, load.stamp_ns(began_at + due)?))
                        .await??
                }
            };
            let begun = Instant::now();
            sent.bytes += body.len() as u64;
            self.under_way.fetch_add(1, Relaxed);
            let again = connection.deliver(target, n, body).await;
            self.under_way.fetch_sub(1, Relaxed);
            sent.again += u64::from(again?);
            sent.answers_s.push(begun.elapsed().as_secs_f64());
            sent.records += u64::from(self.workload.spec().records_per_request);
        }
    }

    /// The time of a request's first record, when its last one is of `due`.
    fn stamp_ns(&self, due: SystemTime) -> anyhow::Result<u64> {
        let spec = self.workload.spec();
        let first = self.workload.start_ns(0);
        let span_ns = self.workload.start_ns(1) - first;
        let due_ns = due.duration_since(UNIX_EPOCH).context("the clock is before 1970")?.as_nanos();
        let due_ns =
            u64::try_from(due_ns).with_context(|| format!("no time for {} requests", spec.requests))?;
        Ok(due_ns - span_ns)
    }
}

impl Sent {
    fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.again += other.again;
        self.late_max = self.late_max.max(other.late_max);
        self.answers_s.extend(other.answers_s);
    }
}
