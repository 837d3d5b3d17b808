use super::*;
use crate::record::{
    Answer, Claim, Fate, Forget, Forgotten, Frontier, Generation, Genesis, InputCounts, LaneImage,
    PartitionGenesis, Range, RecordPlace, Refusal, Seal, Settle, SettledAbove, Split, StateDelta, StepShape,
    TableRows,
};

/// Writes records as one owner would.
pub(super) struct Writer {
    pub(super) lane: Lane,
    pub(super) epoch: u64,
    pub(super) nonce: u8,
}

impl Writer {
    pub(super) fn new() -> Self {
        let mut writer = Self { lane: Lane::new(), epoch: 0, nonce: 0 };
        writer.claim();
        writer
            .push(Body::Genesis(Genesis {
                partitions: vec![PartitionGenesis {
                    stream: "e".into(),
                    next_low: 10,
                    leader_epoch: -1,
                    ..Default::default()
                }],
                tables: vec![TableGenesis::of_rows("d.t"), TableGenesis::of_dead_letters("d.dead")],
                pipeline: "p".into(),
                steps: vec![StepShape::new("dedup", "key")],
                inputs: vec!["source".into()],
                opened: vec![0],
                parts: vec![],
            }))
            .expect("the first genesis is fine");
        writer
    }

    pub(super) fn record(&self, body: Body) -> Record {
        Record {
            seq: self.lane.next_seq,
            epoch: self.epoch,
            nonce: vec![self.nonce; 16],
            written_at_ms: 0,
            body: Some(body),
        }
    }

    pub(super) fn push(&mut self, body: Body) -> Result<(), Violation> {
        let before = self.lane.clone();
        let result = self.lane.apply(&self.record(body));
        if result.is_err() {
            assert_eq!(self.lane, before, "a refused record changes nothing");
        }
        result
    }

    pub(super) fn claim(&mut self) {
        self.epoch += 1;
        self.nonce += 1;
        self.push(Body::Claim(Claim::default())).expect("a claim of the next epoch is fine");
    }
}

pub(super) fn seal(from: u64, next: u64, frames: &[u64]) -> Seal {
    let frame = |ordinal: &u64| Frame {
        table: 0,
        ordinal: *ordinal,
        id: vec![*ordinal as u8; 16],
        len: 10,
        rows: next - from,
        ..Default::default()
    };
    let records = next - from;
    // Each frame holds a row of every record.
    let rows = records * frames.len() as u64;
    let passed = if frames.is_empty() { 0 } else { records };
    Seal {
        ranges: vec![Range { time_ms_max: next as i64, ..Range::new(0, from.into(), next.into()) }],
        segment: format!("s{from}"),
        segment_bytes: 20,
        frames: frames.iter().map(frame).collect(),
        states: vec![StateDelta { step: 0, offset: 10, len: 5, crc32c: 0 }],
        settled: vec![Frontier { table: 0, frontier: 0, window: 2, sent_below: None }],
        counts: of_input(Counts { read: records, passed, filtered: records - passed, ..Counts::default() }),
        rows: if rows == 0 { vec![] } else { vec![TableRows { table: 0, rows, replaced: 0 }] },
        derived: (rows > passed).then(|| Derived { rows: rows - passed, ..Derived::default() }),
        ..Default::default()
    }
}

/// Counts of the first input.
pub(super) fn of_input(counts: Counts) -> Vec<InputCounts> {
    vec![InputCounts::of(0, counts)]
}

/// The same with a frame of dead letters.
pub(super) fn with_letters(mut seal: Seal, ordinal: u64, rows: u64) -> Seal {
    let id = vec![200 + ordinal as u8; 16];
    seal.frames.push(Frame { table: 1, ordinal, id, len: 10, rows, ..Default::default() });
    seal.rows.push(TableRows { table: 1, rows, replaced: 0 });
    seal
}

pub(super) fn rule(result: Result<(), Violation>) -> &'static str {
    result.expect_err("the record breaks a rule").rule
}

#[test]
fn c1_ranges_of_successive_seals_touch() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0]))).expect("touches genesis");
    assert_eq!(rule(w.push(Body::Seal(seal(21, 30, &[1])))), "C1");
    assert_eq!(rule(w.push(Body::Seal(seal(19, 30, &[1])))), "C1");
    let mut twice = seal(20, 30, &[1]);
    twice.ranges.push(twice.ranges[0]);
    assert_eq!(rule(w.push(Body::Seal(twice))), "C1");
    w.push(Body::Seal(seal(20, 30, &[1]))).expect("touches");
    assert_eq!(w.lane.partitions[0].next, 30);
}

