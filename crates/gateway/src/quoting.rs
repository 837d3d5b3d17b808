//! Texts as JSON strings, straight from bytes into a record.
//!
//! Owns the escapes, which are those that `serde_json` writes. Does not own the reading of JSON (`gateway::records`, `loki::json`). What is
//! not UTF-8 is replaced by U+FFFD, since JSON cannot carry it: a sender would otherwise lose all of a request for one damaged line.

/// U+FFFD in UTF-8.
pub(crate) const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// How a byte is escaped: 0 for as it is, `u` for `\u00XX`, otherwise the character behind the backslash.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escapes[byte] = b'u';
        byte += 1;
    }
    escapes[0x08] = b'b';
    escapes[0x09] = b't';
    escapes[0x0a] = b'n';
    escapes[0x0c] = b'f';
    escapes[0x0d] = b'r';
    escapes[b'"' as usize] = b'"';
    escapes[b'\\' as usize] = b'\\';
    escapes
};

/// Bytes that [`quote`] appends for `text`; at most six times as many and two.
pub(crate) fn quoted_bytes(text: &[u8]) -> usize {
    let chunk = |chunk: std::str::Utf8Chunk<'_>| {
        let escaped = chunk.valid().bytes().map(|byte| match ESCAPES[usize::from(byte)] {
            0 => 1,
            b'u' => 6,
            _ => 2,
        });
        let replaced = if chunk.invalid().is_empty() { 0 } else { REPLACEMENT.len() };
        escaped.sum::<usize>() + replaced
    };
    2 + text.utf8_chunks().map(chunk).sum::<usize>()
}

/// Appends `text` as a JSON string, with its quotes.
pub(crate) fn quote(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        escape(out, chunk.valid().as_bytes());
        if !chunk.invalid().is_empty() {
            out.extend_from_slice(REPLACEMENT);
        }
    }
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| ESCAPES[usize::from(*byte)] != 0) {
        out.extend_from_slice(&rest[..at]);
        let byte = rest[at];
        match ESCAPES[usize::from(byte)] {
            b'u' => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]]);
            }
            letter => out.extend([b'\\', letter]),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests;
