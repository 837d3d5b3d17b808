//! The step against a model that keeps every record: whatever is cut where, and wherever a start goes on from, the results are those of the records.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow_array::ArrayRef;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use bytes::Bytes;
use dataflow::{Output, State};
use proptest::prelude::*;

use super::{Row, batch, cut, others, put, schema};
use crate::window::{Window, WindowConfig, Windows};

pub(super) const DEVICES: [Option<&str>; 4] = [Some("a"), Some("b"), None, Some("a long name of a device")];

/// What happens to the step.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// A record: device, amount, heat in quarters, time.
    Row(usize, Option<i64>, i8, i64),
    /// The batch ends here.
    Batch,
    /// A seal, its watermark so much above the one before.
    Cut(i64),
    /// A crash after the last seal: what came since comes again.
    Crash,
    /// The state as of the last seal is written whole.
    Snapshot,
}

pub(super) fn act() -> impl Strategy<Value = Act> {
    let row = (0..4_usize, prop::option::of(-4..5_i64), -8..8_i8, 0..6_000_i64)
        .prop_map(|(device, amount, heat, time)| Act::Row(device, amount, heat, time));
    prop_oneof![
        12 => row,
        3 => Just(Act::Batch),
        2 => (0..900_i64).prop_map(Act::Cut),
        // Time stands still.
        1 => Just(Act::Cut(0)),
        1 => Just(Act::Crash),
        1 => Just(Act::Snapshot),
    ]
}

pub(super) fn acts() -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec(act(), 1..120)
}

/// Results by window and device.
pub(super) type Results = BTreeMap<(i64, i64, Option<String>), Vec<String>>;

/// The columns of results as texts.
pub(super) fn told(outputs: &[Output]) -> Results {
    let mut found = Results::new();
    for output in outputs {
        let options = FormatOptions::default().with_null("-");
        let text = |column: &ArrayRef, row: usize| {
            ArrayFormatter::try_new(column, &options).unwrap().value(row).to_string()
        };
        let columns = output.batch.rows.columns();
        for row in 0..output.batch.len() {
            let bound = |at: usize| {
                use arrow_array::cast::AsArray;
                columns[at].as_primitive::<arrow_array::types::TimestampMillisecondType>().value(row)
            };
            let device = (!columns[0].is_null(row)).then(|| text(&columns[0], row));
            let texts = columns[3..].iter().map(|column| text(column, row)).collect();
            assert!(found.insert((bound(1), bound(2), device), texts).is_none(), "a result is there twice");
        }
    }
    found
}

/// The results of records, in the order in which they came.
pub(super) fn expected(rows: &[Row]) -> Vec<String> {
    let amounts: Vec<i64> = rows.iter().filter_map(|row| row.1).collect();
    let evens: Vec<i64> = amounts.iter().copied().filter(|amount| amount % 2 == 0).collect();
    let or_null = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let mut once = Vec::new();
    amounts.iter().for_each(|amount| {
        if !once.contains(amount) {
            once.push(*amount);
        }
    });
    let mut sorted = amounts.clone();
    sorted.sort_unstable();
    let mut heats: Vec<f64> = rows.iter().map(|row| row.2).collect();
    heats.sort_by(f64::total_cmp);
    let rank = |len: usize, millionths: usize| (len * millionths / 1_000_000).min(len - 1);
    // Of the same amount or heat the first that came.
    let least = rows.iter().filter(|row| row.1.is_some()).min_by_key(|row| row.1);
    let greatest =
        rows.iter().filter(|row| row.0.is_some()).fold(None, |best: Option<&Row>, row| match best {
            Some(best) if row.2 <= best.2 => Some(best),
            _ => Some(row),
        });
    let float = |value: f64| format!("{value:?}");
    let mean = heats.iter().sum::<f64>() / heats.len() as f64;
    let variance = heats.iter().map(|heat| (heat - mean).powi(2)).sum::<f64>() / heats.len() as f64;
    let mean = amounts.iter().sum::<i64>() as f64 / amounts.len() as f64;
    let squares: f64 = amounts.iter().map(|amount| (*amount as f64 - mean).powi(2)).sum();
    let deviation = (amounts.len() > 1).then(|| (squares / (amounts.len() - 1) as f64).sqrt());
    let ends = [0, 900_000, 1_000_000].map(|level| float(heats[rank(heats.len(), level)] + 0.0));
    vec![
        rows.len().to_string(),
        evens.len().to_string(),
        or_null((!evens.is_empty()).then(|| evens.iter().sum::<i64>().to_string())),
        once.len().to_string(),
        u8::from(rows[0].0.is_some()).to_string(),
        or_null((!once.is_empty()).then(|| once.iter().sum::<i64>().to_string())),
        or_null(amounts.first().map(i64::to_string)),
        or_null(least.map(|row| float(row.2))),
        or_null(greatest.and_then(|row| row.0).map(str::to_owned)),
        or_null((!amounts.is_empty()).then(|| (evens.len() == amounts.len()).to_string())),
        or_null((!amounts.is_empty()).then(|| (!evens.is_empty()).to_string())),
        once.len().to_string(),
        format!("[{}]", amounts.iter().take(3).map(i64::to_string).collect::<Vec<_>>().join(", ")),
        or_null((!sorted.is_empty()).then(|| float(sorted[rank(sorted.len(), 500_000)] as f64))),
        format!("[{}]", ends.join(", ")),
        float(variance),
        or_null(deviation.map(float)),
    ]
}

