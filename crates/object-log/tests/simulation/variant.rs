//! Logs that are broken on purpose, to show that the oracle would notice.
//!
//! Owns the list, and the bytes that lie. Does not own where a variant takes hold (`store`, `actors`), nor the rules that catch it
//! (`oracle`).

use bytes::Bytes;
use object_log::Root;
use object_log::acks::Ack;
use prost::Message;

/// A way to break the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The store answers a swap that has no answer as if it were done.
    LostSwapIsDone,
    /// And one that was refused.
    RefusedSwapIsDone,
    /// The store replaces the root whatever its tag is.
    TagIgnored,
    /// An upload without an answer counts as there.
    LostPutIsCreated,
    /// An object is stored without its last byte.
    HalfAnObject,
    /// All processes draw the same random numbers.
    SameRandom,
    /// A manifest segment loses its last entry.
    SegmentLosesAnEntry,
    /// Retention sees acknowledgements one further than they are.
    AckOneAhead,
    /// The watermarks of producers are forgotten when the root is read.
    WatermarksForgotten,
    /// A producer sends again under a new ordinal what had no answer.
    RepeatIsAnotherAppend,
    /// A producer is answered once its append was handed over.
    AnsweredEarly,
    /// A consumer acknowledges what it has fetched and not yet done.
    AcknowledgedEarly,
    /// A consumer goes on at its position in a log that was created again.
    IdentityIgnored,
    /// A collector takes what no root names for garbage, whoever may still commit it.
    SweepsThePresent,
    /// The owner's clock is a day ahead, and nobody bounds it.
    ClockADayAhead,
    /// An owner knows no name that another one has taken.
    LabelsForgotten,
    /// An owner reads the names of others before its claim, while they still add to them.
    LabelsBeforeClaim,
    /// Names are known for half of their time.
    NamesEndEarly,
    /// Records go once they are acknowledged, although their names are still needed.
    KeptTooShort,
    /// Half of the bytes are kept that are to be kept.
    HalfTheBytes,
    /// A note counts as if it knew of appends that were under way.
    NoteAhead,
    /// Nothing keeps the labels behind a note.
    NotPinned,
    /// Lines of a file are appended before the file is noted.
    FileNotNoted,
}

impl Variant {
    pub const ALL: [Self; 23] = [
        Self::LostSwapIsDone,
        Self::RefusedSwapIsDone,
        Self::TagIgnored,
        Self::LostPutIsCreated,
        Self::HalfAnObject,
        Self::SameRandom,
        Self::SegmentLosesAnEntry,
        Self::AckOneAhead,
        Self::WatermarksForgotten,
        Self::RepeatIsAnotherAppend,
        Self::AnsweredEarly,
        Self::AcknowledgedEarly,
        Self::IdentityIgnored,
        Self::SweepsThePresent,
        Self::ClockADayAhead,
        Self::LabelsForgotten,
        Self::LabelsBeforeClaim,
        Self::NamesEndEarly,
        Self::KeptTooShort,
        Self::HalfTheBytes,
        Self::NoteAhead,
        Self::NotPinned,
        Self::FileNotNoted,
    ];
}

fn framed(magic: [u8; 4], message: &impl Message) -> Bytes {
    let mut bytes = magic.to_vec();
    message.encode(&mut bytes).expect("grows");
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.into()
}

/// An acknowledgement of one record more.
pub fn acked_ahead(bytes: Bytes) -> Bytes {
    let mut ack = Ack::from_bytes(&bytes).expect("an acknowledgement");
    ack.position += 1;
    ack.to_bytes().into()
}

/// A root that knows no producer.
pub fn without_watermarks(bytes: Bytes) -> Bytes {
    let mut root = Root::from_bytes(&bytes).expect("a root");
    root.producers.clear();
    framed(object_log::root::MAGIC, &root)
}

/// A segment with one entry less, as whole as any.
pub fn shorter(bytes: Bytes) -> Bytes {
    let body = &bytes[4..bytes.len() - 4];
    let mut segment = object_log::segment::Segment::decode(body).expect("a segment");
    if segment.entries.len() > 1 {
        segment.entries.pop();
    }
    framed(object_log::segment::MAGIC, &segment)
}
