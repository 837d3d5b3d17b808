//! TLS: whom the program trusts, and how it shows who it is.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use live::tls::{Authority, Identity, TlsDoor};
use live::{Case, Pipeline};
use sources::kafka::produce::{Outgoing, Producer};
use testkit::{Kafka, KafkaOptions, Security};

/// The exit code of `check` for a pipeline that would not start.
const AWAY: i32 = 1;
/// The same, where a start ends because the source refuses.
const REFUSED: i32 = 4;
const RECORDS: u64 = 5;

#[test]
fn clickhouse_by_https_is_trusted_by_its_authority_and_its_name() {
    let Some(case) = Case::begin("tls_clickhouse") else { return };
    let dir = case.dir();
    let authority = Authority::new(dir, "right").expect("an authority");
    let other = Authority::new(dir, "other").expect("an authority");
    let identity = authority.issue(dir, "127.0.0.1").expect("a certificate");
    let misnamed = authority.issue(dir, "elsewhere.example").expect("a certificate");
    let door = TlsDoor::open(&case.server().url(), &identity).expect("a door");
    let wrong_door = TlsDoor::open(&case.server().url(), &misnamed).expect("a door");
    let table = case.table("id UInt8", "id");
    case.feed().send((0..RECORDS).map(|id| format!(r#"{{"id":{id}}}"#)));
    let through = |door: &TlsDoor, ca: &Path| {
        let url = format!("https://127.0.0.1:{}", door.port());
        case.pipeline().url(&url).sink(&format!("ca: {}", ca.display()))
    };

    let is_refused = |pipeline: &Pipeline, why: &str| {
        let (exit, said) = live::pipeline::ended(pipeline.start_check());
        assert_eq!(exit.status.code(), Some(AWAY), "{said}");
        assert!(said.to_lowercase().contains(why), "`{why}` is not in: {said}");
    };
    is_refused(&through(&door, other.file()), "certificate");
    is_refused(&through(&wrong_door, authority.file()), "certificate");
    // Without `ca` the system's authorities count, and ours is none of them.
    is_refused(&case.pipeline().url(&format!("https://127.0.0.1:{}", door.port())), "certificate");
    assert_eq!((door.handshakes(), wrong_door.handshakes()), (0, 0), "nobody who distrusts goes on");

    through(&door, authority.file()).drain();
    assert_eq!(table.count_and_distinct("id"), (RECORDS, RECORDS));
    assert!(door.handshakes() > 0);
}

/// A broker that knows its clients by their certificates, and whose own does not name its address.
fn broker(authority: &Authority, identity: &Identity) -> Kafka {
    let options = KafkaOptions::default()
        .security(Security::SaslTls)
        .property("ssl.keystore.type", "PEM")
        .property("ssl.keystore.location", &identity.both.display().to_string())
        .without("ssl.keystore.password")
        .property("ssl.truststore.type", "PEM")
        .property("ssl.truststore.location", &authority.file().display().to_string())
        .property("ssl.client.auth", "required");
    Kafka::start(options).expect("the broker starts")
}

#[test]
fn kafka_by_tls_takes_clients_by_certificate_and_a_wrong_name_only_where_told_to() {
    let Some(case) = Case::begin("tls_kafka") else { return };
    let dir = case.dir();
    let authority = Authority::new(dir, "right").expect("an authority");
    let other = Authority::new(dir, "other").expect("an authority");
    let kafka = broker(&authority, &authority.issue(dir, "broker.example").expect("a certificate"));
    let client = authority.issue(dir, "client").expect("a certificate");
    let stranger = other.issue(dir, "stranger").expect("a certificate");
    kafka.create_topic(case.name(), 1, &[]).expect("a topic");
    let properties = BTreeMap::from(
        [
            ("security.protocol", "SSL".to_owned()),
            ("ssl.ca.location", authority.file().display().to_string()),
            ("ssl.certificate.location", client.cert.display().to_string()),
            ("ssl.key.location", client.key.display().to_string()),
            ("ssl.endpoint.identification.algorithm", "none".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    let producer = Producer::new(&[kafka.tls_bootstrap()], &properties, None).expect("a producer");
    let send = |ids: Range<u64>| {
        for id in ids {
            let body = format!(r#"{{"id":{id}}}"#);
            let payload = Some(body.as_bytes());
            let record = Outgoing { topic: case.name(), partition: Some(0), payload, ..Outgoing::default() };
            producer.send(&record).expect("sends");
        }
        producer.flush(live::PATIENCE).expect("acknowledged");
    };

    let table = case.table("id UInt8", "id");
    let pipeline = |tls: &str| {
        let ca = authority.file().display();
        case.pipeline()
            .brokers(&kafka.tls_bootstrap())
            .kafka(&format!("security: {{ tls: {{ ca: '{ca}'{tls} }} }}"))
    };
    let by = |identity: &Identity| {
        format!(", cert: '{}', key: '{}'", identity.cert.display(), identity.key.display())
    };
    let unchecked = ", verify_host: false";
    let cases = [
        (pipeline(&by(&client)), "certificate verify failed", REFUSED),
        (pipeline(unchecked), "certificate", AWAY),
        (pipeline(&(by(&stranger) + unchecked)), "ssl", AWAY),
    ];
    // Side by side, for librdkafka tries each until the bound of a call.
    let checks = cases.map(|(pipeline, why, code)| (pipeline.start_check(), why, code));
    for (check, why, code) in checks {
        let (exit, said) = live::pipeline::ended(check);
        assert_eq!(exit.status.code(), Some(code), "{said}");
        assert!(said.to_lowercase().contains(why), "`{why}` is not in: {said}");
    }
    for (turn, fetch) in (1..).zip(["direct", "librdkafka"]) {
        send((turn - 1) * RECORDS..turn * RECORDS);
        pipeline(&(by(&client) + unchecked)).kafka(&format!("fetch: {fetch}")).drain();
        assert_eq!(table.count_and_distinct("id"), (turn * RECORDS, turn * RECORDS), "{fetch}");
    }
}
