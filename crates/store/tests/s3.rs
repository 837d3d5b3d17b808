//! Object storage against a real S3 gateway (versitygw), in peace and behind a proxy that loses answers.
#![cfg(feature = "s3")]
// Real services by the real clock.
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dataflow::Effect;
use futures::future::join_all;
use store::{ErrorKind, Key, ObjectStorage, Prefix, Put, Remote, Store};
use testkit::{Answer, Fault, FaultProxy, Reach, Rule, S3, Service, available};

fn remote(endpoint: &str) -> Remote {
    Remote {
        endpoint: Some(endpoint.to_owned()),
        region: Some(S3::REGION.to_owned()),
        access_key: Some(S3::ACCESS_KEY.to_owned()),
        secret_key: Some(S3::SECRET_KEY.to_owned()),
        ..Remote::default()
    }
}

/// An empty store: a folder of the bucket that no other test uses.
fn empty(endpoint: &str) -> Arc<dyn Store> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let url = format!("s3://{}/test/{}", S3::BUCKET, NEXT.fetch_add(1, Ordering::Relaxed));
    Arc::new(ObjectStorage::new(&url, &remote(endpoint)).expect("a store"))
}

fn key(text: &str) -> Key {
    Key::new(text).expect("a key")
}

fn body(text: &str) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(text.as_bytes())]
}

async fn content(store: &Arc<dyn Store>, name: &str) -> Option<Bytes> {
    store.get(&key(name), 1 << 20).await.expect("reads")
}

