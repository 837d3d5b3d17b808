//! Messages as a writer of them would write them, by hand.

use crate::otlp::split::{sized, varint};

/// A field of bytes.
pub fn field(number: u64, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    sized(number, bytes.as_ref(), &mut out);
    out
}

/// A field of a number.
pub fn number(field: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3, &mut out);
    varint(value, &mut out);
    out
}

/// A field of eight bytes.
pub fn fixed(field: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3 | 1, &mut out);
    out.extend(value.to_le_bytes());
    out
}

/// An attribute with a text.
pub fn attribute(key: &str, value: &str) -> Vec<u8> {
    [field(1, key), field(2, field(1, value))].concat()
}

/// A log with this body and severity.
pub fn log(body: &str, severity: u64) -> Vec<u8> {
    [fixed(1, 1_764_000_000_000_000_007), number(2, severity), field(5, field(1, body))].concat()
}

/// A request of one resource and scope with these rows.
pub fn request(service: &str, rows: &[Vec<u8>]) -> Vec<u8> {
    let resource = field(1, field(1, attribute("service.name", service)));
    let rows: Vec<u8> = rows.iter().flat_map(|row| field(2, row)).collect();
    let scope = [field(1, field(1, "library")), rows, field(3, "scope url")].concat();
    field(1, [resource, field(2, scope), field(3, "resource url")].concat())
}
