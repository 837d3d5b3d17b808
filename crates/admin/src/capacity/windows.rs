//! What windows keep and what they give: keys that are open at once, their bytes, and results a second.
//!
//! Owns the arithmetic of one `window` step, by its settings and the sizes that `docs/windows.md` lists under Memory. Does not own the lines of the
//! answer ([`super::lines`]), nor what is measured ([`coefficients`](super::coefficients)).
//!
//! | aggregate                                | bytes of a key, by the records that it has in a window |
//! |------------------------------------------|---------------------------------------------------------|
//! | `count()`                                | none: the key's own 19 have it                          |
//! | `sum`, `avg`, `min`, `max` of a Float that is never NULL | 8 for each number of a column, and 8 for the count of all averages |
//! | `var_…`, `stddev_…`                      | 24                                                      |
//! | another of one number                    | 17                                                      |
//! | `group_array`                            | 12 for each value                                       |
//! | `count_distinct`, `distinct`             | 25 for each different value                             |
//! | `approx_count_distinct`, `uniqState`     | 4 for each different value up to 4096; 8, up to 65536   |
//! | `quantile`, `quantiles`, their states    | 30 for each range of values; 16 for each value, up to 2048 |
//!
//! How many values differ is in no file: of those a key has at least one and at most one for each record.

use std::collections::BTreeSet;

use operators::window::{Aggregate, Function};
use pipeline::config::model::Pipeline;
use pipeline::config::model::step::WindowStep;
use pipeline::config::windows;

/// A key of 8 bytes, its hash, its number and the number of its records.
const KEY_COLUMN_BYTES: f64 = 8.0;
const KEY_BYTES: f64 = 19.0;
/// Beside that of a session: its bounds and its neighbours.
const SESSION_BYTES: f64 = 48.0;
/// Beside that with `emit`: when the key last had a record.
const EMIT_BYTES: f64 = 8.0;
/// Sessions end after this without a `max`.
const SESSION_MAX_S: f64 = 86_400.0;

/// What a key of the window that `forebay bench flink` measures takes by this arithmetic: a count, and `sum`, `min`, `max` and `avg` of four Floats.
pub(super) const MEASURED_KEY_BYTES: f64 = KEY_COLUMN_BYTES + KEY_BYTES + 13.0 * 8.0;

/// What a key takes in memory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KeyBytes {
    /// At least.
    pub least: f64,
    /// With a value of its own in each record.
    pub most: f64,
    /// The aggregates that make the difference, each with what it takes.
    pub open: Vec<String>,
}

/// The lengths of a window, in seconds.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    /// From the end of one window to that of the next.
    every_s: f64,
    /// Of the parts that windows which overlap share; each has a key's state.
    part_s: f64,
    /// Parts that the records up to a watermark may fall into.
    parts: f64,
    /// Windows that a record is in, on average.
    of_record: f64,
}

impl Lengths {
    fn of(window: &WindowStep) -> Self {
        let (size, every) = (window.longest().duration(), window.shortest().duration());
        let (size_ms, every_ms) = (size.as_millis().max(1), every.as_millis().max(1));
        // Cumulative windows share one state, which goes on to the end of `size`.
        let part_ms = if window.step.is_some() { size_ms } else { divisor(size_ms, every_ms) };
        let lateness_ms = window.lateness.duration().as_millis();
        let (many, is_cumulative) = (size_ms as f64 / every_ms as f64, window.step.is_some());
        Self {
            every_s: every_ms as f64 / 1e3,
            part_s: part_ms as f64 / 1e3,
            parts: (size_ms.div_ceil(part_ms) + lateness_ms.div_ceil(part_ms)) as f64,
            of_record: if is_cumulative { f64::midpoint(many, 1.0) } else { many },
        }
    }
}

/// The greatest length that divides both.
fn divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// Keys of one window: one without a key, and without `--keys` any number.
fn keys_of(window: &WindowStep, keys: Option<f64>) -> f64 {
    if window.key.is_empty() { 1.0 } else { keys.unwrap_or(f64::INFINITY) }
}

