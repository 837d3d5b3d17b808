//! The rules of [`Decoder`] as tests that any format runs.
//!
//! Owns what holds for records and blocks whatever the format: accounts, rejects, and what is cut off, empty or too long. Does not own values and types,
//! which are each format's own tests. A format's test calls [`run`] with a [`Fixture`].
//!
//! | rule                                                  | function                                        |
//! |-------------------------------------------------------|--------------------------------------------------|
//! | every record is a row, several, or a reject           | [`every_record_is_counted_once`]                 |
//! | a reject leaves no trace in its neighbours            | [`a_reject_leaves_no_trace`]                     |
//! | a reject names its record and its rule, and holds it   | [`a_reject_names_its_record`]                    |
//! | the same block gives the same, whole or in parts       | [`a_block_gives_the_same_again_and_in_parts`]    |
//! | no bytes make it panic                                 | [`records_that_are_cut_off_are_counted`], [`changed_bytes_are_counted`] |
//! | a record is as long as it may be, and no longer        | [`a_record_that_is_too_long_is_a_reject`]        |
//! | nothing is a row of nothing                            | [`an_empty_block_has_no_rows`], [`a_record_without_a_body_is_a_reject`] |
//! | a row of several is a record of its own once split     | [`the_rows_of_a_record_are_records_of_their_own`] |

use crate::{BlockBuilder, Decoded, Decoder, Partition, Reason, RecordBlock, Several, position};

/// The longest record that a fixture's decoder takes, bytes.
pub const RECORD_BYTES_MAX: usize = 64 << 10;

/// Bytes of a message at the most: it quotes a record, and does not repeat it.
const MESSAGE_BYTES_MAX: usize = 2_000;

/// Where the first record of a block stands.
const FIRST: u64 = 100;

/// A format with records of known fate.
pub trait Fixture {
    /// The decoder under test, which takes records of up to [`RECORD_BYTES_MAX`].
    fn decoder(&self) -> Box<dyn Decoder>;

    /// Records that hold a row at least, all different: three or more.
    fn good(&self) -> Vec<Vec<u8>>;

    /// Records that are rejected as a whole, and why: a value of another type than its column's among them, if the format tells types apart.
    fn bad(&self) -> Vec<(Vec<u8>, Reason)>;

    /// A good record with a text of so many bytes in it; `None` if no record has a text.
    fn long(&self, text_bytes: usize) -> Option<Vec<u8>>;

    /// The block with what stands beside its records: a [head](RecordBlock::head), the name of a [schema](RecordBlock::schema).
    fn around(&self, block: RecordBlock) -> RecordBlock {
        block
    }
}

/// Runs every rule.
pub fn run(fixture: &dyn Fixture) {
    assert!(fixture.good().len() >= 3 && !fixture.bad().is_empty(), "a fixture has records of both kinds");
    every_record_is_counted_once(fixture);
    a_reject_leaves_no_trace(fixture);
    a_reject_names_its_record(fixture);
    a_block_gives_the_same_again_and_in_parts(fixture);
    records_that_are_cut_off_are_counted(fixture);
    changed_bytes_are_counted(fixture);
    a_record_that_is_too_long_is_a_reject(fixture);
    an_empty_block_has_no_rows(fixture);
    a_record_without_a_body_is_a_reject(fixture);
    the_rows_of_a_record_are_records_of_their_own(fixture);
}

/// A block of these records, each with a key; one without bytes has no body.
fn block(fixture: &dyn Fixture, records: &[Option<Vec<u8>>]) -> RecordBlock {
    let mut builder = BlockBuilder::new(Partition::new("suite", 3), position::position(5, FIRST));
    for (n, record) in records.iter().enumerate() {
        // Positions with gaps.
        let at = FIRST + 2 * n as u64;
        builder.push(at, 1_000 + n as i64, record.as_deref());
        builder.key(format!("key {n}").as_bytes());
    }
    fixture.around(builder.take())
}

