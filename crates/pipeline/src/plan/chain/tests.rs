//! Chains in any order: what their steps make of records, without an engine.

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use dataflow::{Batch, BlockBuilder, Column, ColumnType, Output, Partition, Schema, Selected};

use crate::config;
use crate::config::values::reference::Surroundings;
use crate::plan::Place;
use crate::wiring::steps;

const FIELDS: &str = "id: Int64, who: String, at: DateTime64(3), amount: Int64";

fn checked(steps: &str) -> Result<config::model::Pipeline, String> {
    checked_for(steps, "sink: { clickhouse: { url: \"http://localhost:8123\", table: t } }")
}

fn checked_for(steps: &str, sinks: &str) -> Result<config::model::Pipeline, String> {
    let text = format!(
        "pipeline: p\n{sinks}\n\
         source: {{ kafka: {{ brokers: b, topic: t }}, fields: {{ {FIELDS} }} }}\nsteps: [{steps}]"
    );
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = config::check(&text, &around);
    checked.pipeline.ok_or_else(|| checked.faults.render("test"))
}

fn table(columns: &[(&str, ColumnType)]) -> Schema {
    Schema::new(columns.iter().map(|(name, of_type)| Column::new(*name, of_type.clone())).collect())
}

fn time() -> ColumnType {
    ColumnType::DateTime64 { precision: 3, timezone: None }
}

/// The faults of a pipeline, of its file or of its plan.
fn faults(steps: &str, table: &Schema) -> String {
    match checked(steps) {
        Err(faults) => faults,
        Ok(pipeline) => match steps::plan(&pipeline, std::slice::from_ref(table)) {
            Ok(_) => String::new(),
            Err(faults) => faults.iter().map(|fault| format!("{fault}\n")).collect(),
        },
    }
}

/// The steps with the places where they run.
fn places(steps: &str, table: &Schema) -> String {
    let plan =
        steps::plan(&checked(steps).unwrap_or_else(|faults| panic!("{faults}")), std::slice::from_ref(table));
    let plan = plan.unwrap_or_else(|faults| panic!("{faults:?}"));
    let plan = plan.inputs.into_iter().next().expect("one input").plan;
    let place = |place: Place| format!("{place:?}");
    plan.stages.iter().map(|stage| format!("{} {}\n", stage.path, place(stage.place))).collect()
}

/// What became of records, added up.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    filtered: u64,
    duplicates: u64,
    late: u64,
    absorbed: u64,
    rejects: u64,
}

fn shown(rows: &RecordBatch, row: usize) -> String {
    let shown = rows.columns().iter().map(|column| {
        let formatter = ArrayFormatter::try_new(column, &FormatOptions::default());
        formatter.expect("a type that is shown").value(row).to_string()
    });
    shown.collect::<Vec<_>>().join(" ")
}

struct Running {
    chain: steps::Chain,
    columns: usize,
    next: u64,
    counts: Counts,
    rows: Vec<String>,
    late: Vec<String>,
}

impl Running {
    fn new(steps: &str, table: &Schema) -> Self {
        let pipeline = checked(steps).unwrap_or_else(|faults| panic!("{faults}"));
        Self::of(&pipeline, std::slice::from_ref(table))
    }

    fn of(pipeline: &config::model::Pipeline, tables: &[Schema]) -> Self {
        let chain = steps::chain(pipeline, tables, 2).unwrap_or_else(|error| panic!("{error}"));
        let columns = tables[0].columns().len();
        Self { chain, columns, next: 0, counts: Counts::default(), rows: Vec::new(), late: Vec::new() }
    }

