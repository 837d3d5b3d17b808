//! Lines of CSV from a topic, and files with headers.

use std::fs;
use std::io::Write;

use live::{Accounts, Case};
use serde_json::json;

#[test]
fn lines_of_a_topic_are_rows_and_what_is_no_record_is_a_dead_letter() {
    let Some(case) = Case::begin("csv_topic") else { return };
    let feed = case.feed();
    for n in 0..500u32 {
        let note =
            if n % 5 == 0 { "\\N".to_owned() } else { format!("\"line {n}\nsays \"\"yes\"\", twice\"") };
        let line = format!("{n},skipped,{note},2026-11-23 10:00:{:02},{n}.25", n % 60);
        feed.push(n % 3, line.as_bytes());
        feed.push(n % 3, line.as_bytes());
    }
    for bad in ["1,2", "x,,note,2026-11-23 10:00:00,1", "7,,\"note,2026-11-23 10:00:00,1"] {
        feed.push(0, bad.as_bytes());
    }
    feed.flush();

    let columns = "id UInt32, note Nullable(String), at DateTime('UTC'), amount Decimal(9, 2)";
    let table = case.table(columns, "id");
    let pipeline = case
        .pipeline()
        .format("{ csv: { columns: [id, other, note, at, amount] } }")
        .step("filter: id <> 499")
        .dedup("id", Some("at"))
        .batch("{ rows: 100, age: 100ms }");
    pipeline.check(&["--connect"]);
    pipeline.drain();

    let rows =
        table.rows("SELECT id, note, toString(at) AS at, toString(amount) AS amount FROM {t} ORDER BY id");
    assert_eq!(rows.len(), 499);
    for (n, row) in rows.iter().enumerate() {
        let note = (n % 5 != 0).then(|| format!("line {n}\nsays \"yes\", twice"));
        let at = format!("2026-11-23 10:00:{:02}", n % 60);
        assert_eq!(*row, json!({ "id": n, "note": note, "at": at, "amount": format!("{n}.25") }));
    }
    let letters = table.dead_letters().rows("SELECT reason, column FROM {t} ORDER BY reason, column");
    let letter = |reason: &str, column: &str| json!({ "reason": reason, "column": column });
    assert_eq!(letters, [letter("malformed", ""), letter("malformed", "note"), letter("wrong_kind", "id")]);
    let accounts = Accounts {
        read: 1_003,
        written: 499,
        filtered: 2,
        duplicates: 499,
        dead_letters: 3,
        ..Accounts::default()
    };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn the_header_of_each_file_names_its_fields_also_where_reading_goes_on_and_for_a_replay() {
    let Some(case) = Case::begin("csv_files") else { return };
    let put = |name: &str, bytes: &[u8]| fs::write(case.dir().join(name), bytes).expect("a file");
    put("a.csv", b"\xef\xbb\xbfid,text,v\r\n1,\"two\r\nlines\",10\r\n2,b,\r\n3,too wide,70000\r\n");
    put("b.csv", b"v,id\n40,4\n50,5\n");
    put("c.csv", b"id,v\n6,\"60\n7,70\n8,80");
    let table = case.table("id UInt32, text Nullable(String), v UInt16 DEFAULT 9", "id");
    let pipeline = case
        .pipeline()
        .files("*.csv")
        .format("{ csv: { header: true } }")
        .step("dedup: { key: [id], window: unbounded }");
    pipeline.drain();
    let rows = || table.rows("SELECT * EXCEPT _forebay FROM {t} ORDER BY id");
    let row = |id: u32, text: Option<&str>, v: u32| json!({ "id": id, "text": text, "v": v });
    let mut wanted =
        vec![row(1, Some("two\r\nlines"), 10), row(2, Some("b"), 9), row(4, None, 40), row(5, None, 50)];
    assert_eq!(rows(), wanted);
    // The quote in the last file is not closed so far, so what follows waits.
    let letters = || table.dead_letters().rows("SELECT reason, raw, headers FROM {t} ORDER BY raw");
    let letter = |reason: &str, raw: &str, head: &str| json!({ "reason": reason, "raw": raw, "headers": { "forebay.first_line": head } });
    let too_wide = letter("out_of_range", "3,too wide,70000", "id,text,v");
    assert_eq!(letters(), [too_wide.clone()]);

    let append = |name: &str, text: &str| {
        let file = fs::OpenOptions::new().append(true).open(case.dir().join(name));
        file.expect("a file").write_all(text.as_bytes()).expect("it is written");
    };
    append("a.csv", "9,c,90\r\n");
    append("c.csv", "\n10,\"100\"\n");
    pipeline.drain();
    // Text follows the next quote, so the first one was a mistake, and costs its own record.
    wanted.extend([row(7, None, 70), row(8, None, 80), row(9, Some("c"), 90), row(10, None, 100)]);
    assert_eq!(rows(), wanted);
    assert_eq!(letters(), [too_wide, letter("malformed", "6,\"60", "id,v")]);

    table.ask("ALTER TABLE {t} MODIFY COLUMN v UInt32 DEFAULT 9");
    let replayed = pipeline.dead_letters("replay", &["--reason", "out_of_range", "--json"]);
    assert_eq!(replayed.exit.status.code(), Some(0), "{}{}", replayed.stdout, replayed.stderr);
    wanted.insert(2, row(3, Some("too wide"), 70_000));
    assert_eq!(rows(), wanted);
    let accounts = pipeline.accounts();
    assert_eq!((accounts.written, accounts.dead_letters), (9, 2), "{accounts:?}");
    pipeline.tool(&["verify"], &["--json"], 0);
}
