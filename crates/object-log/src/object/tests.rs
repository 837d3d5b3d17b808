use super::*;

const QUEUE: QueueId = QueueId(0xabcd);
const WRITTEN: Written = Written { epoch: 1, run: 77, number: 4 };

fn append((producer, records): (Option<(u128, u64)>, RecordBlock)) -> Append {
    Append { producer, records, packed: None, digest: None }
}

fn shown() -> Partition {
    Partition::new("log", 3)
}

/// An object in one piece.
fn encoded(queue: QueueId, written: Written, appends: &[Append]) -> (Bytes, Entry) {
    let (pieces, entry) = encode(queue, written, appends);
    (pieces.concat().into(), entry)
}

/// Everything in an object, unpacked.
fn read(queue: QueueId, entry: &Entry, bytes: &[u8]) -> Result<Vec<RecordBlock>, FormatError> {
    let object = decode(queue, entry, &Bytes::copy_from_slice(bytes))?;
    object.frames.iter().map(|frame| frame.block(&shown())).collect()
}

fn blocks_of(object: &Object) -> Vec<RecordBlock> {
    object.frames.iter().map(|frame| frame.block(&shown()).expect("is whole")).collect()
}

/// Rows with and without a body, a key, headers and a time.
fn mixed(rows: u64) -> RecordBlock {
    let mut builder = BlockBuilder::new(Partition::new("any", 0), 0);
    for row in 0..rows {
        let body = format!("record {row} {}", "x".repeat(row as usize % 50));
        let time_ms = if row % 7 == 3 { TIME_UNKNOWN_MS } else { 1_000 + row as i64 };
        builder.push(row, time_ms, (row % 5 != 1).then_some(body.as_bytes()));
        if row % 3 == 0 {
            builder.key(format!("key {row}").as_bytes());
        }
        if row % 4 == 0 {
            builder.header("name", Some(b"value"));
            builder.header("null", None);
        }
    }
    builder.take()
}

/// Body, key, headers, time.
type Row = (Option<Vec<u8>>, Vec<u8>, Vec<u8>, i64);

fn rows(blocks: &[RecordBlock]) -> Vec<Row> {
    let spans =
        |spans: &Option<dataflow::Spans>, row: usize| spans.as_ref().map_or(vec![], |s| s.get(row).to_vec());
    let row = |block: &RecordBlock, row: usize| {
        let is_absent = block.absent.contains(&(row as u32));
        let body = (!is_absent).then(|| block.payloads.get(row).to_vec());
        (body, spans(&block.keys, row), spans(&block.headers, row), block.times_ms[row])
    };
    blocks.iter().flat_map(|block| (0..block.len()).map(move |at| row(block, at))).collect()
}

#[test]
fn records_come_back_with_everything_that_goes_beside_them() {
    let appends = vec![(Some((9, 4)), mixed(30)), (None, mixed(1)), (Some((8, 0)), mixed(9_000))];
    let (bytes, entry) =
        encoded(QUEUE, WRITTEN, &appends.clone().into_iter().map(append).collect::<Vec<_>>());
    let entry = Entry { first: 100, ..entry };
    assert_eq!((entry.rows, entry.appends, entry.bytes), (9_031, 3, bytes.len() as u64));
    let object = decode(QUEUE, &entry, &bytes).expect("is whole");
    let blocks: Vec<RecordBlock> = appends.iter().map(|(_, block)| block.clone()).collect();
    assert_eq!(rows(&blocks_of(&object)), rows(&blocks));
    let marks: Vec<_> = object.appends.iter().map(|mark| (mark.producer, mark.rows)).collect();
    assert_eq!(marks, [(Some((9, 4)), 30), (None, 1), (Some((8, 0)), 9_000)]);
    let positions: Vec<u64> = blocks_of(&object).iter().flat_map(|block| block.positions.clone()).collect();
    assert_eq!(positions, (100..9_131).collect::<Vec<u64>>());
    assert!(
        blocks_of(&object)
            .iter()
            .all(|block| block.len() <= BlockBuilder::RECORDS_MAX && block.partition == shown())
    );
}

