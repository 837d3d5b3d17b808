use std::time::Duration;

use super::*;
use crate::support::{self, in_memory, options, records, start};

/// What became of each document, and the rows of each stream.
type Told = (Vec<String>, Vec<(String, u64)>);

fn parsed(body: &str, index: Option<&str>) -> Result<Told, Refusal> {
    let begin = |name: &str| match name {
        "gone" => Err(Refusal::new(Kind::NoStream, "there is no such stream")),
        _ => Rows::new(5, support::roomy(), 0),
    };
    let found = documents(body.as_bytes(), index, support::roomy(), begin)?;
    let item = |item: &Item| match &item.fate {
        Fate::Row(row) => format!("{} {} {row}", item.action, item.index),
        Fate::Refused(kind, _) => {
            format!("{} {} {}", item.action, item.index, item_status(*kind).as_u16())
        }
    };
    let rows = found.rows.iter().map(|(index, parsed)| (index.clone(), parsed.records.len() as u64));
    Ok((found.items.iter().map(item).collect(), rows.collect()))
}

#[test]
fn every_document_has_an_item_and_goes_to_the_stream_of_its_index() {
    let body = "{\"create\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{\"x\":1}\n\n{\"index\":{}}\r\n{\"x\":2}\n{\"delete\":{\"_id\":\"1\"}}\n\
                {\"update\":{\"_index\":\"a\"}}\n{\"doc\":{}}\n{\"create\":{\"_index\":\"gone\"}}\n{\"x\":3}\n{\"create\":{\"_index\":\"a\"}}\nnot json\n\
                {\"create\":{\"_index\":\"a\",\"pipeline\":\"p\"}}\n{\"x\":4}";
    let (items, rows) = parsed(body, Some("b")).unwrap();
    assert_eq!(
        items,
        [
            "create a 0",
            "index b 0",
            "delete b 400",
            "update a 400",
            "create gone 404",
            "create a 400",
            "create a 1"
        ]
    );
    assert_eq!(rows, [("a".to_owned(), 2), ("b".to_owned(), 1)]);
    for (body, why) in [
        ("{\"index\":{}}\n{}", "line 1 names no `_index`"),
        ("x", "line 1 is no action"),
        ("\n{\"upsert\":{\"_index\":\"a\"}}\n{}", "line 2 names an unknown action"),
        ("{}\n{}", "line 1 names no action"),
        ("{\"create\":{\"_index\":\"a\"},\"create\":{}}\n{}", "line 1 names no action, or several"),
        ("{\"create\":{\"_index\":\"a\"}} {}\n{}", "line 1 is no action"),
        ("{\"create\":{\"_index\":\"a\"}}\n", "line 1 has no document"),
    ] {
        let refusal = parsed(body, None).unwrap_err();
        assert!(
            refusal.kind == Kind::Malformed && refusal.message.starts_with(why),
            "{body}: {}",
            refusal.message
        );
    }
}

#[test]
fn names_may_be_numbers_and_are_answered_as_texts() {
    let body = "{\"index\":{\"_index\":\"docs\",\"_id\":1}}\n{}\n{\"create\":{\"_index\":2026,\"_id\":-1.5}}\n{}\n\
                {\"index\":{\"_index\":\"docs\",\"_id\":null}}\n{}\n";
    let begin = |_: &str| Rows::new(5, support::roomy(), 0);
    let found = documents(body.as_bytes(), None, support::roomy(), begin).expect("taken");
    let fates = found.rows.keys().map(|index| (index.clone(), Ok(Some(7)))).collect();
    let told: Value = serde_json::from_str(&told_of_all(&found.items, &fates)).expect("JSON");
    let ids = [("index", "docs", "1"), ("create", "2026", "-1.5"), ("index", "docs", "8")];
    for (at, (action, index, id)) in ids.into_iter().enumerate() {
        let item = &told["items"][at][action];
        assert_eq!((&item["_index"], &item["_id"]), (&json!(index), &json!(id)), "{told}");
    }
    for id in ["[1]", "{\"a\":1}"] {
        let refusal = parsed(&format!("{{\"index\":{{\"_id\":{id}}}}}\n{{}}\n"), Some("a")).unwrap_err();
        assert!(refusal.message.starts_with("line 1 is no action"), "{}", refusal.message);
    }
}

