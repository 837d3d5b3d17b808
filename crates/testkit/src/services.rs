//! Which services this machine can start.
//!
//! Owns when a test may be skipped: never on CI. Does not own what each service needs, which its own module knows.

use std::io::Write;

use crate::{azure, clickhouse, gcs, kafka, postgres, pulsar, registry, s3};

/// A service that tests may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// A Kafka broker: `java`, and the jars in `.cache/kafka`.
    Kafka,
    /// ClickHouse's engine: libchdb in `.cache/libchdb`, and a built binary that serves it.
    ClickHouse,
    /// An S3 gateway: versitygw in `.cache/versitygw`.
    S3,
    /// A schema registry: `java`, and Apicurio in `.cache/apicurio`.
    Registry,
    /// A Pulsar: `java`, and the distribution's jars in `.cache/pulsar`.
    Pulsar,
    /// A PostgreSQL: its programs in `.cache/postgres`.
    Postgres,
    /// Google Cloud Storage: fake-gcs-server behind the XML API, in `.cache/gcs`.
    Gcs,
    /// Azure Blob Storage: `node`, and Azurite in `.cache/azurite`.
    Azure,
}

/// Whether all `services` can be started here. If not, says `SKIPPED: why` and answers false; the test then returns.
///
/// # Panics
/// Under `CI=true`, where a test that silently does not run would look like one that passes.
#[track_caller]
pub fn available(services: &[Service]) -> bool {
    for service in services {
        let missing = match service {
            Service::Kafka => kafka::missing(),
            Service::ClickHouse => clickhouse::missing(),
            Service::S3 => s3::missing(),
            Service::Registry => registry::missing(),
            Service::Pulsar => pulsar::missing(),
            Service::Postgres => postgres::missing(),
            Service::Gcs => gcs::missing(),
            Service::Azure => azure::missing(),
        };
        if let Some(missing) = missing {
            skip(&format!("{service:?} cannot be started: {missing}"));
            return false;
        }
    }
    true
}

/// Says `SKIPPED: why`; the test then returns. For what is no [`Service`].
///
/// # Panics
/// As [`available`].
#[track_caller]
pub fn skip(why: &str) {
    if std::env::var("CI").is_ok_and(|ci| ci == "true") {
        panic!("{why}");
    }
    // Straight to the stream: the runner keeps what a passing test prints by macro, and shows it to nobody.
    let said = writeln!(std::io::stderr(), "SKIPPED: {why}");
    said.expect("a test that cannot say that it skips must not pass");
}