/// Results that a window gives a second of so many records a second, and why.
pub(super) fn results(window: &WindowStep, keys: Option<f64>, rate: f64) -> (f64, String) {
    let Lengths { every_s, of_record, .. } = Lengths::of(window);
    let keys = keys_of(window, keys);
    let emit = window.emit.as_ref();
    let early_s = emit.and_then(|emit| emit.early).map(|early| early.duration().as_secs_f64());
    // Early results are those of all open windows; with a longer period most windows end in between.
    let of_keys = match early_s {
        None => keys / every_s,
        Some(early_s) => keys * of_record / early_s + keys / every_s * (1.0 - (every_s / early_s).min(1.0)),
    };
    let most = rate * of_record;
    let results = of_keys.min(most);
    let has_sign = emit.is_some_and(|emit| emit.sign.is_some());
    // All but the first of a key and window take the one before back.
    let taken_back = if has_sign { results - (keys / every_s).min(results) } else { 0.0 };
    let several = |many: f64| if many > 1.0 { format!(" in {many:.1} windows") } else { String::new() };
    let mut because = match early_s {
        _ if keys.is_infinite() => {
            format!("every record a key of its own{}, for want of `--keys`", several(of_record))
        }
        _ if of_keys > most => {
            format!("a result of each record{}: {keys:.0} keys would have more", several(of_record))
        }
        Some(early_s) if early_s < every_s => {
            format!("{keys:.0} keys{}, a result each every {early_s:.0} s (`early`)", several(of_record))
        }
        Some(early_s) => format!(
            "{keys:.0} keys{}, a result each every {early_s:.0} s (`early`), and at the end of a window every {every_s:.0} s",
            several(of_record)
        ),
        None => format!("{keys:.0} keys, a result each every {every_s:.0} s"),
    };
    if taken_back > 0.0 {
        because += "; with `sign`, a row more for each result that is taken back";
    }
    if emit.is_some_and(|emit| emit.updates) && !window.lateness.duration().is_zero() {
        because += "; at least, for `updates` adds a result for each key of a batch with late records";
    }
    (results + taken_back, because)
}

/// How often results come, times a second: those of a window all at once. `None` if they may come with any batch, as sessions and updates do.
pub(super) fn closings(window: &WindowStep) -> Option<f64> {
    let emit = window.emit.as_ref();
    if window.gap.is_some() || emit.is_some_and(|emit| emit.updates) {
        return None;
    }
    let early = emit.and_then(|emit| emit.early).map_or(0.0, |early| 1.0 / early.duration().as_secs_f64());
    Some(1.0 / Lengths::of(window).every_s + early)
}

/// Keys that are open at once, counted in each part of a window that has its own state: as if the watermark stood still between two.
pub(super) fn open_keys(window: &WindowStep, keys: Option<f64>, rate: f64) -> f64 {
    let Lengths { part_s, parts, .. } = Lengths::of(window);
    let keys = keys_of(window, keys);
    // A session goes on as long as there are records, so of many keys each may have one, however few records there are.
    let with_records = if window.gap.is_some() && keys.is_finite() { keys } else { keys.min(rate * part_s) };
    with_records * parts
}

/// Bytes of an open key of which there are so many.
pub(super) fn key_bytes(
    window: &WindowStep,
    pipeline: &Pipeline,
    keys: Option<f64>,
    rate: f64,
    is_behind: bool,
) -> KeyBytes {
    let part_s = match window.gap {
        Some(_) => window.max.map_or(SESSION_MAX_S, |max| max.duration().as_secs_f64()),
        None => Lengths::of(window).part_s,
    };
    let keys = keys_of(window, keys);
    // Without a number of keys each record has its own.
    let records = if keys.is_infinite() { 1.0 } else { (rate * part_s / keys).max(1.0) };
    let mut bytes = KeyBytes {
        least: KEY_COLUMN_BYTES * window.key.len() as f64 + KEY_BYTES,
        most: 0.0,
        open: Vec::new(),
    };
    let (mut lanes, mut open) = (BTreeSet::new(), 0.0);
    for aggregate in windows::functions(window) {
        let column_type = aggregate.column.as_deref().filter(|_| !is_behind);
        let column_type = column_type.and_then(|column| type_of(pipeline, column));
        if is_side_by_side(&aggregate, column_type) {
            lanes.extend(lanes_of(&aggregate));
            continue;
        }
        let (size, more) = size(&aggregate, records);
        bytes.least += size;
        let is_text = column_type.is_some_and(|of| of.contains("String"));
        let each = match (more, is_text) {
            (None, false) => continue,
            (None, true) => "and its text".to_owned(),
            (Some((each, of, most)), _) if most > 1.0 => {
                open += each * (most - 1.0);
                format!("{each:.0} for each {of}{}", if is_text { " and its text" } else { "" })
            }
            (Some(_), false) => continue,
            (Some((each, of, _)), true) => format!("{each:.0} for each {of} and its text"),
        };
        if is_text {
            open = f64::INFINITY;
        }
        bytes.open.push(format!("`{}`: {each}", aggregate.name));
    }
    bytes.least += 8.0 * lanes.len() as f64;
    bytes.least += if window.gap.is_some() { SESSION_BYTES } else { 0.0 };
    if let Some(emit) = &window.emit {
        bytes.least += EMIT_BYTES;
        // What was written and may be taken back is kept as well.
        let times = if emit.sign.is_some() { 2.0 } else { 1.0 };
        bytes.least *= times;
        open *= times;
    }
    bytes.most = bytes.least + open;
    bytes
}