#[test]
fn a_block_is_read_from_its_middle() {
    let (bytes, entry) = encoded(QUEUE, WRITTEN, &[(None, mixed(40))].map(append));
    let object = decode(QUEUE, &Entry { first: 10, ..entry }, &bytes).expect("is whole");
    let block = blocks_of(&object)[0].clone();
    let all = rows(&blocks_of(&object));
    for (from, left) in [(0, 40), (10, 40), (11, 39), (49, 1), (50, 0)] {
        let found = rows_from(block.clone(), from);
        assert_eq!(found.as_ref().map_or(0, RecordBlock::len), left, "from {from}");
        if let Some(found) = found {
            assert_eq!((found.positions[0], rows(&[found])), (from.max(10), all[40 - left..].to_vec()));
        }
    }
}

#[test]
fn an_object_of_another_entry_or_log_or_with_one_other_byte_is_refused() {
    let (bytes, entry) = encoded(QUEUE, WRITTEN, &[(None, mixed(3))].map(append));
    let is_taken = |queue, entry: Entry, bytes: &[u8]| read(queue, &entry, bytes).is_ok();
    assert!(is_taken(QUEUE, entry, &bytes));
    assert!(!is_taken(QueueId(1), entry, &bytes));
    assert!(!is_taken(QUEUE, Entry { number: 5, ..entry }, &bytes));
    assert!(!is_taken(QUEUE, Entry { rows: 2, ..entry }, &bytes));
    assert!(!is_taken(QUEUE, entry, &bytes[..bytes.len() - 1]));
    for at in 0..bytes.len() {
        let mut other = bytes.to_vec();
        other[at] ^= 1;
        assert!(!is_taken(QUEUE, entry, &other), "byte {at}");
    }
}

/// The largest append that is taken is read again by the reader's own bound.
#[test]
fn what_can_be_written_can_be_read() {
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    };
    let mut builder = BlockBuilder::new(Partition::new("any", 0), 0);
    let body: Vec<u8> = (0..APPEND_BYTES_MAX).map(|_| noise()).collect();
    builder.push(0, 0, Some(&body));
    let large = builder.take();
    let (bytes, entry) = encoded(QUEUE, WRITTEN, &[(None, mixed(8_191)), (None, large)].map(append));
    assert!(entry.bytes <= OBJECT_BYTES_MAX);
    assert_eq!(blocks_of(&decode(QUEUE, &entry, &bytes).expect("is whole")).len(), 1);
}

#[test]
fn an_object_keeps_its_golden_head() {
    let (bytes, _) = encoded(QUEUE, WRITTEN, &[(Some((9, 4)), mixed(2))].map(append));
    // What zstd makes of a frame is zstd's; the rest is ours.
    let ours = HEAD_BYTES + APPEND_BYTES + FRAME_BYTES;
    let hex: String = bytes[..ours].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, include_str!("golden.txt").trim());
}

#[test]
fn fuzz_data_object() {
    let (example, _) = encoded(QUEUE, WRITTEN, &[(Some((9, 4)), mixed(20)), (None, mixed(2))].map(append));
    let fuzz = testkit::Fuzz::new("log data object").example(&example);
    fuzz.memory_max(FRAME_RAW_MAX * 2 + (4 << 20), 400).run(3_000, |bytes| {
        let entry = Entry {
            epoch: 1,
            run: 77,
            number: 4,
            rows: 22,
            bytes: bytes.len() as u64,
            crc32c: crc32c::crc32c(bytes),
            ..Entry::default()
        };
        if let Ok(blocks) = read(QUEUE, &entry, bytes) {
            assert_eq!(blocks.iter().map(RecordBlock::len).sum::<usize>(), 22);
        }
    });
}

