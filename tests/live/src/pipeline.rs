//! A pipeline file, runs of the program with it, and what it says of itself.
//!
//! Owns the file's text, the arguments and the wait for an end. Does not own what must be in the table afterwards (`table`, and each test).
//! Defaults differ from the program's where tests would wait: batches are cut after 100 ms.

mod runs;
mod said;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use testkit::{S3, free_port};

use crate::case::Case;
pub use runs::{ended, ended_well, interrupt, term};
pub use said::Accounts;

/// A pipeline file.
#[derive(Debug, Clone)]
pub struct Pipeline {
    dir: PathBuf,
    name: String,
    topic: String,
    brokers: String,
    kafka: Vec<String>,
    inputs: Vec<String>,
    /// What `source` says instead of a topic.
    files: Option<String>,
    format: String,
    fields: Vec<String>,
    steps: Vec<String>,
    url: String,
    table: String,
    sink: Vec<String>,
    sinks: Vec<String>,
    batch: String,
    port: u16,
    /// False to leave `http` out, so that the program takes the first default port that is free.
    has_http: bool,
    /// The endpoint, for a store on S3.
    s3: Option<String>,
    more: Vec<String>,
    env: Vec<(String, String)>,
}

impl Pipeline {
    /// From the case's topic to the table of its name.
    pub fn new(case: &Case, name: &str) -> Pipeline {
        Pipeline {
            dir: case.dir().to_owned(),
            name: name.to_owned(),
            topic: case.name().to_owned(),
            brokers: case.kafka().bootstrap(),
            kafka: Vec::new(),
            inputs: Vec::new(),
            files: None,
            format: "json".to_owned(),
            fields: Vec::new(),
            steps: Vec::new(),
            url: case.server().url(),
            table: name.to_owned(),
            sink: Vec::new(),
            sinks: Vec::new(),
            batch: "{ age: 100ms }".to_owned(),
            port: free_port(),
            has_http: true,
            s3: None,
            more: Vec::new(),
            env: Vec::new(),
        }
    }

    /// Another topic.
    pub fn topic(mut self, topic: &str) -> Pipeline {
        topic.clone_into(&mut self.topic);
        self
    }

    /// Another broker.
    pub fn brokers(mut self, brokers: &str) -> Pipeline {
        brokers.clone_into(&mut self.brokers);
        self
    }

    /// One of several inputs, from a topic of the case's broker; then the case's own topic is none. `more` are further settings in YAML's flow
    /// style, as in `, time: at`.
    pub fn input(self, name: &str, topic: &str, more: &str) -> Pipeline {
        let brokers = self.brokers.clone();
        self.input_at(&brokers, name, topic, more)
    }

    /// The same from another broker. An input of that name is replaced.
    pub fn input_at(mut self, brokers: &str, name: &str, topic: &str, more: &str) -> Pipeline {
        self.inputs.retain(|input| !input.starts_with(&format!("{name}: ")));
        self.inputs.push(format!("{name}: {{ kafka: {{ brokers: '{brokers}', topic: {topic} }}{more} }}"));
        self
    }

    /// An input of files, or of anything else, in YAML's flow style.
    pub fn input_of(mut self, name: &str, source: &str) -> Pipeline {
        self.inputs.push(format!("{name}: {source}"));
        self
    }

    /// One more setting of `source.kafka`, in YAML's flow style.
    pub fn kafka(mut self, setting: &str) -> Pipeline {
        self.kafka.push(setting.to_owned());
        self
    }

    /// Reads the files of this pattern, in the case's folder.
    pub fn files(mut self, pattern: &str) -> Pipeline {
        self.files = Some(self.dir.join(pattern).display().to_string());
        self
    }

    /// What `source.format` says.
    pub fn format(mut self, format: &str) -> Pipeline {
        format.clone_into(&mut self.format);
        self
    }

    /// One more field that expressions read, with its type: `status: UInt16`.
    pub fn field(mut self, field: &str) -> Pipeline {
        self.fields.push(field.to_owned());
        self
    }

    /// One more step, in YAML's flow style.
    pub fn step(mut self, step: &str) -> Pipeline {
        self.steps.push(step.to_owned());
        self
    }

    /// Drops records whose `key` was kept within a week of the column `time`.
    pub fn dedup(self, key: &str, time: Option<&str>) -> Pipeline {
        let time = time.map(|time| format!(", time: {time}")).unwrap_or_default();
        self.step(&format!("dedup: {{ key: [{key}], window: 7d{time} }}"))
    }

