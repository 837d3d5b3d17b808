use super::reference::{Surroundings, expand};
use super::*;

fn refused<T: Kind>(text: &str) -> String {
    match text.parse::<T>() {
        Err(why) => why,
        Ok(_) => panic!("`{text}` was taken for a {}", T::KIND),
    }
}

#[test]
fn periods_are_sums_of_falling_units() {
    for (text, ms) in [
        ("0s", 0),
        ("200ms", 200),
        ("1s", 1_000),
        ("1m30s", 90_000),
        ("1h30m", 5_400_000),
        ("8h", 28_800_000),
        ("1w2d", 777_600_000),
    ] {
        assert_eq!(text.parse::<Period>().unwrap().ms, ms, "{text}");
    }
    for text in ["", "s", "1", "1x", "1 s", "-1s", "1.5s", "1s1h", "1s1s", "1µs", "99999999999999w"] {
        refused::<Period>(text);
    }
}

#[test]
fn sizes_have_units() {
    for (text, bytes) in [
        ("0B", 0),
        ("64MiB", 64 << 20),
        ("4 GiB", 4u64 << 30),
        ("500kB", 500_000),
        ("2TB", 2_000_000_000_000),
    ] {
        assert_eq!(text.parse::<Size>().unwrap().bytes, bytes, "{text}");
    }
    for text in ["", "64", "MiB", "64mib", "64M", "-1B", "1.5GiB", "99999999TiB", "1  B"] {
        refused::<Size>(text);
    }
}

#[test]
fn values_show_themselves_as_they_are_read() {
    for ms in [0u64, 1, 999, 1_000, 90_061_001, 86_400_000, u64::MAX] {
        let period = Period { ms };
        assert_eq!(period.to_string().parse::<Period>().unwrap(), period);
    }
    for bytes in [0u64, 1, 1_000, 1_024, 64 << 20, (64 << 20) + 1, 4 << 30, u64::MAX] {
        let size = Size { bytes };
        assert_eq!(size.to_string().parse::<Size>().unwrap(), size);
    }
    for text in ["earliest", "latest", "2026-01-31T08:00:00Z"] {
        assert_eq!(text.parse::<Start>().unwrap().to_string(), text);
    }
    for text in ["none", "127.0.0.1:9464", "[::1]:80"] {
        assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
    }
}

#[test]
fn names_keep_to_what_their_home_allows() {
    for text in ["", "A", "a_b", "a b", "ä", &"a".repeat(65)] {
        refused::<PipelineName>(text);
    }
    for text in ["", ".", "..", "^all", "a b", "a/b", &"a".repeat(250)] {
        refused::<Topic>(text);
    }
    for text in ["", "a.b.c", ".b", "a."] {
        refused::<TableName>(text);
    }
    for text in ["", ".a", "a/b", "a b", "ä", &"a".repeat(65)] {
        refused::<Consumer>(text);
    }
    refused::<Identifier>("a\nb");
    assert_eq!("t".parse::<TableName>().unwrap().split("d"), ("d", "t"));
    assert_eq!("x.t".parse::<TableName>().unwrap().split("d"), ("x", "t"));
}

#[test]
fn addresses_say_what_is_missing() {
    for text in ["http://h", "https://h:8443/", "http://[::1]:8123", "http://127.0.0.1:1/path"] {
        text.parse::<HttpUrl>().unwrap();
    }
    for text in [
        "h:8123",
        "ftp://h",
        "http://",
        "http://:1",
        "http://h:0",
        "http://h:x",
        "http://h?a=b",
        "http://a b",
    ] {
        refused::<HttpUrl>(text);
    }
    let with_password = refused::<HttpUrl>("http://me:s3cr3t@h");
    assert!(!with_password.contains("s3cr3t"), "{with_password}");
    for text in ["h:9092", "h", "a:1,b:2", "[::1]:9092"] {
        text.parse::<Broker>().unwrap();
    }
    for text in ["", "h:0", "h:1,", "kafka://h:1"] {
        refused::<Broker>(text);
    }
    for text in ["s3://b", "s3://b/a/prefix", "gs://b", "az://b", "file:///a/folder", "memory://"] {
        text.parse::<StoreUrl>().unwrap();
    }
    for text in ["s3://", "file://relative", "ftp://x", "memory://x", ""] {
        refused::<StoreUrl>(text);
    }
}

