use super::super::tests::{Writer, of_input, rule, seal, with_letters};
use crate::Lane;
use crate::record::{
    Absorbed, Body, Checkpoint, Counts, Derived, Frame, Frontier, Genesis, InputCounts, PartitionGenesis,
    Range, Refusal, Rows, Seal, Settle, Split, TableGenesis, TableRows,
};

fn refused(change: impl FnOnce(&mut Seal)) -> &'static str {
    let mut changed = seal(10, 20, &[0]);
    change(&mut changed);
    rule(Writer::new().push(Body::Seal(changed)))
}

#[test]
fn c9_the_records_of_a_seal_add_up() {
    let counts = |passed, absorbed| of_input(Counts { read: 10, passed, absorbed, ..Counts::default() });
    assert_eq!(refused(|seal| seal.counts = counts(9, 0)), "C9");
    assert_eq!(refused(|seal| seal.counts = counts(10, 1)), "C9");
    assert_eq!(refused(|seal| seal.counts.clear()), "C9");
}

#[test]
fn c9_what_a_state_absorbed_is_released_or_held() {
    let with = |from, records: u64, derived_rows, released, held| {
        let counts = Counts { read: records, absorbed: records, ..Counts::default() };
        let derived = Derived { rows: derived_rows, absorbed: derived_rows, ..Derived::default() };
        let absorbed = Some(Absorbed { released, held, discarded: 0 });
        Body::Seal(Seal {
            counts: of_input(counts),
            derived: Some(derived),
            absorbed,
            ..seal(from, from + 10, &[])
        })
    };
    let mut w = Writer::new();
    assert_eq!(rule(w.push(with(10, 10, 0, 0, 9))), "C9", "one is lost");
    assert_eq!(rule(w.push(with(10, 10, 0, 1, 10))), "C9", "one is there twice");
    w.push(with(10, 10, 0, 0, 10)).expect("a state holds them");
    assert_eq!(rule(w.push(Body::Seal(seal(20, 30, &[0])))), "C9", "what was held is not spoken of");
    assert_eq!(rule(w.push(with(20, 0, 0, 0, 9))), "C9", "what was held is gone");
    assert_eq!(rule(w.push(with(20, 0, 0, 4, 7))), "C9", "released, and held none the less");
    w.push(with(20, 3, 2, 4, 11)).expect("derived rows too");
    assert_eq!(w.lane.absorbed, Absorbed { released: 4, held: 11, discarded: 0 });
    let checkpoint = |image| Body::Checkpoint(Checkpoint { lane: Some(image), ..Default::default() });
    let mut image = w.lane.image(0);
    let lane = Lane::from_checkpoint(&w.record(checkpoint(image.clone()))).expect("a checkpoint");
    assert_eq!(lane.absorbed, w.lane.absorbed);
    image.absorbed = Some(Absorbed { released: 4, held: 10, discarded: 0 });
    let refused = Lane::from_checkpoint(&w.record(checkpoint(image))).expect_err("one is lost");
    assert_eq!(refused.rule, "C9");
}

/// A lane with a second input, which has one partition.
fn with_two_inputs() -> Writer {
    let mut w = Writer::new();
    let partition = PartitionGenesis { stream: "e".into(), input: 1, next_low: 10, ..Default::default() };
    let (inputs, partitions) = (vec!["payments".into()], vec![partition]);
    w.push(Body::Genesis(Genesis { inputs, partitions, opened: vec![1], ..Default::default() }))
        .expect("the same stream of another input");
    w
}

#[test]
fn c9_the_records_of_each_input_add_up() {
    let refused = |counts: Vec<InputCounts>| {
        let change = Seal { counts, ..seal(10, 20, &[0]) };
        rule(with_two_inputs().push(Body::Seal(change)))
    };
    let passed = |read, passed| Counts { read, passed, ..Counts::default() };
    let of = InputCounts::of;
    assert_eq!(refused(vec![of(1, passed(10, 10))]), "C9", "counted for the input that was not read");
    assert_eq!(refused(vec![of(0, passed(6, 6)), of(1, passed(4, 4))]), "C9", "some of them");
    assert_eq!(refused(vec![of(0, passed(6, 6)), of(0, passed(4, 4))]), "C9", "counted in two parts");
    assert_eq!(refused(vec![of(2, passed(10, 10))]), "C9", "no such input");
    let mut both = seal(10, 20, &[0]);
    both.ranges.push(Range { time_ms_max: 0, ..Range::new(1, 10, 14) });
    // The sum is right, and neither of the two is.
    both.counts = vec![of(0, passed(6, 7)), of(1, passed(4, 3))];
    assert_eq!(rule(with_two_inputs().push(Body::Seal(both.clone()))), "C9");
    both.counts = vec![of(0, passed(6, 6)), of(1, passed(4, 4))];
    let mut w = with_two_inputs();
    w.push(Body::Seal(both)).expect("both were read");
    let read = |lane: &Lane| lane.inputs.iter().map(|input| input.counts.read).collect::<Vec<_>>();
    assert_eq!((read(&w.lane), w.lane.counts.read), (vec![6, 4], 10));
    let body = Body::Checkpoint(Checkpoint { lane: Some(w.lane.image(0)), ..Default::default() });
    let back = Lane::from_checkpoint(&w.record(body)).expect("a checkpoint");
    assert_eq!((back.inputs, back.counts), (w.lane.inputs, w.lane.counts));
}

