//! Names that must never collide: frames, tokens, query ids, objects.
//!
//! Owns their derivation. Does not own when an object of a name comes and goes (`engine::objects`, `protocol::retire`), nor the objects of
//! a replay log (`replays`). A frame's name comes from its claim's random nonce, so two lanes, two owners, or a store that was rolled back
//! to a backup never make the same name twice (C3).

use xxhash_rust::xxh3::xxh3_128;

/// The name of a frame: from the claim's nonce, the table, a number that the owner uses once, and the piece.
pub fn frame_id(nonce: u128, table: u32, number: u64, piece: u32) -> u128 {
    let mut key = [0u8; 32];
    key[..16].copy_from_slice(&nonce.to_le_bytes());
    key[16..20].copy_from_slice(&table.to_le_bytes());
    key[20..28].copy_from_slice(&number.to_le_bytes());
    key[28..].copy_from_slice(&piece.to_le_bytes());
    xxh3_128(&key)
}

/// The deduplication token of a frame in a generation.
pub fn token(frame_id: u128, generation: u32) -> String {
    format!("forebay-{frame_id:032x}-g{generation}")
}

/// What every query id of a frame's attempts begins with.
pub fn query_prefix(frame_id: u128) -> String {
    format!("forebay-{frame_id:032x}-")
}

/// The query id of one attempt.
pub fn query_id(frame_id: u128, generation: u32, attempt: u64) -> String {
    format!("forebay-{frame_id:032x}-g{generation}-a{attempt}")
}

/// The folder of a lane, from the pipeline's name.
pub fn lane_folder(pipeline: &str, lane: u32) -> String {
    format!("{pipeline}/lane-{lane}")
}

/// The object of a journal record.
pub fn journal(lane: &str, seq: u64) -> String {
    format!("{lane}/journal/{seq:020}")
}

/// The object of a segment: the epoch keeps two owners apart, the nonce two claims of one epoch in a restored store.
pub fn segment(lane: &str, epoch: u64, nonce: u128, number: u64) -> String {
    format!("{lane}/segments/{epoch:010}-{:08x}-{number:010}", nonce as u32)
}

/// The object that holds the pieces of a split frame.
pub fn split(lane: &str, epoch: u64, nonce: u128, number: u64) -> String {
    format!("{lane}/splits/{epoch:010}-{:08x}-{number:010}", nonce as u32)
}

/// The object of a state snapshot.
pub fn snapshot(lane: &str, epoch: u64, nonce: u128, seq: u64, step: u32) -> String {
    format!("{lane}/state/{epoch:010}-{:08x}-{seq:020}-{step}", nonce as u32)
}

/// A file of a step's state.
pub fn run(lane: &str, epoch: u64, nonce: u128, number: u64) -> String {
    format!("{lane}/runs/{epoch:010}-{:08x}-{number:010}", nonce as u32)
}

/// The object that raises the floor to `seq`.
pub fn floor(lane: &str, seq: u64) -> String {
    format!("{lane}/floor/{seq:020}")
}

/// The epoch of the owner that made an object of one of the [`crate::retire::KINDS`].
pub fn epoch(object: &str) -> Option<u64> {
    let digits = object.rsplit('/').next()?.split('-').next()?;
    (digits.len() == 10).then(|| digits.parse().ok())?
}

/// The number at the end of a journal's or floor's object.
pub fn number(object: &str) -> Option<u64> {
    let digits = object.rsplit('/').next()?;
    (digits.len() == 20).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_in_every_part() {
        let base = frame_id(1, 0, 0, 0);
        for other in [frame_id(2, 0, 0, 0), frame_id(1, 1, 0, 0), frame_id(1, 0, 1, 0), frame_id(1, 0, 0, 1)]
        {
            assert_ne!(base, other);
        }
        assert_ne!(token(base, 0), token(base, 1));
    }

    #[test]
    fn names_are_golden() {
        assert_eq!(token(frame_id(7, 1, 2, 0), 3), "forebay-521c5916a49237d29dcaf08881380e25-g3");
    }

    #[test]
    fn objects_sort_by_number_and_give_it_back() {
        let (a, b) = (journal("p/lane-0", 9), journal("p/lane-0", 10));
        assert!(a < b);
        assert_eq!(number(&b), Some(10));
        assert_eq!(number("p/lane-0/journal/x"), None);
        assert_eq!(epoch(&segment("p/lane-0", 12, 7, 9)), Some(12));
        assert_eq!(epoch(&b), None);
    }
}