/// The type that the file gives a column of the records.
fn type_of<'a>(pipeline: &'a Pipeline, column: &str) -> Option<&'a str> {
    pipeline.inputs().into_iter().find_map(|input| {
        let fields = &input.source.fields.0;
        fields.iter().find(|(name, _)| name.as_str() == column).map(|(_, of)| of.as_str())
    })
}

/// Whether it is a number that lies beside others of its kind, without a bit for none.
fn is_side_by_side(aggregate: &Aggregate, column_type: Option<&str>) -> bool {
    let is_plain = aggregate.condition.is_none() && !aggregate.distinct && !aggregate.is_state;
    let is_one = matches!(aggregate.function, Function::Sum | Function::Avg | Function::Min | Function::Max);
    is_plain && is_one && matches!(column_type, Some("Float32" | "Float64"))
}

/// The numbers that such an aggregate needs, of which each is kept once.
fn lanes_of(aggregate: &Aggregate) -> Vec<(String, &'static str)> {
    let column = || aggregate.column.clone().unwrap_or_default();
    match aggregate.function {
        Function::Avg => vec![(column(), "sum"), (String::new(), "count")],
        Function::Sum => vec![(column(), "sum")],
        function => vec![(column(), function.word())],
    }
}

/// What an aggregate takes at least, and of what there may be more: bytes of each, its name, and how many there may be at the most.
fn size(aggregate: &Aggregate, records: f64) -> (f64, Option<(f64, &'static str, f64)>) {
    const RANGE: &str = "range of values";
    const DIFFERENT: &str = "different value";
    let each = |bytes: f64, of, most: f64| (bytes, Some((bytes, of, most)));
    if aggregate.distinct {
        return each(25.0, DIFFERENT, records);
    }
    match aggregate.function {
        Function::Count if aggregate.column.is_none() && aggregate.condition.is_none() => (0.0, None),
        Function::Count => (8.0, None),
        Function::VarPop | Function::VarSamp | Function::StddevPop | Function::StddevSamp => (24.0, None),
        Function::CountDistinct => each(25.0, DIFFERENT, records),
        Function::ApproxCountDistinct if aggregate.is_state => each(8.0, DIFFERENT, records.min(65_536.0)),
        Function::ApproxCountDistinct => each(4.0, DIFFERENT, records.min(4_096.0)),
        Function::Quantile | Function::Quantiles if aggregate.is_state => {
            each(16.0, "value", records.min(2_048.0))
        }
        Function::Quantile | Function::Quantiles => each(30.0, RANGE, records),
        Function::GroupArray => {
            let most = aggregate.numbers.first().map_or(f64::INFINITY, |most| *most as f64);
            (12.0 * records.min(most), None)
        }
        Function::Sum | Function::Avg | Function::Min | Function::Max | Function::Any => (17.0, None),
        Function::First | Function::Last | Function::ArgMin | Function::ArgMax => (17.0, None),
        Function::BoolAnd | Function::BoolOr => (17.0, None),
    }
}

#[cfg(test)]
mod tests;
