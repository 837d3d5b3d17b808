//! The workload `buffer`: log records of OpenTelemetry, through a gateway and a log on object storage, into ClickHouse.
//!
//! Owns the order of a run. Does not own the records (`workloads::buffer`), nor what its modules own. The gateway answers a request once it is durable
//! in the log; a pipeline reads the log and writes the rows. The CPU of both is what a record costs; that of the senders, the store and ClickHouse is
//! accounted apart or not at all.
//!
//! ```text
//! senders ─▶ (a collector) ─▶ forebay gateway ─▶ counting proxy ─▶ S3 ─▶ counting proxy ─▶ forebay run ─▶ ClickHouse
//! senders ─▶ a collector ─▶ ClickHouse
//! ```
//!
//! | module      | what it owns                                                      |
//! |-------------|-------------------------------------------------------------------|
//! | `plan`      | what is to be measured                                            |
//! | `send`      | the senders and their pace                                        |
//! | `store`     | the log's store                                                   |
//! | `proxy`     | a proxy that counts, delays, is away, and holds requests          |
//! | `connections` | a server of HTTP in this process                                |
//! | `gateway`   | the gateway's file and process                                    |
//! | `consumer`  | the pipeline's file and the table's columns                       |
//! | `collector` | a collector of OpenTelemetry: its file and process                |
//! | `straight`  | a run in which one inserts into ClickHouse itself                 |
//! | `answers`   | ClickHouse's answers as its exporter expects them                 |
//! | `moments`   | the two latencies of a record                                     |
//! | `outage`    | ClickHouse that answers nobody, and catching up                   |
//! | `crash`     | every part killed in every stage and started again                |
//! | `figures`   | what is measured, and the table by rate                           |
//! | `costs`     | list prices, beside what the published system costs               |
//! | `goals`     | what is to be reached                                             |

mod answers;
mod collector;
mod connections;
mod consumer;
mod costs;
mod crash;
mod figures;
mod gateway;
mod goals;
mod moments;
mod outage;
mod plan;
mod proxy;
mod send;
mod store;
mod straight;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use workloads::buffer::oracle;
use workloads::content::Content;

use crate::child::Usage;
use crate::counts::{self, Counts};
use crate::engine::{Pipeline, Seen};
use crate::figure;
use crate::place::Place;
use crate::report::{Check, Report, Run, Setting, Verdict, of_content};
use crate::server::Server;
use crate::topic::SENDER_LATE_MAX;
use crate::{RUN_MAX, START_MAX};
use collector::{Collector, To};
use crash::{Crash, Parts, free_port};
use gateway::Gateway;
use moments::Latencies;
use proxy::Proxy;
use send::{Load, Sent};
use store::{Store, Traffic};

pub use collector::program as collector;
pub use outage::Outage;
pub use plan::{Compression, Inserts, Over, Plan, Trouble};
pub use proxy::Delay;
pub use store::Bucket;

/// Measures, and tells progress by `say`.
///
/// # Errors
/// When a part does not start or fails. A wrong table is no error but a verdict.
pub async fn measure(plan: &Plan, say: &dyn Fn(&str)) -> anyhow::Result<Report> {
    let place = Place::make(&plan.common, say)?;
    let bench = Bench { plan, place: &place, crashes: RefCell::default() };
    let outcome = bench.measure().await;
    place.clear(outcome)
}

struct Bench<'a> {
    plan: &'a Plan,
    place: &'a Place<'a>,
    /// Of all runs.
    crashes: RefCell<Vec<Crash>>,
}

/// One load, which is an arm.
struct Offer {
    arm: String,
    /// Records a second; `None` for as many as are taken.
    rate: Option<u64>,
    load: Arc<Load>,
    expected: Content,
    way: Way,
}

/// Which way records take.
#[derive(Clone, Debug)]
enum Way {
    /// From the senders to the gateway, or to a pipeline that listens.
    Ours,
    /// Through this collector, which passes on to the same.
    Behind(PathBuf),
    /// Through this collector into ClickHouse.
    Straight(PathBuf),
}

/// What a run left to be judged.
struct Ran {
    sent: Sent,
    /// `None` without a gateway.
    gateway: Option<Usage>,
    /// `None` where senders send to the gateway themselves.
    collector: Option<Usage>,
    pipeline: Usage,
    seen: Seen,
    counts: Counts,
    traffic: Traffic,
    clickhouse: Option<Usage>,
    crashes: Vec<Crash>,
    checks: Vec<Check>,
}

