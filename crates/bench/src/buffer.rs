//! The workload `buffer`: log records of OpenTelemetry, through a gateway and a log on object storage, into ClickHouse.
//!
//! Owns the order of a run, the pipeline file and the figures. Does not own the records (`workloads::buffer`), the senders
//! (`buffer::send`), the store with its proxy (`buffer::store`), nor the two processes (`buffer::gateway`, `crate::engine`). The gateway
//! answers a request once it is durable in the log; a pipeline reads the log and writes the rows. The CPU of both is what a record costs;
//! that of the senders, the store and ClickHouse is accounted apart or not at all.
//!
//! ```text
//! senders ─▶ forebay gateway ─▶ counting proxy ─▶ S3 ─▶ counting proxy ─▶ forebay run ─▶ ClickHouse
//! ```

mod gateway;
mod outage;
mod send;
mod store;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use workloads::buffer::{Workload, oracle};

use crate::child::{End, Usage};
use crate::counts::{self, Counts};
use crate::engine::{Pipeline, Seen};
use crate::figure::{self, Figure, Figures, Shown};
use crate::place::{Common, Place};
use crate::report::{Arm, Check, Goal, Report, Run, Setting, Verdict, of_content};
use crate::server::Server;
use crate::topic::SENDER_LATE_MAX;
use crate::trace::Percentile;
use crate::{RUN_MAX, START_MAX};
use gateway::Gateway;
use send::{Load, Sent};
use store::{Prices, Store, Traffic};

pub use outage::Outage;
pub use store::{Bucket, Delay};

/// What is aimed at where the load is a backlog, by the size of a record: records per CPU-second of both processes.
const RECORDS_PER_CPU_S_GOALS: [(usize, f64); 2] = [(1_000, 300_000.0), (usize::MAX, 80_000.0)];
/// The same without a log, for small records.
const DIRECT_PER_CPU_S_GOAL: f64 = 400_000.0;
/// From the sender's clock to a SELECT, under a steady load.
const P99_S_GOAL: f64 = 2.0;
/// Memory of the gateway.
const GATEWAY_RSS_BYTES_GOAL: f64 = 512e6;
/// What the published system pays for requests and storage in a month, and the share of it that is aimed at.
const MONTH_COST_GOAL: f64 = 180.0 * 0.6;
/// Its rate.
const PUBLISHED_RECORDS_PER_S: f64 = 175_000.0;

const GATEWAY_CPU_S: Figure = Figure::new("gateway_cpu_s", "  of the gateway, s", Shown::Decimals(2));
const PIPELINE_CPU_S: Figure = Figure::new("pipeline_cpu_s", "  of the pipeline, s", Shown::Decimals(2));
const BOTH_CPU_S: Figure = Figure::new("both_cpu_s", "CPU of gateway and pipeline, s", Shown::Decimals(2));
const GATEWAY_RSS_BYTES_MAX: Figure =
    Figure::new("gateway_rss_bytes_max", "gateway memory at the most, MB", Shown::Megabytes);
const ACCEPTED_PER_S: Figure =
    Figure::new("accepted_records_per_s", "records per second, answered as durable", Shown::Whole);
const ANSWER_P50_S: Figure = Figure::new("answer_p50_s", "sent to answered, p50, s", Shown::Decimals(3));
const ANSWER_P99_S: Figure = Figure::new("answer_p99_s", "sent to answered, p99, s", Shown::Decimals(3));
const BUSY: Figure =
    Figure::new("requests_again", "requests sent again, turned away or broken off", Shown::Whole);
const WIRE_BYTES: Figure =
    Figure::new("sent_bytes_per_record", "bytes a record, as sent", Shown::Decimals(1));
const PUTS: Figure = Figure::new("store_puts_per_million", "PUTs a million records", Shown::Decimals(1));
const GETS: Figure = Figure::new("store_gets_per_million", "GETs a million records", Shown::Decimals(1));
const STORED_BYTES: Figure =
    Figure::new("stored_bytes_per_record", "bytes a record, put into the store", Shown::Decimals(1));
/// Requests follow the time more than the records, so a month is reckoned at the rate that was measured.
const MONTH_COST: Figure =
    Figure::new("month_dollars", "requests and storage, dollars a month at this rate", Shown::Decimals(0));
