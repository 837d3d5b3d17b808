use super::*;
use crate::budget::Budget;
use crate::refusal::Kind;
use crate::support::roomy;

fn text(body: &[u8]) -> String {
    let text = of_json(body.to_vec(), &mut roomy()).expect("room");
    String::from_utf8(text).expect("UTF-8")
}

#[test]
fn what_is_no_text_is_replaced_and_nothing_else_is_changed() {
    for same in [
        r#"{"a":"\u00e9\n\ud83d\ude00 \uD83D\uDE00 \\ud800 \\\\"}"#,
        "{\"a\":\"gr\u{fc}n\"}",
        r#""\ud"#,
        r#""\udx00""#,
        "\\",
        "",
    ] {
        assert_eq!(text(same.as_bytes()), same);
    }
    for (body, expected) in [
        (&b"\"a\xff\xfeb\""[..], "\"a\u{fffd}\u{fffd}b\""),
        (b"\"\xe2\x82", "\"\u{fffd}"),
        (br#""\ud800""#, r#""\ufffd""#),
        (br#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
        (br#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
        (br#""\ud83d\n\ude00""#, r#""\ufffd\n\ufffd""#),
        (br#""\\\ud800""#, r#""\\\ufffd""#),
    ] {
        assert_eq!(text(body), expected, "{}", body.escape_ascii());
    }
}

#[test]
fn what_replacing_takes_is_held() {
    let budget = Budget::new("a test", 64 << 10);
    let mut held = Held::none(&budget, &Budget::new("a test", 1 << 20));
    assert_eq!(of_json(vec![0xff; 40 << 10], &mut held).unwrap_err().kind, Kind::Busy);
    assert_eq!(of_json(vec![0xff; 20 << 10], &mut held).unwrap().len(), 60 << 10);
    assert_eq!(held.bytes(), 60 << 10);
}
