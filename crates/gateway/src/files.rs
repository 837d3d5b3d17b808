//! Files of this host, whose lines are appended to a stream, each once.
//!
//! Owns the order of reading, noting and appending. Does not own which files those are and where reading goes on (`files::follower`), nor
//! the log with its labels and its note (`object_log`). Nothing is dropped: while the log takes nothing, files wait, and their lines are
//! where they are.
//!
//! ```text
//! look at folders ─▶ read lines ─▶ note files that are new ─▶ append, each file's lines with a label ─▶ note offsets, from time to time
//!                                                               label: the file's number, and the offset behind its last line
//! ```
//! A label is committed with its lines or not at all. So after a kill at any point the note of the log (`object_log::note`) and the labels behind its position say what is in the log: every
//! file is read on behind its last line there. No file beside the log has to agree with it.
//!
//! | module     | what it does                                          |
//! |------------|-------------------------------------------------------|
//! | `follower` | which files there are, what became of them, their lines |
//! | `scan`     | what is there at one look, and which of it is known    |
//! | `find`     | from patterns to files                                |
//! | `pieces`   | bytes of files                                        |
//! | `lines`    | from bytes to lines, and to records                   |
//! | `table`    | what is known of files, as it is noted                |
//! | `place`    | the note, read at the start and written later         |

mod find;
mod follower;
mod lines;
mod pieces;
mod place;
mod scan;
mod table;

use std::sync::Arc;
use std::time::Duration;

use metrics::{counter, gauge};
use object_log::LogError;
use object_log::error::AppendFault;
use object_log::labels::label;
use tokio::sync::watch;

use crate::gate::Gate;
pub use crate::options::FilesOptions;
use crate::records::Rows;
use crate::stream::Stream;
use find::Patterns;
use follower::{Batch, Follower, Lost, Rules, Why};
pub(crate) use place::Place;
pub(crate) use table::{file_of, label_id};

/// Pause before files are read again that had no new line.
const READ_EVERY: Duration = Duration::from_millis(100);
/// Pause before folders are listed again.
const SCAN_EVERY: Duration = Duration::from_secs(1);
/// Time between two notes of offsets: a start reads the labels of so long.
const NOTE_EVERY: Duration = Duration::from_secs(30);
/// A file that was renamed or deleted is let go after so long without a new line: its writer may not have noticed yet.
const QUIET: Duration = Duration::from_secs(5);
/// A file that no pattern means any more is forgotten after so long: its disk may come back.
const FORGET: Duration = Duration::from_secs(86_400);

/// Files that will be followed.
pub(crate) struct Following {
    follower: Follower,
    place: Place,
    stream: Arc<Stream>,
}

impl Following {
    /// Goes on where the log says.
    ///
    /// # Errors
    /// What is wrong with a pattern.
    pub fn new(options: FilesOptions, place: Place, stream: Arc<Stream>) -> Result<Self, LogError> {
        let ms = |time: Duration| i64::try_from(time.as_millis()).expect("a day at the most");
        let rules = Rules {
            stream: stream.name.clone(),
            host: options.host,
            from_end: options.from_end,
            is_json: options.is_json,
            line_bytes_max: options.line_bytes_max.clamp(1, 1 << 20),
            open_max: options.open_max.max(1),
            // One round is read while the one before is appended.
            round_bytes_max: options.ahead_bytes_max / 2,
            quiet_ms: ms(QUIET),
            forget_ms: ms(FORGET),
        };
        let patterns = Patterns::new(options.paths, &options.exclude).map_err(LogError::Refused)?;
        let runtime = stream.runtime.clone();
        let draw = Box::new(move || runtime.random() as u64);
        let follower = Follower::new(rules, patterns, place.table(), draw);
        Ok(Self { follower, place, stream })
    }

