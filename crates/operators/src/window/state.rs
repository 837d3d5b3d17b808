//! The bytes of deltas and snapshots.
//!
//! Owns their form, which later versions must read (golden bytes in the tests), and every check on the way in: lengths before anything is
//! allocated, the checksum before anything is believed. Both kinds have one form; numbers are little-endian. Does not own what is in the
//! windows (`window::open`), the bytes of an accumulator (`window::accumulator`), nor those of files (`spilled::file`).
//!
//! | field      | bytes | meaning                                                                        |
//! |------------|-------|--------------------------------------------------------------------------------|
//! | magic      | 4     | `FBWN`                                                                         |
//! | version    | 2     | 3; 5 of a snapshot with spilled panes, and of a delta of a step that has any; 6 of the first delta of a step with results before windows close; in place of 5, 7 of sessions and 8 of such a step |
//! | kind       | 1     | 1 snapshot: what the windows hold; 2 delta: what one seal brought into them    |
//! | –          | 1     | 0                                                                              |
//! | shape      | 4     | length; then the step's settings in words                                      |
//! | watermark  | 8     | of the seal; windows that it closes are in neither kind, but in a delta of version 5 or 8 |
//! | panes      | 4     | how many; then for each what the next table says, the earliest first           |
//! | firing     |       | of a snapshot of a step with results before windows close: see below           |
//! | early      | 1     | of a delta of such a step: 1 if every open window has results with it          |
//! | before     | 8     | of version 6 and 8: the number behind which that of the seal is; in version 8 it may be 0, for none |
//! | spilled    |       | of version 5 and 8: what `spilled::marks` writes; of version 7: what `sessions::runs::marks` does |
//! | checksum   | 8     | XXH3-64 of all before it                                                       |
//!
//! | firing     | bytes   | meaning                                                                      |
//! |------------|---------|------------------------------------------------------------------------------|
//! | seals      | 8       | the number of the newest                                                     |
//! | windows    | 4       | open ones that have had results; then of each its end (8) and the seal that it last had some in (8) |
//! | groups     | 8 each  | of all panes, as above: the seal that each last had rows in                  |
//! | results    |         | of a step with a sign: what `written` writes, the groups that windows were written with, by the end of each |
//!
//! | pane       | bytes   | meaning                                                                      |
//! |------------|---------|------------------------------------------------------------------------------|
//! | start      | 8       | Unix milliseconds                                                            |
//! | groups     | 4       | how many                                                                     |
//! | ends       | 8 each  | of the keys, if they differ in length                                        |
//! | keys       |         | one after the other                                                          |
//! | spans      | 16 each | of sessions alone: the times of their first records, then those of their last |
//! | counts     | 8 each  | rows                                                                         |
//! | floats     |         | what `accumulator::fused` keeps: 8 for each of its lanes of each group        |
//! | aggregates |         | of each other that keeps anything: what `accumulator` writes, mostly a bit for each group that is 1 if it has a value, then its columns; values of any length stand behind their length (4) |

use bytes::Bytes;
use dataflow::StateError;
use xxhash_rust::xxh3::xxh3_64;

use super::aggregate::Bound;
use super::encoding::{Reader, damaged, put_len};
use super::in_files::{InFiles, Marks};
use super::open::Open;
use super::plan::Plan;
use super::spilled::Sizes;

const MAGIC: [u8; 4] = *b"FBWN";

/// The newest version that is read: that of states with spilled panes and results before windows close.
pub const VERSION: u16 = 8;

/// That of states with sessions in files.
const VERSION_WITH_SESSIONS: u16 = 7;

/// That of a first delta, which says where the numbers of seals begin.
const VERSION_WITH_NUMBER: u16 = 6;

/// That of states with spilled panes. Version 4 had them in another form.
const VERSION_WITH_FILES: u16 = 5;

/// Of all others, so that an earlier program can read them.
const VERSION_WITHOUT_FILES: u16 = 3;

const CHECKSUM: usize = 8;

/// Which of the two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All of the state.
    Snapshot = 1,
    /// What one seal changed.
    Delta = 2,
}

