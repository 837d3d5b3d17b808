//! The step against a model that keeps every row and looks through all versions for each.

use proptest::prelude::*;

use super::*;

/// A row of the model, with its place in the order of arrival.
#[derive(Clone, Copy, Debug)]
struct Kept {
    key: Option<i64>,
    number: i64,
    time_ms: i64,
}

struct Model {
    is_outer: bool,
    rows: Vec<Kept>,
    /// All versions that were taken, whether anybody needs them or not.
    versions: Vec<Kept>,
    /// How many of them came before the last seal.
    sealed: usize,
    held_versions: u64,
    watermark_ms: i64,
}

impl Model {
    fn floor_ms(&self) -> i64 {
        self.watermark_ms.saturating_sub(20)
    }

    fn version(versions: &[Kept], key: i64, time_ms: i64) -> Option<&Kept> {
        let of_key = versions.iter().filter(|version| version.key == Some(key));
        of_key.filter(|version| version.time_ms <= time_ms).max_by_key(|version| version.time_ms)
    }

    fn put(&mut self, side: JoinSide, rows: &[Row]) -> u64 {
        let (mut late, floor_ms) = (0, self.floor_ms());
        for (key, number, _, time_ms) in rows.iter().copied() {
            let row = Kept { key, number, time_ms };
            let is_late = match side {
                LEFT => time_ms < floor_ms,
                RIGHT => {
                    let sealed = &self.versions[..self.sealed];
                    let holds = key.and_then(|key| Self::version(sealed, key, floor_ms));
                    holds.is_some_and(|version| version.time_ms > time_ms)
                }
            };
            match side {
                _ if is_late => late += 1,
                LEFT => self.rows.push(row),
                RIGHT => self.versions.push(row),
            }
        }
        late
    }

    /// The rows of the output, and those without a match that are not among them.
    fn cut(&mut self, watermark_ms: i64) -> (Vec<Found>, Vec<Found>, u64) {
        self.watermark_ms = self.watermark_ms.max(watermark_ms);
        let floor_ms = self.floor_ms();
        let (mut due, waits): (Vec<Kept>, Vec<Kept>) =
            self.rows.iter().partition(|row| row.time_ms < floor_ms);
        self.rows = waits;
        due.sort_by_key(|row| row.time_ms);
        let of = |row: &Kept| {
            let version = row.key.and_then(|key| Self::version(&self.versions, key, row.time_ms));
            (row.number, version.map(|v| v.number).filter(|number| !is_deletion(*number)), row.time_ms)
        };
        let mut found: Vec<Found> = due.iter().map(of).collect();
        let unmatched = found.iter().filter(|row| row.1.is_none()).count() as u64;
        let is_of_output = |row: &Found| self.is_outer || row.1.is_some();
        let aside = found.iter().copied().filter(|row| !is_of_output(row)).collect();
        found.retain(is_of_output);
        self.sealed = self.versions.len();
        self.held_versions = (0..self.versions.len()).filter(|at| self.is_needed(*at)).count() as u64;
        (found, aside, unmatched)
    }

    /// Whether a row that is to come could get this version.
    fn is_needed(&self, at: usize) -> bool {
        let own = self.versions[at];
        let Some(key) = own.key else { return own.time_ms > self.floor_ms() };
        let replaces = |(other, version): (usize, &Kept)| {
            version.key == Some(key)
                && (version.time_ms, other) > (own.time_ms, at)
                && version.time_ms <= self.floor_ms()
        };
        !self.versions.iter().enumerate().any(replaces)
    }
}

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
    let text = prop_oneof![Just(""), Just("a longer text with more bytes"), Just("ä")];
    let row = (key, 0..1_000_i64, text, 0..1_500_i64);
    let side = prop_oneof![Just(LEFT), Just(RIGHT)];
    let put = (side, prop::collection::vec(row, 0..30)).prop_map(|(side, rows)| Act::Put(side, rows));
    let cut = prop_oneof![9 => (-100..1_800_i64).prop_map(Act::Cut), 1 => Just(Act::Cut(TIME_UNKNOWN_MS))];
    let act = prop_oneof![12 => put, 5 => cut, 1 => Just(Act::Crash), 1 => Just(Act::Snapshot)];
    prop::collection::vec(act, 1..60)
}

