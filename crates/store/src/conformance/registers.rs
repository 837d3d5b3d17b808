//! Rule 9 of the contract: registers.
//!
//! Owns the tests. Does not own when a caller may expect which tag.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::future::join_all;

use super::key;
use crate::{ErrorKind, REGISTER_BYTES_MAX, Store, Swap, Tag};
use dataflow::Effect;

/// What holds with one writer at a time.
pub async fn alone(empty: &mut impl FnMut() -> Arc<dyn Store>) {
    a_register_is_created_once_and_replaced_by_its_tag_alone(empty()).await;
    an_older_tag_never_wins_again(empty()).await;
    a_reader_beside_a_writer_sees_whole_values_in_order(empty()).await;
    a_tag_is_never_read_with_an_older_value(empty()).await;
    a_register_is_bounded(empty()).await;
}

/// What holds between writers that race.
pub async fn racing(empty: &mut impl FnMut() -> Arc<dyn Store>) {
    racing_writers_of_one_tag_have_one_winner(empty()).await;
    every_increment_of_a_shared_counter_counts(empty()).await;
}

/// Created if absent, and then replaced by whoever holds the present tag.
pub async fn a_register_is_created_once_and_replaced_by_its_tag_alone(store: Arc<dyn Store>) {
    let name = key("log/root");
    assert_eq!(store.read_register(&name, 100).await.expect("absent is no error"), None);
    let foreign = Tag::new("0-0-none");
    let swap = store.compare_and_set(&name, Some(&foreign), body("x")).await.expect("answers");
    assert_eq!(swap, Swap::Refused, "there is nothing to replace");
    let first = done(&store, "log/root", None, "first").await;
    assert_eq!(read(&store, "log/root").await, ("first".to_owned(), first.clone()));
    let swap = store.compare_and_set(&name, None, body("again")).await.expect("answers");
    assert_eq!(swap, Swap::Refused, "it exists");
    let second = done(&store, "log/root", Some(&first), "second, which is longer").await;
    let third = done(&store, "log/root", Some(&second), "3").await;
    assert_eq!(read(&store, "log/root").await, ("3".to_owned(), third));
    // Another register beside it, and an object below the folder, are their own.
    done(&store, "log/acks", None, "other").await;
    super::put(&store, &key("log/data"), b"object").await;
    assert_eq!(read(&store, "log/acks").await.0, "other");
}

/// Sixteen writers that expect one tag, and sixteen that expect none.
pub async fn racing_writers_of_one_tag_have_one_winner(store: Arc<dyn Store>) {
    let name = key("race/register");
    let mut expected: Option<Tag> = None;
    for round in 0..6 {
        let bodies: Vec<String> = (0..16).map(|writer| format!("round {round} writer {writer}")).collect();
        let swaps = bodies.iter().map(|text| store.compare_and_set(&name, expected.as_ref(), body(text)));
        let mut winners = Vec::new();
        for (writer, swap) in join_all(swaps).await.into_iter().enumerate() {
            match swap {
                Ok(Swap::Done(tag)) => winners.push((writer, tag)),
                Ok(Swap::Refused) => {}
                // A service may say that two writes met, and that this one was not done.
                Err(error) => assert_eq!(error.effect, Effect::None, "{error}"),
            }
        }
        assert_eq!(winners.len(), 1, "rule 9: exactly one writer wins, not {winners:?}");
        let (winner, tag) = winners.remove(0);
        assert_eq!(read(&store, "race/register").await, (bodies[winner].clone(), tag.clone()));
        expected = Some(tag);
    }
}

/// A sleeper with the tag of any earlier value is refused, however many values came since.
pub async fn an_older_tag_never_wins_again(store: Arc<dyn Store>) {
    let mut tags = vec![done(&store, "old", None, "0").await];
    // More than the sweep of local disk waits for.
    for number in 1..140 {
        let tag = done(&store, "old", tags.last(), &number.to_string()).await;
        assert!(!tags.contains(&tag), "no tag comes twice");
        tags.push(tag);
    }
    let (last, older) = tags.split_last().expect("there are many");
    for tag in older.iter().step_by(7) {
        let swap = store.compare_and_set(&key("old"), Some(tag), body("a sleeper's")).await.expect("answers");
        assert_eq!(swap, Swap::Refused, "rule 9: at most once, for ever");
    }
    assert_eq!(read(&store, "old").await, ("139".to_owned(), last.clone()));
}

