use arrow_array::{Array, Int32Array, Int64Array, StringArray, UInt32Array, UInt64Array};
use dataflow::{TYPE_DEFAULT, Table, TableFault};

use super::*;
use crate::table::tests::{facts_of_columns, open_with};

type Columns<'a> = &'a [(&'a str, &'a str, &'a str)];

/// A table that was opened with some columns and was then seen with others.
fn seen(opened: Columns<'_>, now: Columns<'_>) -> ClickHouseTable {
    let table = open_with(opened);
    let plan = crate::checks::judge(&facts_of_columns(now), &table.config).unwrap();
    *table.now.lock().unwrap() = Arc::new(Now::new(Arc::new(plan)));
    table
}

const OLD: Columns<'_> = &[("n", "Int32", ""), ("v", "UInt32", ""), ("_forebay", "UUID", "")];

fn rows() -> RecordBatch {
    let n: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let v: ArrayRef = Arc::new(UInt32Array::from(vec![7, u32::MAX]));
    RecordBatch::try_from_iter([("n", n), ("v", v)]).unwrap()
}

fn frame(table: &ClickHouseTable) -> RecordBatch {
    let frame = table.encode(&[Selected::all(rows())], &mut || FrameId(1)).unwrap().remove(0);
    table.decode(&frame.body).unwrap()
}

#[test]
fn a_frame_goes_as_it_is_beside_columns_that_were_added() {
    let now: Columns<'_> = &[
        ("n", "Int32", ""),
        ("x", "String", ""),
        ("v", "UInt32", ""),
        ("d", "Int8", "5"),
        ("_forebay", "UUID", ""),
    ];
    let table = seen(OLD, now);
    assert_eq!(table.fit(&table.layout()), Fit::AsIs);
    let changed = table.changed().expect("it has other columns");
    assert_eq!(table.layout().difference(&changed), "added `x` String, added `d` Int8");
    assert!(changed.column("x").unwrap().is_required && !changed.column("d").unwrap().is_required);
}

#[test]
fn a_frame_is_made_again_for_a_wider_column_with_its_own_columns_only() {
    let now: Columns<'_> = &[
        ("x", "String", "'none'"),
        ("v", "Nullable(UInt64)", ""),
        ("n", "Int32", ""),
        ("_forebay", "UUID", ""),
    ];
    let table = seen(OLD, now);
    let made_for = table.layout();
    assert_eq!(table.fit(&made_for), Fit::Again { always: true });
    let (again, layout) = table.encode_again(&frame(&table), Some(&made_for), FrameId(2)).unwrap();
    let shown: Vec<(&str, &str)> =
        layout.columns.iter().map(|c| (c.name.as_str(), c.type_name.as_str())).collect();
    assert_eq!(shown, [("n", "Int32"), ("v", "Nullable(UInt64)"), ("_forebay", "UUID")]);
    assert_eq!(table.fit(&layout), Fit::AsIs);
    let read = table.decode(&again.body).unwrap();
    assert_eq!(read.column(1).as_ref(), &UInt64Array::from(vec![7, u64::from(u32::MAX)]) as &dyn Array);
    assert_eq!((again.rows, &again.probe[..]), (2, &b"frame"[..]));
    // The steps know the columns of the start.
    let steps = table.as_schema(&frame(&table)).unwrap();
    assert_eq!(steps.column(1).as_ref(), rows().column(1).as_ref());
}

#[test]
fn a_frame_is_made_again_for_a_narrower_column_only_if_its_values_fit() {
    let narrow = |to| [("n", "Int32", ""), ("v", to, ""), ("_forebay", "UUID", "")];
    for (to, fits) in [("Int64", true), ("UInt16", false), ("Int32", false)] {
        let table = seen(OLD, &narrow(to));
        let made_for = table.layout();
        assert_eq!(table.fit(&made_for), Fit::Again { always: to == "Int64" });
        let made = table.encode_again(&frame(&table), Some(&made_for), FrameId(2));
        assert_eq!(made.is_ok(), fits, "{to}");
        if let Err(error) = made {
            assert_eq!(error.kind, TableFault::Differs);
            assert!(error.message.contains("column `v` has changed"), "{error}");
            assert!(error.message.contains("ALTER TABLE `d`.`t` MODIFY COLUMN `v` UInt32"), "{error}");
            assert!(!error.message.contains("4294967295"), "no value of a row: {error}");
        }
    }
}

