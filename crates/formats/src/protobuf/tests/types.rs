//! Where types come from, and what is said of those that cannot be used.

use std::sync::Arc;

use super::super::Types;

fn texts(files: &[(&str, &str)]) -> Result<Types, String> {
    let files: Vec<(String, String)> =
        files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    let root = files[0].0.clone();
    let open =
        move |name: &str| Ok(files.iter().find(|(file, _)| file == name).map(|(_, text)| text.clone()));
    Types::of_text(&root, Arc::new(open)).map_err(|error| error.to_string())
}

#[test]
fn imports_are_found_by_their_names_and_messages_by_theirs() {
    let root = r#"syntax = "proto3"; package shop; import "geo/place.proto"; message Order { geo.Place at = 1; message Item {} } message Other {}"#;
    let place = r#"syntax = "proto3"; package geo; message Place { string city = 1; }"#;
    let types = texts(&[("order.proto", root), ("geo/place.proto", place)]).unwrap();
    assert_eq!(types.message("shop.Order.Item").unwrap().full_name(), "shop.Order.Item");
    assert_eq!(types.message(".geo.Place").unwrap().full_name(), "geo.Place");
    let error = types.message("Order").unwrap_err().to_string();
    assert_eq!(
        error,
        "no message `Order`; there are `geo.Place`, `shop.Order`, `shop.Order.Item`, `shop.Other`"
    );
    let at = |path: &[u32]| types.message_at(path, None).map(|found| found.full_name().to_owned());
    assert_eq!(at(&[0]).unwrap(), "shop.Order");
    assert_eq!(at(&[0, 0]).unwrap(), "shop.Order.Item");
    assert_eq!(at(&[1]).unwrap(), "shop.Other");
    let none = at(&[1, 7]).unwrap_err().to_string();
    assert_eq!(none, "the record is of the message number `1.7`, which the schema does not have");
    assert!(at(&[2]).is_err() && at(&[]).is_err());
    // The same from a set of descriptors.
    let set = Types::of_set(&types.pool.encode_to_vec()).unwrap();
    assert_eq!(set.message("shop.Order").unwrap().fields().count(), 1);
}

/// Serializers do not agree on whether the entries of maps count.
#[test]
fn a_number_that_stands_for_two_messages_is_the_one_that_is_wanted() {
    let text = r#"syntax = "proto3"; package p; message M { message First {} map<string, int32> m = 1; message A {} message B {} }"#;
    let types = texts(&[("m.proto", text)]).unwrap();
    let at = |place: u32, wanted: Option<&str>| {
        types.message_at(&[0, place], wanted).map(|found| found.name().to_owned()).map_err(|e| e.to_string())
    };
    assert_eq!(at(0, None).as_deref(), Ok("First"));
    // The entry itself is nobody's record.
    assert_eq!(at(1, None).as_deref(), Ok("A"));
    assert_eq!(at(3, None).as_deref(), Ok("B"));
    assert_eq!(at(2, Some("p.M.A")).as_deref(), Ok("A"));
    assert_eq!(at(2, Some(".p.M.B")).as_deref(), Ok("B"));
    for wanted in [None, Some("p.M.First")] {
        let error = at(2, wanted).unwrap_err();
        assert!(
            error.starts_with("the record is of the message number `0.2`, which is `p.M.A` if "),
            "{error}"
        );
        assert!(error.ends_with("and `p.M.B` if not; name the right one as `message`"), "{error}");
    }
}

#[test]
fn a_schema_that_cannot_be_used_is_refused_with_its_place() {
    let head = "syntax = \"proto3\";";
    let deep = format!("{head} message M {{}} option java_package = {}1{};", "{".repeat(65), "}".repeat(65));
    for (files, expected) in [
        (vec![("a.proto", "message {")], "a.proto:1:9: "),
        (vec![("a.proto", "syntax = \"proto3\"; import \"b.proto\";")], "b.proto"),
        (vec![("a.proto", "syntax = \"proto3\"; message M { N n = 1; }")], "N"),
        (vec![("a.proto", deep.as_str())], "`a.proto`: brackets nest deeper than `64`"),
        (vec![("a.proto", "edition = \"2023\"; message M {}")], "edition"),
    ] {
        let error = texts(&files).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    // Brackets in comments and texts are no brackets.
    let many = "{".repeat(100);
    let text =
        format!("{head} // {many}\n/* {many} */ message M {{ string s = 1 [json_name = \"\\\"{many}\"]; }}");
    texts(&[("a.proto", &text)]).unwrap();
    let error = Types::of_set(b"no set").unwrap_err().to_string();
    assert!(
        error.starts_with("no usable set of descriptors: ") && error.contains("--include_imports"),
        "{error}"
    );
}
