use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};

use super::*;
use crate::block::TIME_UNKNOWN_MS;
use crate::reject::RowReject;
use crate::{BlockBuilder, Column, ColumnType, Partition, Reason, Spans, Transformed};

fn schema() -> Schema {
    Schema::new(vec![Column::new("n", ColumnType::Int64)])
}

/// Records that are numbers; others are rejects.
struct Numbers(Schema);

impl Decoder for Numbers {
    fn schema(&self) -> &Schema {
        &self.0
    }

    fn decode(&self, block: &RecordBlock) -> Decoded {
        let (mut values, mut positions, mut times_ms, mut rejects) = (vec![], vec![], vec![], vec![]);
        for row in 0..block.len() {
            match std::str::from_utf8(block.payloads.get(row)).ok().and_then(|text| text.parse::<i64>().ok())
            {
                Some(number) => {
                    values.push(number);
                    positions.push(block.positions[row]);
                    times_ms.push(block.times_ms[row]);
                }
                None => rejects.push(Reject::of(block, row, Reason::Malformed, "", "no number".into())),
            }
        }
        let column: ArrayRef = Arc::new(Int64Array::from(values));
        let rows = RecordBatch::try_new(self.0.arrow().clone(), vec![column]).unwrap();
        Decoded {
            batch: Batch {
                items: Vec::new(),
                era: 0,
                partition: block.partition.clone(),
                rows,
                positions,
                times_ms,
            },
            rejects,
            several: None,
        }
    }
}

fn numbers(batch: &Batch) -> Vec<i64> {
    batch.rows.column(0).as_primitive::<Int64Type>().values().to_vec()
}

/// The number is the time.
struct Time(Schema);

impl Transform for Time {
    fn name(&self) -> &str {
        "time"
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let times_ms = numbers(&batch);
        Ok(Transformed::all(Batch { times_ms, ..batch }))
    }
}

/// Drops odd numbers; numbers divisible by ten are rejects, and are lost if `forgets`.
struct Even {
    schema: Schema,
    forgets: bool,
}

impl Transform for Even {
    fn name(&self) -> &str {
        "even"
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let numbers = numbers(&batch);
        let mut rejects = Vec::new();
        for (row, _) in numbers.iter().enumerate().filter(|(_, n)| **n % 10 == 0 && !self.forgets) {
            rejects.push(Reject {
                item: batch.item(row),
                partition: batch.partition.clone(),
                position: batch.position(row),
                time_ms: batch.times_ms[row],
                reason: Reason::Expression,
                column: "n".into(),
                message: "divisible by ten".into(),
                key: None,
                headers: Vec::new(),
                raw: Vec::new(),
            });
        }
        let keep: Vec<bool> = numbers.iter().map(|n| n % 2 == 0 && n % 10 != 0).collect();
        let filtered = numbers.iter().filter(|n| **n % 2 != 0).count() as u64;
        let batch = batch.filter(&BooleanArray::from(keep)).unwrap();
        Ok(Transformed { batch, filtered, rejects })
    }
}

fn block(texts: &[&str]) -> RecordBlock {
    let mut block = BlockBuilder::new(Partition::new("t", 0), 5);
    texts.iter().enumerate().for_each(|(n, text)| block.push(5 + n as u64, 1_000, Some(text.as_bytes())));
    block.take()
}

fn intake() -> Intake {
    Intake::new(Arc::new(Numbers(schema())))
}

#[test]
fn filtered_and_rejected_records_are_observed_with_their_event_time() {
    let even = Arc::new(Even { schema: schema(), forgets: false });
    let intake = intake().with_time(Some(Arc::new(Time(schema())))).with_steps(vec![even]);
    let block = block(&["2", "x", "3", "4", "10"]);
    let prepared = intake.prepare(&block, 0).unwrap();
    assert_eq!(numbers(&prepared.batch), [2, 4]);
    assert_eq!(prepared.batch.times_ms, [2, 4]);
    assert_eq!(prepared.times_ms(&block), [2, 3, 4, 10]);
    assert_eq!((prepared.records, prepared.filtered, prepared.rejects.len()), (5, 1, 2));
    let rejected = &prepared.rejects[1];
    assert_eq!((rejected.position, rejected.raw.as_slice()), (9, b"10".as_slice()));
    assert_eq!((rejected.time_ms, rejected.column.as_str()), (1_000, "n"));
    assert_eq!(rejected.message, "divisible by ten");
}

