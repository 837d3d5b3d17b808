//! Batches are made by another implementation of the format, and read by ours.

use bytes::{Bytes, BytesMut};
use dataflow::{Partition, block};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, NO_PRODUCER_ID, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use proptest::prelude::*;

use super::*;

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
const BYTES_MAX: usize = 1 << 20;

fn record(offset: i64, value: Option<&[u8]>) -> Record {
    Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: 3,
        producer_id: NO_PRODUCER_ID,
        producer_epoch: -1,
        timestamp_type: TimestampType::Creation,
        offset,
        sequence: offset as i32,
        timestamp: 1_000 + offset,
        key: None,
        value: value.map(Bytes::copy_from_slice),
        headers: IndexMap::new(),
    }
}

fn of_transaction(producer: i64, record: Record) -> Record {
    Record { transactional: true, producer_id: producer, producer_epoch: 0, ..record }
}

fn marker(producer: i64, offset: i64, kind: i16) -> Record {
    let key = [0i16.to_be_bytes(), kind.to_be_bytes()].concat();
    let record = of_transaction(producer, record(offset, Some(&[0; 6])));
    Record { control: true, key: Some(key.into()), ..record }
}

fn encode(records: &[Record], compression: Compression) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    RecordBatchEncoder::encode(&mut bytes, records, &RecordEncodeOptions { version: 2, compression })
        .expect("encodes");
    bytes.to_vec()
}

type Headers = Vec<(String, Option<Vec<u8>>)>;
/// Position, time, key, body, headers.
type Row = (u64, i64, Vec<u8>, Option<Vec<u8>>, Headers);

#[derive(Debug, Default, PartialEq)]
struct Got {
    records: Vec<Row>,
    next: u64,
    leader_epoch: i32,
}

fn read_from(next: u64, bytes: &[u8], aborted: &[(i64, i64)]) -> Result<Got, BatchError> {
    let mut builder = BlockBuilder::new(Partition::new("t", 0), next.into());
    let mut scratch = Vec::new();
    let mut blocks = Vec::new();
    let mut batches = Batches {
        next,
        leader_epoch: -1,
        block: &mut builder,
        scratch: &mut scratch,
        bytes_max: BYTES_MAX,
        record_bytes_max: BYTES_MAX,
    };
    batches.read(bytes, aborted, &mut |block| blocks.push(block))?;
    let mut got = Got { next: batches.next, leader_epoch: batches.leader_epoch, ..Got::default() };
    blocks.push(builder.take());
    for block in &blocks {
        for row in 0..block.len() {
            let body = (!block.absent.contains(&(row as u32))).then(|| block.payloads.get(row).to_vec());
            let key = block.keys.as_ref().map(|keys| keys.get(row).to_vec()).unwrap_or_default();
            let encoded = block.headers.as_ref().map(|h| h.get(row)).unwrap_or_default();
            let headers =
                block::headers(encoded).map(|(n, v)| (n.to_owned(), v.map(<[u8]>::to_vec))).collect();
            got.records.push((block.positions[row], block.times_ms[row], key, body, headers));
        }
    }
    Ok(got)
}

fn positions(got: &Got) -> Vec<u64> {
    got.records.iter().map(|r| r.0).collect()
}

fn any_record() -> impl Strategy<Value = Record> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    let optional = || prop::option::of(bytes());
    let headers = prop::collection::vec(("[a-z]{1,8}", optional()), 0..3);
    // Steps are at least one, and gaps are what compaction leaves.
    (1..5i64, 0..100_000i64, optional(), optional(), headers).prop_map(|(step, time, key, value, headers)| {
        Record {
            timestamp: time,
            key: key.map(Bytes::from),
            headers: headers
                .into_iter()
                .map(|(name, value)| (StrBytes::from_string(name), value.map(Bytes::from)))
                .collect(),
            ..record(step, value.as_deref())
        }
    })
}

/// Batches one after the other, with offsets that ascend.
fn any_batches() -> impl Strategy<Value = Vec<(Vec<Record>, Compression)>> {
    let codec = prop::sample::select(CODECS.to_vec());
    let batch = (prop::collection::vec(any_record(), 1..12), codec);
    prop::collection::vec(batch, 1..4).prop_map(|mut batches| {
        let mut offset = 0;
        for record in batches.iter_mut().flat_map(|(records, _)| records) {
            offset += record.offset;
            record.offset = offset;
            record.sequence = offset as i32;
        }
        batches
    })
}