#[test]
fn what_a_bulk_takes_beside_its_documents_is_held_and_bounded() {
    let begin = |_: &str| Rows::new(5, support::roomy(), 0);
    let body = "{\"index\":{}}\n{}\n".repeat(50_000);
    let work = || {
        let found = documents(body.as_bytes(), Some("a"), support::roomy(), begin).expect("taken");
        let fates = found.rows.keys().map(|index| (index.clone(), Ok(Some(7)))).collect();
        let text = told_of_all(&found.items, &fates);
        (found, text)
    };
    let ((found, text), peak) = testkit::peak_bytes(work);
    let held = found.held.bytes() + found.rows.values().map(|parsed| parsed.held.bytes()).sum::<usize>();
    assert!(peak < held * 3 / 2 + (1 << 20), "{peak} where {held} are held");
    let told: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&told["errors"], told["items"].as_array().map(Vec::len)), (&json!(false), Some(50_000)));
    assert_eq!(told["items"][49_999]["index"]["_id"], "50006");
    let many = "{\"delete\":{}}\n".repeat(DOCUMENTS_MAX + 1);
    let refusal = parsed(&many, Some("a")).expect_err("too many");
    assert!(
        refusal.kind == Kind::TooLarge && refusal.message.contains("send fewer at a time"),
        "{refusal:?}"
    );
    // The way out.
    parsed(&many[..many.len() / 2 / 14 * 14], Some("a")).expect("half of them are taken");
}

#[test]
fn an_action_line_of_many_pairs_is_refused_at_the_second_and_takes_no_memory_for_each() {
    let pairs: Vec<String> = (0..90_000).map(|n| format!("\"w{n:06}\":{{}}")).collect();
    let line = format!("{{{}}}\n{{}}\n", pairs.join(","));
    assert!(line.len() > 1 << 20);
    let (refused, peak) = testkit::peak_bytes(|| parsed(&line, Some("a")));
    let refusal = refused.expect_err("it names many actions");
    assert!(
        refusal.kind == Kind::Malformed && refusal.message.starts_with("line 1 names no action, or several"),
        "{}",
        refusal.message
    );
    assert!(peak < 1 << 20, "{peak} bytes beside a line of {}", line.len());
}

