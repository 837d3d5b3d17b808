#![allow(clippy::disallowed_methods, reason = "a scripted server runs in real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpListener;

use super::*;
use crate::config::ServerConfig;
use crate::testing::{RealTime, serve};

/// A client of such a server.
async fn client(answer: impl FnMut(&str) -> String + Send + 'static) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(serve(listener, answer));
    Client::new(ServerConfig::new(url), RealTime::shared()).unwrap()
}

#[tokio::test]
async fn a_table_that_another_process_makes_meanwhile_has_its_columns() {
    let mut columns_asked = 0;
    let client = client(move |asked| {
        if asked.contains("FROM system.tables") {
            return "[[[\"MergeTree\",\"\",\"\",\"\",\"\",\"\",\"\",[],[]]]]\n".into();
        }
        // It comes to be after its columns were asked for the first time.
        columns_asked += 1;
        if columns_asked == 1 { "[[]]\n".into() } else { "[[[1,\"id\",\"UInt64\",\"\",\"\"]]]\n".into() }
    });
    let client = client.await;
    let (found, _) = table(&Asker { client: &client, settings: Vec::new() }, "default", "events")
        .await
        .unwrap()
        .expect("it is there");
    assert_eq!(found.columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["id"]);
}

/// What such a view writes to does not show, and inserts feed it all the same.
#[tokio::test]
async fn a_view_that_this_user_may_not_see_is_a_fault_with_the_grant() {
    for is_there in [true, false] {
        let client = client(move |asked| {
            if asked.contains("arrayExists") {
                return format!("[{}]\n", u8::from(is_there));
            }
            // Neither its row nor its columns.
            "[[]]\n".into()
        });
        let client = client.await;
        let ask = Asker { client: &client, settings: Vec::new() };
        let found = views(&ask, vec![("d".to_owned(), "v".to_owned())], "writer").await;
        if !is_there {
            assert!(found.unwrap().is_empty(), "it was dropped in between");
            continue;
        }
        let fault = found.unwrap_err();
        assert_eq!((fault.remedy, fault.kind), (Remedy::Stop, TableFault::Access));
        assert!(
            fault.message.contains("view `d.v` hangs on the table, and user `writer` may not see it"),
            "{fault}"
        );
        assert_eq!(fault.fix.as_deref(), Some("GRANT SHOW TABLES ON `d`.`v` TO `writer`"));
        assert!(crate::testing::is_parsed_by_a_server(&fault.to_string()), "{fault}");
    }
}

/// How many servers are met where the probe of this number sees this server and table, and how many probes that takes.
async fn met(seen: fn(usize) -> (&'static str, &'static str)) -> (usize, usize) {
    met_by(seen, None).await
}

/// The same at a poll, where one node was known.
async fn met_by(seen: fn(usize) -> (&'static str, &'static str), known: Option<&str>) -> (usize, usize) {
    let asked = Arc::new(AtomicUsize::new(0));
    let number = asked.clone();
    let client = client(move |_| {
        let (server, table) = seen(number.fetch_add(1, Ordering::Relaxed));
        format!("[\"{server}\",\"host\",[\"{table} /data\"]]\n")
    });
    let client = client.await;
    let ask = Asker { client: &client, settings: Vec::new() };
    let nodes = nodes(&ask, &TableConfig::new("default", "events"), known).await.unwrap();
    (nodes.into_iter().collect::<BTreeSet<_>>().len(), asked.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_table_that_is_exchanged_between_two_probes_is_no_second_server() {
    assert_eq!(met(|_| ("one", "t")).await, (1, NODE_PROBES));
    assert_eq!(met(|n| ("one", if n < 2 { "t" } else { "exchanged" })).await, (1, 2 * NODE_PROBES));
    // Copies of a machine call themselves the same, and have a table each.
    let copies = met(|n| ("one", ["t", "of a copy"][n % 2])).await;
    assert_eq!(copies, (2, NODE_ROUNDS as usize * NODE_PROBES));
    assert_eq!(met(|n| (["one", "two"][n % 2], ["t", "of another"][n % 2])).await, (2, NODE_PROBES));
}

#[tokio::test]
async fn a_poll_asks_fewer_while_all_connections_reach_the_node_that_is_known() {
    let known = Some("one host t /data");
    assert_eq!(met_by(|_| ("one", "t"), known).await, (1, NODE_PROBES_OF_POLL));
    let turns = met_by(|n| (["one", "two"][n % 2], ["t", "of another"][n % 2]), known);
    assert_eq!(turns.await, (2, NODE_PROBES_OF_POLL + NODE_PROBES));
    // A server or a table in the place of the known one is told by the others.
    assert_eq!(met_by(|_| ("two", "t"), known).await, (1, NODE_PROBES_OF_POLL + NODE_PROBES));
    assert_eq!(met_by(|_| ("one", "exchanged"), known).await, (1, NODE_PROBES_OF_POLL + NODE_PROBES));
}

/// The identity of the table on the replicas that are met where the probe of this number sees this one (an empty one: no table), and how many probes that
/// takes.
async fn identity(seen: fn(usize) -> &'static str) -> (Result<Vec<String>, Fault>, usize) {
    let asked = Arc::new(AtomicUsize::new(0));
    let number = asked.clone();
    let client = client(move |_| match seen(number.fetch_add(1, Ordering::Relaxed)) {
        "" => "[[]]\n".into(),
        uuid => format!("[[[\"{uuid}\",\"/data\"]]]\n"),
    });
    let client = client.await;
    let ask = Asker { client: &client, settings: Vec::new() };
    let found = replicas::identity(&ask, &TableConfig::new("default", "events")).await;
    (found, asked.load(Ordering::Relaxed))
}

#[tokio::test]
async fn replicas_that_were_each_made_by_a_statement_of_their_own_are_refused_behind_one_address() {
    let one = |uuid: &str| Ok::<_, Fault>(vec![uuid.to_owned()]);
    assert_eq!(identity(|_| "a").await, (one("a"), NODE_PROBES));
    assert_eq!(identity(|n| ["a", ""][n % 2]).await, (one("a"), NODE_PROBES), "a replica is still to come");
    let exchanged = identity(|n| if n < 2 { "a" } else { "b" }).await;
    assert_eq!(exchanged, (one("b"), 2 * NODE_PROBES), "between two probes");
    assert_eq!(identity(|_| "00000000-0000-0000-0000-000000000000").await.0, one("/data"));
    let (refused, asked) = identity(|n| ["a", "b"][n % 2]).await;
    let fault = refused.unwrap_err();
    assert_eq!((asked, fault.remedy), (NODE_ROUNDS as usize * NODE_PROBES, Remedy::Stop));
    assert!(fault.message.contains("table `default.events` has different identities (`a`, `b`)"), "{fault}");
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
