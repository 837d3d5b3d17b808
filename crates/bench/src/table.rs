//! A report as a table for the terminal.
//!
//! Owns the layout. Does not own the numbers (`report`).

use std::fmt::Write;

use super::report::{Arm, RELEASE, Report, Setting, Spread};

/// The table, and the verdict below it.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    write(&mut out, report).expect("a String takes all that is written");
    out
}

fn write(out: &mut String, report: &Report) -> std::fmt::Result {
    head(out, &report.setting)?;
    for arm in &report.arms {
        block(out, arm)?;
    }
    for grid in &report.grids {
        writeln!(out)?;
        grid.write(out)?;
    }
    writeln!(out)?;
    verdicts(out, report)
}

fn head(out: &mut String, setting: &Setting) -> std::fmt::Result {
    let Setting { workload, sentences, clickhouse, build, processor, cores, .. } = setting;
    let mut sentences = sentences.iter();
    writeln!(out, "{workload}: {}", sentences.next().map_or("", String::as_str))?;
    for sentence in sentences {
        writeln!(out, "{sentence}")?;
    }
    writeln!(out, "into ClickHouse {clickhouse}; {build} build, {cores} cores of {processor}")
}

fn block(out: &mut String, arm: &Arm) -> std::fmt::Result {
    const NAME: usize = 44;
    let title = format!("{}, {}", arm.name, arm.counts());
    writeln!(out, "\n{title:<NAME$}{:>14}{:>14}{:>14}", "median", "least", "most")?;
    for (figure, Spread { median, min, max }) in arm.summary.rows() {
        let text = |value: &f64| figure.shown.text(*value);
        writeln!(out, "{:<NAME$}{:>14}{:>14}{:>14}", figure.label, text(median), text(min), text(max))?;
    }
    Ok(())
}

fn verdicts(out: &mut String, report: &Report) -> std::fmt::Result {
    for (number, run) in report.runs.iter().enumerate() {
        for fault in &run.verdict.faults {
            writeln!(out, "WRONG in run {} ({}): {fault}", number + 1, run.arm)?;
        }
        if let Some(why) = &run.not_valid {
            writeln!(out, "NOT VALID is run {} ({}): {why}", number + 1, run.arm)?;
        }
    }
    if report.right {
        writeln!(out, "right: count, different ids and checksum of the content agree in every run")?;
    }
    if report.setting.build != RELEASE {
        writeln!(out, "goals are judged of a release build alone; this one checks more and runs slower")?;
    }
    for goal in &report.goals {
        match goal.met {
            Some(true) => writeln!(out, "goal met: {}", goal.text)?,
            Some(false) => writeln!(out, "GOAL MISSED: {}", goal.text)?,
            None => writeln!(out, "goal not judged: {}", goal.text)?,
        }
    }
    Ok(())
}
