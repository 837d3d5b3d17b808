//! `forebay plan FILE --rate …`: how much hardware the pipeline needs.
//!
//! Owns the options and the words. Does not own the arithmetic ([`admin::capacity`]). Contacts nobody.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use admin::capacity::coefficients::Coefficients;
use admin::capacity::prices::Prices;
use admin::capacity::{Line, Load, lines};
use anyhow::{Context, anyhow};
use clap::Args;
use dataflow::printing;
use pipeline::config::model::Pipeline;
use pipeline::config::values::Size;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::commands::place;
use crate::console::{Exit, Mistake, print};

/// The load that is planned for.
#[derive(Debug, Args)]
pub struct Capacity {
    /// Estimates what this many records a second need, such as `1M/s`, instead of comparing: cores, memory, store, parts, partitions, cost.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,

    /// How many different keys a window, or the history of `dedup`, holds at once, such as `100k`. Default: as many as records.
    #[arg(long, value_name = "N", value_parser = number, requires = "rate")]
    keys: Option<f64>,

    /// The number of days that the cost is for, and for which the history of an unbounded `dedup` grows.
    #[arg(long, value_name = "N", default_value = "30", value_parser = number, requires = "rate")]
    days: f64,

    /// The size of a record. Default: that of the measured workload.
    #[arg(long, value_name = "SIZE", requires = "rate")]
    record_bytes: Option<Size>,

    /// Takes the measured costs from a report of `forebay bench … --json` instead of from the performance page.
    #[arg(long, value_name = "FILE", requires = "rate")]
    from: Option<PathBuf>,

    /// Takes prices from a JSON file: `core_hour`, `gigabyte_month`, `thousand_puts`, `thousand_gets`, in USD.
    #[arg(long, value_name = "FILE", requires = "rate")]
    prices: Option<PathBuf>,
}

impl Capacity {
    /// Answers, if capacity is asked for.
    ///
    /// # Errors
    /// When a file cannot be read, or standard output not be written.
    pub fn execute(&self, pipeline: &Pipeline, json: bool) -> anyhow::Result<Option<Exit>> {
        let Some(rate) = self.rate else { return Ok(None) };
        let known = match &self.from {
            Some(path) => {
                let wrong = |why| Mistake::of(anyhow!("`{}`: {why}", path.display()));
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                Coefficients::of_report(&read(path, "a report of `forebay bench … --json`")?, &name)
                    .map_err(wrong)?
            }
            None => Coefficients::measured(pipeline),
        };
        let prices = match &self.prices {
            Some(path) => read::<Prices>(
                path,
                "a JSON object with `core_hour`, `gigabyte_month`, `thousand_puts` and `thousand_gets`",
            )?,
            None => Prices::default(),
        };
        let record_bytes = self.record_bytes.map(|size| size.bytes as f64);
        let load = Load { rate, keys: self.keys, days: self.days, record_bytes };
        let lines = lines(pipeline, load, &known, &prices);
        match json {
            true => print(&format!(
                "{:#}\n",
                json!({ "pipeline": pipeline.pipeline.as_str(), "capacity": lines })
            )),
            false => print(&text(pipeline.pipeline.as_str(), &lines)?),
        }?;
        Ok(Some(Exit::Done))
    }
}

/// A file that the command line names, from where the program was started; `what` says what must be in it.
fn read<T: DeserializeOwned>(path: &Path, what: &str) -> anyhow::Result<T> {
    let shown = path.display();
    let text = std::fs::read(place::given(path)?).with_context(|| format!("cannot read `{shown}`"));
    let read = serde_json::from_slice(&text.map_err(Mistake::of)?);
    read.with_context(|| format!("`{shown}` is not {what}")).map_err(Mistake::of)
}

/// `1M/s`, `250k/s` or `1000`.
fn rate(text: &str) -> Result<f64, String> {
    number(text.strip_suffix("/s").unwrap_or(text))
}

/// A number above 0 with `k`, `M` or `G` behind it.
fn number(text: &str) -> Result<f64, String> {
    let units = [('k', 1e3), ('M', 1e6), ('G', 1e9)];
    let unit = units.iter().find(|(name, _)| text.ends_with(*name));
    let (digits, unit) = unit.map_or((text, 1.0), |(name, unit)| (text.trim_end_matches(*name), *unit));
    match digits.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && (value * unit) <= 1e15 => Ok(value * unit),
        _ => Err("write a number above 0 such as `1000`, `250k` or `1.5M`".to_owned()),
    }
}

fn text(name: &str, lines: &[Line]) -> anyhow::Result<String> {
    let mut out = format!("pipeline `{name}`: what it needs, by a model of measured costs\n");
    for line in lines {
        let value = format!("{} {}", shown(line.value), line.unit);
        let because = printing::escaped_lines(&line.because);
        writeln!(out, "{:24} {:24} {because}", line.what, value.trim_end())?;
    }
    Ok(out)
}

/// Three digits at least, and no more behind the point than tell something.
fn shown(value: f64) -> String {
    match value {
        value if value.fract() == 0.0 || value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests;