#[test]
fn c1_a_seal_has_one_range_of_a_partition_however_many_there_are() {
    let mut w = Writer::new();
    let more = (1..200).map(|index| PartitionGenesis {
        stream: "e".into(),
        index,
        next_low: 10,
        ..Default::default()
    });
    w.push(Body::Genesis(Genesis { partitions: more.collect(), ..Genesis::default() }))
        .expect("they are new");
    let mut whole = seal(10, 10, &[]);
    whole.ranges = (0..200).map(|partition| Range { partition, ..whole.ranges[0] }).collect();
    for partition in [0, 1, 63, 64, 65, 127, 128, 199] {
        let mut twice = whole.clone();
        twice.ranges.push(twice.ranges[partition]);
        assert_eq!(rule(w.push(Body::Seal(twice))), "C1", "{partition}");
    }
    w.push(Body::Seal(whole)).expect("one each");
}

#[test]
fn c1_a_partition_has_one_genesis() {
    let mut w = Writer::new();
    let again = PartitionGenesis { stream: "e".into(), ..Default::default() };
    assert_eq!(rule(w.push(Body::Genesis(Genesis { partitions: vec![again], ..Default::default() }))), "C1");
    let new = PartitionGenesis { stream: "f".into(), ..Default::default() };
    let twice = Genesis { partitions: vec![new.clone(), new], ..Default::default() };
    assert_eq!(rule(w.push(Body::Genesis(twice))), "C1");
    let tables = vec![TableGenesis::of_rows("d.new"), TableGenesis::of_dead_letters("d.new")];
    let tables = Genesis { tables, ..Default::default() };
    assert_eq!(rule(w.push(Body::Genesis(tables))), "order");
}

fn genesis_of(stream: &str, identity: &str, next: u64) -> Body {
    let p = PartitionGenesis {
        stream: stream.into(),
        identity: identity.into(),
        next_low: next,
        leader_epoch: -1,
        ..Default::default()
    };
    Body::Genesis(Genesis { partitions: vec![p], ..Default::default() })
}

fn forget(partition: u32, from_start: bool) -> Body {
    Body::Forget(Forget { partitions: vec![Forgotten { partition, from_start }], by: "test".into() })
}

#[test]
fn c1_what_is_forgotten_is_read_no_more_and_what_is_sealed_of_it_stays() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0]))).expect("read so far");
    assert_eq!(rule(w.push(forget(1, false))), "C1", "no such partition");
    w.push(forget(0, false)).expect("it was read");
    assert_eq!(rule(w.push(forget(0, false))), "C1", "it has left already");
    assert_eq!(rule(w.push(Body::Seal(seal(20, 30, &[1])))), "C1", "no more of it is sealed");
    assert_eq!((w.lane.partition(0, "e", 0), w.lane.spool_frames()), (None, 1));
    assert_eq!((w.lane.partitions.len(), w.lane.reading().count()), (1, 0));
}

#[test]
fn c1_a_forgotten_stream_comes_back_where_it_was_left() {
    let mut w = Writer::new();
    w.push(genesis_of("f", "id", 5)).expect("a new stream");
    let range = Range { time_ms_max: 0, ..Range::new(1, 5, 9) };
    w.push(Body::Seal(Seal { ranges: vec![range], ..Seal::default() })).expect("read");
    w.push(forget(1, false)).expect("it was read");
    for other in [0, 5, 8, 10] {
        assert_eq!(rule(w.push(genesis_of("f", "id", other))), "C1", "twice, or a gap");
    }
    assert_eq!(w.lane.left_at(0, "f", 0, "id").map(|p| p.next), Some(9));
    w.push(genesis_of("f", "id", 9)).expect("goes on");
    assert_eq!(w.lane.partition(0, "f", 0), Some(2), "under an index of its own");
    assert_eq!(w.lane.left_at(0, "f", 0, "id"), None, "it is read");
    w.push(forget(2, true)).expect("it was read again");
    assert_eq!(w.lane.left_at(0, "f", 0, "id"), None, "nor does its position count");
    w.push(genesis_of("f", "id", 0)).expect("a person has said so");
}

