use object_log::{Owner, Settings};

use super::*;

#[tokio::test]
async fn a_position_that_is_refused_keeps_the_consumer_that_was_to_be_forgotten() {
    let folder = std::env::temp_dir().join(format!("forebay-truncate-{}", std::process::id()));
    let truncate = |before: u64| Truncate {
        place: Place { log: folder.display().to_string() },
        partition: 0,
        before: Some(before),
        force: false,
        forget_consumer: Some("old".to_owned()),
        json: false,
    };
    let store = truncate(0).place.to_write().await.expect("a store");
    let partition = || super::super::partition(&store, 0).expect("a partition");
    let owner = Owner::start(partition(), "test", Settings::default()).await.expect("it begins a log");
    owner.close().await.expect("it ends");
    for consumer in ["old", "other"] {
        partition().edit(Edit::Consumer(consumer.to_owned(), true)).await.expect("a consumer");
    }

    let refused = truncate(1).execute().await.expect_err("the log has no record").to_string();
    assert!(refused.contains("lies beyond the end of the log (0)"), "{refused}");
    let root = super::super::root(&store, &partition()).await.expect("the log is there");
    assert_eq!(root.consumers, ["old", "other"]);

    truncate(0).execute().await.expect("it is a position of the log");
    let root = super::super::root(&store, &partition()).await.expect("the log is there");
    assert_eq!(root.consumers, ["other"]);
    std::fs::remove_dir_all(&folder).expect("removed");
}
