//! Every step runs the suite of `dataflow::conformance::operator`.
//!
//! Owns what happens to each of them in the suite. Does not own the rules, nor what a step makes of its rows, which its own tests compare with a model.

mod lies;

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use dataflow::block::{BlockBuilder, Found};
use dataflow::conformance::operator::{Act, Fixture, run};
use dataflow::{
    Batch, Column, ColumnType, Operator, OperatorError, Partition, RecordBlock, Schema, Transform,
    Transformed,
};

use operators::mapping::{Fill, Mapping};
use operators::window::{Aggregate, Emit, Function, Windows};
use operators::{
    Dedup, DedupConfig, EventTime, Gate, Join, JoinColumn, JoinConfig, JoinKind, JoinSide, Late, Lookup,
    LookupConfig, LookupKeyer, Stateless, TemporalConfig, TemporalJoin, Upsert, UpsertConfig, Window,
    WindowConfig, dedup, join, window,
};

/// Columns of all batches: a key that may be NULL, a number, a text and a flag.
fn schema() -> Schema {
    Schema::new(vec![
        Column::new("key", ColumnType::Nullable(Box::new(ColumnType::Int64))),
        Column::new("number", ColumnType::Int64),
        Column::new("name", ColumnType::String),
        Column::new("passes", ColumnType::Bool),
    ])
}

/// Rows of (key, time); their numbers count from `first`. A key of 0 is NULL.
fn batch(partition: u32, first: u64, rows: &[(i64, i64)]) -> Batch {
    let numbers = || (first as i64..).take(rows.len());
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| (row.0 != 0).then_some(row.0)).collect::<Int64Array>()),
        Arc::new(Int64Array::from_iter_values(numbers())),
        Arc::new(StringArray::from_iter_values(numbers().map(|n| format!("row {n}")))),
        Arc::new(numbers().map(|n| Some(n % 3 != 0)).collect::<BooleanArray>()),
    ];
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("suite", partition),
        rows: RecordBatch::try_new(schema().arrow().clone(), columns)
            .expect("the columns are those of the schema"),
        positions: (first..).take(rows.len()).collect(),
        times_ms: rows.iter().map(|row| row.1).collect(),
    }
}

/// Batches of two partitions, of which some rows come late, and seals; keys come again near and far in time.
fn acts(inputs: usize) -> Vec<Act> {
    let batches: [&[(i64, i64)]; 9] = [
        &[(1, 100), (2, 150), (1, 190), (0, 60)],
        &[(3, 120), (1, 480), (2, 470)],
        &[(2, 510), (2, 530), (4, 900), (1, 640)],
        &[(5, 700), (0, 610), (1, 20)],
        &[(1, 1_150), (3, 1_020), (2, 30), (5, 1_300)],
        &[(4, 1_280), (1, 1_310), (2, 1_700)],
        &[(1, 2_100), (2, 2_210), (3, 90), (3, 2_120)],
        &[(6, 2_600), (1, 2_590)],
        &[(1, 3_900), (7, 3_500)],
    ];
    // Two seals have nothing but their time.
    let cuts = [(1, 200), (3, 650), (4, 650), (6, 1_400), (6, 1_900), (7, 2_300), (7, 2_900), (8, 6_000)];
    let mut acts = Vec::new();
    for (n, rows) in batches.into_iter().enumerate() {
        acts.push(Act::Batch(n % inputs, batch((n % 2) as u32, 1_000 + 10 * n as u64, rows)));
        acts.extend(cuts.iter().filter(|(at, _)| *at == n).map(|(_, watermark_ms)| Act::Cut(*watermark_ms)));
    }
    acts
}

/// A step of the suite.
struct Of {
    new: Box<dyn Fn() -> Box<dyn Operator>>,
    others: Vec<Box<dyn Fn() -> Box<dyn Operator>>>,
    inputs: usize,
    leaves_later: bool,
    counts_seals: bool,
    keeps_order: bool,
    reads_columns: bool,
}