fn of(fixture: &dyn Fixture, records: &[Vec<u8>]) -> RecordBlock {
    block(fixture, &records.iter().cloned().map(Some).collect::<Vec<_>>())
}

/// Good and bad ones in turn, with one without a body and one without a byte between them.
fn mixed(fixture: &dyn Fixture) -> Vec<Option<Vec<u8>>> {
    let (good, bad) = (fixture.good(), fixture.bad());
    let mut all = Vec::new();
    for n in 0..good.len().max(bad.len()) {
        all.push(Some(good[n % good.len()].clone()));
        all.push(Some(bad[n % bad.len()].0.clone()));
    }
    all.insert(all.len() / 2, None);
    all.insert(all.len() / 3, Some(Vec::new()));
    all
}

/// Rows as text, each with the position and the time of its record.
fn shown(decoded: &Decoded) -> Vec<String> {
    let rows = &decoded.batch.rows;
    let row = |n: usize| {
        let columns: Vec<_> = rows.columns().iter().map(|column| column.slice(n, 1)).collect();
        let at = (decoded.batch.positions[n], decoded.batch.times_ms[n]);
        format!("{at:?} {columns:?}")
    };
    (0..rows.num_rows()).map(row).collect()
}

/// The same without positions and times.
fn values(decoded: &Decoded) -> Vec<String> {
    let text = |row: String| row.split_once(") ").map(|(_, values)| values.to_owned());
    shown(decoded).into_iter().filter_map(text).collect()
}

/// Decoder 1: what holds for every block, whatever its bytes.
fn decode(decoder: &dyn Decoder, block: &RecordBlock) -> Decoded {
    let decoded = decoder.decode(block);
    let (batch, records) = (&decoded.batch, block.len() as u64);
    assert_eq!(batch.rows.schema_ref(), decoder.schema().arrow(), "the columns are those of the schema");
    assert_eq!(
        (&batch.partition, batch.era),
        (&block.partition, block.era),
        "the batch is of the block's partition"
    );
    assert_eq!(batch.positions.len(), batch.rows.num_rows(), "each row has a position");
    assert_eq!(batch.times_ms.len(), batch.rows.num_rows(), "each row has a time");
    let rejected = decoded.rejects.len() as u64;
    match decoded.several {
        None => {
            assert_eq!(
                batch.len() as u64 + rejected,
                records,
                "decoder 1: every record is a row or a reject"
            );
            assert!(batch.positions.is_sorted_by(|a, b| a < b), "rows are in the order of their records");
        }
        Some(Several { records: with_rows, empty, rejected_rows }) => {
            assert!(decoder.multiplies(), "a decoder says whether a record may hold several rows");
            let whole = rejected - rejected_rows as u64;
            assert_eq!(
                with_rows + empty + whole,
                records,
                "decoder 1: every record has rows, none, or is a reject"
            );
            assert!(batch.positions.is_sorted(), "rows are in the order of their records");
        }
    }
    for position in &batch.positions {
        assert!(block.positions.contains(position), "a row has the position of a record");
    }
    let rejected_rows = decoded.several.map_or(0, |several| several.rejected_rows);
    let whole = &decoded.rejects[..decoded.rejects.len() - rejected_rows];
    assert!(whole.is_sorted_by(|a, b| a.position < b.position), "rejects are in the order of their records");
    for reject in whole {
        let is_row = batch.positions.contains(&position::low(reject.position));
        assert!(!is_row, "decoder 1: no record is both a row and a reject: {}", reject.message);
    }
    for reject in &decoded.rejects {
        let row = block.row_of(reject.position).expect("a reject has the position of a record");
        assert_eq!(reject.time_ms, block.times_ms[row], "a reject has the time of its record");
        assert!(
            !reject.message.is_empty() && reject.message.len() <= MESSAGE_BYTES_MAX,
            "{}",
            reject.message
        );
    }
    decoded
}

