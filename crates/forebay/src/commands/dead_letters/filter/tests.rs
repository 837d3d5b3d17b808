use admin::dead_letters::clock;
use clap::Parser;
use pipeline::config;
use pipeline::config::values::reference::Surroundings;
use proptest::prelude::*;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    filter: Filter,
}

fn sql(options: &[&str]) -> String {
    let line = Line::try_parse_from([&["x"], options].concat()).map_err(|error| error.to_string());
    line.unwrap_or_else(|error| panic!("{error}")).filter.sql("pipeline = 'p'", 1_000_000)
}

#[test]
fn without_options_all_letters_of_the_pipeline_and_of_no_other_are_named() {
    assert_eq!(sql(&[]), "pipeline = 'p'");
}

#[test]
fn every_option_narrows() {
    assert_eq!(
        sql(&[
            "--reason",
            "late,no_body",
            "--column",
            "a'b",
            "--topic",
            "t\\",
            "--partition",
            "3",
            "--position",
            "17..20"
        ]),
        "pipeline = 'p' AND `reason` IN ('late', 'no_body') AND `column` IN ('a\\'b') AND source = 't\\\\' AND \
         partition = 3 AND position >= 17 AND position < 20"
    );
    assert_eq!(
        sql(&["--since", "100s", "--until", "1970-01-01T00:00:05Z", "--where", "a = 1 OR b"]),
        "pipeline = 'p' AND time >= fromUnixTimestamp64Milli(toInt64(900000), 'UTC') AND \
         time < fromUnixTimestamp64Milli(toInt64(5000), 'UTC') AND (\na = 1 OR b\n)"
    );
    assert_eq!(sql(&["--position", "17"]), "pipeline = 'p' AND position >= 17 AND position < 18");
    assert_eq!(sql(&["--position", "17.."]), "pipeline = 'p' AND position >= 17");
}

#[test]
fn what_is_no_position_or_moment_is_refused_with_the_way_out() {
    for (text, words) in [("", "write"), ("5..5", "is exclusive; write"), ("a..b", "write"), ("-1", "write")]
    {
        let error = text.parse::<Positions>().expect_err(text);
        assert!(error.contains(words), "{text}: {error}");
    }
    assert!("yesterday".parse::<Moment>().is_err());
}

#[test]
fn an_expression_cannot_leave_its_parentheses() {
    let refused = [
        "1) OR (1",
        "1)) OR ((1",
        "')' = ')') OR (1",
        "(1",
        "a = 'x",
        "a = 'x\\'",
        "`a = 1",
        "a[1",
        "(]",
        "1; DROP TABLE t",
        "1 -- x",
        "1 /* x */",
        "1 # x",
        "$$)$$ = ''",
        "a = \u{2018}x\u{2019}",
        "",
        "  ",
    ];
    for text in refused {
        assert!(text.parse::<Condition>().is_err(), "`{text}` must be refused");
    }
    let taken = [
        "message LIKE '%)%'",
        "message = 'it''s (' AND raw != '\\')'",
        "has([1, 2], partition)",
        "`column` = \"a;b\" OR \"x--\" = '/*'",
        "position IN (SELECT number FROM numbers(10))",
        "position - -1 > 5",
    ];
    for text in taken {
        assert_eq!(text.parse::<Condition>(), Ok(Condition(text.to_owned())), "`{text}` must be taken");
    }
}

#[test]
fn parentheses_in_a_comment_to_the_end_of_the_line_do_not_balance_an_expression() {
    // Without its comments it is `1) OR (1 = 1`, which reaches the letters of every pipeline in the table.
    for text in ["1 // (\n) OR (1 = 1 // )", "1 // (\n) OR pipeline != '' OR (0 // )", "1 // x", "1//2"] {
        let error = text.parse::<Condition>().expect_err(text);
        assert!(error.contains("comments (`//`)"), "`{text}`: {error}");
    }
    for text in ["message LIKE '%http://host/(%'", "headers['a//b'] = ''", "position / 2 > 4"] {
        assert_eq!(text.parse::<Condition>(), Ok(Condition(text.to_owned())), "`{text}` must be taken");
    }
}

