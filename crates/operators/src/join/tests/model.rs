//! The step against a model that keeps every row and compares each with each.

use proptest::prelude::*;

use super::*;

/// A row of the model.
#[derive(Clone, Copy, Debug)]
struct Kept {
    side: JoinSide,
    key: Option<i64>,
    number: i64,
    time_ms: i64,
    is_matched: bool,
    is_released: bool,
}

struct Model {
    kind: JoinKind,
    rows: Vec<Kept>,
    watermark_ms: i64,
}

impl Model {
    fn put(&mut self, side: JoinSide, rows: &[Row]) -> (Vec<Found>, u64) {
        let (mut made, mut late) = (Vec::new(), 0);
        for (key, number, _, time_ms) in rows.iter().copied() {
            if time_ms < self.watermark_ms.saturating_sub(20) {
                late += 1;
                continue;
            }
            let mut own = Kept { side, key, number, time_ms, is_matched: false, is_released: false };
            for other in self.rows.iter_mut().filter(|other| other.side != side) {
                let (left, right) = if side == JoinSide::Left { (own, *other) } else { (*other, own) };
                let is_near = right.time_ms >= left.time_ms - 100 && right.time_ms <= left.time_ms + 50;
                if key.is_some() && key == other.key && is_near {
                    assert!(!other.is_released, "the rule releases no row that can match");
                    (own.is_matched, other.is_matched) = (true, true);
                    made.push((Some(left.number), Some(right.number), time_ms.max(other.time_ms)));
                }
            }
            self.rows.push(own);
        }
        (made, late)
    }

    /// The rows of the output without a match, those that are not among them (side, key, number, time), how many were released, and how many never matched.
    fn cut(&mut self, watermark_ms: i64) -> (Vec<Found>, Vec<Aside>, u64, u64) {
        self.watermark_ms = self.watermark_ms.max(watermark_ms);
        let floor_ms = self.watermark_ms.saturating_sub(20);
        let (mut lone, mut aside, mut released, mut unmatched) = (Vec::new(), Vec::new(), 0, 0);
        for row in self.rows.iter_mut().filter(|row| !row.is_released) {
            let later_ms = if row.side == JoinSide::Left { 50 } else { 100 };
            if floor_ms <= row.time_ms + later_ms {
                continue;
            }
            row.is_released = true;
            released += 1;
            if row.is_matched {
                continue;
            }
            unmatched += 1;
            match row.side {
                JoinSide::Left if matches!(self.kind, JoinKind::Left | JoinKind::Full) => {
                    lone.push((row.time_ms, 0, (Some(row.number), None, row.time_ms)));
                }
                JoinSide::Right if matches!(self.kind, JoinKind::Right | JoinKind::Full) => {
                    lone.push((row.time_ms, 1, (None, Some(row.number), row.time_ms)));
                }
                side => aside.push((side as usize, row.key, row.number, row.time_ms)),
            }
        }
        lone.sort_by_key(|(time_ms, side, _)| (*time_ms, *side));
        aside.sort_by_key(|(side, .., time_ms)| (*side, *time_ms));
        (lone.into_iter().map(|(.., row)| row).collect(), aside, released, unmatched)
    }

    fn held(&self) -> u64 {
        self.rows.iter().filter(|row| !row.is_released).count() as u64
    }
}

/// A row beside the output: its side, key, number and time.
type Aside = (usize, Option<i64>, i64, i64);

#[derive(Clone, Debug)]
pub(super) enum Act {
    Put(JoinSide, Vec<Row>),
    Cut(i64),
    /// A crash, after which the batches since the last seal come again.
    Crash,
    Snapshot,
}

pub(super) fn acts() -> impl Strategy<Value = Vec<Act>> {
    let key = prop_oneof![1 => Just(None), 9 => (0..4_i64).prop_map(Some)];
    let text = prop_oneof![Just(""), Just("a"), Just("a longer text with more bytes"), Just("ä")];
    let row = (key, 0..1_000_i64, text, 0..1_500_i64);
    let side = prop_oneof![Just(JoinSide::Left), Just(JoinSide::Right)];
    let put = (side, prop::collection::vec(row, 0..30)).prop_map(|(side, rows)| Act::Put(side, rows));
    let cut = prop_oneof![9 => (-100..1_800_i64).prop_map(Act::Cut), 1 => Just(Act::Cut(TIME_UNKNOWN_MS))];
    let act = prop_oneof![12 => put, 5 => cut, 1 => Just(Act::Crash), 1 => Just(Act::Snapshot)];
    prop::collection::vec(act, 1..60)
}

