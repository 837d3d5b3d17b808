//! One test: the services that it may use and the names that are its own.
//!
//! Owns the brokers and the server that all tests of the process share, for a broker takes seconds to start. They end with the process. A
//! test that kills, freezes or configures a server gets one of its own. Does not own how a service is started (`testkit`), nor the topics
//! and tables of a case (`producer`, `table`).

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use testkit::{
    ClickHouse, ClickHouseOptions, Kafka, KafkaOptions, Pulsar, PulsarOptions, Service, TestDir, available,
};

use crate::{Feed, Pipeline, Table};

/// Partitions of a topic that appears by its first record.
pub const PARTITIONS: u32 = 3;

/// Bytes of the largest record that the broker takes: more than a pipeline takes.
const RECORD_BYTES_MAX: &str = "67108864";

/// A test's own corner of the services.
#[derive(Debug)]
pub struct Case {
    // The order matters: the services go before the directory.
    own: Option<ClickHouse>,
    own_kafka: Option<Kafka>,
    name: String,
    dir: TestDir,
}

impl Case {
    /// A corner called `name` with the shared broker and the shared server; `None` where they cannot be started, which
    /// was said aloud then.
    ///
    /// # Panics
    /// When a service that is there does not start.
    pub fn begin(name: &str) -> Option<Case> {
        if !available(&[Service::Kafka, Service::ClickHouse]) {
            return None;
        }
        Some(Case {
            own: None,
            own_kafka: None,
            name: name.to_owned(),
            dir: TestDir::new(name).expect("the test needs a directory"),
        })
    }

    /// As [`Case::begin`], with a server that no other test sees.
    ///
    /// # Panics
    /// When a service that is there does not start.
    pub fn with_own_server(name: &str, options: ClickHouseOptions) -> Option<Case> {
        let mut case = Case::begin(name)?;
        case.own = Some(ClickHouse::start(options).expect("ClickHouse must start"));
        Some(case)
    }

    /// As [`Case::with_own_server`], with a server whose user is not allowed everything; `None` also where `FOREBAY_SERVER_BIN` does not name the
    /// binary of the server alone.
    ///
    /// # Panics
    /// When a service that is there does not start.
    pub fn with_users(name: &str, options: ClickHouseOptions) -> Option<Case> {
        let Ok(binary) = std::env::var("FOREBAY_SERVER_BIN") else {
            testkit::skip("`FOREBAY_SERVER_BIN` does not name the server's binary");
            return None;
        };
        Case::with_own_server(name, options.binary(binary))
    }

    /// As [`Case::with_own_server`], with a broker that no other test sees either.
    ///
    /// # Panics
    /// As [`Case::with_own_server`].
    pub fn with_own_services(name: &str) -> Option<Case> {
        let mut case = Case::with_own_server(name, ClickHouseOptions::default())?;
        case.own_kafka = Some(Kafka::start(kafka_options()).expect("Kafka must start"));
        Some(case)
    }

    /// The name: of the topic, the table and the pipeline.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The case's own directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The broker.
    pub fn kafka(&self) -> &Kafka {
        self.own_kafka.as_ref().unwrap_or_else(|| kafka())
    }

    /// The case's own broker, to be killed.
    ///
    /// # Panics
    /// When the broker is the shared one.
    pub fn own_kafka(&mut self) -> &mut Kafka {
        self.own_kafka.as_mut().expect("a shared broker is not for killing")
    }

    /// The server.
    pub fn server(&self) -> &ClickHouse {
        self.own.as_ref().unwrap_or_else(|| clickhouse())
    }

    /// The case's own server, to be killed.
    ///
    /// # Panics
    /// When the server is the shared one.
    pub fn own_server(&mut self) -> &mut ClickHouse {
        self.own.as_mut().expect("a shared server is not for killing")
    }

    /// The Pulsar that tests share; topics need names of their own.
    ///
    /// # Panics
    /// When it does not start.
    pub fn pulsar(&self) -> &'static Pulsar {
        static PULSAR: OnceLock<Pulsar> = OnceLock::new();
        PULSAR.get_or_init(|| Pulsar::start(PulsarOptions::default()).expect("Pulsar must start"))
    }

    /// Makes the case's table, with the columns that a pipeline needs beside `columns`.
    pub fn table(&self, columns: &str, order_by: &str) -> Table {
        self.table_called(&self.name, columns, order_by)
    }

    /// As [`Case::table`], under another name.
    pub fn table_called(&self, name: &str, columns: &str, order_by: &str) -> Table {
        Table::create(&self.server().url(), name, columns, order_by)
    }

    /// Sends records to the case's topic.
    pub fn feed(&self) -> Feed {
        Feed::new(self.kafka(), &self.name)
    }

    /// The case's pipeline, from its topic to its table.
    pub fn pipeline(&self) -> Pipeline {
        Pipeline::new(self, &self.name)
    }
}

/// The broker of this process.
fn kafka() -> &'static Kafka {
    static KAFKA: OnceLock<Kafka> = OnceLock::new();
    KAFKA.get_or_init(|| Kafka::start(kafka_options()).expect("Kafka must start"))
}

fn kafka_options() -> KafkaOptions {
    KafkaOptions::default()
        .partitions(PARTITIONS)
        // A topic appears by its first record, which saves a JVM's start for each test.
        .property("auto.create.topics.enable", "true")
        .property("message.max.bytes", RECORD_BYTES_MAX)
        .property("replica.fetch.max.bytes", RECORD_BYTES_MAX)
        // Records of a test may have times of long ago, and are not to go for that reason within the minutes that all tests take.
        .property("log.retention.ms", "-1")
        // Compacted topics are to have gaps within the test's time.
        .property("log.cleaner.backoff.ms", "100")
}

/// The server of this process.
fn clickhouse() -> &'static ClickHouse {
    static CLICKHOUSE: OnceLock<ClickHouse> = OnceLock::new();
    CLICKHOUSE.get_or_init(|| ClickHouse::start(ClickHouseOptions::default()).expect("ClickHouse must start"))
}

/// The program under test.
///
/// # Errors
/// When it was not built.
pub fn binary() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("FOREBAY_BIN") {
        return Ok(PathBuf::from(named));
    }
    let test = std::env::current_exe().context("cannot find this test's own binary")?;
    // A test runs from `target/debug/deps`, the program from `target/debug`.
    let found = test.ancestors().skip(1).take(2).map(|dir| dir.join("forebay")).find(|path| path.is_file());
    found.context("the program is not built; run `cargo build -p forebay --features development`, or name it in FOREBAY_BIN")
}
