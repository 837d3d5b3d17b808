//! Windows whose key is an Array or a Map, of any kind and wherever they are.

use std::collections::BTreeSet;

use arrow_array::{ListArray, MapArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;

use super::model::{ms, told};
use super::spills::{Bench, SOME, TINY};
use super::*;
use crate::window::spilled::Sizes;
use crate::window::spilled::file::verify;

/// Its items, in the order in which they came, and the time of a row.
type Keyed = (&'static [&'static str], i64);

/// The same items come again in other batches, some in another order.
const BATCHES: [&[Keyed]; 3] = [
    &[(&["red", "blue"], 100), (&[], 110), (&["red"], 120), (&["blue", "red"], 130)],
    &[(&["red", "blue"], 200), (&["redblue"], 210), (&[], 220)],
    &[(&["blue", "red"], 300), (&[""], 310), (&["red", "blue"], 320), (&["red"], 330)],
];

fn tags() -> ColumnType {
    ColumnType::Array(Box::new(nullable(ColumnType::String)))
}

fn limits() -> ColumnType {
    ColumnType::Map(Box::new(ColumnType::String), Box::new(ColumnType::Int64))
}

fn keyed() -> Schema {
    Schema::new(vec![
        Column::new("tags", tags()),
        Column::new("limits", limits()),
        Column::new("amount", ColumnType::Int64),
    ])
}

fn offsets(rows: &[Keyed]) -> OffsetBuffer<i32> {
    OffsetBuffer::from_lengths(rows.iter().map(|row| row.0.len()))
}

/// Arrays of the items, in which an empty text is NULL.
fn arrays(rows: &[Keyed]) -> ArrayRef {
    let DataType::List(field) = tags().arrow() else { panic!("it is an Array") };
    let items = rows.iter().flat_map(|row| row.0).map(|item| (!item.is_empty()).then_some(*item));
    let items: ArrayRef = Arc::new(StringArray::from(items.collect::<Vec<Option<&str>>>()));
    Arc::new(ListArray::new(field, offsets(rows), items, None))
}

/// Maps of the items to their lengths.
fn maps(rows: &[Keyed]) -> ArrayRef {
    let DataType::Map(entry, _) = limits().arrow() else { panic!("it is a Map") };
    let DataType::Struct(fields) = entry.data_type().clone() else { panic!("entries have two columns") };
    let items = || rows.iter().flat_map(|row| row.0);
    let keys: ArrayRef = Arc::new(StringArray::from(items().copied().collect::<Vec<&str>>()));
    let values: ArrayRef = Arc::new(items().map(|item| Some(item.len() as i64)).collect::<Int64Array>());
    let entries = StructArray::new(fields, vec![keys, values], None);
    Arc::new(MapArray::new(entry, offsets(rows), entries, None, false))
}

fn batch_of(rows: &[Keyed]) -> Batch {
    let amounts: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows: RecordBatch::try_new(keyed().arrow().clone(), vec![arrays(rows), maps(rows), amounts]).unwrap(),
        positions: (0..rows.len() as u64).collect(),
        times_ms: rows.iter().map(|row| row.1).collect(),
    }
}

fn config_of(key: &str, windows: Windows) -> WindowConfig {
    let aggregates = vec![aggregate("n", Function::Count, ""), aggregate("total", Function::Sum, "amount")];
    WindowConfig { key: vec![key.to_owned()], windows, aggregates, ..config(0) }
}

/// The count and the sum of each key, from a step that is cut after each batch and starts again twice.
fn found(key: &str, windows: Windows, sizes: Sizes) -> BTreeMap<String, Vec<String>> {
    let config = config_of(key, windows);
    let new = move || Window::new(&keyed(), &config).unwrap().with_sizes(sizes);
    let mut bench = Bench::new(new, verify);
    let mut outputs = Vec::new();
    for (nth, rows) in BATCHES.iter().enumerate() {
        bench.put(batch_of(rows));
        outputs.extend(bench.cut(nth as i64));
        bench.work(100);
        match nth {
            0 => bench.restart(),
            1 => {
                bench.checkpoint();
                bench.restart();
            }
            _ => {}
        }
    }
    for _ in 0..100 {
        bench.step.at(0);
        outputs.extend(bench.cut(1_000_000));
        bench.work(1_000);
    }
    assert_eq!((bench.step.held(), bench.step.is_releasing()), (0, false));
    let mut all = BTreeMap::new();
    for ((.., key), texts) in told(&outputs) {
        let key = key.expect("no Array or Map is NULL");
        assert!(all.insert(key, texts).is_none(), "a key has two results");
    }
    all
}

