//! Frames: a command, and behind some commands an entry.
//!
//! Owns lengths, magic numbers and the checksum. Does not own sockets (`connection`), nor what an entry holds (`entry`).
//!
//! ```text
//! total size, command size, command                                        a simple command
//! … , 0x0e01, checksum, metadata size, metadata, payload                   a delivery, or what a producer sends
//! ```
//! Sizes are four bytes, the most significant first; the checksum is CRC-32C over all that follows it.

use prost::Message as _;

use super::fields::{Fields, Malformed, Value, take, u32_be};
use super::messages::{Command, Kind, Nothing};
use super::place::Entry;

/// The length in front of a frame.
pub(super) const PREFIX_BYTES: usize = 4;
/// Stands before a checksum.
const CHECKSUM_MAGIC: [u8; 2] = [0x0e, 0x01];
/// Stands before what a broker adds for clients that ask for it. We do not.
const BROKER_MAGIC: [u8; 2] = [0x0e, 0x02];

/// Why a frame cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("a frame is malformed")]
    Malformed,
    #[error("a message's checksum does not agree")]
    Checksum,
    #[error("it has no checksum, as clients before 2017 wrote them, so nobody can tell whether it is whole")]
    NoChecksum,
}

impl From<Malformed> for FrameError {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

/// What came.
pub(super) enum Frame<'a> {
    /// An entry for a consumer.
    Delivery { consumer: u64, entry: Entry, body: &'a [u8] },
    /// Anything else.
    Command(Box<Command>),
}

/// Reads a frame without its length.
pub(super) fn read(frame: &[u8]) -> Result<Frame<'_>, FrameError> {
    let mut rest = frame;
    let length = u32_be(&mut rest)? as usize;
    let command = take(&mut rest, length)?;
    if command.starts_with(&[0x08, Kind::Message as u8])
        && let Some((consumer, entry)) = delivery(command)?
    {
        return Ok(Frame::Delivery { consumer, entry, body: rest });
    }
    let command = Command::decode(command).map_err(|_| FrameError::Malformed)?;
    if command.kind == Kind::Message as i32 {
        // The same in another order of its fields, which no broker writes.
        return Err(FrameError::Malformed);
    }
    Ok(Frame::Command(Box::new(command)))
}

/// The consumer and the entry of a delivery.
fn delivery(command: &[u8]) -> Result<Option<(u64, Entry)>, Malformed> {
    let mut fields = Fields(command);
    while let Some((field, value)) = fields.next()? {
        if let (9, Value::Bytes(delivery)) = (field, value) {
            return of_delivery(delivery).map(Some);
        }
    }
    Ok(None)
}

fn of_delivery(delivery: &[u8]) -> Result<(u64, Entry), Malformed> {
    let (mut consumer, mut ledger, mut entry) = (None, None, None);
    let mut fields = Fields(delivery);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, Value::Number(number)) => consumer = Some(number),
            (2, Value::Bytes(id)) => {
                let mut fields = Fields(id);
                while let Some((field, value)) = fields.next()? {
                    match (field, value) {
                        (1, Value::Number(number)) => ledger = Some(number),
                        (2, Value::Number(number)) => entry = Some(number),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    let id = super::messages::MessageId {
        ledger: ledger.ok_or(Malformed)?,
        entry: entry.ok_or(Malformed)?,
        partition: None,
        batch_index: None,
    };
    Ok((consumer.ok_or(Malformed)?, Entry::of(&id).ok_or(Malformed)?))
}

/// The metadata and the payload of an entry, after the checksum over both was compared, which must be there.
pub(super) fn entry(mut body: &[u8]) -> Result<(&[u8], &[u8]), FrameError> {
    if body.starts_with(&BROKER_MAGIC) {
        take(&mut body, 2)?;
        let length = u32_be(&mut body)? as usize;
        take(&mut body, length)?;
    }
    // Optional in the protocol. But a broker that fails may send the frames that follow in place of an entry, and those could be taken
    // for one that has none.
    if !body.starts_with(&CHECKSUM_MAGIC) {
        return Err(FrameError::NoChecksum);
    }
    take(&mut body, 2)?;
    let checksum = u32_be(&mut body)?;
    if crc32c::crc32c(body) != checksum {
        return Err(FrameError::Checksum);
    }
    let length = u32_be(&mut body)? as usize;
    let metadata = take(&mut body, length)?;
    Ok((metadata, body))
}

/// Appends a simple command.
pub(super) fn write(out: &mut Vec<u8>, command: &Command) {
    let length = command.encoded_len() as u32;
    out.extend_from_slice(&(length + 4).to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    command.encode(out).expect("a vector has room");
}

/// Appends a command with an entry behind it.
pub(super) fn write_entry(out: &mut Vec<u8>, command: &Command, metadata: &[u8], payload: &[u8]) {
    let length = command.encoded_len() as u32;
    let entry_bytes = (metadata.len() + payload.len()) as u32 + 4;
    out.extend_from_slice(&(4 + length + 2 + 4 + entry_bytes).to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    command.encode(out).expect("a vector has room");
    out.extend_from_slice(&CHECKSUM_MAGIC);
    let checksum_at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(metadata.len() as u32).to_be_bytes());
    out.extend_from_slice(metadata);
    out.extend_from_slice(payload);
    let checksum = crc32c::crc32c(&out[checksum_at + 4..]);
    out[checksum_at..checksum_at + 4].copy_from_slice(&checksum.to_be_bytes());
}

/// Asks whether the other side lives. Brokers insist on the field, although it has none of its own.
pub(super) fn ping() -> Command {
    Command { kind: Kind::Ping as i32, ping: Some(Nothing {}), ..Command::default() }
}

/// Answers that.
pub(super) fn pong() -> Command {
    Command { kind: Kind::Pong as i32, pong: Some(Nothing {}), ..Command::default() }
}

#[cfg(test)]
mod tests;