const OFFERED: Figure = Figure::new("offered_records_per_s", "records per second, offered", Shown::Whole);
const VISIBLE_P50: Figure =
    Figure::new("visible_p50_s", "sender's clock to visible, p50, s", Shown::Decimals(3));
const VISIBLE_P99: Figure =
    Figure::new("visible_p99_s", "sender's clock to visible, p99, s", Shown::Decimals(3));
const VISIBLE_MAX: Figure =
    Figure::new("visible_max_s", "sender's clock to visible, the most, s", Shown::Decimals(3));
const SENDER_LATE: Figure =
    Figure::new("sender_late_s_max", "  of it the sender's lateness, at the most, s", Shown::Decimals(3));
const CAUGHT_UP: Figure =
    Figure::new("caught_up_s", "from the end of the outage to caught up, s", Shown::Decimals(1));
const COUNT_GAP: Figure = Figure::new(
    "visible_error_s_max",
    "  of it the time between two counts, at the most, s",
    Shown::Decimals(3),
);

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
    pub delay: store::Delay,
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
    /// Records a second, sent at their time; `None` sends each request when one before it is answered.
    pub rate: Option<u64>,
    /// How old a batch of the pipeline may get; its default if left out.
    pub batch_age: Option<Duration>,
    /// When ClickHouse answers nobody, under a steady load.
    pub outage: Option<Outage>,
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

/// Measures, and tells progress by `say`.
///
/// # Errors
/// When a part does not start or fails. A wrong table is no error but a verdict.
pub async fn measure(plan: &Plan, say: &dyn Fn(&str)) -> anyhow::Result<Report> {
    let place = Place::make(&plan.common, say)?;
    let bench = Bench { plan, place: &place };
    let outcome = bench.measure().await;
    place.clear();
    outcome
}

struct Bench<'a> {
    plan: &'a Plan,
    place: &'a Place<'a>,
}

/// What a run left to be judged.
struct Ran {
    sent: Sent,
    /// `None` without a gateway.
    gateway: Option<End>,
    pipeline: (End, Seen),
    counts: Counts,
    traffic: Traffic,
    clickhouse: Option<Usage>,
}

