use proptest::prelude::*;

use super::*;

fn insert_of(sql: &str) -> Insert {
    match analyse(sql.as_bytes()) {
        Ok(Statement::Insert(insert)) => insert,
        other => panic!("`{sql}` is no insert with data: {other:?}"),
    }
}

fn other_of(sql: &str) -> Other {
    match analyse(sql.as_bytes()) {
        Ok(Statement::Other(other)) => other,
        unexpected => panic!("`{sql}`: {unexpected:?}"),
    }
}

#[test]
fn data_begin_after_the_format_and_one_line_end() {
    for (sql, head, format, data) in [
        ("INSERT INTO t FORMAT TSV\n1\n", "INSERT INTO t ", "TSV", "1\n"),
        ("insert into t(a) format Native \r\n\n\nx", "insert into t(a) ", "Native", "\n\nx"),
        (
            "INSERT INTO t (`format`, \"values\") VALUES (1, 2)",
            "INSERT INTO t (`format`, \"values\") ",
            "Values",
            " (1, 2)",
        ),
        (
            "-- a ; comment\nINSERT INTO a.format /* VALUES */ FORMAT CSV;1",
            "-- a ; comment\nINSERT INTO a.format /* VALUES */ ",
            "CSV",
            "1",
        ),
        (
            "INSERT INTO FUNCTION file('a;b', 'CSV') VALUES (1)",
            "INSERT INTO FUNCTION file('a;b', 'CSV') ",
            "Values",
            " (1)",
        ),
    ] {
        let insert = insert_of(sql);
        assert_eq!(&sql[..insert.head_end], head);
        assert_eq!(insert.format, format);
        assert_eq!(&sql[insert.data_start..], data, "{sql}");
    }
}

#[test]
fn settings_before_the_format_are_kept_apart() {
    let sql = "INSERT INTO t (a) SETTINGS insert_deduplication_token='a;b' FORMAT Native\n";
    let insert = insert_of(sql);
    assert_eq!(&sql[..insert.head_end], "INSERT INTO t (a) ");
    let (start, end) = insert.settings.unwrap();
    assert_eq!(&sql[start..end], "SETTINGS insert_deduplication_token='a;b' ");
}

#[test]
fn an_insert_from_a_select_has_no_data() {
    assert_eq!(other_of("INSERT INTO t SELECT 1 FORMAT Null").format.as_deref(), Some("Null"));
    other_of("INSERT INTO t WITH 1 AS x SELECT x");
}

#[test]
fn an_insert_from_input_has_data() {
    let sql = "INSERT INTO t SELECT a + 1 FROM input('a Int8') FORMAT CSV\n1";
    let insert = insert_of(sql);
    assert_eq!(&sql[insert.data_start..], "1");
    let input = insert.input.unwrap();
    assert_eq!(&sql[input.start..input.end], "input");
}

#[test]
fn several_statements_are_refused_and_a_last_semicolon_is_not() {
    assert_eq!(analyse(b"SELECT 1; SELECT 2"), Err(Refused::Several));
    assert_eq!(analyse(b"INSERT INTO t SELECT 1; DROP TABLE t"), Err(Refused::Several));
    other_of("SELECT ';'; -- ; \n ;");
    assert_eq!(analyse(b" /* nothing */ -- here"), Err(Refused::Empty));
}

#[test]
fn files_of_the_server_are_out_of_reach() {
    for blank in [" ", "\u{b}", "\u{a0}", "\u{200d}", "\u{feff}", "/* /* */ ' */", "// '\n", "# '\n"] {
        let sql = format!("SELECT 1 INTO{blank}OUTFILE '/tmp/x'");
        assert_eq!(analyse(sql.as_bytes()), Err(Refused::ClientOnly("INTO OUTFILE")), "{sql:?}");
    }
    // Quotes of the engine's that this could be hidden behind.
    for sql in [
        "SELECT \u{2018}'\u{2019} INTO OUTFILE '/p' -- '",
        "SELECT 1 \u{201c}a\\\"\u{201d} INTO OUTFILE '/p' -- \"",
    ] {
        assert_eq!(analyse(sql.as_bytes()), Err(Refused::ClientOnly("INTO OUTFILE")), "{sql}");
    }
    assert_eq!(
        analyse(b"INSERT INTO t FROM INFILE '/etc/passwd' FORMAT CSV"),
        Err(Refused::ClientOnly("FROM INFILE"))
    );
    other_of("SELECT 'INTO OUTFILE'");
}