#[test]
fn a_body_that_came_compressed_is_stored_as_it_came_and_read_as_what_it_was() {
    let bodies: Vec<String> = (0..5).map(|n| format!("body {n} ").repeat(1_000 + n)).collect();
    let mut appends = Vec::new();
    let mut builder = BlockBuilder::new(Partition::new("any", 0), 0);
    for (n, body) in bodies.iter().enumerate() {
        appends.push(append((None, mixed(n as u64 + 1))));
        builder.push(0, 5, Some(body.as_bytes()));
        builder.key(b"key");
        // Two frames, as a sender that flushes makes them.
        let (one, two) = body.as_bytes().split_at(n * 700);
        let packed = [one, two].map(|part| zstd::bulk::compress(part, 3).expect("compresses")).concat();
        appends.push(Append {
            producer: None,
            records: builder.take(),
            packed: Some(packed.into()),
            digest: None,
        });
    }
    let (bytes, entry) = encoded(QUEUE, WRITTEN, &appends);
    for packed in appends.iter().filter_map(|append| append.packed.as_ref()) {
        assert!(bytes.windows(packed.len()).any(|window| window == &packed[..]), "stored as it came");
    }
    let object = decode(QUEUE, &entry, &bytes).expect("is whole");
    let blocks: Vec<RecordBlock> = appends.iter().map(|append| append.records.clone()).collect();
    assert_eq!(rows(&blocks_of(&object)), rows(&blocks));
}

/// A request of many lines that was compressed at the gateway's door, and whose bytes it has let go.
#[test]
fn the_bodies_of_many_records_that_came_compressed_together_are_read_as_what_they_were() {
    let mut builder = BlockBuilder::new(Partition::new("any", 0), 0);
    for row in 0..8_000 {
        builder.push(row, row as i64, Some(format!("line {row}").as_bytes()));
    }
    let lines = builder.take();
    let packed = zstd::bulk::compress(&lines.payloads.bytes, 1).expect("compresses");
    let packed =
        || Append { packed: Some(packed.clone().into()), ..append((None, lines.clone())) }.without_raw();
    assert!(packed().records.payloads.bytes.is_empty(), "only the compressed bytes are held");
    assert_eq!(packed().raw_bytes(), lines.payloads.bytes.len());
    let appends = [append((None, mixed(500))), packed(), append((None, mixed(3))), packed()];
    let (bytes, entry) = encoded(QUEUE, WRITTEN, &appends);
    let object = decode(QUEUE, &entry, &bytes).expect("is whole");
    let all = [mixed(500), lines.clone(), mixed(3), lines.clone()];
    assert_eq!(rows(&blocks_of(&object)), rows(&all));
    assert!(object.frames.iter().all(|frame| frame.rows as usize <= BlockBuilder::RECORDS_MAX));
    assert_eq!((entry.time_min_ms, entry.time_max_ms), (TIME_UNKNOWN_MS, 7_999));
}

/// A large body that came compressed is in memory once while its object is on its way.
#[test]
fn what_came_compressed_is_not_copied_into_an_object() {
    let mut random = 1u64;
    let mut noise = || {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (random >> 56) as u8
    };
    let body: Vec<u8> = (0..300_000).map(|_| noise()).collect();
    let packed = Bytes::from(zstd::bulk::compress(&body, 1).expect("compresses"));
    let mut builder = BlockBuilder::new(Partition::new("any", 0), 0);
    builder.push(0, 5, Some(&body));
    let whole = Append { packed: Some(packed.clone()), ..append((None, builder.take())) };
    let appends = [append((None, mixed(4))), whole.without_raw(), append((None, mixed(2)))];
    let (pieces, entry) = encode(QUEUE, WRITTEN, &appends);
    assert!(pieces.iter().any(|piece| piece.as_ptr() == packed.as_ptr()), "the same bytes");
    let object = decode(QUEUE, &entry, &pieces.concat().into()).expect("is whole");
    let found = rows(&blocks_of(&object));
    assert_eq!((found.len(), &found[4].0), (7, &Some(body)));
}
