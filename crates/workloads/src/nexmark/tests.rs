use std::collections::BTreeMap;

use serde_json::Value;

use super::*;

fn workload() -> Workload {
    Workload::new(Spec { events: 10_025, ..Spec::default() }).expect("valid")
}

fn all() -> Vec<(Stream, Value)> {
    let workload = workload();
    let mut out = Vec::new();
    (0..workload.spec().events)
        .map(|n| {
            out.clear();
            let stream = workload.write(n, &mut out).expect("within the run");
            assert!(out.len() <= EVENT_BYTES_MAX, "{}", out.len());
            (stream, serde_json::from_slice(&out).expect("JSON"))
        })
        .collect()
}

#[test]
fn of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_bids() {
    let mut counts = BTreeMap::new();
    all().iter().for_each(|(stream, _)| *counts.entry(*stream).or_insert(0) += 1);
    assert_eq!(
        counts,
        BTreeMap::from([(Stream::People, 201), (Stream::Auctions, 603), (Stream::Bids, 9_221)])
    );
    for (stream, count) in counts {
        assert_eq!(workload().events(stream), count);
    }
    assert_eq!(workload().write(10_025, &mut Vec::new()), None);
}

#[test]
fn what_an_event_refers_to_came_before_it_and_ids_are_in_order() {
    let (mut people, mut auctions) = (FIRST_ID, FIRST_ID);
    let mut last = String::new();
    for (stream, event) in all() {
        let of = |name: &str| event[name].as_u64().expect("a number");
        let time = event["dateTime"].as_str().expect("a time").to_owned();
        assert!(time >= last, "{time} after {last}");
        last = time;
        match stream {
            Stream::People => {
                assert_eq!(of("id"), people);
                people += 1;
            }
            Stream::Auctions => {
                assert_eq!(of("id"), auctions);
                auctions += 1;
                assert!(of("seller") < people && (10..15).contains(&of("category")), "{event}");
                assert!(event["expires"].as_str() > event["dateTime"].as_str(), "{event}");
            }
            Stream::Bids => assert!(of("bidder") < people && of("auction") < auctions, "{event}"),
        }
    }
}

#[test]
fn the_first_events_never_change() {
    let texts: Vec<String> = [0, 1, 4]
        .map(|n| {
            let mut out = Vec::new();
            workload().write(n, &mut out).expect("within the run");
            String::from_utf8(out).expect("UTF-8")
        })
        .into();
    assert_eq!(
        texts,
        [
            r#"{"id": 1000, "name": "Saul Noris", "emailAddress": "Saul.Noris@17752.com", "creditCard": "1179868655528873", "city": "San Francisco", "state": "WA", "dateTime": "2025-01-01 00:00:00.000"}"#,
            r#"{"id": 1000, "itemName": "bicycle 496", "description": "a bicycle of the year 1922", "initialBid": 781, "reserve": 1070, "dateTime": "2025-01-01 00:00:00.000", "expires": "2025-01-01 00:00:00.188", "seller": 1000, "category": 10}"#,
            r#"{"auction": 1001, "bidder": 1000, "price": 88252263, "channel": "Apple", "url": "https://www.nexmark.com/search/Apple/item.htm?query=1", "dateTime": "2025-01-01 00:00:00.000"}"#,
        ]
    );
}

#[test]
fn a_run_without_events_or_pace_is_refused() {
    assert_eq!(Workload::new(Spec { events: 0, ..Spec::default() }), Err(SpecError::Events(0)));
    let spec = Spec { events_per_second: 0, ..Spec::default() };
    assert_eq!(Workload::new(spec), Err(SpecError::Pace(0)));
}
