use super::*;

#[tokio::test]
async fn items_arrive_in_order_and_the_last_sender_ends_it() {
    let (sender, mut receiver) = channel(1 << 20);
    let other = sender.clone();
    sender.send(1, 10).expect("open");
    other.send(2, 10).expect("open");
    drop((sender, other));
    assert_eq!(
        [receiver.recv().await, receiver.recv().await, receiver.recv().await],
        [Some(1), Some(2), None]
    );
}

#[tokio::test]
async fn a_full_queue_holds_its_senders_back() {
    let (sender, mut receiver) = channel(1_000);
    let thread = std::thread::spawn(move || {
        for n in 0..1_000 {
            sender.send(n, 400).expect("open");
        }
    });
    for n in 0..1_000 {
        assert!(receiver.shared.lock().bytes <= 1_000, "the bound holds");
        assert_eq!(receiver.recv().await, Some(n));
    }
    thread.join().expect("the sender ends");
}

#[tokio::test]
async fn one_item_above_the_bound_passes_alone() {
    let (sender, mut receiver) = channel(10);
    sender.send("large", 1_000_000).expect("does not wait for ever");
    assert_eq!(receiver.recv().await, Some("large"));
}

#[test]
fn a_waiting_sender_learns_that_the_receiver_is_gone() {
    let (sender, receiver) = channel(10);
    sender.send(1, 10).expect("passes alone");
    let thread = std::thread::spawn(move || sender.send(2, 10));
    drop(receiver);
    assert_eq!(thread.join().expect("ends"), Err(Closed));
}

#[tokio::test]
async fn a_queue_is_empty_once_all_is_taken_or_nobody_takes_any_more() {
    let (sender, mut receiver) = channel(1 << 20);
    assert!(sender.is_empty());
    for n in 0..2 {
        sender.send(n, 0).expect("open");
        assert!(!sender.is_empty());
    }
    assert_eq!([receiver.recv().await, receiver.recv().await], [Some(0), Some(1)]);
    assert!(sender.is_empty());
    sender.send(2, 0).expect("open");
    drop(receiver);
    assert!(sender.is_empty(), "whoever sends only then learns of the end");
    assert_eq!(sender.send(3, 0), Err(Closed));
}