pub(super) fn is_near(found: &[String], expected: &[String]) -> bool {
    let near = |found: &String, expected: &String| match (found.parse::<f64>(), expected.parse::<f64>()) {
        (Ok(found), Ok(expected)) => (found - expected).abs() < 1e-9,
        _ => found == expected,
    };
    found.len() == expected.len() && found.iter().zip(expected).all(|(found, expected)| near(found, expected))
}

/// Which windows a record belongs to.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// One each so often, of a length: the records of one are taken by pane, and as they came within a pane.
    Hopping(i64, i64),
    /// Growing ones.
    Cumulative(i64, i64),
    /// Of a gap and the length that none has more of.
    Sessions(i64, i64),
}

/// A window and device, or the first and last record of a session and its device; and the records.
type Kept = ((i64, i64, Option<String>), Vec<Row>);

/// The records that a model keeps, and what it has counted.
#[derive(Clone)]
pub(super) struct Model {
    rule: Rule,
    lateness_ms: i64,
    /// The records of each window and device, and of each session with its first and last record.
    open: Vec<Kept>,
    /// The end of the last window of each record that is held, but for sessions.
    held: Vec<i64>,
    watermark_ms: i64,
    pub late: u64,
}

impl Model {
    /// Without a record.
    pub fn new(rule: Rule, lateness_ms: i64) -> Self {
        Self { rule, lateness_ms, open: Vec::new(), held: Vec::new(), watermark_ms: i64::MIN, late: 0 }
    }

    fn is_closed(&self, end: i64) -> bool {
        end + self.lateness_ms <= self.watermark_ms
    }

    pub fn row(&mut self, row: Row) {
        match self.rule {
            Rule::Hopping(size, by) | Rule::Cumulative(size, by) => {
                let mut windows = match self.rule {
                    Rule::Hopping(..) => hopping(row.3, size, by),
                    _ => cumulative(row.3, size, by),
                };
                windows.retain(|(_, end)| !self.is_closed(*end));
                let Some(last) = windows.iter().map(|(_, end)| *end).max() else {
                    self.late += 1;
                    return;
                };
                self.held.push(last);
                for (start, end) in windows {
                    let window = (start, end, row.0.map(str::to_owned));
                    match self.open.iter_mut().find(|(other, _)| *other == window) {
                        Some((_, rows)) => rows.push(row),
                        None => self.open.push((window, vec![row])),
                    }
                }
            }
            Rule::Sessions(gap, max) => {
                let (time, device) = (row.3, row.0.map(str::to_owned));
                let is_near = |((first, last, other), _): &&mut Kept| {
                    *other == device
                        && first.div_euclid(max) == time.div_euclid(max)
                        && time < last + gap
                        && *first < time + gap
                };
                let near: Vec<_> = self.open.extract_if(.., |session| is_near(&session)).collect();
                if near.is_empty() && self.is_closed(session_end(time, gap, max)) {
                    self.late += 1;
                    return;
                }
                let (mut first, mut last, mut rows) = (time, time, vec![row]);
                for ((other_first, other_last, _), others) in near {
                    (first, last) = (first.min(other_first), last.max(other_last));
                    rows.splice(0..0, others);
                }
                self.open.push(((first, last, device), rows));
            }
        }
    }

