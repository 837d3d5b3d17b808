use super::*;
use crate::record::{
    Answer, Claim, Fate, Forget, Forgotten, Frontier, Generation, Genesis, InputCounts, LaneImage,
    PartitionGenesis, Range, RecordPlace, Refusal, Seal, Settle, SettledAbove, Split, StateDelta, StepShape,
    TableRows,
};

mod columns;
mod hostile;
mod positions;

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
