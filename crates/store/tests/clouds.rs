//! Object storage against Google's and Microsoft's interfaces: fake-gcs-server and Azurite, in peace and behind a proxy that loses answers.
//!
//! Ignored: `scripts/setup clouds` installs both, which takes minutes where nothing is cached. CONTRIBUTING.md has the command.
#![cfg(all(feature = "gcs", feature = "azure"))]
// Real services by the real clock.
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use dataflow::Effect;
use futures::future::join_all;
use store::{ErrorKind, Key, ObjectStorage, Prefix, Put, Remote, Store, Swap, Tag};
use testkit::{Answer, Azure, Fault, FaultProxy, Gcs, Reach, Rule, Service, available};

/// A service, and a proxy before it.
struct Cloud<S> {
    service: S,
    proxy: FaultProxy,
    /// How to reach it past the proxy, and by it.
    direct: Remote,
    proxied: Remote,
    /// Scheme and bucket.
    bucket: String,
}

fn gcs() -> Option<Cloud<Gcs>> {
    if !available(&[Service::Gcs]) {
        return None;
    }
    let service = Gcs::start().expect("a server");
    let proxy = FaultProxy::start(&service.url()).expect("a proxy");
    let remote = |endpoint: String| Remote {
        endpoint: Some(endpoint),
        service_account: Some(service.service_account()),
        ..Remote::default()
    };
    let (direct, proxied) = (remote(service.url()), remote(proxy.url()));
    Some(Cloud { service, proxy, direct, proxied, bucket: format!("gs://{}", Gcs::BUCKET) })
}

fn azure() -> Option<Cloud<Azure>> {
    if !available(&[Service::Azure]) {
        return None;
    }
    let service = Azure::start().expect("an emulator");
    let proxy = FaultProxy::start(&service.address()).expect("a proxy");
    let remote = |endpoint: String| Remote {
        endpoint: Some(endpoint),
        account: Some(Azure::ACCOUNT.into()),
        secret_key: Some(Azure::KEY.into()),
        ..Remote::default()
    };
    let proxied = remote(format!("{}/{}", proxy.url(), Azure::ACCOUNT));
    Some(Cloud {
        direct: remote(service.url()),
        service,
        proxy,
        proxied,
        bucket: format!("az://{}", Azure::CONTAINER),
    })
}

/// An empty store: a folder of the bucket that no other test uses.
fn empty(bucket: &str, remote: &Remote) -> Arc<dyn Store> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let url = format!("{bucket}/test/{}", NEXT.fetch_add(1, Ordering::Relaxed));
    Arc::new(ObjectStorage::new(&url, remote).expect("a store"))
}

fn key(text: &str) -> Key {
    Key::new(text).expect("a key")
}

fn body(text: &str) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(text.as_bytes())]
}

impl<S> Cloud<S> {
    fn empty(&self) -> Arc<dyn Store> {
        empty(&self.bucket, &self.direct)
    }

