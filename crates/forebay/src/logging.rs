//! Log lines: which are shown, in which form, to stderr.
//!
//! Owns the set-up of `tracing`. Does not own what is logged.

use std::io::IsTerminal;

use anyhow::anyhow;
use tracing_subscriber::EnvFilter;

use crate::cli::LogOptions;
use crate::config::model::{LogFormat, LogLevel};

/// The crates whose lines a plain level is for. Others (Kafka's client, HTTP) speak up from `warn` on.
const OURS: [&str; 9] =
    ["forebay", "engine", "sources", "decode", "operators", "clickhouse", "protocol", "store", "chdb_server"];

/// Starts logging; `level` and `format` hold where the command line says nothing.
///
/// # Errors
/// When the filter on the command line or in `FOREBAY_LOG` cannot be read.
pub fn start(options: &LogOptions, level: LogLevel, format: LogFormat) -> anyhow::Result<()> {
    let filter = match &options.level {
        Some(text) => text.clone(),
        None => word(level).to_owned(),
    };
    let filter = EnvFilter::try_new(directives(&filter)).map_err(|error| {
        anyhow!("`{filter}` is no log level or filter ({error}); try `info` or `info,engine=debug`")
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match options.format.unwrap_or(format) {
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).try_init(),
        LogFormat::Text => lines.with_ansi(is_coloured()).try_init(),
    };
    started.map_err(|error| anyhow!("logging cannot be started: {error}"))
}

/// A plain level is for our own crates; anything else is taken as it stands.
fn directives(filter: &str) -> String {
    let is_level = ["error", "warn", "info", "debug", "trace"].contains(&filter);
    if !is_level {
        return filter.to_owned();
    }
    let others = if filter == "error" { "error" } else { "warn" };
    let ours = OURS.map(|name| format!("{name}={filter}"));
    format!("{others},{}", ours.join(","))
}

fn word(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    }
}

/// Colour only for people who look at a terminal and did not say no (`NO_COLOR`).
fn is_coloured() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_level_leaves_other_crates_quiet() {
        let filter = directives("debug");
        assert!(filter.starts_with("warn,forebay=debug,engine=debug"), "{filter}");
        assert_eq!(directives("error").split(',').next(), Some("error"));
        assert_eq!(directives("info,rdkafka=debug"), "info,rdkafka=debug");
        EnvFilter::try_new(directives("trace")).expect("our own filter is one");
    }
}
