use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow_schema::{DataType, Field};
use dataflow::block::{BlockBuilder, Found};
use dataflow::{Batch, Column, ColumnType, Partition, Reason, Schema, Transform, Transformed};

use super::{Lookup, LookupConfig, LookupKeyer, LookupTable, Repeated};

fn nullable(inner: ColumnType) -> ColumnType {
    ColumnType::Nullable(Box::new(inner))
}

fn rows() -> Schema {
    Schema::new(vec![Column::new("id", ColumnType::Int64), Column::new("shop", nullable(ColumnType::Int64))])
}

fn side() -> Schema {
    Schema::new(vec![
        Column::new("number", nullable(ColumnType::Int32)),
        Column::new("name", ColumnType::String),
        Column::new("rank", nullable(ColumnType::Int64)),
    ])
}

fn config(is_outer: bool) -> LookupConfig {
    LookupConfig {
        number: 7,
        on: vec![("shop".into(), "number".into())],
        columns: vec![("shop_name".into(), "name".into()), ("rank".into(), "rank".into())],
        is_outer,
    }
}

fn table(shops: &[(Option<i32>, &str, Option<i64>)]) -> Result<LookupTable, Repeated> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(shops.iter().map(|shop| shop.0).collect::<Int32Array>()),
        Arc::new(StringArray::from_iter_values(shops.iter().map(|shop| shop.1))),
        Arc::new(shops.iter().map(|shop| shop.2).collect::<Int64Array>()),
    ];
    let rows = RecordBatch::try_new(side().arrow().clone(), columns).unwrap();
    LookupKeyer::new(&side(), &["number".to_owned()]).unwrap().table(rows)
}

fn batch(shops: &[Option<i64>]) -> Batch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..shops.len() as i64)),
        Arc::new(shops.iter().copied().collect::<Int64Array>()),
    ];
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows: RecordBatch::try_new(rows().arrow().clone(), columns).unwrap(),
        positions: (10..10 + shops.len() as u64).collect(),
        times_ms: vec![5; shops.len()],
    }
}

fn looked_up(is_outer: bool, shops: &[Option<i64>]) -> (Lookup, Transformed) {
    let step = Lookup::new(&rows(), &side(), &config(is_outer)).unwrap();
    let table = table(&[(Some(1), "one", Some(5)), (None, "nobody", None), (Some(-2), "two", None)]).unwrap();
    let made = step.look_up(batch(shops), &table).unwrap();
    (step, made)
}

fn found(made: &Transformed) -> Vec<(i64, Option<String>, Option<i64>)> {
    let rows = &made.batch.rows;
    let of = |name: &str| rows.column_by_name(name).unwrap();
    let (ids, ranks) = (of("id").as_primitive::<Int64Type>(), of("rank").as_primitive::<Int64Type>());
    let names = of("shop_name").as_string::<i32>();
    let one = |row: usize| {
        let name = names.is_valid(row).then(|| names.value(row).to_owned());
        (ids.value(row), name, ranks.is_valid(row).then(|| ranks.value(row)))
    };
    (0..rows.num_rows()).map(one).collect()
}

#[test]
fn a_row_gets_the_columns_of_the_row_with_its_key_whatever_the_width_of_its_numbers() {
    let (step, made) = looked_up(true, &[Some(-2), Some(1), Some(1)]);
    let (one, two) = (Some("one".to_owned()), Some("two".to_owned()));
    assert_eq!(found(&made), [(0, two, None), (1, one.clone(), Some(5)), (2, one, Some(5))]);
    assert_eq!((made.filtered, made.rejects.len()), (0, 0));
    assert_eq!(made.batch.positions, [10, 11, 12]);
    assert_eq!(made.batch.rows.schema(), step.schema().arrow().clone());
}

#[test]
fn without_a_match_a_row_has_nulls_or_is_filtered() {
    let shops = [Some(3), Some(1), None];
    let (_, made) = looked_up(true, &shops);
    assert_eq!(found(&made), [(0, None, None), (1, Some("one".to_owned()), Some(5)), (2, None, None)]);
    let (_, made) = looked_up(false, &shops);
    assert_eq!(found(&made), [(1, Some("one".to_owned()), Some(5))]);
    assert_eq!((made.filtered, made.batch.positions.clone()), (2, vec![11]));
}