impl Bench<'_> {
    async fn measure(&self) -> anyhow::Result<Report> {
        let server = match (self.plan.trouble, &self.plan.common.clickhouse) {
            // It comes back to its port.
            (Trouble::Crash, None) => Server::start_at(&self.place.dir, free_port()?).await?,
            _ => self.place.server().await?,
        };
        let setting = self.setting(&server);
        let runs = self.runs(&server).await;
        server.stop().await?;
        let report = Report::new(setting, runs?, |arms| goals::goals(arms, self.plan));
        Ok(report.with_grids(|arms| {
            let killed = crash::grid(&self.crashes.borrow());
            figures::by_rate(arms, self.plan).into_iter().chain(killed).chain(costs::grid(arms)).collect()
        }))
    }

    async fn runs(&self, server: &Server) -> anyhow::Result<Vec<Run>> {
        let offers = self.offers().await?;
        let mut runs = Vec::new();
        for round in 1..=self.plan.common.repeat {
            for (place, offer) in offers.iter().enumerate() {
                self.place.say(&format!("round {round} of {}: {}", self.plan.common.repeat, offer.arm));
                let run = self.run(&format!("{round}_{place}"), server, offer).await;
                runs.push(run.with_context(|| format!("round {round}, {}", offer.arm))?);
            }
        }
        Ok(runs)
    }

    async fn offers(&self) -> anyhow::Result<Vec<Offer>> {
        let compression = self.plan.compression;
        if self.plan.rates.is_empty() {
            self.place.say("making the requests");
            let workload = self.plan.workload.clone();
            let expected = workload.expected(workload.spec().requests);
            let load = tokio::task::spawn_blocking(move || Load::made(workload, compression)).await??;
            let arm = self.plan.arm(None);
            let offer = Offer { arm, rate: None, load: load.into(), expected, way: Way::Ours };
            return Ok(self.in_turns(vec![offer]));
        }
        let offer = |rate: &u64| {
            let workload = self.plan.workload_at(*rate)?;
            let arm = self.plan.arm(Some(*rate));
            let expected = workload.expected(workload.spec().requests);
            // A request of a steady load bears the time at which it is sent.
            let load = Load::at_a_rate(workload, compression, *rate).into();
            anyhow::Ok(Offer { arm, rate: Some(*rate), load, expected, way: Way::Ours })
        };
        let offers = self.plan.rates.iter().map(offer).collect::<anyhow::Result<_>>()?;
        Ok(self.in_turns(offers))
    }

    /// Each load, and behind it the same through a collector in both of its ways if one is measured too.
    fn in_turns(&self, offers: Vec<Offer>) -> Vec<Offer> {
        let Some(program) = &self.plan.collector else { return offers };
        let other =
            |offer: &Offer, arm: String, way: Way| Offer { arm, load: offer.load.clone(), way, ..*offer };
        let all = |offer: Offer| {
            let behind = format!("{} behind a collector", offer.arm);
            let straight = match self.plan.rates.len() {
                0 | 1 => "collector straight into ClickHouse".to_owned(),
                _ => format!("{}, collector straight into ClickHouse", offer.arm),
            };
            let behind = other(&offer, behind, Way::Behind(program.clone()));
            let straight = other(&offer, straight, Way::Straight(program.clone()));
            [offer, behind, straight]
        };
        offers.into_iter().flat_map(all).collect()
    }

    async fn run(&self, name: &str, server: &Server, offer: &Offer) -> anyhow::Result<Run> {
        if let Way::Straight(program) = &offer.way {
            return self.straight(name, server, offer, program).await;
        }
        let table = format!("{}_{name}", self.place.name);
        let run = format!("run-{name}");
        let dir = self.place.folder(&run)?;
        let port = self.port()?;
        let bucket = self.plan.bucket.as_ref();
        let store = Store::start(bucket, self.plan.delay, &self.place.name, &run, &dir, port).await?;
        let before_server = match self.plan.trouble {
            // What is held before ClickHouse shows in which stage an insert is.
            Trouble::Crash => Some(Proxy::start(server.url(), Delay::default(), self.port()?).await?),
            Trouble::None | Trouble::Outage(_) => None,
        };
        let url = before_server.as_ref().map_or(server.url(), Proxy::url);
        let pipeline = Pipeline {
            program: self.plan.common.program.clone(),
            dir: dir.clone(),
            rest: consumer::text(self.plan, &store, url, &table, offer.rate.is_some()),
            store: Some(store.lines("pipeline")),
            table: table.clone(),
        };
        let touched = self.place.touch_memory()?;
        let ran = self.ran(server, before_server.as_ref(), &pipeline, &store, offer).await?;
        self.crashes.borrow_mut().extend(&ran.crashes);
        let found = server.content(&oracle::sql(&format!("`{table}`"))).await?;
        let accepted = Check {
            what: "records that the gateway has taken",
            expected: offer.expected.rows,
            found: ran.sent.records,
        };
        let written = Check {
            what: "rows written by the journal's account",
            expected: offer.expected.rows,
            found: pipeline.accounts()?.written,
        };
        let checks = of_content(offer.expected, found).into_iter().chain([accepted, written]);
        let verdict = Verdict::of(checks.chain(ran.checks.iter().copied()));
        let mut figures = self.figures(&ran, offer.rate, offer.load.bytes_per_record());
        let mut trace = ran.seen.trace.clone();
        let mut not_valid = None;
        if let Some(rate) = offer.rate {
            let rows = offer.expected.rows;
            match self.plan.trouble {
                // Senders wait for a gateway that was killed, so that they are late; and nothing of the latencies is of a steady load.
                Trouble::Crash => crash::put(&ran.crashes, &ran.counts, rate, rows, &mut figures),
                Trouble::None | Trouble::Outage(_) => {
                    let latencies = Latencies::ask(server, &table, &ran.counts).await?;
                    latencies.put_strict(&mut figures);
                    trace.percentiles = latencies.percentiles();
                    figures.put(figures::COUNT_GAP, ran.counts.gap_max.as_secs_f64());
                    figures.put(figures::SENDER_LATE, ran.sent.late_max.as_secs_f64());
                    latencies.put_theirs(&mut figures);
                    not_valid = late(ran.sent.late_max);
                }
            }
            if let Trouble::Outage(outage) = self.plan.trouble
                && let Some(caught_up) = outage::caught_up(&ran.counts.rising, outage.end(), rate, rows)
            {
                figures.put(figures::CAUGHT_UP, caught_up.time.as_secs_f64());
                figures.put(figures::CATCHING_UP_PER_S, caught_up.rows_per_s);
            }
        }
        figures.put_if(figure::FIRST_TOUCH_MS, touched);
        self.place.drop_tables(server, &table).await?;
        Ok(Run { arm: offer.arm.clone(), figures, verdict, not_valid, trace })
    }

    /// Where a part listens that comes back there; 0 for any free port.
    fn port(&self) -> anyhow::Result<u16> {
        match self.plan.trouble {
            Trouble::Crash => free_port(),
            Trouble::None | Trouble::Outage(_) => Ok(0),
        }
    }

    async fn ran(
        &self,
        server: &Server,
        before_server: Option<&Proxy>,
        pipeline: &Pipeline,
        store: &Store,
        offer: &Offer,
    ) -> anyhow::Result<Ran> {
        let before = server.usage()?;
        let port = self.port()?;
        let gateway = match self.plan.direct {
            true => None,
            false => Some(Gateway::start(self.plan, store, &pipeline.dir, port).await?),
        };
        let mut engine = pipeline.start(false)?;
        engine.ready(START_MAX).await?;
        let address = match &gateway {
            Some(gateway) => gateway.address().to_owned(),
            None => engine.listens(gateway::LISTENS)?,
        };
        let (over, compression) = (self.plan.over, self.plan.compression);
        let collector = match &offer.way {
            Way::Behind(program) => {
                let to = To::Gateway(&address);
                Some(Collector::start(program, over, compression, to, &pipeline.dir).await?)
            }
            Way::Ours | Way::Straight(_) => None,
        };
        let address = collector.as_ref().map_or(address, |collector| collector.address().to_owned());
        let target = send::Target { address, over, compression };
        // What a start asks of the store is asked once, however long a load goes on.
        let asked = store.traffic();
        let parts = Parts {
            plan: self.plan,
            server,
            store,
            before_server,
            pipeline,
            port,
            gateway,
            engine: Some(engine),
            gateway_used: Usage::default(),
            engine_used: Usage::default(),
            say: &|line| self.place.say(line),
        };
        let mut ran = match self.plan.trouble {
            Trouble::Crash => self.crashed(parts, &target, offer).await?,
            Trouble::None | Trouble::Outage(_) => self.steady(parts, &target, offer).await?,
        };
        ran.collector = match collector {
            Some(collector) => Some(collector.stop().await?.usage),
            None => None,
        };
        ran.traffic = ran.traffic.since(asked);
        ran.clickhouse = server.usage()?.zip(before).map(|(after, before)| after.since(before));
        Ok(ran)
    }

    /// Sends everything while the parts run, or ClickHouse is suspended.
    async fn steady(&self, parts: Parts<'_>, target: &send::Target, offer: &Offer) -> anyhow::Result<Ran> {
        let Parts { server, store, pipeline, gateway, engine, .. } = parts;
        let engine = engine.context("it runs")?;
        let began = Instant::now();
        let counts = RefCell::new(Counts::begun_at(began));
        let sending = offer.load.send(target, self.plan.senders, began);
        // A sender that is refused ends the run: the rows that the engine is watched for would never come.
        let both = async { tokio::try_join!(engine.watch(Some(offer.expected.rows), RUN_MAX), sending) };
        let ((end, seen), sent) = match offer.rate {
            None => both.await?,
            Some(_) => tokio::select! {
                both = both => both?,
                never = counts::count_for_ever(server, &pipeline.table, &counts) => match never {},
                never = self.outage(server) => match never? {},
            },
        };
        let mut counts = counts.into_inner();
        if offer.rate.is_some() {
            counts.last(server, &pipeline.table).await?;
        }
        let traffic = store.traffic();
        let gateway = match gateway {
            Some(mut gateway) => Some(gateway.stop().await?.usage),
            None => None,
        };
        Ok(Ran {
            sent,
            gateway,
            collector: None,
            pipeline: end.usage,
            seen,
            counts,
            traffic,
            clickhouse: None,
            crashes: Vec::new(),
            checks: Vec::new(),
        })
    }

    /// Sends everything while every part is killed in each of its stages.
    async fn crashed(
        &self,
        mut parts: Parts<'_>,
        target: &send::Target,
        offer: &Offer,
    ) -> anyhow::Result<Ran> {
        let Parts { server, store, pipeline, .. } = parts;
        let length = offer.load.length().context("kills are spread over a steady load")?;
        let kills = crash::planned(store.can_be_away(), length)?;
        let began = Instant::now();
        let counts = RefCell::new(Counts::begun_at(began));
        let sending = offer.load.send(target, self.plan.senders, began);
        let killing = parts.crash(&kills, &offer.load, began, length);
        let both = async { tokio::try_join!(killing, sending) };
        let (crashes, sent) = tokio::select! {
            both = both => both?,
            never = counts::count_for_ever(server, &pipeline.table, &counts) => match never {},
        };
        parts.settled(&counts, offer.expected.rows).await?;
        let (expected, found) = (kills.len() as u64, crashes.len() as u64);
        let killed = Check { what: "kills, of all parts in all stages", expected, found };
        let traffic = store.traffic();
        let (gateway, pipeline, seen) = parts.stop().await?;
        Ok(Ran {
            sent,
            gateway: Some(gateway),
            collector: None,
            pipeline,
            seen,
            counts: counts.into_inner(),
            traffic,
            clickhouse: None,
            crashes,
            checks: vec![killed],
        })
    }

    async fn outage(&self, server: &Server) -> anyhow::Result<std::convert::Infallible> {
        match self.plan.trouble {
            Trouble::Outage(outage) => outage.happen(server).await,
            Trouble::None | Trouble::Crash => std::future::pending().await,
        }
    }

    fn setting(&self, server: &Server) -> Setting {
        let spec = self.plan.workload.spec();
        let facts = json!({
            "requests": spec.requests,
            "records_per_request": spec.records_per_request,
            "record_bytes": spec.record_bytes,
            "direct": self.plan.direct,
            "inserts_compressed": self.plan.inserts == Inserts::Lz4,
            "senders": self.plan.senders,
            "rates": self.plan.rates,
            "offered_s": self.plan.time.map(|time| time.as_secs_f64()),
            "outage_s": match self.plan.trouble {
                Trouble::Outage(outage) => Some(outage.time.as_secs_f64()),
                Trouble::None | Trouble::Crash => None,
            },
            "crash": self.plan.trouble == Trouble::Crash,
            "against_otelcol": self.plan.collector.is_some(),
            "put_delay_ms": self.plan.delay.put.as_millis() as u64,
            "get_delay_ms": self.plan.delay.get.as_millis() as u64,
        });
        let facts = facts.as_object().cloned().unwrap_or_default();
        self.place.setting("buffer", server, self.plan.sentences(), facts)
    }
}

/// Why the figures of a run are not to be quoted.
fn late(sender_late: Duration) -> Option<String> {
    let (late_s, max_s) = (sender_late.as_secs_f64(), SENDER_LATE_MAX.as_secs_f64());
    (sender_late > SENDER_LATE_MAX).then(|| {
        format!("the sender was {late_s:.2} s late, and {max_s} s are allowed: the load was not the one that is named")
    })
}

#[cfg(test)]
mod tests;
