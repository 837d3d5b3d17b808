//! Records that are not what they should be, and times whose zone has to be guessed.

use live::{Accounts, Case};
use serde_json::json;
use sources::kafka::produce::Outgoing;
use testkit::ClickHouseOptions;

/// A record that no pipeline takes, and the reason that its dead letter must have.
fn poisons() -> Vec<(&'static str, Option<Vec<u8>>)> {
    let text = |text: &str| Some(text.as_bytes().to_vec());
    let mut large = br#"{"id":1,"v":1,"s":""#.to_vec();
    large.resize(20 << 20, b'x');
    large.extend_from_slice(br#""}"#);
    let deep = format!(r#"{{"id":1,"v":1,"s":"a","deep":{}"#, "[".repeat(100_000));
    vec![
        ("malformed", text(r#"{"id":1,"v":1,"s":"cut off"#)),
        ("malformed", text(r#"{"id":1,"v":1,"s":"a"} and more"#)),
        ("malformed", Some(b"{\"id\":1,\"v\":1,\"s\":\"\xff\xfe\"}".to_vec())),
        ("malformed", text("")),
        ("malformed", text("null")),
        ("malformed", text(r#"[{"id":1,"v":1,"s":"a"}]"#)),
        ("malformed", text(&deep)),
        ("malformed", Some(vec![0; 1_000])),
        ("no_body", None),
        ("too_large", Some(large)),
        ("wrong_kind", text(r#"{"id":1,"v":"1e","s":"a"}"#)),
        ("wrong_kind", text(r#"{"id":1,"v":1,"s":{"a":"b"}}"#)),
        ("out_of_range", text(r#"{"id":1,"v":256,"s":"a"}"#)),
        ("out_of_range", text(r#"{"id":-1,"v":1,"s":"a"}"#)),
        ("missing", text(r#"{"id":1,"v":1}"#)),
    ]
}

#[test]
fn fault_19_poison_records_leave_their_neighbours_alone() {
    let Some(case) = Case::begin("fault_19") else { return };
    let poisons = poisons();
    let feed = case.feed();
    let good = |id: usize| json!({ "id": id, "v": id % 256, "s": format!("neighbour {id}") }).to_string();
    for (n, (_, poison)) in poisons.iter().enumerate() {
        feed.push(0, good(2 * n).as_bytes());
        feed.put(&Outgoing {
            partition: Some(0),
            key: Some(b"a key"),
            payload: poison.as_deref(),
            headers: &[("sender", Some(b"a test"))],
            ..Outgoing::default()
        });
        feed.push(0, good(2 * n + 1).as_bytes());
    }
    feed.flush();
    let table = case.table("id UInt32, v UInt8, s String", "id");
    let pipeline = case.pipeline().dedup("id", None);
    pipeline.drain();

    let expected: Vec<_> = (0..2 * poisons.len())
        .map(|id| json!({ "id": id, "v": id % 256, "s": format!("neighbour {id}") }))
        .collect();
    assert_eq!(table.rows("SELECT id, v, s FROM {t} ORDER BY id"), expected);
    let letters = table.dead_letters();
    let reasons = letters.rows("SELECT position, reason, key, headers FROM {t} ORDER BY position");
    let wanted: Vec<_> = poisons
        .iter()
        .enumerate()
        .map(|(n, (reason, _))| {
            json!({ "position": (3 * n + 1).to_string(), "reason": reason, "key": "a key", "headers": { "sender": "a test" } })
        })
        .collect();
    assert_eq!(reasons, wanted);
    // Every byte of what was sent is kept, so that it can be mended and sent again.
    let sizes = letters.value("SELECT arrayStringConcat(groupArray(toString(length(raw))), ',') FROM (SELECT raw FROM {t} ORDER BY position)");
    let sent: Vec<String> =
        poisons.iter().map(|(_, poison)| poison.as_ref().map_or(0, Vec::len).to_string()).collect();
    assert_eq!(sizes, sent.join(","));
    let rows = 2 * poisons.len() as u64;
    let accounts = Accounts {
        read: rows + poisons.len() as u64,
        written: rows,
        dead_letters: poisons.len() as u64,
        ..Accounts::default()
    };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn fault_21_times_without_a_zone_mean_utc_wherever_program_and_server_stand() {
    let tokyo = ClickHouseOptions::default().env("TZ", "Asia/Tokyo");
    let Some(case) = Case::with_own_server("fault_21", tokyo) else { return };
    let instant = 1_750_000_000_i64; // 2025-06-15 15:06:40 UTC, when New York keeps summer time.
    case.feed().send(
        [
            json!("2025-06-15 15:06:40"),
            json!("2025-06-15T15:06:40"),
            json!("2025-06-15T15:06:40Z"),
            json!("2025-06-15T17:06:40+02:00"),
            json!(instant),
            json!(instant * 1_000),
        ]
        .iter()
        .enumerate()
        .map(|(n, time)| {
            json!({ "n": n, "plain": time, "fine": time, "utc": time, "zoned": time }).to_string()
        }),
    );
    let columns =
        "n UInt8, plain DateTime, fine DateTime64(3), utc DateTime('UTC'), zoned DateTime('Europe/Berlin')";
    let table = case.table(columns, "n");
    assert_eq!(table.value("SELECT serverTimezone()"), "Asia/Tokyo", "the server must stand elsewhere");
    let pipeline = case.pipeline().env("TZ", "America/New_York");
    pipeline.drain();
    assert_eq!(table.dead_letters().count(), 0);
    for column in ["plain", "fine", "utc"] {
        let times = table.value(&format!("SELECT groupUniqArray(toUnixTimestamp({column})) FROM {{t}}"));
        assert_eq!(times, format!("[{instant}]"), "column `{column}`");
    }
    // A column's own zone counts before UTC: without one in the text the two hours of Berlin's summer are taken off.
    let zoned = table.value(
        "SELECT groupArray(toUnixTimestamp(zoned) - 1750000000) FROM (SELECT zoned FROM {t} ORDER BY n)",
    );
    assert_eq!(zoned, "[-7200,-7200,0,0,0,0]");
}
