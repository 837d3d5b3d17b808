use std::collections::BTreeSet;

use super::*;
use crate::Status;

#[test]
fn every_state_has_a_word_of_its_own_and_a_way_out_and_is_in_the_document() {
    let words: BTreeSet<&str> = State::ALL.iter().map(|state| state.word()).collect();
    assert_eq!(words.len(), State::ALL.len());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/design/stop-states.md");
    let text = std::fs::read_to_string(path).expect("the document is there");
    let (_, waited) = text.split_once("# What is waited for").expect("the second half of the page");
    let rows: BTreeSet<&str> =
        waited.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(rows, words, "one row for each state");
    assert!(State::ALL.iter().all(|state| !state.remedy().is_empty()));
}

#[test]
fn a_problem_stands_since_it_was_met_first_and_keeps_the_newest_words() {
    let (first, begun) = met(None, State::Access, "no", Effect::None, Noticed::Inserting, 7);
    assert!(begun);
    let (second, begun) = met(Some(first), State::Access, "still no", Effect::Unknown, Noticed::Asking, 9);
    assert!(!begun);
    assert_eq!((second.since_ms, second.times, second.words.as_str()), (7, 2, "still no"));
    // What was unknown once is so until it ends, whatever comes next.
    let (third, begun) = met(Some(second), State::NoSpace, "full", Effect::None, Noticed::Inserting, 11);
    assert!(begun);
    assert_eq!((third.since_ms, third.effect), (11, Effect::Unknown));
    let long = "ä".repeat(100_000);
    assert_eq!(
        met(None, State::Unclear, &long, Effect::None, Noticed::Asking, 0).0.words.chars().count(),
        600
    );
}

#[test]
fn a_good_answer_to_a_question_does_not_end_what_an_insert_ran_into() {
    let status = Status::default();
    let state = |place: &str| status.snapshot().problems.get(place).map(|problem| problem.state);
    status.met("d.t", State::TooManyParts, "3000", Effect::None, Noticed::Inserting, 1);
    status.met("d.dead", State::TableMissing, "gone", Effect::None, Noticed::Asking, 1);
    for place in ["d.t", "d.dead"] {
        status.ended(place, Noticed::Asking);
    }
    assert_eq!((state("d.t"), state("d.dead")), (Some(State::TooManyParts), None));
    status.ended("d.t", Noticed::Inserting);
    assert_eq!(state("d.t"), None);
}

#[test]
fn what_a_question_met_first_and_an_insert_then_is_ended_by_an_insert() {
    let status = Status::default();
    status.met("d.t", State::ServerAway, "refused", Effect::None, Noticed::Asking, 1);
    status.met("d.t", State::ServerAway, "refused", Effect::None, Noticed::Inserting, 2);
    status.ended("d.t", Noticed::Asking);
    assert!(status.snapshot().problems.contains_key("d.t"));
    status.met("d.t", State::Overloaded, "busy", Effect::None, Noticed::Asking, 3);
    status.ended("d.t", Noticed::Asking);
    assert!(status.snapshot().problems.contains_key("d.t"), "an insert has still not succeeded");
    status.ended("d.t", Noticed::Inserting);
    assert!(status.snapshot().problems.is_empty());
}
