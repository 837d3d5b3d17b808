//! Follows files: which ones there are, what became of those that are known, and their next lines.
//!
//! Owns the decisions, over the file system as it is. Does not own the log: what [`Follower::round`] gives is appended by its caller, who then calls [`Follower::appended`];
//! and what [`Follower::table`] says is noted by its caller, before lines of files are appended that are new in it ([`Follower::must_note`]).
//!
//! | a known file                        | is                                                                     |
//! |-------------------------------------|------------------------------------------------------------------------|
//! | under any name that a pattern means | read on                                                                |
//! | renamed to another one in its folder | read on until it is quiet; kept in mind for [`Rules::forget_ms`]       |
//! | replaced by a file of that name with all that was read | read on in that one, once it was quiet for as long as a deleted one |
//! | deleted                             | read to its end if it was open; otherwise what was not read is lost, and counted |
//! | shorter than it was read, or with another beginning | at its end: its rest is read from its copy beside it, if there is one, otherwise lost, and counted, once three looks over two seconds found none; what stands there now is a new file |
//!
//! | a file that is not known            | is                                                                     |
//! |-------------------------------------|------------------------------------------------------------------------|
//! | empty                               | left for later: nothing is known to know it by                         |
//! | compressed                          | left out                                                               |
//! | called like a copy of a known one, and has the same bytes so far | held back: the original is about to be emptied  |
//! | in place of a known one, with all that was read | held back until that one is let go, and then that one  |
//! | the copy of one that was emptied    | that one from now on                                                   |
//! | any other one                       | new, and read from its start                                           |
//!
//! A file is checked by its first 1,024 bytes, and by as many before the position that it was read to, *after* each piece was read from it, so a piece of what has
//! replaced it is never taken for its own.

mod copied;
mod left_out;
mod reading;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::PathBuf;

use files::copies::is_compressed;
use files::{Identity, names};
use object_log::note::NOTE_BYTES_MAX;

use super::find::{Found, Look, Patterns};
use super::pieces::last_line;
use super::scan::{Copied, Scan};
use super::table::{Known, Mark, Table};
use crate::records::Parsed;
use left_out::LeftOut;
pub(super) use left_out::Why;

/// A file that no name has led to for so long is gone.
const GONE_MS: i64 = 2_000;

/// A copy of a file that was deleted is known by at least so many bytes.
const COPY_BYTES_MIN: u64 = 64;

/// How files are followed.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// In logs and metrics.
    pub stream: String,
    /// In records.
    pub host: String,
    /// Files that are there at the first start are read from their end.
    pub from_end: bool,
    /// Lines that are JSON objects are records as they are.
    pub is_json: bool,
    /// Bytes of a line; what is longer is cut. At most 1 MiB.
    pub line_bytes_max: usize,
    /// Files open at a time.
    pub open_max: usize,
    /// Bytes of files that a round takes, beside one piece.
    pub round_bytes_max: usize,
    /// A file that was renamed or deleted is let go when it was quiet for so long.
    pub quiet_ms: i64,
    /// A file that no pattern means is forgotten after so long.
    pub forget_ms: i64,
}

/// Lines of one file.
pub(super) struct Batch {
    /// The file's number.
    pub number: u64,
    /// Where the line behind them begins.
    pub to: u64,
    /// Their records, and what holds them.
    pub records: Parsed,
    /// Bytes of the file.
    pub bytes: u64,
    /// Lines that were cut.
    pub cut: u64,
}

/// What is known of a file only while the process runs.
#[derive(Debug, Default)]
struct Live {
    /// Everything before it was read.
    read: u64,
    /// Bytes that it had at the last look, of which nobody knows yet whether they are its own.
    there: u64,
    /// Bytes that it had when they were part of a line and no more came.
    part: u64,
    file: Option<File>,
    /// When a line was read last.
    active_ms: i64,
    /// Since when no name leads to it; 0 while one does.
    gone_ms: i64,
    /// It is gone, and it was decided whether anything is lost.
    is_judged: bool,
    /// It has fewer bytes than were read, or other ones.
    is_over: bool,
    /// Since when its copy is looked for in vain, and in how many looks.
    missed: Option<(i64, u32)>,
    /// No line ends before it, of one that is longer than a piece.
    scanned: u64,
    /// Its bytes and the time of its last change when it was checked last, and when that was.
    checked: (u64, i128, i64),
}

impl Live {
    fn is_gone(&self) -> bool {
        self.gone_ms != 0
    }

    /// Whether there may be lines that were not read.
    fn has_more(&self) -> bool {
        self.there > self.read && self.there != self.part
    }
}

/// Counts for metrics and logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub known: usize,
    pub open: usize,
    /// Bytes that are there and were not read.
    pub behind: u64,
}

/// Files that went before they were read to their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub deleted: u64,
    pub truncated: u64,
    /// Bytes of both that were seen and not read.
    pub bytes: u64,
}

