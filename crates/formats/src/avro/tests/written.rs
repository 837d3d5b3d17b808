//! The table of bytes that another encoder wrote, and a plain encoder of our own.

use super::{decoder, one};

/// Appends a number as Avro writes it, seven bits a step.
pub fn long(value: i64, out: &mut Vec<u8>) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends bytes behind their length.
pub fn sized(bytes: &[u8], out: &mut Vec<u8>) {
    long(bytes.len() as i64, out);
    out.extend_from_slice(bytes);
}

/// Bytes from hex digits; `-` is none.
pub fn hex(digits: &str) -> Vec<u8> {
    let digits = digits.trim_matches('-').as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn what_another_encoder_writes_is_read_as_it_was_meant() {
    let mut cases = 0;
    let mut wrong = Vec::new();
    for (number, line) in include_str!("written.txt").lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parts: Vec<_> = line.split(" | ").collect();
        let [schema, column, bytes, expected] = parts[..] else {
            panic!("line {}: a case has four parts", number + 1)
        };
        let decoder = decoder(&format!(r#"{{"name": "v", "type": {schema}}}"#), &[&format!("v {column}")]);
        let found = match decoder {
            Ok(decoder) => one(&decoder, &hex(bytes)).map_or_else(|reject| reject, |row| row.join(", ")),
            Err(error) => error.to_string(),
        };
        if found != expected {
            wrong.push(format!("written.txt:{}: {line}\n    found: {found}", number + 1));
        }
        cases += 1;
    }
    assert!(cases > 90, "{cases} cases");
    assert!(wrong.is_empty(), "{} of {cases} cases:\n{}", wrong.len(), wrong.join("\n"));
}
