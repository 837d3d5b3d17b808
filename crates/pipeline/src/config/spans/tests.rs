use super::*;

fn tree(text: &str) -> (Option<Node>, String) {
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let mut faults = Faults::default();
    let node = parse(text, &around, &mut faults);
    (node, faults.render("f"))
}

fn entry<'n>(node: &'n Node, key: &str) -> &'n Entry {
    let Value::Map(entries) = &node.value else { panic!("no mapping") };
    entries.iter().find(|entry| entry.key == key).expect("the key is there")
}

#[test]
fn places_count_lines_and_characters_from_one() {
    let (node, faults) = tree("a: 1\nb:\n  - x\n  - {é: ü, c: \"d\"}\n");
    assert_eq!(faults, "");
    let node = node.unwrap();
    assert_eq!(entry(&node, "a").at, Position { line: 1, column: 1 });
    assert_eq!(entry(&node, "a").value.at, Position { line: 1, column: 4 });
    let Value::List(items) = &entry(&node, "b").value.value else { panic!("no list") };
    assert_eq!(items[1].at, Position { line: 4, column: 5 });
    assert_eq!(entry(&items[1], "c").at, Position { line: 4, column: 12 });
}

#[test]
fn quoted_scalars_are_told_from_plain_ones() {
    let (node, _) = tree("a: true\nb: \"true\"\nc: ~\nd: \"\"\n");
    let node = node.unwrap();
    let plain = |key: &str| match &entry(&node, key).value.value {
        Value::Scalar(scalar) => Some(scalar.plain),
        _ => None,
    };
    assert_eq!(
        (plain("a"), plain("b"), plain("c"), plain("d")),
        (Some(true), Some(false), None, Some(false))
    );
}

#[test]
fn a_key_twice_names_its_first_place() {
    let (_, faults) = tree("a: 1\nb: 2\na: 3\n");
    assert_eq!(faults, "f:3:1: `a` appears here again, first at 1:1\n");
}

#[test]
fn a_tree_never_shows_its_scalars() {
    let (node, _) = tree("password: s3cr3t\n");
    assert!(!format!("{node:?}").contains("s3cr3t"));
}

#[test]
fn json_may_write_a_character_as_two_escapes_and_places_stay() {
    let file = "{\"a\": \"x \\ud83d\\uDE00\\\\ud83d y\", \"b\": \"\\ud83d\\ude00\\ud83d\\ude01\", \"c\": 1,\n \"d\": \"\\u00e4\", \"e\": 2}";
    let (node, faults) = tree(file);
    assert_eq!(faults, "");
    let node = node.unwrap();
    let Value::Map(entries) = &node.value else { panic!("a mapping") };
    let text = |entry: &Entry| match &entry.value.value {
        Value::Scalar(scalar) => scalar.text.clone(),
        other => panic!("{other:?}"),
    };
    let found: Vec<(String, Position)> = entries.iter().map(|entry| (text(entry), entry.at)).collect();
    let at = |key: &str| {
        let byte = file.find(&format!("\"{key}\":")).expect("the key");
        let line = file[..byte].matches('\n').count() + 1;
        let begin = file[..byte].rfind('\n').map_or(0, |end| end + 1);
        Position { line, column: byte - begin + 1 }
    };
    let expected =
        [("a", "x \u{1f600}\\ud83d y"), ("b", "\u{1f600}\u{1f601}"), ("c", "1"), ("d", "ä"), ("e", "2")];
    assert_eq!(found, expected.map(|(key, text)| (text.to_owned(), at(key))));
}

#[test]
fn an_escape_that_is_no_character_is_refused_with_what_to_write() {
    for text in ["{\"a\": \"\\ud83d x\"}", "a: \"\\ud83d\\ude00\"", "{\"a\": \"\\ud83d\\ude00\", b: 1}"] {
        let (node, told) = tree(text);
        assert!(node.is_none() && told.contains("write the character itself"), "{text}: {told}");
    }
}

#[test]
fn a_reference_that_is_not_quoted_within_braces_is_told_with_what_to_write() {
    let words = "write a reference in quotes: `\"${NAME}\"`";
    for (text, column) in [("é: { password: ${NAME} }\n", 17), ("a: [${NAME}]\n", 6)] {
        let (node, told) = tree(text);
        assert!(node.is_none() && told.starts_with(&format!("f:1:{column}: this is not YAML")), "{told}");
        assert!(told.contains(words), "{told}");
    }
    for text in ["a: { b: \"${NAME:-x}\" }\n", "a: ${NAME:-x}\n"] {
        assert_eq!(tree(text).1, "", "{text}");
    }
    let (_, told) = tree("a: { b: c {d: e} }\n");
    assert!(told.contains("this is not YAML") && !told.contains(words), "{told}");
}

#[test]
fn a_text_that_begins_with_a_star_is_told_with_what_to_write() {
    for text in ["paths: *.jsonl\n", "select:\n  *: *\n"] {
        let (node, told) = tree(text);
        assert!(
            node.is_none() && told.contains("write a text that begins with `*` or `&` in quotes"),
            "{text}: {told}"
        );
    }
    assert_eq!(tree("paths: \"*.jsonl\"\n").1, "");
}