#[test]
fn fuzz_bulk() {
    testkit::Fuzz::new("gateway bulk")
        .examples(["{\"create\":{\"_index\":\"a\"}}\n{\"x\":1}\n{\"delete\":{\"_index\":\"gone\"}}\n{\"index\":{\"_id\":\"1\"}}\n{}\n"])
        .words(["{\"create\":{}}\n", "{}", "\n", "\"_index\"", "{\"update\":"])
        .memory_max(1 << 20, 2_000)
        .run(2_000, |body| {
            let Ok(body) = std::str::from_utf8(body) else { return };
            if let Ok((items, rows)) = parsed(body, Some("b")) {
                assert!(rows.iter().map(|(_, rows)| *rows).sum::<u64>() <= items.len() as u64);
            }
        });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_is_durable_when_it_is_answered_and_says_what_became_of_each_document() {
    let stores = [in_memory(), in_memory()];
    let message =
        crate::StreamOptions { format: crate::Format::Message, ..support::stream("raw", &stores[1]) };
    let gateway = start(options(vec![support::stream("orders", &stores[0]), message])).await;
    let body = b"{\"create\":{\"_index\":\"orders\"}}\n{\"id\":1}\n{\"create\":{\"_index\":\"none\"}}\n{\"id\":2}\n{\"create\":{\"_index\":\"raw\"}}\n{\"id\":3}\n";
    let (status, _, text) = gateway.send("/_bulk", &[("Content-Type", "application/x-ndjson")], body).await;
    let told: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((status, &told["errors"]), (200, &json!(true)), "{text}");
    let statuses: Vec<_> = (0..3).map(|at| told["items"][at]["create"]["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [201, 404, 415], "{text}");
    let (status, _, text) = gateway.send("/orders/_bulk", &[], b"{\"index\":{}}\n{\"id\":4}\n").await;
    let told: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((status, &told["errors"]), (200, &json!(false)), "{text}");
    assert_eq!(told["items"][0]["index"]["_id"], "1", "its position");
    let (status, _, text) = gateway.send("/_bulk", &[], b"no action\n").await;
    assert!(status == 400 && text.contains("\"reason\":\"line 1 is no action"), "{text}");
    assert_eq!(gateway.send("/none/_bulk", &[], b"").await.0, 404);
    gateway.stop().await.unwrap();
    assert_eq!(records(&stores[0]).await, ["{\"id\":1}", "{\"id\":4}"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_of_which_nothing_was_stored_is_sent_again_whole_and_items_are_where_some_was() {
    let limits = crate::options::Limits { answer_wait_max: Duration::from_secs(2), ..support::limits() };
    let stores = [in_memory(), in_memory()];
    let mut slow = support::stream("slow", &stores[0]);
    support::linger(&mut slow, support::NEVER);
    let quick = support::stream("quick", &stores[1]);
    let gateway = start(crate::Options { limits, ..options(vec![slow, quick]) }).await;
    let document = |index: &str| format!("{{\"create\":{{\"_index\":\"{index}\"}}}}\n{{\"id\":1}}\n");
    let [of_slow, of_quick, of_none] = ["slow", "quick", "none"].map(document);
    // Also beside a document that no stream will ever take: it is told when the others are stored.
    for body in [
        of_slow.clone(),
        of_slow.clone() + &of_none,
        "{\"delete\":{\"_index\":\"slow\"}}\n".to_owned() + &of_slow,
    ] {
        let (status, head, text) = gateway.send("/_bulk", &[], body.as_bytes()).await;
        assert!(status == 503 && head.contains("retry-after: 1"), "{body}: {head}{text}");
        assert!(
            head.contains("x-elastic-product")
                && text.contains("not durable after")
                && !text.contains("items"),
            "{text}"
        );
        assert!(!text.contains("Idempotency-Key"), "a header that this protocol does not have: {text}");
        let told: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(told["status"], 503, "{text}");
    }
    let (status, head, text) = gateway.send("/_bulk", &[], (of_slow + &of_quick + &of_none).as_bytes()).await;
    assert!(status == 200 && !head.contains("retry-after"), "{head}{text}");
    let told: Value = serde_json::from_str(&text).expect("JSON");
    let statuses: Vec<_> = (0..3).map(|at| told["items"][at]["create"]["status"].as_u64()).collect();
    assert_eq!((&told["errors"], statuses), (&json!(true), vec![Some(429), Some(201), Some(404)]), "{text}");
    // Not asked to stop, which would wait for what is slow.
}

#[test]
fn of_reasons_to_send_again_the_gravest_is_told() {
    let found = |kinds: &[Kind]| {
        let fates = kinds.iter().enumerate();
        let fates =
            fates.map(|(at, kind)| (format!("s{at}"), Err(Refusal::new(*kind, kind.word())))).collect();
        to_repeat_whole(&[], &fates).map(|refusal| refusal.kind)
    };
    assert_eq!(found(&[Kind::Busy, Kind::NotYet, Kind::Unavailable]), Some(Kind::NotYet));
    assert_eq!(found(&[Kind::Busy, Kind::Unavailable, Kind::TooLarge]), Some(Kind::Unavailable));
    assert_eq!(found(&[Kind::NoStream, Kind::Busy]), Some(Kind::Busy));
    assert_eq!(found(&[Kind::NoStream, Kind::TooLarge]), None);
    let fates = [("a", Err(Refusal::new(Kind::Busy, "full"))), ("b", Ok(Some(7)))];
    let fates = fates.map(|(name, fate)| (name.to_owned(), fate)).into();
    assert_eq!(to_repeat_whole(&[], &fates), None);
}

/// As Elasticsearch takes it; Fluent Bit writes a slash behind it where its output has a `pipeline`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slash_may_stand_behind_the_path_of_a_bulk() {
    let store = in_memory();
    let gateway = start(options(vec![support::stream("orders", &store)])).await;
    let named = b"{\"create\":{\"_index\":\"orders\"}}\n{\"id\":1}\n";
    for (path, body) in
        [("/_bulk/?pipeline=p", &named[..]), ("/orders/_bulk/", b"{\"index\":{}}\n{\"id\":2}\n")]
    {
        let (status, _, text) = gateway.send(path, &[], body).await;
        assert!(status == 200 && text.contains("\"errors\":false"), "{path}: {status} {text}");
    }
    gateway.stop().await.unwrap();
    assert_eq!(records(&store).await, ["{\"id\":1}", "{\"id\":2}"]);
}

/// Without one they call the server dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_license_is_answered_to_senders_that_send_nothing_without() {
    let gateway = start(options(vec![support::stream("orders", &in_memory())])).await;
    let (status, head, text) = support::get(gateway.address, "/_license?human=false").await;
    let told: Value = serde_json::from_str(&text).expect("JSON");
    assert!(status == 200 && head.contains("x-elastic-product"), "{head}{text}");
    let license = &told["license"];
    let found = (&license["status"], &license["type"], &license["mode"]);
    assert_eq!(found, (&json!("active"), &json!("basic"), &json!("basic")), "{text}");
    gateway.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_is_answered_as_elasticsearch_answers_it() {
    let gateway = start(options(vec![support::stream("orders", &in_memory())])).await;
    let (status, head, text) = support::get(gateway.address, "/_cluster/health").await;
    let told: Value = serde_json::from_str(&text).expect("JSON");
    assert!(status == 200 && head.contains("x-elastic-product"), "{head}{text}");
    assert_eq!((&told["status"], &told["timed_out"]), (&json!("green"), &json!(false)), "{text}");
    gateway.stop().await.unwrap();
}
