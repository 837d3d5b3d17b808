use std::io::{self, Write};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use super::super::Lines;
use super::*;
use pipeline::config::model::LogFormat;

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("one thread").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is written of an event, behind its time.
fn written(ansi: bool, event: impl FnOnce()) -> String {
    static NONE: AtomicU64 = AtomicU64::new(0);
    let buffer = Buffer::default();
    let to = buffer.clone();
    let lines = tracing_subscriber::fmt()
        .without_time()
        .with_target(false)
        .fmt_fields(Fields)
        .with_ansi(ansi)
        .with_writer(move || Lines { to: to.clone(), format: LogFormat::Text, lost: &NONE })
        .finish();
    tracing::subscriber::with_default(lines, event);
    let bytes = buffer.0.lock().expect("one thread").clone();
    String::from_utf8(bytes).expect("text")
}

const HOSTILE: &str = "503: <html>\x1b[31mred\x1b[0m\nWARN forged\u{9b}2J";
const SHOWN: &str = "503: <html>\\u{1b}[31mred\\u{1b}[0m\\nWARN forged\\u{9b}2J";

#[test]
fn a_value_of_any_field_has_no_colours_of_its_own() {
    let error = io::Error::other(HOSTILE);
    let event = || tracing::warn!(table = "t", frame = 7, error = %error, "an insert has no positive answer");
    let expected = format!(" WARN an insert has no positive answer table=\"t\" frame=7 error={SHOWN}\n");
    assert_eq!(written(false, event), expected);
    let coloured = written(true, event);
    assert!(coloured.contains(SHOWN), "{coloured:?}");
    assert!(coloured.contains("\x1b[3merror\x1b[0m\x1b[2m=\x1b[0m503"), "{coloured:?}");
    assert!(coloured.starts_with("\x1b[33m WARN\x1b[0m an insert"), "{coloured:?}");
    assert!(!coloured.contains("\x1b[31m"), "{coloured:?}");
}

#[test]
fn messages_spans_and_causes_have_none_either() {
    let in_message = written(false, || tracing::warn!("{HOSTILE}"));
    assert_eq!(in_message, format!(" WARN {SHOWN}\n"));
    let in_span = written(false, || {
        let _span = tracing::info_span!("lane", file = %HOSTILE).entered();
        tracing::warn!("here");
    });
    assert_eq!(in_span, format!(" WARN lane{{file={SHOWN}}}: here\n"));
    let cause = io::Error::other(std::fmt::Error);
    let in_error = written(false, || tracing::warn!(error = &cause as &dyn Error, "here"));
    assert!(in_error.starts_with(" WARN here error=an error occurred when formatting"), "{in_error}");
}