fn expected(records: &[Record], next: u64) -> Vec<Row> {
    let headers = |r: &Record| -> Headers {
        r.headers.iter().map(|(n, v)| (n.as_str().to_owned(), v.as_ref().map(|v| v.to_vec()))).collect()
    };
    records
        .iter()
        .filter(|r| r.offset as u64 >= next)
        .map(|r| {
            let key = r.key.as_ref().map(|k| k.to_vec()).unwrap_or_default();
            (r.offset as u64, r.timestamp, key, r.value.as_ref().map(|v| v.to_vec()), headers(r))
        })
        .collect()
}

proptest! {
    #[test]
    fn every_record_comes_as_it_was_written(batches in any_batches(), skipped in 0..30u64) {
        let bytes: Vec<u8> = batches.iter().flat_map(|(records, codec)| encode(records, *codec)).collect();
        let all: Vec<Record> = batches.iter().flat_map(|(records, _)| records.clone()).collect();
        let last = all.last().expect("one at least").offset as u64;
        let got = read_from(skipped, &bytes, &[]).expect("reads");
        prop_assert_eq!(&got.records, &expected(&all, skipped));
        prop_assert_eq!((got.next, got.leader_epoch), ((last + 1).max(skipped), 3));
        prop_assert_eq!(end(&bytes), Some((last as i64 + 1, 3)));
    }

    #[test]
    fn a_batch_that_is_cut_off_waits_for_the_next_answer(batches in any_batches(), cut in any::<prop::sample::Index>()) {
        let encoded: Vec<Vec<u8>> = batches.iter().map(|(records, codec)| encode(records, *codec)).collect();
        let bytes = encoded.concat();
        let cut = cut.index(bytes.len());
        let mut whole = 0;
        let mut read = Vec::new();
        for (batch, (records, _)) in encoded.iter().zip(&batches) {
            if whole + batch.len() > cut {
                break;
            }
            whole += batch.len();
            read.extend_from_slice(records);
        }
        let got = read_from(0, &bytes[..cut], &[]).expect("reads what is whole");
        prop_assert_eq!(got.records, expected(&read, 0));
        prop_assert_eq!(end(&bytes[..cut]), read.last().map(|r| (r.offset + 1, 3)));
    }

    #[test]
    fn a_flipped_bit_is_never_taken_for_data(batches in any_batches(), place in any::<prop::sample::Index>(), bit in 0..8u32) {
        let mut bytes: Vec<u8> = batches.iter().flat_map(|(records, codec)| encode(records, *codec)).collect();
        let all: Vec<Record> = batches.iter().flat_map(|(records, _)| records.clone()).collect();
        let place = place.index(bytes.len());
        bytes[place] ^= 1u8 << bit;
        if let Ok(got) = read_from(0, &bytes, &[]) {
            // Offset, length, epoch and magic stand outside the checksum: a wrong length cuts the answer short, and a wrong
            // offset moves a batch. Bodies are never wrong.
            for record in &got.records {
                prop_assert!(all.iter().any(|r| r.value.as_ref().map(|v| v.to_vec()) == record.3));
            }
        }
    }

    #[test]
    fn noise_is_an_error_or_nothing(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_from(0, &bytes, &[]);
        let _ = end(&bytes);
    }

    #[test]
    fn noise_behind_a_right_checksum_is_an_error_or_nothing(
        batches in any_batches(),
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = encode(&batches[0].0, batches[0].1);
        for (place, byte) in noise {
            let place = CRC_FROM + place.index(bytes.len() - CRC_FROM);
            bytes[place] = byte;
        }
        let crc = crc32c::crc32c(&bytes[CRC_FROM..]).to_be_bytes();
        bytes[CRC_FROM - 4..CRC_FROM].copy_from_slice(&crc);
        let _ = read_from(0, &bytes, &[]);
    }
}

#[test]
fn aborted_transactions_leave_no_record_and_markers_none_either() {
    let of = |producer, offset| of_transaction(producer, record(offset, Some(b"x")));
    let batches = [
        encode(&[of(1, 0), of(1, 1)], Compression::None),
        encode(&[of(2, 2)], Compression::Zstd),
        encode(&[record(3, Some(b"plain"))], Compression::None),
        encode(&[marker(1, 4, 0)], Compression::None),
        encode(&[of(1, 5)], Compression::None),
        encode(&[marker(2, 6, 1)], Compression::None),
        encode(&[marker(1, 7, 1)], Compression::None),
    ];
    // Producer 1 aborted what it began at 0, and committed what it began at 5.
    let got = read_from(0, &batches.concat(), &[(1, 0)]).expect("reads");
    assert_eq!((positions(&got), got.next), (vec![2, 3, 5], 8));
}

