use super::*;
use crate::checks;
use crate::config::TableConfig;
use crate::table::tests::facts_of_columns;

fn question(probe: &[u8]) -> Question {
    Question::read("`d`.`t`", FrameId(7), 10, probe).unwrap().unwrap()
}

#[test]
fn what_travelled_with_a_frame_says_how_it_is_found() {
    let by_frame = question(&by_frame());
    assert!(by_frame.sql.contains("`_forebay` = toUUID('00000000-0000-0000-0000-000000000007')"));
    assert_eq!(by_frame.expected, 10);
    let by_keys = question(b"keys\n2\n`a`, `b`\ntuple(1, 2), tuple(3, 4)");
    assert_eq!(
        by_keys.sql,
        "SELECT uniqExact(`a`, `b`) FROM `d`.`t` WHERE tuple(`a`, `b`) IN (tuple(1, 2), tuple(3, 4))",
        "the columns are those of the time when the frame was encoded"
    );
    assert_eq!(by_keys.expected, 2);
    assert_eq!(Question::read("t", FrameId(7), 10, b"").unwrap(), None);
    for damaged in [&b"2\ntuple(1)"[..], b"keys\nx\n`a`\ntuple(1)", b"keys\n2", b"\xff"] {
        assert!(Question::read("t", FrameId(7), 10, damaged).is_err(), "{damaged:?}");
    }
}

#[test]
fn a_column_added_later_finds_no_frame_that_was_encoded_without_it() {
    assert!(!question(&by_frame()).is_admissible(false, false), "dropped since");
    assert!(question(&by_frame()).is_admissible(true, true));
    // A frame of a table without the column carries its keys or nothing, whatever the table has become.
    assert!(question(b"keys\n1\n`a`\ntuple(1)").is_admissible(true, false));
}

#[test]
fn earlier_rows_of_a_key_are_no_proof_where_merges_join_rows() {
    assert!(!question(b"keys\n1\n`a`\ntuple(1)").is_admissible(false, true));
}

#[test]
fn one_row_proves_a_frame_where_rows_go_away_and_none_proves_nothing_there() {
    let by_frame = question(&by_frame());
    let by_keys = question(b"keys\n10\n`a`\ntuple(1)");
    let part = |found| Presence::Part { found, expected: 10 };
    for (question, found, loses_rows, expected) in [
        (&by_frame, 10, false, Presence::All),
        (&by_frame, 0, false, Presence::None),
        (&by_frame, 3, false, part(3)),
        (&by_frame, 11, false, part(11)),
        (&by_frame, 10, true, Presence::All),
        (&by_frame, 3, true, Presence::All),
        (&by_frame, 0, true, Presence::Inadmissible),
        (&by_frame, 11, true, part(11)),
        (&by_keys, 10, false, Presence::All),
        (&by_keys, 0, false, Presence::None),
        (&by_keys, 3, false, part(3)),
        (&by_keys, 3, true, Presence::Inadmissible),
        (&by_keys, 0, true, Presence::Inadmissible),
    ] {
        assert_eq!(question.judge(found, loses_rows), expected, "{found} {loses_rows}");
    }
}

#[test]
fn rows_that_may_have_lost_what_they_are_found_by_are_asked_for() {
    assert_eq!(
        question(&by_frame()).unnamed("`d`.`t`"),
        "SELECT toUInt8(count()) FROM (SELECT 1 FROM `d`.`t` WHERE `_forebay` = toUUID('00000000-0000-0000-0000-000000000000') LIMIT 1)"
    );
    assert_eq!(
        question(b"keys\n1\n`a`, `b\\`, c`\ntuple(1, 2)").unnamed("`d`.`t`"),
        "SELECT toUInt8(count()) FROM (SELECT 1 FROM `d`.`t` WHERE isNull(`a`) OR `a` = defaultValueOfArgumentType(`a`) \
         OR isNull(`b\\`, c`) OR `b\\`, c` = defaultValueOfArgumentType(`b\\`, c`) LIMIT 1)"
    );
}