/// A gateway and a proxy before it.
fn world() -> Option<(S3, FaultProxy)> {
    if !available(&[Service::S3]) {
        return None;
    }
    let s3 = S3::start().expect("a gateway");
    let proxy = FaultProxy::start(&s3.url()).expect("a proxy");
    Some((s3, proxy))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn object_storage_holds_every_rule_that_local_disk_holds() {
    let Some((s3, _)) = world() else { return };
    store::conformance::objects(&mut || empty(&s3.url())).await;
    store::conformance::registers::alone(&mut || empty(&s3.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_writers_of_a_register_on_object_storage_have_one_winner() {
    let Some((s3, _)) = world() else { return };
    store::conformance::registers::racing(&mut || empty(&s3.url())).await;
}

#[tokio::test]
async fn a_lost_answer_to_a_swap_is_unknown_and_a_repeat_finds_that_it_is_done() {
    let Some((_s3, proxy)) = world() else { return };
    let store = empty(&proxy.url());
    let done = |swap| match swap {
        store::Swap::Done(tag) => tag,
        store::Swap::Refused => panic!("nobody else writes it"),
    };
    let set = |expected: Option<store::Tag>, text: &'static str| {
        let store = store.clone();
        async move {
            store.compare_and_set(&key("root"), expected.as_ref(), Bytes::from_static(text.as_bytes())).await
        }
    };
    let first = done(set(None, "0").await.expect("creates"));
    for fault in [Fault::SwallowAnswer, Fault::Answer(Answer::new(503, "slow down").reach(Reach::Server))] {
        let (_, tag) = store.read_register(&key("root"), 100).await.expect("reads").expect("is there");
        proxy.add(Rule::next(1, fault.clone()).method("PUT"));
        let text = if matches!(fault, Fault::SwallowAnswer) { "1" } else { "2" };
        let error = set(Some(tag.clone()), text).await.expect_err("the answer is lost");
        assert_eq!((error.kind, error.effect), (ErrorKind::Io, Effect::Unknown), "{fault:?}: {error}");
        assert_eq!(set(Some(tag), text).await.expect("answers"), store::Swap::Refused, "its own first try");
        let (found, _) = store.read_register(&key("root"), 100).await.expect("reads").expect("is there");
        assert_eq!(found, text);
    }
    assert_eq!(set(Some(first), "x").await.expect("answers"), store::Swap::Refused);
    let conflict =
        "<Error><Code>ConditionalRequestConflict</Code><Message>at the same time</Message></Error>";
    let (_, tag) = store.read_register(&key("root"), 100).await.expect("reads").expect("is there");
    proxy.add(Rule::next(1, Fault::Answer(Answer::new(409, conflict))).method("PUT"));
    let error = set(Some(tag.clone()), "3").await.expect_err("two writers met");
    assert_eq!((error.kind, error.effect), (ErrorKind::Io, Effect::None), "{error}");
    done(set(Some(tag), "3").await.expect("answers"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_creators_have_one_winner_when_answers_are_slow_and_connections_few() {
    let Some((_s3, proxy)) = world() else { return };
    proxy.add(Rule::always(Fault::DelayAnswer(Duration::from_millis(20))));
    store::conformance::racing_creators_have_one_winner(empty(&proxy.url())).await;
}

#[tokio::test]
async fn the_probe_lets_a_store_pass_that_refuses_the_second_put_and_leaves_nothing() {
    let Some((s3, _)) = world() else { return };
    let store = empty(&s3.url());
    for nonce in 0..3 {
        store.probe(nonce).await.expect("versitygw holds the condition");
    }
    assert!(store.list(&Prefix::root(), None, 10).await.expect("lists").is_empty());
    let left = walk(&s3.bucket_dir());
    assert!(left.is_empty(), "{left:?}");
}

/// A process that died in its probe, or a store that went away, has left an object.
#[tokio::test]
async fn the_probe_takes_away_what_another_left_an_hour_ago() {
    let Some((s3, proxy)) = world() else { return };
    let store = empty(&proxy.url());
    for nonce in 0..3 {
        proxy.add(Rule::next(1, Fault::Answer(Answer::new(503, ""))).method("DELETE"));
        store.probe(nonce).await.expect_err("the store is away before the object is removed");
    }
    let left = walk(&s3.bucket_dir());
    assert_eq!(left.len(), 3, "{left:?}");
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(3_700);
    let old: Vec<_> = left.iter().filter(|path| !path.ends_with(format!("{:032x}", 1))).collect();
    for path in &old {
        let file = std::fs::File::options().write(true).open(path).expect("the object's file");
        file.set_modified(long_ago).expect("another time");
    }
    // Another probe may be at work with the one that is young.
    store.probe(9).await.expect("the store is there");
    let left = walk(&s3.bucket_dir());
    assert!(left.len() == 1 && left[0].ends_with(format!("{:032x}", 1)), "{left:?}");
}

/// As a gateway over a file system answers when another probe's folder goes away under it.
#[tokio::test]
async fn the_probe_tries_again_where_its_name_is_said_to_be_a_folder() {
    let Some((s3, proxy)) = world() else { return };
    let store = empty(&proxy.url());
    let code = "<Error><Code>ExistingObjectIsDirectory</Code><Message>Existing Object is a directory.</Message></Error>";
    let refused = || Rule::next(1, Fault::Answer(Answer::new(409, code))).method("PUT");
    proxy.add(refused());
    proxy.add(refused());
    store.probe(7).await.expect("the third try");
    proxy.add(Rule::always(Fault::Answer(Answer::new(409, code))).method("PUT"));
    let error = store.probe(8).await.expect_err("it is a folder, whatever it means");
    assert_eq!(error.kind, ErrorKind::Conflict);
    drop(s3);
}

/// Files below a folder.
fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn the_probe_refuses_a_store_that_overwrites_and_names_it() {
    let Some((s3, proxy)) = world() else { return };
    let store = empty(&proxy.url());
    // What a store without conditions would answer to the second put.
    let ignores = Answer::new(200, "").header("ETag", "\"x\"");
    proxy.add(Rule::next(1, Fault::Answer(ignores)).method("PUT").skip(1));
    let error = store.probe(7).await.expect_err("it has no conditions");
    assert_eq!(error.kind, ErrorKind::NotSupported);
    let text = error.to_string();
    assert!(text.contains("s3://forebay-test/test/") && text.contains("If-None-Match"), "{text}");
    assert!(walk(&s3.bucket_dir()).is_empty(), "the probing object is gone all the same");
}

/// A proxy that has lost the answer to a put sends it once more, and the client gets the answer to the repeat.
#[tokio::test]
async fn the_probe_lets_a_put_pass_that_a_proxy_has_sent_twice() {
    let Some((s3, proxy)) = world() else { return };
    let store = empty(&proxy.url());
    let repeated = || {
        let refused = Answer::new(412, "<Error><Code>PreconditionFailed</Code></Error>");
        Fault::Answer(refused.reach(Reach::Server))
    };
    proxy.add(Rule::next(1, repeated()).method("PUT"));
    store.probe(7).await.expect("its own object is there");
    proxy.add(Rule::next(2, repeated()).method("PUT"));
    store.probe_registers(7).await.expect("its own values are there");
    // One that refuses what is not there is refused as ever.
    let refuses = || Answer::new(412, "<Error><Code>PreconditionFailed</Code></Error>");
    proxy.add(Rule::next(1, Fault::Answer(refuses())).method("PUT"));
    let error = store.probe(8).await.expect_err("nothing could be written");
    assert!(error.to_string().contains("refuses to put an object"), "{error}");
    proxy.add(Rule::next(1, Fault::Answer(refuses())).method("PUT"));
    let error = store.probe_registers(8).await.expect_err("no log could be created");
    assert!(error.to_string().contains("refuses to create a register"), "{error}");
    assert!(walk(&s3.bucket_dir()).is_empty(), "the probing objects are gone all the same");
}

/// What a proxy says that has lost its way to the store is no answer of the store.
#[tokio::test]
async fn an_object_is_not_missing_because_a_proxy_has_no_way_to_it() {
    let Some((_s3, proxy)) = world() else { return };
    let store = empty(&proxy.url());
    store.put_if_absent(&key("a"), body("a")).await.expect("puts");
    proxy.add(Rule::next(1, Fault::Answer(Answer::new(404, "default backend - 404"))).method("GET"));
    let error = store.get(&key("a"), 10).await.expect_err("the store was not asked");
    assert_eq!(error.kind, ErrorKind::Io, "{error}");
    assert_eq!(content(&store, "a").await.as_deref(), Some(&b"a"[..]));
    assert_eq!(content(&store, "b").await, None);
}

#[tokio::test]
async fn the_probe_of_registers_lets_a_service_pass_that_holds_the_condition_and_leaves_nothing() {
    let Some((s3, _)) = world() else { return };
    let store = empty(&s3.url());
    for nonce in 0..3 {
        store.probe(nonce).await.expect("versitygw holds the condition");
        store.probe_registers(nonce).await.expect("and this one");
    }
    let left = walk(&s3.bucket_dir());
    assert!(left.is_empty(), "{left:?}");
}

/// A service that ignores `If-Match`: the put by a stale tag is answered like any other.
#[tokio::test]
async fn the_probe_refuses_a_service_that_replaces_whatever_stands_there_and_names_it() {
    let Some((s3, proxy)) = world() else { return };
    let store = empty(&proxy.url());
    let ignores = Answer::new(200, "").header("ETag", "\"x\"");
    proxy.add(Rule::next(1, Fault::Answer(ignores)).method("PUT").skip(2));
    let error = store.probe_registers(7).await.expect_err("two owners could commit");
    assert_eq!(error.kind, ErrorKind::NotSupported);
    let text = error.to_string();
    assert!(text.contains("s3://forebay-test/test/") && text.contains("`If-Match` has no effect"), "{text}");
    assert!(text.contains("docs/stores.md"), "{text}");
    // One that refuses every condition is no better.
    let refuses = || Answer::new(412, "<Error><Code>PreconditionFailed</Code></Error>");
    proxy.add(Rule::next(1, Fault::Answer(refuses())).method("PUT").skip(1));
    let error = store.probe_registers(8).await.expect_err("nothing could be committed");
    assert!(error.to_string().contains("refuses to replace"), "{error}");
    // Nor is one behind something that alters the ETag of what is read: a claim names that one.
    let altered = Answer::new(200, "first").header("ETag", "W/\"x\"");
    proxy.add(Rule::next(1, Fault::Answer(altered)).method("GET"));
    let error = store.probe_registers(9).await.expect_err("no log could be taken over");
    assert!(error.to_string().contains("refuses to replace"), "{error}");
    assert!(walk(&s3.bucket_dir()).is_empty(), "the probing object is gone all the same");
}

#[tokio::test]
async fn wrong_keys_and_missing_buckets_are_told_apart() {
    let Some((s3, _)) = world() else { return };
    let wrong = Remote { secret_key: Some("wrong".into()), ..remote(&s3.url()) };
    let url = format!("s3://{}/x", S3::BUCKET);
    let error = ObjectStorage::new(&url, &wrong).expect("a store").probe(1).await.expect_err("refused");
    assert_eq!((error.kind, error.effect), (ErrorKind::Permission, Effect::None), "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");

    let nowhere = ObjectStorage::new("s3://no-such-bucket/x", &remote(&s3.url())).expect("a store");
    let error = nowhere.probe(1).await.expect_err("refused");
    assert_eq!((error.kind, error.effect), (ErrorKind::Missing, Effect::None), "{error}");
    let probe = format!("`s3://no-such-bucket/x/.probe/{:032x}`", 1);
    assert!(error.to_string().contains(&probe), "the prefix stands in it once: {error}");
    let error = nowhere.get(&key("a"), 10).await.expect_err("no bucket is not: no object");
    assert_eq!(error.kind, ErrorKind::Missing, "{error}");
    assert_eq!(nowhere.list(&Prefix::root(), None, 1).await.expect_err("no bucket").kind, ErrorKind::Missing);

    let unnamed = ObjectStorage::new("s3://No_Bucket/x", &remote(&s3.url())).expect("a store");
    let error = unnamed.probe(1).await.expect_err("refused");
    assert!(!error.kind.is_transient() || error.kind == ErrorKind::Missing, "{error}");
}

#[tokio::test]
async fn an_answer_lost_after_the_put_leaves_the_effect_unknown_and_the_object_there() {
    let Some((_s3, proxy)) = world() else { return };
    let store = empty(&proxy.url());
    let faults = [
        Fault::SwallowAnswer,
        Fault::CutAnswer { body_bytes: 0 },
        Fault::Answer(Answer::new(503, "slow down").reach(Reach::Server)),
        Fault::Answer(Answer::new(500, "").reach(Reach::Server)),
        Fault::Answer(Answer::new(504, "").reach(Reach::Server)),
    ];
    for (n, fault) in faults.into_iter().enumerate() {
        let name = format!("lost/{n}");
        let rule = proxy.add(Rule::next(1, fault.clone()).method("PUT"));
        let seen = proxy.counters().requests;
        match store.put_if_absent(&key(&name), body("mine")).await {
            // An answer to a put has nothing but a head, which went by whole.
            Ok(Put::Created) => assert!(matches!(fault, Fault::CutAnswer { .. }), "{fault:?}"),
            Ok(Put::Exists) => panic!("{fault:?}: sent a second time"),
            Err(error) => {
                assert_eq!((error.kind, error.effect), (ErrorKind::Io, Effect::Unknown), "{fault:?}: {error}")
            }
        }
        assert_eq!(proxy.fired(rule), 1);
        assert_eq!(proxy.counters().requests - seen, 1, "{fault:?}: no hidden retry");
        assert_eq!(content(&store, &name).await.as_deref(), Some(&b"mine"[..]), "{fault:?}: it took effect");
        // The caller's next try meets its own first one.
        assert_eq!(store.put_if_absent(&key(&name), body("mine")).await.expect("answers"), Put::Exists);
    }
}

/// By this name the provider's own tools are told to send a checksum only where they must.
const CHECKSUM_CALCULATION: &str = "AWS_REQUEST_CHECKSUM_CALCULATION";

/// Whoever is killed in the middle of a put leaves none of it, or whoever finds a part under the name would take it for the object.
#[tokio::test]
async fn a_put_that_breaks_off_in_its_body_leaves_no_object() {
    let Some((_s3, proxy)) = world() else { return };
    let store = empty(&proxy.url());
    for (n, bytes) in [(0, 2_000), (1, 400 << 10), (2, 20 << 20)] {
        let name = format!("cut/{n}");
        let sent = vec![Bytes::from(vec![b'x'; bytes])];
        for body_bytes in [1_000, bytes as u64 / 2, bytes as u64 - 1] {
            let rule = proxy.add(Rule::next(1, Fault::CutRequest { body_bytes }).method("PUT"));
            let error = store.put_if_absent(&key(&name), sent.clone()).await.expect_err("it broke off");
            assert_eq!(error.kind, ErrorKind::Io, "{error}");
            assert_eq!(proxy.fired(rule), 1);
            // The server may need a moment to notice.
            for _ in 0..20 {
                let found = store.get(&key(&name), 64 << 20).await.expect("reads");
                assert_eq!(found.map(|found| found.len()), None, "{bytes} bytes, cut after {body_bytes}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        assert_eq!(store.put_if_absent(&key(&name), sent.clone()).await.expect("puts"), Put::Created);
    }
    let sends_checksums = std::env::var(CHECKSUM_CALCULATION).is_err();
    for seen in proxy.seen().into_iter().filter(|seen| seen.method == "PUT") {
        let header = |name: &str| {
            let found = seen.headers.iter().find(|(of, _)| of.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone())
        };
        let hash = header("x-amz-content-sha256").expect("every request is signed");
        let is_long = header("content-length").is_some_and(|length| length.len() > 7);
        assert_eq!(header("x-amz-checksum-crc64nvme").is_some(), sends_checksums, "{}", seen.target);
        assert_eq!(hash == "UNSIGNED-PAYLOAD", sends_checksums && is_long, "{}: {hash}", seen.target);
    }
}

/// The same for a service that knows no checksum: the signature of every put covers its body.
#[test]
fn a_put_that_breaks_off_leaves_no_object_where_no_checksum_is_sent() {
    let mut child = std::process::Command::new(std::env::current_exe().expect("a test is a program"));
    child.args(["a_put_that_breaks_off_in_its_body_leaves_no_object", "--exact"]);
    let output = child.env(CHECKSUM_CALCULATION, "when_required").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
async fn a_put_that_was_turned_down_leaves_nothing() {
    let Some((_s3, proxy)) = world() else { return };
    let store = empty(&proxy.url());
    let conflict =
        "<Error><Code>ConditionalRequestConflict</Code><Message>at the same time</Message></Error>";
    for (answer, kind) in [
        (Answer::new(409, conflict), ErrorKind::Io),
        (Answer::new(429, "too many"), ErrorKind::Io),
        (Answer::new(403, "<Error><Code>AccessDenied</Code></Error>"), ErrorKind::Permission),
    ] {
        proxy.add(Rule::next(1, Fault::Answer(answer.clone())).method("PUT"));
        let error = store.put_if_absent(&key("turned-down"), body("x")).await.expect_err("turned down");
        assert_eq!((error.kind, error.effect), (kind, Effect::None), "{answer:?}: {error}");
        assert_eq!(content(&store, "turned-down").await, None);
    }
    assert_eq!(store.put_if_absent(&key("turned-down"), body("x")).await.expect("puts"), Put::Created);
}

#[tokio::test]
async fn reads_that_break_are_errors_and_never_short() {
    let Some((_s3, proxy)) = world() else { return };
    let store = empty(&proxy.url());
    let long = "0123456789".repeat(10_000);
    store.put_if_absent(&key("long"), body(&long)).await.expect("puts");
    // What breaks before the answer begins is sent three times, and what breaks within it is the caller's.
    for (fault, sent) in
        [(Fault::CutAnswer { body_bytes: 1_000 }, 1), (Fault::Reset, 3), (Fault::SwallowAnswer, 3)]
    {
        for range in [None, Some(10..90_000)] {
            let rule = proxy.add(Rule::next(sent, fault.clone()).method("GET"));
            let result = match range.clone() {
                None => store.get(&key("long"), 1 << 20).await,
                Some(range) => store.get_range(&key("long"), range).await,
            };
            let error = result.expect_err("broken");
            assert_eq!((error.kind, error.effect), (ErrorKind::Io, Effect::None), "{fault:?}: {error}");
            assert_eq!(proxy.fired(rule), sent, "{fault:?}");
        }
    }
    proxy.add(Rule::next(2, Fault::Reset).method("GET"));
    assert_eq!(content(&store, "long").await.expect("there").len(), 100_000);
}

#[tokio::test]
async fn an_object_above_the_bound_is_refused_before_its_bytes_come() {
    let Some((_s3, proxy)) = world() else { return };
    let store = empty(&proxy.url());
    store.put_if_absent(&key("large"), vec![Bytes::from(vec![7; 8 << 20])]).await.expect("puts");
    // What comes after the head would take for ever.
    proxy.add(Rule::next(1, Fault::CutAnswer { body_bytes: 100 }).method("GET"));
    let error = store.get(&key("large"), 1 << 20).await.expect_err("too large");
    assert_eq!(error.kind, ErrorKind::TooLarge, "{error}");
}

#[tokio::test]
async fn pieces_go_to_the_wire_without_being_joined_and_come_back_in_order() {
    let Some((s3, _)) = world() else { return };
    let store = empty(&s3.url());
    let pieces: Vec<Bytes> = (0..64_u8).map(|n| Bytes::from(vec![n; 512 << 10])).collect();
    store.put_if_absent(&key("pieces"), pieces.clone()).await.expect("puts");
    let found = store.get(&key("pieces"), 64 << 20).await.expect("reads").expect("there");
    assert_eq!(found.len(), 64 * (512 << 10));
    assert!(pieces.iter().zip(found.chunks(512 << 10)).all(|(piece, found)| piece == found));
    let across = store.get_range(&key("pieces"), (512 << 10) - 1..(512 << 10) + 1).await.expect("reads");
    assert_eq!(across.as_deref(), Some(&[0, 1][..]));
}

#[tokio::test]
async fn a_list_goes_over_pages_and_passes_by_what_is_no_key() {
    let Some((s3, proxy)) = world() else { return };
    let store = empty(&proxy.url());
    let puts = (0..1_050).map(|n| {
        let store = store.clone();
        async move { store.put_if_absent(&key(&format!("many/{n:05}")), vec![]).await.expect("puts") }
    });
    join_all(puts).await;
    let folder = walk(&s3.bucket_dir())[0].parent().expect("a folder").to_owned();
    for foreign in ["!first", "00500 copy", ".hidden"] {
        std::fs::write(folder.join(foreign), "x").expect("a foreign object");
    }
    let prefix = Prefix::new("many").expect("a prefix");
    for limit in [7, 1_000] {
        let (mut found, before) = (Vec::new(), proxy.counters().requests);
        loop {
            let page = store.list(&prefix, found.last(), limit).await.expect("lists");
            if page.is_empty() {
                break;
            }
            found.extend(page.into_iter().map(|entry| entry.key));
        }
        let names: Vec<String> = (0..1_050).map(|n| format!("many/{n:05}")).collect();
        assert_eq!(found.iter().map(Key::as_str).collect::<Vec<_>>(), names, "pages of {limit}");
        let requests = proxy.counters().requests - before;
        assert!(requests <= 1_053_u64.div_ceil(limit as u64) + 4, "{requests} requests for pages of {limit}");
    }
}

/// As services of Azure's interface do that do not know where a list is to begin.
#[tokio::test]
async fn a_service_that_lists_from_the_beginning_whatever_is_asked_for_repeats_no_name() {
    let Some((_s3, proxy)) = world() else { return };
    let url = format!("s3://{}/early", S3::BUCKET);
    let store = ObjectStorage::new(&url, &remote(&proxy.url())).expect("a store");
    let content = |name: u8| {
        format!(
            "<Contents><Key>early/many/{name}</Key><LastModified>2026-01-01T00:00:00Z</LastModified><Size>1</Size></Contents>"
        )
    };
    let contents: String = (1..=4).map(content).collect();
    let page = format!("<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>");
    proxy.add(Rule::always(Fault::Answer(Answer::new(200, &page))).method("GET"));
    let prefix = Prefix::new("many").expect("a prefix");
    let listed = |after: Option<&'static str>| {
        let store = &store;
        let prefix = &prefix;
        async move {
            let entries = store.list(prefix, after.map(key).as_ref(), 3).await.expect("lists");
            entries.into_iter().map(|entry| entry.key.as_str().to_owned()).collect::<Vec<_>>()
        }
    };
    assert_eq!(listed(None).await, ["many/1", "many/2", "many/3"]);
    assert_eq!(listed(Some("many/3")).await, ["many/4"]);
    assert!(listed(Some("many/4")).await.is_empty(), "the list has an end");
}

#[tokio::test]
async fn a_gateway_that_dies_in_between_is_met_again_on_new_connections() {
    let Some((mut s3, _)) = world() else { return };
    let store = empty(&s3.url());
    store.put_if_absent(&key("before"), body("x")).await.expect("puts");
    s3.kill9().expect("killed");
    let error = store.get(&key("before"), 10).await.expect_err("nobody is there");
    assert!(error.kind.is_transient(), "{error}");
    s3.restart().expect("restarted");
    // The first one may still take a connection that the dead gateway had.
    let mut found = store.get(&key("before"), 10).await;
    if found.is_err() {
        found = store.get(&key("before"), 10).await;
    }
    assert_eq!(found.expect("reads").as_deref(), Some(&b"x"[..]));
}
