use super::*;

fn column(name: &str, kind: &str, expression: &str) -> ColumnRow {
    ColumnRow {
        name: name.into(),
        type_name: "UInt64".into(),
        default_kind: kind.into(),
        default_expression: expression.into(),
    }
}

fn table(columns: Vec<ColumnRow>) -> TableRow {
    TableRow { columns, ..TableRow::default() }
}

#[test]
fn names_are_words_that_no_bracket_follows_and_quoted_ones() {
    let names = |text| Names { rest: text }.collect::<Vec<_>>();
    assert_eq!(names("concat('a b', s) || `odd \\` name` || \"q\""), ["s", "odd ` name", "q"]);
    assert_eq!(names("toDate(at) + 1e5 - x1 % 7"), ["at", "x1"]);
    assert_eq!(names("n.sub + _CAST(tw + 1, 'UInt64')"), ["n.sub", "tw"]);
    assert_eq!(names("'it\\'s `tw`'"), Vec::<String>::new());
    assert_eq!(names("if (größe > 1, ä, 'x"), ["größe", "ä"]);
}

#[test]
fn a_default_of_what_is_not_sent_is_left_to_the_server_and_so_is_one_of_that() {
    for kind in ["ALIAS", "MATERIALIZED", "EPHEMERAL"] {
        let table = table(vec![
            column("z", "DEFAULT", "y + 1"),
            column("a", "", ""),
            column("tw", kind, "a * 2"),
            column("x", "DEFAULT", "tw + 1"),
            column("y", "DEFAULT", "x + a"),
            column("w", "DEFAULT", "a + 1"),
        ]);
        let (mut notes, config) = (Vec::new(), TableConfig::new("d", "t"));
        let chosen = Chosen::of(&table, &config, &mut notes);
        assert_eq!((chosen.names, chosen.have_no_default.len()), (vec!["a", "w"], 0));
        let said = format!(
            "column `x` has the DEFAULT `tw + 1`, which reads `tw`, and that is {kind}: the server computes"
        );
        assert!(notes.len() == 3 && notes.iter().any(|note| note.starts_with(&said)), "{notes:?}");
    }
}

#[test]
fn who_names_a_column_sends_it_and_then_no_null_stands_for_it() {
    let table = table(vec![
        column("a", "", ""),
        column("tw", "ALIAS", "a * 2"),
        column("x", "DEFAULT", "tw + 1"),
        column("y", "DEFAULT", "x + a"),
    ]);
    let (mut notes, config) =
        (Vec::new(), TableConfig { named: vec!["x".into()], ..TableConfig::new("d", "t") });
    let chosen = Chosen::of(&table, &config, &mut notes);
    assert_eq!((chosen.names, chosen.have_no_default), (vec!["a", "x", "y"], vec!["x"]));
    assert!(notes.len() == 1 && notes[0].ends_with("so records must have the field"), "{notes:?}");
}

#[test]
fn an_ephemeral_column_is_sent_if_it_is_named_and_defaults_read_it() {
    let table =
        table(vec![column("a", "", ""), column("e", "EPHEMERAL", "7"), column("x", "DEFAULT", "e + 1")]);
    let (mut notes, config) =
        (Vec::new(), TableConfig { named: vec!["e".into()], ..TableConfig::new("d", "t") });
    let chosen = Chosen::of(&table, &config, &mut notes);
    assert_eq!((chosen.names, notes), (vec!["a", "e", "x"], vec![]));
}
