//! A real Kafka broker: one node that is broker and controller (KRaft), on loopback ports and a directory of its own.
//!
//! Owns the broker's process, its settings and data. Does not own records, which tests write and read by the client that they test; nor
//! topics, which Kafka's own tools manage at 0.6 s a call (`kafka::admin`), nor who is let in (`kafka::security`).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::dir::{TestDir, cached};
use crate::process::{Exit, Process, Spawn, Usage};
use crate::random::{Lcg, clock_seed};
use crate::wait::free_port;

mod admin;
mod security;

pub use admin::TopicDescription;
pub use security::{Credentials, SCRAM_SHA_512_SESSION, Security};

use security::Certificate;

/// A start takes 4 s alone on two cores; after a kill the log is checked first, 13 s for several GB; and tests run side by side.
const START_MAX: Duration = Duration::from_secs(300);
/// A clean stop writes the log out.
const STOP_MAX: Duration = Duration::from_secs(60);
/// A port may be lost between the search and the broker's bind; then other ports are tried, so often in all.
const PORT_TRIES_MAX: u32 = 3;
/// What the broker logs when it serves.
const READY: &str = "Kafka Server started";

/// How to start a broker.
#[derive(Debug, Clone)]
pub struct KafkaOptions {
    partitions: u32,
    heap_mib: u32,
    properties: Vec<(String, String)>,
    without: Vec<String>,
    security: Security,
}

impl Default for KafkaOptions {
    fn default() -> KafkaOptions {
        KafkaOptions {
            partitions: 1,
            heap_mib: 512,
            properties: Vec::new(),
            without: Vec::new(),
            security: Security::Plaintext,
        }
    }
}

impl KafkaOptions {
    /// Partitions of topics that clients create by using them; 1 otherwise.
    pub fn partitions(mut self, partitions: u32) -> KafkaOptions {
        self.partitions = partitions;
        self
    }

    /// The JVM's heap; 512 MiB otherwise, enough for tests of several GB of data.
    pub fn heap_mib(mut self, heap_mib: u32) -> KafkaOptions {
        self.heap_mib = heap_mib;
        self
    }

    /// Who may speak to the broker, and how; anybody in clear otherwise.
    pub fn security(mut self, security: Security) -> KafkaOptions {
        self.security = security;
        self
    }

    /// A line of `server.properties`; it goes before the one that would be written.
    pub fn property(mut self, key: &str, value: &str) -> KafkaOptions {
        self.properties.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Leaves out a line of `server.properties` that would be written.
    pub fn without(mut self, key: &str) -> KafkaOptions {
        self.without.push(key.to_owned());
        self
    }
}

/// A broker. Dropped, it is killed and its data removed (kept when the test panics).
#[derive(Debug)]
pub struct Kafka {
    // The order matters: the process goes before its directory.
    process: Process,
    options: KafkaOptions,
    ports: Ports,
    credentials: Option<Credentials>,
    dir: TestDir,
}

/// Where a broker listens.
#[derive(Debug, Clone, Copy)]
struct Ports {
    /// For the clients under test.
    clients: u16,
    /// For Kafka's own tools, in clear; the same as `clients` unless that one is secured.
    tools: u16,
    /// For clients that only encrypt; the same as `clients` unless that one is secured.
    tls: u16,
    controller: u16,
}

impl Kafka {
    /// Starts a broker on free ports with an empty log, and waits until it serves.
    pub fn start(options: KafkaOptions) -> Result<Kafka> {
        if let Some(missing) = missing() {
            bail!("kafka cannot be started: {missing}");
        }
        let mut tries = 0;
        loop {
            tries += 1;
            match Kafka::start_once(&options) {
                Err(error)
                    if tries < PORT_TRIES_MAX && format!("{error:#}").contains("Address already in use") =>
                {
                    eprintln!("testkit: kafka lost its port to somebody, try {tries} of {PORT_TRIES_MAX}");
                }
                outcome => return outcome,
            }
        }
    }

    fn start_once(options: &KafkaOptions) -> Result<Kafka> {
        let dir = TestDir::new("kafka")?;
        let clients = free_port();
        let (tools, tls, certificate) = match options.security {
            Security::Plaintext => (clients, clients, None),
            Security::SaslTls => (free_port(), free_port(), Some(Certificate::make(dir.path())?)),
        };
        let ports = Ports { clients, tools, tls, controller: free_port() };
        fs::write(
            dir.path().join("server.properties"),
            properties(options, ports, certificate.as_ref(), dir.path()),
        )?;
        fs::write(dir.path().join("log4j2.properties"), LOGGING)?;
        let credentials = certificate.map(Credentials::new);
        format_storage(&dir, credentials.as_ref())?;
        let process = launch(&dir, options.heap_mib)?;
        Ok(Kafka { process, options: options.clone(), ports, credentials, dir })
    }

    /// `host:port` for clients' `bootstrap.servers`.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.ports.clients)
    }