    fn behind_the_proxy(&self) -> Arc<dyn Store> {
        empty(&self.bucket, &self.proxied)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs `scripts/setup clouds`"]
async fn google_holds_every_rule_that_local_disk_holds() {
    let Some(cloud) = gcs() else { return };
    store::conformance::run(|| cloud.empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs `scripts/setup clouds`"]
async fn azure_holds_every_rule_that_local_disk_holds() {
    let Some(cloud) = azure() else { return };
    store::conformance::run(|| cloud.empty()).await;
}

#[tokio::test]
#[ignore = "needs `scripts/setup clouds`"]
async fn google_is_probed_listed_and_named_in_errors() {
    let Some(cloud) = gcs() else { return };
    probes_pass_and_leave_nothing(&cloud.empty()).await;
    lists_go_over_pages(&cloud.behind_the_proxy(), &cloud.proxy).await;
    a_missing_bucket_is_told("gs://no-such-bucket/x", &cloud.direct).await;
}

#[tokio::test]
#[ignore = "needs `scripts/setup clouds`"]
async fn azure_is_probed_listed_and_named_in_errors() {
    let Some(cloud) = azure() else { return };
    probes_pass_and_leave_nothing(&cloud.empty()).await;
    lists_go_over_pages(&cloud.behind_the_proxy(), &cloud.proxy).await;
    a_missing_bucket_is_told("az://no-such-container/x", &cloud.direct).await;
    let wrong = Remote { secret_key: Some("d3Jvbmcga2V5".into()), ..cloud.direct.clone() };
    let error = empty(&cloud.bucket, &wrong).probe(1).await.expect_err("refused");
    assert_eq!((error.kind, error.effect), (ErrorKind::Permission, Effect::None), "{error}");
    assert!(!error.to_string().contains("d3Jvbmcga2V5"), "{error}");
}

#[tokio::test]
#[ignore = "needs `scripts/setup clouds`"]
async fn google_loses_answers_and_is_slow() {
    let Some(cloud) = gcs() else { return };
    answers_that_are_lost_leave_the_effect_unknown(&cloud.behind_the_proxy(), &cloud.proxy, "DELETE").await;
    reads_that_break_are_errors(&cloud.behind_the_proxy(), &cloud.proxy).await;
    what_is_slow_is_answered_all_the_same(&cloud.behind_the_proxy(), &cloud.proxy).await;
    let (store, mut service) = (cloud.empty(), cloud.service);
    service.kill9().expect("killed");
    nobody_is_there(&store).await;
}

#[tokio::test]
#[ignore = "needs `scripts/setup clouds`"]
async fn azure_loses_answers_and_is_slow() {
    let Some(cloud) = azure() else { return };
    // A delete is a batch of one.
    answers_that_are_lost_leave_the_effect_unknown(&cloud.behind_the_proxy(), &cloud.proxy, "POST").await;
    reads_that_break_are_errors(&cloud.behind_the_proxy(), &cloud.proxy).await;
    what_is_slow_is_answered_all_the_same(&cloud.behind_the_proxy(), &cloud.proxy).await;
    let (store, mut service) = (cloud.empty(), cloud.service);
    service.kill9().expect("killed");
    nobody_is_there(&store).await;
}

async fn probes_pass_and_leave_nothing(store: &Arc<dyn Store>) {
    for nonce in 0..3 {
        store.probe(nonce).await.expect("the service holds the condition");
        store.probe_registers(nonce).await.expect("and this one");
        // The objects of the first probe are gone, or this one would find them.
        store.probe(nonce).await.expect("the same name again");
    }
    assert!(store.list(&Prefix::root(), None, 10).await.expect("lists").is_empty());
}

/// In the order of bytes, each name once, with as many requests as there are pages.
async fn lists_go_over_pages(store: &Arc<dyn Store>, proxy: &FaultProxy) {
    let names: Vec<String> = (0..1_050).map(|n| format!("many/{n:05}")).collect();
    for names in names.chunks(50) {
        join_all(
            names.iter().map(|name| async { store.put_if_absent(&key(name), vec![]).await.expect("puts") }),
        )
        .await;
    }
    let prefix = Prefix::new("many").expect("a prefix");
    for limit in [100, 1_000] {
        let (mut found, before) = (Vec::new(), proxy.counters().requests);
        loop {
            let page = store.list(&prefix, found.last(), limit).await.expect("lists");
            if page.is_empty() {
                break;
            }
            found.extend(page.into_iter().map(|entry| entry.key));
        }
        assert_eq!(found.iter().map(Key::as_str).collect::<Vec<_>>(), names, "pages of {limit}");
        println!("{} requests for pages of {limit}", proxy.counters().requests - before);
    }
}

async fn a_missing_bucket_is_told(url: &str, remote: &Remote) {
    let nowhere = ObjectStorage::new(url, remote).expect("a store");
    let error = nowhere.probe(1).await.expect_err("refused");
    assert_eq!((error.kind, error.effect), (ErrorKind::Missing, Effect::None), "{error}");
    let error = nowhere.get(&key("a"), 10).await.expect_err("no bucket is not: no object");
    assert_eq!(error.kind, ErrorKind::Missing, "{error}");
    assert_eq!(nowhere.list(&Prefix::root(), None, 1).await.expect_err("no bucket").kind, ErrorKind::Missing);
    // Azure deletes in batches, which tell no more than that the object is not there.
    let deleted = nowhere.delete(&key("a")).await.map_err(|error| error.kind);
    assert!(matches!(deleted, Ok(()) | Err(ErrorKind::Missing)), "{deleted:?}");
}

/// Puts, swaps and deletes whose answer does not arrive: each is sent once, and a repeat meets its own first try.
async fn answers_that_are_lost_leave_the_effect_unknown(
    store: &Arc<dyn Store>,
    proxy: &FaultProxy,
    delete: &str,
) {
    let faults = [Fault::SwallowAnswer, Fault::Answer(Answer::new(503, "slow down").reach(Reach::Server))];
    for (n, fault) in faults.into_iter().enumerate() {
        let (object, register) = (key(&format!("lost/{n}")), key(&format!("root/{n}")));
        let before = proxy.counters().requests;
        let lose = |method: &str| proxy.add(Rule::next(1, fault.clone()).method(method));
        lose("PUT");
        let error = store.put_if_absent(&object, body("mine")).await.expect_err("the answer is lost");
        assert_eq!((error.kind, error.effect), (ErrorKind::Io, Effect::Unknown), "{fault:?}: {error}");
        assert_eq!(proxy.counters().requests - before, 1, "{fault:?}: no hidden retry");
        assert_eq!(store.put_if_absent(&object, body("mine")).await.expect("answers"), Put::Exists);
        assert_eq!(store.get(&object, 10).await.expect("reads").as_deref(), Some(&b"mine"[..]));

        let first = set(store, &register, None, "0").await.expect("answers").expect("it is created");
        lose("PUT");
        let error = set(store, &register, Some(&first), "1").await.expect_err("the answer is lost");
        assert_eq!((error.kind, error.effect), (ErrorKind::Io, Effect::Unknown), "{fault:?}: {error}");
        assert_eq!(
            set(store, &register, Some(&first), "1").await.expect("answers"),
            None,
            "its own first try"
        );
        let (found, tag) = store.read_register(&register, 10).await.expect("reads").expect("is there");
        assert_eq!(found, "1");
        set(store, &register, Some(&tag), "2").await.expect("answers").expect("by the tag that was read");

        let before = proxy.counters().requests;
        lose(delete);
        let error = store.delete(&object).await.expect_err("the answer is lost");
        assert_eq!((error.kind, error.effect), (ErrorKind::Io, Effect::Unknown), "{fault:?}: {error}");
        assert_eq!(proxy.counters().requests - before, 1, "{fault:?}: no hidden retry");
        store.delete(&object).await.expect("deletes");
        assert_eq!(store.get(&object, 10).await.expect("reads"), None);
    }
}

/// The tag of the new value, if the condition holds.
async fn set(
    store: &Arc<dyn Store>,
    register: &Key,
    expected: Option<&Tag>,
    text: &'static str,
) -> Result<Option<Tag>, store::StoreError> {
    let swap = store.compare_and_set(register, expected, Bytes::from_static(text.as_bytes())).await?;
    Ok(match swap {
        Swap::Done(tag) => Some(tag),
        Swap::Refused => None,
    })
}

async fn reads_that_break_are_errors(store: &Arc<dyn Store>, proxy: &FaultProxy) {
    let long = "0123456789".repeat(10_000);
    store.put_if_absent(&key("long"), body(&long)).await.expect("puts");
    for range in [None, Some(10..90_000)] {
        proxy.add(Rule::next(1, Fault::CutAnswer { body_bytes: 1_000 }).method("GET"));
        let result = match range.clone() {
            None => store.get(&key("long"), 1 << 20).await,
            Some(range) => store.get_range(&key("long"), range).await,
        };
        let error = result.expect_err("broken");
        assert_eq!((error.kind, error.effect), (ErrorKind::Io, Effect::None), "{error}");
    }
    proxy.add(Rule::next(1, Fault::CutAnswer { body_bytes: 100 }).method("GET"));
    let error = store.get(&key("long"), 1_000).await.expect_err("too large");
    assert_eq!(error.kind, ErrorKind::TooLarge, "refused before its bytes come: {error}");
    assert_eq!(store.get(&key("long"), 1 << 20).await.expect("reads").expect("there").len(), 100_000);
}

async fn what_is_slow_is_answered_all_the_same(store: &Arc<dyn Store>, proxy: &FaultProxy) {
    let slow = proxy.add(Rule::always(Fault::DelayAnswer(Duration::from_millis(250))));
    let began = Instant::now();
    store::conformance::racing_creators_have_one_winner(store.clone()).await;
    assert!(proxy.fired(slow) >= 128, "8 keys by 16 creators");
    // One after the other they would take 32 s.
    assert!(began.elapsed() < Duration::from_secs(24), "{:?}: puts wait for each other", began.elapsed());
    proxy.remove(slow);
}

async fn nobody_is_there(store: &Arc<dyn Store>) {
    let began = Instant::now();
    let error = store.put_if_absent(&key("late"), body("x")).await.expect_err("nobody is there");
    assert!(error.kind.is_transient() && error.kind == ErrorKind::Io, "{error}");
    let error = store.get(&key("late"), 10).await.expect_err("nobody is there");
    assert_eq!((error.kind, error.effect), (ErrorKind::Io, Effect::None), "{error}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}: an error comes at once", began.elapsed());
}