/// A snapshot of these windows.
pub(super) fn snapshot(plan: &Plan, watermark_ms: i64, open: &Open, in_files: &InFiles) -> Bytes {
    let mut to = head(Kind::Snapshot, plan, watermark_ms);
    open.write(plan, watermark_ms, false, &mut to);
    if plan.emit.is_some() {
        open.write_firing(plan, &mut to);
    }
    if !in_files.is_empty() {
        set_version(&mut to, version_with_files(plan));
        in_files.write(plan, &mut to);
    }
    finish(to)
}

/// Begins the delta of a seal, of what came with it. Closed panes are left out unless the step `has_spilled` any, for then their results may not be in
/// the seal.
pub(super) fn begin_delta(plan: &Plan, watermark_ms: i64, fresh: &Open, has_spilled: bool) -> Vec<u8> {
    let mut to = head(Kind::Delta, plan, watermark_ms);
    fresh.write(plan, watermark_ms, has_spilled, &mut to);
    if plan.emit.is_some() {
        to.push(u8::from(fresh.is_early()));
        if fresh.seals() != 0 {
            set_version(&mut to, VERSION_WITH_NUMBER);
            to.extend_from_slice(&fresh.seals().to_le_bytes());
        }
    }
    to
}

/// Ends it; `has_spilled` if any pane has generations, for then closed ones may be in it.
pub(super) fn finish_delta(plan: &Plan, mut to: Vec<u8>, marks: &Marks, has_spilled: bool) -> Bytes {
    if has_spilled || !marks.is_empty() {
        if plan.emit.is_some() && version_of(&to) != VERSION_WITH_NUMBER {
            to.extend_from_slice(&0_u64.to_le_bytes());
        }
        set_version(&mut to, version_with_files(plan));
        marks.write(plan, &mut to);
    }
    finish(to)
}

fn head(kind: Kind, plan: &Plan, watermark_ms: i64) -> Vec<u8> {
    let shape = plan.shape.as_str();
    let mut to = Vec::with_capacity(64 + shape.len());
    to.extend_from_slice(&MAGIC);
    to.extend_from_slice(&VERSION_WITHOUT_FILES.to_le_bytes());
    to.extend_from_slice(&[kind as u8, 0]);
    put_len(&mut to, shape.len());
    to.extend_from_slice(shape.as_bytes());
    to.extend_from_slice(&watermark_ms.to_le_bytes());
    to
}

/// That of states of which something is in files.
fn version_with_files(plan: &Plan) -> u16 {
    match (plan.has_sessions(), plan.emit) {
        (true, _) => VERSION_WITH_SESSIONS,
        (false, Some(_)) => VERSION,
        (false, None) => VERSION_WITH_FILES,
    }
}

fn version_of(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[MAGIC.len()], bytes[MAGIC.len() + 1]])
}

fn set_version(to: &mut [u8], version: u16) {
    to[MAGIC.len()..MAGIC.len() + 2].copy_from_slice(&version.to_le_bytes());
}

fn finish(mut to: Vec<u8>) -> Bytes {
    let checksum = xxh3_64(&to);
    to.extend_from_slice(&checksum.to_le_bytes());
    to.into()
}

/// A snapshot as it is read: the watermark of its seal, the windows, and what is in files.
///
/// # Errors
/// When the bytes are damaged, too new, of the other kind, or of a step with other settings.
pub(super) fn parse_snapshot(
    bytes: &[u8],
    plan: &Plan,
    sizes: Sizes,
) -> Result<(i64, Open, InFiles), StateError> {
    let (from, version) = parse(bytes, Kind::Snapshot, plan)?;
    of_snapshot(from, version, plan, sizes).map_err(|error| explained(error, plan))
}