#[test]
fn a_frame_waits_for_a_column_that_is_gone_and_says_how_it_comes_back() {
    let table = seen(OLD, &[("n", "Int32", ""), ("_forebay", "UUID", "")]);
    let Fit::No { words } = table.fit(&table.layout()) else { panic!("it holds `v`") };
    assert!(words.contains("ALTER TABLE `d`.`t` ADD COLUMN `v` UInt32"), "{words}");
    assert!(table.encode_again(&frame(&table), Some(&table.layout()), FrameId(2)).is_err());
    let without_names = seen(OLD, &OLD[..2]);
    let Fit::No { words } = without_names.fit(&without_names.layout()) else { panic!("it names its rows") };
    assert!(words.contains("ADD COLUMN `_forebay` UUID"), "{words}");
}

#[test]
fn a_frame_without_a_value_for_a_column_that_is_gone_is_made_again_without_it() {
    let now: Columns<'_> = &[("n", "Int32", "")];
    let n: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    for v in ["Int64", "Nullable(Int64)"] {
        let table = seen(&[("n", "Int32", ""), ("v", v, if v == "Int64" { "5" } else { "" })], now);
        let made_for = table.layout();
        let Fit::Without { words } = table.fit(&made_for) else { panic!("its values decide") };
        assert!(words.contains("ALTER TABLE `d`.`t` ADD COLUMN `v`"), "{words}");
        assert!(words.contains("rows that wait may hold values of it"), "{words}");
        for (values, goes) in [([None, None], true), ([None, Some(7)], false)] {
            let values: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
            let rows = [("n", n.clone(), false), ("v", values, true)];
            let rows = RecordBatch::try_from_iter_with_nullable(rows).unwrap();
            let frame = table.encode(&[Selected::all(rows)], &mut || FrameId(1)).unwrap().remove(0);
            let again = table.encode_again(&table.decode(&frame.body).unwrap(), Some(&made_for), FrameId(2));
            let Ok((again, layout)) = again else {
                let error = again.unwrap_err();
                assert!(!goes && error.kind == TableFault::Differs, "{v}: {error}");
                assert_eq!(error.message, words.replace(" may hold values", " hold values"));
                continue;
            };
            assert!(goes, "{v}: a value was lost");
            assert_eq!((layout.columns.len(), again.rows), (1, 2));
            assert_eq!(table.fit(&layout), Fit::AsIs);
            assert_eq!(table.decode(&again.body).unwrap().column(0).as_ref(), n.as_ref());
        }
    }
}

#[test]
fn a_column_that_every_row_has_is_not_left_out_and_neither_is_a_frame_without_any() {
    // A column that takes no NULL and has no DEFAULT has a value in each row.
    let table = seen(OLD, &[("n", "Int32", ""), ("_forebay", "UUID", "")]);
    assert!(matches!(table.fit(&table.layout()), Fit::No { .. }));
    // One that is gone for good and one that cannot hold the values: the latter is said, for it waits in any case.
    let opened: Columns<'_> = &[("n", "Int32", ""), ("v", "Nullable(Int64)", "")];
    let table = seen(opened, &[("n", "UUID", "")]);
    let Fit::No { words } = table.fit(&table.layout()) else { panic!("`n` holds nothing of it") };
    assert!(words.contains("column `n` has changed"), "{words}");
    // Rows of no column cannot be sent.
    let table = seen(&[("v", "Nullable(Int64)", "")], &[("w", "Nullable(Int64)", "")]);
    let v: ArrayRef = Arc::new(Int64Array::from(vec![None, None]));
    let rows = RecordBatch::try_from_iter_with_nullable([("v", v, true)]).unwrap();
    let again = table.encode_again(&rows, Some(&table.layout()), FrameId(2)).unwrap_err();
    assert!(again.kind == TableFault::Differs && again.message.contains("ADD COLUMN `v`"), "{again}");
}

#[test]
fn a_null_that_stands_for_a_default_never_becomes_a_zero_and_a_null_never_a_default() {
    let with_default: Columns<'_> = &[("n", "Int32", ""), ("v", "Int64", "5")];
    let nullable: Columns<'_> = &[("n", "Int32", ""), ("v", "Nullable(Int64)", "")];
    let plain: Columns<'_> = &[("n", "Int32", ""), ("v", "Int64", "")];
    let n: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let v: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
    let rows = RecordBatch::try_from_iter_with_nullable([("n", n, false), ("v", v, true)]).unwrap();
    for (opened, now, goes) in [
        (with_default, plain, false),
        (nullable, with_default, false),
        (nullable, plain, false),
        (with_default, nullable, true),
        (with_default, with_default, true),
    ] {
        let table = seen(opened, now);
        let made_for = table.layout();
        let frame = table.encode(&[Selected::all(rows.clone())], &mut || FrameId(1)).unwrap().remove(0);
        let read = table.decode(&frame.body).unwrap();
        assert_eq!(
            table.encode_again(&read, Some(&made_for), FrameId(2)).is_ok(),
            goes,
            "{opened:?} to {now:?}"
        );
        if !goes {
            assert_eq!(table.fit(&made_for), Fit::Again { always: false }, "{opened:?} to {now:?}");
        }
        // Without a null nothing is in the way.
        let whole = table.encode_again(&read.slice(0, 1), Some(&made_for), FrameId(3));
        assert!(whole.is_ok(), "{opened:?} to {now:?}: {whole:?}");
    }
}

