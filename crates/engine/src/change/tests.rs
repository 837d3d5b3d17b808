use protocol::Lane;
use protocol::lane::{Piece, TableState};
use protocol::record::{Absorbed, EnumName, Frame, KeptEnum, KeptState, Part, StepShape};

use super::*;

fn steps(all: &[&str]) -> Vec<StepShape> {
    let shape = |text: &&str| {
        let (name, shape) = text.split_once(' ').expect("name and shape");
        StepShape { absorbs: name == "window", ..StepShape::new(name, shape) }
    };
    all.iter().map(shape).collect()
}

fn lane(all: &[&str]) -> Lane {
    Lane { pipeline: "p".into(), steps: steps(all), ..Lane::new() }
}

fn made(all: &[&str]) -> Composition {
    let steps = steps(all);
    let losses = steps.iter().map(|step| format!("what {} knows", step.name)).collect();
    Composition { steps, losses, parts: Vec::new() }
}

fn asked(steps: &[&str], unchanged: Unchanged) -> NewState {
    NewState { steps: steps.iter().map(|step| (*step).to_owned()).collect(), unchanged }
}

fn decided(lane: &Lane, made: &Composition, steps: &[&str]) -> Result<Option<Vec<(u32, u32)>>, String> {
    let change = decide(lane, made, &asked(steps, Unchanged::Refuse), "test");
    let kept = |change: Change| change.kept.iter().map(|kept| (kept.step, kept.before)).collect();
    change.map(|change| change.map(kept)).map_err(|error| error.to_string())
}

#[test]
fn a_pipeline_that_is_what_it_was_needs_no_record() {
    let before = lane(&["dedup id 1h", "window 1m"]);
    assert_eq!(decided(&before, &made(&["dedup id 1h", "window 1m"]), &[]), Ok(None));
    assert_eq!(
        decided(&Lane::new(), &made(&["dedup id 1h"]), &[]),
        Ok(None),
        "a first start has its genesis"
    );
}

#[test]
fn what_is_without_state_changes_freely_and_is_recorded() {
    let parts = vec![Part { kind: "step".into(), name: "filter".into(), text: "a > 1".into() }];
    let before = lane(&["dedup id 1h"]);
    let now = Composition { parts: parts.clone(), ..made(&["dedup id 1h"]) };
    let change = decide(&before, &now, &NewState::default(), "test").expect("freely").expect("a record");
    assert_eq!((change.parts, change.kept), (parts, vec![KeptState { step: 0, before: 0 }]));
}

#[test]
fn a_changed_step_is_refused_with_what_it_means_and_three_ways_out() {
    let mut before = lane(&["dedup id 1h", "window 1m"]);
    before.absorbed = Absorbed { held: 7, ..Absorbed::default() };
    let refused = decided(&before, &made(&["dedup id 2h", "window 1m"]), &[]).expect_err("a decision");
    for words in [
        "it was made with id 1h, and now has id 2h",
        "put the old steps back",
        "`forebay run FILE --new-state dedup`",
        "`dedup` loses what dedup knows",
        "a new name",
        "7 records are held by `window`; those of a step that begins anew",
    ] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    assert_eq!(decided(&before, &made(&["dedup id 2h", "window 1m"]), &["dedup"]), Ok(Some(vec![(1, 1)])));
}