#[test]
fn c1_another_stream_of_a_forgotten_name_begins_where_it_likes() {
    let mut w = Writer::new();
    w.push(forget(0, false)).expect("it was read");
    w.push(genesis_of("e", "", 3)).expect("nobody knows whether it is the same");
    w.push(forget(1, false)).expect("it was read");
    w.push(genesis_of("e", "other", 0)).expect("another one");
    assert_eq!(w.lane.partition(0, "e", 0), Some(2));
}

#[test]
fn a_checkpoint_remembers_what_was_forgotten() {
    let mut w = Writer::new();
    w.push(genesis_of("f", "id", 5)).expect("a new stream");
    w.push(forget(0, true)).expect("it was read");
    w.push(forget(1, false)).expect("it was read");
    let image = w.lane.image(0);
    let body = Body::Checkpoint(Checkpoint { lane: Some(image), ..Default::default() });
    let lane = Lane::from_checkpoint(&w.record(body)).expect("a checkpoint");
    assert_eq!(lane.forgotten, w.lane.forgotten);
    assert_eq!(lane.left_at(0, "f", 0, "id").map(|p| p.next), Some(5));
}

#[test]
fn c8_a_smaller_window_leaves_no_sent_frame_out() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0, 1, 2, 3]))).expect("four frames, window 2");
    let settle = |frontier, window| {
        Body::Settle(Settle {
            settled: vec![Frontier { table: 0, frontier, window, sent_below: None }],
            servers: vec![],
            ..Default::default()
        })
    };
    assert_eq!(rule(w.push(settle(0, 1))), "C8");
    w.push(settle(1, 1)).expect("the second frame is still within the window");
}

#[test]
fn c4_the_frontier_moves_only_over_frames_that_may_have_been_sent() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0, 1, 2]))).expect("three frames, window 2");
    let settle = |frontier| {
        Body::Settle(Settle {
            settled: vec![Frontier { table: 0, frontier, window: 2, sent_below: None }],
            servers: vec![],
            ..Default::default()
        })
    };
    assert_eq!(rule(w.push(settle(3))), "C4");
    w.push(settle(2)).expect("two were sendable");
    assert_eq!(rule(w.push(settle(1))), "C4");
    w.push(settle(3)).expect("the third became sendable");
    assert!(w.lane.tables[0].pending.is_empty());
    assert_eq!(w.lane.spool_bytes(), 0);
}

#[test]
fn c5_only_the_newest_owner_writes() {
    let mut w = Writer::new();
    let old = Writer { lane: w.lane.clone(), epoch: w.epoch, nonce: w.nonce };
    w.claim();
    let late = Record { seq: w.lane.next_seq, ..old.record(Body::Seal(seal(10, 20, &[0]))) };
    assert_eq!(rule(w.lane.apply(&late)), "C5");
    let twin = Record { seq: w.lane.next_seq, ..w.record(Body::Claim(Claim::default())) };
    assert_eq!(rule(w.lane.apply(&twin)), "C5");
}

#[test]
fn frames_are_numbered_without_holes() {
    let mut w = Writer::new();
    assert_eq!(rule(w.push(Body::Seal(seal(10, 20, &[1])))), "C4");
    assert_eq!(rule(w.push(Body::Seal(seal(10, 20, &[0, 0])))), "C4");
}

#[test]
fn c3_generations_follow_each_other_and_only_on_live_pieces() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0]))).expect("a seal");
    let next = |generation| {
        Body::Generation(Generation { table: 0, ordinal: 0, piece: 0, generation, server: None })
    };
    assert_eq!(rule(w.push(next(2))), "C3");
    w.push(next(1)).expect("the first new generation");
    assert_eq!(w.lane.tables[0].pieces(0).expect("pending")[0].generation, 1);
    let gone = Body::Generation(Generation { table: 0, ordinal: 1, generation: 1, ..Default::default() });
    assert_eq!(rule(w.push(gone)), "C3");
}