/// The same, computed from the rows; `column` is of the key of one.
fn expected(column: impl Fn(&Keyed) -> ArrayRef) -> BTreeMap<String, Vec<String>> {
    let mut sums = BTreeMap::<String, (u64, i64)>::new();
    for row in BATCHES.iter().copied().flatten() {
        let options = FormatOptions::default().with_null("-");
        let column = column(row);
        let key = ArrayFormatter::try_new(&column, &options).unwrap().value(0).to_string();
        let (count, sum) = sums.entry(key).or_default();
        (*count, *sum) = (*count + 1, *sum + row.1);
    }
    sums.into_iter().map(|(key, (count, sum))| (key, vec![count.to_string(), sum.to_string()])).collect()
}

fn kinds() -> [Windows; 2] {
    [Windows::Tumbling { size: ms(1_000) }, Windows::Session { gap: ms(500), max: ms(10_000) }]
}

#[test]
fn an_array_is_a_key_by_its_items_in_their_order() {
    let expected = expected(|row| arrays(&[*row]));
    assert_eq!(expected.len(), 6, "the order of items matters, and `[NULL]` is no `[]`");
    for windows in kinds() {
        for sizes in [TINY, SOME] {
            assert_eq!(found("tags", windows, sizes), expected, "{windows:?} {sizes:?}");
        }
    }
}

#[test]
fn a_map_is_a_key_by_its_entries_in_any_order() {
    let sorted = |row: &Keyed| {
        let items: BTreeSet<&'static str> = row.0.iter().copied().collect();
        let items: &'static [&'static str] = items.into_iter().collect::<Vec<_>>().leak();
        maps(&[(items, row.1)])
    };
    let expected = expected(sorted);
    assert_eq!(expected.len(), 5);
    for windows in kinds() {
        for sizes in [TINY, SOME] {
            assert_eq!(found("limits", windows, sizes), expected, "{windows:?} {sizes:?}");
        }
    }
}

#[test]
fn the_state_is_known_by_what_is_in_its_bytes() {
    let shape = |of: ColumnType| {
        let schema = Schema::new(vec![Column::new("tags", of), Column::new("amount", ColumnType::Int64)]);
        let windows = Windows::Tumbling { size: ms(1_000) };
        let mut step = Window::new(&schema, &config_of("tags", windows)).unwrap();
        step.state().expect("it has state").shape()
    };
    let array = |of: ColumnType| ColumnType::Array(Box::new(of));
    assert!(shape(tags()).contains("tags array(string or null)"), "{}", shape(tags()));
    assert_ne!(shape(tags()), shape(array(ColumnType::String)));
    assert_eq!(shape(array(ColumnType::Int8)), shape(array(ColumnType::Int64)), "both take eight bytes");
}

#[test]
fn what_is_no_key_is_said_with_the_way_out() {
    let refused = |column: Column| {
        let schema = Schema::new(vec![column, Column::new("amount", ColumnType::Int64)]);
        let windows = Windows::Tumbling { size: ms(1_000) };
        Window::new(&schema, &config_of("tags", windows)).err().expect("it is no key").to_string()
    };
    let json = ColumnType::Json { parameters: None };
    for of in [json.clone(), ColumnType::Array(Box::new(json))] {
        let message = refused(Column::new("tags", of));
        assert!(
            message.contains("window.key: the column `tags`") && message.contains("`select`"),
            "{message}"
        );
    }
    let absent = Column { default: Some("[]".to_owned()), ..Column::new("tags", tags()) };
    let message = refused(absent);
    assert!(message.contains("`coalesce`"), "{message}");
}

#[test]
fn the_dead_letter_of_a_result_has_its_arrays_and_maps_as_such() {
    let amounts = Aggregate { numbers: vec![2], ..aggregate("amounts", Function::GroupArray, "amount") };
    let aggregates = vec![aggregate("total", Function::Sum, "amount"), amounts];
    let key = ["tags", "limits"].map(str::to_owned).to_vec();
    let mut step = Window::new(&keyed(), &WindowConfig { key, aggregates, ..config(0) }).unwrap();
    let rows: [Keyed; 2] = [(&["re,d", "", "a\"b"], 100), (&["re,d", "", "a\"b"], 110)];
    let of = batch_of(&rows);
    let amounts: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, 1]));
    let columns = vec![of.rows.column(0).clone(), of.rows.column(1).clone(), amounts];
    let rows = RecordBatch::try_new(keyed().arrow().clone(), columns).unwrap();
    put(&mut step, Batch { rows, ..of });
    let (outputs, _) = cut(&mut step, 1_000);
    let raw = std::str::from_utf8(&outputs[0].rejects[0].raw).unwrap();
    let tags = r#""tags":["re,d",null,"a\"b"]"#;
    let limits = r#""limits":{"":"0","a\"b":"3","re,d":"4"}"#;
    assert!(raw.starts_with(&format!("{{{tags},{limits},")), "{raw}");
    assert!(raw.contains(r#""total":null,"amounts":["9223372036854775807","1"]"#), "{raw}");
}