/// Decoder 1: good records, bad ones, empty ones and ones without a body in one block.
pub fn every_record_is_counted_once(fixture: &dyn Fixture) {
    let decoder = fixture.decoder();
    let good = decode(&*decoder, &of(fixture, &fixture.good()));
    assert!(good.rejects.is_empty(), "the fixture's good records are good: {:?}", good.rejects);
    for (record, reason) in fixture.bad() {
        let bad = decode(&*decoder, &of(fixture, std::slice::from_ref(&record)));
        let found: Vec<_> = bad.rejects.iter().map(|reject| reject.reason).collect();
        assert_eq!((bad.batch.len(), found), (0, vec![reason]), "{:?}: {:?}", record, bad.rejects);
    }
    decode(&*decoder, &block(fixture, &mixed(fixture)));
}

/// Decoder 2: the rows beside rejects are those that the good records give alone.
pub fn a_reject_leaves_no_trace(fixture: &dyn Fixture) {
    let decoder = fixture.decoder();
    let good: Vec<Vec<u8>> = fixture.good();
    let alone = values(&decode(&*decoder, &of(fixture, &good)));
    let (bad, reasons): (Vec<Vec<u8>>, Vec<Reason>) = fixture.bad().into_iter().unzip();
    for (record, reason) in bad.iter().zip(reasons) {
        let mut all = vec![record.clone()];
        good.iter().for_each(|good| all.extend([good.clone(), record.clone()]));
        let beside = decode(&*decoder, &of(fixture, &all));
        assert_eq!(values(&beside), alone, "decoder 2: beside records that are {}", reason.as_str());
        assert_eq!(beside.rejects.len(), good.len() + 1);
    }
}

/// Decoder 3: a dead letter needs the place, time, key and bytes of the record, and says which rule it broke.
pub fn a_reject_names_its_record(fixture: &dyn Fixture) {
    let decoder = fixture.decoder();
    let bad = fixture.bad();
    let records: Vec<Vec<u8>> = bad.iter().map(|(record, _)| record.clone()).collect();
    let block = of(fixture, &records);
    let decoded = decode(&*decoder, &block);
    assert_eq!(decoded.rejects.len(), bad.len());
    for (n, (reject, (record, reason))) in decoded.rejects.iter().zip(&bad).enumerate() {
        assert_eq!((&reject.partition, reject.position), (&block.partition, block.position(n)), "its place");
        assert_eq!(reject.key.as_deref(), Some(format!("key {n}").as_bytes()), "its key");
        assert_eq!(
            (&reject.raw, reject.reason),
            (record, *reason),
            "its bytes and its rule: {}",
            reject.message
        );
        assert!(reject.item.is_none() || decoder.multiplies(), "the record is at fault, or its only row");
    }
}

/// Decoder 4: pure. The same block gives the same, and its parts together give what the whole gives.
pub fn a_block_gives_the_same_again_and_in_parts(fixture: &dyn Fixture) {
    let (decoder, other) = (fixture.decoder(), fixture.decoder());
    let block = block(fixture, &mixed(fixture));
    let whole = decode(&*decoder, &block);
    for again in [decode(&*decoder, &block), decode(&*other, &block)] {
        assert_eq!(
            (shown(&again), &again.rejects),
            (shown(&whole), &whole.rejects),
            "decoder 4: the same again"
        );
    }
    for cut in 1..block.len() {
        let (first, second) = block.split(cut);
        let (first, second) = (decode(&*decoder, &first), decode(&*decoder, &second));
        assert_eq!(
            [shown(&first), shown(&second)].concat(),
            shown(&whole),
            "decoder 4: in two parts at {cut}"
        );
        assert_eq!(first.rejects.len() + second.rejects.len(), whole.rejects.len());
    }
}

/// Decoder 5: a record that ends anywhere.
pub fn records_that_are_cut_off_are_counted(fixture: &dyn Fixture) {
    let decoder = fixture.decoder();
    let all = fixture.good().into_iter().chain(fixture.bad().into_iter().map(|(record, _)| record));
    for record in all {
        let cut: Vec<Vec<u8>> = (0..record.len()).map(|len| record[..len].to_vec()).collect();
        decode(&*decoder, &of(fixture, &cut));
        // One behind the other, so that a reader that reads on finds the next record's bytes.
        cut.iter().for_each(|cut| drop(decode(&*decoder, &of(fixture, &[cut.clone(), record.clone()]))));
    }
}

