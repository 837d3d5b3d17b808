use super::*;
use crate::decide::Retention;
use crate::partition::Edit;
use crate::support::{append, owner, partition};

/// A check of a large log takes minutes, and its owner and its consumers go on meanwhile.
#[tokio::test]
async fn what_retention_deletes_while_a_log_is_checked_is_not_missing() {
    let partition = partition();
    let owner = owner(&partition).await;
    for number in 0..80 {
        owner.appender().append(append(None, &number.to_string())).await.expect("appends");
    }
    let mut roots = owner.roots();
    drop(roots.wait_for(|root| !root.levels.is_empty()).await.expect("it runs"));
    let before = partition.root().await.expect("is there").root;
    partition.edit(Edit::Truncate(60)).await.expect("edits");
    let root = partition.root().await.expect("is there").root;
    let pass = collect::collect(&partition, &root, &Retention::default(), u64::MAX).await.expect("collects");
    assert_eq!(pass.deleted, 61, "a segment is deleted with its objects, and some of the tail");

    // The check comes to the segment, or to the objects, only then.
    for low in [0, 48] {
        let (_, report) = check_as(&partition, Root { low, ..before.clone() }).await.expect("checks");
        assert_eq!((report.objects, report.records, report.finding_count), (20, 20, 0), "{low}: {report:?}");
    }

    let held = before.tail.iter().find(|entry| entry.first == 70).expect("it is in the tail");
    let key = partition.names().object(before.queue_id(), held.written());
    partition.store().delete(&key).await.expect("deletes");
    let (_, report) = check_as(&partition, before.clone()).await.expect("checks");
    assert_eq!((report.objects, report.finding_count), (19, 1), "{report:?}");
    assert!(report.findings[0].contains(key.as_str()), "{report:?}");
}
