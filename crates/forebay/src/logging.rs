//! Log lines: which are shown, in which form, to stderr.
//!
//! Owns the set-up of `tracing`, and what becomes of lines that cannot be written: they are counted, the work goes on, and the next line
//! that can be written is preceded by one that says so. Does not own what is logged, nor the values of fields in lines of text (`fields`).

mod fields;

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::anyhow;
use dataflow::printing;
use pipeline::config::model::{LogFormat, LogLevel};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::console::{self, Mistake};

/// The crates whose lines a plain level is for: all that write some. Others (Kafka's client, HTTP) speak up from `warn` on.
const OURS: [&str; 11] = [
    "forebay",
    "pipeline",
    "engine",
    "sources",
    "chdb_server",
    "listener",
    "admin",
    "gateway",
    "object_log",
    "registry",
    "replays",
];

/// Characters of the longest stretch of a line: beyond any sentence of ours with the fields beside it.
const LINE_CHARS_MAX: usize = 16 << 10;

/// Options of logging, which the pipeline file may have too.
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// A level or filter.
    pub level: Option<String>,
    /// The form of lines.
    pub format: Option<LogFormat>,
}

/// Starts logging; `level` and `format` hold where the command line says nothing.
///
/// # Errors
/// When the filter on the command line or in `FOREBAY_LOG` cannot be read, which is a [`Mistake`].
pub fn start(options: &LogOptions, level: LogLevel, format: LogFormat) -> anyhow::Result<()> {
    // A variable that is empty says nothing.
    let given = options.level.as_deref().filter(|text| !text.is_empty());
    let filter = read(given.unwrap_or(word(level))).map_err(Mistake::of)?;
    // Its own way to tell of a line that was not written is a panic if standard error is what cannot be written.
    let lines = tracing_subscriber::fmt().with_env_filter(filter).log_internal_errors(false);
    let started = match options.format.unwrap_or(format) {
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_writer(|| Lines { to: std::io::stderr(), format: LogFormat::Json, lost: &LOST })
            .try_init(),
        LogFormat::Text => lines
            .fmt_fields(fields::Fields)
            .with_ansi(is_coloured())
            .with_writer(|| Lines { to: std::io::stderr(), format: LogFormat::Text, lost: &LOST })
            .try_init(),
    };
    started.map_err(|error| anyhow!("logging cannot be started: {error}"))
}

/// Says on standard error why a run did not begin or has ended, where the log does not: it may be turned off, or be for other crates alone. Whoever meets
/// the exit code must find the reason.
pub fn refuse_unless_logged(why: impl std::fmt::Display) {
    if !tracing::enabled!(target: "forebay::commands", tracing::Level::ERROR) {
        console::refuse(why);
    }
}

/// Lines that could not be written since the last one that could.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Writes each log line with [`dataflow::printing`]'s escapes: whatever a record or a server puts into a field, it stays on
/// its line and moves no cursor.
struct Lines<W> {
    to: W,
    format: LogFormat,
    lost: &'static AtomicU64,
}

impl<W: Write> Lines<W> {
    /// What tells of lines that were lost, in the form of the others.
    fn told(&self, lost: u64) -> String {
        let at = jiff::Timestamp::now();
        match self.format {
            LogFormat::Json => {
                let fields = format!("\"level\":\"WARN\",\"message\":\"{UNWRITTEN}\",\"lines\":{lost}");
                format!("{{\"timestamp\":\"{at:.6}\",{fields},\"target\":\"forebay::logging\"}}\n")
            }
            LogFormat::Text => format!("{at:.6}  WARN forebay::logging: {UNWRITTEN} lines={lost}\n"),
        }
    }
}

const UNWRITTEN: &str = "log lines could not be written to standard error, and are lost";

impl<W: Write> Write for Lines<W> {
    /// `tracing` hands over one whole event, which ends with a line feed.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = event.strip_suffix(b"\n").unwrap_or(event);
        let line = String::from_utf8_lossy(line);
        let mut escaped = match self.format {
            LogFormat::Json => json_line(&line),
            LogFormat::Text => text_line(&line),
        };
        escaped.push('\n');
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            escaped.insert_str(0, &self.told(lost));
        }
        if self.to.write_all(escaped.as_bytes()).is_err() {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The colours of `tracing` itself stay; those in fields were escaped before they come here, by [`fields`].
fn text_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("\x1b[") {
        let (before, colour) = rest.split_at(at);
        out.push_str(&printing::escaped(before, LINE_CHARS_MAX));
        let digits = colour[2..].bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
        let end = 2 + digits + usize::from(colour[2 + digits..].starts_with('m'));
        let (colour, after) = colour.split_at(end);
        let is_colour = colour.ends_with('m');
        out.push_str(if is_colour { colour } else { "\\u{1b}" });
        rest = if is_colour { after } else { &rest[at + 1..] };
    }
    out.push_str(&printing::escaped(rest, LINE_CHARS_MAX));
    out
}

