#![allow(clippy::disallowed_methods, reason = "a scripted server runs in real time")]

use tokio::net::TcpListener;

use super::*;
use crate::testing::{RealTime, serve};

/// Entries behind, of a replica whose log shows none.
const UNREAD: u64 = u64::MAX;

/// A reader about table `d.t` of this engine, whose replica is so many entries behind at each question, before and after what it answers; the last pair stays.
/// Gives what the questions named too.
async fn reader(
    engine: &'static str,
    wait: Duration,
    lags: &[(u64, u64)],
) -> (Reader, Arc<Mutex<Vec<String>>>) {
    let (lags, asked) = (lags.to_vec(), Arc::new(Mutex::new(Vec::new())));
    let (seen, mut next) = (asked.clone(), 0);
    let answer = move |question: &str| {
        if question.contains("FROM system.settings") {
            let setting = |name: &str| format!("[\"{name}\",\"0\",0,null,null]");
            return format!("[\"u\",[{},{}]]\n", setting("limit"), setting("select_sequential_consistency"));
        }
        if question.contains("FROM system.tables") {
            return format!("[[[\"{engine}\",\"{engine} ORDER BY k\"]]]\n");
        }
        seen.lock().unwrap().push(question.to_owned());
        if !question.contains("system.replicas") {
            return "[7,1]\n[9,2]\n".into();
        }
        let (before, after) = lags[next.min(lags.len() - 1)];
        next += 1;
        let log = |behind| if behind == UNREAD { "1,0,1".to_owned() } else { format!("{behind},70,0") };
        let (before, after) = (log(before), log(after));
        format!("[[[1,\"d\",\"t\",0,0,{before}]],[[7,1],[9,2]],[[2,\"d\",\"t\",0,0,{after}]]]\n")
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(serve(listener, answer));
    let reader = Reader::new(ServerConfig::new(url), RealTime::shared()).unwrap();
    (reader.about(&TableConfig::new("d", "t"), wait), asked)
}

const QUESTION: &str = "SELECT h, count() FROM `d`.`t` GROUP BY h";

async fn rows(reader: &Reader) -> Vec<(u64, u64)> {
    reader.rows_shown(QUESTION).await.unwrap()
}

#[tokio::test]
async fn a_replica_that_is_behind_is_asked_again_until_it_has_caught_up() {
    let far = Duration::from_secs(600);
    let (reader, asked) = reader("ReplicatedMergeTree", far, &[(2, 0), (0, 1), (0, 0)]).await;
    assert_eq!(rows(&reader).await, [(7, 1), (9, 2)]);
    assert_eq!((asked.lock().unwrap().len(), reader.lag()), (3, None));
    // Its lag and what it has come from one server.
    assert!(
        asked.lock().unwrap().iter().all(|sql| sql.contains(QUESTION) && sql.contains("system.replicas"))
    );
    let one: (u64, u64) = reader.one_shown(QUESTION).await.unwrap();
    assert_eq!(one, (9, 2));
}

#[tokio::test]
async fn a_replica_that_stays_behind_is_waited_for_once_and_is_told() {
    let (reader, asked) =
        reader("ReplicatedReplacingMergeTree", Duration::ZERO, &[(5, 5), (5, 5), (4, 4)]).await;
    assert_eq!(rows(&reader).await, [(7, 1), (9, 2)]);
    let tries = usize::try_from(LAG_TRIES_MIN).unwrap();
    assert_eq!(asked.lock().unwrap().len(), tries);
    assert_eq!(reader.lag().as_deref(), Some("the table's replica is 4 log entries behind"));
    rows(&reader).await;
    assert_eq!(asked.lock().unwrap().len(), tries + 1, "in vain once is enough");
}

#[tokio::test]
async fn a_table_with_replicas_that_nobody_has_written_to_has_no_replica_that_is_behind() {
    let far = Duration::from_secs(600);
    let (reader, asked) = reader("ReplicatedMergeTree", far, &[(UNREAD, UNREAD)]).await;
    rows(&reader).await;
    let tries = usize::try_from(LAG_TRIES_MIN).unwrap();
    assert_eq!(
        (asked.lock().unwrap().len(), reader.lag()),
        (tries, None),
        "its first entry may be on its way"
    );
    rows(&reader).await;
    assert_eq!(asked.lock().unwrap().len(), tries + 1, "once is enough");
}

#[tokio::test]
async fn a_table_that_no_replica_can_lag_behind_is_asked_as_it_is() {
    for (engine, value) in [("MergeTree", None), ("SharedMergeTree", Some("1"))] {
        let (reader, asked) = reader(engine, Duration::ZERO, &[(9, 9)]).await;
        assert_eq!(rows(&reader).await, [(7, 1), (9, 2)]);
        assert_eq!(reader.lag(), None);
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 1, "{engine}");
        let named = value.map(|value| format!("select_sequential_consistency={value}"));
        let is_named = asked[0].contains("select_sequential_consistency");
        assert_eq!(is_named, named.is_some(), "{engine}: {}", asked[0]);
        assert!(named.is_none_or(|named| asked[0].contains(&named)), "{}", asked[0]);
    }
}