#[test]
fn a_default_that_was_taken_off_is_given_back_by_the_statement() {
    let opened: Columns<'_> = &[("n", "Int32", ""), ("v", "Int64", "5")];
    let n: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let v: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
    let rows = RecordBatch::try_from_iter_with_nullable([("n", n, false), ("v", v, true)]).unwrap();
    for (now, what) in [
        (("v", "Int64", ""), "column `v` has lost its DEFAULT `5`"),
        (("v", "Int32", ""), "column `v` has changed from `Int64` to `Int32`"),
        (("v", "UUID", "generateUUIDv4()"), "column `v` has changed from `Int64` to `UUID`"),
    ] {
        let table = seen(opened, &[("n", "Int32", ""), now]);
        let frame = table.encode(&[Selected::all(rows.clone())], &mut || FrameId(1)).unwrap().remove(0);
        let read = table.decode(&frame.body).unwrap();
        let error = table.encode_again(&read, Some(&table.layout()), FrameId(2)).unwrap_err();
        let default = if now.2.is_empty() { " DEFAULT 5" } else { "" };
        let way = format!("with: ALTER TABLE `d`.`t` MODIFY COLUMN `v` Int64{default}");
        assert!(error.message.starts_with(what) && error.message.ends_with(&way), "{error}");
    }
}

/// An exchange for a table with another PARTITION BY and wider columns.
#[test]
fn rows_that_were_cut_for_other_partitions_wait_for_those_and_are_no_fault_of_the_program() {
    let table = open_with(OLD);
    let mut facts = facts_of_columns(&[("n", "Int64", ""), ("v", "UInt32", ""), ("_forebay", "UUID", "")]);
    facts.table.as_mut().unwrap().partition_key = "n".into();
    let plan = crate::checks::judge(&facts, &table.config).unwrap();
    *table.now.lock().unwrap() = Arc::new(Now::new(Arc::new(plan)));
    let (made_for, rows) = (table.layout(), frame(&table));
    let error = table.encode_again(&rows, Some(&made_for), FrameId(2)).unwrap_err();
    assert_eq!(error.kind, TableFault::Differs);
    assert!(error.message.contains("in 2 partitions now"), "{error}");
    assert!(error.message.contains("exchange the table back"), "{error}");
    // Those of one partition go on.
    assert!(table.encode_again(&rows.slice(0, 1), Some(&made_for), FrameId(2)).is_ok());
}

#[test]
fn a_column_that_cannot_be_written_is_left_out_and_holds_up_nothing() {
    let mut table = open_with(OLD);
    table.config.leaves_out = true;
    let now: Columns<'_> =
        &[("n", "Int32", ""), ("v", "UInt32", ""), ("j", "Int256", ""), ("_forebay", "UUID", "")];
    let plan = crate::checks::judge(&facts_of_columns(now), &table.config).unwrap();
    assert!(plan.notes.iter().any(|note| note.contains("`j`")), "{:?}", plan.notes);
    *table.now.lock().unwrap() = Arc::new(Now::new(Arc::new(plan)));
    assert_eq!((table.changed(), table.fit(&table.layout())), (None, Fit::AsIs));
}

#[test]
fn a_column_that_was_added_later_need_not_be_given() {
    let config = crate::TableConfig { added: vec!["v".into()], ..crate::TableConfig::new("d", "t") };
    let plan = crate::checks::judge(&facts_of_columns(OLD), &config).unwrap();
    let layout = layout_of(&plan);
    assert_eq!(layout.column("v").unwrap().default, TYPE_DEFAULT);
    assert!(!layout.column("v").unwrap().is_required && layout.column("n").unwrap().is_required);
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    assert!(type_of(&arrow_schema::Field::new("t", text.data_type().clone(), true)).is_none());
}
