use std::collections::BTreeMap;

use dataflow::{BlockBuilder, Partition};

use super::*;

fn request(bodies: &[&str]) -> RecordBlock {
    let mut builder = BlockBuilder::new(Partition::new("gateway", 0), 0);
    bodies.iter().enumerate().for_each(|(at, body)| builder.push(at as u64, 7, Some(body.as_bytes())));
    builder.take()
}

fn bodies(block: &RecordBlock) -> Vec<String> {
    (0..block.len()).map(|row| String::from_utf8(block.payloads.get(row).to_vec()).expect("text")).collect()
}

#[test]
fn small_requests_go_together_and_each_is_told_of_by_itself() {
    let mut queue = Queue::default();
    queue.open(40);
    for (name, rows) in [("a", &["1", "22"][..]), ("b", &["333"])] {
        queue.push(request(rows), name).expect("it is open");
    }
    let block = queue.hand_out().expect("two wait");
    assert_eq!(bodies(&block), ["1", "22", "333"]);
    assert_eq!((block.positions.clone(), block.next), (vec![40, 41, 42], 43));
    assert_eq!(block.times_ms.len(), 3);
    assert!(queue.hand_out().is_none());
    assert_eq!(queue.sealed(41), []);
    assert_eq!(queue.sealed(42), [(40, "a")]);
    assert_eq!(queue.sealed(43), [(42, "b")]);
}

#[test]
fn a_large_request_is_a_block_of_its_own() {
    let large = "x".repeat(SMALL_BYTES);
    let mut queue = Queue::default();
    queue.push(request(&["1"]), 'a').expect("it is open");
    queue.push(request(&[&large]), 'b').expect("it is open");
    queue.push(request(&["2"]), 'c').expect("it is open");
    assert_eq!(queue.hand_out().map(|block| block.len()), Some(1));
    // What is small joins a larger one that came before it.
    assert_eq!(queue.hand_out().map(|block| block.positions), Some(vec![1, 2]));
}

#[test]
fn a_reader_that_begins_again_gets_what_was_never_handed_out_and_the_rest_is_told() {
    let mut queue = Queue::default();
    let (first, ..) = queue.open(0);
    for (name, rows) in [('a', 2), ('b', 3)] {
        queue.push(request(&vec!["1"; rows]), name).expect("it is open");
        queue.hand_out().expect("one waits");
    }
    queue.push(request(&["3"]), 'c').expect("it is open");
    let (second, sealed, lost) = queue.open(2);
    assert_eq!((sealed, lost), (vec![(0, 'a')], vec!['b']));
    assert!(!queue.is_read_by(first) && queue.is_read_by(second));
    let block = queue.hand_out().expect("one waits");
    assert_eq!((bodies(&block), block.positions), (vec!["3".to_owned()], vec![2]));
}

#[test]
fn what_was_not_handed_out_may_be_withdrawn_and_nothing_else() {
    let large = "x".repeat(SMALL_BYTES);
    let mut queue = Queue::default();
    let [a, b, c] = ["a", "b", "c"].map(|name| queue.push(request(&[&large]), name).expect("it is open"));
    queue.hand_out().expect("three wait");
    assert_eq!((queue.withdraw(a), queue.withdraw(b), queue.withdraw(b)), (None, Some("b"), None));
    assert_eq!(queue.hand_out().map(|block| block.positions), Some(vec![1]));
    assert_eq!((queue.withdraw(c), queue.hand_out().is_none()), (None, true));
    assert_eq!(queue.sealed(2), [(0, "a"), (1, "c")]);
}

#[test]
fn a_closed_queue_gives_back_what_waits_and_still_tells_what_is_sealed() {
    let mut queue = Queue::default();
    queue.push(request(&["1"]), 'a').expect("it is open");
    queue.hand_out().expect("one waits");
    queue.push(request(&["2"]), 'b').expect("it is open");
    assert_eq!(queue.close(), ['b']);
    assert_eq!(queue.push(request(&["3"]), 'c'), Err('c'));
    assert!(queue.hand_out().is_none());
    assert_eq!(queue.sealed(1), [(0, 'a')]);
}

proptest::proptest! {
    /// Whatever happens in whatever order, each request is told of at most once, only those are called sealed whose records a seal holds, and a seal never holds
    /// records of a request that was told to come again.
    #[test]
    fn what_is_told_is_what_became_of_it(steps in proptest::collection::vec((0u8..6, 1usize..4), 0..60)) {
        let mut queue = Queue::default();
        let mut names = 0u32;
        // Record by record whose it is, of what is read and of what is sealed.
        let (mut read, mut sealed): (Vec<u32>, Vec<u32>) = Default::default();
        let mut told: BTreeMap<u32, bool> = BTreeMap::new();
        queue.open(0);
        for (what, number) in steps {
            match what {
                0 | 1 => {
                    let rows: Vec<String> = (0..number).map(|_| names.to_string()).collect();
                    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
                    assert!(queue.push(request(&rows), names).is_ok());
                    names += 1;
                }
                2 => if let Some(block) = queue.hand_out() {
                    assert_eq!(block.positions[0], read.len() as u64);
                    read.extend(bodies(&block).iter().map(|body| body.parse::<u32>().expect("a number")));
                },
                3 => {
                    // A seal holds all that was read.
                    sealed.clone_from(&read);
                    for (first, name) in queue.sealed(sealed.len() as u64) {
                        assert_eq!(sealed[first as usize], name);
                        assert!(told.insert(name, true).is_none());
                    }
                }
                // A recent request is withdrawn; its number is its name.
                4 => if let Some(name) = queue.withdraw(u64::from(names).saturating_sub(number as u64)) {
                    assert!(told.insert(name, false).is_none());
                },
                _ => {
                    read.clone_from(&sealed);
                    let (_, done, lost) = queue.open(sealed.len() as u64);
                    assert!(done.is_empty(), "a seal was told of before");
                    for name in lost {
                        assert!(told.insert(name, false).is_none());
                    }
                }
            }
        }
        for (name, is_sealed) in told {
            assert_eq!(sealed.contains(&name), is_sealed);
        }
    }
}