impl Bench<'_> {
    async fn measure(&self) -> anyhow::Result<Report> {
        let server = self.place.server().await?;
        let setting = self.setting(&server);
        let runs = self.runs(&server).await;
        server.stop().await?;
        Ok(Report::new(setting, runs?, |arms| goals(arms, self.plan)))
    }

    async fn runs(&self, server: &Server) -> anyhow::Result<Vec<Run>> {
        self.place.say("making the requests");
        let (workload, compression) = (self.plan.workload.clone(), self.plan.compression);
        let load = match self.plan.rate {
            // A request of a steady load bears the time at which it is sent.
            Some(rate) => Load::at_a_rate(workload, compression, rate),
            None => tokio::task::spawn_blocking(move || Load::made(workload, compression)).await??,
        };
        let load = Arc::new(load);
        let expected = self.plan.workload.expected(self.plan.workload.spec().requests);
        let mut runs = Vec::new();
        for number in 1..=self.plan.common.repeat {
            self.place.say(&format!("run {number} of {}", self.plan.common.repeat));
            let run = self.run(number, server, &load, expected).await;
            runs.push(run.with_context(|| format!("run {number}"))?);
        }
        Ok(runs)
    }

    async fn run(
        &self,
        number: u32,
        server: &Server,
        load: &Arc<Load>,
        expected: workloads::content::Content,
    ) -> anyhow::Result<Run> {
        let table = format!("{}_{number}", self.place.name);
        let dir = self.place.folder(&format!("run-{number}"))?;
        let store =
            Store::start(self.plan.bucket.as_ref(), self.plan.delay, &self.place.name, number, &dir).await?;
        let pipeline = Pipeline {
            program: self.plan.common.program.clone(),
            dir: dir.clone(),
            rest: self.pipeline_text(&store, server.url(), &table),
            store: Some(store.lines("pipeline")),
            table: table.clone(),
        };
        let touched = self.place.touch_memory()?;
        let ran = self.ran(server, &pipeline, &store, load, expected.rows).await?;
        let found = server.content(&oracle::sql(&format!("`{table}`"))).await?;
        let accepted = Check {
            what: "records that the gateway has taken",
            expected: expected.rows,
            found: ran.sent.records,
        };
        let written = Check {
            what: "rows written by the journal's account",
            expected: expected.rows,
            found: pipeline.accounts()?.written,
        };
        let verdict = Verdict::of(of_content(expected, found).into_iter().chain([accepted, written]));
        let mut figures = self.figures(&ran, load);
        let mut trace = ran.pipeline.1.trace.clone();
        if self.plan.rate.is_some() {
            let mut latencies_s =
                counts::latencies(server, &table, "toUnixTimestamp64Nano(Timestamp)", &ran.counts).await?;
            latencies_s.sort_by(f64::total_cmp);
            for (figure, share) in [(VISIBLE_P50, 0.5), (VISIBLE_P99, 0.99), (VISIBLE_MAX, 1.0)] {
                figures.put_if(figure, counts::at_share(&latencies_s, share));
            }
            if let (Some(outage), Some(rate)) = (self.plan.outage, self.plan.rate) {
                let caught_up = outage.caught_up(&ran.counts.rising, rate, expected.rows);
                figures.put_if(CAUGHT_UP, caught_up.map(|time| time.as_secs_f64()));
            }
            figures.put(COUNT_GAP, ran.counts.gap_max.as_secs_f64());
            figures.put(SENDER_LATE, ran.sent.late_max.as_secs_f64());
            trace.percentiles = percentiles(&latencies_s);
        }
        figures.put_if(figure::FIRST_TOUCH_MS, touched);
        self.place.drop_tables(server, &table).await?;
        let not_valid = not_valid(ran.sent.late_max);
        let arm = if self.plan.direct { "pipeline that listens" } else { "gateway, log and pipeline" };
        Ok(Run { arm: arm.to_owned(), figures, verdict, not_valid, trace })
    }

    async fn ran(
        &self,
        server: &Server,
        pipeline: &Pipeline,
        store: &Store,
        load: &Arc<Load>,
        rows: u64,
    ) -> anyhow::Result<Ran> {
        let before = server.usage()?;
        let mut gateway = match self.plan.direct {
            true => None,
            false => Some(Gateway::start(self.plan, store, &pipeline.dir).await?),
        };
        let mut engine = pipeline.start(false)?;
        engine.ready(START_MAX).await?;
        let address = match &gateway {
            Some(gateway) => gateway.address().to_owned(),
            None => engine.listens(gateway::LISTENS)?,
        };
        let target = send::Target { address, over: self.plan.over, compression: self.plan.compression };
        let began = Instant::now();
        let sending = load.send(&target, self.plan.senders, began);
        let counts = RefCell::new(Counts::begun_at(began));
        // A sender that is refused ends the run: the rows that the engine is watched for would never come.
        let both = async { tokio::try_join!(engine.watch(Some(rows), RUN_MAX), sending) };
        let (watched, sent) = match self.plan.rate {
            None => both.await?,
            Some(_) => tokio::select! {
                both = both => both?,
                never = counts::count_for_ever(server, &pipeline.table, &counts) => match never {},
                never = self.outage(server) => match never? {},
            },
        };
        let mut counts = counts.into_inner();
        if self.plan.rate.is_some() {
            counts.last(server, &pipeline.table).await?;
        }
        let gateway = match &mut gateway {
            Some(gateway) => Some(gateway.stop().await?),
            None => None,
        };
        let clickhouse = server.usage()?.zip(before).map(|(after, before)| after.since(before));
        Ok(Ran { sent, gateway, pipeline: watched, counts, traffic: store.traffic(), clickhouse })
    }

    async fn outage(&self, server: &Server) -> anyhow::Result<std::convert::Infallible> {
        match self.plan.outage {
            Some(outage) => outage.happen(server).await,
            None => std::future::pending().await,
        }
    }

    fn figures(&self, ran: &Ran, load: &Load) -> Figures {
        let mut figures = Figures::default();
        let records = ran.sent.records as f64;
        let millions = records / 1e6;
        let (pipeline, _) = &ran.pipeline;
        let gateway = ran.gateway.as_ref().map(|end| end.usage);
        let both_s = gateway.map_or(0.0, |usage| usage.cpu_s()) + pipeline.usage.cpu_s();
        figures.put(figure::RECORDS_PER_CPU_S, records / both_s);
        if let Some(rate) = self.plan.rate {
            figures.put(OFFERED, rate as f64);
        }
        figures.put(ACCEPTED_PER_S, records / ran.sent.took.as_secs_f64());
        figures.put(BOTH_CPU_S, both_s);
        figures.put_if(GATEWAY_CPU_S, gateway.map(|usage| usage.cpu_s()));
        figures.put(PIPELINE_CPU_S, pipeline.usage.cpu_s());
        figures.put_if(GATEWAY_RSS_BYTES_MAX, gateway.map(|usage| usage.rss_bytes_max as f64));
        figures.put(figure::ENGINE_RSS_BYTES_MAX, pipeline.usage.rss_bytes_max as f64);
        figures.put_if(figure::CLICKHOUSE_CPU_S, ran.clickhouse.map(|usage| usage.cpu_s()));
        figures.put_if(ANSWER_P50_S, counts::at_share(&ran.sent.answers_s, 0.5));
        figures.put_if(ANSWER_P99_S, counts::at_share(&ran.sent.answers_s, 0.99));
        figures.put(BUSY, ran.sent.again as f64);
        figures.put(WIRE_BYTES, load.bytes_per_record().unwrap_or(ran.sent.bytes as f64 / records));
        if let Some(counted) = ran.traffic.counted() {
            figures.put(PUTS, counted.puts as f64 / millions);
            figures.put(GETS, counted.gets as f64 / millions);
            figures.put(STORED_BYTES, counted.put_bytes as f64 / records);
            figures.put(MONTH_COST, Prices::LIST.month(counted, ran.sent.took));
        }
        figures
    }

    fn pipeline_text(&self, store: &Store, url: &str, table: &str) -> String {
        let age = self
            .plan
            .batch_age
            .map_or(String::new(), |age| format!("  batch: {{ age: {}ms }}\n", age.as_millis()));
        let (listen, source) = match (self.plan.direct, self.plan.over) {
            (false, _) => (String::new(), format!("log: {{ url: '{}' }}", store.url("log/logs"))),
            (true, over) => {
                let otlp = if over == Over::Stream { "" } else { ", otlp: { logs: logs }" };
                let listen = format!("listen: {{ address: '127.0.0.1:0'{otlp} }}\n");
                (listen, "listen: { stream: logs }".to_owned())
            }
        };
        let inserts = match self.plan.inserts {
            Inserts::Lz4 => "lz4",
            Inserts::None => "none",
        };
        format!(
            "{listen}source:\n  {source}\n  format: otlp_logs\nsink:\n  clickhouse:\n    url: {url}\n    table: {table}\n    compression: {inserts}\n    provenance: true\n{CREATE}{age}{}",
            self.plan.common.memory_line()
        )
    }

    fn setting(&self, server: &Server) -> Setting {
        let spec = self.plan.workload.spec();
        let over = match self.plan.over {
            Over::OtlpHttp => "OTLP over HTTP",
            Over::OtlpGrpc => "OTLP over gRPC",
            Over::Stream => "HTTP, a request as one record",
        };
        let place = match &self.plan.bucket {
            Some(_) => format!(
                "through S3 that takes {} ms longer for a PUT and {} ms for a GET",
                self.plan.delay.put.as_millis(),
                self.plan.delay.get.as_millis()
            ),
            None => "through a folder".to_owned(),
        };
        let sentences = vec![
            format!(
                "{} log records of {} B, {} a request",
                figure::whole(self.plan.workload.records_total() as f64),
                spec.record_bytes,
                spec.records_per_request
            ),
            match self.plan.direct {
                true => format!(
                    "by {over}, {} at a time, straight into a pipeline, without a log",
                    self.plan.senders
                ),
                false => format!("by {over}, {} at a time, {place}", self.plan.senders),
            },
            match self.plan.inserts {
                Inserts::Lz4 => "inserts compressed by LZ4".to_owned(),
                Inserts::None => "inserts not compressed".to_owned(),
            },
        ];
        let facts = json!({
            "requests": spec.requests,
            "records_per_request": spec.records_per_request,
            "record_bytes": spec.record_bytes,
            "direct": self.plan.direct,
            "inserts_compressed": self.plan.inserts == Inserts::Lz4,
            "senders": self.plan.senders,
            "rate": self.plan.rate,
            "outage_s": self.plan.outage.map(|outage| outage.time.as_secs_f64()),
            "put_delay_ms": self.plan.delay.put.as_millis() as u64,
            "get_delay_ms": self.plan.delay.get.as_millis() as u64,
        });
        self.place.setting("buffer", server, sentences, facts.as_object().cloned().unwrap_or_default())
    }
}