/// In JSON control characters are escaped already; the others get JSON's own escapes, for they can only stand in strings.
fn json_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut units = [0; 2];
    for c in line.chars() {
        if printing::is_printable(c) {
            out.push(c);
        } else {
            out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

/// The filter that a text means.
fn read(text: &str) -> anyhow::Result<EnvFilter> {
    let wrong = |why: &str| {
        anyhow!("`{text}` is neither a log level nor a filter ({why}); try `info` or `info,engine=debug`")
    };
    // A filter takes a lone word for the name of a crate, so a level with a typing error would hide every line.
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphabetic());
    if is_word && text.parse::<LevelFilter>().is_err() {
        return Err(wrong("the levels are `error`, `warn`, `info`, `debug`, `trace` and `off`"));
    }
    EnvFilter::try_new(directives(text)).map_err(|error| wrong(&error.to_string()))
}

/// A plain level is for our own crates; anything else is taken as it stands.
fn directives(filter: &str) -> String {
    let level = filter.to_ascii_lowercase();
    if !["error", "warn", "info", "debug", "trace"].contains(&level.as_str()) {
        return filter.to_owned();
    }
    let others = if level == "error" { "error" } else { "warn" };
    let ours = OURS.map(|name| format!("{name}={level}"));
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

/// Colour only on a terminal, and only if `NO_COLOR` does not forbid it.
fn is_coloured() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_level_leaves_other_crates_quiet() {
        let filter = directives("debug");
        assert!(filter.starts_with("warn,forebay=debug,pipeline=debug,engine=debug"), "{filter}");
        assert_eq!(directives("error").split(',').next(), Some("error"));
        assert_eq!(directives("info,rdkafka=debug"), "info,rdkafka=debug");
        EnvFilter::try_new(directives("trace")).expect("our own filter is one");
    }

    #[test]
    fn a_level_in_capitals_leaves_other_crates_quiet_too() {
        for (level, capitals) in [("info", "INFO"), ("debug", "Debug"), ("error", "ERROR")] {
            assert_eq!(directives(capitals), directives(level));
        }
        assert_eq!(directives("INFO,engine=debug"), "INFO,engine=debug");
    }

    #[test]
    fn a_plain_level_is_for_every_crate_that_writes_lines() {
        let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let mut lines_of = 0;
        for folder in std::fs::read_dir(crates).expect("the folder of all crates") {
            let folder = folder.expect("an entry").path();
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
            if manifest.contains("\ntracing.workspace") {
                let name = folder.file_name().expect("a crate").to_string_lossy().replace('-', "_");
                assert!(OURS.contains(&name.as_str()), "lines of `{name}` below `warn` are never shown");
                lines_of += 1;
            }
        }
        assert_eq!(lines_of, OURS.len(), "and nothing else is in the list");
    }

    #[test]
    fn a_level_with_a_typing_error_is_not_taken_for_the_name_of_a_crate() {
        for wrong in ["wran", "loud", "engine", "engine=loud"] {
            let told = read(wrong).expect_err(wrong).to_string();
            assert!(told.contains("try `info` or `info,engine=debug`"), "{told}");
        }
        for right in ["warn", "OFF", "0", "info,engine=debug", "engine=trace"] {
            read(right).expect(right);
        }
    }

    fn written(format: LogFormat, event: &str) -> String {
        static NONE: AtomicU64 = AtomicU64::new(0);
        let mut lines = Lines { to: Vec::new(), format, lost: &NONE };
        lines.write_all(event.as_bytes()).expect("a Vec takes all");
        String::from_utf8(lines.to).expect("escaped text is text")
    }

    #[test]
    fn a_record_value_in_a_log_line_moves_no_cursor_and_forges_no_line() {
        let event = "\x1b[33m WARN\x1b[0m words=a\nWARN forged\x1b[2J\u{9b}1m\u{202e}z\n";
        let line = written(LogFormat::Text, event);
        assert_eq!(line, "\x1b[33m WARN\x1b[0m words=a\\nWARN forged\\u{1b}[2J\\u{9b}1m\\u{202e}z\n");
        let json = written(LogFormat::Json, "{\"words\":\"a\\nb\u{9b}\u{202e}\u{e0041}\"}\n");
        assert_eq!(json, "{\"words\":\"a\\nb\\u009b\\u202e\\udb40\\udc41\"}\n");
        let read: serde_json::Value = serde_json::from_str(&json).expect("still JSON");
        assert_eq!(read["words"], "a\nb\u{9b}\u{202e}\u{e0041}");
    }
    /// A disk that is full, and then is not.
    struct Disk {
        room: bool,
        text: String,
    }

    impl Write for &mut Disk {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if !self.room {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.text += std::str::from_utf8(line).expect("text");
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_told_of_by_the_next_one_that_can() {
        static TEXT: AtomicU64 = AtomicU64::new(0);
        static JSON: AtomicU64 = AtomicU64::new(0);
        for (format, lost, told) in [
            (
                LogFormat::Text,
                &TEXT,
                "Z  WARN forebay::logging: log lines could not be written to standard error, and are lost lines=2\n",
            ),
            (LogFormat::Json, &JSON, "and are lost\",\"lines\":2,\"target\":\"forebay::logging\"}\n"),
        ] {
            let mut disk = Disk { room: false, text: String::new() };
            for room in [false, false, true, true] {
                disk.room = room;
                let mut lines = Lines { to: &mut disk, format, lost };
                lines.write_all(b"{}\n").expect("the work goes on");
            }
            let (first, rest) = disk.text.split_at(disk.text.find("\n").map_or(0, |end| end + 1));
            assert!(first.ends_with(told), "{first}");
            assert_eq!(rest, "{}\n{}\n", "each later line, and nothing twice");
            if format == LogFormat::Json {
                let read: serde_json::Value = serde_json::from_str(first).expect("JSON");
                assert_eq!(read["level"], "WARN");
            }
        }
    }
}
