//! A real Pulsar: broker, bookie and metadata in one process, on loopback ports and a directory of its own.
//!
//! Owns the process, its settings and data, and the requests of its admin API that tests need. Does not own messages, which tests write and
//! read by the client that they test.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::dir::{TestDir, cached};
use crate::http::{HttpClient, HttpResponse};
use crate::process::{Exit, Process, Spawn, Usage};
use crate::wait::{free_port, wait_until};

/// A start takes 7 s alone on two cores; tests run side by side.
const START_MAX: Duration = Duration::from_secs(300);
/// A port may be lost between the search and the bind; then other ports are tried, so often in all.
const PORT_TRIES_MAX: u32 = 3;

/// Starts again after a start whose bookie fights for its own registration. Up to every second start after a kill does; one is noticed within two
/// seconds.
const FIGHTS_MAX: u32 = 30;
/// Registrations won anew in one start. A sound start has none, a fight a thousand a second.
const REGISTERED_ANEW_MAX: usize = 3;

/// How to start Pulsar.
#[derive(Debug, Clone, Default)]
pub struct PulsarOptions {
    properties: Vec<(String, String)>,
    token: Option<String>,
}

impl PulsarOptions {
    /// A line of `standalone.conf`; it goes before the one that would be written.
    pub fn property(mut self, key: &str, value: &str) -> PulsarOptions {
        self.properties.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Requests of the admin API log in with this token.
    pub fn token(mut self, token: &str) -> PulsarOptions {
        self.token = Some(token.to_owned());
        self
    }
}

/// A standalone Pulsar. Dropped, it is killed and its data removed (kept when the test panics).
#[derive(Debug)]
pub struct Pulsar {
    // The order matters: the process goes before its directory.
    process: Process,
    ports: Ports,
    token: Option<String>,
    dir: TestDir,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    broker: u16,
    web: u16,
    bookie: u16,
}

impl Pulsar {
    /// Starts one on free ports without any topic, and waits until it serves.
    pub fn start(options: PulsarOptions) -> Result<Pulsar> {
        if let Some(missing) = missing() {
            bail!("pulsar cannot be started: {missing}");
        }
        until_ports_are_free(|| Pulsar::start_once(&options))
    }

    fn start_once(options: &PulsarOptions) -> Result<Pulsar> {
        let dir = TestDir::new("pulsar")?;
        let ports = Ports { broker: free_port(), web: free_port(), bookie: free_port() };
        let settings = fs::read_to_string(cached("pulsar/conf/standalone.conf"))?;
        fs::write(
            dir.path().join("standalone.conf"),
            with_properties(&settings, ports, &options.properties),
        )?;
        fs::write(dir.path().join("log4j2.properties"), LOGGING)?;
        let process = launch(&dir, ports, options.token.as_deref())?;
        Ok(Pulsar { process, ports, token: options.token.clone(), dir })
    }

    /// Where clients connect: `pulsar://host:port`.
    pub fn service(&self) -> String {
        format!("pulsar://127.0.0.1:{}", self.ports.broker)
    }

