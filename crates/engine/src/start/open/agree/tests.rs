use dataflow::PartitionStart;

use super::*;

#[test]
fn the_way_out_of_a_lost_store_is_one_that_the_source_has() {
    let said = |reader: Option<&'static str>| {
        let partition = Partition::new("/var/log/a", 0);
        let start = PartitionStart {
            partition: partition.clone(),
            identity: "one".to_owned(),
            next: 3_u64.into(),
            first: 0_u64.into(),
            leader_epoch: -1,
        };
        let shown = Shown { partitions: vec![start], published: vec![(partition, 7_u64.into())], reader };
        check_store(&Lane::new(), &shown).expect_err("the store does not know it").to_string()
    };
    let files = said(None);
    assert!(files.contains("`forebay reset FILE --yes`") && !files.contains("another `"), "{files}");
    let log = said(Some("consumer"));
    assert!(log.contains("another `consumer`") && !log.contains("forebay reset"), "{log}");
}
