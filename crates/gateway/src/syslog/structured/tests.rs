use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use super::*;

/// The object of these elements.
fn object(elements: &[u8]) -> String {
    let mut out = b"{".to_vec();
    write(&mut out, elements);
    out.push(b'}');
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn a_repeated_parameter_keeps_each_value_under_a_name_of_its_own() {
    for (elements, expected) in [
        // The example of RFC 5424, section 6.3.3.
        (
            r#"[origin ip="192.0.2.1" ip="192.0.2.129"]"#,
            r#"{"origin":{"ip":"192.0.2.1","ip[2]":"192.0.2.129"}}"#,
        ),
        (
            r#"[a x="1" y="2" x="3" x="1" y="2"]"#,
            r#"{"a":{"x":"1","y":"2","x[2]":"3","x[3]":"1","y[2]":"2"}}"#,
        ),
        (r#"[a x="1"][b x="2"]"#, r#"{"a":{"x":"1"},"b":{"x":"2"}}"#),
        // Two elements of one name are one, where the first stands.
        (r#"[a x="1"][b y="2"][a z="3" x="4"]"#, r#"{"a":{"x":"1","z":"3","x[2]":"4"},"b":{"y":"2"}}"#),
        ("[a][a]", r#"{"a":{}}"#),
        // No name has a closing bracket, so what is numbered meets no other one.
        (r#"[a x[2="1" x="2" x="3"]"#, r#"{"a":{"x[2":"1","x":"2","x[2]":"3"}}"#),
    ] {
        assert!(
            split(elements.as_bytes()).is_some_and(|(found, _)| found == elements.as_bytes()),
            "{elements}"
        );
        assert_eq!(object(elements.as_bytes()), expected, "{elements}");
    }
}

#[test]
fn names_that_become_one_in_utf_8_are_told_apart() {
    let elements = b"[a\xff \xfe=\"1\" \xff=\"2\"][a\xfe x=\"3\"]";
    let expected = "{\"a\u{fffd}\":{\"\u{fffd}\":\"1\",\"\u{fffd}[2]\":\"2\",\"x\":\"3\"}}";
    assert_eq!(object(elements), expected);
}

/// JSON whose objects have each name once.
struct Once;

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Once)
    }
}

impl<'de> Visitor<'de> for Once {
    type Value = Once;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a text or an object")
    }

    fn visit_str<E>(self, _: &str) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Once, A::Error> {
        let mut names = BTreeSet::new();
        while let Some((name, Once)) = members.next_entry::<String, Once>()? {
            if let Some(twice) = names.replace(name) {
                return Err(A::Error::custom(format!("`{twice}` stands twice")));
            }
        }
        Ok(Once)
    }
}

#[test]
fn fuzz_structured_data() {
    testkit::Fuzz::new("gateway syslog structured data")
        .examples([&b"[a@1 b=\"c\\]\" d=\"e\" b=\"f\"][f][a@1 b=\"\"]"[..]])
        .words([&b"[a@1 "[..], b" b=\"\"", b"=\"", b"]", b"\xff", b"\xfe", b"["])
        .memory_max(16 << 10, 100)
        .run(5_000, |bytes| {
            if let Some((elements, _)) = split(bytes) {
                let object = object(elements);
                serde_json::from_str::<Once>(&object).unwrap_or_else(|error| panic!("{error}: {object}"));
            }
        });
}