#[test]
fn an_input_has_one_name_and_a_partition_an_input() {
    let mut w = with_two_inputs();
    let genesis = |genesis: Genesis| Body::Genesis(genesis);
    let inputs = vec!["payments".to_owned()];
    assert_eq!(rule(w.push(genesis(Genesis { inputs, ..Default::default() }))), "order");
    let inputs = vec!["a".to_owned(), "a".to_owned()];
    assert_eq!(rule(w.push(genesis(Genesis { inputs, ..Default::default() }))), "order");
    let partition = |input| PartitionGenesis { stream: "f".into(), input, ..Default::default() };
    let partitions = vec![partition(2)];
    assert_eq!(rule(w.push(genesis(Genesis { partitions, ..Default::default() }))), "order");
    assert_eq!(rule(w.push(genesis(Genesis { opened: vec![2], ..Default::default() }))), "order");
    let partitions = vec![partition(0), partition(1)];
    w.push(genesis(Genesis { partitions, ..Default::default() })).expect("one of each");
    let found = |input| w.lane.partition(input, "f", 0);
    assert_eq!((found(0), found(1), found(2)), (Some(2), Some(3), None));
}

#[test]
fn c9_each_table_gets_the_rows_that_its_frames_hold() {
    assert_eq!(refused(|seal| seal.rows.clear()), "C9", "said of no table");
    assert_eq!(refused(|seal| seal.rows[0].rows = 9), "C9");
    assert_eq!(refused(|seal| seal.rows[0].table = 1), "C9", "counted for the wrong table");
    assert_eq!(refused(|seal| seal.rows[0].table = 7), "C9", "no such table");
    assert_eq!(refused(|seal| seal.rows.push(TableRows { table: 1, rows: 0, replaced: 0 })), "C9");
    assert_eq!(refused(|seal| seal.rows.push(seal.rows[0])), "C9", "said twice");
    assert_eq!(refused(|seal| seal.frames[0].table = 1), "C9", "in a frame of the wrong table");
}

#[test]
fn c9_where_every_record_is_one_row_as_many_pass_as_are_sealed() {
    let rows = |seal: &mut Seal, rows| (seal.frames[0].rows, seal.rows[0].rows) = (rows, rows);
    assert_eq!(refused(|seal| rows(seal, 9)), "C9", "a row is missing");
    assert_eq!(refused(|seal| rows(seal, 11)), "C9", "a row too many");
}

#[test]
fn c9_a_step_that_multiplies_rows_says_by_how_many() {
    let with = |rows, derived| {
        let mut seal = seal(10, 20, &[0]);
        (seal.frames[0].rows, seal.rows[0].rows, seal.derived) = (rows, rows, Some(derived));
        let letters = derived.dead_letters;
        if letters == 0 { seal } else { with_letters(seal, 0, letters) }
    };
    let derived = |rows, dropped, dead_letters| Derived { rows, dropped, dead_letters, absorbed: 0 };
    assert_eq!(rule(Writer::new().push(Body::Seal(with(30, derived(19, 0, 0))))), "C9");
    assert_eq!(rule(Writer::new().push(Body::Seal(with(30, derived(20, 1, 0))))), "C9");
    for (rows, derived) in [(30, derived(20, 0, 0)), (25, derived(20, 3, 2)), (7, derived(0, 3, 0))] {
        let mut w = Writer::new();
        w.push(Body::Seal(with(rows, derived))).expect("ten records, and the others are derived");
        assert_eq!((w.lane.derived, w.lane.tables[0].rows.sealed), (derived, rows));
    }
}

#[test]
fn c9_dead_letters_are_those_of_records_and_of_refused_rows() {
    assert_eq!(rule(Writer::new().push(Body::Seal(with_letters(seal(10, 20, &[0]), 0, 1)))), "C9");
    let counts = of_input(Counts { read: 11, passed: 10, dead_letters: 1, ..Counts::default() });
    assert_eq!(refused(|seal| seal.counts = counts.clone()), "C9", "without its frame");
    let mut w = Writer::new();
    w.push(Body::Seal(Seal { counts, ..with_letters(seal(10, 20, &[0]), 0, 1) }))
        .expect("one is a dead letter");
    let of_letter = Refusal { table: 1, ordinal: 0, piece: 0, record: None };
    let again = Seal { refusals: vec![of_letter], ..with_letters(seal(20, 30, &[1]), 1, 1) };
    assert_eq!(rule(w.push(Body::Seal(again))), "C9", "a dead letter has nowhere else to go");
}

