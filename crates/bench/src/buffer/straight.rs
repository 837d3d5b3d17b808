//! A collector that inserts what it takes into ClickHouse itself: the other half of `--against otelcol`.
//!
//! Owns such a run. Does not own the collector's file and process (`buffer::collector`), the load, nor the figures (`buffer::figures`). There is no
//! gateway, no log and no pipeline: a sender is answered once the exporter's insert is, and each request is an insert. The table has the columns and the
//! key of ours, and what it holds in the end is compared in the same way.

use std::path::Path;
use std::time::Instant;

use workloads::buffer::oracle;

use super::answers::Answers;
use super::collector::{Collector, To};
use super::{Bench, Offer, consumer, figures, late, send};
use crate::figure;
use crate::report::{Check, Run, Verdict, of_content};
use crate::server::Server;
use crate::trace::Trace;

impl Bench<'_> {
    /// Sends everything to such a collector.
    ///
    /// # Errors
    /// When a part does not start or fails.
    pub(super) async fn straight(
        &self,
        name: &str,
        server: &Server,
        offer: &Offer,
        program: &Path,
    ) -> anyhow::Result<Run> {
        let table = format!("{}_{name}", self.place.name);
        let dir = self.place.folder(&format!("run-{name}"))?;
        server.ask(&consumer::create(&table)).await?;
        let answers = Answers::start(server.url()).await?;
        let touched = self.place.touch_memory()?;
        let before = server.usage()?;
        let (over, compression) = (self.plan.over, self.plan.compression);
        let to = To::Table { url: answers.url(), table: &table, inserts: self.plan.inserts };
        let collector = Collector::start(program, over, compression, to, &dir).await?;
        let target = send::Target { address: collector.address().to_owned(), over, compression };
        let sent = offer.load.send(&target, self.plan.senders, Instant::now()).await?;
        let used = collector.stop().await?.usage;
        let clickhouse = server.usage()?.zip(before).map(|(after, before)| after.since(before));
        let found = server.content(&oracle::sql(&format!("`{table}`"))).await?;
        let accepted = Check {
            what: "records that the collector has taken",
            expected: offer.expected.rows,
            found: sent.records,
        };
        let verdict = Verdict::of(of_content(offer.expected, found).into_iter().chain([accepted]));
        let bytes_per_record = offer.load.bytes_per_record();
        let mut figures = figures::of_collector(&sent, used, clickhouse, offer.rate, bytes_per_record);
        figures.put_if(figure::FIRST_TOUCH_MS, touched);
        let not_valid = offer.rate.and_then(|_| late(sent.late_max));
        self.place.drop_tables(server, &table).await?;
        Ok(Run { arm: offer.arm.clone(), figures, verdict, not_valid, trace: Trace::default() })
    }
}
