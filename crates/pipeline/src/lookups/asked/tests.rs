use dataflow::{Column, ColumnType, Schema};
use operators::lookup::keys::{Key, Values};

use super::{Asked, Place};

fn key(texts: &[&[u8]]) -> Key {
    Key { hash: 0, texts: texts.iter().map(|text| text.to_vec()).collect() }
}

fn place(is_dictionary: bool) -> Place {
    let columns = Schema::new(vec![
        Column::new("a`", ColumnType::Int8),
        Column::new("b", ColumnType::String),
        Column::new("it's", ColumnType::String),
    ]);
    let keys = vec!["a`".to_owned(), "b".to_owned()];
    Place { database: "d".to_owned(), name: "t".to_owned(), is_dictionary, columns, keys }
}

fn values() -> Vec<(Values, Option<(i128, i128)>)> {
    vec![(Values::Number, ColumnType::Int8.integer_range()), (Values::Text, None)]
}

fn sql(asked: &Asked, keys: &[Key]) -> Option<String> {
    asked.statement(keys).map(|(sql, _)| sql)
}

#[test]
fn names_and_values_are_quoted_whatever_their_bytes_are() {
    let asked = place(false).of_table(values());
    let keys = [key(&[b"-1", b"it's\\\n\0"]), key(&[b"2", "\u{e9}".as_bytes()]), key(&[b"3", b"\xff'"])];
    let wanted = "SELECT `a\\``, `b`, `it's` FROM `d`.`t` WHERE (`a\\``, `b`) IN ((-1, 'it\\'s\\\\\\x0a\\x00'), (2, '\u{e9}'), (3, '\\xff\\x27')) FORMAT JSONEachRow";
    assert_eq!(sql(&asked, &keys).unwrap(), wanted);
}

#[test]
fn what_no_value_of_the_column_can_be_is_not_asked_for() {
    let asked = place(false).of_table(values());
    let keys = [key(&[b"200", b"x"]), key(&[b"5", b"y"]), key(&[b"-129", b"z"])];
    assert!(sql(&asked, &keys).unwrap().contains("IN ((5, 'y'))"));
    assert_eq!(sql(&asked, &keys[..1]), None);
}

#[test]
fn a_long_statement_says_how_long_it_may_be() {
    let asked = place(false).of_table(values());
    assert_eq!(asked.statement(&[key(&[b"1", b"x"])]).unwrap().1, None);
    let (sql, most) = asked.statement(&[key(&[b"1", &[b'x'; 300_000]])]).unwrap();
    assert!(most.unwrap().parse::<usize>().unwrap() > sql.len());
}

#[test]
fn a_dictionary_is_asked_by_its_key_in_its_own_order() {
    let types = ["String".to_owned(), "Int8".to_owned()];
    let names = ["b".to_owned(), "a`".to_owned()];
    let asked = place(true).of_dictionary("ComplexKeyHashed", &names, &types, values()).unwrap();
    let wanted = "SELECT `a\\``, `b`, dictGet('d.t', 'it\\'s', tuple(`b`, `a\\``)) AS `it's` FROM values('`b` String, `a\\\\`` Int8', ('x', 1)) WHERE dictHas('d.t', tuple(`b`, `a\\``)) FORMAT JSONEachRow";
    assert_eq!(sql(&asked, &[key(&[b"1", b"x"])]).unwrap(), wanted);
    let why = place(true).of_dictionary("Hashed", &names[..1], &types[..1], values()).unwrap_err();
    assert!(why.contains("the key of the dictionary is `b`"), "{why}");
    let why = place(true).of_dictionary("RangeHashed", &names, &types, values()).unwrap_err();
    assert!(why.contains("RangeHashed"), "{why}");
}

#[test]
fn a_key_of_another_type_there_is_named_with_the_way_out() {
    let why = place(false).values("a`", "String").unwrap_err();
    assert!(why.contains("`a``") && why.contains("`String`") && why.contains("leave `cache` out"), "{why}");
    assert!(place(false).values("a`", "Nullable(UInt64)").is_ok());
    assert!(place(false).values("b", "FixedString(4)").is_err());
}