    /// The server's address: a proxy's, as a rule.
    pub fn url(mut self, url: &str) -> Pipeline {
        url.clone_into(&mut self.url);
        self
    }

    /// One more line of `sink.clickhouse`.
    pub fn sink(mut self, line: &str) -> Pipeline {
        self.sink.push(line.to_owned());
        self
    }

    /// One more of several tables, in YAML's flow style; then the case's own is none.
    pub fn one_of(mut self, sink: &str) -> Pipeline {
        self.sinks.push(sink.to_owned());
        self
    }

    /// What `sink.batch` says, in YAML's flow style.
    pub fn batch(mut self, batch: &str) -> Pipeline {
        batch.clone_into(&mut self.batch);
        self
    }

    /// One more line at the top level.
    pub fn more(mut self, line: &str) -> Pipeline {
        self.more.push(line.to_owned());
        self
    }

    /// An environment variable of every run.
    pub fn env(mut self, key: &str, value: &str) -> Pipeline {
        self.env.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Keeps the store on S3 behind `endpoint`, in a folder of the case's own.
    pub fn on_s3(mut self, endpoint: &str) -> Pipeline {
        self.s3 = Some(endpoint.to_owned());
        self.env("LIVE_S3_KEY", S3::ACCESS_KEY).env("LIVE_S3_SECRET", S3::SECRET_KEY)
    }

    /// The same pipeline for a second process, which cannot listen where the first one does.
    pub fn for_another_process(&self) -> Pipeline {
        Pipeline { port: free_port(), ..self.clone() }
    }

    /// Without `http` in its file.
    pub fn at_default_port(self) -> Pipeline {
        Pipeline { has_http: false, ..self }
    }

    /// Where the store is.
    pub fn store(&self) -> PathBuf {
        self.dir.join(format!("{}.store", self.name))
    }

    /// Writes the file; gives its path.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self) -> PathBuf {
        // A file for each process: the one before may not have read its own yet.
        let path = self.dir.join(format!("{}-{}.yaml", self.name, self.port));
        std::fs::write(&path, self.text()).expect("the pipeline file must be written");
        path
    }

    fn text(&self) -> String {
        let Pipeline { name, topic, brokers, format, url, table, batch, port, .. } = self;
        let store = match &self.s3 {
            None => format!("store: file://{}\n", self.store().display()),
            Some(endpoint) => format!(
                "store: s3://{}/{topic}\nobject_storage: {{ endpoint: '{endpoint}', region: {}, access_key: \"${{LIVE_S3_KEY}}\", \
                 secret_key: \"${{LIVE_S3_SECRET}}\" }}\n",
                S3::BUCKET,
                S3::REGION
            ),
        };
        let kafka: String = self.kafka.iter().map(|setting| format!(", {setting}")).collect();
        // A pipeline's name is stricter than a table's.
        let mut text = format!("pipeline: {}\n{store}", name.replace('_', "-"));
        if self.inputs.is_empty() {
            let source = match &self.files {
                None => format!("kafka: {{ brokers: '{brokers}', topic: {topic}, start: earliest{kafka} }}"),
                Some(files) => format!("file: {{ paths: '{files}' }}"),
            };
            write!(text, "source:\n  {source}\n  format: {format}\n")
                .expect("a String takes all that is written");
        } else {
            text.push_str("inputs:\n");
        }
        for input in &self.inputs {
            writeln!(text, "  {input}").expect("as above");
        }
        if !self.fields.is_empty() {
            text.push_str("  fields:\n");
        }
        for field in &self.fields {
            writeln!(text, "    {field}").expect("a String takes all that is written");
        }
        if !self.steps.is_empty() {
            text.push_str("steps:\n");
        }
        for step in &self.steps {
            writeln!(text, "  - {step}").expect("a String takes all that is written");
        }
        write!(text, "sink:\n  clickhouse:\n    url: {url}\n").expect("as above");
        if self.sinks.is_empty() {
            writeln!(text, "    table: {table}").expect("as above");
        }
        for line in &self.sink {
            writeln!(text, "    {line}").expect("as above");
        }
        writeln!(text, "  batch: {batch}").expect("as above");
        if self.has_http {
            writeln!(text, "http: {{ listen: '127.0.0.1:{port}' }}").expect("as above");
        }
        if !self.sinks.is_empty() {
            text.push_str("sinks:\n");
        }
        for sink in &self.sinks {
            writeln!(text, "  - {sink}").expect("as above");
        }
        for line in &self.more {
            writeln!(text, "{line}").expect("as above");
        }
        text
    }

    /// The directory of the file, the store and the logs.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}
