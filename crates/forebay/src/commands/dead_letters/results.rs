//! What became of replayed letters, for people and machines.
//!
//! Owns the words of the results and where they come from: the lane's seals for every record, and the dead-letter table for
//! those that could not go on again, among them rows that the server refused after they were sealed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pipeline::replays::STREAM;
use pipeline::replays::object::Letter;
use protocol::Lane;
use protocol::record::{Fate, RecordPlace};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::choose::Choice;
use super::letters::Head;
use super::{Table, output};
use crate::cli::{Exit, print};

/// Positions asked for at once.
const POSITIONS_PER_QUESTION: usize = 4_096;

/// Characters of a message in the results; `show` has all of it.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// A process on this machine answers at once.
const STATUS_WAIT_MAX: Duration = Duration::from_secs(2);

/// Bytes of an answer to `/status`; a lane of ten thousand partitions stays below.
const STATUS_BYTES_MAX: u64 = 4 << 20;

/// Why a record could not go on again; empty if its letter is not in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    reason: String,
    column: String,
    message: String,
}

/// What became of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Sealed with this fate, and settled.
    Sealed(Fate),
    /// A row on its way: its insert is not settled, and the server may still refuse it.
    OnItsWay,
    /// A dead letter again.
    DeadLetter(Failure),
    /// Not read yet.
    Waiting,
    /// Replayed so long ago that what became of it is not kept.
    Forgotten,
}

impl Outcome {
    /// The word of a result.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Sealed(fate) => fate.as_str(),
            Self::OnItsWay => "sealed",
            Self::DeadLetter(_) => Fate::DeadLetter.as_str(),
            Self::Waiting => "waiting",
            Self::Forgotten => "unknown",
        }
    }
}

/// One letter's result.
#[derive(Clone, Debug)]
pub struct Results {
    /// The letter.
    pub head: Head,
    /// Its record's place in the replay log, if it is still known.
    pub position: Option<u64>,
    /// True if an earlier replay took it.
    pub is_already: bool,
    /// What became of the record.
    pub outcome: Outcome,
}

impl Results {
    /// The dead letter that the record is now, if it is one again.
    fn letter_again(&self) -> Option<String> {
        let position = self.position.filter(|_| matches!(self.outcome, Outcome::DeadLetter(_)))?;
        Some(Letter { source: STREAM.into(), partition: 0, position, print: 0 }.to_string())
    }
}

/// What the lane knows of a record of the log; `letters` is the table of the dead letters. A letter that stands in that table
/// tells more.
pub fn outcome(lane: &Lane, letters: &str, position: u64) -> Outcome {
    let Some(at) = lane.partition(STREAM, 0) else { return Outcome::Waiting };
    if position >= lane.partitions[at].next {
        return Outcome::Waiting;
    }
    let place = RecordPlace { partition: at as u32, position };
    match lane.fate(place) {
        Some(Fate::Written) if lane.unsettled(place).any(|table| table.name != letters) => Outcome::OnItsWay,
        // Its letter was purged, or its insert is not settled yet.
        Some(Fate::DeadLetter) => Outcome::DeadLetter(Failure::default()),
        Some(fate) => Outcome::Sealed(fate),
        None => Outcome::Forgotten,
    }
}

/// Which of these records of the log are dead letters again.
///
/// # Errors
/// When the table cannot be read.
pub async fn failed_again(table: &Table, positions: &[u64]) -> anyhow::Result<BTreeMap<u64, Failure>> {
    let mut sorted = positions.to_vec();
    sorted.sort_unstable();
    let mut failed = BTreeMap::new();
    for chunk in sorted.chunks(POSITIONS_PER_QUESTION) {
        let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else { continue };
        let sql = format!(
            "SELECT position, any(reason), any(column), any(substringUTF8(message, 1, {MESSAGE_CHARS_MAX})) FROM {} \
             WHERE {} AND source = {} AND partition = 0 AND position >= {first} AND position <= {last} \
             GROUP BY position ORDER BY position LIMIT {POSITIONS_PER_QUESTION}",
            table.quoted,
            table.of,
            clickhouse::types::quote(STREAM)
        );
        let rows: Vec<(u64, String, String, String)> = table.ask(&sql).await?;
        failed.extend(
            rows.into_iter()
                .map(|(position, reason, column, message)| (position, Failure { reason, column, message })),
        );
    }
    Ok(failed)
}