#[test]
fn a_split_keeps_every_row_and_kills_the_old_token() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0]))).expect("a seal of ten rows");
    let half = |rows| Frame { table: 0, id: vec![1; 16], len: 4, rows, ..Default::default() };
    let split = |pieces: Vec<Frame>| {
        Body::Split(Split { table: 0, ordinal: 0, piece: 0, segment: "h".into(), pieces, layouts: vec![] })
    };
    assert_eq!(rule(w.push(split(vec![half(5), half(4)]))), "C9");
    w.push(split(vec![half(9), half(1)])).expect("ten rows again");
    assert_eq!(rule(w.push(split(vec![half(10)]))), "C3");
    let live = |w: &Writer| -> Vec<u32> {
        w.lane.tables[0].pieces(0).expect("pending").iter().filter(|p| !p.dead).map(|p| p.piece).collect()
    };
    assert_eq!(live(&w), [1, 2]);
    let pieces = w.lane.tables[0].pieces(0).expect("pending");
    assert_eq!(
        (pieces[1].first_row, pieces[2].first_row),
        (0, pieces[1].frame.rows),
        "in the order of their rows"
    );

    // The single row that is still refused becomes a dead letter in the next seal, once.
    let refusal = Refusal { table: 0, ordinal: 0, piece: 2, record: None };
    let mut next = with_letters(seal(20, 30, &[1]), 0, 1);
    next.refusals = vec![refusal, refusal];
    assert_eq!(rule(w.push(Body::Seal(next.clone()))), "C9");
    next.refusals = vec![refusal];
    w.push(Body::Seal(next.clone())).expect("a live piece may be refused");
    assert_eq!(live(&w), [1]);
    assert_eq!((w.lane.counts.passed, w.lane.counts.dead_letters), (20, 0), "it passed all the same");
    assert_eq!(w.lane.tables[0].rows, Rows { sealed: 20, settled: 0, refused: 1, replaced: 0 });
    next.ranges[0] = Range { from_low: 30, next_low: 40, ..next.ranges[0] };
    (next.frames[0].ordinal, next.frames[1].ordinal) = (2, 1);
    assert_eq!(rule(w.push(Body::Seal(next))), "C3");
}

#[test]
fn a_checkpoint_folds_to_the_same_lane() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0]))).expect("a seal");
    let state_seq = w.lane.next_seq - 1;
    w.push(Body::Seal(seal(20, 30, &[1, 2]))).expect("a seal");
    w.push(Body::Generation(Generation { table: 0, ordinal: 0, generation: 1, ..Default::default() }))
        .expect("a generation");
    let states = vec![StateObject { step: 0, object: "o".into(), len: 5, crc32c: 1 }];
    let body = Body::Checkpoint(Checkpoint {
        lane: Some(w.lane.image(state_seq)),
        states,
        state_seq,
        files: vec![],
    });
    let record = w.record(body);
    w.lane.apply(&record).expect("a checkpoint");
    let read = Record::from_bytes(record.seq, &record.to_bytes()).expect("reads back");
    assert_eq!(Lane::from_checkpoint(&read).expect("a checkpoint"), w.lane);
    assert_eq!(w.lane.deltas.len(), 1, "the delta in the snapshot is gone, the later one stays");
}

#[test]
fn c9_fates_tell_of_every_record_of_their_range_and_the_newest_are_kept() {
    let with = |from: u64, next: u64, fates: Vec<Fates>| {
        Body::Seal(Seal { fates, ..seal(from, next, &[(from - 10) / 10]) })
    };
    let fates = |from, codes: &[u8]| Fates { from, codes: codes.to_vec(), ..Fates::default() };
    let mut w = Writer::new();
    assert_eq!(rule(w.push(with(10, 20, vec![fates(10, &[1; 9])]))), "C9");
    assert_eq!(rule(w.push(with(10, 20, vec![fates(11, &[1; 10])]))), "C9");
    assert_eq!(rule(w.push(with(10, 20, vec![fates(10, &[99; 10])]))), "C9");
    assert_eq!(rule(w.push(with(10, 20, vec![fates(10, &[1; 10]); 2]))), "C9");
    w.push(with(10, 20, vec![fates(10, &[1; 10])])).expect("ten records, ten fates");
    w.push(with(20, 30, vec![fates(20, &[3; 10])])).expect("they touch");
    assert_eq!(
        (w.lane.fates[0].at(19), w.lane.fates[0].at(20)),
        (Some(Fate::Written), Some(Fate::Duplicate))
    );
    let image = w.lane.image(0);
    assert_eq!(Lane::from_image(&image).fates, w.lane.fates, "a checkpoint keeps them");
    let many = FATES_KEPT as u64 + 30;
    w.push(with(30, many, vec![fates(30, &vec![2; FATES_KEPT])])).expect("a seal of any size");
    let kept = &w.lane.fates[0];
    assert_eq!((kept.codes.len(), kept.next(), kept.at(29)), (FATES_KEPT, many, None));
}