fn of_snapshot(
    mut from: Reader<'_>,
    version: u16,
    plan: &Plan,
    sizes: Sizes,
) -> Result<(i64, Open, InFiles), StateError> {
    let watermark_ms = i64::from_le_bytes(from.array()?);
    let mut open = Open::read(plan, watermark_ms, false, &mut from)?;
    if plan.emit.is_some() {
        open.read_firing(plan, &mut from)?;
    }
    let in_files = match version == version_with_files(plan) {
        true => InFiles::read(plan, sizes, watermark_ms, &mut from)?,
        false => InFiles::new(plan, sizes),
    };
    check_end(&from)?;
    Ok((watermark_ms, open, in_files))
}

/// A delta as it is read.
///
/// # Errors
/// As [`parse_snapshot`].
pub(super) fn parse_delta(bytes: &[u8], plan: &Plan) -> Result<(i64, Open, Marks), StateError> {
    let (from, version) = parse(bytes, Kind::Delta, plan)?;
    of_delta(from, version, plan).map_err(|error| explained(error, plan))
}

fn of_delta(mut from: Reader<'_>, version: u16, plan: &Plan) -> Result<(i64, Open, Marks), StateError> {
    let has_marks = version == version_with_files(plan);
    let watermark_ms = i64::from_le_bytes(from.array()?);
    let mut open = Open::read(plan, watermark_ms, has_marks, &mut from)?;
    if plan.emit.is_some() {
        open.set_early(from.take(1)? == [1]);
        if has_marks || version == VERSION_WITH_NUMBER {
            open.set_seals(u64::from_le_bytes(from.array()?));
        }
    }
    let marks = if has_marks { Marks::read(plan, &mut from)? } else { Marks::none(plan) };
    check_end(&from)?;
    Ok((watermark_ms, open, marks))
}

/// The checksum is right, and the settings are those that the state was written with. What their words do not say is whether a Float may be NULL, and it is kept in
/// another form if it may.
fn explained(error: StateError, plan: &Plan) -> StateError {
    match error {
        StateError::Damaged(what) if plan.aggregates.iter().any(Bound::is_plain_float) => {
            StateError::Damaged(format!(
                "{what} (if a Float column that the step aggregates became Nullable, or is not Nullable any more, nothing is damaged: give it its earlier type)"
            ))
        }
        other => other,
    }
}

fn check_end(from: &Reader<'_>) -> Result<(), StateError> {
    if from.0.is_empty() { Ok(()) } else { Err(damaged("continues behind its end")) }
}

/// What stands behind the shape, and the version.
fn parse<'a>(bytes: &'a [u8], kind: Kind, plan: &Plan) -> Result<(Reader<'a>, u16), StateError> {
    let shape = plan.shape.as_str();
    let (body, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or_else(|| damaged("is too short"))?;
    if xxh3_64(body) != u64::from_le_bytes(*checksum) {
        return Err(damaged("has another checksum"));
    }
    let mut from = Reader(body);
    if from.take(4)? != MAGIC {
        return Err(damaged("does not begin as one"));
    }
    let version = u16::from_le_bytes(from.array()?);
    if version > VERSION {
        return Err(StateError::TooNew { found: version, known: VERSION });
    }
    let known =
        [VERSION_WITHOUT_FILES, VERSION_WITH_FILES, VERSION_WITH_NUMBER, VERSION_WITH_SESSIONS, VERSION];
    if !known.contains(&version) {
        let way_out = "only an older program can continue with it; this one needs a new name for the pipeline, under which it reads its source from the start"
            .to_owned();
        let words = |version: u16| format!("version `{version}` of the state of a window");
        return Err(StateError::Configured {
            was: words(version),
            now: words(VERSION_WITHOUT_FILES),
            way_out,
        });
    }
    if from.take(2)? != [kind as u8, 0] {
        return Err(damaged("is of another kind"));
    }
    let len = from.len()?;
    let was = String::from_utf8_lossy(from.take(len)?);
    if was != shape {
        let way_out = "a window that is changed would mix results of both: put the old settings back, or give the pipeline a new name, which \
                       reads its source from the start again"
            .to_owned();
        return Err(StateError::Configured { was: was.into_owned(), now: shape.to_owned(), way_out });
    }
    Ok((from, version))
}

#[cfg(test)]
mod tests;