#[test]
fn a_store_whose_scheme_lacks_its_slashes_is_no_folder_of_that_name() {
    for (text, way_out) in [
        ("file:/var/lib/forebay", "`file:///path`"),
        ("file:data", "`file:///path`"),
        ("s3:/bucket/prefix", "`s3://…`"),
        ("s3:bucket", "`s3://…`"),
        ("memory:", "`memory://…`"),
    ] {
        let message = refused::<StoreUrl>(text);
        assert!(message.contains(way_out), "{message}");
    }
    for text in ["./s3:/bucket", "/var/lib/file:data", "a:b", "s3/bucket"] {
        text.parse::<StoreUrl>().unwrap();
    }
}

#[test]
fn only_this_machine_is_loopback() {
    for (url, loopback) in [
        ("http://localhost:8123", true),
        ("http://127.0.0.9/x", true),
        ("http://[::1]", true),
        ("http://localhost.example", false),
        ("http://10.0.0.1", false),
        ("http://127.0.0.1.example", false),
    ] {
        assert_eq!(url.parse::<HttpUrl>().unwrap().is_loopback(), loopback, "{url}");
    }
}

#[test]
fn references_are_put_in_place_once() {
    let env = |name: &str| {
        Ok(match name {
            "A" => Some("1".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${A}".to_owned()),
            _ => None,
        })
    };
    let around = Surroundings { env: &env, file: &|_| Err("no".into()) };
    for (text, expected) in [
        ("${A}", "1"),
        ("x${A}y${A}", "x1y1"),
        ("${B:-two}", "two"),
        ("${A:-two}", "1"),
        ("${EMPTY}", ""),
        ("${EMPTY:-e}", "e"),
        ("$${A}", "${A}"),
        ("${NESTED}", "${A}"),
    ] {
        assert_eq!(expand(text, &around).unwrap().as_deref(), Some(expected), "{text}");
    }
    assert_eq!(expand("a $ b {} $A", &around).unwrap(), None);
    for text in ["${B}", "${A", "${}", "${1A}", "${A B}"] {
        expand(text, &around).unwrap_err();
    }
}

#[test]
fn a_reference_within_a_default_is_refused_whether_the_default_is_taken_or_not() {
    let env = |name: &str| Ok((name == "A").then(|| "1".to_owned()));
    let around = Surroundings { env: &env, file: &|_| Err("no".into()) };
    for text in ["${A:-${B}}", "${B:-${A}}", "${B:-x${A:-y}}"] {
        let why = expand(text, &around).unwrap_err();
        assert!(why.contains("a default that holds another reference"), "{text}: {why}");
    }
}

#[test]
fn a_secret_shows_nothing_in_any_form() {
    let secret: Secret = "s3cr3t".parse().unwrap();
    let shown =
        format!("{secret} {secret:?} {:?} {}", Some(&secret), serde_json::to_string(&secret).unwrap());
    assert!(!shown.contains("s3cr3t"), "{shown}");
    assert_eq!(secret.reveal(), "s3cr3t");
}

#[test]
fn a_word_or_a_quoted_text_is_a_column_and_nothing_else() {
    let cases = [
        ("a", Some("a")),
        (" _b1 ", Some("_b1")),
        ("größe", Some("größe")),
        ("\"user.id\"", Some("user.id")),
        ("\"a\"\"b\"", Some("a\"b")),
        ("\"a\" || \"b\"", None),
        ("1", None),
        ("a + 1", None),
        ("user.id", None),
        ("NULL", None),
        ("true", None),
        ("''", None),
        ("\"\"", None),
    ];
    for (text, expected) in cases {
        assert_eq!(column_of(text).as_deref(), expected, "{text}");
    }
}
