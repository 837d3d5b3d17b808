//! Turns an insert with data in the request's body into one that reads them from a file in memory.
//!
//! Owns the statements that take the insert's place, and the file. Does not own where the statement ends and its data begin (`sql`), or
//! running them (`engine`, `session`).
//!
//! `INSERT INTO t (a) SETTINGS x=1 FORMAT Native` becomes
//! `INSERT INTO t (a) FROM INFILE '/proc/self/fd/9' COMPRESSION 'none' SETTINGS x=1 FORMAT Native`, which the engine
//! reads with the target's own column types, defaults and formats, as it would read a body. Data inside the
//! statement's text would be cut at the first blank line.

use std::io::{self, Write};

use crate::ffi::MemoryFile;
use crate::sql::{Insert, Kind, Lexer, Token};

/// The rewritten statement and the file it reads; the file must live until the statement has run.
pub struct Prepared {
    /// What the engine is given.
    pub script: Script,
    /// The data.
    pub file: MemoryFile,
}

/// Statements that run on one connection, one after the other.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Script {
    /// What must have run before.
    pub before: Vec<Vec<u8>>,
    /// The statement whose answer the client gets.
    pub main: Vec<u8>,
    /// What is undone afterwards, whether the statement succeeded or not.
    pub after: Vec<Vec<u8>>,
}

/// The temporary table that takes the place of `input('structure')`. A connection without a session ends with its request,
/// and a session runs one request at a time, so the name is never taken twice.
const INPUT_TABLE: &str = "`_chdb_server_input`";

/// Writes the data (what is left of `text` after the statement, then `body`) to a file in memory, and rewrites the statement.
pub fn prepare(text: &[u8], insert: &Insert, body: &[u8]) -> io::Result<Prepared> {
    let mut file = MemoryFile::create()?;
    file.write_all(&text[insert.data_start.min(text.len())..])?;
    file.write_all(body)?;
    let script = rewrite(text, insert, &file.path());
    Ok(Prepared { script, file })
}

/// The statements that read from `path`.
///
/// `SELECT … FROM input('a Int8') FORMAT X` gets a temporary table of that structure, filled from the file: the table
/// function `file()` would need a grant on all files.
fn rewrite(text: &[u8], insert: &Insert, path: &str) -> Script {
    let head = &text[..insert.head_end];
    let format = &insert.format;
    let from_file = |settings: &[u8]| {
        let source = format!(" FROM INFILE '{path}' COMPRESSION 'none' ");
        [source.as_bytes(), settings, format!(" FORMAT {format}").as_bytes()].concat()
    };
    if let Some(input) = insert.input {
        let (arguments, after) = arguments(text, input);
        let create = [
            format!("CREATE TEMPORARY TABLE {INPUT_TABLE} ENGINE = Memory AS SELECT * FROM null").as_bytes(),
            arguments,
        ]
        .concat();
        let fill = [format!("INSERT INTO {INPUT_TABLE}").as_bytes(), &from_file(b"")].concat();
        return Script {
            before: vec![create, fill],
            main: [&head[..input.start], INPUT_TABLE.as_bytes(), &head[after..]].concat(),
            after: vec![format!("DROP TEMPORARY TABLE IF EXISTS {INPUT_TABLE}").into_bytes()],
        };
    }
    let settings = insert.settings.map_or(&b""[..], |(start, end)| &text[start..end]);
    Script { main: [head, &from_file(settings)].concat(), ..Script::default() }
}

/// `('structure')` behind `input`, and where the text goes on.
fn arguments(text: &[u8], input: Token) -> (&[u8], usize) {
    let mut depth = 0_usize;
    for token in Lexer::new(&text[input.end..]) {
        match token.kind {
            Kind::Mark(b'(') => depth += 1,
            Kind::Mark(b')') => depth = depth.saturating_sub(1),
            Kind::Mark(_) | Kind::Word | Kind::Quoted | Kind::Text => {}
        }
        if depth == 0 {
            let end = input.end + token.end;
            return (&text[input.end..end], end);
        }
    }
    // A bracket that is never closed: the engine says so.
    (&text[input.end..], text.len())
}

#[cfg(test)]
mod tests;
