//! The second reading changes every row: a plain client and ClickHouse's ReplacingMergeTree.
//!
//! Owns the client, which sends the lines of a file as they are, a hundred thousand at a time, two files at a time as our engine reads them.
//! It keeps no positions and no tokens: what it sends again after a crash is there once more, until it is merged. The server parses the JSON,
//! so that its CPU compares with that of the engine and the server together. Does not own the files (`crate::dedup`), nor the questions to
//! a table whose rows replace each other (`dedup::upsert`).

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use workloads::dedup::oracle;

use super::{
    AtEnd, Bench, Changes, Figure, Figures, LINES_OF_AN_INSERT, ROWS_PER_S, Run, Server, Shown, Verdict,
    WALL_RATIO, figure, of_content, parts_of, upsert,
};

const SERVER_CPU_RATIO: Figure =
    Figure::new("clickhouse_cpu_ratio", "ClickHouse CPU, second by first", Shown::Decimals(3));

/// Both readings.
pub(super) async fn run(
    bench: &Bench<'_>,
    number: u32,
    server: &Server,
    changes: &Changes,
) -> anyhow::Result<[Run; 2]> {
    let table = format!("{}_{number}_replacing", bench.place.name);
    server
        .ask(&format!(
            "CREATE TABLE `{table}` (ts DateTime('UTC'), country LowCardinality(String), category LowCardinality(String), visits UInt64, \
             unique_visitors UInt64, sales Decimal(18, 4)) ENGINE = ReplacingMergeTree ORDER BY (country, ts, category)"
        ))
        .await?;
    let rows = bench.plan.workload.rows_total() as f64;
    let mut readings = Vec::with_capacity(2);
    for (files, expected) in changes.files.iter().zip(changes.expected) {
        let (before, begun) = (server.usage()?, Instant::now());
        send(server, &table, files).await?;
        let wall_s = begun.elapsed().as_secs_f64();
        let cpu_s = server.usage()?.zip(before).map(|(after, before)| after.since(before).cpu_s());
        let at_end = AtEnd::of(server, &table).await?;
        let found = server.content(&oracle::sql(&format!("`{table}` FINAL"))).await?;
        readings.push((wall_s, cpu_s, Verdict::of(of_content(expected, found)), at_end));
    }
    let [first, second] = <[_; 2]>::try_from(readings).map_err(|_| anyhow::anyhow!("two readings"))?;
    let mut asked = Figures::default();
    asked.put(WALL_RATIO, second.0 / first.0);
    asked.put_if(SERVER_CPU_RATIO, second.1.zip(first.1).map(|(second, first)| second / first));
    upsert::ask(bench, server, &table, second.3, &mut asked).await?;
    bench.place.drop_tables(server, &table).await?;
    let run = |arm: &str, (wall_s, cpu_s, verdict, _): (f64, Option<f64>, Verdict, AtEnd), asked: Figures| {
        let mut figures = Figures::default();
        figures.put(ROWS_PER_S, rows / wall_s);
        figures.put(figure::WALL_S, wall_s);
        figures.put_if(figure::CLICKHOUSE_CPU_S, cpu_s);
        asked.figures().for_each(|figure| figures.put_if(figure, asked.get(figure)));
        Run { arm: arm.to_owned(), figures, verdict, not_valid: None, trace: Default::default() }
    };
    Ok([
        run("ReplacingMergeTree, second reading", second, asked),
        run("ReplacingMergeTree, first reading", first, Figures::default()),
    ])
}

/// Sends every line of the files, of two at the same time.
async fn send(server: &Server, table: &str, files: &[PathBuf]) -> anyhow::Result<()> {
    let every_other = async |first: usize| {
        for file in files.iter().skip(first).step_by(2) {
            send_file(server, table, file).await?;
        }
        anyhow::Ok(())
    };
    tokio::try_join!(every_other(0), every_other(1))?;
    Ok(())
}

async fn send_file(server: &Server, table: &str, file: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    for lines in parts_of(&text, LINES_OF_AN_INSERT) {
        server.insert(&format!("INSERT INTO `{table}` FORMAT JSONEachRow\n{lines}"), table).await?;
    }
    Ok(())
}