/// Eight tasks that each count a register up by reading it and swapping: no increment is lost and none counts twice.
pub async fn every_increment_of_a_shared_counter_counts(store: Arc<dyn Store>) {
    done(&store, "counter", None, "0 begin").await;
    let counted = (0..8).map(|writer| {
        let store = store.clone();
        async move {
            let mut done = 0;
            while done < 12 {
                let (text, tag) = read(&store, "counter").await;
                let count: u64 = text.split(' ').next().expect("a count").parse().expect("a number");
                let next = format!("{} by {writer} {done}", count + 1);
                match store.compare_and_set(&key("counter"), Some(&tag), body(&next)).await {
                    Ok(Swap::Done(_)) => done += 1,
                    Ok(Swap::Refused) => {}
                    Err(error) => assert_eq!(error.effect, Effect::None, "{error}"),
                }
            }
        }
    });
    join_all(counted).await;
    let (text, _) = read(&store, "counter").await;
    assert!(text.starts_with("96 "), "8 writers counted 12 each: {text}");
}

/// Values of changing length: a reader sees each whole, and never an older one after a newer.
pub async fn a_reader_beside_a_writer_sees_whole_values_in_order(store: Arc<dyn Store>) {
    let value = |number: usize| format!("{number}:{}", "x".repeat(number * 37 % 4_000));
    let mut tag = done(&store, "read", None, &value(0)).await;
    let writer = async {
        for number in 1..60 {
            tag = done(&store, "read", Some(&tag), &value(number)).await;
        }
    };
    let reader = async {
        let mut newest = 0;
        while newest < 59 {
            let (text, _) = read(&store, "read").await;
            let number: usize = text.split(':').next().expect("a number").parse().expect("a number");
            assert_eq!(text, value(number), "rule 9: a value is whole");
            assert!(number >= newest, "rule 9: {number} was read after {newest}");
            newest = number;
        }
    };
    futures::future::join(writer, reader).await;
}

/// Readers beside a writer: whoever swaps with the tag that was read replaces the value that was read, and none that came after it.
///
/// An older tag with a newer value is harmless: a swap with it is refused.
pub async fn a_tag_is_never_read_with_an_older_value(store: Arc<dyn Store>) {
    const VALUES: usize = 100;
    const READS_MAX: usize = 10_000;
    let mut tags = vec![done(&store, "pair", None, "0").await];
    let over = AtomicBool::new(false);
    let (writes, over) = (&mut tags, &over);
    let writer = async {
        for number in 1..VALUES {
            let tag = done(&store, "pair", writes.last(), &number.to_string()).await;
            writes.push(tag);
        }
        over.store(true, Ordering::Release);
    };
    let reads = (0..4).map(|_| async {
        let mut pairs = Vec::new();
        // A store whose calls never wait gives nobody else a turn.
        while !over.load(Ordering::Acquire) && pairs.len() < READS_MAX {
            pairs.push(read(&store, "pair").await);
        }
        pairs
    });
    let ((), pairs) = futures::future::join(writer, join_all(reads)).await;
    for (text, tag) in pairs.into_iter().flatten() {
        let value: usize = text.parse().expect("a number");
        let of_tag = tags.iter().position(|known| *known == tag).expect("a tag that was given");
        assert!(of_tag <= value, "rule 9: value {value} was read with the tag of value {of_tag}");
    }
}

/// A value above the bound is refused, and one above what a reader takes is an error.
pub async fn a_register_is_bounded(store: Arc<dyn Store>) {
    let large = Bytes::from(vec![7; REGISTER_BYTES_MAX as usize + 1]);
    let error = store.compare_and_set(&key("large"), None, large.clone()).await.expect_err("too large");
    assert_eq!((error.kind, error.effect), (ErrorKind::TooLarge, Effect::None));
    let swap = store.compare_and_set(&key("large"), None, large.slice(1..)).await.expect("fits");
    assert!(matches!(swap, Swap::Done(_)));
    assert!(store.read_register(&key("large"), REGISTER_BYTES_MAX).await.expect("fits").is_some());
    let error = store.read_register(&key("large"), REGISTER_BYTES_MAX - 1).await.expect_err("too large");
    assert_eq!((error.kind, error.effect), (ErrorKind::TooLarge, Effect::None));
}

fn body(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

async fn read(store: &Arc<dyn Store>, name: &str) -> (String, Tag) {
    let (bytes, tag) = store.read_register(&key(name), 1 << 20).await.expect("reads").expect("is there");
    (String::from_utf8(bytes.to_vec()).expect("text"), tag)
}

async fn done(store: &Arc<dyn Store>, name: &str, expected: Option<&Tag>, text: &str) -> Tag {
    match store.compare_and_set(&key(name), expected, body(text)).await.expect("answers") {
        Swap::Done(tag) => tag,
        Swap::Refused => panic!("nobody else writes `{name}`"),
    }
}
