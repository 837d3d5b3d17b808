//! The table of bytes that another encoder wrote.

use super::{decoder_of, hex, one};

#[test]
fn what_another_encoder_writes_is_read_as_it_was_meant() {
    let mut cases = 0;
    let mut wrong = Vec::new();
    for (number, line) in include_str!("written.txt").lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parts: Vec<_> = line.split(" | ").collect();
        let [syntax, body, column, bytes, expected] = parts[..] else {
            panic!("line {}: a case has five parts", number + 1)
        };
        let found = match decoder_of(syntax, body, &[column]) {
            Ok(decoder) => one(&decoder, &hex(bytes)).map_or_else(|reject| reject, |row| row.join(", ")),
            Err(error) => error.to_string(),
        };
        if found != expected {
            wrong.push(format!("written.txt:{}: {line}\n    found: {found}", number + 1));
        }
        cases += 1;
    }
    assert!(cases > 130, "{cases} cases");
    assert!(wrong.is_empty(), "{} of {cases} cases:\n{}", wrong.len(), wrong.join("\n"));
}
