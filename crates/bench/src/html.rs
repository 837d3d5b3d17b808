//! A report as one page of HTML: tables and plots, without a script and without anything from a network.
//!
//! Owns the page. Does not own the numbers (`report`) nor the drawing (`plot`).

use std::collections::BTreeMap;
use std::fmt::Write;

use super::grid::Grid;
use super::plot::{Axes, Bar, Line, bars, escape, lines, short};
use super::report::{Arm, Report, Run, Spread};

/// Figures of which the arms stand side by side: the first ones, for a report begins with what it is about.
const SIDE_BY_SIDE_MAX: usize = 6;
/// Runs of one arm in one plot at the most: more lines cannot be told apart.
const LINES_MAX: usize = 6;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;color:#222}\
    table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{padding:.15rem .8rem;text-align:right;\
    border-bottom:1px solid #ddd;font-variant-numeric:tabular-nums}td:first-child,th:first-child{text-align:left;\
    white-space:pre}.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(26rem,1fr));gap:1rem}\
    figure{margin:0}figcaption{font-weight:600}svg{width:100%;height:auto}svg text{font-size:11px;fill:#555}\
    .grid{stroke:#e4e4e4}.legend{margin:.2rem 0;font-size:.8rem}.wrong{color:#b00020;font-weight:600}";

/// The report as a whole page of HTML.
pub fn page(report: &Report) -> String {
    let mut out = String::new();
    write(&mut out, report).expect("a String takes all that is written");
    out
}

fn write(out: &mut String, report: &Report) -> std::fmt::Result {
    let setting = &report.setting;
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>forebay bench {}</title>\
         <style>{STYLE}</style></head><body>\n<h1>forebay bench {}</h1>",
        setting.workload, setting.workload
    )?;
    for sentence in &setting.sentences {
        writeln!(out, "<p>{}</p>", prose(sentence))?;
    }
    writeln!(
        out,
        "<p>ClickHouse {}; {} build, {} cores of {}</p>",
        escape(&setting.clickhouse),
        setting.build,
        setting.cores,
        escape(&setting.processor)
    )?;
    verdicts(out, report)?;
    report.grids.iter().try_for_each(|grid| table(out, grid))?;
    out.push_str(&side_by_side(&report.arms));
    for arm in &report.arms {
        let of_arm: Vec<&Run> = report.runs.iter().filter(|run| run.arm == arm.name).collect();
        section(out, arm, &of_arm)?;
    }
    writeln!(out, "</body></html>")
}

fn verdicts(out: &mut String, report: &Report) -> std::fmt::Result {
    out.push_str("<ul>");
    if report.right {
        out.push_str("<li>right: every check of every run agrees</li>");
    }
    for (number, run) in report.runs.iter().enumerate() {
        for fault in &run.verdict.faults {
            let arm = escape(&run.arm);
            write!(out, "<li class=\"wrong\">wrong in run {} ({arm}): {}</li>", number + 1, prose(fault))?;
        }
        if let Some(why) = &run.not_valid {
            let arm = escape(&run.arm);
            write!(out, "<li class=\"wrong\">not valid is run {} ({arm}): {}</li>", number + 1, prose(why))?;
        }
    }
    for goal in &report.goals {
        let (class, word) = match goal.met {
            Some(true) => ("", "goal met"),
            Some(false) => ("wrong", "goal missed"),
            None => ("", "goal not judged"),
        };
        write!(out, "<li class=\"{class}\">{word}: {}</li>", prose(&goal.text))?;
    }
    writeln!(out, "</ul>")
}

/// A table of its own, with its sentences below it.
fn table(out: &mut String, grid: &Grid) -> std::fmt::Result {
    write!(out, "<h2>{0}</h2><table><tr><th>{0}</th>", escape(&grid.title))?;
    grid.columns.iter().try_for_each(|column| write!(out, "<th>{}</th>", escape(column.label)))?;
    out.push_str("</tr>\n");
    for row in &grid.rows {
        write!(out, "<tr><td>{}</td>", escape(&row.name))?;
        grid.cells(row).iter().try_for_each(|cell| write!(out, "<td>{}</td>", escape(cell)))?;
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
    grid.notes.iter().try_for_each(|note| writeln!(out, "<p>{}</p>", prose(note)))
}

/// The medians of all arms, figure by figure; nothing for a single arm.
fn side_by_side(arms: &[Arm]) -> String {
    let [first, _, ..] = arms else { return String::new() };
    let mut out = "<h2>side by side</h2><div class=\"plots\">".to_owned();
    // A label that is set in is a part of the one above it, and says nothing alone.
    let whole = first.summary.rows().iter().filter(|(figure, _)| !figure.label.starts_with(' '));
    for (figure, _) in whole.take(SIDE_BY_SIDE_MAX) {
        let bar = |arm: &Arm| {
            let value = arm.summary.get(*figure)?.median;
            Some(Bar { name: arm.name.clone(), value, shown: figure.shown.text(value) })
        };
        let values: Vec<Bar> = arms.iter().filter_map(bar).collect();
        out.push_str(&bars(&format!("{}, median", figure.label), &values));
    }
    out.push_str("</div>\n");
    out
}

/// A sentence, with what stands between backticks as code.
fn prose(text: &str) -> String {
    let escaped = escape(text);
    let parts: Vec<&str> = escaped.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escaped;
    }
    let part = |(n, part): (usize, &&str)| {
        if n % 2 == 1 { format!("<code>{part}</code>") } else { (*part).to_owned() }
    };
    parts.iter().enumerate().map(part).collect()
}

fn section(out: &mut String, arm: &Arm, runs: &[&Run]) -> std::fmt::Result {
    writeln!(
        out,
        "<h2>{}</h2><table><tr><th>{}</th><th>median</th><th>least</th><th>most</th></tr>",
        escape(&arm.name),
        arm.counts()
    )?;
    for (figure, Spread { median, min, max }) in arm.summary.rows() {
        let cell = |value: &f64| escape(&figure.shown.text(*value));
        writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(figure.label),
            cell(median),
            cell(min),
            cell(max)
        )?;
    }
    out.push_str("</table><div class=\"plots\">");
    let over_time = |y: &str, points: &dyn Fn(&Run) -> Vec<(f64, f64)>| {
        let axes = Axes { x: "seconds since the start", y, marks: &[] };
        lines(&axes, &of_runs(runs, points))
    };
    out.push_str(&over_time("rows settled a second", &|run| run.trace.rate(|sample| sample.rows as f64)));
    out.push_str(&over_time("cores used by the engine", &|run| run.trace.rate(|sample| sample.cpu_s)));
    out.push_str(&over_time("memory of the engine, MB", &|run| {
        run.trace.samples.iter().map(|sample| (sample.at_s, sample.rss_bytes as f64 / 1e6)).collect()
    }));
    out.push_str(&over_time("lag, records", &|run| {
        let known = |sample: &super::trace::Sample| Some((sample.at_s, sample.lag_records? as f64));
        run.trace.samples.iter().filter_map(known).collect()
    }));
    out.push_str(&percentiles(runs));
    if let Some(last) = runs.last() {
        out.push_str(&seconds("CPU by stage in the last run, s", &last.trace.stages));
        out.push_str(&seconds("CPU by thread in the last run, s", &last.trace.threads));
    }
    writeln!(out, "</div>")
}