#[test]
fn a_second_aborted_transaction_of_a_producer_is_told_from_its_first() {
    let of = |offset| of_transaction(9, record(offset, Some(b"x")));
    let batches = [
        encode(&[of(0)], Compression::None),
        encode(&[marker(9, 1, 0)], Compression::None),
        encode(&[of(2)], Compression::None),
        encode(&[marker(9, 3, 1)], Compression::None),
        encode(&[of(4)], Compression::None),
        encode(&[marker(9, 5, 0)], Compression::None),
    ];
    let got = read_from(0, &batches.concat(), &[(9, 4), (9, 0)]).expect("reads");
    assert_eq!((positions(&got), got.next), (vec![2], 6));
}

#[test]
fn the_time_is_the_brokers_where_the_topic_says_so() {
    let stamped = |offset, timestamp| Record {
        timestamp_type: TimestampType::LogAppend,
        timestamp,
        ..record(offset, Some(b"x"))
    };
    let got =
        read_from(0, &encode(&[stamped(0, 500), stamped(1, 500)], Compression::None), &[]).expect("reads");
    assert_eq!(got.records.iter().map(|r| r.1).collect::<Vec<_>>(), [500, 500]);
    let untimed = Record { timestamp: -1, ..record(0, Some(b"x")) };
    let got = read_from(0, &encode(&[untimed], Compression::None), &[]).expect("reads");
    assert_eq!(got.records[0].1, TIME_UNKNOWN_MS);
}

#[test]
fn a_wrong_checksum_names_itself_and_keeps_what_came_before() {
    let mut bytes = encode(&[record(0, Some(b"good"))], Compression::None);
    let mut second = encode(&[record(1, Some(b"bad"))], Compression::None);
    *second.last_mut().expect("bytes") ^= 1;
    bytes.extend(second);
    let mut builder = BlockBuilder::new(Partition::new("t", 0), 0);
    let (mut scratch, mut full) = (Vec::new(), |_| {});
    let mut batches = Batches {
        next: 0,
        leader_epoch: -1,
        block: &mut builder,
        scratch: &mut scratch,
        bytes_max: BYTES_MAX,
        record_bytes_max: BYTES_MAX,
    };
    let error = batches.read(&bytes, &[], &mut full).expect_err("refused");
    assert!(matches!(error, BatchError::Checksum), "{error}");
    assert_eq!(batches.next, 1);
    assert_eq!(builder.take().positions, [0]);
}

#[test]
fn old_formats_are_refused_by_name() {
    let mut bytes = encode(&[record(0, Some(b"x"))], Compression::None);
    bytes[16] = 1;
    assert!(matches!(read_from(0, &bytes, &[]), Err(BatchError::Magic(1))));
}

/// Fields of the old formats stand where an end would be, so none may be read from there.
#[test]
fn old_formats_have_no_end() {
    let before = encode(&[record(0, Some(b"x")), record(1, Some(b"y"))], Compression::None);
    // Larger than the head of a batch, so that there is something to be mistaken for one.
    let mut old = encode(&[record(7, Some(&[b'z'; 100]))], Compression::None);
    for magic in [0, 1, 3] {
        old[16] = magic;
        let bytes = [before.clone(), old.clone(), before.clone()].concat();
        assert_eq!(end(&old), None, "{magic}");
        assert_eq!(end(&bytes), Some((2, 3)), "{magic}: what stands before it is read");
        assert_eq!(end_of_unread(&bytes, 2), None, "{magic}");
    }
}

#[test]
fn a_batch_that_unpacks_to_more_than_is_held_is_read_record_by_record() {
    let large = vec![b'x'; BYTES_MAX * 3 / 4];
    let mut records: Vec<Record> = (0..6).map(|n| record(n, Some(&large[n as usize..]))).collect();
    records[1].value = None;
    records[2].key = Some(Bytes::from_static(b"key"));
    records[3].headers.insert(StrBytes::from_static_str("h"), Some(Bytes::from_static(b"v")));
    records[4].headers.insert(StrBytes::from_static_str("none"), None);
    let expected = {
        let whole: Vec<Got> = records
            .iter()
            .map(|r| read_from(0, &encode(std::slice::from_ref(r), Compression::None), &[]).expect("reads"))
            .collect();
        whole.into_iter().flat_map(|got| got.records).collect::<Vec<_>>()
    };
    for codec in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
        let bytes = encode(&records, codec);
        let got = read_from(0, &bytes, &[]).expect("reads");
        assert!(got.records == expected, "{codec:?}: {:?}", positions(&got));
        assert_eq!(got.next, 6);
        let rest = read_from(4, &bytes, &[]).expect("reads");
        assert!(rest.records == expected[4..], "{codec:?}: {:?}", positions(&rest));
    }
}