#[test]
fn without_a_time_column_every_record_is_observed_with_the_time_of_its_source() {
    let block = block(&["2", "x", "3"]);
    let even = Arc::new(Even { schema: schema(), forgets: false });
    for intake in [intake(), intake().with_steps(vec![even])] {
        assert_eq!(intake.prepare(&block, 0).unwrap().times_ms(&block), [1_000; 3]);
    }
    let timed = intake().with_time(Some(Arc::new(Time(schema()))));
    assert_eq!(timed.prepare(&block, 0).unwrap().times_ms(&block), [2, 3]);
}

#[test]
fn a_step_that_loses_a_record_stops_the_pipeline() {
    let even = Arc::new(Even { schema: schema(), forgets: true });
    let error = intake().with_steps(vec![even]).prepare(&block(&["2", "10"]), 0).unwrap_err().to_string();
    assert_eq!(error, "step `even`: of `2` rows it lets `1` pass and drops `0`");
}

#[test]
fn a_row_alone_is_given_its_time_only_where_no_step_has_changed_it() {
    let row = || numbers_as_batch(&[7]);
    let timed = intake().with_time(Some(Arc::new(Time(schema()))));
    assert_eq!(timed.rows_again(row()).unwrap().unwrap().times_ms, [7]);
    assert_eq!(intake().rows_again(row()).unwrap().unwrap().times_ms, [1_000]);
    let even = Arc::new(Even { schema: schema(), forgets: false });
    assert!(timed.with_steps(vec![even]).rows_again(row()).unwrap().is_none());
}

fn numbers_as_batch(values: &[i64]) -> Batch {
    let texts: Vec<String> = values.iter().map(i64::to_string).collect();
    intake().prepare(&block(&texts.iter().map(String::as_str).collect::<Vec<_>>()), 0).unwrap().batch
}