#[test]
fn added_removed_and_reordered_steps_need_a_decision() {
    type Case<'a> = (&'a [&'a str], &'a [&'a str], &'a str, &'a [(u32, u32)]);
    let cases: [Case; 6] = [
        (&["dedup id 1h"], &["dedup id 1h", "window 1m"], "window", &[(0, 0)]),
        (&["dedup id 1h", "window 1m"], &["window 1m"], "dedup", &[(0, 1)]),
        (&[], &["dedup id 1h"], "dedup", &[]),
        (&["dedup id 1h"], &[], "dedup", &[]),
        (&["dedup a", "dedup b"], &["dedup b", "dedup c"], "dedup.2", &[(0, 1)]),
        (&["dedup a", "dedup b"], &["dedup b"], "dedup.2", &[(0, 1)]),
    ];
    for (before, now, step, kept) in cases {
        let (before, now) = (lane(before), made(now));
        let refused = decided(&before, &now, &[]).expect_err("a decision");
        assert!(refused.contains(&format!("--new-state {step}")), "{refused}");
        let open = fates(&before, &now).into_iter().filter(|fate| fate.fate != Fate::Kept);
        let open: Vec<String> = open.map(|fate| fate.label).collect();
        let all: Vec<&str> = open.iter().map(String::as_str).collect();
        assert_eq!(decided(&before, &now, &all), Ok(Some(kept.to_vec())), "{open:?}");
    }
    // Two that change places: the state of one goes on.
    let refused = decided(&lane(&["dedup a", "window 1m"]), &made(&["window 1m", "dedup a"]), &[]);
    assert!(refused.expect_err("a decision").contains("new at its place"));
}

#[test]
fn new_state_for_a_step_that_has_not_changed_must_be_asked_for_plainly() {
    let (before, now) = (lane(&["dedup id 1h"]), made(&["dedup id 1h"]));
    let refused = decided(&before, &now, &["dedup"]).expect_err("it has not changed");
    assert!(
        refused.contains("Start without `--new-state dedup`") && refused.contains("add `--yes`"),
        "{refused}"
    );
    let plainly = decide(&before, &now, &asked(&["dedup"], Unchanged::Empty), "test").expect("asked plainly");
    assert_eq!(plainly.expect("a record").kept, []);
    let again = decide(&before, &now, &asked(&["dedup"], Unchanged::Keep), "test");
    assert_eq!(again.expect("the process has done it"), None);
    let refused = decided(&before, &now, &["dedupe"]).expect_err("no such step");
    assert!(refused.contains("Steps that do: `dedup`"), "{refused}");
}

#[test]
fn no_state_is_given_up_while_inserts_wait() {
    let mut before = lane(&["dedup id 1h"]);
    let piece = Piece {
        frame: Frame { rows: 1, len: 1, ..Frame::default() },
        piece: 0,
        generation: 0,
        segment: "s".into(),
        server: None,
        dead: false,
        sealed_at_ms: 0,
        question: None,
        verdict: None,
        settled: false,
        first_row: 0,
        layout: None,
    };
    before.tables = vec![TableState { pending: [vec![piece]].into(), ..TableState::default() }];
    let refused = decided(&before, &made(&["dedup id 2h"]), &["dedup"]).expect_err("it waits");
    assert!(
        refused.contains("1 sealed inserts wait") && refused.contains("`forebay run FILE --drain`"),
        "{refused}"
    );
    assert_eq!(decided(&before, &made(&["dedup id 1h"]), &[]), Ok(None));
}

/// `steps` with an Enum of `k` in the state of each.
fn with_enum(mut steps: Vec<StepShape>, names: &[(&str, i32)]) -> Vec<StepShape> {
    let names =
        names.iter().map(|(name, number)| EnumName { name: (*name).into(), number: *number }).collect();
    let of_k = KeptEnum { of: "k".into(), names };
    steps.iter_mut().for_each(|step| step.enums = vec![of_k.clone()]);
    steps
}

#[test]
fn a_state_goes_on_while_its_enums_only_get_more_names() {
    const ALL: [&str; 2] = ["dedup k 1h", "window k 1m"];
    let was = [("low", 1), ("high", 2)];
    let before = Lane { steps: with_enum(steps(&ALL), &was), ..lane(&ALL) };
    let now = |names: &[(&str, i32)]| Composition { steps: with_enum(steps(&ALL), names), ..made(&ALL) };
    assert_eq!(decided(&before, &now(&was), &[]), Ok(None));
    let more = now(&[("low", 1), ("high", 2), ("mid", 3)]);
    assert_eq!(
        decided(&before, &more, &[]),
        Ok(Some(vec![(0, 0), (1, 1)])),
        "recorded for the next comparison"
    );
    for (names, words) in [
        (&[("low", 1), ("mid", 2), ("high", 3)][..], "`high` = 2 in the Enum of `k`, and now has `high` = 3"),
        (&[("low", 1)], "`high` = 2 in the Enum of `k`, and now has no `high`"),
        (&[("low", 1), ("tall", 2)], "`high` = 2 in the Enum of `k`, and now has no `high`"),
    ] {
        let refused = decided(&before, &now(names), &[]).expect_err("a decision");
        for words in
            [words, "--new-state dedup --new-state window", "the old types of their columns", "a new name"]
        {
            assert!(refused.contains(words), "{words}: {refused}");
        }
        assert_eq!(decided(&before, &now(names), &["dedup", "window"]), Ok(Some(Vec::new())));
    }
}

/// A store of a program that recorded no names.
#[test]
fn enums_that_were_not_recorded_need_a_decision_and_steps_without_any_do_not() {
    let before = lane(&["dedup k 1h", "window 1m"]);
    let mut now = made(&["dedup k 1h", "window 1m"]);
    now.steps[..1].clone_from_slice(&with_enum(steps(&["dedup k 1h"]), &[("low", 1), ("high", 2)]));
    let refused = decided(&before, &now, &[]).expect_err("a decision");
    let words = "the program of then did not record, so they cannot be compared, and now has `low` = 1, `high` = 2 in the Enum of `k`.";
    assert!(refused.contains(words), "{refused}");
    assert_eq!(decided(&before, &now, &["dedup"]), Ok(Some(vec![(1, 1)])), "the window goes on");
}
