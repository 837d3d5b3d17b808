//! A real schema registry for tests: Apicurio, which speaks Confluent's protocol and keeps its schemas in memory.
//!
//! Owns the registry's process and port, and the one request that registers a schema. Does not own the client under test.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::dir::{TestDir, cached};
use crate::http::HttpClient;
use crate::process::{Process, Spawn};
use crate::wait::{free_port, wait_until};

/// A start takes 4 s alone on two cores; tests run side by side.
const START_MAX: Duration = Duration::from_secs(300);
/// Where the registry speaks Confluent's protocol.
const PATH: &str = "/apis/ccompat/v7";

/// An empty registry. Dropped, it is killed, and its schemas are gone.
#[derive(Debug)]
pub struct Registry {
    // The order matters: the process goes before its directory.
    process: Process,
    port: u16,
    dir: TestDir,
}

impl Registry {
    /// Starts a registry on a free port, and waits until it answers.
    pub fn start() -> Result<Registry> {
        let dir = TestDir::new("registry")?;
        let port = free_port();
        let mut process = Spawn::new("apicurio", "java")
            .args(["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg("-Dquarkus.http.host=127.0.0.1")
            .arg(format!("-Dquarkus.http.port={port}"))
            .arg("-jar")
            .arg(jar())
            .cwd(dir.path())
            .start(dir.path())?;
        let client = HttpClient::new(&format!("http://127.0.0.1:{port}"));
        wait_until(START_MAX, "apicurio to answer", || {
            let ended = !process.is_running().unwrap_or(true);
            ended || client.get(&format!("{PATH}/subjects")).is_ok_and(|answer| answer.status == 200)
        });
        anyhow::ensure!(process.is_running()?, "apicurio ended at its start{}", process.tails());
        Ok(Registry { process, port, dir })
    }

    /// The address that a serializer is given.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Registers a schema of Avro under `subject`, or finds it there, and gives its number. `references` are the name of a type, its
    /// subject and the version.
    pub fn register(&self, subject: &str, schema: &str, references: &[(&str, &str, u32)]) -> Result<u32> {
        self.register_as("AVRO", subject, schema, references)
    }

    /// The same for a schema of `kind`, as registries name it: `AVRO` or `PROTOBUF`. What a reference names is the file that is imported.
    pub fn register_as(
        &self,
        kind: &str,
        subject: &str,
        schema: &str,
        references: &[(&str, &str, u32)],
    ) -> Result<u32> {
        let references: Vec<String> = references
            .iter()
            .map(|(name, subject, version)| {
                format!("{{\"name\":{},\"subject\":{},\"version\":{version}}}", quoted(name), quoted(subject))
            })
            .collect();
        let (text, references) = (quoted(schema), references.join(","));
        let body = format!("{{\"schemaType\":\"{kind}\",\"schema\":{text},\"references\":[{references}]}}");
        let client = HttpClient::new(&format!("http://127.0.0.1:{}", self.port));
        let path = format!("{PATH}/subjects/{subject}/versions");
        let json = ("content-type", "application/json");
        let answer = client.request("POST", &path, &[json], body.as_bytes())?;
        let text = answer.text();
        anyhow::ensure!(answer.status == 200, "the registry answers {}: {text}", answer.status);
        let id = text.split("\"id\":").nth(1).context("no id")?;
        let digits: String = id.trim_start().chars().take_while(char::is_ascii_digit).collect();
        digits.parse().with_context(|| format!("no id in {text}"))
    }

    /// Stops it from answering until [`Registry::resume`]; connections stay open.
    pub fn pause(&mut self) -> Result<()> {
        self.process.stop_signal()
    }

    /// Undoes [`Registry::pause`].
    pub fn resume(&mut self) -> Result<()> {
        self.process.continue_signal()
    }

    /// The directory of its logs.
    pub fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// What a registry needs and this machine lacks.
pub(crate) fn missing() -> Option<String> {
    let jar = jar();
    (!jar.is_file()).then(|| format!("`{}` is missing; run `scripts/setup test`", jar.display()))
}

fn jar() -> PathBuf {
    cached("apicurio/apicurio-registry-app-3.0.9-runner.jar")
}