/// A batch, with the rows that it made and their positions.
type Came = (JoinSide, Vec<Row>, Vec<Found>, Vec<u64>);

/// Times rise with the acts, so that rows are late, due and in time.
pub(super) fn risen(rows: &[Row], at: usize) -> Vec<Row> {
    rows.iter().map(|row| (row.0, row.1, row.2, row.3 / 4 + at as i64 * 25)).collect()
}

/// The same outputs, whatever their order: pairs of one batch have none that is promised.
fn sorted(mut rows: Vec<Found>) -> Vec<Found> {
    rows.sort_unstable();
    rows
}

fn check(config: &JoinConfig, acts: &[Act]) {
    let kind = config.kind;
    let is_aside = config.unmatched.iter().any(|names| !names.is_empty());
    let join = || Join::new(&left(), &right(), config).unwrap();
    let mut model = Model { kind, rows: Vec::new(), watermark_ms: TIME_UNKNOWN_MS };
    let mut live = join();
    let (mut snapshot, mut deltas) = (live.snapshot(), Vec::<Bytes>::new());
    // Batches since the last seal, with what came of them.
    let mut unsealed: Vec<Came> = Vec::new();
    let mut positions = 0;
    let end = [Act::Cut(i64::MAX)];
    for (at, act) in acts.iter().chain(&end).enumerate() {
        match act {
            Act::Put(side, rows) => {
                let rows = risen(rows, at);
                let out = put(&mut live, *side, batch(*side, &rows));
                let (made, late) = model.put(*side, &rows);
                let came = found(&out.batch);
                assert_eq!(sorted(came.clone()), sorted(made));
                assert_eq!(out.late, late);
                let numbers: Vec<u64> = (positions..positions + came.len() as u64).collect();
                assert_eq!(out.batch.positions, numbers, "positions never repeat");
                positions += came.len() as u64;
                unsealed.push((*side, rows, came, numbers));
            }
            Act::Cut(watermark_ms) => {
                let watermark_ms = if [i64::MAX, i64::MIN].contains(watermark_ms) {
                    *watermark_ms
                } else {
                    watermark_ms / 4 + at as i64 * 25 - 150
                };
                let is_due = live.is_due(watermark_ms);
                let behind = live.watermark_behind(live.watermark_ms);
                let (outputs, delta) = cut(&mut live, watermark_ms);
                let (lone, aside, released, unmatched) = model.cut(watermark_ms);
                let came: Vec<Found> = outputs.iter().flat_map(|out| found(&out.batch)).collect();
                assert!(came.iter().all(|row| row.2 >= behind), "nothing is earlier than was promised");
                assert_eq!(came, lone);
                assert_eq!(is_due, !lone.is_empty() || is_aside && !aside.is_empty());
                assert_eq!(outputs.iter().map(|out| out.released).sum::<u64>(), released);
                assert_eq!(outputs.iter().map(|out| out.unmatched).sum::<u64>(), unmatched);
                for position in outputs.iter().flat_map(|out| &out.batch.positions) {
                    assert_eq!(*position, positions);
                    positions += 1;
                }
                if is_aside {
                    let numbered = aside.iter().zip(positions..);
                    let numbered = numbered.map(|((side, key, number, time_ms), position)| {
                        (*side, *key, *number, *time_ms, position)
                    });
                    assert_eq!(beside(&outputs), numbered.collect::<Vec<_>>());
                }
                positions += aside.len() as u64;
                deltas.push(delta);
                unsealed.clear();
            }
            Act::Crash => {
                live = join();
                live.restore(&snapshot).unwrap();
                deltas.iter().for_each(|delta| live.apply(delta).unwrap());
                for (side, rows, came, numbers) in &unsealed {
                    let out = put(&mut live, *side, batch(*side, rows));
                    assert_eq!(&found(&out.batch), came, "in the same order");
                    assert_eq!(&out.batch.positions, numbers);
                }
            }
            Act::Snapshot => {
                if unsealed.is_empty() {
                    (snapshot, deltas) = (live.snapshot(), Vec::new());
                }
            }
        }
        assert_eq!(live.held(), model.held());
    }
    assert_eq!((live.held(), live.entries()), (0, 0));
    let mut again = join();
    again.restore(&snapshot).unwrap();
    deltas.iter().for_each(|delta| again.apply(delta).unwrap());
    assert_eq!(again.snapshot(), live.snapshot(), "byte for byte");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_result_is_that_of_comparing_each_row_with_each(acts in acts()) {
        for kind in KINDS {
            check(&config(kind), &acts);
            check(&with_aside(kind), &acts);
        }
    }
}
