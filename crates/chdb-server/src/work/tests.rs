use super::*;

#[test]
fn the_body_is_data_when_the_query_is_an_insert_and_sql_otherwise() {
    let found = find_statement("INSERT INTO t FORMAT TSV", b"1\n".to_vec()).unwrap();
    assert_eq!(
        (found.text.as_slice(), found.data.as_slice()),
        (&b"INSERT INTO t FORMAT TSV\n"[..], &b"1\n"[..])
    );
    let found = find_statement("INSERT INTO t", b"VALUES (1)".to_vec()).unwrap();
    assert!(matches!(found.parsed, Statement::Insert(_)));
    assert_eq!(found.text, b"INSERT INTO t\nVALUES (1)");
    let found = find_statement("", b"SELECT 1 FORMAT CSV".to_vec()).unwrap();
    assert_eq!(found.format(), Some("CSV"));
}

#[test]
fn an_endless_statement_is_refused_and_an_inserts_data_are_not() {
    let mut text = b"SELECT '".to_vec();
    text.resize(STATEMENT_BYTES_MAX + 1, b'a');
    assert_eq!(find_statement("", text).unwrap_err().code, SYNTAX_ERROR);
    let mut text = b"INSERT INTO t FORMAT TSV\n".to_vec();
    text.resize(STATEMENT_BYTES_MAX + 1, b'1');
    assert!(find_statement("", text).is_ok());
}

#[test]
fn the_query_id_rides_before_the_clients_own_comment() {
    let mut asked =
        Asked { settings: vec![("log_comment".to_owned(), "mine".to_owned())], ..Asked::default() };
    name_query(&mut asked, "id");
    assert_eq!(asked.settings, [("log_comment".to_owned(), "id\nmine".to_owned())]);
}