    /// How many records are held.
    pub fn held(&self) -> usize {
        match self.rule {
            Rule::Hopping(..) | Rule::Cumulative(..) => self.held.len(),
            Rule::Sessions(..) => self.open.iter().map(|(_, rows)| rows.len()).sum(),
        }
    }

    pub fn cut(&mut self, watermark_ms: i64) -> Results {
        self.watermark_ms = watermark_ms;
        let (rule, lateness_ms) = (self.rule, self.lateness_ms);
        let end_of = |(_, end, _): &(i64, i64, Option<String>)| match rule {
            Rule::Hopping(..) | Rule::Cumulative(..) => *end,
            Rule::Sessions(gap, max) => session_end(*end, gap, max),
        };
        let closed = |end: i64| end + lateness_ms <= watermark_ms;
        self.held.retain(|end| !closed(*end));
        let out = self.open.extract_if(.., |(window, _)| closed(end_of(window)));
        out.map(|(window, mut rows)| {
            if let Rule::Hopping(size, slide) = rule {
                let pane = (1..=slide).rev().find(|pane| size % pane == 0 && slide % pane == 0).unwrap();
                rows.sort_by_key(|row| row.3.div_euclid(pane));
            }
            ((window.0, end_of(&window), window.2), expected(&rows))
        })
        .collect()
    }
}

fn session_end(last: i64, gap: i64, max: i64) -> i64 {
    (last + gap).min(last - last.rem_euclid(max) + max)
}

/// Plays it to the step and the model, and compares everything that both say.
fn play(config: &WindowConfig, acts: &[Act], rule: Rule) -> Result<(), TestCaseError> {
    let lateness_ms = config.lateness.as_millis() as i64;
    let new = || Window::new(&schema(), config).unwrap();
    let mut model = Model::new(rule, lateness_ms);
    let mut step = new();
    // As of the last seal: the model, the snapshot and the deltas after it.
    let (mut sealed, mut snapshot, mut deltas) = (model.clone(), step.snapshot(), Vec::<Bytes>::new());
    let (mut rows, mut unsealed, mut watermark_ms) = (Vec::<Row>::new(), Vec::<Row>::new(), 0);
    for act in acts.iter().chain([&Act::Cut(1_000), &Act::Cut(100_000)]) {
        let is_row = matches!(act, Act::Row(..));
        if !is_row && !rows.is_empty() {
            let late = put(&mut step, batch(&rows)).late;
            let before = model.late;
            rows.iter().for_each(|row| model.row(*row));
            prop_assert_eq!(late, model.late - before);
            unsealed.append(&mut rows);
        }
        match act {
            Act::Row(device, amount, heat, time) => {
                rows.push((DEVICES[*device], *amount, f64::from(*heat) / 4.0, *time));
            }
            Act::Batch => {}
            Act::Cut(by) => {
                watermark_ms += by;
                let held = step.held();
                let (outputs, delta) = cut(&mut step, watermark_ms);
                let (found, wanted) = (told(&outputs), model.cut(watermark_ms));
                prop_assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
                for (window, wanted) in &wanted {
                    let wanted = match rule {
                        Rule::Hopping(..) => wanted.clone(),
                        _ => without_order(wanted),
                    };
                    prop_assert!(
                        is_near(&found[window], &wanted),
                        "{:?}: {:?}, {:?}",
                        window,
                        &found[window],
                        wanted
                    );
                }
                let released: u64 = outputs.iter().map(|output| output.released).sum();
                prop_assert_eq!(released + step.held(), held, "what was absorbed is released or held");
                prop_assert_eq!(step.held(), model.held() as u64);
                deltas.push(delta);
                sealed = model.clone();
                unsealed.clear();
            }
            Act::Crash => {
                step = new();
                step.restore(&snapshot).unwrap();
                deltas.iter().for_each(|delta| step.apply(delta).unwrap());
                model = sealed.clone();
                // Cut otherwise than before, as a source may do.
                for rows in unsealed.chunks(5) {
                    put(&mut step, batch(rows));
                }
                unsealed.iter().for_each(|row| model.row(*row));
            }
            Act::Snapshot if unsealed.is_empty() => {
                let mut again = new();
                again.restore(&snapshot).unwrap();
                deltas.iter().for_each(|delta| again.apply(delta).unwrap());
                snapshot = step.snapshot();
                prop_assert_eq!(&again.snapshot(), &snapshot, "bit for bit");
                deltas.clear();
            }
            Act::Snapshot => {}
        }
    }
    prop_assert_eq!(step.held(), 0);
    Ok(())
}

