//! The next lines of the files that are followed.
//!
//! Owns whose turn it is, which files are open, and the check *after* each piece that it was the file's own. Does not own which files are
//! followed (`files::follower`), what a line is (`files::lines`) or the append.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;

use files::Node;

use super::super::lines::{Line, Origin, line, lines, write_record};
use super::super::pieces::{PIECE_BYTES, end_of_line, piece_at};
use super::super::table::Mark;
use super::{Batch, Follower, Live, Why};
use crate::records::Rows;
use crate::refusal::Refusal;

/// A file that seems unchanged is checked after so long nevertheless: times of changes go in ticks.
const CHECK_MS: i64 = 1_000;

impl Follower {
    /// The next lines of files, of each in its turn. `now_ms` is for waits, `read_ms` for records. `room` begins the records of a file; without room the round ends.
    pub fn round(
        &mut self,
        now_ms: i64,
        read_ms: i64,
        room: &dyn Fn() -> Result<Rows, Refusal>,
    ) -> Vec<Batch> {
        let behind = self.table.files.range(self.turn.saturating_add(1)..).map(|(number, _)| *number);
        let before = self.table.files.range(..=self.turn).map(|(number, _)| *number);
        let order: Vec<u64> = behind.chain(before).collect();
        let (mut batches, mut bytes) = (Vec::new(), 0);
        for number in order {
            self.turn = number;
            match self.read(number, (now_ms, read_ms), room) {
                Ok(Some(batch)) => {
                    bytes += batch.bytes;
                    batches.push(batch);
                }
                Ok(None) => {}
                // Others hold the room; the files wait.
                Err(_) => break,
            }
            if bytes >= self.rules.round_bytes_max as u64 {
                break;
            }
        }
        batches
    }

    fn read(
        &mut self,
        number: u64,
        (now_ms, read_ms): (i64, i64),
        room: &dyn Fn() -> Result<Rows, Refusal>,
    ) -> Result<Option<Batch>, Refusal> {
        let (known, live) = (&self.table.files[&number], &self.live[&number]);
        let is_leaving = live.is_gone() || known.at != known.path || known.missing_ms != 0;
        let is_quiet = is_leaving && now_ms - live.active_ms >= self.rules.quiet_ms;
        if !self.open(number, is_quiet) {
            return Ok(None);
        }
        let (Some(known), Some(live)) = (self.table.files.get_mut(&number), self.live.get_mut(&number))
        else {
            return Ok(None);
        };
        let Some(file) = &live.file else { return Ok(None) };
        let state = |metadata: &Metadata| {
            (metadata.len(), i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()))
        };
        let (checked_bytes, checked_ns, checked_ms) = live.checked;
        let is_unchanged = |metadata: Metadata| {
            state(&metadata) == (checked_bytes, checked_ns) && now_ms - checked_ms < CHECK_MS
        };
        if !is_quiet && file.metadata().is_ok_and(is_unchanged) {
            return Ok(None);
        }
        let mut piece = Vec::new();
        let read = piece_at(file, live.read, &mut piece).and_then(|()| {
            // Only now: what was read before is its own if it is still the same.
            let (bytes, changed_ns) = state(&file.metadata()?);
            live.checked = (bytes, changed_ns, now_ms);
            let identity = known.identity.begins_like(file)?.filter(|_| bytes >= live.read);
            // What was written over it may begin alike: with a header, or as a copy of another state of it.
            let is_other = identity.is_some() && known.mark.differs(file)?;
            Ok((identity.filter(|_| !is_other), bytes))
        });
        let (identity, bytes) = match read {
            Ok((Some(identity), bytes)) => (identity, bytes),
            Ok((None, _)) => {
                (live.is_over, self.is_stale) = (true, true);
                return Ok(None);
            }
            Err(error) => {
                live.file = None;
                let complaint = format!("file `{}` cannot be read: {error}", known.at);
                self.complain(Why::Unreadable, complaint);
                return Ok(None);
            }
        };
        (known.bytes, live.there) = (bytes, bytes);
        if known.identity != identity {
            (known.identity, self.is_changed) = (identity, true);
        }
        if piece.is_empty() {
            if is_quiet {
                live.file = None;
            }
            return Ok(None);
        }
        let long = match memchr::memrchr(b'\n', &piece) {
            Some(_) => None,
            None if piece.len() == PIECE_BYTES => match end_of_line(file, live.read, &mut live.scanned) {
                Some(next) => Some(next),
                None if is_quiet && live.scanned >= bytes => Some(bytes),
                None => {
                    live.part = bytes;
                    return Ok(None);
                }
            },
            // The last line, which nobody will complete.
            None if is_quiet => Some(live.read + piece.len() as u64),
            None => {
                live.part = bytes;
                return Ok(None);
            }
        };
        let mut rows = room()?;
        let (from, mut to, mut cut) = (live.read, live.read, 0);
        let origin = Origin { path: &known.path, host: &self.rules.host, read_ms };
        let bytes_max = self.rules.line_bytes_max;
        let scratch = &mut self.scratch;
        let mut push = |line: Line<'_>| {
            if !line.text.is_empty() {
                scratch.clear();
                write_record(scratch, line, origin, self.rules.is_json);
                rows.push(scratch)?;
                cut += u64::from(line.is_cut);
            }
            to = line.next;
            Ok(())
        };
        let pushed = match long {
            Some(next) => push(line(&piece, from, bytes_max, next)),
            None => lines(&piece, from, bytes_max).try_for_each(push),
        };
        // What did not fit is read again.
        if to == from {
            return pushed.map(|()| None);
        }
        (live.read, live.active_ms) = (to, now_ms);
        known.mark = Mark::of(file, to);
        // There may be more.
        live.checked = (0, 0, 0);
        Ok(Some(Batch { number, to, records: rows.done(), bytes: to - from, cut }))
    }

    /// Opens a file if there is something to read; true if it is open.
    fn open(&mut self, number: u64, is_quiet: bool) -> bool {
        let (known, live) = (&self.table.files[&number], &self.live[&number]);
        if live.is_over {
            return false;
        }
        if live.file.is_some() {
            return true;
        }
        if live.is_gone() || live.there <= live.read || !(live.has_more() || is_quiet) {
            return false;
        }
        let (at, wanted) = (known.at.clone(), known.identity.node());
        if !self.has_room_to_open() {
            return false;
        }
        let opened = File::open(&at).and_then(|file| Ok((Node::of(&file.metadata()?), file)));
        let problem = match opened {
            Ok((node, file)) if node.is(&wanted) => {
                self.live.entry(number).or_default().file = Some(file);
                return true;
            }
            Ok(_) => None,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => Some(format!("file `{at}` cannot be opened: {error}")),
        };
        match problem {
            Some(problem) => self.complain(Why::Unreadable, problem),
            // It was renamed since the folders were looked at.
            None => self.is_stale = true,
        }
        false
    }

    /// Closes the file that was quiet for the longest time, if as many are open as may be.
    fn has_room_to_open(&mut self) -> bool {
        if self.live.values().filter(|live| live.file.is_some()).count() < self.rules.open_max {
            return true;
        }
        let is_idle = |live: &&mut Live| live.file.is_some() && !live.has_more() && !live.is_gone();
        let idle = self.live.values_mut().filter(is_idle).min_by_key(|live| live.active_ms);
        idle.is_some_and(|live| live.file.take().is_some())
    }
}
