//! What a run says of itself: its status, its metrics, its accounts.
//!
//! Owns the questions over HTTP and the waits for an answer. Does not own the process ([`super::runs`]).

use std::time::Duration;

use serde_json::Value;
use testkit::{HttpClient, Spawn, wait_until};

use super::Pipeline;
use super::runs::END_MAX;
use crate::case::binary;

/// `status` asks the broker for its ends, for 5 s at the most.
pub(super) const STATUS_MAX: Duration = crate::PATIENCE;

impl Pipeline {
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
        let mut found = None;
        wait_until(END_MAX, &format!("`{state}` at {place}"), || {
            found = self.problem(place).filter(|problem| problem["state"] == state);
            found.is_some()
        });
        found.expect("it was waited for")
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

    /// Records that the broker holds and that were not sealed. Asks until the broker has told all its ends: a busy one does not within the few
    /// seconds that `status` waits.
    ///
    /// # Panics
    /// When it never does.
    #[track_caller]
    pub fn lag(&self) -> u64 {
        let lag = || -> Option<u64> {
            let status = self.status();
            let partitions = status["partitions"].as_array()?;
            partitions.iter().map(|partition| partition["lag"].as_u64()).sum()
        };
        let mut found = None;
        wait_until(END_MAX, "the broker to tell its ends", || {
            found = lag();
            found.is_some()
        });
        found.expect("it was waited for")
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
