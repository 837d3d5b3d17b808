//! A report as a table for people.
//!
//! Owns the layout. Does not own the numbers (`report`).

use std::fmt::Write;

use super::report::{RECORDS_PER_CPU_S_GOAL, RSS_BYTES_GOAL, Report, Setting, Spread};

/// The table, and the verdict below it.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    write(&mut out, report).expect("a String takes all that is written");
    out
}

fn write(out: &mut String, report: &Report) -> std::fmt::Result {
    let Report { setting, runs, summary, .. } = report;
    head(out, setting, runs.len())?;
    writeln!(out, "\n{:<34}{:>14}{:>14}{:>14}", "", "median", "least", "most")?;
    let mut row = |name: &str, spread: Option<Spread>, shown: fn(f64) -> String| {
        let Some(Spread { median, min, max }) = spread else { return Ok(()) };
        writeln!(out, "{name:<34}{:>14}{:>14}{:>14}", shown(median), shown(min), shown(max))
    };
    row("records per engine CPU-second", summary.records_per_cpu_s, whole)?;
    row("records per second, start to end", summary.records_per_s, whole)?;
    row("rows per second, first to last", summary.settled_rows_per_s, whole)?;
    row("wall, s", summary.wall_s, hundredths)?;
    row("engine CPU, s", summary.engine_cpu_s, hundredths)?;
    row("  in its own code, s", summary.engine_user_s, hundredths)?;
    row("  in the kernel, s", summary.engine_system_s, hundredths)?;
    row("engine memory at the most, MB", summary.engine_rss_bytes_max, megabytes)?;
    row("ClickHouse CPU meanwhile, s", summary.clickhouse_cpu_s, hundredths)?;
    row("state, bytes a key", summary.state_bytes_per_key, tenths)?;
    let of = if setting.rate.is_some() { "latency" } else { "age of backlog" };
    row(&format!("{of}, p50, s"), summary.latency_p50_s, thousandths)?;
    row(&format!("{of}, p90, s"), summary.latency_p90_s, thousandths)?;
    row(&format!("{of}, p99, s"), summary.latency_p99_s, thousandths)?;
    row(&format!("{of}, p99.9, s"), summary.latency_p999_s, thousandths)?;
    writeln!(out)?;
    verdicts(out, report)
}

fn head(out: &mut String, setting: &Setting, runs: usize) -> std::fmt::Result {
    let Setting { workload, records, uniques, duplicates, .. } = setting;
    writeln!(
        out,
        "{workload}: {} records, {} distinct, {} duplicates",
        whole(*records as f64),
        whole(*uniques as f64),
        whole(*duplicates as f64)
    )?;
    let how = match setting.rate {
        Some(rate) => format!("sent at {} records a second while the engine runs", whole(rate as f64)),
        None => "a backlog, read to its end".to_owned(),
    };
    writeln!(out, "from {}: {how}", setting.source)?;
    writeln!(
        out,
        "into ClickHouse {}; {} build, {} cores of {}; runs: {runs}",
        setting.clickhouse, setting.build, setting.cores, setting.processor
    )
}

fn verdicts(out: &mut String, report: &Report) -> std::fmt::Result {
    for (number, run) in report.runs.iter().enumerate() {
        for fault in &run.verdict.faults {
            writeln!(out, "WRONG in run {}: {fault}", number + 1)?;
        }
    }
    if report.right {
        writeln!(out, "right: count, different ids and checksum of the content agree in every run")?;
    }
    let goals = format!(
        "{} records per engine CPU-second, below {} MB",
        whole(RECORDS_PER_CPU_S_GOAL),
        whole(RSS_BYTES_GOAL as f64 / 1e6)
    );
    match report.goals_met {
        Some(true) => writeln!(out, "goals met: {goals}"),
        Some(false) => writeln!(out, "GOALS MISSED: {goals}"),
        None if report.setting.rate.is_some() => writeln!(out, "goals not judged: they are for a backlog"),
        None => writeln!(
            out,
            "goals not judged: they are for a release build; this one checks more and runs slower"
        ),
    }
}

/// With commas between thousands.
fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

fn hundredths(value: f64) -> String {
    format!("{value:.2}")
}

fn thousandths(value: f64) -> String {
    format!("{value:.3}")
}

fn megabytes(bytes: f64) -> String {
    format!("{:.0}", bytes / 1e6)
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn thousands_are_parted_by_commas() {
        assert_eq!(whole(0.4), "0");
        assert_eq!(whole(999.0), "999");
        assert_eq!(whole(1_000.0), "1,000");
        assert_eq!(whole(2_200_000.0), "2,200,000");
    }
}