#[test]
fn the_answers_format_is_the_last_one_outside_of_parentheses() {
    assert_eq!(
        other_of("SELECT * FROM (SELECT 1 FORMAT CSV) FORMAT JSON SETTINGS max_threads=1").format.as_deref(),
        Some("JSON")
    );
    assert_eq!(other_of("SELECT 'FORMAT CSV', formatDateTime(now(), '%F')").format, None);
}

#[test]
fn the_table_of_processes_is_found_where_it_is_read() {
    let sql = "SELECT count() FROM `system`.processes WHERE query = 'FROM system.processes'";
    let found = other_of(sql).processes;
    assert_eq!(
        found.iter().map(|(start, end)| &sql[*start..*end]).collect::<Vec<_>>(),
        ["`system`.processes"]
    );
    assert!(other_of("DESCRIBE TABLE system.processes").processes.is_empty());
}

#[test]
fn a_kill_is_taken_apart() {
    let sql = "KILL QUERY WHERE query_id = 'SYNC' SYNC FORMAT JSON;";
    let Ok(Statement::Kill(kill)) = analyse(sql.as_bytes()) else { panic!("no kill") };
    assert_eq!(sql[kill.condition.0..kill.condition.1].trim(), "query_id = 'SYNC'");
    assert!(kill.sync && !kill.test);
    assert_eq!(kill.format.as_deref(), Some("JSON"));
}

proptest! {
    #[test]
    fn tokens_lie_in_order_inside_the_text(sql in "[a-zA-Z0-9 '`\"\\\\/*$;(){}#!\n-]{0,60}") {
        let mut end = 0;
        for token in Lexer::new(sql.as_bytes()) {
            prop_assert!(token.start >= end && token.end > token.start && token.end <= sql.len());
            end = token.end;
        }
    }

    #[test]
    fn no_bytes_make_it_panic(sql in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = analyse(&sql);
        let _ = analyse(&[b"INSERT INTO t ", sql.as_slice()].concat());
    }
}

#[test]
fn fuzz_statement() {
    let examples = [
        "INSERT INTO `a``b`.t (x, \"y\") SETTINGS async_insert = 0 FORMAT JSONEachRow\n\n{\"x\": 1}",
        "INSERT INTO FUNCTION remote('h', d.t) VALUES (1, 'a\\'b'), (2, $$here$$)",
        "/* c */ WITH 1 AS a SELECT a, 'x;y' FROM system.processes -- end\nFORMAT TSV;",
        "KILL QUERY WHERE query_id = 'abc' SYNC",
    ];
    let words = [
        "INSERT",
        "INTO",
        "FORMAT",
        "VALUES",
        "SETTINGS",
        "KILL QUERY",
        "'",
        "\"",
        "`",
        "$$",
        "$a$",
        "--",
        "/*",
        "*/",
        "#",
        ";",
        "(",
        ")",
        "system.processes",
        "INFILE",
        "OUTFILE",
        "\\",
        "\u{0}",
        "\u{e9}",
    ];
    testkit::Fuzz::new("statement").examples(examples).words(words).run(20_000, |sql| {
        if let Ok(Statement::Other(other)) = analyse(sql) {
            for (from, to) in other.processes {
                assert!(from < to && to <= sql.len(), "{from}..{to} of {}", sql.len());
            }
        }
    });
}
