use super::*;

#[test]
fn a_property_that_a_test_sets_replaces_ours() {
    let options = KafkaOptions::default().partitions(3).property("auto.create.topics.enable", "true");
    let text =
        properties(&options, Ports { clients: 1, tools: 1, tls: 1, controller: 2 }, None, Path::new("/data"));
    assert!(text.contains("num.partitions=3\n"));
    assert_eq!(text.matches("auto.create.topics.enable").count(), 1);
    assert!(text.contains("auto.create.topics.enable=true\n"));
}

#[test]
fn cluster_ids_are_22_letters_of_16_bytes() {
    let id = cluster_id();
    assert_eq!(id.len(), 22);
    assert!("AQgw".contains(&id[21..]), "{id}");
}