impl Of {
    fn new<O: Operator + 'static>(new: impl Fn() -> O + 'static) -> Self {
        let new: Box<dyn Fn() -> Box<dyn Operator>> = Box::new(move || Box::new(new()));
        let inputs = new().inputs();
        let (leaves_later, counts_seals, keeps_order, reads_columns) = (false, false, true, true);
        Self { new, others: Vec::new(), inputs, leaves_later, counts_seals, keeps_order, reads_columns }
    }

    fn and_other<O: Operator + 'static>(mut self, other: impl Fn() -> O + 'static) -> Self {
        self.others.push(Box::new(move || Box::new(other())));
        self
    }
}

impl Fixture for Of {
    fn step(&self) -> Box<dyn Operator> {
        (self.new)()
    }

    fn others(&self) -> Vec<Box<dyn Operator>> {
        self.others.iter().map(|other| other()).collect()
    }

    fn acts(&self) -> Vec<Act> {
        acts(self.inputs)
    }

    fn leaves_later(&self) -> bool {
        self.leaves_later
    }

    fn counts_seals(&self) -> bool {
        self.counts_seals
    }

    fn keeps_order(&self) -> bool {
        self.keeps_order
    }

    fn reads_columns(&self) -> bool {
        self.reads_columns
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn dedup_of(window: Option<Duration>, late: Late) -> Dedup {
    let config = DedupConfig { key: vec!["key".to_owned()], window, late };
    Dedup::new(&schema(), config).expect("the settings are valid")
}

#[test]
fn dedup_without_a_window() {
    let other = || {
        let config = DedupConfig { key: vec!["number".to_owned()], window: None, late: Late::Keep };
        Dedup::new(&schema(), config).expect("the settings are valid")
    };
    let step = Of::new(|| dedup_of(None, Late::Keep)).and_other(other);
    run(&step.and_other(|| dedup_of(Some(ms(1_600)), Late::Keep)));
}

#[test]
fn dedup_with_a_window() {
    for late in [Late::Keep, Late::Drop, Late::DeadLetter] {
        let step = Of::new(move || dedup_of(Some(ms(1_600)), late));
        run(&step.and_other(move || dedup_of(Some(ms(3_200)), late)));
    }
}

#[test]
fn dedup_with_its_keys_in_files_and_in_shards() {
    let sizes = dedup::spilled::Sizes { open_keys_max: 2, part_pairs: 2, block_pairs: 2, runs_max: 2 };
    let new = move || dedup_of(Some(ms(1_600)), Late::Keep).with_sizes(sizes);
    run(&Of::new(new));
    run(&Of::new(move || new().with_shards(3).with_job_rows_min(1)));
    run(&Of::new(|| dedup_of(None, Late::Keep).with_shards(3).with_job_rows_min(1)));
}

fn window_of(windows: Windows, lateness: Duration, emit: Option<Emit>) -> Window {
    let aggregates = vec![
        Aggregate::new("n", Function::Count, None),
        Aggregate::new("sum", Function::Sum, Some("number")),
        Aggregate::new("least", Function::Min, Some("number")),
        Aggregate::new("names", Function::CountDistinct, Some("name")),
    ];
    let config = WindowConfig { key: vec!["key".to_owned()], windows, lateness, aggregates, emit };
    Window::new(&schema(), &config).expect("the settings are valid")
}

const KINDS: [Windows; 4] = [
    Windows::Tumbling { size: ms(500) },
    Windows::Hopping { size: ms(600), slide: ms(200) },
    Windows::Cumulative { size: ms(600), step: ms(200) },
    Windows::Session { gap: ms(100), max: ms(2_000) },
];

/// The step and others of other settings, in no order that counts.
fn of_window(new: impl Fn() -> Window + 'static) -> Of {
    let other = || window_of(Windows::Tumbling { size: ms(501) }, ms(50), None);
    let later = || window_of(Windows::Hopping { size: ms(600), slide: ms(200) }, ms(51), None);
    Of { keeps_order: false, ..Of::new(new).and_other(other).and_other(later) }
}

#[test]
fn windows_of_every_kind() {
    for windows in KINDS {
        let new = move || window_of(windows, ms(50), None);
        // Whether a record joins a session that it alone would be too late for depends on what came before.
        let keeps_order = matches!(windows, Windows::Session { .. });
        run(&Of { keeps_order, ..of_window(new) });
    }
}

#[test]
fn windows_whose_late_rows_come_out() {
    for windows in KINDS {
        let new = move || window_of(windows, ms(50), None).with_late_rows(true);
        run(&Of { keeps_order: matches!(windows, Windows::Session { .. }), ..of_window(new) });
    }
}

#[test]
fn windows_in_files() {
    let sizes = window::spilled::Sizes {
        open_bytes: 1,
        block_bytes: 64,
        file_bytes: 400,
        piece_bytes: 200,
        read_bytes: 400,
        generations_max: 50,
    };
    for windows in KINDS {
        let new = move || window_of(windows, ms(50), None).with_sizes(sizes);
        let keeps_order = matches!(windows, Windows::Session { .. });
        run(&Of { leaves_later: true, keeps_order, ..of_window(new) });
    }
}

#[test]
fn windows_with_results_before_they_are_closed() {
    for windows in &KINDS[..3] {
        for (early, updates) in [(Some(ms(100)), false), (None, true), (Some(ms(250)), true)] {
            let emit = Emit {
                early,
                clock: window::Clock::EventTime,
                updates,
                version: Some("version".to_owned()),
                sign: None,
            };
            let new = move || window_of(*windows, ms(400), Some(emit.clone()));
            run(&Of { counts_seals: true, ..of_window(new) });
        }
    }
}

fn column(name: &str, side: JoinSide, from: &str) -> JoinColumn {
    JoinColumn { name: name.to_owned(), side, from: from.to_owned(), is_of_side_alone: false }
}

fn columns() -> Vec<JoinColumn> {
    vec![
        column("key", JoinSide::Left, "key"),
        column("left", JoinSide::Left, "number"),
        column("right", JoinSide::Right, "number"),
        column("name", JoinSide::Right, "name"),
    ]
}

fn on() -> Vec<(String, String)> {
    vec![("key".to_owned(), "key".to_owned())]
}

fn join_of(kind: JoinKind, before: Duration, unmatched: [Vec<String>; 2]) -> Join {
    let (after, lateness) = (ms(300), ms(50));
    let config = JoinConfig { on: on(), before, after, lateness, kind, columns: columns(), unmatched };
    Join::new(&schema(), &schema(), &config).expect("the settings are valid")
}

#[test]
fn interval_joins_of_every_kind() {
    for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full] {
        let new = move || join_of(kind, ms(400), Default::default());
        let other = move || join_of(kind, ms(401), Default::default());
        run(&Of { keeps_order: false, ..Of::new(new).and_other(other) });
    }
}

#[test]
fn interval_joins_whose_unmatched_rows_come_out_beside() {
    let names = || [vec!["number".to_owned()], vec!["name".to_owned(), "key".to_owned()]];
    let new = move || join_of(JoinKind::Inner, ms(400), names());
    run(&Of { keeps_order: false, ..Of::new(new) });
}

#[test]
fn interval_joins_in_files() {
    let sizes = join::spilled::Sizes {
        open_bytes: 1,
        index_bytes: u64::MAX,
        run_bytes: 300,
        block_bytes: 100,
        hand_bytes: 1 << 40,
        read_bytes: 200,
    };
    for kind in [JoinKind::Inner, JoinKind::Full] {
        let new = move || join_of(kind, ms(400), Default::default()).with_sizes(sizes);
        run(&Of { keeps_order: false, leaves_later: true, ..Of::new(new) });
    }
}

fn temporal_of(is_outer: bool, lateness: Duration, unmatched: Vec<String>) -> TemporalJoin {
    let config =
        TemporalConfig { on: on(), lateness, is_outer, columns: columns(), deleted: None, unmatched };
    TemporalJoin::new(&schema(), &schema(), &config).expect("the settings are valid")
}

#[test]
fn temporal_joins() {
    for is_outer in [false, true] {
        let new = move || temporal_of(is_outer, ms(50), Vec::new());
        run(&Of::new(new).and_other(move || temporal_of(is_outer, ms(51), Vec::new())));
    }
    run(&Of::new(|| temporal_of(false, ms(50), vec!["number".to_owned()])));
}

/// Sizes at which every seal freezes all versions, and every two runs are merged.
const SIZES: join::temporal::spilled::Sizes = join::temporal::spilled::Sizes {
    open_bytes: 1,
    index_bytes: u64::MAX,
    run_bytes: 300,
    block_bytes: 100,
    read_bytes: 200,
    hand_bytes: 200,
    runs_max: 1,
};

#[test]
fn temporal_joins_in_files() {
    for is_outer in [false, true] {
        let new = move || temporal_of(is_outer, ms(50), Vec::new()).with_sizes(SIZES);
        // Rows do not: versions that others have replaced go when a merge ends.
        run(&Of { leaves_later: true, ..Of::new(new) });
    }
}

/// Rows of a table that takes them back, of which every third is no deletion.
fn upsert_of(version: Option<&str>, key: &str) -> Upsert {
    let mut columns = schema().columns()[..3].to_vec();
    columns.push(Column::new("sign", ColumnType::Int8));
    let table = Schema::new(columns);
    let config = UpsertConfig {
        key: vec![key.to_owned()],
        version: version.map(str::to_owned),
        deleted: Some("passes".to_owned()),
        sign: "sign".to_owned(),
    };
    Upsert::new(&schema(), &table, &config).expect("the settings are valid")
}

#[test]
fn upserts() {
    for (version, other) in [(None, Some("number")), (Some("number"), None)] {
        let new = move || upsert_of(version, "key");
        let others = || Of { counts_seals: true, ..Of::new(new) };
        run(&others()
            .and_other(move || upsert_of(other, "key"))
            .and_other(move || upsert_of(version, "name")));
        // Rows of one key that come before a seal are one.
        run(&Of { counts_seals: true, ..Of::new(move || upsert_of(version, "key").with_sizes(SIZES)) });
    }
}

/// A lookup, with what was found for its rows.
struct Looked(Lookup, RecordBlock);

impl Transform for Looked {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        self.0.apply_of(batch, &self.1)
    }
}