#[test]
fn a_record_that_unpacks_to_more_than_is_taken_is_cut_and_harms_no_other() {
    let bomb = vec![0; 40 * BYTES_MAX];
    let records = [record(0, Some(b"before")), record(1, Some(&bomb)), record(2, Some(b"behind"))];
    for codec in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
        let bytes = encode(&records, codec);
        let mut builder = BlockBuilder::new(Partition::new("t", 0), 0).bounded(1_000);
        let mut scratch = Vec::new();
        let mut blocks = Vec::new();
        let mut batches = Batches {
            next: 0,
            leader_epoch: -1,
            block: &mut builder,
            scratch: &mut scratch,
            bytes_max: BYTES_MAX,
            record_bytes_max: 1_000,
        };
        batches.read(&bytes, &[], &mut |block| blocks.push(block)).expect("reads");
        assert!(scratch.capacity() <= BYTES_MAX, "{codec:?} held {}", scratch.capacity());
        blocks.push(builder.take());
        let bodies: Vec<Vec<u8>> = blocks
            .iter()
            .flat_map(|block| (0..block.len()).map(|row| block.payloads.get(row).to_vec()))
            .collect();
        assert_eq!(bodies, [b"before".to_vec(), vec![0; 1_000], b"behind".to_vec()], "{codec:?}");
        assert_eq!(blocks[0].cut, [(1, bomb.len() as u64)], "{codec:?}");
    }
}

/// A batch as C programs write Snappy: its records as one block, without the blocks of Java.
fn bare_snappy(records: &[Record]) -> Vec<u8> {
    let mut bytes = encode(records, Compression::None);
    let packed = snap::raw::Encoder::new().compress_vec(&bytes[HEADER_BYTES..]).expect("packs");
    bytes.truncate(HEADER_BYTES);
    bytes.extend(packed);
    let len = (bytes.len() - PREFIX_BYTES) as i32;
    bytes[8..PREFIX_BYTES].copy_from_slice(&len.to_be_bytes());
    bytes[CRC_FROM + 1] |= 2;
    summed(&bytes)
}

#[test]
fn a_batch_that_cannot_be_read_is_left_out_by_going_on_at_its_end() {
    // Bare Snappy is one block, which has to be there as a whole.
    let bomb = vec![0; 40 * BYTES_MAX];
    let before = encode(&[record(0, Some(b"before"))], Compression::Lz4);
    let middle = [record(4, Some(b"with it")), record(6, Some(&bomb))];
    let behind = encode(&[record(9, Some(b"behind"))], Compression::Lz4);
    let small = bare_snappy(&[record(4, Some(b"small"))]);
    assert_eq!(positions(&read_from(0, &small, &[]).expect("reads")), [4]);
    let bombed = [before.clone(), bare_snappy(&middle), behind.clone()].concat();
    let error = read_from(0, &bombed, &[]).map(|got| got.next).expect_err("refused");
    assert!(matches!(error, BatchError::Inflate(InflateError::TooLarge { .. })), "{error}");
    assert_eq!(end_of_unread(&bombed, 1), Some(7));
    // The head is inside the checksum, which says nothing of what is wrong.
    let mut wrong = [before, encode(&middle[..1], Compression::None), behind].concat();
    let at = wrong.windows(7).position(|bytes| bytes == b"with it").expect("not packed");
    wrong[at] ^= 1;
    assert!(matches!(read_from(0, &wrong, &[]), Err(BatchError::Checksum)));
    assert_eq!(end_of_unread(&wrong, 1), Some(5));
    for bytes in [&bombed, &wrong] {
        let end = end_of_unread(bytes, 1).expect("known");
        let rest = &bytes[bytes.len() - encode(&[record(9, Some(b"behind"))], Compression::Lz4).len()..];
        assert_eq!(positions(&read_from(end, rest, &[]).expect("reads")), [9]);
    }
    // All was read, or a head says nothing.
    assert_eq!(end_of_unread(&bombed, 10), None);
    assert_eq!(end_of_unread(b"no batch", 0), None);
    let mut first = wrong.clone();
    first[LAST_DELTA_AT] = 0xff;
    assert_eq!(end_of_unread(&first, 0), None);
}

