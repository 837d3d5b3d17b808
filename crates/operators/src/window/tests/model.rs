//! The step against a model that keeps every record: whatever is cut where, and wherever a start goes on from, the results are those of the records.

use std::collections::BTreeMap;

use arrow_array::ArrayRef;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use bytes::Bytes;
use dataflow::{Output, State};
use proptest::prelude::*;

use super::{Row, batch, cut, others, put, schema};
use crate::window::{Window, WindowConfig};

const DEVICES: [Option<&str>; 4] = [Some("a"), Some("b"), None, Some("a long name of a device")];

/// What happens to the step.
#[derive(Clone, Debug)]
enum Act {
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

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let row = (0..4_usize, prop::option::of(-4..5_i64), -8..8_i8, 0..6_000_i64)
        .prop_map(|(device, amount, heat, time)| Act::Row(device, amount, heat, time));
    let act = prop_oneof![
        12 => row,
        3 => Just(Act::Batch),
        2 => (0..900_i64).prop_map(Act::Cut),
        1 => Just(Act::Crash),
        1 => Just(Act::Snapshot),
    ];
    prop::collection::vec(act, 1..120)
}

/// Results by window and device.
type Results = BTreeMap<(i64, i64, Option<String>), Vec<String>>;

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
    let rank = |len: usize, millionths: usize| (len - 1) * millionths / 1_000_000;
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

fn is_near(found: &[String], expected: &[String]) -> bool {
    let near = |found: &String, expected: &String| match (found.parse::<f64>(), expected.parse::<f64>()) {
        (Ok(found), Ok(expected)) => (found - expected).abs() < 1e-9,
        _ => found == expected,
    };
    found.len() == expected.len() && found.iter().zip(expected).all(|(found, expected)| near(found, expected))
}

/// The records that a model keeps, and what it has counted.
#[derive(Clone, Default)]
struct Model {
    /// By window and device.
    open: BTreeMap<(i64, i64, Option<String>), Vec<Row>>,
    /// The end of the last window of each record that is held.
    held: Vec<i64>,
    watermark_ms: Option<i64>,
    late: u64,
}

/// The windows that a time lies in.
type WindowsOf<'a> = &'a dyn Fn(i64) -> Vec<(i64, i64)>;

impl Model {
    fn is_closed(&self, end: i64, lateness_ms: i64) -> bool {
        self.watermark_ms.is_some_and(|watermark| end + lateness_ms <= watermark)
    }

    fn row(&mut self, row: Row, windows_of: WindowsOf<'_>, lateness_ms: i64) {
        let mut windows = windows_of(row.3);
        windows.retain(|(_, end)| !self.is_closed(*end, lateness_ms));
        let Some(last) = windows.iter().map(|(_, end)| *end).max() else {
            self.late += 1;
            return;
        };
        self.held.push(last);
        for (start, end) in windows {
            self.open.entry((start, end, row.0.map(str::to_owned))).or_default().push(row);
        }
    }

    fn cut(
        &mut self,
        watermark_ms: i64,
        lateness_ms: i64,
    ) -> BTreeMap<(i64, i64, Option<String>), Vec<String>> {
        self.watermark_ms = Some(watermark_ms);
        let closed = |end: i64| end + lateness_ms <= watermark_ms;
        self.held.retain(|end| !closed(*end));
        let out = self.open.iter().filter(|((_, end, _), _)| closed(*end));
        let out = out.map(|(window, rows)| (window.clone(), expected(rows))).collect();
        self.open.retain(|(_, end, _), _| !closed(*end));
        out
    }
}

/// Plays it to the step and the model, and compares everything that both say.
fn play(config: &WindowConfig, acts: &[Act], windows_of: WindowsOf<'_>) -> Result<(), TestCaseError> {
    let lateness_ms = config.lateness.as_millis() as i64;
    let new = || Window::new(&schema(), config).unwrap();
    let (mut step, mut model) = (new(), Model::default());
    // As of the last seal: the model, the snapshot and the deltas after it.
    let (mut sealed, mut snapshot, mut deltas) = (model.clone(), step.snapshot(), Vec::<Bytes>::new());
    let (mut rows, mut unsealed, mut watermark_ms) = (Vec::<Row>::new(), Vec::<Row>::new(), 0);
    for act in acts.iter().chain([&Act::Cut(1_000), &Act::Cut(100_000)]) {
        let is_row = matches!(act, Act::Row(..));
        if !is_row && !rows.is_empty() {
            let late = put(&mut step, batch(&rows)).late;
            let before = model.late;
            rows.iter().for_each(|row| model.row(*row, windows_of, lateness_ms));
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
                let (found, wanted) = (told(&outputs), model.cut(watermark_ms, lateness_ms));
                prop_assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
                for (window, wanted) in &wanted {
                    prop_assert!(
                        is_near(&found[window], wanted),
                        "{:?}: {:?}, {:?}",
                        window,
                        &found[window],
                        wanted
                    );
                }
                let released: u64 = outputs.iter().map(|output| output.released).sum();
                prop_assert_eq!(released + step.held(), held, "what was absorbed is released or held");
                prop_assert_eq!(step.held(), model.held.len() as u64);
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
                unsealed.iter().for_each(|row| model.row(*row, windows_of, lateness_ms));
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn tumbling_windows_have_the_results_of_their_records(acts in acts()) {
        play(&others(300), &acts, &|time| vec![(time - time.rem_euclid(1_000), time - time.rem_euclid(1_000) + 1_000)])?;
    }
}
