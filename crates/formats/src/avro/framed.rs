//! Records that name the schema they were written with: in Confluent's wire format (a zero byte, four bytes with the schema's number, the datum), or
//! without a header in a block that names the schema of all its records ([`RecordBlock::schema`]).
//!
//! Owns the way from what a record names to the plan that it is read by. Does not own the schemas nor when they are compiled ([`crate::schemas`]).

use dataflow::{RecordBlock, Schema};

use super::cursor::Cursor;
use super::datum::Rows;
use super::plan::Plan;
use super::schema::Types;
use crate::fault::{Fault, Step};
use crate::schemas::plans::{self, Compiled};
use crate::schemas::{ID_BYTES, SchemaText, no_header, schema_id};

/// Bytes in front of the datum.
pub(super) const HEADER_BYTES: usize = ID_BYTES;

/// The plans by the schemas' numbers.
pub(super) type Plans = plans::Plans<Plan>;
/// Plans of the records before.
pub(super) type Last = plans::Last<u32, Plan>;

/// The plan for records of the last of `texts` into these columns.
pub(super) fn plan(texts: &[SchemaText], columns: &Schema) -> Result<Plan, String> {
    let types = Types::read_all(texts).map_err(super::ConfigError::from);
    let plan = types.and_then(|types| Plan::new(types, columns));
    plan.map_err(|error| error.to_string())
}

/// Appends the record that is `bytes[start..end]`, read by the schema that it names.
#[inline]
pub(super) fn push(
    plans: &Plans,
    last: &mut Last,
    rows: &mut Rows<'_>,
    columns: &Schema,
    bytes: &[u8],
    (start, end): (usize, usize),
) -> Step<()> {
    let record = &bytes[start..end];
    let Some(id) = schema_id(record) else { return Err(no_header(record, HEADER_BYTES)) };
    if !last.is_at(|known| *known == id) {
        let make = || match plans.plan(&id, |texts| plan(texts, columns)) {
            Ok(compiled) => Ok((id, compiled)),
            Err(why) => Err(Fault::schema(&id, &why)),
        };
        last.go(|known| *known == id, make)?;
    }
    match last.here().1 {
        Compiled::Plan(plan) => {
            let mut cursor = Cursor::new(bytes, start, end);
            cursor.rewind(HEADER_BYTES);
            rows.push(plan, cursor)
        }
        Compiled::Refused(why) => Err(Fault::schema(&id, why)),
    }
}

/// The number of the schema that all records of a block name; `None` if there are several, or records without one.
pub(super) fn only(block: &RecordBlock) -> Option<u32> {
    let mut from = 0;
    let mut ids = block.payloads.ends.iter().map(|end| {
        let id = schema_id(&block.payloads.bytes[from..*end as usize]);
        from = *end as usize;
        id
    });
    let id = ids.next()??;
    ids.all(|other| other == Some(id)).then_some(id)
}