    /// Follows files until `stopping` says so; ends once what was read is durable and noted.
    ///
    /// # Errors
    /// When the note cannot be written. If the log is lost, its owner says so.
    pub async fn serve(self, gate: Gate, mut stopping: watch::Receiver<bool>) -> Result<(), LogError> {
        let Self { mut follower, mut place, stream } = self;
        let runtime = stream.runtime.clone();
        let mut scanned_at = None;
        let mut noted_at = runtime.elapsed();
        let mut batches = Vec::new();
        loop {
            let is_last = *stopping.borrow();
            let now = runtime.elapsed();
            let scans =
                follower.is_stale() || scanned_at.is_none_or(|at| now.saturating_sub(at) >= SCAN_EVERY);
            if scans {
                scanned_at = Some(now);
            }
            let (round, appended) = tokio::join!(
                read(follower, gate.clone(), stream.clone(), scans, is_last),
                append(&stream, std::mem::take(&mut batches))
            );
            let next;
            (follower, next) = round;
            let Some(appended) = appended? else { return Ok(()) };
            appended.into_iter().for_each(|(number, to)| follower.appended(number, to));
            let is_due = runtime.elapsed().saturating_sub(noted_at) >= NOTE_EVERY;
            let is_changed = follower.is_changed() && (is_due || (is_last && next.is_empty()));
            // Requests may fill the same log, and what they fill behind a note stays as long as the note does.
            if follower.must_note() || is_changed || (is_due && place.is_behind()) {
                place.note(follower.table()).await?;
                follower.noted();
                noted_at = runtime.elapsed();
            }
            tell(&stream.name, &mut follower);
            batches = next;
            if batches.is_empty() {
                if is_last {
                    return Ok(());
                }
                let stopped = async {
                    // A sender that is gone has stopped too.
                    let _ = stopping.wait_for(|stopped| *stopped).await;
                };
                tokio::select! {
                    () = runtime.sleep(READ_EVERY) => {}
                    () = stopped => {}
                }
            }
        }
    }
}

/// Reads the next lines, beside an append that is under way.
async fn read(
    mut follower: Follower,
    gate: Gate,
    stream: Arc<Stream>,
    scans: bool,
    is_last: bool,
) -> (Follower, Vec<Batch>) {
    let reading = tokio::task::spawn_blocking(move || {
        // What was read is appended before the end, and nothing more is read.
        if is_last {
            return (follower, Vec::new());
        }
        // Records show the wall clock; waits go by one that nobody sets.
        let (now_ms, read_ms) = (stream.runtime.steady_ms(), stream.now_ms());
        if scans {
            follower.scan(now_ms);
        }
        let room = || Rows::new(read_ms, gate.hold(&stream), 0);
        let batches = follower.round(now_ms, read_ms, &room);
        (follower, batches)
    });
    reading.await.expect("it panics only by a fault of ours, which ends the gateway")
}

/// Appends lines; what is durable then, by file. `None` if the log is lost.
async fn append(stream: &Arc<Stream>, batches: Vec<Batch>) -> Result<Option<Vec<(u64, u64)>>, LogError> {
    let appends = batches.into_iter().map(|Batch { number, to, records, bytes, cut }| async move {
        let lines = records.records.len() as u64;
        if lines > 0 {
            stream.append_labelled(records.records, label(label_id(number), to), records.held).await?;
        }
        let stream = || stream.name.clone();
        counter!("forebay_gateway_files_lines_total", "stream" => stream()).increment(lines);
        counter!("forebay_gateway_files_bytes_total", "stream" => stream()).increment(bytes);
        counter!("forebay_gateway_files_cut_total", "stream" => stream()).increment(cut);
        Ok((number, to))
    });
    let appended: Result<Vec<_>, object_log::AppendError> = futures::future::try_join_all(appends).await;
    match appended {
        Ok(appended) => Ok(Some(appended)),
        Err(error) if error.fault == AppendFault::Refused => Err(LogError::Refused(format!(
            "lines of files were refused, which is a fault of this program; report this: {error}"
        ))),
        Err(error) => {
            tracing::warn!(
                stream = stream.name,
                "files are not followed any more, and go on with the next owner: {error}"
            );
            Ok(None)
        }
    }
}

fn tell(stream: &str, follower: &mut Follower) {
    let counts = follower.counts();
    gauge!("forebay_gateway_files_known", "stream" => stream.to_owned()).set(counts.known as f64);
    gauge!("forebay_gateway_files_open", "stream" => stream.to_owned()).set(counts.open as f64);
    gauge!("forebay_gateway_files_behind_bytes", "stream" => stream.to_owned()).set(counts.behind as f64);
    for why in Why::ALL {
        let left_out = follower.left_out(why) as f64;
        gauge!("forebay_gateway_files_left_out", "stream" => stream.to_owned(), "reason" => why.word())
            .set(left_out);
    }
    let Lost { deleted, truncated, bytes } = follower.take_lost();
    for (reason, count) in [("deleted", deleted), ("truncated", truncated)] {
        if count > 0 {
            counter!("forebay_gateway_files_lost_total", "stream" => stream.to_owned(), "reason" => reason)
                .increment(count);
        }
    }
    if bytes > 0 {
        counter!("forebay_gateway_files_lost_bytes_total", "stream" => stream.to_owned()).increment(bytes);
    }
}

#[cfg(test)]
mod tests;
