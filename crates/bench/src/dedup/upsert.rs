//! The second reading changes every row: our engine with `upsert`.
//!
//! Owns its pipeline and the questions to a table whose rows replace each other. Does not own the files.

use std::path::Path;
use std::time::Instant;

use workloads::dedup::oracle;

use super::{
    Accounts, AtEnd, Bench, CPU_RATIO, Changes, DUPLICATES, Figure, Figures, Pipeline, Reading, Run, Server,
    Shown, WALL_RATIO, link_all,
};

/// Times that a question is asked; the median counts.
pub(super) const ASKED: usize = 7;

pub(super) const COUNT_MS: Figure = Figure::new("count_ms", "count(), ms", Shown::Decimals(1));
const COUNT_FINAL_MS: Figure = Figure::new("count_final_ms", "count() with FINAL, ms", Shown::Decimals(1));
pub(super) const SUM_MS: Figure = Figure::new("sum_ms", "sum of a column, ms", Shown::Decimals(1));
const SUM_FINAL_MS: Figure =
    Figure::new("sum_final_ms", "sum of a column with FINAL, ms", Shown::Decimals(1));

/// Both readings.
pub(super) async fn run(
    bench: &Bench<'_>,
    number: u32,
    server: &Server,
    changes: &Changes,
) -> anyhow::Result<[Run; 2]> {
    let table = format!("{}_{number}_upsert", bench.place.name);
    let dir = bench.place.folder(&format!("run-{number}-upsert"))?;
    let input = bench.place.folder(&format!("run-{number}-upsert/in"))?;
    let rest = pipeline_text(&input, server.url(), &table) + &bench.plan.common.memory_line();
    let pipeline =
        Pipeline { program: bench.plan.common.program.clone(), dir, rest, store: None, table: table.clone() };
    let rows = bench.plan.workload.rows_total();
    let newest = oracle::sql(&format!("`{table}` FINAL"));
    let mut readings = Vec::with_capacity(2);
    for (n, (files, expected)) in changes.files.iter().zip(changes.expected).enumerate() {
        link_all(files, &input, &format!("{}", n + 1))?;
        let all = (n as u64 + 1) * rows;
        let accounts = Accounts { read: all, written: all, ..Accounts::default() };
        readings.push(bench.read(&pipeline, server, (expected, &newest), accounts).await?);
    }
    let [first, second] = <[Reading; 2]>::try_from(readings).map_err(|_| anyhow::anyhow!("two readings"))?;
    let mut figures = bench.figures(&second);
    figures.put(WALL_RATIO, second.end.wall.as_secs_f64() / first.end.wall.as_secs_f64());
    figures.put(CPU_RATIO, second.end.usage.cpu_s() / first.end.usage.cpu_s());
    ask(bench, server, &table, second.at_end, &mut figures).await?;
    bench.place.drop_tables(server, &table).await?;
    let run = |arm: &str, figures, reading: Reading| Run {
        arm: arm.to_owned(),
        figures,
        verdict: reading.verdict,
        not_valid: None,
        trace: reading.seen.trace,
    };
    let first_figures = bench.figures(&first);
    Ok([run("upsert, second reading", figures, second), run("upsert, first reading", first_figures, first)])
}

/// What a table shows whose rows replace each other: duplicates by and by, and what it costs to read it right.
pub(super) async fn ask(
    bench: &Bench<'_>,
    server: &Server,
    table: &str,
    at_end: AtEnd,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let questions = [
        (COUNT_MS, format!("SELECT count() FROM `{table}`")),
        (COUNT_FINAL_MS, format!("SELECT count() FROM `{table}` FINAL")),
        (SUM_MS, format!("SELECT sum(visits) FROM `{table}`")),
        (SUM_FINAL_MS, format!("SELECT sum(visits) FROM `{table}` FINAL")),
    ];
    figures.put(DUPLICATES, at_end.duplicates as f64);
    for (figure, sql) in questions {
        let mut took_ms = Vec::with_capacity(ASKED);
        for _ in 0..ASKED {
            let begun = Instant::now();
            server.number(&sql).await?;
            took_ms.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        took_ms.sort_by(f64::total_cmp);
        figures.put(figure, took_ms[ASKED / 2]);
    }
    bench.duplicates_later(server, table, at_end.at, figures).await
}

fn pipeline_text(input: &Path, url: &str, table: &str) -> String {
    format!(
        "source:\n  file: {{ paths: '{}/*.jsonl' }}\n\
         sink:\n  clickhouse:\n    url: {url}\n    table: {table}\n    provenance: true\n    create:\n      columns:\n\
         \u{20}       ts: DateTime('UTC')\n        country: LowCardinality(String)\n\
         \u{20}       category: LowCardinality(String)\n        visits: UInt64\n        unique_visitors: UInt64\n\
         \u{20}       sales: Decimal(18, 4)\n\
         \u{20}     order_by: [country, ts, category]\n\
         \u{20} upsert: {{ key: [country, ts, category] }}\n",
        input.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::no_fault;

    #[test]
    fn the_pipeline_file_has_no_fault() {
        no_fault(pipeline_text(Path::new("/var/tmp/bench/in"), "http://127.0.0.1:8123", "bench_1"));
    }
}
