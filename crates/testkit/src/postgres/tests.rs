//! A server answers, keeps what it was told over a restart and over a kill, and lets nobody in without a password.

use super::*;
use crate::services::{Service, available};

#[test]
fn a_server_keeps_its_rows_over_restart_and_kill() {
    if !available(&[Service::Postgres]) {
        return;
    }
    let mut server = Postgres::start(PostgresOptions::default()).expect("it starts");
    server
        .query("CREATE TABLE t (id int, name text); INSERT INTO t VALUES (1, 'a'), (2, NULL)")
        .expect("a table");
    server.restart().expect("it starts again");
    let rows = server.query("SELECT id, name FROM t ORDER BY id").expect("an answer");
    assert_eq!(rows, [[Some("1".into()), Some("a".into())], [Some("2".into()), None]]);
    server.kill9().expect("a kill");
    assert!(server.query("SELECT 1").is_err());
    server.restart().expect("it starts again");
    assert_eq!(server.query("SELECT count(*) FROM t").expect("an answer"), [[Some("2".into())]]);
    let why = server.query("SELECT nothing").expect_err("it refuses");
    assert!(format!("{why:#}").contains("42703"), "{why:#}");
    server.stop().expect("it stops");
}