#[test]
fn blocks_are_cut_at_their_bounds() {
    let records: Vec<Record> = (0..20_000).map(|n| record(n, Some(b"0123456789"))).collect();
    let bytes = encode(&records, Compression::None);
    let mut builder = BlockBuilder::new(Partition::new("t", 0), 0);
    let (mut scratch, mut cuts) = (Vec::new(), Vec::new());
    let mut batches = Batches {
        next: 0,
        leader_epoch: -1,
        block: &mut builder,
        scratch: &mut scratch,
        bytes_max: 8 << 20,
        record_bytes_max: 8 << 20,
    };
    batches
        .read(&bytes, &[], &mut |block| cuts.push((block.positions[0], block.next, block.leader_epoch)))
        .expect("reads");
    assert_eq!(cuts, [(0, 8_192, 3), (8_192, 16_384, 3)]);
    let rest = builder.take();
    assert_eq!((rest.positions[0], rest.next, rest.len()), (16_384, 20_000, 3_616));
}

/// Some producers write times before 1970, which no reader means: a clock of such a record would hold a watermark back for ever.
#[test]
fn times_before_1970_are_no_times() {
    let times = [7, -5, 8, -1, -86_400_000, i64::MIN / 2, 9];
    let of = |(offset, time): (usize, &i64)| Record { timestamp: *time, ..record(offset as i64, Some(b"x")) };
    let records: Vec<Record> = times.iter().enumerate().map(of).collect();
    let wanted = times.map(|time| if time < 0 { block::TIME_UNKNOWN_MS } else { time });
    for codec in CODECS {
        let got = read_from(0, &encode(&records, codec), &[]).expect("reads");
        assert_eq!(got.records.iter().map(|row| row.1).collect::<Vec<_>>(), wanted, "{codec:?}");
    }
}

/// Puts the right checksums under changed batches.
fn summed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some((batch, _)) = whole(&bytes[at..]) {
        let len = batch.len();
        if len >= CRC_FROM {
            let crc = crc32c::crc32c(&batch[CRC_FROM..]);
            bytes[at + CRC_FROM - 4..at + CRC_FROM].copy_from_slice(&crc.to_be_bytes());
        }
        at += len;
    }
    bytes
}

#[test]
fn fuzz_record_batches() {
    let mut rich = record(5, Some(&b"body ".repeat(20)));
    rich.key = Some(Bytes::from_static(b"key"));
    rich.headers = [("h", Some("v")), ("n", None)]
        .into_iter()
        .map(|(name, value)| {
            (StrBytes::from_static_str(name), value.map(|v: &'static str| Bytes::from_static(v.as_bytes())))
        })
        .collect();
    let transaction = of_transaction(9, record(6, Some(b"aborted")));
    let mut examples: Vec<Vec<u8>> =
        CODECS.iter().map(|codec| encode(&[rich.clone(), record(7, None)], *codec)).collect();
    examples.push(
        [encode(&[transaction], Compression::None), encode(&[marker(9, 7, ABORT)], Compression::Zstd)]
            .concat(),
    );
    // What a batch unpacks to is bounded, by pieces of the codecs' own at the least: blocks of LZ4 have up to 8 MiB.
    testkit::Fuzz::new("record batches").examples(examples).memory_max(48 << 20, 1 << 10).run(
        10_000,
        |bytes| {
            let _ = read_from(0, bytes, &[]);
            let bytes = summed(bytes);
            let _ = end(&bytes);
            let _ = end_of_unread(&bytes, 3);
            let whole = read_from(0, &bytes, &[(9, 6)]);
            // The same where nothing is held but one record.
            let mut builder = BlockBuilder::new(Partition::new("t", 0), 0).bounded(1_000);
            let mut scratch = Vec::new();
            let mut batches = Batches {
                next: 0,
                leader_epoch: -1,
                block: &mut builder,
                scratch: &mut scratch,
                bytes_max: 16,
                record_bytes_max: 1_000,
            };
            let _ = batches.read(&bytes, &[(9, 6)], &mut |_| {});
            if let Ok(whole) = whole {
                assert!(whole.records.iter().is_sorted_by(|a, b| a.0 < b.0), "positions ascend");
                assert!(whole.records.last().is_none_or(|last| last.0 < whole.next));
            }
        },
    );
}
