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
