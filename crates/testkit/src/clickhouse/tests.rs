use super::*;
use crate::services::{Service, available};

#[test]
fn a_callers_parameter_replaces_ours() {
    let target =
        target(&[("query", "SELECT 1"), ("async_insert", "0")], &[("async_insert", "1"), ("q", "a b")]);
    assert_eq!(target, "/?query=SELECT%201&async_insert=1&q=a%20b");
}

#[test]
fn rows_survive_a_kill_and_errors_carry_the_servers_words() {
    if !available(&[Service::ClickHouse]) {
        return;
    }
    let mut clickhouse = ClickHouse::start(ClickHouseOptions::default()).unwrap();
    clickhouse.query("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a").unwrap();
    clickhouse.insert("INSERT INTO t (a) FORMAT TabSeparated", b"1\n2\n").unwrap();
    assert_eq!(clickhouse.query("SELECT sum(a) FROM t").unwrap(), "3\n");
    let error = clickhouse.query("SELECT * FROM nowhere").unwrap_err().to_string();
    assert!(error.contains("code 60") && error.contains("nowhere"), "{error}");

    let url = clickhouse.url();
    clickhouse.kill9().unwrap();
    assert!(clickhouse.query("SELECT 1").is_err());
    clickhouse.restart().unwrap();
    assert_eq!(clickhouse.url(), url);
    assert_eq!(clickhouse.query("SELECT sum(a) FROM t").unwrap(), "3\n");
    assert!(clickhouse.stop().unwrap().usage.cpu_s() > 0.0);
}
