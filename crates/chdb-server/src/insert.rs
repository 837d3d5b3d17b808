//! Turns an insert with data in the request's body into one that reads them from a file in memory.
//!
//! `INSERT INTO t (a) SETTINGS x=1 FORMAT Native` becomes
//! `INSERT INTO t (a) FROM INFILE '/proc/self/fd/9' COMPRESSION 'none' SETTINGS x=1 FORMAT Native`, which the engine
//! reads with the target's own column types, defaults and formats, as it would read a body. Data inside the
//! statement's text would be cut at the first blank line.

use std::io::{self, Write};

use crate::ffi::MemoryFile;
use crate::sql::Insert;

/// The rewritten statement and the file it reads; the file must live until the statement has run.
pub struct Prepared {
    /// What the engine is given.
    pub sql: Vec<u8>,
    /// The data.
    pub file: MemoryFile,
}

/// Writes the data (what is left of `text` after the statement, then `body`) to a file in memory, and rewrites the statement.
pub fn prepare(text: &[u8], insert: &Insert, body: &[u8]) -> io::Result<Prepared> {
    let mut file = MemoryFile::create()?;
    file.write_all(&text[insert.data_start.min(text.len())..])?;
    file.write_all(body)?;
    let sql = rewrite(text, insert, &file.path());
    Ok(Prepared { sql, file })
}

/// The statement that reads from `path`.
fn rewrite(text: &[u8], insert: &Insert, path: &str) -> Vec<u8> {
    let head = &text[..insert.head_end];
    let format = &insert.format;
    if let Some(input) = insert.input {
        // `SELECT … FROM input('a Int8') FORMAT X` reads the same rows from `file(path, X, 'a Int8')`.
        let after =
            input.end + text[input.end..].iter().position(|byte| *byte == b'(').map_or(0, |found| found + 1);
        let file = format!("file('{path}', '{format}', ");
        return [&head[..input.start], file.as_bytes(), &head[after..]].concat();
    }
    let settings = insert.settings.map_or(&b""[..], |(start, end)| &text[start..end]);
    let source = format!(" FROM INFILE '{path}' COMPRESSION 'none' ");
    let tail = format!(" FORMAT {format}");
    [head, source.as_bytes(), settings, tail.as_bytes()].concat()
}

#[cfg(test)]
mod tests;
