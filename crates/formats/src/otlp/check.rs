//! A request before it is decoded, for who takes it from a sender and answers.
//!
//! Owns what a request has to be so that a decoder can divide it into rows, and the other encoding. Does not own what is done with one that is not.
//!
//! What passes here is no dead letter as a whole later, whatever the columns: at the worst rows of it are. Rows whose own fields cannot be read are left out, since no
//! reader could make anything of them; a value that does not fit is a matter of columns, which are not known here.

use std::borrow::Cow;

use dataflow::Reason;

use super::fault::Fault;
use super::split::without;
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

/// A request in Protocol Buffers that can be divided into rows: log records, spans or data points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked<'r> {
    /// The request without its broken rows.
    pub request: Cow<'r, [u8]>,
    /// The rows that are left.
    pub rows: usize,
    /// The others.
    pub broken: Broken,
}

/// Rows of a request whose own fields, or those of what stands around them, cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Broken {
    /// How many.
    pub rows: usize,
    /// The number of the first in the request, from 1, and what is wrong with it.
    pub first: Option<(usize, Invalid)>,
}

/// Divides a request in Protocol Buffers, or in JSON, which is written anew, into its rows. Reads every message down to the rows and their fields, but not what
/// values hold. Allocates nothing for a row that is whole.
///
/// # Errors
/// When something around the rows' lengths is no Protocol Buffers or no JSON, when its rows would take more memory than a decoder gives them, or when it would have
/// more than `bytes_max` bytes in Protocol Buffers.
pub fn check(
    signal: Signal,
    request: &[u8],
    is_json: bool,
    bytes_max: usize,
) -> Result<Checked<'_>, Invalid> {
    let (request, mut broken) = match is_json {
        true => {
            let (request, rows, first) = json::to_wire_in_part(signal, request, bytes_max)?;
            let first = first.map(|(number, fault)| (number, fault.into()));
            (Cow::Owned(request), Broken { rows, first })
        }
        false => (Cow::Borrowed(request), Broken::default()),
    };
    let (rows, sorted) = Walk::sort(signal, &request)?;
    if sorted.broken.is_empty() {
        return Ok(Checked { request, rows, broken });
    }
    broken.rows += sorted.broken.len();
    broken.first = broken.first.or(sorted.first.map(|(number, fault)| (number, fault.into())));
    let request = without(signal, &request, &sorted.broken);
    // It is shorter now, and the bound on what its rows may take with it.
    let (rows, _) = Walk::sort(signal, &request)?;
    Ok(Checked { request: Cow::Owned(request), rows, broken })
}