/// CPU-seconds by name, the most first.
fn seconds(title: &str, by_name: &BTreeMap<String, f64>) -> String {
    let bar =
        |(name, cpu_s): (&String, &f64)| Bar { name: name.clone(), value: *cpu_s, shown: short(*cpu_s) };
    let mut all: Vec<Bar> = by_name.iter().map(bar).collect();
    all.sort_by(|a, b| b.value.total_cmp(&a.value));
    bars(title, &all)
}

/// Latencies over how rare they are: each step to the right is ten times rarer.
fn percentiles(runs: &[&Run]) -> String {
    let marks = [(0.301, "p50"), (1.0, "p90"), (2.0, "p99"), (3.0, "p99.9"), (4.0, "p99.99")];
    let axes = Axes { x: "share of records at or below", y: "latency, s", marks: &marks };
    let points = |run: &Run| {
        let below_all = run.trace.percentiles.iter().filter(|point| point.share < 1.0);
        below_all.map(|point| (-(1.0 - point.share).log10(), point.latency_s)).collect()
    };
    lines(&axes, &of_runs(runs, &points))
}

fn of_runs(runs: &[&Run], points: &dyn Fn(&Run) -> Vec<(f64, f64)>) -> Vec<Line> {
    let line =
        |(number, run): (usize, &&Run)| Line { name: format!("run {}", number + 1), points: points(run) };
    runs.iter().enumerate().take(LINES_MAX).map(line).collect()
}

#[cfg(test)]
mod tests;
