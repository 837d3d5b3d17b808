//! A pipeline file, runs of the program with it, and what it says of itself.
//!
//! Owns the file's text, the arguments and the wait for an end. Defaults differ from the program's where tests would wait:
//! batches are cut after 100 ms.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use testkit::{Exit, HttpClient, Output, Process, S3, Spawn, free_port, wait_until};

use crate::case::{Case, binary};

/// A drain of a test's few records takes a second; a busy machine and a slow server get this much.
const END_MAX: Duration = crate::PATIENCE;

/// `status` asks the broker for its ends, for 5 s at the most.
const STATUS_MAX: Duration = crate::PATIENCE;

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
        write!(text, "  batch: {batch}\nhttp: {{ listen: '127.0.0.1:{port}' }}\n").expect("as above");
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

    /// Starts `forebay run`.
    pub fn run(&self) -> Process {
        self.start(&["run"], &[])
    }

    /// Runs `forebay run --drain` to its end, which must be a good one.
    #[track_caller]
    pub fn drain(&self) -> Exit {
        ended_well(self.start(&["run"], &["--drain"]))
    }

    /// Starts `forebay check --connect`.
    pub fn start_check(&self) -> Process {
        self.start(&["check"], &["--connect"])
    }

    fn start(&self, before: &[&str], after: &[&str]) -> Process {
        let file = self.write();
        // Logs of their own, for some run side by side.
        let name = format!("{}-{}", self.name, self.port);
        self.with_env(Spawn::new(&name, binary().expect("the program")))
            .args(before)
            .arg(file)
            .args(after)
            .start(&self.dir)
            .expect("the program must start")
    }

    fn with_env(&self, child: Spawn) -> Spawn {
        let child = child.env("NO_COLOR", "1").env_remove("FOREBAY_LOG").cwd(&self.dir);
        self.env.iter().fold(child, |child, (key, value)| child.env(key, value))
    }

    /// Runs `forebay check FILE ARGS`, which must find nothing.
    ///
    /// # Panics
    /// When it finds something.
    pub fn check(&self, args: &[&str]) {
        let file = self.write();
        self.with_env(Spawn::new(&format!("{}-check", self.name), binary().expect("the program")))
            .arg("check")
            .arg(file)
            .args(args)
            .run(&self.dir, STATUS_MAX)
            .and_then(testkit::Output::success)
            .expect("`check` must find nothing");
    }

    /// Runs `forebay dead-letters ACTION FILE …` to its end, whatever its code.
    ///
    /// # Panics
    /// When it does not start or does not end.
    pub fn dead_letters(&self, action: &str, args: &[&str]) -> Output {
        let ran = self.dead_letters_spawn(action, args).run(&self.dir, END_MAX);
        ran.expect("`dead-letters` must end")
    }

    /// Starts `forebay dead-letters ACTION FILE …`.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_dead_letters(&self, action: &str, args: &[&str]) -> Process {
        self.dead_letters_spawn(action, args).start(&self.dir).expect("the program must start")
    }

    fn dead_letters_spawn(&self, action: &str, args: &[&str]) -> Spawn {
        self.with_env(Spawn::new(&format!("{}-{action}", self.name), binary().expect("the program")))
            .args(["dead-letters", action])
            .arg(self.write())
            .args(args)
    }

    /// What `forebay status FILE --json` says.
    ///
    /// # Panics
    /// When it fails.
    pub fn status(&self) -> Value {
        let file = self.write();
        let status = self
            .with_env(Spawn::new(&format!("{}-status", self.name), binary().expect("the program")))
            .args(["status", "--json"])
            .arg(file)
            .run(&self.dir, STATUS_MAX)
            .and_then(testkit::Output::success)
            .expect("`status` must answer");
        serde_json::from_str(&status.stdout).expect("`status --json` must be JSON")
    }

    /// Runs a command with the file, which must end with `code`; what it prints, as JSON.
    ///
    /// # Panics
    /// When it ends with another code.
    #[track_caller]
    pub fn tool(&self, before: &[&str], after: &[&str], code: i32) -> Value {
        let output = self.run_tool(before, after);
        assert_eq!(output.exit.status.code(), Some(code), "{}\n{}", output.stdout, output.stderr);
        serde_json::from_str(&output.stdout).expect("JSON was asked for")
    }

    /// The same for a command that says on stderr why it fails.
    ///
    /// # Panics
    /// When it ends with another code, or says something else.
    #[track_caller]
    pub fn tool_fails(&self, before: &[&str], after: &[&str], code: i32, why: &str) {
        let output = self.run_tool(before, after);
        assert_eq!(output.exit.status.code(), Some(code), "{}\n{}", output.stdout, output.stderr);
        assert!(output.stderr.contains(why), "{}", output.stderr);
    }

    /// Runs a command with the file to its end, whatever its code.
    ///
    /// # Panics
    /// When it does not start or does not end.
    pub fn run_tool(&self, before: &[&str], after: &[&str]) -> Output {
        let file = self.write();
        let name = format!("{}-{}", self.name, before.join("-"));
        self.with_env(Spawn::new(&name, binary().expect("the program")))
            .args(before)
            .arg(file)
            .args(after)
            .run(&self.dir, END_MAX)
            .expect("the command must start")
    }

    /// What the running program says at `/status`; `None` while it does not answer.
    pub fn live(&self) -> Option<Value> {
        let answer = HttpClient::new(&format!("http://127.0.0.1:{}", self.port)).get("/status").ok()?;
        serde_json::from_str(&answer.text()).ok()
    }

    /// The status code and body of `/readyz`; `None` while the program does not answer.
    pub fn ready(&self) -> Option<(u16, String)> {
        let answer = HttpClient::new(&format!("http://127.0.0.1:{}", self.port)).get("/readyz").ok()?;
        Some((answer.status, answer.text()))
    }

    /// A number that the running program tells at `/metrics`, the one with these labels; `None` while it tells none.
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let answer = HttpClient::new(&format!("http://127.0.0.1:{}", self.port)).get("/metrics").ok()?.text();
        let fits = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|(key, value)| line.contains(&format!("{key}=\"{value}\"")))
        };
        answer.lines().find(fits)?.rsplit(' ').next()?.parse().ok()
    }

    /// What the running program waits for at `place`: `/status` holds one problem for each at the most.
    pub fn problem(&self, place: &str) -> Option<Value> {
        let status = self.live()?;
        let problems = status["problems"].as_array()?;
        problems.iter().find(|problem| problem["place"] == place).cloned()
    }

    /// Waits until the running program waits for something at `place`: its problem, which must be in this state.
    #[track_caller]
    pub fn wait_for_problem(&self, place: &str, state: &str) -> Value {
        let found = || self.problem(place).filter(|problem| problem["state"] == state);
        wait_until(END_MAX, &format!("`{state}` at {place}"), || found().is_some());
        found().unwrap_or_else(|| panic!("`{state}` at {place} did not last"))
    }

    /// Waits until the running program says something at `/status` that fits.
    #[track_caller]
    pub fn wait_for_live(&self, what: &str, fits: impl Fn(&Value) -> bool) {
        wait_until(END_MAX, what, || self.live().is_some_and(|status| fits(&status)));
    }

    /// The accounts of all sealed records, replayed ones among those that were read; they must add up.
    #[track_caller]
    pub fn accounts(&self) -> Accounts {
        let status = self.status();
        let records = &status["records"];
        let number = |key: &str| records[key].as_u64().unwrap_or_else(|| panic!("no `{key}` in {records}"));
        let accounts = Accounts {
            read: number("read") + number("replayed"),
            written: number("written"),
            filtered: number("filtered"),
            duplicates: number("duplicates"),
            dead_letters: number("dead_letters"),
            late: number("late"),
        };
        let Accounts { read, written, filtered, duplicates, dead_letters, late } = accounts;
        assert_eq!(read, written + filtered + duplicates + dead_letters + late, "{accounts:?} do not add up");
        accounts
    }

    /// What is not in the tables yet, by the journal; 0 after a drain.
    pub fn pending_frames(&self) -> u64 {
        let status = self.status();
        let tables = status["tables"].as_array().into_iter().flatten();
        tables.map(|table| table["frames_pending"].as_u64().expect("a number of frames")).sum()
    }

    /// Records that the broker holds and that were not sealed.
    pub fn lag(&self) -> u64 {
        let status = self.status();
        let partitions = status["partitions"].as_array().into_iter().flatten();
        partitions.map(|partition| partition["lag"].as_u64().expect("a lag")).sum()
    }

    /// The directory of the file, the store and the logs.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// What became of the records that were read and sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Accounts {
    pub read: u64,
    pub written: u64,
    pub filtered: u64,
    pub duplicates: u64,
    pub dead_letters: u64,
    pub late: u64,
}

/// SIGTERM, and the wait for an end that must be a good one.
#[track_caller]
pub fn term(mut process: Process) -> Exit {
    process.term().expect("SIGTERM");
    ended_well(process)
}

/// SIGINT; returns at once.
///
/// # Panics
/// When there is no such process.
pub fn interrupt(process: &Process) {
    let kill = std::process::Command::new("kill").args(["-INT", &process.pid().to_string()]).status();
    assert!(kill.expect("`kill` must be there").success(), "the process is gone");
}

/// Waits for an end, which must be a good one.
#[track_caller]
pub fn ended_well(process: Process) -> Exit {
    let (exit, log) = ended(process);
    assert!(exit.status.success(), "{}\n{log}", exit.status);
    exit
}

/// Waits for an end; gives it with what was logged.
#[track_caller]
pub fn ended(mut process: Process) -> (Exit, String) {
    let exit = process.wait_timeout(END_MAX).expect("the program can be waited for");
    let log = process.stderr().expect("its log") + &process.stdout().expect("its output");
    let Some(exit) = exit else { panic!("the program did not end within {} s\n{log}", END_MAX.as_secs()) };
    (exit, log)
}