#[test]
fn the_rows_of_a_table_are_settled_refused_or_pending() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0, 1]))).expect("two frames of ten rows");
    let half = |rows| Frame { table: 0, id: vec![1; 16], len: 4, rows, ..Default::default() };
    let pieces = vec![half(9), half(1)];
    let split = Split { table: 0, ordinal: 0, piece: 0, segment: "h".into(), pieces, layouts: vec![] };
    w.push(Body::Split(split)).expect("a row apart");
    let refusals = vec![Refusal { table: 0, ordinal: 0, piece: 2, record: None }];
    w.push(Body::Seal(Seal { refusals, ..with_letters(seal(20, 20, &[]), 0, 1) })).expect("a dead letter");
    assert_eq!(w.lane.tables[0].rows, Rows { sealed: 20, settled: 0, refused: 1, replaced: 0 });
    let settled = vec![Frontier { table: 0, frontier: 1, window: 2, sent_below: None }];
    w.push(Body::Settle(Settle { settled, ..Default::default() })).expect("the first frame");
    let rows = w.lane.tables[0].rows;
    assert_eq!((rows, rows.pending()), (Rows { sealed: 20, settled: 9, refused: 1, replaced: 0 }, 10));
    let body = Body::Checkpoint(Checkpoint { lane: Some(w.lane.image(0)), ..Default::default() });
    let lane = Lane::from_checkpoint(&w.record(body)).expect("a checkpoint");
    assert_eq!((lane.tables, lane.derived), (w.lane.tables, w.lane.derived));
}

/// No table has a fixed place: each has its own ordinals, frontier and rows, and one that nobody settles holds up no other.
#[test]
fn tables_are_settled_each_by_itself() {
    let mut w = Writer::new();
    let tables = vec![TableGenesis::of_rows("d.other")];
    w.push(Body::Genesis(Genesis { tables, ..Default::default() })).expect("a third table");
    let to = |from: u64, ordinal: u64, table: u32| {
        let mut seal = seal(from, from + 10, &[ordinal]);
        (seal.frames[0].table, seal.rows[0].table, seal.settled) = (table, table, vec![]);
        Body::Seal(seal)
    };
    w.push(to(10, 0, 2)).expect("routed to the third");
    w.push(to(20, 0, 0)).expect("and to the first");
    w.push(to(30, 1, 2)).expect("and to the third");
    let frontier = |frontier, window| Frontier { table: 2, frontier, window, sent_below: None };
    for settled in [frontier(0, 2), frontier(2, 2)] {
        w.push(Body::Settle(Settle { settled: vec![settled], ..Default::default() })).expect("in turn");
    }
    let rows = |at: usize| (w.lane.tables[at].rows.settled, w.lane.tables[at].rows.pending());
    assert_eq!([rows(0), rows(1), rows(2)], [(0, 10), (0, 0), (20, 0)]);
    assert_eq!(w.lane.spool_frames(), 1);
}

/// A seal of ten records, of whose rows some are replaced.
fn with_replaced(from: u64, frame: u64, rows: u64, replaced: u64) -> Seal {
    let mut seal = seal(from, from + 10, &[frame]);
    seal.frames[0].rows = rows;
    seal.rows[0] = TableRows { table: 0, rows, replaced };
    seal
}

#[test]
fn c9_rows_that_later_ones_replace_are_counted_beside_those_that_are_sealed() {
    assert_eq!(refused(|seal| *seal = with_replaced(10, 0, 7, 2)), "C9", "one is lost");
    assert_eq!(refused(|seal| *seal = with_replaced(10, 0, 7, 4)), "C9", "one is there twice");
    assert_eq!(refused(|seal| *seal = with_replaced(10, 0, 0, 10)), "C3", "of each key one row stays");
    let mut w = Writer::new();
    w.push(Body::Seal(with_replaced(10, 0, 7, 3))).expect("seven are sent");
    w.push(Body::Seal(with_replaced(20, 1, 10, 0))).expect("none is replaced");
    assert_eq!(w.lane.tables[0].rows, Rows { sealed: 17, settled: 0, refused: 0, replaced: 3 });
    let checkpoint = |image| Body::Checkpoint(Checkpoint { lane: Some(image), ..Default::default() });
    let mut image = w.lane.image(0);
    let back = Lane::from_checkpoint(&w.record(checkpoint(image.clone()))).expect("a checkpoint");
    assert_eq!(back.tables[0].rows, w.lane.tables[0].rows);
    image.tables[0].rows = Some(Rows { replaced: 2, ..w.lane.tables[0].rows });
    let refused = Lane::from_checkpoint(&w.record(checkpoint(image))).expect_err("one is lost");
    assert_eq!(refused.rule, "C9");
}

#[test]
fn c9_no_dead_letter_is_replaced() {
    let mut w = Writer::new();
    let mut changed = with_letters(seal(10, 20, &[]), 0, 9);
    changed.counts = of_input(Counts { read: 10, dead_letters: 10, ..Counts::default() });
    changed.rows[0].replaced = 1;
    assert_eq!(rule(w.push(Body::Seal(changed))), "C9");
}
