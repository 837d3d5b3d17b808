//! What the records of a lane say of each object: which parts it has, and how long it is.
//!
//! Owns the list, in which a part stands once however many records speak of it. Does not own whether the object is there and whole (`inspect::look`).

use std::collections::BTreeMap;

use protocol::record::{Body, Frame, StateDelta};
use protocol::{Lane, Record};

/// A part of an object, as a record describes it.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Frame(Frame),
    Delta(StateDelta),
    Whole { step: u32, len: u64, crc32c: u32 },
    File { step: u32, len: u64 },
}

/// The parts of every object that records point to, with the object's length where a seal tells it.
#[derive(Default)]
pub(super) struct Parts(pub(super) BTreeMap<String, (Option<u64>, Vec<Part>)>);

impl Parts {
    fn add(&mut self, object: &str, bytes: Option<u64>, parts: impl IntoIterator<Item = Part>) {
        let entry = self.0.entry(object.to_owned()).or_default();
        entry.0 = entry.0.or(bytes);
        for part in parts {
            let at = place(&part);
            if !entry.1.iter().any(|known| place(known) == at) {
                entry.1.push(part);
            }
        }
    }

    pub(super) fn of_record(&mut self, record: &Record) {
        match &record.body {
            Some(Body::Seal(seal)) if !seal.segment.is_empty() => {
                let frames = seal.frames.iter().cloned().map(Part::Frame);
                let parts = frames.chain(seal.states.iter().copied().map(Part::Delta));
                self.add(&seal.segment, Some(seal.segment_bytes), parts);
            }
            Some(Body::Split(split)) => {
                self.add(&split.segment, None, split.pieces.iter().cloned().map(Part::Frame));
            }
            _ => {}
        }
    }

    pub(super) fn of_lane(&mut self, lane: &Lane) {
        for piece in lane.tables.iter().flat_map(|t| t.pending.iter().flatten()) {
            self.add(&piece.segment, None, [Part::Frame(piece.frame.clone())]);
        }
        for delta in &lane.deltas {
            self.add(&delta.segment, None, delta.delta.map(Part::Delta));
        }
        for s in &lane.snapshots {
            self.add(&s.object, Some(s.len), [Part::Whole { step: s.step, len: s.len, crc32c: s.crc32c }]);
        }
        for f in &lane.files {
            self.add(&f.object, Some(f.len), [Part::File { step: f.step, len: f.len }]);
        }
    }
}

fn place(part: &Part) -> (u64, u64) {
    match part {
        Part::Frame(frame) => (frame.offset, frame.len),
        Part::Delta(delta) => (delta.offset, delta.len),
        Part::Whole { len, .. } | Part::File { len, .. } => (0, *len),
    }
}

/// Where the last of the parts ends.
pub(super) fn end(parts: &[Part]) -> u64 {
    parts.iter().map(place).map(|(offset, len)| offset.saturating_add(len)).max().unwrap_or(0)
}
