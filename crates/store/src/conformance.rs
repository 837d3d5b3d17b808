//! The rules of [`Store`] as tests that any implementation runs.
//!
//! Owns what can be shown through the trait alone. Does not own crashes and power: those belong to each implementation's
//! own tests. Every function panics with the broken rule; all of them need an empty store.
//!
//! An implementation's test calls [`run`] with a function that makes an empty store.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;

use crate::{Entry, ErrorKind, Key, LIST_LIMIT_MAX, PAGE_BYTES, PAST_CACHE_BYTES_MIN, Prefix, Put, Store};
use dataflow::Effect;

/// Runs every rule, each on a store of its own.
pub async fn run(mut empty: impl FnMut() -> Arc<dyn Store>) {
    objects(&mut empty).await;
    registers::alone(&mut empty).await;
    registers::racing(&mut empty).await;
}

/// The rules for objects.
pub async fn objects(empty: &mut impl FnMut() -> Arc<dyn Store>) {
    racing_creators_have_one_winner(empty()).await;
    an_existing_object_keeps_its_content(empty()).await;
    pieces_arrive_joined_in_order(empty()).await;
    what_passes_the_cache_is_an_object_like_others(empty()).await;
    reading_stops_at_the_bound(empty()).await;
    ranges_lie_within_the_object(empty()).await;
    lists_are_in_the_order_of_bytes(empty()).await;
    pages_join_to_the_whole_list(empty()).await;
    deleting_is_repeatable_and_frees_the_key(empty()).await;
    keys_are_objects_or_folders(empty()).await;
    odd_names_are_kept_apart(empty()).await;
    hardening_changes_nothing_that_is_seen(empty()).await;
}

pub mod registers;

/// Rule 1: sixteen creators of one key at once, for several keys.
pub async fn racing_creators_have_one_winner(store: Arc<dyn Store>) {
    for round in 0..8 {
        let key = key(&format!("race/deep/{round}"));
        let bodies: Vec<Bytes> = (0..16_u8).map(|writer| Bytes::from(vec![writer; 5_000])).collect();
        let puts = join_all(bodies.iter().map(|body| store.put_if_absent(&key, vec![body.clone()]))).await;
        let puts: Vec<Put> = puts.into_iter().map(|put| put.expect("a race is no error")).collect();
        let winners: Vec<usize> = (0..16).filter(|&writer| puts[writer] == Put::Created).collect();
        assert_eq!(winners.len(), 1, "rule 1: exactly one creator wins, not {winners:?}");
        let content = store.get(&key, 5_000).await.expect("reads").expect("the winner's object is there");
        assert_eq!(content, bodies[winners[0]], "rule 1: the content is the winner's");
    }
}

/// Rules 2 and 4: the second put changes nothing, whatever its size.
pub async fn an_existing_object_keeps_its_content(store: Arc<dyn Store>) {
    let key = key("object");
    assert_eq!(put(&store, &key, b"first").await, Put::Created);
    for body in [&b"first"[..], b"other", b"", b"a longer one than the first"] {
        assert_eq!(put(&store, &key, body).await, Put::Exists);
        assert_eq!(
            content(&store, &key).await.as_deref(),
            Some(&b"first"[..]),
            "rule 2: content never changes"
        );
    }
}

/// Rule 2: many pieces, empty ones among them, more than one system call takes.
pub async fn pieces_arrive_joined_in_order(store: Arc<dyn Store>) {
    let pieces: Vec<Bytes> = (0..3_000_usize).map(|n| Bytes::from(vec![n as u8; n % 7])).collect();
    let whole: Vec<u8> = pieces.iter().flatten().copied().collect();
    assert_eq!(store.put_if_absent(&key("pieces"), pieces).await.expect("puts"), Put::Created);
    assert_eq!(content(&store, &key("pieces")).await.as_deref(), Some(&whole[..]));

    assert_eq!(store.put_if_absent(&key("none"), vec![]).await.expect("puts"), Put::Created);
    assert_eq!(
        content(&store, &key("none")).await.as_deref(),
        Some(&[][..]),
        "no pieces make an empty object"
    );
}