#[test]
fn a_default_hides_rows_that_lost_what_they_are_found_by() {
    let nil = "toUUID('00000000-0000-0000-0000-000000000000')";
    let by_key = question(b"keys\n1\n`n`\ntuple(1)");
    for (of_n, of_provenance, hides_keys, hides_names) in [
        ("", "", false, false),
        ("7", "", true, false),
        ("", nil, false, false),
        ("", "generateUUIDv4()", false, true),
    ] {
        let columns = [("n", "Int32", of_n), ("s", "String", "'x'"), ("_forebay", "UUID", of_provenance)];
        let plan = checks::judge(&facts_of_columns(&columns), &TableConfig::new("d", "t")).unwrap();
        assert_eq!(by_key.is_filled(&plan), hides_keys, "{columns:?}");
        assert_eq!(question(&by_frame()).is_filled(&plan), hides_names, "{columns:?}");
    }
}

/// `5` is not found in a text, and 20,000 days are not found in a time; a number in a wider type is.
#[test]
fn keys_of_another_kind_of_type_are_not_looked_for() {
    for (key, same, other) in [
        ("5", "Int64", "String"),
        ("-5", "Nullable(Int8)", "Decimal(9, 2)"),
        ("unhex('00')", "FixedString(1)", "UUID"),
        ("toUUID('00-11')", "UUID", "String"),
        ("toDate32('1970-01-01') + 20000", "Date", "DateTime"),
        ("fromUnixTimestamp(toInt64(7))", "DateTime('Asia/Tokyo')", "DateTime64(3)"),
        ("fromUnixTimestamp64Milli(toInt64(7))", "DateTime64(6)", "DateTime"),
    ] {
        let by_key = question(
            format!("keys\n2\n`s`, `n`\ntuple(unhex(''), {key}), tuple(unhex('00'), {key})").as_bytes(),
        );
        for (type_name, is_retyped) in [(same, false), (other, true)] {
            let columns = [("n", type_name, ""), ("s", "String", "")];
            let plan = checks::judge(&facts_of_columns(&columns), &TableConfig::new("d", "t")).unwrap();
            assert_eq!(by_key.is_retyped(&plan), is_retyped, "{key} in {type_name}");
            assert!(!question(&by_frame()).is_retyped(&plan));
        }
    }
    // One that is gone is told of by the server.
    let plan = checks::judge(&facts_of_columns(&[("x", "String", "")]), &TableConfig::new("d", "t")).unwrap();
    assert!(!question(b"keys\n1\n`n`\ntuple(5)").is_retyped(&plan));
}

#[test]
fn what_travels_with_a_frame_is_told_from_damage() {
    let keys = b"keys\n2\n`a`, `b`\ntuple(1, 2), tuple(3, 4)";
    for good in [&b""[..], &by_frame(), keys] {
        check_sample(good).unwrap();
    }
    for bad in [
        &b"frames"[..],
        b"keys",
        b"keys\n1\n`a`\nnothing",
        b"keys\n3\n`a`, `b`\ntuple(1, 2), tuple(3, 4)",
        b"\xff",
    ] {
        assert!(check_sample(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn stored_text_that_is_no_sample_of_ours_never_becomes_sql() {
    let read = |columns: &str, keys: &str| {
        Question::read("`d`.`t`", FrameId(1), 1, format!("keys\n1\n{columns}\n{keys}").as_bytes())
    };
    for (columns, keys) in [
        ("`a`", "tuple(1)"),
        ("`a`, `b\\`c`", "tuple(-5, unhex('00ff')), tuple(toDate32('1970-01-01') + -3, toUUID('00-11'))"),
        ("`a`", "tuple(fromUnixTimestamp64Nano(toInt64(-1)))"),
    ] {
        assert!(read(columns, keys).is_ok(), "{columns} {keys}");
    }
    for (columns, keys) in [
        ("a", "tuple(1)"),
        ("`a`), (SELECT file('/etc/passwd')", "tuple(1)"),
        ("`a\\`, sleep(3)", "tuple(1)"),
        ("``", "tuple(1)"),
        ("`a`, ", "tuple(1)"),
        ("", "tuple(1)"),
        ("`a`", ""),
        ("`a`", "tuple((SELECT 1))"),
        ("`a`", "tuple(file('00'))"),
        ("`a`", "tuple('a''b')"),
        ("`a`", "tuple('x')"),
        ("`a`", "tuple(1)) SETTINGS readonly = 0"),
        ("`a`", "tuple(1)); DROP TABLE t"),
        ("`a`", "tuple(1)) -- "),
        ("`a`", "tuple(--1)"),
        ("`a`", "tuple(1) /* */"),
        ("`a`", "tuple(unhex)"),
    ] {
        let error = read(columns, keys).expect_err(&format!("{columns} {keys}"));
        assert_eq!(error.remedy, Remedy::Stop);
    }
}
