//! A request before it is decoded, for who takes it from a sender and answers.
//!
//! Owns what a request has to be so that a decoder can divide it into rows, and the other encoding. Does not own what is done with one that is not.
//!
//! What passes here is no dead letter as a whole later, whatever the columns: at the worst rows of it are.

use dataflow::Reason;

use super::fault::Fault;
use super::walk::Walk;
use super::{Signal, json};

/// Why the bytes are no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// [`Reason::Malformed`], or [`Reason::TooLarge`].
    pub reason: Reason,
    /// The sentence.
    pub message: String,
}

impl From<Box<Fault>> for Invalid {
    fn from(fault: Box<Fault>) -> Self {
        Self { reason: fault.reason, message: fault.message }
    }
}

/// The rows of a request in Protocol Buffers: log records, spans or data points. Reads every message down to the rows and their fields, but not what
/// values hold. Allocates nothing for a row.
///
/// # Errors
/// When something in it is no Protocol Buffers or of another type than it should be, or when its rows would take more memory than a decoder gives them.
pub fn count(signal: Signal, request: &[u8]) -> Result<usize, Invalid> {
    Ok(Walk::count(signal, request)?)
}

/// The request in Protocol Buffers that this one in JSON is.
///
/// # Errors
/// When it is no JSON or has values of another form than their fields', or when it would have more than `bytes_max` bytes.
pub fn from_json(signal: Signal, request: &[u8], bytes_max: usize) -> Result<Vec<u8>, Invalid> {
    Ok(json::to_wire(signal, request, bytes_max)?)
}
