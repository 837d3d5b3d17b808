//! The shape of a sealed frame, read without its table.
//!
//! Owns the reading of a block by the names and types that it carries itself, for those who inspect a store while no server is there. Does
//! not own the decoding of values (`native::read`), nor whether a table takes them: a block that a later table would refuse is fine here.

use super::read::{COLUMNS_MAX, Cursor};
use crate::{compress, types};

/// How many rows a frame holds, and of which columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows.
    pub rows: u64,
    /// Names and types of the columns as sent, the provenance column among them.
    pub columns: Vec<(String, String)>,
}

/// Decodes all of a frame's body and tells its shape.
///
/// # Errors
/// When the body is not one whole Native block of known types in sound chunks, in words.
pub fn of_frame(body: &[u8]) -> Result<Shape, String> {
    let block = compress::decompress(body).map_err(|e| e.to_string())?;
    let mut cursor = Cursor::new(&block);
    let (count, rows) = (cursor.length()?, cursor.length()?);
    if count == 0 || count > COLUMNS_MAX {
        return Err(format!("a block of {count} columns"));
    }
    let mut columns = Vec::new();
    for _ in 0..count {
        let (name, type_name) = (cursor.text()?.to_owned(), cursor.text()?.to_owned());
        let column_type = types::parse(&name, &type_name).map_err(|e| e.to_string())?;
        cursor.column(&column_type, rows).map_err(|reason| format!("column `{name}`: {reason}"))?;
        columns.push((name, type_name));
    }
    match cursor.left() {
        0 => Ok(Shape { rows: rows as u64, columns }),
        left => Err(format!("{left} bytes follow the block")),
    }
}

#[cfg(test)]
mod tests;
