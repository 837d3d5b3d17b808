use super::*;
use crate::sql::{Statement, analyse};

fn script(sql: &str) -> Script {
    match analyse(sql.as_bytes()) {
        Ok(Statement::Insert(insert)) => rewrite(sql.as_bytes(), &insert, "/f"),
        other => panic!("{other:?}"),
    }
}

fn rewritten(sql: &str) -> String {
    String::from_utf8(script(sql).main).unwrap()
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
fn input_becomes_a_temporary_table_of_the_same_structure() {
    let script =
        script("INSERT INTO t SELECT a FROM input ('a Enum8(\\')\\' = 1)') WHERE a > 1 FORMAT CSV\n1");
    let text = |sql: &[u8]| String::from_utf8(sql.to_vec()).unwrap();
    assert_eq!(
        script.before.iter().map(|sql| text(sql)).collect::<Vec<_>>(),
        [
            "CREATE TEMPORARY TABLE `_chdb_server_input` ENGINE = Memory AS SELECT * FROM null ('a Enum8(\\')\\' = 1)')",
            "INSERT INTO `_chdb_server_input` FROM INFILE '/f' COMPRESSION 'none'  FORMAT CSV",
        ]
    );
    assert_eq!(text(&script.main), "INSERT INTO t SELECT a FROM `_chdb_server_input` WHERE a > 1 ");
    assert_eq!(text(&script.after[0]), "DROP TEMPORARY TABLE IF EXISTS `_chdb_server_input`");
}

#[test]
fn the_file_holds_the_rest_of_the_text_and_the_body() {
    let text = b"INSERT INTO t FORMAT TSV\n1\n";
    let Ok(Statement::Insert(insert)) = analyse(text) else { panic!("no insert") };
    let prepared = prepare(text, &insert, b"2\n").unwrap();
    assert_eq!(std::fs::read(prepared.file.path()).unwrap(), b"1\n2\n");
}
