#![allow(clippy::disallowed_methods, reason = "a scripted server runs in real time")]

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::config::ServerConfig;
use crate::testing::RealTime;

/// A server on which a table comes to be after its columns were asked for the first time.
async fn serve(listener: TcpListener) {
    let mut columns_asked = 0;
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut seen = String::new();
        let mut piece = [0; 4096];
        while !seen.contains("JSONCompactEachRow") {
            let len = socket.read(&mut piece).await.unwrap();
            seen.push_str(&String::from_utf8_lossy(&piece[..len]));
        }
        let body = if seen.contains("FROM system.tables") {
            "[[[\"MergeTree\",\"\",\"\",\"\",\"\",\"\",\"\",[],[]]]]\n"
        } else {
            columns_asked += 1;
            if columns_asked == 1 { "[[]]\n" } else { "[[[1,\"id\",\"UInt64\",\"\",\"\"]]]\n" }
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn a_table_that_another_process_makes_meanwhile_has_its_columns() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(serve(listener));
    let client = Client::new(ServerConfig::new(url), RealTime::shared()).unwrap();
    let (found, _) = table(&Asker { client: &client, settings: Vec::new() }, "default", "events")
        .await
        .unwrap()
        .expect("it is there");
    assert_eq!(found.columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["id"]);
    server.abort();
}

#[test]
fn what_is_no_version_is_no_old_clickhouse() {
    assert_eq!(version_of("26.7.2.1"), Ok((26, 7)));
    assert_eq!(version_of("23.3"), Ok((23, 3)));
    for text in ["<html>Sign in</html>", "26", "x.1", "99999999999.1"] {
        let said = version_of(text).expect_err(text);
        assert!(said.contains(&format!("`{text}`, which is no version of ClickHouse")), "{said}");
    }
}
