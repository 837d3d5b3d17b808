//! One record after the other into the columns of a batch, by a plan.
//!
//! Owns the walk over a record's bytes, what a null becomes, and that a record that is turned down leaves nothing behind. Does not own blocks
//! and rejects ([`super`]), nor the encoding of single values ([`super::cursor`]).

use arrow_array::ArrayRef;
use dataflow::Schema;

use super::cursor::Cursor;
use super::plan::{Field, Op, Plan, Wire};
use super::schema::{Shape, Type, TypeId};
use crate::columns::{self, Absence, Exact, TypedColumn};
use crate::fault::{Fault, Step, bytes_fit, fits, text_fits};

/// Values inside each other in a field that is skipped; a schema may let them nest without end.
pub const DEPTH_MAX: usize = 128;

/// The columns of a batch while it is decoded.
pub(super) struct Rows<'s> {
    schema: &'s Schema,
    columns: Vec<Box<dyn TypedColumn>>,
    /// The rows that are complete.
    rows: usize,
}

impl<'s> Rows<'s> {
    /// No rows yet; `patterns` are the columns of `schema`.
    pub fn new(schema: &'s Schema, patterns: &[Box<dyn TypedColumn>], rows_expected: usize) -> Self {
        let columns = columns::fresh(patterns, rows_expected);
        Self { schema, columns, rows: 0 }
    }

    /// Appends the record at the cursor, which ends where its bytes do. After an error all columns are as they were before.
    #[inline]
    pub fn push(&mut self, plan: &Plan, mut cursor: Cursor<'_>) -> Step<()> {
        let mut walk = Walk { plan, schema: self.schema, columns: &mut self.columns };
        let walked = walk.fields(&plan.fields, &mut cursor);
        if walked.is_ok() && cursor.left() == 0 {
            self.rows += 1;
            return Ok(());
        }
        self.columns.iter_mut().for_each(|column| column.truncate(self.rows));
        walked.and_then(|()| Err(trailing(&cursor)))
    }

    /// The columns as Arrow arrays, in the order of the schema.
    pub fn finish(self) -> Vec<ArrayRef> {
        columns::finished(self.columns)
    }
}

#[cold]
fn trailing(cursor: &Cursor<'_>) -> Box<Fault> {
    cursor.fault(format!(
        "`{}` bytes follow the record's last field; was it written with another schema?",
        cursor.left()
    ))
}

/// What a null becomes.
#[derive(Clone, Copy)]
enum OnNull<'a> {
    /// As for the whole column of this place.
    Column(&'a [Absence], usize),
    /// An item or an entry's value: NULL if the type has it.
    Item { is_nullable: bool },
}

struct Walk<'a> {
    plan: &'a Plan,
    schema: &'a Schema,
    columns: &'a mut [Box<dyn TypedColumn>],
}