    /// Records go through the chain: `id who seconds amount` of each.
    fn read(&mut self, records: &[&str]) -> &mut Self {
        let mut block = BlockBuilder::new(Partition::new("t", 0), self.next.into());
        for record in records {
            let [id, who, at, amount] = record.split(' ').collect::<Vec<_>>()[..] else { panic!("{record}") };
            let json = format!(r#"{{"id":{id},"who":"{who}","at":"1970-01-01 00:{at}","amount":{amount}}}"#);
            block.push(self.next, 0, Some(json.as_bytes()));
            self.next += 1;
        }
        let prepared = self.chain.inputs[0].intake.prepare(&block.take(), 0).expect("it can be done");
        self.counts.rejects += prepared.rejects.len() as u64;
        self.counts.filtered += prepared.filtered;
        self.through(0, prepared.batch);
        self
    }

    /// A cut with this watermark.
    fn cut(&mut self, mut watermark_ms: i64) -> &mut Self {
        for at in 0..self.chain.steps.len() {
            let outputs = self.chain.steps[at].advance(watermark_ms).expect("there is memory");
            for output in outputs {
                self.counts.rejects += output.rejects.len() as u64;
                self.through(at + 1, output.batch);
            }
            let step = &mut self.chain.steps[at];
            step.state().map(|state| state.seal(watermark_ms));
            watermark_ms = step.watermark_behind(watermark_ms);
        }
        self
    }

    fn through(&mut self, first: usize, mut batch: Batch) {
        for (at, step) in self.chain.steps.iter_mut().enumerate().skip(first) {
            let probed = step.probe(batch).expect("it knows the columns");
            let mut output: Output = step.finish(probed, &[]).expect("it knows the columns");
            if let Some(late) = output.late_rows.take() {
                let side =
                    self.chain.sides.iter().find(|side| side.step == at).expect("it was asked for them");
                let made = side.mapping.apply(*late).expect("it knows the columns");
                assert!(made.rejects.is_empty(), "{:?}", made.rejects);
                let shown = |row| shown(&made.batch.rows, row);
                self.late.extend((0..made.batch.len()).map(shown));
            }
            let counts = &mut self.counts;
            counts.filtered += output.filtered;
            counts.duplicates += output.duplicates;
            counts.late += output.late;
            counts.absorbed += output.absorbed;
            counts.rejects += output.rejects.len() as u64;
            batch = output.dense().expect("rows that can be taken out").batch;
        }
        let all = Selected::all(batch.rows);
        let own: Vec<usize> = (0..self.columns).collect();
        let parts = match &self.chain.router {
            None if all.is_empty() => Vec::new(),
            None => vec![(0, all.clone().columns(&own).expect("the table's columns are the first"))],
            Some(router) => router.route(&all),
        };
        for (_, rows) in parts {
            let taken = rows.len() as u64;
            self.counts.filtered += all.len() as u64 - taken;
            for row in rows.stretches().iter().cloned().flatten() {
                self.rows.push(shown(rows.batch(), row as usize));
            }
        }
    }

    fn assert(&self, rows: &[&str], counts: Counts) {
        let mut sorted = self.rows.clone();
        sorted.sort();
        assert_eq!((sorted, &self.counts), (rows.iter().map(ToString::to_string).collect(), &counts));
    }
}

#[test]
fn what_a_step_between_two_dedups_drops_the_second_does_not_learn_and_the_first_does() {
    let steps = "{ dedup: { key: [id], window: 1h, time: at } }, { filter: amount > 10 }, { dedup: { key: [who], window: 1h } }";
    let of = table(&[("id", ColumnType::Int64), ("who", ColumnType::String)]);
    assert_eq!(places(steps, &of), "steps[0].dedup Lane\nsteps[1].filter Ahead\nsteps[2].dedup Lane\n");
    // Record 1 is dropped by the filter: its who is not seen, its id is.
    let mut run = Running::new(steps, &of);
    run.read(&["1 ann 00:01 5", "1 bob 00:01 50", "2 ann 00:02 50", "3 ann 00:03 50", "4 eve 00:04 50"]);
    let counts = Counts { filtered: 1, duplicates: 2, ..Counts::default() };
    run.assert(&["2 ann", "4 eve"], counts);
}

#[test]
fn a_later_dedup_reads_its_key_as_the_steps_before_it_have_made_it() {
    let steps = "{ dedup: { key: [id], window: 1h, time: at } }, \
                 { select: { id: CAST(amount AS Int64) / 10, who: upper(who), at: at } }, \
                 { dedup: { key: [id, who], window: 1h, time: at } }, { select: { id: id + 1000 } }, { filter: id < 1005 }";
    let of = table(&[("id", ColumnType::Int64)]);
    let expected = "steps[0].dedup Lane\nsteps[1].select Ahead\nsteps[2].dedup Lane\nsteps[3].select Ahead\nsteps[4].filter Ahead\n";
    assert_eq!(places(steps, &of), expected);
    let mut run = Running::new(steps, &of);
    run.read(&["1 ann 00:01 10", "2 ANN 00:01 11", "3 bob 00:02 10", "3 bob 00:03 20", "4 ann 00:04 90"]);
    // 2 is a duplicate of 1 by the second key, the second 3 of the first by the first; 4 is dropped at the end.
    run.assert(&["1001", "1001"], Counts { filtered: 1, duplicates: 2, ..Counts::default() });
}

#[test]
fn a_window_does_not_count_what_a_step_between_it_and_a_dedup_drops() {
    let steps = "{ dedup: { key: [id], window: 1h, time: at } }, { filter: amount > 10 }, \
                 { select: { \"*\": \"*\", tens: amount / 10 } }, \
                 { window: { key: [who], time: at, size: 1m, aggregates: { n: count(), total: sum(tens) } } }";
    let of = table(&[("who", ColumnType::String), ("n", ColumnType::UInt64), ("total", ColumnType::Int64)]);
    let expected =
        "steps[0].dedup Lane\nsteps[1].filter Ahead\nsteps[2].select Ahead\nsteps[3].window Lane\n";
    assert_eq!(places(steps, &of), expected);
    let mut run = Running::new(steps, &of);
    run.read(&["1 ann 00:01 5", "2 ann 00:02 50", "2 ann 00:02 70", "3 ann 00:03 30", "4 bob 00:04 20"]);
    run.cut(60_000);
    let counts = Counts { filtered: 1, duplicates: 1, absorbed: 3, ..Counts::default() };
    run.assert(&["ann 2 8", "bob 1 2"], counts);
}

#[test]
fn a_row_that_a_step_behind_a_dedup_fails_on_is_a_reject_before_any_key_is_known() {
    let steps = "{ dedup: { key: [id], window: 1h, time: at } }, { filter: 100 / amount > 1 }, { dedup: { key: [who], window: 1h } }";
    let mut run = Running::new(steps, &table(&[("id", ColumnType::Int64)]));
    run.read(&["1 ann 00:01 0", "1 ann 00:02 20"]);
    run.assert(&["1"], Counts { rejects: 1, ..Counts::default() });
}

const MINUTES: &str =
    "{ window: { key: [who], time: at, size: 1m, aggregates: { n: count(), total: sum(amount) } } }";

#[test]
fn steps_behind_a_window_see_its_results() {
    let steps = format!(
        "{MINUTES}, {{ filter: n > 1 }}, {{ select: {{ \"*\": \"*\", mean: 100 / total }} }}, \
         {{ sql: \"SELECT upper(who) AS who, mean FROM input WHERE mean < 100\" }}"
    );
    let of = table(&[("who", ColumnType::String), ("mean", ColumnType::Int64)]);
    let expected =
        "steps[0].window Lane\nsteps[1].filter Results\nsteps[2].select Results\nsteps[3].sql Results\n";
    assert_eq!(places(&steps, &of), expected);
    let mut run = Running::new(&steps, &of);
    run.read(&["1 ann 01:01 5", "2 ann 01:02 15", "3 bob 01:03 30", "4 eve 01:04 7", "5 eve 01:04 -7"]);
    run.cut(120_000);
    // One result of one record is filtered, and one divides by zero.
    let counts = Counts { absorbed: 5, filtered: 1, rejects: 1, ..Counts::default() };
    run.assert(&["ANN 5"], counts);
}

#[test]
fn windows_behind_windows_and_dedup_behind_them_let_results_out_in_the_same_cut() {
    let steps = format!(
        "{}, {{ dedup: {{ key: [who, n], window: 1d }} }}, {{ filter: n < 3 }}, \
         {{ window: {{ key: [n], size: 1h, aggregates: {{ users: count(), least: min(window_start_of) }} }} }}",
        MINUTES.replace("total: sum(amount)", "window_start_of: min(id)")
    );
    let of = table(&[("n", ColumnType::UInt64), ("users", ColumnType::UInt64), ("least", ColumnType::Int64)]);
    let expected =
        "steps[0].window Lane\nsteps[1].dedup Results\nsteps[2].filter Results\nsteps[3].window Results\n";
    assert_eq!(places(&steps, &of), expected);
    let mut run = Running::new(&steps, &of);
    run.read(&["1 ann 01:01 5", "2 ann 01:02 15", "3 bob 01:03 30", "4 bob 02:03 30", "5 eve 02:04 1"]);
    run.read(&["6 eve 03:01 1", "7 eve 03:02 1", "8 eve 03:03 1"]).cut(3_600_000);
    // Minute 1: ann 2, bob 1; minute 2: bob 1 (a duplicate), eve 1; minute 3: eve 3, filtered.
    let counts = Counts { absorbed: 8 + 3, duplicates: 1, filtered: 1, ..Counts::default() };
    run.assert(&["1 2 3", "2 1 1"], counts);
}

#[test]
fn lateness_of_a_window_holds_the_watermark_of_those_behind_it_back() {
    let steps = "{ window: { key: [who], time: at, size: 1m, lateness: 2m, aggregates: { n: count() } } }, \
                 { window: { size: 1h, aggregates: { minutes: count(), total: sum(n) } } }";
    let of =
        table(&[("window_start", time()), ("minutes", ColumnType::UInt64), ("total", ColumnType::UInt64)]);
    let mut run = Running::new(steps, &of);
    run.read(&["1 ann 58:01 5", "2 ann 59:02 15"]).cut(3_600_000);
    run.assert(&[], Counts { absorbed: 2, ..Counts::default() });
    // The hour is over, and the last minute still takes records: so does the hour.
    run.read(&["3 ann 59:03 15", "4 ann 57:03 15"]).cut(3_719_999).cut(3_720_000);
    run.assert(&["1970-01-01T00:00:00Z 2 3"], Counts { absorbed: 3 + 2, late: 1, ..Counts::default() });
}

#[test]
fn what_cannot_stand_behind_a_window_is_said_at_its_place() {
    let says = |steps: String, of: &Schema, what: &[&str]| {
        let told = faults(&steps, of);
        assert!(what.iter().all(|what| told.contains(what)), "{told}");
    };
    let of = table(&[("who", ColumnType::String), ("n", ColumnType::UInt64), ("total", ColumnType::Int64)]);
    says(format!("{MINUTES}, {{ filter: m > 1 }}"), &of, &["steps[1].filter", "there is no column `m`"]);
    says(
        format!("{MINUTES}, {{ dedup: {{ key: [device], window: 1h }} }}"),
        &of,
        &["steps[1].dedup.key[0]", "no step before gives a column `device`"],
    );
    says(
        format!("{MINUTES}, {{ dedup: {{ key: [who], window: 1h, time: window_start }} }}"),
        &of,
        &["a result of a window has a time of its own"],
    );
    says(
        format!("{MINUTES}, {{ filter: n > 1 }}"),
        &table(&[("who", ColumnType::String)]),
        &["steps[0].window.aggregates.total", "no step reads it"],
    );
    says(
        format!("{MINUTES}, {{ window: {{ size: 1h, aggregates: {{ k: count(key) }} }} }}"),
        &table(&[("k", ColumnType::UInt64)]),
        &["steps[1].window.aggregates.k", "no step before gives a column `key`"],
    );
    says(
        format!("{MINUTES}, {{ window: {{ size: 1h, aggregates: {{ k: sum(n) }} }} }}"),
        &table(&[("k", ColumnType::UInt64)]),
        &["steps[0].window.aggregates.total", "no step behind reads `total`"],
    );
    let (minutes, hours) =
        (MINUTES.replace(", total: sum(amount)", ""), "{ window: { size: 1h, aggregates: { n: sum(n) } } }");
    says(
        format!("{minutes}, {hours}, {{ window: {{ key: [m], size: 1d, aggregates: {{ k: sum(n) }} }} }}"),
        &table(&[("k", ColumnType::UInt64)]),
        &["steps[2].window.key[0]", "no step before gives a column `m`"],
    );
}

#[test]
fn what_an_aggregate_computes_stands_behind_the_steps_before_its_window() {
    let steps = "{ dedup: { key: [id], window: 1h, time: at } }, { filter: amount > 10 }, \
                 { window: { key: [who], time: at, size: 1m, aggregates: { n: countIf(amount > 40), least: min(100 / amount) } } }, \
                 { dedup: { key: [who], window: 1h } }, { window: { size: 1h, aggregates: { n: sum(n * 2), k: sum(least) } } }";
    let of = table(&[("n", ColumnType::UInt64), ("k", ColumnType::Int64)]);
    let expected = "steps[0].dedup Lane\nsteps[1].filter Ahead\nsteps[2].window Ahead\nsteps[2].window Lane\n\
                    steps[4].window Results\nsteps[3].dedup Results\nsteps[4].window Results\n";
    assert_eq!(places(steps, &of), expected);
    let mut run = Running::new(steps, &of);
    run.read(&["1 ann 00:01 0", "2 ann 00:02 50", "2 ann 00:02 70", "3 ann 00:03 30", "4 bob 00:04 50"]);
    run.cut(3_600_000);
    let counts = Counts { filtered: 1, duplicates: 1, absorbed: 3 + 2, ..Counts::default() };
    run.assert(&["4 4"], counts);
    let told = faults(&steps.replace("n * 2", "m * 2"), &of);
    assert!(told.starts_with("`steps[4].window.aggregates.n`: there is no column `m`"), "{told}");
}

const WITH_LATE: &str = "sink: { clickhouse: { url: \"http://localhost:8123\" } }\n\
                         sinks: [{ clickhouse: { table: late }, from: minutes.late, columns: { what: note } }, { clickhouse: { table: t } }]";

/// A table with a column that nothing else reads, one of a wider type, and one with a DEFAULT.
fn of_late() -> Schema {
    let seen = Column { default: Some("now()".into()), ..Column::new("seen", ColumnType::UInt8) };
    let note = ColumnType::Nullable(Box::new(ColumnType::String));
    let mut columns =
        table(&[("id", ColumnType::Int64), ("what", note), ("tens", ColumnType::Int64)]).columns().to_vec();
    columns.push(seen);
    Schema::new(columns)
}

#[test]
fn late_records_go_to_their_table_as_they_came_to_the_window() {
    for windows in ["size: 1m", "gap: 30s, max: 1h"] {
        let steps = format!(
            "{{ dedup: {{ key: [id], window: 1h, time: at }} }}, {{ filter: amount > 10 }}, \
             {{ select: {{ \"*\": \"*\", tens: CAST(amount / 10 AS Int32) }} }}, \
             {{ window: {{ as: minutes, key: [who], time: at, {windows}, aggregates: {{ n: count() }} }} }}, {{ filter: n > 1 }}"
        );
        let of = table(&[("who", ColumnType::String), ("n", ColumnType::UInt64)]);
        let pipeline = checked_for(&steps, WITH_LATE).unwrap_or_else(|faults| panic!("{faults}"));
        // The table for late records is the last one, wherever it stands in the file.
        let tables = [of.clone(), of_late()];
        let plans = steps::plan(&pipeline, &tables).unwrap_or_else(|faults| panic!("{faults:?}"));
        let names: Vec<&str> = plans.common().tables.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["t", "late"]);
        assert_eq!(plans.common().stages[3].reads, ["who"], "the window itself reads no more than it did");
        let mut run = Running::of(&pipeline, &tables);
        run.read(&["1 ann 00:01 50", "2 ann 00:02 50", "3 bob 00:03 50"]).cut(60_000);
        run.read(&["4 ann 00:04 70", "4 ann 00:04 70", "5 ann 00:05 3", "6 eve 01:05 20", "7 eve 01:05 20"])
            .cut(120_000);
        // One is late, one its duplicate, and one late one is dropped by the filter before.
        assert_eq!(run.late, ["4  7 "], "{windows}: {:?}", run.counts);
        run.assert(
            &["ann 2", "eve 2"],
            Counts { filtered: 2, duplicates: 1, absorbed: 5, ..Counts::default() },
        );
    }
}

#[test]
fn a_column_that_a_late_record_might_not_fit_is_a_fault() {
    let steps = "{ window: { as: minutes, key: [who], time: at, size: 1m, aggregates: { n: count() } } }";
    let of = table(&[("who", ColumnType::String), ("n", ColumnType::UInt64)]);
    let pipeline = checked_for(steps, WITH_LATE).unwrap_or_else(|faults| panic!("{faults}"));
    let late = table(&[("id", ColumnType::Int32), ("note", ColumnType::String)]);
    let faults = steps::plan(&pipeline, &[of.clone(), late]).err().expect("an Int64 may not fit");
    let told: String = faults.iter().map(|fault| format!("{fault}\n")).collect();
    assert!(
        told.contains("`id` is Int64, and column `id` of table `late` is Int32; make the column Int64"),
        "{told}"
    );
}
