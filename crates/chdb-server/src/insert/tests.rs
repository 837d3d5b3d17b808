use super::*;
use crate::sql::{Statement, analyse};

fn rewritten(sql: &str) -> String {
    match analyse(sql.as_bytes()) {
        Ok(Statement::Insert(insert)) => String::from_utf8(rewrite(sql.as_bytes(), &insert, "/f")).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_file_takes_the_place_of_the_data() {
    assert_eq!(
        rewritten("INSERT INTO t (a) SETTINGS max_threads=1 FORMAT Native\nxyz"),
        "INSERT INTO t (a)  FROM INFILE '/f' COMPRESSION 'none' SETTINGS max_threads=1  FORMAT Native"
    );
    assert_eq!(
        rewritten("INSERT INTO t VALUES (1)"),
        "INSERT INTO t  FROM INFILE '/f' COMPRESSION 'none'  FORMAT Values"
    );
}

#[test]
fn input_becomes_a_file_with_the_same_structure() {
    assert_eq!(
        rewritten("INSERT INTO t SELECT a FROM input ('a Int8') WHERE a > 1 FORMAT CSV\n1"),
        "INSERT INTO t SELECT a FROM file('/f', 'CSV', 'a Int8') WHERE a > 1 "
    );
}

#[test]
fn the_file_holds_the_rest_of_the_text_and_the_body() {
    let text = b"INSERT INTO t FORMAT TSV\n1\n";
    let Ok(Statement::Insert(insert)) = analyse(text) else { panic!("no insert") };
    let prepared = prepare(text, &insert, b"2\n").unwrap();
    assert_eq!(std::fs::read(prepared.file.path()).unwrap(), b"1\n2\n");
}