#[test]
fn a_row_that_is_refused_after_its_seal_is_a_dead_letter_from_then_on() {
    let mut w = Writer::new();
    let at = |position| RecordPlace::new(0, position);
    let fates = |from, codes: Vec<u8>| vec![Fates { from, codes, ..Fates::default() }];
    let sealed = Seal { fates: fates(10, [vec![1; 9], vec![3]].concat()), ..seal(10, 20, &[0]) };
    w.push(Body::Seal(sealed)).expect("nine rows and a duplicate");
    let waits =
        |w: &Writer, position| w.lane.unsettled(at(position)).map(|t| t.name.clone()).collect::<Vec<_>>();
    assert_eq!((w.lane.fate(at(12)), waits(&w, 12).len()), (Some(Fate::Written), 1));
    assert!(waits(&w, 9).is_empty() && waits(&w, 20).is_empty());
    let half = |rows| Frame { table: 0, id: vec![1; 16], len: 4, rows, ..Default::default() };
    let pieces = vec![half(9), half(1)];
    let split = Split { table: 0, ordinal: 0, piece: 0, segment: "h".into(), pieces, layouts: vec![] };
    w.push(Body::Split(split)).expect("a row apart");

    let letter = |position| {
        let refusal = Refusal { table: 0, ordinal: 0, piece: 2, record: Some(at(position)) };
        let seal = with_letters(seal(20, 30, &[1]), 0, 1);
        Body::Seal(Seal { refusals: vec![refusal], fates: fates(20, vec![1; 10]), ..seal })
    };
    assert_eq!(rule(w.push(letter(19))), "C9", "a duplicate has no row to refuse");
    assert_eq!(rule(w.push(letter(20))), "C9", "it was not read yet");
    w.push(letter(12)).expect("a row that was written");
    assert_eq!((w.lane.fate(at(12)), w.lane.fate(at(13))), (Some(Fate::Refused), Some(Fate::Written)));
    assert_eq!(Lane::from_image(&w.lane.image(0)).fates, w.lane.fates, "a checkpoint keeps it");

    let settled = vec![Frontier { table: 0, frontier: 1, window: 2, sent_below: None }];
    w.push(Body::Settle(Settle { settled, ..Default::default() })).expect("the first frame");
    assert_eq!((waits(&w, 12).len(), waits(&w, 22).len()), (0, 2));
    assert_eq!(w.lane.fate(at(12)), Some(Fate::Refused));
}

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

#[test]
fn what_is_settled_beyond_a_hole_is_not_doubted_again() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0, 1, 2]))).expect("a good seal");
    let above = |ordinals: Vec<u64>| {
        Body::Settle(Settle { above: vec![SettledAbove { table: 0, ordinals }], ..Default::default() })
    };
    assert_eq!(rule(w.push(above(vec![2]))), "C4", "it cannot have been sent");
    w.push(above(vec![1])).expect("it was sendable");
    let pieces = |w: &Writer, n| w.lane.tables[0].pieces(n).expect("pending")[0].clone();
    assert!(pieces(&w, 0).is_live() && !pieces(&w, 1).is_live());
    let image = w.lane.image(0);
    assert!(Lane::from_image(&image).tables[0].pieces(1).expect("pending")[0].settled);
}

#[test]
fn only_an_open_question_is_answered_and_by_a_word_that_says_something() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0]))).expect("a good seal");
    let answer = |verdict| Body::Answer(Answer { verdict, ..Default::default() });
    let question = |reason, epoch| Body::Question(Question { reason, epoch, ..Default::default() });
    assert_eq!(rule(w.push(answer(1))), "C8", "nothing was asked");
    assert_eq!(rule(w.push(question(99, 1))), "C8");
    assert_eq!(rule(w.push(question(2, 7))), "C8", "another owner's question");
    w.push(question(2, 1)).expect("a question");
    assert_eq!(w.lane.open_questions().count(), 1);
    assert_eq!(rule(w.push(answer(3))), "C8", "neither present nor absent");
    w.push(answer(2)).expect("an answer");
    assert_eq!(rule(w.push(answer(1))), "C8", "it is answered");
    assert_eq!(w.lane.open_questions().count(), 0);
    let image = w.lane.image(0);
    assert_eq!(Lane::from_image(&image).tables, w.lane.tables, "a checkpoint keeps question and answer");
    w.push(Body::Generation(Generation { generation: 1, ..Default::default() })).expect("a new token");
    let piece = &w.lane.tables[0].pieces(0).expect("pending")[0];
    assert!(piece.question.is_none() && piece.verdict.is_none(), "they were about the old token");
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

