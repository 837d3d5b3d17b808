use super::*;
use serde_json::Value;

fn quoted(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    quote(&mut out, text);
    assert_eq!(out.len(), quoted_bytes(text), "{}", text.escape_ascii());
    out
}

#[test]
fn every_byte_is_escaped_as_serde_json_does() {
    let all: Vec<u8> = (0..=255).collect();
    for text in
        [&all[..], b"", b"plain", "gr\u{fc}n \u{1f600} \u{7f}".as_bytes(), b"\xf0\x9f\x98 cut \xff\xfe"]
    {
        assert_eq!(quoted(text), Value::from(String::from_utf8_lossy(text)).to_string().into_bytes());
    }
}

#[test]
fn fuzz_quote() {
    testkit::Fuzz::new("gateway quoting")
        .examples(["a \"b\" \\ \n\t\u{1} \u{fc}"])
        .words([&b"\xff"[..], b"\xe2\x82", b"\"", b"\\", b"\x00"])
        .run(3_000, |text| {
            let told: String = serde_json::from_slice(&quoted(text)).expect("a JSON string");
            assert_eq!(told, String::from_utf8_lossy(text));
        });
}
