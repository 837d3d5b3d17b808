//! Messages for tests, field by field: the writing half, which no gateway needs. Built for tests alone.
//!
//! Owns the encoding of a field. Does not own the reading (`gateway::wire`), nor which fields a message has: each protocol's tests say
//! that.

/// A number of up to ten bytes.
pub(crate) fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// The integer with its sign in the lowest bit.
pub(crate) fn signed(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

/// A field with a number.
pub(crate) fn number(field: u64, number: u64) -> Vec<u8> {
    [varint(field << 3), varint(number)].concat()
}

/// A field with a float.
pub(crate) fn double(field: u64, value: f64) -> Vec<u8> {
    [varint(field << 3 | 1), value.to_bits().to_le_bytes().to_vec()].concat()
}

/// A field with bytes, a text or a message.
pub(crate) fn sized(field: u64, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [varint(field << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// A field with packed numbers.
pub(crate) fn packed(field: u64, numbers: &[u64]) -> Vec<u8> {
    sized(field, numbers.iter().flat_map(|number| varint(*number)).collect::<Vec<u8>>())
}