/// Rules 1, 2 and 4 for what passes the system's cache, with pieces at pages and beside them.
pub async fn what_passes_the_cache_is_an_object_like_others(store: Arc<dyn Store>) {
    let content: Vec<u8> =
        (0..2 * PAST_CACHE_BYTES_MIN + 77).map(|n| (n / 7 + n / PAGE_BYTES) as u8).collect();
    let large = at_page(&content);
    let fill = Bytes::from(vec![0; PAGE_BYTES - 77]);
    let body = vec![large.clone(), fill, large.clone(), Bytes::from_static(b"end")];
    let whole = body.concat();
    assert_eq!(store.put_past_cache(&key("large"), body.clone()).await.expect("puts"), Put::Created);
    let found = store.get(&key("large"), whole.len() as u64).await.expect("reads").expect("there");
    assert!(found == whole, "rule 2: all bytes, in order");
    let range = whole.len() as u64 - 100_000..whole.len() as u64 - 1;
    let found = store.get_range(&key("large"), range).await.expect("reads").expect("there");
    assert!(found == whole[whole.len() - 100_000..whole.len() - 1], "rule 4: what was just put is read");
    assert_eq!(store.put_past_cache(&key("large"), vec![]).await.expect("puts"), Put::Exists, "rule 1");
    for bytes in [0, 1, 5_000] {
        let name = key(&format!("small/{bytes}"));
        assert_eq!(
            store.put_past_cache(&name, vec![large.slice(..bytes)]).await.expect("puts"),
            Put::Created
        );
        // A few bytes: a server that refuses a large body before it has read it closes the connection, and the next request may
        // find that out.
        let other = vec![large.slice(1..5_001)];
        assert_eq!(store.put_if_absent(&name, other).await.expect("puts"), Put::Exists, "rule 1");
        assert_eq!(self::content(&store, &name).await.as_deref(), Some(&large[..bytes]));
    }
}

/// A copy of `bytes` in memory that begins at a page.
pub fn at_page(bytes: &[u8]) -> Bytes {
    let mut memory: Vec<u8> = Vec::with_capacity(bytes.len() + PAGE_BYTES);
    let front = memory.as_ptr().align_offset(PAGE_BYTES);
    memory.resize(front, 0);
    memory.extend_from_slice(bytes);
    Bytes::from(memory).slice(front..)
}

/// Rule 10: an object larger than asked for is an error, and one of exactly that size is not.
pub async fn reading_stops_at_the_bound(store: Arc<dyn Store>) {
    put(&store, &key("object"), &[7; 100]).await;
    assert!(store.get(&key("object"), 100).await.expect("fits").is_some());
    let error = store.get(&key("object"), 99).await.expect_err("one byte too large");
    assert_eq!((error.kind, error.effect), (ErrorKind::TooLarge, Effect::None));
    assert!(error.to_string().contains("`object`"), "the message names the key: {error}");
    assert_eq!(store.get(&key("absent"), 0).await.expect("absent is no error"), None);
    assert_eq!(store.get(&key("object/below"), 0).await.expect("absent is no error"), None);
}

/// A range is answered in full or not at all.
#[allow(clippy::reversed_empty_ranges)] // A caller's mistake must be an error, not a panic.
pub async fn ranges_lie_within_the_object(store: Arc<dyn Store>) {
    let key = key("object");
    put(&store, &key, b"0123456789").await;
    for (range, expected) in
        [(0..10, &b"0123456789"[..]), (0..1, b"0"), (3..7, b"3456"), (9..10, b"9"), (4..4, b"")]
    {
        let found = store.get_range(&key, range).await.expect("within").expect("there");
        assert_eq!(found, expected);
    }
    assert_eq!(
        store.get_range(&key, 10..10).await.expect("an empty range at the end").as_deref(),
        Some(&b""[..])
    );
    for range in [0..11, 10..11, 11..11, 0..u64::MAX, u64::MAX..u64::MAX, 7..3] {
        let error = store.get_range(&key, range.clone()).await.expect_err("outside");
        assert_eq!(error.kind, ErrorKind::OutOfRange, "{range:?}: {error}");
    }
    assert_eq!(
        store.get_range(&Key::new("absent").expect("a key"), 0..1).await.expect("absent is no error"),
        None
    );
}