/// Follows the files of a stream.
pub(super) struct Follower {
    rules: Rules,
    patterns: Patterns,
    table: Table,
    live: BTreeMap<u64, Live>,
    draw: Box<dyn FnMut() -> u64 + Send>,
    /// The table has files, or patterns, that the note has not.
    must_note: bool,
    is_changed: bool,
    /// The folders must be listed again, although it is not time.
    is_stale: bool,
    /// Of files that may be copies, and each of their originals by its number: bytes that are known to be the same.
    held: HashMap<(u64, Option<u64>, u64), u64>,
    left_out: LeftOut,
    /// The file that the last round ended with.
    turn: u64,
    lost: Lost,
    scratch: Vec<u8>,
}

impl Follower {
    /// Goes on where the table says.
    pub fn new(rules: Rules, patterns: Patterns, table: Table, draw: Box<dyn FnMut() -> u64 + Send>) -> Self {
        let live = |known: &Known| Live { read: known.offset, ..Live::default() };
        let live = table.files.iter().map(|(number, known)| (*number, live(known))).collect();
        Self {
            rules,
            patterns,
            table,
            live,
            draw,
            must_note: false,
            is_changed: false,
            is_stale: false,
            held: HashMap::new(),
            left_out: LeftOut::default(),
            turn: 0,
            lost: Lost::default(),
            scratch: Vec::new(),
        }
    }

    /// What is known, with offsets up to which lines were appended.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Whether the table must be noted before what was read is appended.
    pub fn must_note(&self) -> bool {
        self.must_note
    }

    /// Whether the table is another one than was noted.
    pub fn is_changed(&self) -> bool {
        self.is_changed || self.must_note
    }

    /// The table was noted.
    pub fn noted(&mut self) {
        (self.must_note, self.is_changed) = (false, false);
    }

    /// Whether folders should be listed before it is time.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// A batch is durable in the log.
    pub fn appended(&mut self, number: u64, to: u64) {
        self.table.reached(number, to);
        self.is_changed = true;
    }

    /// Files that were lost since it was asked last.
    pub fn take_lost(&mut self) -> Lost {
        std::mem::take(&mut self.lost)
    }

    /// Files that the last look left out for this reason.
    pub fn left_out(&self, why: Why) -> usize {
        self.left_out.count(why)
    }

    pub fn counts(&self) -> Counts {
        let behind = self.table.files.iter().filter(|(_, known)| !known.is_lost);
        let behind = behind.map(|(number, known)| {
            let live = &self.live[number];
            known.bytes.max(live.there).saturating_sub(live.read)
        });
        Counts {
            known: self.table.files.len(),
            open: self.live.values().filter(|live| live.file.is_some()).count(),
            behind: behind.sum(),
        }
    }

    /// Looks at the folders. `now_ms` never jumps while the process runs.
    pub fn scan(&mut self, now_ms: i64) {
        self.is_stale = false;
        self.left_out.begin();
        let Look { found, problems, not_utf8 } = self.patterns.found();
        problems.into_iter().for_each(|problem| self.leave_out(Why::Unreadable, problem));
        not_utf8.iter().for_each(|_| self.left_out.add(Why::NotUtf8));
        let mut scan = Scan::new(found);
        let numbers: Vec<u64> = self.table.files.keys().copied().collect();
        for number in &numbers {
            self.locate(*number, &mut scan, now_ms);
        }
        for number in numbers {
            if self.live[&number].is_over {
                self.replaced(number, &mut scan, now_ms);
            }
        }
        let is_first = |pattern: usize| !self.table.begun.contains(&self.patterns.include[pattern]);
        let firsts: Vec<bool> = (0..self.patterns.include.len()).map(is_first).collect();
        let unknown: Vec<Found> = scan.unknown().cloned().collect();
        for found in &unknown {
            self.meet(found, firsts[found.pattern] && self.rules.from_end, now_ms);
        }
        let is_there = |device, inode| {
            unknown.iter().any(|found| (found.node.device, found.node.inode) == (device, inode))
        };
        self.held.retain(|(_, device, inode), _| is_there(*device, *inode));
        self.must_note |= self.table.begin(&self.patterns.include);
        self.forget(now_ms);
        self.warn(not_utf8.first());
    }

    /// Logs what the look has left out, if that is news.
    fn warn(&mut self, not_utf8: Option<&PathBuf>) {
        let stream = &self.rules.stream;
        if let Some(count) = self.left_out.should_warn(Why::NoRoom) {
            tracing::warn!(
                stream,
                files = count,
                known = self.table.files.len(),
                "{count} files wait, because a stream knows as many files as its note can name: {} MiB, now {} files. They are read once known ones have been gone \
                 for a day; let `paths` match fewer files, or follow some of them in another stream",
                NOTE_BYTES_MAX.div_ceil(1 << 20),
                self.table.files.len()
            );
        }
        if let Some(count) = self.left_out.should_warn(Why::NotUtf8)
            && let Some(first) = not_utf8
        {
            let name = names::escaped(first);
            tracing::warn!(
                stream,
                files = count,
                "{count} files or folders are not followed, because their names are not UTF-8, and the paths match them: the first is `{name}`; rename it \
                 (`mv $'{name}' NEW`, in bash), or choose a pattern that does not match it"
            );
        }
    }