#[test]
fn rows_without_a_match_are_reported() {
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    let step = Lookup::new(&rows(), &side(), &config(true)).unwrap();
    let step = step.with_unmatched(Arc::new(move |rows| _ = counted.fetch_add(rows, Ordering::Relaxed)));
    step.look_up(batch(&[Some(3), Some(1), None]), &table(&[(Some(1), "one", None)]).unwrap()).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

#[test]
fn an_empty_side_matches_nothing() {
    let step = Lookup::new(&rows(), &side(), &config(true)).unwrap();
    let made = step.look_up(batch(&[Some(1)]), &table(&[]).unwrap()).unwrap();
    assert_eq!(found(&made), [(0, None, None)]);
}

#[test]
fn two_rows_of_one_key_are_refused_with_their_places() {
    let error = table(&[(Some(1), "a", None), (Some(2), "b", None), (Some(1), "c", None)]).err().unwrap();
    assert_eq!(error, Repeated { first: 1, second: 3 });
    assert!(table(&[(None, "a", None), (None, "b", None)]).is_ok(), "nobody finds a row without a key");
}

#[test]
fn what_travels_with_the_block_is_what_its_records_find_each_time() {
    let step = Lookup::new(&rows(), &side(), &config(false)).unwrap();
    let mut block = BlockBuilder::new(Partition::new("t", 0), 0).take();
    assert!(step.apply(batch(&[Some(1)])).is_err());
    assert!(step.apply_of(batch(&[Some(1)]), &block).is_err(), "nothing was looked up for it");
    let other: Arc<dyn Any + Send + Sync> = Arc::new(table(&[]).unwrap());
    let own: Arc<dyn Any + Send + Sync> = Arc::new(table(&[(Some(1), "one", None)]).unwrap());
    block.found = Found::of(vec![(3, other), (7, own)]);
    for _ in 0..2 {
        assert_eq!(step.apply_of(batch(&[Some(1)]), &block).unwrap().batch.len(), 1);
    }
}

#[test]
fn columns_that_may_be_absent_are_nullable() {
    let types = |is_outer| {
        let step = Lookup::new(&rows(), &side(), &config(is_outer)).unwrap();
        ["shop_name", "rank"].map(|name| {
            step.schema().columns()[step.schema().index_of(name).unwrap()].column_type.is_nullable()
        })
    };
    assert_eq!((types(true), types(false)), ([true, true], [false, true]));
}

#[test]
fn settings_that_cannot_be_are_refused_by_name() {
    let refused = |change: &dyn Fn(&mut LookupConfig)| {
        let mut changed = config(true);
        change(&mut changed);
        Lookup::new(&rows(), &side(), &changed).err().expect("a fault").to_string()
    };
    assert!(refused(&|c| c.on[0].0 = "shp".into()).contains("did you mean `shop`?"));
    assert!(refused(&|c| c.on[0].1 = "name".into()).contains("kind `int`"));
    assert!(refused(&|c| c.on.clear()).contains("name 1 to 16"));
    assert!(refused(&|c| c.columns[0].0 = "id".into()).contains("`id` is a column of the rows already"));
    assert!(refused(&|c| c.columns[0].1 = "nam".into()).contains("did you mean `name`?"));
}

#[test]
fn enums_in_which_a_name_has_two_numbers_are_not_compared() {
    let level = |names: &[(&str, i8)]| {
        ColumnType::Enum8(names.iter().map(|(name, number)| (Arc::from(*name), *number)).collect())
    };
    let told = |own: &[(&str, i8)], theirs: &[(&str, i8)]| {
        let rows = Schema::new(vec![Column::new("shop", level(own))]);
        let mut columns = side().columns().to_vec();
        columns[0] = Column::new("number", nullable(level(theirs)));
        Lookup::new(&rows, &Schema::new(columns), &config(true)).err().map(|error| error.to_string())
    };
    let refused =
        told(&[("open", 1), ("paid", 2)], &[("paid", 1), ("open", 2)]).expect("`open` would find `paid`");
    assert!(refused.contains("compared by number"), "{refused}");
    assert_eq!(told(&[("open", 1)], &[("open", 1), ("paid", 2)]), None);
}

#[test]
fn a_table_of_some_keys_knows_which_have_no_row_and_guesses_nothing_of_others() {
    let step = Lookup::new(&rows(), &side(), &config(true)).unwrap();
    let keyer = LookupKeyer::new(&rows(), &["shop".to_owned()]).unwrap();
    let hash = |shop: i64| keyer.hashes(&batch(&[Some(shop)]).rows).unwrap()[0].unwrap();
    let one = table(&[(Some(1), "one", None)]).unwrap().rows;
    let of_side = LookupKeyer::new(&side(), &["number".to_owned()]).unwrap();
    let some = of_side.table_of_some(one, [hash(2)]).unwrap();
    let made = step.look_up(batch(&[Some(1), Some(2), None]), &some).unwrap();
    assert_eq!(found(&made), [(0, Some("one".to_owned()), None), (1, None, None), (2, None, None)]);
    let error = step.look_up(batch(&[Some(1), Some(3)]), &some).unwrap_err();
    assert!(error.message.contains("not asked for"), "{}", error.message);
}

/// Rows of one block that all get wide values: Arrow counts the bytes of a column in 32 bits.
#[test]
fn a_row_for_whose_values_a_column_has_no_room_is_rejected_and_no_other_one() {
    let side = Schema::new(vec![
        Column::new("number", ColumnType::Int32),
        Column::new("name", ColumnType::String),
        Column::new("tags", ColumnType::Array(Box::new(ColumnType::String))),
    ]);
    let config = LookupConfig {
        columns: vec![("shop_name".into(), "name".into()), ("shop_tags".into(), "tags".into())],
        ..config(false)
    };
    let step = Lookup::new(&rows(), &side, &config).unwrap();
    let mut tags =
        ListBuilder::new(StringBuilder::new()).with_field(Field::new("item", DataType::Utf8, false));
    for (one, bytes) in [("a", 2), ("b", 1), ("c", 9)] {
        tags.values().append_value(one.repeat(bytes));
        tags.append(true);
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![1, 2, 3])),
        Arc::new(StringArray::from_iter_values(["x".repeat(10), "y".repeat(60), String::new()])),
        Arc::new(tags.finish()),
    ];
    let found = RecordBatch::try_new(side.arrow().clone(), columns).unwrap();
    let table = LookupKeyer::new(&side, &["number".to_owned()]).unwrap().table(found).unwrap();
    let places = |at: &[u32]| UInt32Array::from(at.to_vec());
    let without = |bytes_max| {
        let batch = batch(&[Some(1), Some(2), Some(1), Some(2), Some(3), Some(1)]);
        step.without_wide(batch, &table, &places(&[0, 1, 0, 1, 2, 0]), bytes_max).unwrap()
    };
    let (kept, at, rejects) = without(1_000);
    assert_eq!((kept.len(), at.len(), rejects.len()), (6, 6, 0), "all of them fit");
    // 10, 60 and 10 of the names, and no other 60; another 10 does.
    let (kept, at, rejects) = without(90);
    assert_eq!((kept.positions, at), (vec![10, 11, 12, 14, 15], places(&[0, 1, 0, 2, 0])));
    let told: Vec<_> = rejects.iter().map(|one| (one.position, one.reason, &*one.column)).collect();
    assert_eq!(told, [(13, Reason::TooLarge, "shop_name")]);
    // Of arrays what is in them counts: 2, 1 and 2 of the tags, or 9.
    let (kept, _, rejects) = without(8);
    assert_eq!(kept.positions, Vec::<u64>::new(), "each has more alone");
    let columns: Vec<&str> = rejects.iter().map(|one| &*one.column).collect();
    assert_eq!(columns, ["shop_name", "shop_name", "shop_name", "shop_name", "shop_tags", "shop_name"]);
}
