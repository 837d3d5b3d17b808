//! The services themselves, started for real. Each test skips loudly where the service's files are missing, and fails on CI.

use testkit::{
    ClickHouse, ClickHouseOptions, Kafka, KafkaOptions, Pulsar, PulsarOptions, Security, Service, available,
};

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

#[test]
fn a_secured_broker_lets_in_the_password_and_nobody_else() {
    if !available(&[Service::Kafka]) {
        return;
    }
    let mut kafka = Kafka::start(KafkaOptions::default().security(Security::SaslTls)).unwrap();
    kafka.create_topic("events", 1, &[]).unwrap();
    let credentials = kafka.credentials().unwrap().clone();
    kafka.log_in(&credentials.user, &credentials.password).unwrap();
    let error = format!("{:#}", kafka.log_in(&credentials.user, "wrong").unwrap_err());
    assert!(error.contains("SaslAuthenticationException"), "{error}");
    // The users are part of the data.
    kafka.kill9().unwrap();
    kafka.restart().unwrap();
    kafka.log_in(&credentials.user, &credentials.password).unwrap();
}

/// Up to every second start after a kill has a bookie that refuses ledgers now and then; a dozen lives show that none is left running.
#[test]
#[ignore = "takes two minutes"]
fn pulsar_takes_every_new_topic_after_each_kill() {
    assert!(available(&[Service::Pulsar]), "Pulsar is missing");
    let mut pulsar = Pulsar::start(PulsarOptions::default()).unwrap();
    for life in 0..12 {
        pulsar.kill9().unwrap();
        pulsar.restart().unwrap();
        for n in 0..40 {
            let topic = format!("life-{life}-{n}");
            pulsar.create_topic(&topic, 0).unwrap();
            pulsar.unload(&topic).unwrap();
            pulsar.truncate(&topic).unwrap();
        }
    }
}