    /// Where a known file is now.
    fn locate(&mut self, number: u64, scan: &mut Scan, now_ms: i64) {
        let known = self.table.files.get_mut(&number).expect("a number of the table");
        let live = self.live.entry(number).or_default();
        if live.active_ms == 0 {
            live.active_ms = now_ms;
        }
        let node = known.identity.node();
        let place = match scan.take(node) {
            Some(found) => {
                known.missing_ms = 0;
                Some((found.path.clone(), found.bytes))
            }
            None => {
                // A later time is of a process whose clock was ahead.
                if known.missing_ms == 0 || known.missing_ms > now_ms {
                    (known.missing_ms, self.is_changed) = (now_ms.max(1), true);
                }
                scan.elsewhere(&known.at, node)
            }
        };
        match place {
            Some((path, bytes)) => {
                if known.at != path {
                    tracing::info!(
                        stream = self.rules.stream,
                        file = known.path,
                        now = path,
                        "a file was renamed"
                    );
                    (known.at, self.is_changed) = (path, true);
                }
                (live.gone_ms, live.is_judged, known.is_lost) = (0, false, false);
                live.there = bytes;
                live.is_over |= bytes < live.read.max(known.identity.covers());
            }
            None => {
                if live.gone_ms == 0 {
                    live.gone_ms = now_ms.max(1);
                }
                // Folders are not listed in one moment, and a file that is being renamed may be in none of them.
                if live.file.is_none() && !live.is_judged && now_ms - live.gone_ms >= GONE_MS {
                    live.is_judged = true;
                    // It may have been copied before it was deleted.
                    let wanted = Copied { bytes_min: COPY_BYTES_MIN, ..self.copied(number) };
                    match self.find_copy(&wanted, scan) {
                        Some(copy) => self.adopt(number, copy, scan),
                        None => self.count_deleted(number),
                    }
                }
            }
        }
    }

    /// Counts a file that is gone if it was not read to its end.
    fn count_deleted(&mut self, number: u64) {
        let known = self.table.files.get_mut(&number).expect("a number of the table");
        let live = &self.live[&number];
        let bytes = known.bytes.max(live.there).saturating_sub(live.read);
        if !known.is_lost && bytes > 0 {
            (known.is_lost, self.is_changed) = (true, true);
            tracing::error!(
                stream = self.rules.stream,
                file = known.path,
                position = live.read,
                bytes,
                "a file was deleted before it was read to its end; those bytes are lost unless it comes back"
            );
            self.lost.deleted += 1;
            self.lost.bytes += bytes;
        }
    }

    /// A file that is not known.
    fn meet(&mut self, found: &Found, from_end: bool, now_ms: i64) {
        let opened = File::open(&found.path).and_then(|file| Ok((Identity::of(&file)?, file)));
        let (identity, file) = match opened {
            Ok(opened) => opened,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                return self
                    .leave_out(Why::Unreadable, format!("file `{}` cannot be opened: {error}", found.path));
            }
        };
        if !identity.node().is(&found.node) {
            // The name was given to another file since it was listed, perhaps to one that is known.
            self.is_stale = true;
            return;
        }
        if identity.covers() == 0 || self.is_copy(found, &file) {
            return;
        }
        if is_compressed(&file) {
            return self
                .leave_out(Why::Compressed, format!("file `{}` is compressed, and is left out", found.path));
        }
        if !self.table.has_room_for(2 * found.path.len()) {
            return self.left_out.add(Why::NoRoom);
        }
        let offset = if from_end { last_line(&file, self.rules.line_bytes_max) } else { 0 };
        let number = (self.draw)();
        tracing::info!(
            stream = self.rules.stream,
            file = found.path,
            position = offset,
            "a file is followed"
        );
        let known = Known {
            path: found.path.clone(),
            at: found.path.clone(),
            identity,
            offset,
            bytes: found.bytes,
            met_ms: now_ms,
            missing_ms: 0,
            is_lost: false,
            mark: Mark::default(),
        };
        self.table.files.insert(number, known);
        // It is opened again when its turn comes.
        self.live
            .insert(number, Live { read: offset, there: found.bytes, active_ms: now_ms, ..Live::default() });
        self.must_note = true;
    }

    fn forget(&mut self, now_ms: i64) {
        let Self { table, live, rules, .. } = self;
        let before = table.files.len();
        table.files.retain(|number, known| {
            let live = &live[number];
            let is_missing = known.missing_ms != 0 && now_ms - known.missing_ms > rules.forget_ms;
            let is_read = known.is_lost || live.read >= known.bytes;
            !(is_missing && is_read && live.file.is_none())
        });
        live.retain(|number, _| table.files.contains_key(number));
        self.is_changed |= table.files.len() != before;
    }

    /// Counts a file that the look has left out, and logs why, once.
    fn leave_out(&mut self, why: Why, problem: String) {
        self.left_out.add(why);
        self.complain(why, problem);
    }

    /// Logs a problem, once.
    fn complain(&mut self, why: Why, problem: String) {
        if let Some(logged) = self.left_out.complaint(why, problem) {
            tracing::warn!(stream = self.rules.stream, "{logged}");
        }
    }
}

#[cfg(test)]
mod tests;