/// Decoder 5: a record with a byte changed, more, or once more behind itself.
pub fn changed_bytes_are_counted(fixture: &dyn Fixture) {
    let decoder = fixture.decoder();
    for record in fixture.good() {
        let mut changed = vec![[record.as_slice(), &record].concat(), [record.as_slice(), &[0]].concat()];
        for at in 0..record.len() {
            for byte in [0, 1, 0x22, 0x7f, 0x80, 0xff, record[at] ^ 1, record[at] ^ 0x80] {
                let mut one = record.clone();
                one[at] = byte;
                changed.push(one);
            }
        }
        changed.chunks(64).for_each(|records| drop(decode(&*decoder, &of(fixture, records))));
    }
}

/// A record of [`RECORD_BYTES_MAX`] is taken, a longer one is a reject beside which all others are read.
pub fn a_record_that_is_too_long_is_a_reject(fixture: &dyn Fixture) {
    let decoder = fixture.decoder();
    let beside = fixture.good();
    let Some(longest) = fixture.long(RECORD_BYTES_MAX / 2) else { return };
    assert!(longest.len() > RECORD_BYTES_MAX / 2 && longest.len() <= RECORD_BYTES_MAX);
    let taken = decode(&*decoder, &of(fixture, &[longest, beside[0].clone()]));
    assert!(taken.rejects.is_empty(), "a long record is a record: {:?}", taken.rejects[0].message);
    for bytes in [RECORD_BYTES_MAX, 16 * RECORD_BYTES_MAX] {
        let long = fixture.long(bytes).expect("as above");
        let records = [beside[0].clone(), long, beside[1].clone()];
        let decoded = decode(&*decoder, &of(fixture, &records));
        let [reject] = decoded.rejects.as_slice() else {
            panic!("one is too long: {:?}", decoded.rejects.len())
        };
        assert_eq!((reject.reason, reject.raw.len()), (Reason::TooLarge, records[1].len()));
        let others = values(&decode(&*decoder, &of(fixture, &beside[..2])));
        assert_eq!(values(&decoded), others, "the records beside it are read");
    }
}

/// No record, no row; the columns are there.
pub fn an_empty_block_has_no_rows(fixture: &dyn Fixture) {
    let decoded = decode(&*fixture.decoder(), &block(fixture, &[]));
    assert_eq!((decoded.batch.len(), decoded.rejects.len()), (0, 0));
}

/// A tombstone has no row, and no format makes one of it.
pub fn a_record_without_a_body_is_a_reject(fixture: &dyn Fixture) {
    let decoded =
        decode(&*fixture.decoder(), &block(fixture, &[None, Some(fixture.good()[0].clone()), None]));
    let reasons: Vec<_> = decoded.rejects.iter().map(|reject| reject.reason).collect();
    assert_eq!(reasons, [Reason::NoBody; 2]);
    assert!(!decoded.batch.is_empty(), "the record between them is read");
}

/// Where records hold several rows: the pieces of a record, decoded each by itself, give its rows.
pub fn the_rows_of_a_record_are_records_of_their_own(fixture: &dyn Fixture) {
    let decoder = fixture.decoder();
    let block = of(fixture, &fixture.good());
    for row in 0..block.len() {
        let Some(pieces) = decoder.split(&block, row) else {
            assert!(!decoder.multiplies(), "a record that holds several rows can be split");
            continue;
        };
        let whole = decode(&*decoder, &block.one(block.position(row)).expect("a record of the block"));
        assert_eq!(pieces.len(), whole.batch.len(), "a piece for each row");
        let pieces: Vec<Vec<u8>> = (0..pieces.len()).map(|n| pieces.get(n).to_vec()).collect();
        assert_eq!(
            values(&decode(&*decoder, &of(fixture, &pieces))),
            values(&whole),
            "each piece is its row"
        );
    }
}