#[test]
fn lookups() {
    let number = 7;
    for is_outer in [false, true] {
        let new = move || {
            let side = schema();
            let (on, columns) = (on(), vec![("found".to_owned(), "name".to_owned())]);
            let config = LookupConfig { number, on, columns, is_outer };
            let lookup = Lookup::new(&schema(), &side, &config).expect("the settings are valid");
            let keyer = LookupKeyer::new(&side, &["key".to_owned()]).expect("the key is a column");
            let rows = batch(0, 1, &[(1, 0), (3, 0), (0, 0), (5, 0)]).rows;
            let table = keyer.table(rows).expect("the keys are different");
            let block = BlockBuilder::new(Partition::new("suite", 0), 0).take();
            let block = RecordBlock { found: Found::of(vec![(number, Arc::new(table))]), ..block };
            Stateless::new(Arc::new(Looked(lookup, block)), schema())
        };
        run(&Of { keeps_order: false, ..Of::new(new) });
    }
}

#[test]
fn event_times() {
    let new = || {
        let step = EventTime::new(&schema(), "number").expect("the column is there");
        Stateless::new(Arc::new(step), schema())
    };
    run(&Of { keeps_order: false, ..Of::new(new) });
}

#[test]
fn mappings() {
    let nullable = || ColumnType::Nullable(Box::new(ColumnType::Int64));
    let to = [
        Column::new("name", ColumnType::String),
        Column::new("small", ColumnType::Int8),
        Column::new("key", nullable()),
    ];
    let new = move || {
        let fills = vec![Fill::of(Some(2), &to[0]), Fill::of(Some(1), &to[1]), Fill::of(Some(0), &to[2])];
        let mapping = Mapping::new(&schema(), Schema::new(to.to_vec()), fills, None);
        Stateless::new(Arc::new(mapping.expect("the columns fit")), schema())
    };
    run(&Of { keeps_order: false, reads_columns: false, ..Of::new(new) });
}

#[test]
fn gates() {
    let columns = schema().columns()[..3].to_vec();
    let new = move || Gate::new(3, vec![0, 1, 2], Schema::new(columns.clone()));
    run(&Of { keeps_order: false, ..Of::new(new) });
}
