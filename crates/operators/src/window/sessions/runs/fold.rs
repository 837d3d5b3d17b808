//! Parts of sessions in several runs, put together by their times.
//!
//! Owns which parts of a key are one session, which of its sessions are closed, and the bytes of a part's key in a run. Does not own which runs there are (`sessions::runs`), nor
//! what the parts hold.
//!
//! Records that are less than the gap from each other are of one session whatever came first, unless one of them came when the session of the other was closed already. That
//! takes a record of before the watermark less the lateness, a *suspect*: every other record is so near to the watermark that whatever it is near to is open. Where a suspect that
//! counts is near to a closed session, a *cut* keeps the two apart: of what came before, the parts that end up to its time are sessions of their own.

use std::collections::BTreeMap;

use super::super::chains::Span;

/// A part of a session, or a whole one, and the numbers of the parts it is made of.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub span: Span,
    pub of: Vec<u32>,
}

/// Puts parts together that are near to each other.
pub(super) fn join(mut parts: Vec<Whole>, gap: i64) -> Vec<Whole> {
    parts.sort_by_key(|part| part.span.first);
    let mut joined: Vec<Whole> = Vec::with_capacity(parts.len());
    for part in parts {
        match joined.last_mut().filter(|last| last.span.is_near(part.span, gap)) {
            Some(last) => {
                last.span.last = last.span.last.max(part.span.last);
                last.of.extend(part.of);
            }
            None => joined.push(part),
        }
    }
    joined
}

/// Times up to which earlier parts of keys are kept apart from later ones.
pub(super) type Cuts = BTreeMap<Vec<u8>, i64>;

/// The key of a part in a run.
pub(in crate::window::sessions) fn entry(key: &[u8], span: Span) -> Vec<u8> {
    [key, &span.first.to_le_bytes(), &span.last.to_le_bytes()].concat()
}

/// The key and the bounds of a part by its key in a run.
pub(super) fn split(entry: &[u8]) -> (&[u8], Span) {
    let (key, span) = entry.split_at(entry.len() - 16);
    let bound = |at: usize| i64::from_le_bytes(span[at..at + 8].try_into().expect("eight of sixteen bytes"));
    (key, Span { first: bound(0), last: bound(8) })
}
