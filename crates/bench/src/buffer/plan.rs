//! What `bench buffer` is asked to measure.
//!
//! Owns the plan, the load of a rate, and its words for people. Does not own the command line (`options::buffer`), nor a run (`crate::buffer`).

use std::path::PathBuf;
use std::time::Duration;

use workloads::buffer::{Spec, Workload};

use super::outage::Outage;
use super::proxy::Delay;
use super::store::Bucket;
use crate::figure;
use crate::place::Common;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What every workload is given.
    pub common: Common,
    /// The records.
    pub workload: Workload,
    /// Where the log and the pipeline's store are; `None` for a folder.
    pub bucket: Option<Bucket>,
    /// What the store takes longer for a PUT and for a GET.
    pub delay: Delay,
    /// Into the pipeline itself, without a gateway and a log.
    pub direct: bool,
    /// How a sender speaks.
    pub over: Over,
    /// How a body is compressed.
    pub compression: Compression,
    /// How the bodies of the pipeline's inserts are compressed.
    pub inserts: Inserts,
    /// Requests under way at a time.
    pub senders: u32,
    /// Records a second, sent at their time, each an arm; none sends each request when one before it is answered.
    pub rates: Vec<u64>,
    /// For how long each rate is offered; all records of the workload if left out.
    pub time: Option<Duration>,
    /// How old a batch of the pipeline may get; its default if left out.
    pub batch_age: Option<Duration>,
    /// What happens under a steady load.
    pub trouble: Trouble,
    /// The program of a collector that takes the same load, in turns: to pass it on to the gateway, and to insert it into ClickHouse itself.
    pub collector: Option<PathBuf>,
}

/// What happens under a steady load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// ClickHouse answers nobody for a while.
    Outage(Outage),
    /// The gateway, the pipeline, ClickHouse and the store are killed and started again.
    Crash,
}

/// How a sender speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// `POST /v1/logs`, OTLP.
    OtlpHttp,
    /// The service of OTLP's logs.
    OtlpGrpc,
    /// `POST /v1/streams/logs`: a request's body as one record.
    Stream,
}

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

/// How bodies of inserts are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Inserts {
    Lz4,
    None,
}

impl Plan {
    /// The workload of a rate that is offered for [`Self::time`].
    pub fn workload_at(&self, rate: u64) -> anyhow::Result<Workload> {
        let Some(time) = self.time else { return Ok(self.workload.clone()) };
        let spec = self.workload.spec();
        let records = rate as f64 * time.as_secs_f64();
        let requests = (records / f64::from(spec.records_per_request)).ceil() as u64;
        Ok(Workload::new(Spec { requests: requests.max(1), ..spec.clone() })?)
    }

    /// The name of the arm whose senders send to us, at this rate or as fast as they are answered.
    pub fn arm(&self, rate: Option<u64>) -> String {
        match rate {
            Some(rate) if self.rates.len() > 1 => format!("{} records/s", figure::whole(rate as f64)),
            _ if self.direct => "pipeline that listens".to_owned(),
            _ => "gateway, log and pipeline".to_owned(),
        }
    }

    /// What is measured, for people.
    pub fn sentences(&self) -> Vec<String> {
        let spec = self.workload.spec();
        let over = match self.over {
            Over::OtlpHttp => "OTLP over HTTP",
            Over::OtlpGrpc => "OTLP over gRPC",
            Over::Stream => "HTTP, a request as one record",
        };
        let place = match &self.bucket {
            Some(_) => format!(
                "through S3 that takes {} ms longer for a PUT and {} ms for a GET",
                self.delay.put.as_millis(),
                self.delay.get.as_millis()
            ),
            None => "through a folder".to_owned(),
        };
        let size = format!("of {} B, {} a request", spec.record_bytes, spec.records_per_request);
        let mut sentences = vec![
            match self.time {
                Some(time) => format!("log records {size}, {} s of each rate", time.as_secs_f64()),
                None => format!("{} log records {size}", figure::whole(self.workload.records_total() as f64)),
            },
            match self.direct {
                true => {
                    format!("by {over}, {} at a time, straight into a pipeline, without a log", self.senders)
                }
                false => format!("by {over}, {} at a time, {place}", self.senders),
            },
            match self.inserts {
                Inserts::Lz4 => "inserts compressed by LZ4".to_owned(),
                Inserts::None => "inserts not compressed".to_owned(),
            },
        ];
        if self.collector.is_some() {
            sentences.push(
                "and the same through a collector of OpenTelemetry that passes each request on to the gateway and answers when it has an answer"
                    .to_owned(),
            );
            sentences.push(
                "and by one that inserts each request into ClickHouse itself, by its own exporter over HTTP, without a log".to_owned(),
            );
        }
        match self.trouble {
            Trouble::None => {}
            Trouble::Outage(outage) => sentences.push(format!(
                "ClickHouse answers nobody for {} s, from second {} on",
                outage.time.as_secs_f64(),
                outage.after.as_secs_f64()
            )),
            Trouble::Crash => sentences.push(
                "gateway, pipeline, ClickHouse and the proxy before S3 are killed in turn, in each stage of their work, and started again a second later".to_owned(),
            ),
        }
        sentences
    }
}
