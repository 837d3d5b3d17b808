use crate::lane::tests::{Writer, rule, seal};
use crate::record::{Body, Made, RUNS_MAX, Range, Run, Seal};

fn run(partition: u32, from: u64, next: u64) -> Run {
    Run { partition, from, next }
}

/// A seal of records 10 to 20 whose only frame is to be made again of `runs`.
fn made_of(runs: Vec<Run>) -> Seal {
    let mut seal = Seal { states: vec![], ..seal(10, 20, &[0]) };
    seal.frames[0].made = Some(Box::new(Made { runs, watermark_ms: 5 }));
    seal
}

fn push(seal: Seal) -> Result<(), crate::Violation> {
    Writer::new().push(Body::Seal(seal))
}

#[test]
fn c2_a_frame_that_is_made_again_names_all_records_of_its_seal() {
    push(made_of(vec![run(0, 10, 20)])).expect("one run");
    push(made_of(vec![run(0, 10, 13), run(0, 13, 20)])).expect("several that touch");
    let wrong = [
        vec![],
        vec![run(0, 10, 19)],
        vec![run(0, 11, 20)],
        vec![run(0, 10, 21)],
        vec![run(0, 10, 13), run(0, 14, 20)],
        vec![run(0, 10, 13), run(0, 12, 20)],
        vec![run(0, 10, 25), run(0, 25, 20)],
        vec![run(0, 10, 20), run(1, 0, 1)],
        vec![run(7, 10, 20)],
        (10..20).flat_map(|n| vec![run(0, n, n); 7]).collect(),
    ];
    assert!(wrong.last().is_some_and(|runs| runs.len() > RUNS_MAX));
    for runs in wrong {
        assert_eq!(rule(push(made_of(runs.clone()))), "C2", "{runs:?}");
    }
}

#[test]
fn c2_a_frame_that_is_made_again_is_all_that_its_segment_holds() {
    let whole = vec![run(0, 10, 20)];
    let with_state = Seal { states: seal(10, 20, &[0]).states, ..made_of(whole.clone()) };
    assert_eq!(rule(push(with_state)), "C2");
    let mut two = Seal { states: vec![], ..seal(10, 20, &[0, 1]) };
    two.frames[1].made = Some(Box::new(Made { runs: whole.clone(), watermark_ms: 5 }));
    assert_eq!(rule(push(two)), "C2");
    // Positions of a later era have no run that says so.
    let mut in_an_era = made_of(whole);
    in_an_era.ranges = vec![Range::new(0, 10, (1 << 64) | 20)];
    assert_eq!(rule(push(in_an_era)), "C2");
}
