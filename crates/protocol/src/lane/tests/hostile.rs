//! Records that no program of ours wrote, and the largest that one may write.

use super::*;
use crate::record::{Before, Change, HandOver, KeptState, Move, Question, Removal, Rename, Rewind};

#[test]
fn fuzz_fold_of_records_that_no_program_of_ours_wrote() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0, 1]))).expect("a good seal");
    w.push(Body::Seal(seal(20, 30, &[2]))).expect("and another");
    let frames: Vec<Frame> = seal(30, 40, &[7, 8]).frames;
    let bodies = [
        Body::Seal(seal(30, 40, &[3])),
        Body::Claim(Claim::default()),
        Body::Genesis(Genesis {
            partitions: vec![PartitionGenesis { stream: "f".into(), next_low: 5, ..Default::default() }],
            ..Default::default()
        }),
        Body::Settle(Settle {
            settled: vec![Frontier { table: 0, frontier: 1, window: 2, sent_below: None }],
            servers: vec![],
            ..Default::default()
        }),
        Body::Generation(crate::record::Generation {
            table: 0,
            ordinal: 0,
            piece: 0,
            generation: 2,
            server: None,
        }),
        Body::Split(crate::record::Split {
            table: 0,
            ordinal: 1,
            piece: 0,
            segment: "s".into(),
            pieces: frames,
            layouts: vec![],
        }),
        Body::Checkpoint(Checkpoint {
            lane: Some(w.lane.image(2)),
            states: vec![],
            state_seq: 2,
            files: vec![],
        }),
    ];
    let examples = bodies.map(|body| prost::Message::encode_to_vec(&w.record(body)));
    testkit::Fuzz::new("fold").examples(examples).run(20_000, |bytes| {
        let Ok(record) = <Record as prost::Message>::decode(bytes) else { return };
        // Its place is right, whatever it says: the rules behind are what is tried.
        let next =
            Record { seq: w.lane.next_seq, epoch: w.epoch, nonce: vec![w.nonce; 16], ..record.clone() };
        let mut lane = w.lane.clone();
        let (checked, applied) = (lane.check(&next), lane.apply(&next));
        assert_eq!(checked, applied);
        if applied.is_err() {
            assert_eq!(lane, w.lane, "a refused record changes nothing");
        }
        let Ok(mut restored) = Lane::from_checkpoint(&record) else { return };
        let _ = restored.spool_bytes();
        let next =
            Record { seq: restored.next_seq, epoch: restored.epoch, nonce: restored.nonce.clone(), ..next };
        let _ = restored.apply(&next);
    });
}

/// The records that came later than seals: those that move a lane, change what it is made of, or end it.
#[test]
fn fuzz_fold_of_records_that_move_change_or_end_a_lane() {
    let w = Writer::new();
    let moved = |next_low| Move { partition: 0, from_low: 10, next_low, ..Move::default() };
    let began = |index, next_low| Genesis {
        partitions: vec![PartitionGenesis {
            stream: "e".into(),
            index,
            next_low,
            ..PartitionGenesis::default()
        }],
        ..Genesis::default()
    };
    let steps = vec![StepShape::new("dedup", "key")];
    let bodies = [
        Body::Rewind(Rewind { moves: vec![moved(3)], emptied: vec![0], at_ms: 7, ..Rewind::default() }),
        Body::Rewind(Rewind { moves: vec![moved(30)], ..Rewind::default() }),
        Body::Forget(Forget {
            partitions: vec![Forgotten { partition: 0, from_start: true, at_ms: 7 }],
            ..Forget::default()
        }),
        Body::Genesis(began(1, 5)),
        Body::Change(Change { steps, kept: vec![KeptState { step: 0, before: 0 }], ..Change::default() }),
        Body::HandOver(HandOver { to: 1, partitions: vec![0] }),
        Body::Rename(Rename { to: "q".into(), is_done: true, ..Rename::default() }),
        Body::Question(Question::default()),
        Body::Answer(Answer::default()),
        Body::Removal(Removal {
            before: Some(Before { until_ms: 9, replays_from: 3, ..Before::default() }),
            ..Removal::default()
        }),
    ];
    let examples = bodies.map(|body| prost::Message::encode_to_vec(&w.record(body)));
    testkit::Fuzz::new("moves").examples(examples).run(20_000, |bytes| {
        let Ok(record) = <Record as prost::Message>::decode(bytes) else { return };
        // A removal is a claim as well. The place is right, whatever the record says.
        let more = u8::from(matches!(record.body, Some(Body::Removal(_))));
        let (epoch, nonce) = (w.epoch + u64::from(more), vec![w.nonce + more; 16]);
        let next = Record { seq: w.lane.next_seq, epoch, nonce, ..record };
        let mut lane = w.lane.clone();
        let applied = lane.apply(&next);
        assert_eq!(w.lane.check(&next), applied);
        if applied.is_err() {
            assert_eq!(lane, w.lane, "a refused record changes nothing");
        }
        // What follows meets the lane as it is then: the partition that was read comes back.
        let (epoch, nonce) = (lane.epoch, lane.nonce.clone());
        let body = Some(Body::Genesis(began(0, 5)));
        let _ = lane.apply(&Record { seq: lane.next_seq, epoch, nonce, written_at_ms: i64::MAX, body });
    });
}