/// The table of the collector's ClickHouse exporter, as far as this workload fills it.
const CREATE: &str = "    create:
      columns:
        Timestamp: DateTime64(9)
        TraceId: String
        SpanId: String
        TraceFlags: UInt8
        SeverityText: LowCardinality(String)
        SeverityNumber: UInt8
        ServiceName: LowCardinality(String)
        Body: String
        ResourceSchemaUrl: LowCardinality(String)
        ResourceAttributes: \"Map(LowCardinality(String), String)\"
        ScopeSchemaUrl: LowCardinality(String)
        ScopeName: String
        ScopeVersion: LowCardinality(String)
        ScopeAttributes: \"Map(LowCardinality(String), String)\"
        LogAttributes: \"Map(LowCardinality(String), String)\"
        EventName: String
      order_by: [toStartOfFiveMinutes(Timestamp), ServiceName, Timestamp]
";

fn percentiles(sorted_s: &[f64]) -> Vec<Percentile> {
    let shares = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0];
    let at = |share| Some(Percentile { share, latency_s: counts::at_share(sorted_s, share)? });
    shares.into_iter().filter_map(at).collect()
}

/// Why the figures of a run are not to be quoted.
fn not_valid(sender_late: Duration) -> Option<String> {
    let (late_s, max_s) = (sender_late.as_secs_f64(), SENDER_LATE_MAX.as_secs_f64());
    (sender_late > SENDER_LATE_MAX).then(|| {
        format!("the sender was {late_s:.2} s late, and {max_s} s are allowed: the load was not the one that is named")
    })
}