/// The windows that contain a time, one each `slide`.
pub(super) fn hopping(time: i64, size: i64, slide: i64) -> Vec<(i64, i64)> {
    let last = time - time.rem_euclid(slide);
    (0..)
        .map(|n| last - n * slide)
        .take_while(|start| start + size > time)
        .map(|start| (start, start + size))
        .collect()
}

/// Those that grow by `step` up to `size`.
pub(super) fn cumulative(time: i64, size: i64, step: i64) -> Vec<(i64, i64)> {
    let start = time - time.rem_euclid(size);
    (1..=size / step).map(|n| (start, start + n * step)).filter(|(_, end)| *end > time).collect()
}

/// Columns of [`others`] that depend on the order of records, which is not that in which they came where sessions are joined, or a record comes
/// to a part of a growing window whose first windows are closed.
const ORDERED: [usize; 4] = [6, 7, 8, 12];

pub(super) fn without_order(texts: &[String]) -> Vec<String> {
    let kept = texts.iter().enumerate().filter(|(at, _)| !ORDERED.contains(at));
    kept.map(|(_, text)| text.clone()).collect()
}

pub(super) fn unordered(mut config: WindowConfig) -> WindowConfig {
    let all = std::mem::take(&mut config.aggregates).into_iter().enumerate();
    config.aggregates = all.filter(|(at, _)| !ORDERED.contains(at)).map(|(_, one)| one).collect();
    config
}

pub(super) fn windows(windows: Windows) -> WindowConfig {
    WindowConfig { windows, ..others(300) }
}

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn tumbling_windows_have_the_results_of_their_records(acts in acts()) {
        play(&others(300), &acts, Rule::Hopping(1_000, 1_000))?;
    }

    #[test]
    fn hopping_windows_have_the_results_of_their_records_and_hold_each_once(
        acts in acts(),
        (size, slide) in prop_oneof![Just((1_000, 250)), Just((900, 600)), Just((700, 700)), Just((2_000, 100))],
    ) {
        let config = windows(Windows::Hopping { size: ms(size), slide: ms(slide) });
        play(&config, &acts, Rule::Hopping(size as i64, slide as i64))?;
    }

    #[test]
    fn cumulative_windows_have_the_results_of_their_records_and_hold_each_once(
        acts in acts(),
        (size, step) in prop_oneof![Just((1_000, 250)), Just((2_000, 100)), Just((500, 500))],
    ) {
        let config = unordered(windows(Windows::Cumulative { size: ms(size), step: ms(step) }));
        play(&config, &acts, Rule::Cumulative(size as i64, step as i64))?;
    }

    #[test]
    fn sessions_have_the_results_of_their_records_whatever_joins_them(acts in acts()) {
        let config = unordered(windows(Windows::Session { gap: ms(300), max: ms(2_000) }));
        play(&config, &acts, Rule::Sessions(300, 2_000))?;
    }
}