/// What is left of a text when quoted parts are taken out, read independently of the parser under test.
fn depth_never_below_zero(text: &str) -> bool {
    let mut depth = 0i64;
    for c in text.chars() {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

proptest! {
    #[test]
    fn without_quotes_what_is_taken_is_balanced(text in "[a-z0-9() ]{0,20}") {
        if text.parse::<Condition>().is_ok() {
            prop_assert!(depth_never_below_zero(&text), "`{}`", text);
        }
    }

    #[test]
    fn any_text_is_judged_without_a_panic(text in "\\PC{0,40}") {
        let _ = text.parse::<Condition>();
        let _ = text.parse::<Positions>();
        let _ = text.parse::<Moment>();
        let _ = place(&text);
    }
}

#[test]
fn a_place_may_hold_slashes_in_its_stream() {
    let letter = place("/var/log/a.jsonl/0/17").expect("a place");
    assert_eq!((letter.source.as_str(), letter.partition, letter.position), ("/var/log/a.jsonl", 0, 17));
    assert_eq!(place(&letter.to_string()), Ok(letter));
    let of_a_step = Letter { print: u64::MAX, ..Letter::at("@window", 0, 3) };
    assert_eq!(place(&of_a_step.to_string()), Ok(of_a_step));
    assert!(place("@window/0/3#no").is_err());
    // The row of an item of a record's array.
    let of_item = Letter { era: 3, nth: 2, print: 0x17, ..Letter::at("a#b/c", 0, 17) };
    assert_eq!(
        (of_item.to_string().as_str(), place("a#b/c/0/3:17~2#0000000000000017")),
        ("a#b/c/0/3:17~2#0000000000000017", Ok(of_item))
    );
    assert!(place("t/0/17#17").is_err() && place("t/0/17#").is_err());
    // An early program's letter of a row, and a stream of the same look.
    let of_no_place = Letter { print: 0x9f, ..Letter::at("", 0, 4) };
    assert_eq!(place(&of_no_place.to_string()), Ok(of_no_place));
    assert_eq!(place("#000000000000009f/0/17"), Ok(Letter::at("#000000000000009f", 0, 17)));
    let recreated = Letter { nth: 2, ..Letter::at("a~3/b", 0, 17) };
    assert_eq!((recreated.to_string().as_str(), place("a~3/b/0/17~2")), ("a~3/b/0/17~2", Ok(recreated)));
    let of_era = Letter { era: 3, ..Letter::at("persistent://p/n/t", 0, 17) };
    assert_eq!(
        (of_era.to_string().as_str(), place("persistent://p/n/t/0/3:17")),
        ("persistent://p/n/t/0/3:17", Ok(of_era))
    );
    assert!(place("a/0/17~no").is_err() && place("a/0/x:17").is_err());
    // A file may have any name.
    assert_eq!(place("/a#b/0/17").expect("a place").print, 0);
    assert!(place("events/17").is_err() && place("a/b/c").is_err());
}

#[tokio::test]
async fn an_input_that_was_never_read_is_a_mistake_of_the_command_line() {
    let text = "pipeline: p\nstore: file:///no-such-folder/store\nsource: { kafka: { brokers: b, topic: t } }\n\
                sink: { clickhouse: { url: \"http://127.0.0.1:1\", table: t } }\n";
    let checked = config::check(text, &Surroundings::of_process());
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let table = Table::new(&pipeline, &clock()).await.expect("nobody is asked");
    let filter = Filter { input: Some("orders".into()), ..Filter::default() };
    let error = filter.on(&table, 0).expect_err("it has read nothing");
    assert!(error.is::<Mistake>(), "{error:#}");
    assert!(error.to_string().contains("has read nothing from an input `orders`"), "{error:#}");
}
