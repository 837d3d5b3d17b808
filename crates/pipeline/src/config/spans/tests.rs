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