fn layout(number: u32, names: &[&str]) -> Layout {
    let column = |name: &&str| crate::record::LayoutColumn { name: (*name).into(), ..Default::default() };
    Layout { table: 0, number, columns: names.iter().map(column).collect() }
}

fn seal_of(from: u64, ordinal: u64, number: u32, layouts: Vec<Layout>) -> Body {
    let mut seal = Seal { layouts, ..seal(from, from + 10, &[ordinal]) };
    seal.frames[0].layout = number;
    Body::Seal(seal)
}

#[test]
fn a_frame_names_columns_that_a_record_says_once() {
    let mut w = Writer::new();
    assert_eq!(rule(w.push(seal_of(10, 0, 1, vec![]))), "C3");
    assert_eq!(rule(w.push(seal_of(10, 0, 0, vec![layout(0, &["a"])]))), "C3");
    w.push(seal_of(10, 0, 1, vec![layout(1, &["a"])])).expect("said with it");
    assert_eq!(rule(w.push(seal_of(20, 1, 1, vec![layout(1, &["b"])]))), "C3");
    w.push(seal_of(20, 1, 1, vec![])).expect("said before");
    let columns = layout(0, &["a", "b"]).columns;
    assert_eq!(w.lane.tables[0].number_layout(0, &layout(0, &["a"]).columns), (1, None));
    let (number, new) = w.lane.tables[0].number_layout(0, &columns);
    assert_eq!((number, new.as_ref().map(|l| l.number)), (2, Some(2)));
    assert_eq!(w.lane.tables[0].number_layout(0, &[]), (0, None));
}

#[test]
fn columns_are_kept_for_frames_that_wait_and_for_the_newest_and_go_through_a_checkpoint() {
    let mut w = Writer::new();
    w.push(seal_of(10, 0, 1, vec![layout(1, &["a"])])).expect("sealed");
    w.push(seal_of(20, 1, 2, vec![layout(2, &["a", "b"])])).expect("sealed");
    // The first frame goes on in other columns; its old ones are needed until it is settled.
    let pieces = vec![Frame { table: 0, id: vec![1; 16], len: 4, rows: 10, layout: 3, ..Default::default() }];
    let layouts = vec![layout(3, &["a", "c"])];
    let split = Split { table: 0, ordinal: 0, piece: 0, segment: "h".into(), pieces, layouts };
    w.push(Body::Split(split)).expect("split");
    let numbers = |lane: &Lane| lane.tables[0].layouts.iter().map(|l| l.number).collect::<Vec<_>>();
    let live = |lane: &Lane| lane.tables[0].live_layouts().iter().map(|l| l.number).collect::<Vec<_>>();
    assert_eq!((numbers(&w.lane), live(&w.lane)), (vec![1, 2, 3], vec![2, 3]));
    let back = Lane::from_image(&w.lane.image(0));
    assert_eq!(back.tables, w.lane.tables);
    assert_eq!(back.tables[0].pending[0][1].layout.as_ref().map(|l| l.columns.len()), Some(2));
    let settled = Settle {
        settled: vec![Frontier { table: 0, frontier: 2, window: 2, sent_below: None }],
        ..Default::default()
    };
    w.push(Body::Settle(settled)).expect("settled");
    assert_eq!((numbers(&w.lane), live(&w.lane)), (vec![2], vec![]));
    assert_eq!(w.lane.tables[0].newest_layout().map(|l| l.columns.len()), Some(2));
}

#[test]
fn c6_versions_of_rows_never_go_back() {
    let with = |from, next_version| Body::Seal(Seal { next_version, ..seal(from, from + 10, &[]) });
    let mut w = Writer::new();
    w.push(with(10, 0)).expect("no table takes versions");
    w.push(with(20, 50)).expect("now one does");
    assert_eq!(rule(w.push(with(30, 49))), "C6");
    w.push(with(30, 50)).expect("no row had one");
    w.push(with(40, 0)).expect("no table takes them any more");
    assert_eq!(w.lane.next_version, 50, "what was given is not given again");
    assert_eq!(rule(w.push(with(50, 49))), "C6");
    assert_eq!(rule(w.push(with(50, u64::MAX))), "C6", "more than a signed number holds");
    let body = Body::Checkpoint(Checkpoint { lane: Some(w.lane.image(0)), ..Default::default() });
    assert_eq!(Lane::from_checkpoint(&w.record(body)).expect("a checkpoint").next_version, 50);
}
