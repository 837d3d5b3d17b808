use super::*;
use crate::services::{Service, available};

#[test]
fn a_property_that_a_test_sets_replaces_ours() {
    let dir = TestDir::new("properties").unwrap();
    let options = KafkaOptions::default().partitions(3).property("auto.create.topics.enable", "true");
    let text = properties(&options, 1, 2, &dir);
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

#[test]
fn a_broker_keeps_its_topics_across_a_kill_and_a_restart() {
    if !available(&[Service::Kafka]) {
        return;
    }
    let mut kafka = Kafka::start(KafkaOptions::default()).unwrap();
    kafka.create_topic("events", 2, &[("retention.ms", "-1")]).unwrap();
    let before = kafka.describe_topic("events").unwrap();
    assert_eq!(before.partitions, 2);
    assert!(before.configs.contains("retention.ms=-1"), "{before:?}");

    let bootstrap = kafka.bootstrap();
    kafka.kill9().unwrap();
    kafka.restart().unwrap();
    assert_eq!(kafka.bootstrap(), bootstrap);
    assert_eq!(kafka.describe_topic("events").unwrap(), before);

    kafka.add_partitions("events", 3).unwrap();
    assert_eq!(kafka.describe_topic("events").unwrap().partitions, 3);
    assert_eq!(kafka.end_offsets("events").unwrap(), [(0, 0), (1, 0), (2, 0)].into());

    kafka.delete_topic("events").unwrap();
    assert!(kafka.describe_topic("events").is_err());
    kafka.create_topic("events", 1, &[]).unwrap();
    assert_ne!(kafka.describe_topic("events").unwrap().id, before.id);
    assert!(kafka.create_topic("events", 1, &[]).is_err(), "it exists");

    kafka.pause().unwrap();
    assert!(kafka.usage().unwrap().cpu_s() > 0.1);
    let exit = kafka.stop().unwrap();
    assert!(exit.usage.rss_bytes_max > 50 << 20, "{exit:?}");
}