#[test]
fn metadata_stands_behind_the_decoded_columns_and_a_key_that_is_no_text_is_a_reject() {
    let mut block = BlockBuilder::new(Partition::new("t", 3), 5);
    for (n, key) in [b"a".as_slice(), b"", b"\xff"].into_iter().enumerate() {
        block.push(
            5 + n as u64,
            if n == 0 { 1_000 } else { TIME_UNKNOWN_MS },
            Some(n.to_string().as_bytes()),
        );
        block.key(key);
        block.header("h", Some(b"v"));
        block.header("none", None);
    }
    let block = block.take();
    let prepared = intake().with_metadata("orders", Metadata::ALL.to_vec()).prepare(&block, 77).unwrap();
    let rows = &prepared.batch.rows;
    let names: Vec<&str> = rows.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(
        names,
        [
            "n",
            "_key",
            "_headers",
            "_input",
            "_topic",
            "_partition",
            "_position",
            "_timestamp",
            "_tombstone",
            "_ingested"
        ]
    );
    let shown = |row: usize| {
        let cells = rows.columns().iter().map(|column| format!("{:?}", column.slice(row, 1)));
        cells.collect::<Vec<_>>().join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(prepared.batch.positions, [5, 6]);
    assert_eq!(rows.column(1).as_string::<i32>().iter().collect::<Vec<_>>(), [Some("a"), None]);
    assert!(shown(0).contains("\"h\", \"none\"") && shown(0).contains("\"v\", \"\""), "{}", shown(0));
    assert_eq!(rows.column(3).as_string::<i32>().value(1), "orders");
    assert_eq!(rows.column(4).as_string::<i32>().value(1), "t");
    assert_eq!(rows.column(5).as_primitive::<arrow_array::types::UInt32Type>().value(0), 3);
    assert_eq!(rows.column(6).as_primitive::<arrow_array::types::UInt64Type>().value(1), 6);
    let times = |at: usize| rows.column(at).as_primitive::<arrow_array::types::TimestampMillisecondType>();
    assert_eq!(times(7).iter().collect::<Vec<_>>(), [Some(1_000), None]);
    assert_eq!(rows.column(8).as_boolean().iter().collect::<Vec<_>>(), [Some(false); 2]);
    assert_eq!(times(9).iter().collect::<Vec<_>>(), [Some(77); 2]);
    let reject = &prepared.rejects[0];
    assert_eq!((reject.position, reject.column.as_str(), reject.reason), (7, "_key", Reason::WrongKind));
    assert_eq!(prepared.records, 3);
}

/// Records of numbers with commas between them, each a row; a row that is no number is a reject, and `!` is a broken record.
struct Lists(Schema);

impl Decoder for Lists {
    fn schema(&self) -> &Schema {
        &self.0
    }

    fn multiplies(&self) -> bool {
        true
    }

    fn decode(&self, block: &RecordBlock) -> Decoded {
        let (mut values, mut positions, mut times_ms) = (Vec::new(), Vec::new(), Vec::new());
        let (mut rejects, mut of_rows) = (Vec::new(), Vec::new());
        let mut several = Several::default();
        for row in 0..block.len() {
            let text = std::str::from_utf8(block.payloads.get(row)).unwrap();
            match text {
                "!" => rejects.push(Reject::of(block, row, Reason::Malformed, "", "broken".into())),
                "" => several.empty += 1,
                _ => several.records += 1,
            }
            for (number, item) in (0..).zip(text.split(',')).filter(|(_, item)| !["", "!"].contains(item)) {
                match item.parse::<i64>() {
                    Ok(value) => {
                        values.push(value);
                        positions.push(block.positions[row]);
                        times_ms.push(block.times_ms[row]);
                    }
                    Err(_) => {
                        let (column, message, raw) = ("n".into(), "no number".into(), item.into());
                        let reason = Reason::WrongKind;
                        let reject = RowReject { number: Some(number), reason, column, message, raw };
                        of_rows.extend(reject::each_row(block, row, vec![reject]));
                    }
                }
            }
        }
        several.rejected_rows = of_rows.len();
        rejects.extend(of_rows);
        let column: ArrayRef = Arc::new(Int64Array::from(values));
        let rows = RecordBatch::try_new(self.0.arrow().clone(), vec![column]).unwrap();
        let batch = Batch {
            items: Vec::new(),
            era: 0,
            partition: block.partition.clone(),
            rows,
            positions,
            times_ms,
        };
        Decoded { batch, rejects, several: Some(several) }
    }

    fn split(&self, block: &RecordBlock, row: usize) -> Option<Spans> {
        let mut apart = Spans::default();
        block.payloads.get(row).split(|byte| *byte == b',').for_each(|item| apart.push(item));
        Some(apart)
    }
}

fn lists() -> Intake {
    Intake::new(Arc::new(Lists(schema())))
}

fn with_keys(texts: &[&str], keys: &[&[u8]]) -> RecordBlock {
    let mut of_keys = Spans::default();
    keys.iter().for_each(|key| of_keys.push(key));
    RecordBlock { keys: Some(of_keys), ..block(texts) }
}

#[test]
fn rows_of_records_that_hold_several_are_counted_as_rows() {
    let prepared = lists().prepare(&block(&["1,2,x", "!", "", "3"]), 0).unwrap();
    assert_eq!(numbers(&prepared.batch), [1, 2, 3]);
    assert_eq!(prepared.batch.positions, [5, 5, 8]);
    // One broken, one empty, two with rows: four of them, two more than there are records, and one rejected.
    assert_eq!((prepared.records, prepared.filtered, prepared.rejects.len()), (4, 1, 2));
    let expected = Multiplied { records: 2, added: 2, filtered: 0, rejects: 1 };
    assert_eq!(prepared.multiplied.as_deref(), Some(&expected));
    assert_eq!(prepared.rejects[1].raw, b"x");
    // Where every record is one row nothing is multiplied.
    let prepared = lists().prepare(&block(&["1", "x", "!", "3"]), 0).unwrap();
    assert_eq!((prepared.records, prepared.multiplied.is_none(), prepared.rejects.len()), (4, true, 2));
}

#[test]
fn a_row_that_a_step_fails_on_is_a_dead_letter_without_the_rows_beside_it() {
    let even = || Arc::new(Even { schema: schema(), forgets: false });
    let block = with_keys(&["1,2,10", "4", "20,x,30,6"], &[b"a", b"b", b"c"]);
    let prepared = lists().with_steps(vec![even()]).prepare(&block, 0).unwrap();
    assert_eq!(numbers(&prepared.batch), [2, 4, 6]);
    let rule = |one: &Reject| one.message.split(';').next().expect("a rule").to_owned();
    let told: Vec<_> =
        prepared.rejects.iter().map(|one| (one.position, one.item, &*one.raw, rule(one))).collect();
    let (no, ten) = ("no number".to_owned(), || "divisible by ten".to_owned());
    let expected = [
        (7, Some(1), &b"x"[..], no),
        (5, Some(2), b"10", ten()),
        (7, Some(0), b"20", ten()),
        (7, Some(2), b"30", ten()),
    ];
    assert_eq!(told, expected, "each is told by its record and its number there");
    assert!(prepared.rejects[2..].iter().all(|one| one.key.as_deref() == Some(b"c")));
    assert_eq!(prepared.rejects[3].time_ms, 1_000);
    let expected = Multiplied { records: 3, added: 5, filtered: 1, rejects: 4 };
    assert_eq!(prepared.multiplied.as_deref(), Some(&expected));
    // Where the rows cannot be taken apart one of them has the whole record.
    let by_position = lists().with_metadata("s", vec![Metadata::Position]).with_steps(vec![even()]);
    let prepared = by_position.prepare(&block, 0).unwrap();
    let raws: Vec<_> = prepared.rejects.iter().map(|one| (one.item, &*one.raw)).collect();
    assert_eq!(raws, [(Some(1), &b"x"[..]), (None, b"1,2,10"), (None, b"20,x,30,6"), (None, b"")]);
    // Behind a step that makes several rows of one, not all of a row has failed.
    let several = lists().with_steps(vec![Arc::new(UpTo(schema())), even()]);
    let prepared = several.prepare(&with_keys(&["1,x,10"], &[b"a"]), 0).unwrap();
    let told: Vec<_> = prepared.rejects.iter().map(|one| (one.item, &*one.raw)).collect();
    assert_eq!(told, [(Some(1), &b"x"[..]), (None, b"10")]);
}

#[test]
fn a_time_that_its_column_does_not_hold_is_a_dead_letter_where_it_is_read() {
    let times = [
        TIME_UNKNOWN_MS,
        -2_208_988_800_001,
        -2_208_988_800_000,
        10_413_791_999_999,
        // Microseconds of 2025.
        1_764_000_000_000_000,
    ];
    let mut builder = BlockBuilder::new(Partition::new("t", 0), 5);
    (5..).zip(times).for_each(|(position, time_ms)| builder.push(position, time_ms, Some(&b"1"[..])));
    let block = builder.take();
    let numbers = || Intake::new(Arc::new(Numbers(schema())));
    let prepared = numbers().with_metadata("s", vec![Metadata::Timestamp]).prepare(&block, 0).unwrap();
    assert_eq!(prepared.batch.positions, [5, 7, 8]);
    let told: Vec<_> = prepared.rejects.iter().map(|one| (one.position, one.reason, &*one.column)).collect();
    let too_far = Reason::OutOfRange;
    assert_eq!(told, [(6, too_far, "_timestamp"), (9, too_far, "_timestamp")]);
    let message = &prepared.rejects[1].message;
    assert!(message.contains("(`1764000000000000` milliseconds since 1970)"), "{message}");
    assert!(numbers().prepare(&block, 0).unwrap().rejects.is_empty(), "nobody reads it");
}

#[test]
fn a_key_or_headers_of_which_a_part_was_kept_are_a_dead_letter_where_they_are_read() {
    let longest = "k".repeat(crate::block::KEY_BYTES_MAX);
    let mut builder = BlockBuilder::new(Partition::new("t", 0), 5);
    for position in 5..8 {
        builder.push(position, 0, Some(&b"1"[..]));
        // The end of the second one is not kept.
        let end = if position == 6 { "12" } else { "" };
        builder.key(format!("{longest}{end}").as_bytes());
        let value = vec![b'x'; if position == 7 { crate::block::HEADERS_BYTES_MAX } else { 1 }];
        builder.header("a", Some(&value));
    }
    let block = builder.take();
    let told = |metadata: Vec<Metadata>| {
        let intake = Intake::new(Arc::new(Numbers(schema()))).with_metadata("s", metadata);
        let rejects = intake.prepare(&block, 0).unwrap().rejects;
        rejects.iter().map(|one| (one.position, one.reason, one.column.clone())).collect::<Vec<_>>()
    };
    assert_eq!(told(vec![Metadata::Key]), [(6, Reason::TooLarge, "_key".to_owned())]);
    assert_eq!(told(vec![Metadata::Headers]), [(7, Reason::TooLarge, "_headers".to_owned())]);
    assert!(told(vec![Metadata::Topic]).is_empty(), "nobody reads them");
}

/// What [`Even`] turns down is for the table `t`.
struct OfTable(Even);

impl Transform for OfTable {
    fn name(&self) -> &str {
        "of_table"
    }

    fn schema(&self) -> &Schema {
        &self.0.schema
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let made = self.0.apply(batch)?;
        let rejects = made.rejects.into_iter().map(|reject| reject.of_table("t")).collect();
        Ok(Transformed { rejects, ..made })
    }
}

#[test]
fn the_dead_letter_of_one_row_of_several_names_the_table_that_does_not_take_it() {
    let step = Arc::new(OfTable(Even { schema: schema(), forgets: false }));
    let block = with_keys(&["1,10,2", "20"], &[b"a", b"b"]);
    let prepared = lists().with_steps(vec![step]).prepare(&block, 0).unwrap();
    let table = |one: &Reject| {
        let mut found = crate::block::headers(&one.headers);
        let found = found.find(|(name, _)| *name == crate::block::TABLE_HEADER);
        found.and_then(|(_, value)| value.map(<[u8]>::to_vec))
    };
    let told: Vec<_> = prepared.rejects.iter().map(|one| (one.raw.clone(), one.item, table(one))).collect();
    let of_table = || Some(b"t".to_vec());
    assert_eq!(told, [(b"10".to_vec(), Some(1), of_table()), (b"20".to_vec(), Some(0), of_table())]);
}

#[test]
fn the_only_row_of_a_record_and_one_that_is_read_again_have_their_numbers() {
    let even = || Arc::new(Even { schema: schema(), forgets: false });
    let prepared = lists().with_steps(vec![even()]).prepare(&block(&["10", "x", "2"]), 0).unwrap();
    let told: Vec<_> = prepared.rejects.iter().map(|one| (one.item, &*one.raw)).collect();
    assert_eq!(told, [(Some(0), &b"x"[..]), (Some(0), b"10")]);
    for text in ["10", "x"] {
        let again = RecordBlock { item: Some(7), ..block(&[text]) };
        let prepared = lists().with_steps(vec![even()]).prepare(&again, 0).unwrap();
        let reject = &prepared.rejects[0];
        assert_eq!((prepared.rejects.len(), reject.item, &*reject.raw), (1, Some(7), text.as_bytes()));
        assert_eq!(crate::block::headers(&reject.headers).count(), 1, "its number, once");
    }
    // A step that makes several rows of one is given the row, and not one of its own rows.
    let several = lists().with_steps(vec![Arc::new(UpTo(schema()))]);
    let prepared = several.prepare(&RecordBlock { item: Some(7), ..block(&["3"]) }, 0).unwrap();
    assert_eq!(numbers(&prepared.batch), [1, 2, 3]);
}

#[test]
fn a_key_that_is_no_text_is_one_reject_for_all_rows_of_its_record() {
    let block = with_keys(&["1,2,x", "3,4"], &[b"\xff", b"k"]);
    let prepared = lists().with_metadata("s", vec![Metadata::Key]).prepare(&block, 0).unwrap();
    assert_eq!(numbers(&prepared.batch), [3, 4]);
    let expected = Multiplied { records: 2, added: 2, filtered: 0, rejects: 2 };
    assert_eq!(prepared.multiplied.as_deref(), Some(&expected));
    assert_eq!(prepared.rejects.len(), 2);
}

/// Makes rows of the numbers from 1 to a record's own; of 0 none, and it fails on negative ones.
struct UpTo(Schema);

impl Transform for UpTo {
    fn name(&self) -> &str {
        "up_to"
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn multiplies(&self) -> bool {
        true
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let mut made =
            Transformed::all(Batch { positions: Vec::new(), times_ms: Vec::new(), ..batch.clone() });
        let mut values = Vec::new();
        for (row, number) in numbers(&batch).into_iter().enumerate() {
            made.filtered += u64::from(number == 0);
            if number < 0 {
                made.rejects.push(Reject {
                    item: None,
                    partition: batch.partition.clone(),
                    position: batch.position(row),
                    time_ms: 0,
                    reason: Reason::TooLarge,
                    column: String::new(),
                    message: "negative".into(),
                    key: None,
                    headers: Vec::new(),
                    raw: Vec::new(),
                });
            }
            for item in 0..number.max(0) {
                values.push(item + 1);
                made.batch.positions.push(batch.positions[row]);
                made.batch.times_ms.push(batch.times_ms[row]);
                made.batch.items.push(item as u32);
            }
        }
        let column: ArrayRef = Arc::new(Int64Array::from(values));
        made.batch.rows = RecordBatch::try_new(self.0.arrow().clone(), vec![column]).unwrap();
        Ok(made)
    }
}

fn up_to(behind: Vec<Arc<dyn Transform>>) -> Intake {
    let mut steps: Vec<Arc<dyn Transform>> = vec![Arc::new(UpTo(schema()))];
    steps.extend(behind);
    Intake::new(Arc::new(Numbers(schema()))).with_steps(steps)
}

fn even() -> Arc<dyn Transform> {
    Arc::new(Even { schema: schema(), forgets: false })
}

#[test]
fn rows_of_items_are_counted_beside_their_records_and_each_dead_letter_names_its_item() {
    let block = block(&["3", "0", "-1", "20"]);
    let prepared = up_to(vec![even()]).prepare(&block, 0).unwrap();
    assert_eq!(numbers(&prepared.batch), [2, 2, 4, 6, 8, 12, 14, 16, 18]);
    assert_eq!(prepared.batch.items, [1, 1, 3, 5, 7, 11, 13, 15, 17]);
    assert_eq!((prepared.records, prepared.filtered), (4, 1));
    // Of two records there are 23 rows, of which the filter drops the odd ones and fails on 10 and 20.
    let expected = Multiplied { records: 2, added: 21, filtered: 12, rejects: 2 };
    assert_eq!(prepared.multiplied.as_deref(), Some(&expected));
    let told: Vec<_> = prepared.rejects.iter().map(|one| (one.position, one.item, &*one.raw)).collect();
    assert_eq!(told, [(7, None, &b"-1"[..]), (8, Some(9), b"20"), (8, Some(19), b"20")]);
    let header: Vec<_> = crate::block::headers(&prepared.rejects[1].headers).collect();
    assert_eq!(header, [(crate::block::ITEM_HEADER, Some(&b"9"[..]))]);
    assert!(prepared.rejects[1].message.ends_with("this is the row of item `9` of its record alone"));
    assert_eq!(prepared.rejects[0].headers, b"");
}

/// Gives the rows at these places of the batch, and says that it has filtered so many.
struct Claims(Schema, Vec<u32>, u64);

impl Transform for Claims {
    fn name(&self) -> &str {
        "claims"
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn multiplies(&self) -> bool {
        true
    }

    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let all = numbers(&batch);
        let of = |at: &u32| *at as usize;
        let values: Vec<i64> = self.1.iter().map(|at| all[of(at)]).collect();
        let column: ArrayRef = Arc::new(Int64Array::from(values));
        let made = Batch {
            rows: RecordBatch::try_new(self.0.arrow().clone(), vec![column]).unwrap(),
            positions: self.1.iter().map(|at| batch.positions[of(at)]).collect(),
            times_ms: self.1.iter().map(|at| batch.times_ms[of(at)]).collect(),
            items: self.1.clone(),
            ..batch
        };
        Ok(Transformed { batch: made, filtered: self.2, rejects: Vec::new() })
    }
}

#[test]
fn a_step_that_makes_rows_accounts_for_each_of_its_records_once() {
    let claims = |texts: &[&str], rows: &[u32], filtered: u64| {
        let step = Arc::new(Claims(schema(), rows.to_vec(), filtered));
        let prepared = intake().with_steps(vec![step]).prepare(&block(texts), 0);
        prepared.map(|prepared| prepared.multiplied.as_deref().copied()).map_err(|error| error.to_string())
    };
    let expected = Multiplied { records: 2, added: 1, ..Multiplied::default() };
    assert_eq!(claims(&["1", "2", "3"], &[0, 0, 2], 1), Ok(Some(expected)));
    assert_eq!(claims(&["1", "2", "3"], &[], 3), Ok(None));
    let broken = |kept: u64, dropped: u64| {
        Err(format!("step `claims`: of `{}` rows it lets `{kept}` pass and drops `{dropped}`", 2))
    };
    // Every item dropped by itself; a record dropped that has rows; one lost behind the rows of another.
    assert_eq!(claims(&["1", "2"], &[], 5), broken(0, 5));
    assert_eq!(claims(&["1", "2"], &[0, 0, 1], 1), broken(2, 1));
    assert_eq!(claims(&["1", "2"], &[0, 0, 0], 0), broken(1, 0));
}

#[test]
fn a_record_that_is_read_again_for_one_item_becomes_its_row_alone() {
    let again = |text: &str, item: u32| {
        let block = RecordBlock { item: Some(item), ..block(&[text]) };
        up_to(vec![even()]).prepare(&block, 0).unwrap()
    };
    let prepared = again("20", 3);
    assert_eq!((numbers(&prepared.batch), &*prepared.batch.items), (vec![4], &[3][..]));
    // It counts as a record with one row, whatever becomes of that.
    assert!(prepared.multiplied.is_none() && prepared.filtered == 0 && prepared.rejects.is_empty());
    let prepared = again("20", 2);
    assert_eq!((prepared.batch.len(), prepared.filtered, prepared.rejects.len()), (0, 1, 0));
    let prepared = again("20", 9);
    assert_eq!((prepared.batch.len(), prepared.filtered, prepared.rejects.len()), (0, 0, 1));
    assert_eq!((prepared.rejects[0].item, &*prepared.rejects[0].raw), (Some(9), &b"20"[..]));
}

#[test]
fn a_row_that_is_not_made_any_more_is_a_dead_letter_again() {
    for text in ["3", "0", "-1"] {
        let block = RecordBlock { item: Some(5), ..block(&[text]) };
        let prepared = up_to(Vec::new()).prepare(&block, 0).unwrap();
        assert_eq!((prepared.batch.len(), prepared.filtered, prepared.rejects.len()), (0, 0, 1), "{text}");
        assert_eq!((prepared.rejects[0].item, &*prepared.rejects[0].raw), (Some(5), text.as_bytes()));
    }
}

#[test]
fn dead_letters_of_many_rows_of_a_record_repeat_it_some_times_only() {
    let block = with_keys(&["1000", "10"], &[b"a", b"b"]);
    let prepared = up_to(vec![even()]).prepare(&block, 0).unwrap();
    assert_eq!(prepared.rejects.len(), 101);
    let whole = prepared.rejects.iter().filter(|one| one.raw == b"1000" && one.key.is_some()).count();
    assert_eq!(whole, 16);
    let bare = &prepared.rejects[50];
    assert!(bare.raw.is_empty() && bare.key.is_none() && bare.item == Some(509), "{bare:?}");
    assert!(bare.message.contains("`raw` is with another row of its record"), "{}", bare.message);
    assert_eq!(prepared.rejects[100].raw, b"10", "each record by itself");
    // A record with the headers of a dead letter is whole.
    let mut spans = Spans::default();
    let mut headers = Vec::new();
    crate::block::push_header(&mut headers, crate::block::ITEM_HEADER, Some(b"7"));
    crate::block::push_header(&mut headers, crate::block::TABLE_HEADER, Some(b"t"));
    crate::block::push_header(&mut headers, "other", Some(b"x"));
    spans.push(&headers);
    let block = RecordBlock { headers: Some(spans), ..self::block(&["-1"]) };
    let prepared = up_to(Vec::new()).prepare(&block, 0).unwrap();
    let found: Vec<_> = crate::block::headers(&prepared.rejects[0].headers).collect();
    assert_eq!((prepared.rejects[0].item, found), (None, vec![("other", Some(&b"x"[..]))]));
    // And what a step has said of the table stands behind its own.
    let reject = Reject { headers: Vec::new(), ..prepared.rejects[0].clone() };
    let completed = reject.of_table("shop.orders").completed(&block);
    let found: Vec<_> = crate::block::headers(&completed.headers).collect();
    let of_table = (crate::block::TABLE_HEADER, Some(&b"shop.orders"[..]));
    assert_eq!(found, [("other", Some(&b"x"[..])), of_table]);
}