/// Times rise with the acts, so that rows are late, due and in time.
pub(super) fn risen(rows: &[Row], at: usize) -> Vec<Row> {
    rows.iter().map(|row| (row.0, row.1, row.2, row.3 / 4 + at as i64 * 25)).collect()
}

fn check(config: &TemporalConfig, acts: &[Act]) {
    let is_outer = config.is_outer;
    let join = || TemporalJoin::new(&left(), &right(), config).unwrap();
    let (rows, versions) = (Vec::new(), Vec::new());
    let mut model =
        Model { is_outer, rows, versions, sealed: 0, held_versions: 0, watermark_ms: TIME_UNKNOWN_MS };
    let mut live = join();
    let (mut snapshot, mut deltas) = (live.snapshot(), Vec::<Bytes>::new());
    let mut unsealed: Vec<(JoinSide, Vec<Row>, u64)> = Vec::new();
    let mut positions = 0;
    for (at, act) in acts.iter().chain(&[Act::Cut(3_000 * 4)]).enumerate() {
        match act {
            Act::Put(side, rows) => {
                let rows = risen(rows, at);
                let out = put_rows(&mut live, *side, &rows);
                assert_eq!(out.late, model.put(*side, &rows));
                unsealed.push((*side, rows, out.late));
            }
            Act::Cut(watermark_ms) => {
                let watermark_ms = match *watermark_ms {
                    TIME_UNKNOWN_MS => TIME_UNKNOWN_MS,
                    other => other / 4 + at as i64 * 25 - 150,
                };
                let (is_due, waited) = (live.is_due(watermark_ms), live.waiting());
                let behind = live.watermark_behind(live.watermark_ms);
                let (outputs, delta) = cut(&mut live, watermark_ms);
                let (expected, aside, unmatched) = model.cut(watermark_ms);
                let came = found(&outputs);
                assert!(came.iter().all(|row| row.2 >= behind), "nothing is earlier than was promised");
                assert_eq!(came, expected);
                assert_eq!(is_due, waited > live.waiting());
                assert_eq!(outputs.iter().map(|out| out.unmatched).sum::<u64>(), unmatched);
                for position in outputs.iter().flat_map(|out| &out.batch.positions) {
                    assert_eq!(*position, positions);
                    positions += 1;
                }
                if !config.unmatched.is_empty() {
                    let numbered =
                        aside.iter().zip(positions..).map(|(row, position)| (row.0, row.2, position));
                    assert_eq!(beside(&outputs), numbered.collect::<Vec<_>>());
                }
                positions += aside.len() as u64;
                deltas.push(delta);
                unsealed.clear();
                assert_eq!(live.held(), model.rows.len() as u64 + model.held_versions);
            }
            Act::Crash => {
                live = join();
                live.restore(&snapshot).unwrap();
                deltas.iter().for_each(|delta| live.apply(delta).unwrap());
                for (side, rows, late) in &unsealed {
                    assert_eq!(put_rows(&mut live, *side, rows).late, *late);
                }
            }
            Act::Snapshot => {
                if unsealed.is_empty() {
                    (snapshot, deltas) = (live.snapshot(), Vec::new());
                }
            }
        }
    }
    assert_eq!(live.waiting(), 0);
    let mut again = join();
    again.restore(&snapshot).unwrap();
    deltas.iter().for_each(|delta| again.apply(delta).unwrap());
    assert_eq!(again.snapshot(), live.snapshot(), "byte for byte");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_result_is_that_of_looking_through_all_versions(acts in acts()) {
        for config in [config(true), config(false), with_aside()] {
            check(&config, &acts);
        }
    }
}
