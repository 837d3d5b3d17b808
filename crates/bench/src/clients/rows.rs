//! The file of rows that every client reads, so that all of them send the same.
//!
//! Owns its bytes, which programs in other languages read too: the number of rows as eight bytes, little-endian, then the columns
//! of `workloads::clients::COLUMNS` one after the other, each value in its column's fixed width: a text as its bytes, an Int32
//! in four and an Int64 in eight, little-endian. Does not own the values (`workloads::clients`).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use workloads::clients::{COLUMNS, Kind, Workload};

/// Bytes before the first column.
const HEAD_BYTES: usize = 8;

/// Writes the rows `0..rows`.
///
/// # Errors
/// When the file cannot be written.
pub fn write(workload: &Workload, rows: u64, path: &Path) -> anyhow::Result<()> {
    let file = File::create_new(path).with_context(|| format!("cannot make `{}`", path.display()))?;
    write_to(workload, rows, file).with_context(|| format!("cannot write `{}`", path.display()))
}

fn write_to(workload: &Workload, rows: u64, file: File) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    out.write_all(&rows.to_le_bytes())?;
    let mut text = String::new();
    for (index, column) in COLUMNS.iter().enumerate() {
        for row in 0..rows {
            match column.kind {
                Kind::Text(_) => {
                    text.clear();
                    workload.text(index, row, &mut text);
                    out.write_all(text.as_bytes())?;
                }
                // Within an Int32, as the workload's tests hold.
                Kind::Int32 => out.write_all(&(workload.number(index, row) as i32).to_le_bytes())?,
                Kind::Int64 => out.write_all(&workload.number(index, row).to_le_bytes())?,
            }
        }
    }
    out.flush()
}

/// Reads the rows as one batch.
///
/// # Errors
/// When the file cannot be read or has another length.
pub fn read(path: &Path) -> anyhow::Result<RecordBatch> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    batch(&bytes).with_context(|| format!("`{}` is no file of rows", path.display()))
}

fn batch(bytes: &[u8]) -> anyhow::Result<RecordBatch> {
    let (head, mut rest) = bytes.split_first_chunk::<HEAD_BYTES>().context("it has no head")?;
    let rows = usize::try_from(u64::from_le_bytes(*head)).context("too many rows")?;
    let row_bytes: usize = COLUMNS.iter().map(|column| width(column.kind)).sum();
    ensure!(rows.checked_mul(row_bytes) == Some(rest.len()), "`{rows}` rows are not `{}` bytes", rest.len());
    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for column in &COLUMNS {
        let values;
        (values, rest) = rest.split_at(rows * width(column.kind));
        let (data_type, array): (DataType, ArrayRef) = match column.kind {
            Kind::Text(bytes) => {
                let text = std::str::from_utf8(values).context("a text is no UTF-8")?;
                let each = (0..rows).map(|row| text.get(row * bytes..(row + 1) * bytes));
                let each = each.collect::<Option<Vec<&str>>>().context("a text ends inside a character")?;
                (DataType::Utf8, Arc::new(StringArray::from(each)))
            }
            Kind::Int32 => {
                let each = values.as_chunks::<4>().0.iter().map(|value| i32::from_le_bytes(*value));
                (DataType::Int32, Arc::new(Int32Array::from_iter_values(each)))
            }
            Kind::Int64 => {
                let each = values.as_chunks::<8>().0.iter().map(|value| i64::from_le_bytes(*value));
                (DataType::Int64, Arc::new(Int64Array::from_iter_values(each)))
            }
        };
        fields.push(Field::new(column.name, data_type, false));
        arrays.push(array);
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

fn width(kind: Kind) -> usize {
    match kind {
        Kind::Text(bytes) => bytes,
        Kind::Int32 => 4,
        Kind::Int64 => 8,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use workloads::clients::Rows;

    use super::*;

    #[test]
    fn what_is_read_is_what_was_written() {
        let dir = std::env::temp_dir().join(format!("forebay-rows-{}", std::process::id()));
        let workload = Workload { seed: 3, rows: Rows::Varied };
        write(&workload, 5, &dir).expect("written");
        let bytes = std::fs::read(&dir).expect("there");
        std::fs::remove_file(&dir).expect("removed");
        let batch = batch(&bytes).expect("read");
        assert_eq!((batch.num_rows(), batch.num_columns()), (5, 32));
        let mut text = String::new();
        workload.text(4, 3, &mut text);
        assert_eq!(batch.column(4).as_string::<i32>().value(3), text);
        let ids = batch.column_by_name("lid").expect("there").as_primitive::<Int64Type>();
        assert_eq!((ids.value(4), ids.len()), (4, 5));
        assert!(super::batch(&bytes[..bytes.len() - 1]).is_err());
        assert!(super::batch(&bytes[..7]).is_err());
    }
}
