//! Which letters a replay takes, and the records that they become.
//!
//! Owns the choice: oldest first, up to the limit, leaving out what an earlier replay has taken, what the pipeline reads anew (`dead_letters::anew`), and what is
//! not one row of a record of several. Does not own the log.

use dataflow::block::{
    ERA_HEADER, ITEM_HEADER, STREAM_HEADER, TABLE_HEADER, TIME_UNKNOWN_MS, TOMBSTONE_HEADER, push_header,
};
use pipeline::replays::STREAM;
use pipeline::replays::memory::Memory;
use pipeline::replays::object::{BYTES_MAX, RECORDS_MAX, Replayed};
use pipeline::replays::source::{INPUT_HEADER, ORIGIN_HEADER};

use super::Table;
use super::letters::{Head, Whole, is_of_step};

/// Letters that are named as replayed already; further ones are counted.
const NAMED_MAX: usize = 10_000;

/// Headers that say where a letter's record stood and what became of it: its record in the replay log stands elsewhere.
const OF_LETTERS: [&str; 5] = [ERA_HEADER, ITEM_HEADER, STREAM_HEADER, TABLE_HEADER, TOMBSTONE_HEADER];

/// What the filters name.
#[derive(Debug, Default)]
pub struct Choice {
    /// To be replayed.
    pub fresh: Vec<Head>,
    /// Taken by an earlier replay, up to a bound.
    pub already: Vec<Head>,
    /// Those and further ones.
    pub already_count: u64,
    /// Of records that are read anew, so that a replay would write them a second time; up to a bound.
    pub anew: Vec<Head>,
    /// Those and further ones.
    pub anew_count: u64,
    /// Of records that hold several rows, and of which the letter is not one row alone: a replay would write the others once more.
    pub of_several_count: u64,
    /// True if the limit left some out.
    pub has_more: bool,
}

/// Looks through the letters that the condition names. `is_of_several` says of a letter that names no row whether its record may hold several.
///
/// # Errors
/// When the table cannot be read.
pub async fn choose(
    table: &Table,
    condition: &str,
    memory: &Memory,
    (again, limit): (bool, usize),
    is_of_several: &dyn Fn(&Head) -> bool,
) -> anyhow::Result<Choice> {
    let mut choice = Choice::default();
    // Two letters of one record (a table that two stores have filled) are one replay.
    let mut chosen = pipeline::replays::taken::Taken::default();
    let mut pages = table.pages(condition).await?;
    let mut of_steps = 0_u64;
    loop {
        let heads = pages.next().await?;
        if heads.is_empty() {
            if of_steps > 0 {
                tracing::warn!(
                    letters = of_steps,
                    "dead letters that a step made of several records are left out: they are rows and no records; insert their `raw` as JSONEachRow"
                );
            }
            return Ok(choice);
        }
        for mut head in heads {
            if is_of_step(&head.letter.source) {
                of_steps += 1;
                continue;
            }
            if head.item() == 0 && is_of_several(&head) {
                choice.of_several_count += 1;
                continue;
            }
            if table.anew.judge(&mut head) && !again {
                choice.anew_count += 1;
                if choice.anew.len() < NAMED_MAX {
                    choice.anew.push(head);
                }
                continue;
            }
            let is_taken = !again && memory.taken.holds(&head.letter);
            if is_taken || !chosen.add(&head.letter) {
                choice.already_count += 1;
                if choice.already.len() < NAMED_MAX {
                    choice.already.push(head);
                }
            } else if choice.fresh.len() < limit {
                choice.fresh.push(head);
            } else {
                choice.has_more = true;
                return Ok(choice);
            }
        }
    }
}

/// A letter's record as it was, its first place and its input. `input_of` gives the input of a topic or file; empty where there is only one.
pub fn record(whole: &Whole, input_of: &dyn Fn(&str) -> String) -> Replayed {
    let head = &whole.head;
    // The last header of that name was added by the replay in which the record failed, and the next one adds it again.
    let is_origin = |(name, _): &(Vec<u8>, Vec<u8>)| name.as_slice() == ORIGIN_HEADER.as_bytes();
    let ours = whole.headers.iter().rposition(is_origin).filter(|_| head.letter.source == STREAM);
    let named = ours
        .and_then(|ours| ours.checked_sub(1))
        .filter(|at| whole.headers[*at].0 == INPUT_HEADER.as_bytes());
    let mut headers = Vec::new();
    let mut origin = head.letter.to_string();
    let mut input = if ours.is_none() { input_of(&head.letter.source) } else { String::new() };
    for (at, (name, value)) in whole.headers.iter().enumerate() {
        if Some(at) == ours {
            origin = String::from_utf8_lossy(value).into_owned();
        } else if Some(at) == named {
            input = String::from_utf8_lossy(value).into_owned();
        } else if !OF_LETTERS.map(str::as_bytes).contains(&name.as_slice()) {
            push_header(&mut headers, &String::from_utf8_lossy(name), Some(value));
        }
    }
    let is_tombstone = head.reason == dataflow::Reason::NoBody.as_str()
        || whole.headers.iter().any(|(name, _)| name.as_slice() == TOMBSTONE_HEADER.as_bytes());
    let has_body = !(whole.raw.is_empty() && is_tombstone);
    Replayed {
        letter: Some(head.letter.clone()),
        origin,
        time_ms: whole.record_time_ms.unwrap_or(TIME_UNKNOWN_MS),
        key: whole.key.clone(),
        headers,
        body: has_body.then(|| whole.raw.clone()),
        reason: head.reason.clone(),
        input,
        item: head.item(),
    }
}

/// Cuts letters into pieces that are one object of the log each, by what their bodies weigh.
pub fn pieces(heads: &[Head]) -> Vec<&[Head]> {
    let mut pieces = Vec::new();
    let (mut begin, mut bytes) = (0, 0);
    for (at, head) in heads.iter().enumerate() {
        let is_full = at - begin >= RECORDS_MAX || bytes + head.raw_bytes > BYTES_MAX as u64;
        if at > begin && is_full {
            pieces.push(&heads[begin..at]);
            (begin, bytes) = (at, 0);
        }
        bytes += head.raw_bytes;
    }
    if begin < heads.len() {
        pieces.push(&heads[begin..]);
    }
    pieces
}

#[cfg(test)]
mod tests;
