use std::collections::BTreeSet;

use dataflow::SourceError;

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
fn the_page_of_metrics_has_the_word_of_each_fault_of_an_insert_with_its_state() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
    let text = std::fs::read_to_string(path).expect("the document is there");
    let (_, kinds) = text.split_once("### Kinds of errors").expect("a section of the page");
    let (kinds, _) = kinds.split_once("\n## ").expect("the section behind it");
    let rows = kinds.lines().filter(|line| line.starts_with("| ")).skip(1).map(|line| {
        let cells = line.trim_matches('|').split('|').skip(1);
        cells.map(|cell| cell.trim_matches([' ', '`']).to_owned()).collect()
    });
    let rows: BTreeSet<Vec<String>> = rows.collect();
    // Questions alone have these.
    let of_questions = [TableFault::TooLong, TableFault::ReplicaLags];
    let faults = TableFault::ALL.into_iter().filter(|fault| !of_questions.contains(fault));
    let state = |fault| State::of_table(fault).map_or("none", State::word);
    let known = faults.map(|fault| vec![fault.word().to_owned(), state(fault).to_owned()]).collect();
    assert_eq!(rows, known, "left: docs/reference/metrics.md; right: the code");
    let words: BTreeSet<&str> = TableFault::ALL.into_iter().map(TableFault::word).collect();
    assert_eq!(words.len(), TableFault::ALL.len(), "each has a word of its own");
}

#[test]
fn a_limit_of_this_process_is_not_taken_for_a_side_that_is_away() {
    let no_descriptor = std::io::Error::from_raw_os_error(24).to_string();
    let no_room = std::io::Error::from_raw_os_error(28).to_string();
    let refused = std::io::Error::from_raw_os_error(111).to_string();
    for away in [State::ServerAway, State::SourceAway, State::StoreAway] {
        for words in [&no_descriptor, &no_room] {
            assert_eq!(away.behind(&format!("no connection: {words}")), State::OwnLimit, "{words}");
        }
        assert_eq!(away.behind(&refused), away);
    }
    // What the other side answers is its own matter, whatever it quotes.
    assert_eq!(State::NoSpace.behind(&no_room), State::NoSpace);
    assert_eq!(State::StoreFull.behind(&no_room), State::StoreFull);
    // A source that can be asked again ends it, as if it had been away.
    let status = Status::default();
    let away = SourceError::new(SourceFault::Away, no_descriptor);
    status.source_away("orders", &away, 1);
    let state = || status.snapshot().problems.get("orders").map(|problem| problem.state);
    assert_eq!((state(), status.source_away_times("orders")), (Some(State::OwnLimit), Some(1)));
    status.source_is_back("orders");
    assert_eq!(state(), None);
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