/// A folder sorts as if its name ended in a slash, so `a-b/x` stands before `a/x`.
pub async fn lists_are_in_the_order_of_bytes(store: Arc<dyn Store>) {
    let mut keys = [
        "a/x", "a-b/x", "a.b/x", "a0/x", "a=b", "a/y/z", "a/y-z", "a_b", "B", "aa/0", "b/2", "b/10", "b/1/1",
    ];
    for text in keys {
        put(&store, &key(text), text.as_bytes()).await;
    }
    keys.sort_unstable();
    let all = list(&store, "", None, 100).await;
    assert_eq!(names(&all), keys);
    assert!(all.iter().all(|entry| entry.size_bytes == entry.key.as_str().len() as u64), "sizes are listed");
    assert_eq!(
        names(&list(&store, "a", None, 100).await),
        ["a/x", "a/y-z", "a/y/z"],
        "only what is below the folder"
    );
    assert!(list(&store, "absent", None, 100).await.is_empty());
    assert!(list(&store, "B", None, 100).await.is_empty(), "nothing is below an object");
    assert!(list(&store, "B/x", None, 100).await.is_empty(), "nothing is below an object");
}

/// Pages of any size, begun after keys that exist, do not exist, or lie outside of the folder.
pub async fn pages_join_to_the_whole_list(store: Arc<dyn Store>) {
    let mut keys: Vec<String> = (0..20).map(|n| format!("lane/{}/{n:03}", n % 3)).collect();
    keys.extend((0..7).map(|n| format!("lane/top-{n}")));
    keys.sort_unstable();
    for text in &keys {
        put(&store, &key(text), b"x").await;
    }
    put(&store, &key("outside/object"), b"x").await;
    put(&store, &key("a/first"), b"x").await;
    // A folder that is left empty must not end a page.
    store.delete(&key("a/first")).await.expect("deletes");

    for limit in [1, 2, 3, 5, 26, 27, 28, 1_000_000] {
        let mut found = Vec::new();
        loop {
            let after = found.last().map(|entry: &Entry| entry.key.clone());
            let page = list(&store, "lane", after.as_ref(), limit).await;
            assert!(page.len() <= limit.min(LIST_LIMIT_MAX));
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        assert_eq!(names(&found), keys, "pages of {limit}");
    }
    assert_eq!(names(&list(&store, "", None, 1).await), ["lane/0/000"]);
    assert!(list(&store, "lane", None, 0).await.is_empty());
    let after = |text: &str| Some(key(text));
    assert_eq!(list(&store, "lane", after("lane").as_ref(), 100).await.len(), 27);
    assert_eq!(list(&store, "lane", after("a/z").as_ref(), 100).await.len(), 27);
    assert_eq!(list(&store, "lane", after("lane/0").as_ref(), 100).await.len(), 27);
    assert_eq!(
        names(&list(&store, "lane", after("lane/top-4/x").as_ref(), 100).await),
        ["lane/top-5", "lane/top-6"]
    );
    assert!(list(&store, "lane", after("outside").as_ref(), 100).await.is_empty());
}

/// Rule 7, as far as one process sees it.
pub async fn deleting_is_repeatable_and_frees_the_key(store: Arc<dyn Store>) {
    let key = key("folder/object");
    store.delete(&key).await.expect("deleting what never was is fine");
    put(&store, &key, b"first").await;
    store.delete(&key).await.expect("deletes");
    store.delete(&key).await.expect("deleting twice is fine");
    store.delete(&Key::new("folder/object/below").expect("a key")).await.expect("nothing is there");
    assert_eq!(content(&store, &key).await, None);
    assert!(list(&store, "", None, 10).await.is_empty());
    assert_eq!(put(&store, &key, b"second").await, Put::Created);
    assert_eq!(content(&store, &key).await.as_deref(), Some(&b"second"[..]));
}

/// Rule 8. Object storage cannot see the clash and may allow it.
pub async fn keys_are_objects_or_folders(store: Arc<dyn Store>) {
    put(&store, &key("a/object"), b"x").await;
    for clash in ["a/object/below", "a/object/far/below", "a"] {
        match store.put_if_absent(&key(clash), vec![]).await {
            Ok(Put::Created) => {}
            Ok(Put::Exists) => panic!("rule 8: `{clash}` is no object"),
            Err(error) => {
                assert_eq!((error.kind, error.effect), (ErrorKind::Conflict, Effect::None), "{error}")
            }
        }
    }
    assert_eq!(content(&store, &key("a/object")).await.as_deref(), Some(&b"x"[..]));
    put(&store, &key("a-b/object"), b"x").await;
    assert_eq!(
        put(&store, &key("a-b/object2"), b"x").await,
        Put::Created,
        "a name that extends another is no clash"
    );
}

/// Names of every allowed shape are objects of their own.
pub async fn odd_names_are_kept_apart(store: Arc<dyn Store>) {
    let long =
        ["y".repeat(crate::key::SEGMENT_BYTES_MAX), "z".repeat(crate::key::SEGMENT_BYTES_MAX)].join("/");
    let deep = ["d"; crate::key::SEGMENTS_MAX].join("/");
    let texts = [
        "--",
        "=",
        "_",
        "a.",
        "a..",
        "A",
        "0",
        "00",
        "-/-",
        "n/a",
        "n/A",
        "lane=0.partition-1_x",
        &long,
        &deep,
    ];
    let mut keys = texts.map(key);
    for key in &keys {
        assert_eq!(put(&store, key, key.as_str().as_bytes()).await, Put::Created, "{key:?}");
    }
    for key in &keys {
        assert_eq!(content(&store, key).await.as_deref(), Some(key.as_str().as_bytes()), "{key:?}");
    }
    keys.sort_unstable();
    let listed: Vec<Key> = list(&store, "", None, 100).await.into_iter().map(|entry| entry.key).collect();
    assert_eq!(listed, keys);
}

/// Rule 3, as far as one process sees it: of full, empty and absent folders, and repeatedly.
pub async fn hardening_changes_nothing_that_is_seen(store: Arc<dyn Store>) {
    for prefix in ["", "absent", "absent/too"] {
        store.harden(&prefix_of(prefix)).await.expect("nothing to harden is fine");
    }
    put(&store, &key("a/b/object"), b"x").await;
    put(&store, &key("a/other"), b"y").await;
    for prefix in ["", "a", "a/b", "a/other", "a/b", "absent"] {
        store.harden(&prefix_of(prefix)).await.expect("hardens");
    }
    assert_eq!(names(&list(&store, "", None, 10).await), ["a/b/object", "a/other"]);
    assert_eq!(content(&store, &key("a/b/object")).await.as_deref(), Some(&b"x"[..]));
}

fn key(text: &str) -> Key {
    Key::new(text).expect("the suite's keys are valid")
}

fn prefix_of(text: &str) -> Prefix {
    Prefix::new(text).expect("the suite's prefixes are valid")
}

fn names(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.key.as_str()).collect()
}

async fn put(store: &Arc<dyn Store>, key: &Key, body: &[u8]) -> Put {
    store.put_if_absent(key, vec![Bytes::copy_from_slice(body)]).await.expect("puts")
}

async fn content(store: &Arc<dyn Store>, key: &Key) -> Option<Bytes> {
    store.get(key, 1 << 20).await.expect("reads")
}

async fn list(store: &Arc<dyn Store>, prefix: &str, after: Option<&Key>, limit: usize) -> Vec<Entry> {
    store.list(&prefix_of(prefix), after, limit).await.expect("lists")
}
