use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::glassflow::Spec;

fn few() -> Pairs {
    let workload =
        Workload::new(Spec { publishers: 3, uniques: 200, uniques_per_second: 7, ..Spec::default() });
    Pairs::new(&workload.expect("valid")).expect("valid")
}

fn field<'a>(record: &'a str, name: &str) -> &'a str {
    let (_, behind) = record.split_once(&format!("\"{name}\": ")).expect("the field");
    behind.trim_start_matches('"').split(['"', ',', '}']).next().expect("a value")
}

fn all(pairs: &Pairs) -> (Vec<String>, Vec<String>) {
    let (mut events, mut actions) = (Vec::new(), Vec::new());
    for publisher in 0..3 {
        for ordinal in 0..200 {
            let (mut event, mut action) = (Vec::new(), Vec::new());
            pairs.events().write(publisher, ordinal, &mut event).expect("within the stream");
            assert!(pairs.write_action(publisher, ordinal, &mut action));
            events.push(String::from_utf8(event).expect("UTF-8"));
            actions.push(String::from_utf8(action).expect("UTF-8"));
        }
    }
    assert!(!pairs.write_action(0, 200, &mut Vec::new()) && !pairs.write_action(3, 0, &mut Vec::new()));
    (events, actions)
}

#[test]
fn a_tenth_of_either_side_has_no_match_and_the_others_have_one() {
    let (events, actions) = all(&few());
    let ids: BTreeSet<&str> = events.iter().map(|event| field(event, "event_id")).collect();
    let of: BTreeMap<&str, &str> =
        actions.iter().map(|action| (field(action, "event_id"), field(action, "action_id"))).collect();
    assert_eq!((ids.len(), of.len()), (600, 600), "ids repeat");
    assert_eq!(ids.iter().filter(|id| of.contains_key(**id)).count(), 540);
    assert_eq!(few().expected().rows, 540);
    assert_eq!(few().expected().ids, 540);
}

#[test]
fn an_action_is_a_short_record_that_comes_a_little_after_its_event() {
    let (events, actions) = all(&few());
    let lengths: BTreeSet<usize> = actions.iter().map(String::len).collect();
    assert!(lengths.iter().all(|length| (170..=ACTION_BYTES_MAX).contains(length)), "{lengths:?}");
    let second = |text: &str| text[17..19].parse::<u64>().expect("a number");
    for (event, action) in events.iter().zip(&actions) {
        assert!(serde_json::from_str::<serde_json::Value>(action).is_ok(), "{action}");
        let delay = (60 + second(field(action, "acted_at")) - second(field(event, "created_at"))) % 60;
        assert!(delay <= DELAY_S_MAX, "{event} {action}");
    }
}