/// Prints a line for each letter, and how many had each result.
///
/// # Errors
/// When standard output cannot be written.
pub fn print_all(results: &[Results], as_json: bool) -> anyhow::Result<()> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut rows = Vec::new();
    for result in results {
        let Results { head, position, is_already, outcome } = result;
        let letter_again = result.letter_again();
        let word = outcome.word();
        let nothing = Failure::default();
        let failure = if let Outcome::DeadLetter(failure) = outcome { failure } else { &nothing };
        let shown = if *is_already { format!("already replayed: {word}") } else { word.to_owned() };
        *sums.entry(shown.clone()).or_default() += 1;
        if as_json {
            let line = json!({
                "id": head.letter.to_string(), "source": head.letter.source, "partition": head.letter.partition,
                "position": head.letter.position, "result": word, "already": is_already,
                "replay_position": position, "letter": letter_again, "reason": failure.reason, "column": failure.column,
                "message": failure.message
            });
            print(&format!("{line}\n"))?;
        } else {
            let again = letter_again.unwrap_or_default();
            let why = [&again, &failure.reason, &failure.message].map(String::as_str);
            let why = why.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
            rows.push(vec![head.letter.to_string(), head.reason.clone(), shown, why]);
        }
    }
    if !as_json && !rows.is_empty() {
        print(&output::columns(&["LETTER", "WAS", "RESULT", "WHY"], &rows))?;
    }
    let sums: Vec<String> = sums.iter().map(|(word, count)| format!("{count} {word}")).collect();
    if !sums.is_empty() {
        eprintln!("{}", sums.join(", "));
    }
    Ok(())
}

/// Prints what would be replayed.
///
/// # Errors
/// When standard output cannot be written.
pub fn print_choice(choice: &Choice, as_json: bool) -> anyhow::Result<Exit> {
    let all =
        choice.fresh.iter().map(|head| (head, false)).chain(choice.already.iter().map(|head| (head, true)));
    let mut rows = Vec::new();
    for (head, is_already) in all {
        if as_json {
            let line = json!({ "id": head.letter.to_string(), "reason": head.reason, "already": is_already });
            print(&format!("{line}\n"))?;
        } else {
            let what = if is_already { "already replayed" } else { "would be replayed" };
            rows.push(vec![
                head.letter.to_string(),
                head.reason.clone(),
                head.column.clone(),
                what.to_owned(),
            ]);
        }
    }
    if as_json {
        return Ok(Exit::Done);
    }
    print(&output::columns(&["LETTER", "REASON", "COLUMN", "WHAT"], &rows))
}

/// A bar on a terminal, and nothing elsewhere.
pub fn bar(records: u64) -> ProgressBar {
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} records read {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(records), target).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The name of the pipeline that tells its status at an address; `None` if the answer is something else.
///
/// # Errors
/// When nobody answers there in time.
pub async fn status_name(address: SocketAddr) -> std::io::Result<Option<String>> {
    let ask = async {
        let mut stream = tokio::net::TcpStream::connect(address).await?;
        // HTTP/1.0 without a name: the server closes behind its answer, which has no pieces.
        stream.write_all(b"GET /status HTTP/1.0\r\n\r\n").await?;
        let mut answer = Vec::new();
        stream.take(STATUS_BYTES_MAX).read_to_end(&mut answer).await?;
        let body = answer.windows(4).position(|window| window == b"\r\n\r\n").map(|at| &answer[at + 4..]);
        let status = body.and_then(|body| serde_json::from_slice::<serde_json::Value>(body).ok());
        Ok(status.and_then(|status| Some(status.get("pipeline")?.as_str()?.to_owned())))
    };
    match tokio::time::timeout(STATUS_WAIT_MAX, ask).await {
        Ok(answer) => answer,
        Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests;
