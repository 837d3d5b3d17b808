//! A plain consumer of the same backlog: at least once, without deduplication.
//!
//! Owns its table and its verdict: every record is there, duplicates too, and the distinct rows are those of the workload. Does not own the
//! program, nor its build (`crate::peer`).

use std::path::Path;
use std::process::Command;

use anyhow::bail;
use workloads::content::Content;
use workloads::glassflow::oracle;

use super::Bench;
use crate::RUN_MAX;
use crate::child::Child;
use crate::figure::{self, Figures};
use crate::peer::Peer;
use crate::report::{Check, Run, Verdict, of_content};
use crate::server::Server;
use crate::topic::Topic;
use crate::trace::Trace;

impl Bench<'_> {
    /// One run of a peer's program over the backlog.
    pub(super) async fn consumer(
        &self,
        peer: Peer,
        program: &Path,
        number: u32,
        server: &Server,
        expected: Content,
        topic: &Topic,
    ) -> anyhow::Result<Run> {
        let table = format!("{}_{number}_peer", self.place.name);
        let dir = self.place.folder(&format!("run-{number}-peer"))?;
        let columns =
            "event_id UUID, user_id UUID, created_at DateTime('UTC'), user_name String, user_email String";
        server
            .ask(&format!("CREATE TABLE `{table}` ({columns}) ENGINE = MergeTree ORDER BY event_id"))
            .await?;
        let touched = self.place.touch_memory()?;
        let before = server.usage()?;
        let mut command = Command::new(program);
        command.args(["-brokers", self.brokers()?, "-topic", topic.name(), "-group", &table]);
        command.args(["-url", server.url(), "-table", &table]);
        let mut child = Child::start("peer", command, &dir)?;
        let end = child.wait(RUN_MAX).await?;
        if !end.status.success() {
            let words = std::fs::read_to_string(dir.join("peer.err")).unwrap_or_default();
            bail!("{} failed ({}): {}", peer.name(), end.status, words.trim());
        }
        let clickhouse = server.usage()?.zip(before).map(|(after, before)| after.since(before));

        let records = self.plan.workload.records_total();
        let verdict = Verdict::of(self.duplicates_stay(server, &table, expected).await?);
        self.place.drop_tables(server, &table).await?;

        let mut figures = Figures::default();
        figures.put(figure::RECORDS_PER_CPU_S, records as f64 / end.usage.cpu_s());
        figures.put(figure::RECORDS_PER_S, records as f64 / end.wall.as_secs_f64());
        end.put_into(&mut figures);
        figures.put_if(figure::CLICKHOUSE_CPU_S, clickhouse.map(|usage| usage.cpu_s()));
        figures.put_if(figure::FIRST_TOUCH_MS, touched);
        let arm = format!("{}: at least once, duplicates stay", peer.name());
        Ok(Run { arm, figures, verdict, not_valid: None, trace: Trace::default() })
    }

    /// The checks of a table that every record went into: the duplicates are there, and without them it is the workload.
    pub(super) async fn duplicates_stay(
        &self,
        server: &Server,
        table: &str,
        expected: Content,
    ) -> anyhow::Result<Vec<Check>> {
        let records = self.plan.workload.records_total();
        let rows = server.number(&format!("SELECT count() FROM `{table}`")).await?;
        let distinct =
            format!("(SELECT DISTINCT event_id, user_id, created_at, user_name, user_email FROM `{table}`)");
        let found = server.content(&oracle::sql(&distinct)).await?;
        let every =
            Check { what: "rows in the table, duplicates among them", expected: records, found: rows };
        Ok([every].into_iter().chain(of_content(expected, found)).collect())
    }
}