impl Walk<'_> {
    #[inline]
    fn fields(&mut self, fields: &[Field], cursor: &mut Cursor<'_>) -> Step<()> {
        for field in fields {
            let done = match &field.op {
                Op::Fill { column, wire } => self.fill(*column, wire, cursor),
                other => self.other(other, cursor),
            };
            if let Err(fault) = done {
                return Err(fault.within(&field.name));
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn fill(&mut self, column: usize, wire: &Wire, cursor: &mut Cursor<'_>) -> Step<()> {
        let on_null = OnNull::Column(&self.plan.absences, column);
        match value(wire, &mut *self.columns[column], on_null, cursor) {
            Ok(()) => Ok(()),
            Err(fault) => Err(fault.in_column(column)),
        }
    }

    /// The recursion is as deep as the plan, which is bounded.
    #[inline(never)]
    fn other(&mut self, op: &Op, cursor: &mut Cursor<'_>) -> Step<()> {
        match op {
            Op::Fill { column, wire } => self.fill(*column, wire, cursor),
            Op::Skip(id) => skip(&self.plan.shape, *id, cursor, 0),
            Op::Record(fields) => self.fields(fields, cursor),
            Op::Union(branches) => {
                let branch = cursor.index("branch", branches.len())?;
                self.other(&branches[branch], cursor)
            }
            Op::Absent(columns) => columns.iter().try_for_each(|column| self.absent(*column)),
            Op::Several(ops) => {
                let start = cursor.position();
                ops.iter().try_for_each(|op| {
                    cursor.rewind(start);
                    self.other(op, cursor)
                })
            }
        }
    }

    fn absent(&mut self, column: usize) -> Step<()> {
        match &self.plan.absences[column] {
            Absence::Required => Err(Fault::absent(column, &self.schema.columns()[column].field)),
            _ => null(&mut *self.columns[column], OnNull::Column(&self.plan.absences, column)),
        }
    }
}

/// Appends what a null becomes.
#[inline(never)]
fn null(column: &mut dyn TypedColumn, on_null: OnNull<'_>) -> Step<()> {
    let absence = match on_null {
        OnNull::Column(absences, column) => &absences[column],
        OnNull::Item { is_nullable: true } => &Absence::Null,
        OnNull::Item { is_nullable: false } => {
            return Err(Fault::null("is an item whose type is not Nullable"));
        }
    };
    fits(absence.append(column), "null")
}

/// Steps over a value and appends it.
#[inline(always)]
fn value(
    wire: &Wire,
    column: &mut dyn TypedColumn,
    on_null: OnNull<'_>,
    cursor: &mut Cursor<'_>,
) -> Step<()> {
    match wire {
        Wire::Int => {
            let value = cursor.int()?;
            fits(column.signed(value.into()), value)
        }
        Wire::Long => {
            let value = cursor.long()?;
            fits(column.signed(value), value)
        }
        Wire::Double => {
            let value = cursor.double()?;
            fits(column.float(value), value)
        }
        Wire::Timestamp { digits } => {
            let value = cursor.long()?;
            fits(column.timestamp(value, *digits), value)
        }
        Wire::Text => {
            let text = cursor.text()?;
            text_fits(column.text(text), text.as_bytes())
        }
        other => seldom(other, column, on_null, cursor),
    }
}

/// The same for all kinds. The recursion is as deep as the column's type, which is bounded.
#[inline(never)]
fn seldom(
    wire: &Wire,
    column: &mut dyn TypedColumn,
    on_null: OnNull<'_>,
    cursor: &mut Cursor<'_>,
) -> Step<()> {
    match wire {
        Wire::Int | Wire::Long | Wire::Double | Wire::Timestamp { .. } | Wire::Text => {
            value(wire, column, on_null, cursor)
        }
        Wire::Null => null(column, on_null),
        Wire::Boolean => {
            let value = cursor.boolean()?;
            fits(column.boolean(value), value)
        }
        Wire::Float => {
            let value = cursor.float()?;
            fits(column.float(value.into()), value)
        }
        Wire::Bytes => {
            let bytes = cursor.sized("a value")?;
            bytes_fit(column.bytes(bytes), bytes)
        }
        Wire::Fixed(size) => {
            let bytes = cursor.take("a fixed", *size)?;
            bytes_fit(column.bytes(bytes), bytes)
        }
        Wire::Enum(symbols) => {
            let symbol = &symbols[cursor.index("symbol", symbols.len())?];
            text_fits(column.text(symbol), symbol.as_bytes())
        }
        Wire::Decimal { scale } => {
            let bytes = cursor.sized("a decimal")?;
            decimal(bytes, *scale, column)
        }
        Wire::DecimalFixed { scale, size } => {
            let bytes = cursor.take("a decimal", *size)?;
            decimal(bytes, *scale, column)
        }
        Wire::UuidFixed => {
            let uuid = cursor.fixed::<16>("a uuid")?;
            bytes_fit(column.uuid(uuid), uuid)
        }
        Wire::Date => {
            let days = cursor.int()?;
            fits(column.date(days), days)
        }
        Wire::LocalTimestamp { digits } => {
            let value = cursor.long()?;
            fits(column.local_timestamp(value, *digits), value)
        }
        Wire::Array(items) => array(items, column, cursor),
        Wire::Map(values) => map(values, column, cursor),
        Wire::Union(branches) => {
            let branch = &branches[cursor.index("branch", branches.len())?];
            value(branch, column, on_null, cursor)
        }
    }
}

fn decimal(bytes: &[u8], scale: u32, column: &mut dyn TypedColumn) -> Step<()> {
    let Some(unscaled) = unscaled(bytes) else {
        return bytes_fit(
            Err(crate::columns::Misfit::range("has more digits than a decimal of 128 bits")),
            bytes,
        );
    };
    match column.decimal(Exact::of(unscaled, -i64::from(scale))) {
        Ok(()) => Ok(()),
        misfit => fits(misfit, format_args!("{unscaled}e-{scale}")),
    }
}

/// An unscaled number of any length, most significant byte first, in two's complement; `None` if it has more than 128 bits.
pub(super) fn unscaled(bytes: &[u8]) -> Option<i128> {
    let fill = if bytes.first().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
    // What only repeats the sign may be longer than any number is.
    let (extension, number) = bytes.split_at(bytes.len().saturating_sub(16));
    let is_negative = number.first().is_some_and(|byte| byte & 0x80 != 0);
    if extension.iter().any(|byte| *byte != fill) || is_negative != (fill == 0xff) {
        return None;
    }
    let mut whole = [fill; 16];
    whole[16 - number.len()..].copy_from_slice(number);
    Some(i128::from_be_bytes(whole))
}

fn array(items: &Wire, column: &mut dyn TypedColumn, cursor: &mut Cursor<'_>) -> Step<()> {
    let Some((into, is_nullable)) = column.items() else { return fits(column.end(), "[…]") };
    while let Some(block) = cursor.block(true)? {
        for _ in 0..block.count {
            value(items, into, OnNull::Item { is_nullable }, cursor)?;
        }
        cursor.end_block(&block)?;
    }
    fits(column.end(), "[…]")
}

fn map(values: &Wire, column: &mut dyn TypedColumn, cursor: &mut Cursor<'_>) -> Step<()> {
    let Some((keys, into, is_nullable)) = column.entries() else { return fits(column.end(), "{…}") };
    // Every entry has at least the byte that says how long its key is.
    while let Some(block) = cursor.block(true)? {
        for _ in 0..block.count {
            let key = cursor.text()?;
            text_fits(keys.text(key), key.as_bytes())?;
            value(values, into, OnNull::Item { is_nullable }, cursor)?;
        }
        cursor.end_block(&block)?;
    }
    fits(column.end(), "{…}")
}

/// Steps over a value that no column asks for. The inside of a block whose bytes are counted is not read, nor are texts.
pub(super) fn skip(shape: &Shape, id: TypeId, cursor: &mut Cursor<'_>, depth: usize) -> Step<()> {
    if depth > DEPTH_MAX {
        return Err(cursor.fault(format!("values nest deeper than `{DEPTH_MAX}`")));
    }
    match shape.types.get(id) {
        Type::Null => Ok(()),
        Type::Boolean => cursor.boolean().map(drop),
        Type::Int | Type::Date | Type::TimeOfDay { long: false } => cursor.int().map(drop),
        Type::Long
        | Type::TimeOfDay { long: true }
        | Type::Timestamp { .. }
        | Type::LocalTimestamp { .. } => cursor.long().map(drop),
        Type::Float => cursor.fixed::<4>("a float").map(drop),
        Type::Double => cursor.fixed::<8>("a double").map(drop),
        Type::Bytes | Type::Decimal { .. } => cursor.sized("a value").map(drop),
        Type::String | Type::UuidText => cursor.sized("a string").map(drop),
        Type::Fixed(size) | Type::DecimalFixed { size, .. } => cursor.take("a fixed", *size).map(drop),
        Type::UuidFixed => cursor.take("a uuid", 16).map(drop),
        Type::Enum(symbols) => cursor.index("symbol", symbols.len()).map(drop),
        Type::Array(items) => {
            let has_bytes = !shape.empty[*items];
            blocks(cursor, has_bytes, |cursor| match has_bytes {
                true => skip(shape, *items, cursor, depth + 1),
                false => Ok(()),
            })
        }
        Type::Map(values) => blocks(cursor, true, |cursor| {
            cursor.sized("a key")?;
            skip(shape, *values, cursor, depth + 1)
        }),
        Type::Union(branches) => {
            let branch = cursor.index("branch", branches.len())?;
            skip(shape, branches[branch], cursor, depth + 1)
        }
        // What has no bytes may hold itself.
        Type::Record(_) if shape.empty[id] => Ok(()),
        Type::Record(fields) => fields.iter().try_for_each(|(name, id)| {
            skip(shape, *id, cursor, depth + 1).map_err(|fault| fault.within(name))
        }),
    }
}

/// Steps over the blocks of an array or map.
fn blocks<'c>(
    cursor: &mut Cursor<'c>,
    items_have_bytes: bool,
    mut item: impl FnMut(&mut Cursor<'c>) -> Step<()>,
) -> Step<()> {
    while let Some(block) = cursor.block(items_have_bytes)? {
        match block.bytes {
            Some(bytes) => cursor.take("a block", bytes).map(drop)?,
            // Items without bytes need no steps, however many they are said to be.
            None if !items_have_bytes => {}
            None => (0..block.count).try_for_each(|_| item(cursor))?,
        }
    }
    Ok(())
}