#[test]
fn fault_17_the_largest_spool_and_the_most_partitions_fit_into_a_record() {
    const FRAMES: u64 = 100_000;
    const PARTITIONS: u32 = 10_000;
    let long = |n: usize| "x".repeat(n);
    let server =
        Sighting { table_uuid: long(120), facts: long(150).into_bytes().into(), ..Default::default() };
    let piece = |ordinal| Piece {
        frame: Frame {
            ordinal,
            id: vec![255; 16],
            table_partition: long(60),
            offset: u64::MAX,
            len: u64::MAX,
            rows: u64::MAX,
            crc32c: u32::MAX,
            probe_len: u64::MAX,
            origins_len: u64::MAX,
            layout: u32::MAX,
            ..Default::default()
        },
        piece: 0,
        generation: 0,
        segment: long(120),
        server: Some(server.clone()),
        dead: false,
        first_row: u64::MAX,
        layout: None,
        sealed_at_ms: i64::MAX,
        question: None,
        verdict: None,
        settled: false,
    };
    let mut lane = Lane::new();
    lane.partitions = (0..PARTITIONS)
        .map(|index| PartitionState {
            input: 0,
            stream: long(249),
            index,
            identity: long(36),
            next: Position::MAX,
            leader_epoch: i32::MAX,
            time_ms_max: i64::MAX,
            taken_over: None,
        })
        .collect();
    lane.tables.push(TableState {
        name: "d.t".into(),
        frontier: 0,
        window: 64,
        next_ordinal: FRAMES,
        server: Some(server.clone()),
        pending: (0..FRAMES).map(|n| vec![piece(n)]).collect(),
        ..TableState::default()
    });
    let checkpoint = Checkpoint { lane: Some(lane.image(0)), ..Default::default() };
    let record = Record { body: Some(Body::Checkpoint(checkpoint)), ..Default::default() };
    let bytes = record.to_bytes();
    assert!((bytes.len() as u64) < crate::record::RECORD_BYTES_MAX, "{} bytes", bytes.len());
    assert!(Record::from_bytes(0, &bytes).is_ok());
}

/// The largest numbers there are, in every place that a lane counts with.
#[test]
fn numbers_that_no_lane_counts_to_are_a_violation_and_no_overflow() {
    const MOST: u64 = u64::MAX;
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0]))).expect("a good seal");
    let counts = |read, passed, late| of_input(Counts { read, passed, late, ..Default::default() });
    let sealed = |change: fn(&mut Seal)| {
        let mut seal = seal(20, 30, &[1]);
        change(&mut seal);
        Body::Seal(seal)
    };
    for body in [
        Body::Seal(Seal { counts: counts(MOST, MOST, 0), ..seal(20, 30, &[1]) }),
        Body::Seal(Seal { counts: counts(0, MOST, 1), ..seal(20, 30, &[1]) }),
        sealed(|seal| seal.ranges[0].next_low = MOST),
        sealed(|seal| seal.segment_bytes = MOST),
        sealed(|seal| seal.frames[0].rows = MOST),
        sealed(|seal| seal.rows[0].rows = MOST),
        sealed(|seal| seal.derived = Some(Derived { rows: MOST, dropped: MOST, ..Default::default() })),
        sealed(|seal| (seal.frames[0].offset, seal.frames[0].len) = (MOST, MOST)),
        sealed(|seal| seal.states = vec![StateDelta { offset: MOST, len: MOST, ..Default::default() }]),
        Body::Split(Split {
            pieces: vec![
                Frame { rows: MOST, ..Default::default() },
                Frame { rows: MOST, ..Default::default() },
            ],
            ..Default::default()
        }),
    ] {
        let shown = format!("{body:?}");
        w.push(body).expect_err(&shown);
    }
}

#[test]
fn a_checkpoint_that_no_lane_could_have_written_is_a_violation() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0, 1]))).expect("a good seal");
    let restored = |change: &dyn Fn(&mut LaneImage, &mut Record)| {
        let mut image = w.lane.image(0);
        let empty = Body::Checkpoint(Checkpoint::default());
        let mut record = w.record(empty);
        change(&mut image, &mut record);
        record.body = Some(Body::Checkpoint(Checkpoint {
            lane: Some(image),
            states: vec![],
            state_seq: 0,
            files: vec![],
        }));
        Lane::from_checkpoint(&record)
    };
    restored(&|_, _| ()).expect("as it was written");
    type Change<'a> = &'a dyn Fn(&mut LaneImage, &mut Record);
    let changes: [Change<'_>; 16] = [
        &|_, record| record.seq = u64::MAX,
        &|_, record| record.epoch = u64::MAX,
        &|image, _| {
            image.inputs[0].counts = Some(Counts { read: u64::MAX, passed: u64::MAX, ..Default::default() });
        },
        &|image, _| image.inputs[0].counts = Some(Counts { read: 9, passed: 8, ..Default::default() }),
        &|image, _| image.partitions[0].input = 1,
        &|image, _| image.derived = Some(Derived { rows: u64::MAX, ..Default::default() }),
        &|image, _| image.tables[0].rows = Some(Rows { sealed: 20, settled: 1, refused: 0, replaced: 0 }),
        &|image, _| image.tables[0].takes_dead_letters = true,
        &|image, _| image.partitions[0].next_low = u64::MAX,
        &|image, _| image.tables[0].next_ordinal = u64::MAX,
        &|image, _| image.tables[0].frontier = 7,
        &|image, _| image.tables[0].pending.truncate(1),
        &|image, _| image.tables[0].pending[0].frame = None,
        &|image, _| image.tables[0].pending[1].piece = 9,
        &|image, _| image.tables[0].pending[0].first_row = u64::MAX,
        &|image, _| image.tables[0].pending[0].frame.as_mut().expect("a frame").rows = u64::MAX,
    ];
    for (n, change) in changes.into_iter().enumerate() {
        assert!(restored(change).is_err(), "change {n}");
    }
}
