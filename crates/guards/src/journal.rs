//! The steps of the protocol: what one seal costs its writer, and what it costs who reads it again.
//!
//! Owns a journal of a thousand seals, each with sixteen partitions and two frames. Does not own the steps (`protocol`), nor how they are
//! counted (`guards`).

use protocol::record::{
    Claim, Counts, Frame, Frontier, Genesis, InputCounts, PartitionGenesis, Range, Seal, StateDelta,
    TableGenesis, TableRows,
};
use protocol::{Body, Lane, Record, names};

use crate::Work;

/// Seals of one journal.
pub(crate) const SEALS: u64 = 1_000;
/// Partitions that move in each seal, and records of each.
const PARTITIONS: u32 = 16;
const RECORDS: u64 = 30_000;
/// Frames of each seal; as many are settled two seals later.
const FRAMES: u64 = 2;
const WINDOW: u64 = 4 * FRAMES;
const NONCE: u128 = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;

pub(crate) fn seal() -> Work {
    let (mut lane, seals) = journal();
    Box::new(move || {
        let mut done = 0;
        for record in seals {
            lane.check(&record).expect("a right seal");
            std::hint::black_box(record.to_bytes());
            lane.apply(&record).expect("a right seal");
            done += 1;
        }
        done
    })
}

pub(crate) fn recover() -> Work {
    let (mut lane, seals) = journal();
    let objects: Vec<(u64, Vec<u8>)> = seals.iter().map(|seal| (seal.seq, seal.to_bytes())).collect();
    Box::new(move || {
        let mut done = 0;
        for (seq, bytes) in &objects {
            let record = Record::from_bytes(*seq, bytes).expect("as it was written");
            lane.apply(&record).expect("a right seal");
            done += 1;
        }
        done
    })
}

/// A lane after its genesis, and its seals.
fn journal() -> (Lane, Vec<Record>) {
    let mut lane = Lane::new();
    let record = |seq, body| Record {
        seq,
        epoch: 1,
        nonce: NONCE.to_le_bytes().to_vec(),
        written_at_ms: 1_735_689_600_000,
        body: Some(body),
    };
    let partitions = (0..PARTITIONS).map(|index| PartitionGenesis {
        stream: "events".into(),
        index,
        identity: "gC8mKzTQQnCoDlFLOXEIrQ".into(),
        leader_epoch: -1,
        ..PartitionGenesis::default()
    });
    let genesis = Genesis {
        partitions: partitions.collect(),
        tables: vec![
            TableGenesis::of_rows("default.events"),
            TableGenesis::of_dead_letters("default.forebay_dead_letters"),
        ],
        pipeline: "guards".into(),
        steps: vec![protocol::record::StepShape::new("dedup", "key")],
        inputs: vec!["source".into()],
        opened: vec![0],
        parts: vec![],
    };
    let claim = Claim { owner: "host 1".into(), version: "0.1.0".into(), answers: false };
    for body in [Body::Claim(claim), Body::Genesis(genesis)] {
        let seq = lane.next_seq;
        lane.apply(&record(seq, body)).expect("a right beginning");
    }
    let first = lane.next_seq;
    let seals = (0..SEALS).map(|n| record(first + n, Body::Seal(one_seal(n)))).collect();
    (lane, seals)
}

fn one_seal(n: u64) -> Seal {
    const FRAME_BYTES: u64 = 12 << 20;
    let range = |partition| Range {
        leader_epoch: 3,
        time_ms_max: 1_735_689_600_000 + n as i64,
        ..Range::new(partition, (n * RECORDS).into(), ((n + 1) * RECORDS).into())
    };
    let read = u64::from(PARTITIONS) * RECORDS;
    let frame = |k| Frame {
        table: 0,
        ordinal: n * FRAMES + k,
        id: names::frame_id(NONCE, 0, n, k as u32).to_le_bytes().to_vec(),
        table_partition: "202501".into(),
        offset: k * FRAME_BYTES,
        len: FRAME_BYTES,
        rows: read / FRAMES,
        crc32c: 0x1234_5678,
        probe_len: 1,
        origins_len: 0,
        made: None,
        layout: 0,
    };
    Seal {
        ranges: (0..PARTITIONS).map(range).collect(),
        segment: names::segment("guards/lane-0", 1, NONCE, n),
        segment_bytes: FRAMES * FRAME_BYTES + 4_096,
        frames: (0..FRAMES).map(frame).collect(),
        states: vec![StateDelta { step: 0, offset: FRAMES * FRAME_BYTES, len: 4_096, crc32c: 0x9abc_def0 }],
        watermark_ms: 1_735_689_600_000 + n as i64,
        settled: vec![Frontier {
            table: 0,
            frontier: n.saturating_sub(2) * FRAMES,
            window: WINDOW,
            sent_below: None,
        }],
        counts: vec![InputCounts::of(0, Counts { read, passed: read, ..Counts::default() })],
        rows: vec![TableRows { table: 0, rows: read, replaced: 0 }],
        ..Seal::default()
    }
}