    /// `host:port` of the same.
    pub fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.ports.broker)
    }

    /// Makes a topic of `public/default`; with 0 partitions one that has none.
    pub fn create_topic(&self, topic: &str, partitions: u32) -> Result<()> {
        let path = format!("/persistent/public/default/{topic}");
        let answer = match partitions {
            0 => self.admin("PUT", &path, "")?,
            count => self.admin("PUT", &format!("{path}/partitions"), &count.to_string())?,
        };
        ok(answer, "make the topic").map(drop)
    }

    /// Gives a topic more partitions.
    pub fn add_partitions(&self, topic: &str, partitions: u32) -> Result<()> {
        let path = format!("/persistent/public/default/{topic}/partitions");
        ok(self.admin("POST", &path, &partitions.to_string())?, "add partitions").map(drop)
    }

    /// Deletes a topic, whoever reads it.
    pub fn delete_topic(&self, topic: &str, is_partitioned: bool) -> Result<()> {
        let path = format!(
            "/persistent/public/default/{topic}{}?force=true",
            if is_partitioned { "/partitions" } else { "" }
        );
        ok(self.admin("DELETE", &path, "")?, "delete the topic").map(drop)
    }

    /// Closes the ledger of a topic (of a partition, by its full name) and has it loaded again.
    pub fn unload(&self, topic: &str) -> Result<()> {
        let path = format!("/persistent/public/default/{topic}/unload");
        ok(self.admin("PUT", &path, "")?, "unload the topic").map(drop)
    }

    /// Deletes all messages of a topic, read or not.
    pub fn truncate(&self, topic: &str) -> Result<()> {
        let path = format!("/persistent/public/default/{topic}/truncate");
        ok(self.admin("DELETE", &path, "")?, "truncate the topic").map(drop)
    }

    /// Says that no message can be added to a topic any more.
    pub fn terminate(&self, topic: &str) -> Result<()> {
        let path = format!("/persistent/public/default/{topic}/terminate");
        ok(self.admin("POST", &path, "")?, "terminate the topic").map(drop)
    }

    /// Acknowledges all messages for one subscription.
    pub fn skip_all(&self, topic: &str, subscription: &str) -> Result<()> {
        let path = format!("/persistent/public/default/{topic}/subscription/{subscription}/skip_all");
        ok(self.admin("POST", &path, "")?, "skip the messages").map(drop)
    }

    /// Deletes the ledgers of a topic that every subscription has acknowledged.
    pub fn trim(&self, topic: &str) -> Result<()> {
        let path = format!("/persistent/public/default/{topic}/trim");
        ok(self.admin("POST", &path, "")?, "trim the topic").map(drop)
    }

    /// What the broker knows of a topic: `stats` or `internalStats`, as JSON.
    pub fn stats(&self, topic: &str, kind: &str) -> Result<serde_json::Value> {
        let answer = ok(
            self.admin("GET", &format!("/persistent/public/default/{topic}/{kind}"), "")?,
            "ask for stats",
        )?;
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// A request of the admin API, below `/admin/v2`.
    pub fn admin(&self, method: &str, path: &str, body: &str) -> Result<HttpResponse> {
        let client = HttpClient::new(&format!("http://127.0.0.1:{}", self.ports.web));
        let login = self.token.as_deref().map(bearer);
        let headers = login.iter().map(|login| ("authorization", login.as_str()));
        let headers: Vec<_> = headers.chain([("content-type", "application/json")]).collect();
        client
            .request(method, &format!("/admin/v2{path}"), &headers, body.as_bytes())
            .with_context(|| format!("{method} {path}"))
    }

    /// Sends a file as one message, by the Java client that comes with Pulsar; in chunks where it is larger than a message may be.
    ///
    /// # Errors
    /// When the client does not end well.
    pub fn send_by_java(&self, topic: &str, file: &Path) -> Result<()> {
        let file = file.display().to_string();
        self.produce_by_java(&[topic, "--chunking", "--files", &file])
    }

    /// Sends a record, given as JSON, as one message in Avro by the Java client, which registers the schema.
    ///
    /// # Errors
    /// When the client does not end well.
    pub fn send_avro_by_java(&self, topic: &str, schema: &str, record: &str) -> Result<()> {
        // Messages are told apart by a character that is in no record.
        let value_schema = format!("avro:{schema}");
        self.produce_by_java(&[
            topic,
            "--value-schema",
            &value_schema,
            "--separator",
            ";",
            "--messages",
            record,
        ])
    }

    fn produce_by_java(&self, arguments: &[&str]) -> Result<()> {
        let conf = self.dir.path().join("client.conf");
        fs::write(&conf, "")?;
        let sent = Spawn::new("pulsar-client", "java")
            .args([
                "-Xmx512m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Djava.net.preferIPv4Stack=true",
            ])
            .arg("-Dio.netty.tryReflectionSetAccessible=true")
            .args(
                OPENED
                    .iter()
                    .flat_map(|package| ["--add-opens".to_owned(), format!("{package}=ALL-UNNAMED")]),
            )
            .env_remove("CLASSPATH")
            .env_remove("JAVA_TOOL_OPTIONS")
            .arg("-cp")
            .arg(cached("pulsar/lib").join("*"))
            .arg("org.apache.pulsar.client.cli.PulsarClientTool")
            .arg(&conf)
            .args(["--url", &self.service(), "produce"])
            .args(arguments);
        sent.run(self.dir.path(), START_MAX)?.success().map(drop)
    }

    /// SIGKILL. What was written survives, for the kernel has it; [`Pulsar::restart`] brings it back.
    pub fn kill9(&mut self) -> Result<Exit> {
        self.process.kill9()
    }

    /// Starts it again on the same ports and data, and waits until it serves. One that still runs is killed before.
    pub fn restart(&mut self) -> Result<()> {
        if self.process.is_running()? {
            self.kill9()?;
        }
        // Its bookie looks for a port of its own, and may lose it before it binds it.
        self.process = until_ports_are_free(|| launch(&self.dir, self.ports, self.token.as_deref()))?;
        Ok(())
    }

    /// SIGSTOP: connections stay open and nothing answers.
    pub fn pause(&mut self) -> Result<()> {
        self.process.stop_signal()
    }

    /// SIGCONT, after [`Pulsar::pause`].
    pub fn resume(&mut self) -> Result<()> {
        self.process.continue_signal()
    }

    /// What the process has used so far.
    pub fn usage(&self) -> Result<Usage> {
        self.process.usage()
    }

    /// The directory of its settings, data and logs.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// Tries again while somebody else has taken a port.
fn until_ports_are_free<T>(start: impl Fn() -> Result<T>) -> Result<T> {
    let mut tries = 0;
    loop {
        tries += 1;
        match start() {
            Err(error)
                if tries < PORT_TRIES_MAX && format!("{error:#}").contains("Address already in use") =>
            {
                eprintln!("testkit: pulsar lost its port to somebody, try {tries} of {PORT_TRIES_MAX}");
            }
            outcome => return outcome,
        }
    }
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn ok(answer: HttpResponse, what: &str) -> Result<HttpResponse> {
    ensure!(
        (200..300).contains(&answer.status),
        "pulsar does not {what}: {} {}",
        answer.status,
        answer.text()
    );
    Ok(answer)
}

/// What Pulsar needs and this machine lacks.
pub(crate) fn missing() -> Option<String> {
    let stamp = cached("pulsar").join(".stamp");
    (!stamp.is_file())
        .then(|| format!("`{}` is missing; run `scripts/setup test`", cached("pulsar").display()))
}

/// Starts the process until its bookie is registered for good.
///
/// After a kill the bookie finds the registration of its former life. Removing it, Pulsar 4.0.8 at times takes its own deletion for somebody
/// else's, deletes and registers again, and so on for ever: a fourth of all new ledgers are refused ("not enough non-faulty bookies"), though
/// the broker calls itself healthy. Only another start ends that.
fn launch(dir: &TestDir, ports: Ports, token: Option<&str>) -> Result<Process> {
    for _ in 0..FIGHTS_MAX {
        let mut process = launch_once(dir, ports, token)?;
        let anew = registered_anew(&process);
        if anew <= REGISTERED_ANEW_MAX {
            return Ok(process);
        }
        eprintln!("testkit: pulsar's bookie registered itself {anew} times; it is started again");
        process.kill9()?;
    }
    bail!("pulsar's bookie fought for its registration in {FIGHTS_MAX} starts, one after another")
}

/// How often a registration was won anew in this start.
fn registered_anew(process: &Process) -> usize {
    process.stdout().map_or(0, |said| said.matches("Successfully re-acquired lock at").count())
}

fn launch_once(dir: &TestDir, ports: Ports, token: Option<&str>) -> Result<Process> {
    let mut process = Spawn::new("pulsar", "java")
        // The serial collector and the first compiler only: half the memory and start time of the defaults.
        .args(["-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .args(OPENED.iter().flat_map(|package| ["--add-opens".to_owned(), format!("{package}=ALL-UNNAMED")]))
        .args(["-Dio.netty.tryReflectionSetAccessible=true", "-Djava.net.preferIPv4Stack=true"])
        .args(DRIVERS)
        .arg(format!("-Dlog4j2.configurationFile={}", dir.path().join("log4j2.properties").display()))
        .env_remove("CLASSPATH")
        .env_remove("JAVA_TOOL_OPTIONS")
        .arg("-cp")
        .arg(cached("pulsar/lib").join("*"))
        .arg("org.apache.pulsar.PulsarStandaloneStarter")
        .args(["--config", "standalone.conf", "--no-functions-worker", "--no-stream-storage"])
        .args(["--advertised-address", "127.0.0.1", "--metadata-dir", "data/metadata"])
        .args(["--bookkeeper-dir", "data/bookkeeper", "--bookkeeper-port", &ports.bookie.to_string()])
        .cwd(dir.path())
        .start(dir.path())?;
    let client = HttpClient::new(&format!("http://127.0.0.1:{}", ports.web));
    wait_until(START_MAX, "pulsar to serve", || {
        let ended = !process.is_running().unwrap_or(true);
        // One that fights may not be ready for minutes.
        ended || registered_anew(&process) > REGISTERED_ANEW_MAX || is_ready(&client, token)
    });
    ensure!(process.is_running()?, "pulsar ended at its start{}", process.tails());
    Ok(process)
}

/// It knows the namespace of the tests, and its own check of itself, which writes a message to the bookie and reads it, went well. After a
/// kill the bookie is known to the broker again only seconds after the broker answers; a producer is refused until then.
fn is_ready(client: &HttpClient, token: Option<&str>) -> bool {
    let login = token.map(bearer);
    let headers: Vec<_> = login.iter().map(|login| ("authorization", login.as_str())).collect();
    let says = |path: &str, words: &str| {
        client
            .request("GET", path, &headers, b"")
            .is_ok_and(|answer| answer.status == 200 && answer.text().contains(words))
    };
    says("/admin/v2/namespaces/public", "public/default") && says("/admin/v2/brokers/health", "ok")
}

/// What its libraries reach into.
const OPENED: [&str; 6] = [
    "java.base/java.io",
    "java.base/java.util.zip",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
];

/// Who keeps the bookie's metadata.
const DRIVERS: [&str; 2] = [
    "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
];

/// The settings of the distribution with ours in their place.
fn with_properties(settings: &str, ports: Ports, properties: &[(String, String)]) -> String {
    let mut set: Vec<(String, String)> = [
        ("bindAddress", "127.0.0.1".to_owned()),
        ("advertisedAddress", "127.0.0.1".to_owned()),
        ("listeningInterface", "lo".to_owned()),
        ("brokerServicePort", ports.broker.to_string()),
        ("webServicePort", ports.web.to_string()),
        // A topic that a test misspells must fail, not appear.
        ("allowAutoTopicCreation", "false".to_owned()),
        // A topic that a test does not touch for a minute must stay.
        ("brokerDeleteInactiveTopicsEnabled", "false".to_owned()),
        ("numHttpServerThreads", "4".to_owned()),
        ("numOrderedExecutorThreads", "2".to_owned()),
        ("webSocketServiceEnabled", "false".to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    for (key, value) in properties {
        set.retain(|(written, _)| written != key);
        set.push((key.clone(), value.clone()));
    }
    let is_ours = |line: &&str| {
        set.iter().any(|(key, _)| line.split('=').next().is_some_and(|name| name.trim() == key))
    };
    let kept = settings.lines().filter(|line| !line.starts_with('#') && !line.is_empty() && !is_ours(line));
    let kept: String = kept.map(|line| format!("{line}\n")).collect();
    set.iter().fold(kept, |all, (key, value)| all + &format!("{key}={value}\n"))
}

const LOGGING: &str = "\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
logger.web.name = org.eclipse.jetty.server.RequestLog
logger.web.level = warn
";

#[cfg(test)]
mod tests;