    /// `host:port` where clients of a [`Security::SaslTls`] broker are let in without a login, over TLS.
    pub fn tls_bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.ports.tls)
    }

    /// What clients need to be let in; `None` with [`Security::Plaintext`].
    pub fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// Where Kafka's own tools are let in.
    fn tools_bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.ports.tools)
    }

    /// SIGKILL. What the broker wrote survives, for the kernel has it; [`Kafka::restart`] brings the broker back.
    pub fn kill9(&mut self) -> Result<Exit> {
        self.process.kill9()
    }

    /// Stops it cleanly. [`Kafka::restart`] brings the broker back.
    pub fn stop(&mut self) -> Result<Exit> {
        self.process.continue_signal()?; // A paused broker would not hear the request.
        self.process.term_and_wait(STOP_MAX)
    }

    /// Starts it again on the same ports and data, and waits until it serves. One that still runs is stopped cleanly before.
    pub fn restart(&mut self) -> Result<()> {
        if self.process.is_running()? {
            self.stop()?;
        }
        self.process = launch(&self.dir, self.options.heap_mib)?;
        Ok(())
    }

    /// SIGSTOP: connections stay open and nothing answers.
    pub fn pause(&mut self) -> Result<()> {
        self.process.stop_signal()
    }

    /// SIGCONT, after [`Kafka::pause`].
    pub fn resume(&mut self) -> Result<()> {
        self.process.continue_signal()
    }

    /// What the broker's process has used so far.
    pub fn usage(&self) -> Result<Usage> {
        self.process.usage()
    }

    /// The broker's process id.
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// The directory of its settings, data and logs.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// What a broker needs and this machine lacks.
pub(crate) fn missing() -> Option<String> {
    for folder in ["kafka/libs", "kafka/tools"] {
        if !cached(folder).join(".stamp").exists() {
            return Some(format!("`{}` is missing; run `scripts/setup test`", cached(folder).display()));
        }
    }
    if java().is_none() {
        Some("`java` is not on the PATH; run `scripts/setup test`".to_owned())
    } else {
        None
    }
}

fn java() -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join("java")).find(|java| java.is_file())
}

/// A JVM with the serial collector and the first compiler only: half the memory and start time of the defaults.
fn jvm(name: &str, jars: &str, heap_mib: u32, flags: &[&str]) -> Spawn {
    Spawn::new(name, "java")
        .arg(format!("-Xmx{heap_mib}M"))
        .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .args(flags)
        // People's own settings for other brokers and tools must not reach this one.
        .env_remove("CLASSPATH")
        .env_remove("JAVA_TOOL_OPTIONS")
        .arg("-cp")
        .arg(cached(jars).join("*"))
}

fn launch(dir: &TestDir, heap_mib: u32) -> Result<Process> {
    let logging = format!("-Dlog4j2.configurationFile={}", dir.path().join("log4j2.properties").display());
    let mut process = jvm("broker", "kafka/libs", heap_mib, &[&logging])
        .arg("kafka.Kafka")
        .arg(dir.path().join("server.properties"))
        .start(dir.path())?;
    process.wait_for_stdout(READY, START_MAX)?;
    Ok(process)
}

fn format_storage(dir: &TestDir, credentials: Option<&Credentials>) -> Result<()> {
    jvm("format", "kafka/libs", 128, &[])
        .args(["kafka.tools.StorageTool", "format", "--cluster-id", &cluster_id(), "--config"])
        .arg(dir.path().join("server.properties"))
        .args(credentials.map(Credentials::format_args).unwrap_or_default())
        .run(dir.path(), START_MAX)?
        .success()
        .context("kafka could not format its storage")?;
    Ok(())
}

/// 16 bytes in 22 letters of URL-safe base64; the last letter carries two bits, and a leading dash would look like an option.
fn cluster_id() -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut random = Lcg::new(clock_seed());
    let mut id: String = (0..21).map(|_| char::from(*random.pick(LETTERS))).collect();
    id.push(char::from(*random.pick(b"AQgw")));
    id
}

fn properties(options: &KafkaOptions, ports: Ports, certificate: Option<&Certificate>, dir: &Path) -> String {
    let Ports { clients, tools, tls, controller } = ports;
    let (listeners, protocols) = match options.security {
        Security::Plaintext => (format!("PLAINTEXT://127.0.0.1:{clients}"), "PLAINTEXT:PLAINTEXT"),
        Security::SaslTls => (
            format!("PLAINTEXT://127.0.0.1:{tools},SASL_SSL://127.0.0.1:{clients},SSL://127.0.0.1:{tls}"),
            "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL",
        ),
    };
    let mut lines: Vec<(String, String)> = [
        ("process.roles", "broker,controller".to_owned()),
        ("node.id", "1".to_owned()),
        ("controller.quorum.voters", format!("1@127.0.0.1:{controller}")),
        ("listeners", format!("{listeners},CONTROLLER://127.0.0.1:{controller}")),
        ("advertised.listeners", listeners),
        ("controller.listener.names", "CONTROLLER".to_owned()),
        ("listener.security.protocol.map", format!("{protocols},CONTROLLER:PLAINTEXT")),
        ("inter.broker.listener.name", "PLAINTEXT".to_owned()),
        ("log.dirs", dir.join("data").display().to_string()),
        ("num.partitions", options.partitions.to_string()),
        // One node can hold one copy.
        ("default.replication.factor", "1".to_owned()),
        ("offsets.topic.replication.factor", "1".to_owned()),
        ("transaction.state.log.replication.factor", "1".to_owned()),
        ("transaction.state.log.min.isr", "1".to_owned()),
        ("share.coordinator.state.topic.replication.factor", "1".to_owned()),
        ("share.coordinator.state.topic.min.isr", "1".to_owned()),
        // Fifty partitions each would cost seconds at first use.
        ("offsets.topic.num.partitions", "4".to_owned()),
        ("transaction.state.log.num.partitions", "4".to_owned()),
        ("group.initial.rebalance.delay.ms", "0".to_owned()),
        // A topic that a test misspells must fail, not appear.
        ("auto.create.topics.enable", "false".to_owned()),
        // A stop need not wait for other brokers to take over.
        ("controlled.shutdown.enable", "false".to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    lines.extend(certificate.map(Certificate::server_properties).unwrap_or_default());
    lines.retain(|(written, _)| !options.without.contains(written));
    for (key, value) in &options.properties {
        lines.retain(|(written, _)| written != key);
        lines.push((key.clone(), value.clone()));
    }
    lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
}

const LOGGING: &str = "\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
";

#[cfg(test)]
mod tests;
