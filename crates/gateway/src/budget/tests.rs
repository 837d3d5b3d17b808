use super::*;

#[test]
fn what_is_held_comes_back_and_one_byte_too_many_is_refused() {
    let (all, own) = (Budget::new("all", 10 << 10), Budget::new("one", 4 << 10));
    let mut held = Held::none(&all, &own);
    held.take(3 << 10).unwrap();
    let refused = held.take(2 << 10).unwrap_err();
    assert_eq!(refused.kind, Kind::Busy);
    assert!(refused.message.contains("as one may have"), "{}", refused.message);
    assert_eq!((all.held_bytes(), own.held_bytes()), (3 << 10, 3 << 10), "a refusal holds nothing");
    let others: Vec<Held> = (0..7)
        .map(|_| {
            let mut held = Held::none(&all, &Budget::new("another", 1 << 10));
            held.take(1).expect("a kibibyte is left");
            held
        })
        .collect();
    let mut last = Held::none(&all, &own);
    assert!(last.take(1).unwrap_err().message.contains("as all may have"));
    assert_eq!(own.held_bytes(), 3 << 10, "and nothing of its own");
    drop((held, others));
    assert_eq!((all.held_bytes(), own.held_bytes()), (0, 0));
    last.take(4 << 10).unwrap();
}

#[test]
fn a_request_that_needs_more_than_there_is_learns_that_it_never_fits() {
    let all = Budget::new("all", 10 << 10).raised_by("`limits.memory`");
    let own = Budget::new("one", 8 << 10).raised_by("`memory` of the stream");
    let mut others = Held::none(&all, &Budget::new("another", 8 << 10));
    others.take(6 << 10).unwrap();
    // Its body, and its records beside it.
    let mut body = Held::of_request(&all, &own);
    body.take(4 << 10).unwrap();
    let mut records = body.another();
    assert_eq!(records.take(4 << 10).unwrap_err().kind, Kind::Busy, "it fits once the others are done");
    let never = records.take((4 << 10) + 1).unwrap_err();
    assert_eq!(never.kind, Kind::TooLarge, "it does not, also when the others are done");
    assert!(never.message.ends_with("send less at a time, or raise `memory` of the stream"), "{never:?}");
    // Of another stream: only what all may have counts what the body holds.
    let mut elsewhere = body.beside(&Budget::new("a second", 8 << 10));
    assert_eq!(elsewhere.take(6 << 10).unwrap_err().kind, Kind::Busy);
    let never = elsewhere.take(7 << 10).unwrap_err();
    assert!(never.kind == Kind::TooLarge && never.message.ends_with("raise `limits.memory`"), "{never:?}");
    // Of the same one as its body.
    assert_eq!(body.beside(&own).take(5 << 10).unwrap_err().kind, Kind::TooLarge);
    drop((others, elsewhere));
    records.take(4 << 10).unwrap();
    records.merge(body);
    assert_eq!((records.bytes(), all.held_bytes()), (8 << 10, 8 << 10));
    assert_eq!(records.take(1).unwrap_err().kind, Kind::TooLarge);
    // What gathers until an append is done only waits.
    let mut gathered = Held::none(&all, &own);
    assert_eq!(gathered.take(1 << 20).unwrap_err().kind, Kind::Busy);
    drop((gathered, records));
    assert_eq!((all.held_bytes(), own.held_bytes()), (0, 0));
}