fn goals(arms: &[Arm], plan: &Plan) -> Vec<Goal> {
    let of =
        |figure: Figure| arms.first().and_then(|arm| arm.summary.get(figure)).map(|spread| spread.median);
    let record_bytes = plan.workload.spec().record_bytes;
    let mut goals = Vec::new();
    match plan.rate {
        None => {
            let wanted = RECORDS_PER_CPU_S_GOALS.iter().find(|(bytes, _)| record_bytes <= *bytes).map(
                |(bytes, goal)| match plan.direct {
                    true if *bytes < usize::MAX => DIRECT_PER_CPU_S_GOAL,
                    _ => *goal,
                },
            );
            goals.extend(wanted.map(|wanted| Goal {
                text: format!("{} records per CPU-second of gateway and pipeline", figure::whole(wanted)),
                met: of(figure::RECORDS_PER_CPU_S).map(|rate| rate >= wanted),
            }));
        }
        // What waits for the end of an outage is late.
        Some(_) if plan.outage.is_some() => {}
        Some(rate) => {
            goals.push(Goal {
                text: format!("p99 from the sender's clock to visible up to {P99_S_GOAL} s"),
                met: of(VISIBLE_P99).map(|p99| p99 <= P99_S_GOAL),
            });
            if plan.bucket.is_some() {
                let cost = of(MONTH_COST).filter(|_| rate as f64 >= PUBLISHED_RECORDS_PER_S);
                goals.push(Goal {
                    text: format!(
                        "requests and storage up to ${MONTH_COST_GOAL:.0} a month at 175,000 records/s"
                    ),
                    met: cost.map(|cost| cost <= MONTH_COST_GOAL),
                });
            }
        }
    }
    if !plan.direct {
        goals.push(Goal {
            text: format!("gateway memory up to {} MB", figure::whole(GATEWAY_RSS_BYTES_GOAL / 1e6)),
            met: of(GATEWAY_RSS_BYTES_MAX).map(|bytes| bytes <= GATEWAY_RSS_BYTES_GOAL),
        });
    }
    goals
}

#[cfg(test)]
mod tests;
