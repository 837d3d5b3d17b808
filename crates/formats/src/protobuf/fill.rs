//! What was found in a record into the columns of a batch.
//!
//! Owns what a field becomes that was not sent, the items of arrays and maps, the messages that stand for one value (`google.protobuf.Timestamp` and the
//! like), and that a record which is turned down leaves nothing behind. Does not own how values are found (`protobuf::walk`), nor what a column takes
//! (`protobuf::leaf`).

use arrow_array::ArrayRef;
use dataflow::Schema;

use super::leaf::{Leaf, Number};
use super::plan::{Default, Encoding, Fill, Plan, Presence, PresenceRule};
use super::walk::{self, Filled, Slots};
use super::wire::{Piece, Wire};
use crate::columns::{self, Absence, Exact, Misfit, TypedColumn};
use crate::fault::{Fault, Step, bytes_fit, fits, text_fits};
use crate::varint::unzigzag;

/// The columns of a batch while it is decoded.
pub(super) struct Rows<'s> {
    schema: &'s Schema,
    columns: Vec<Box<dyn TypedColumn>>,
    slots: Slots,
    entries: Vec<Entry>,
    /// The rows that are complete.
    rows: usize,
}

/// An entry of a map: its key, its value as bits, and its place among the others.
#[derive(Clone, Copy)]
struct Entry {
    key: Option<u64>,
    value: Option<u64>,
    at: usize,
}

impl<'s> Rows<'s> {
    /// No rows yet; `patterns` are the columns of `schema`.
    pub fn new(schema: &'s Schema, patterns: &[Box<dyn TypedColumn>], rows_expected: usize) -> Self {
        let columns = columns::fresh(patterns, rows_expected);
        Self { schema, columns, slots: Slots::default(), entries: Vec::new(), rows: 0 }
    }

    /// Appends a record. After an error all columns are as they were before.
    #[inline]
    pub fn push(&mut self, plan: &Plan, wire: Wire<'_>) -> Step<()> {
        let mut found = self.slots.next(plan);
        let pushed = walk::record(plan, wire, &mut found).and_then(|()| {
            let mut row = Row { schema: self.schema, plan, found, wire, entries: &mut self.entries };
            let mut columns = self.columns.iter_mut().zip(&plan.fills).enumerate();
            columns.try_for_each(|(at, (column, fill))| {
                row.fill(at, fill, &mut **column)
                    .map_err(|fault| fault.within(&self.schema.columns()[at].field).in_column(at))
            })
        });
        match pushed {
            Ok(()) => self.rows += 1,
            Err(_) => self.columns.iter_mut().for_each(|column| column.truncate(self.rows)),
        }
        pushed
    }

    /// The columns as Arrow arrays, in the order of the schema.
    pub fn finish(self) -> Vec<ArrayRef> {
        columns::finished(self.columns)
    }
}

/// What was found in a record, and its bytes.
struct Row<'a> {
    schema: &'a Schema,
    plan: &'a Plan,
    found: Filled<'a, 'a>,
    wire: Wire<'a>,
    entries: &'a mut Vec<Entry>,
}

impl Row<'_> {
    #[inline]
    fn fill(&mut self, at: usize, fill: &Fill, column: &mut dyn TypedColumn) -> Step<()> {
        match fill {
            Fill::One { slot, leaf, presence } => match self.found.value(*slot) {
                Some(bits) => append(leaf, bits, self.wire, column),
                None => self.not_sent(at, leaf, presence, column),
            },
            other => self.seldom(at, other, column),
        }
    }

    #[inline(never)]
    fn seldom(&mut self, at: usize, fill: &Fill, column: &mut dyn TypedColumn) -> Step<()> {
        match fill {
            Fill::One { .. } => Ok(()),
            Fill::Absent => self.nothing(at, column),
            Fill::Message { list, leaf } => match self.found.list(*list) {
                [] => self.nothing(at, column),
                pieces => message(leaf, pieces, self.wire, column),
            },
            Fill::List { list, leaf } => {
                let Some((items, _)) = column.items() else { return fits(column.end(), "[…]") };
                for piece in self.found.list(*list) {
                    match leaf.encoding() {
                        Encoding::Sized => append(leaf, piece.pack(), self.wire, items)?,
                        encoding => {
                            let mut wire = self.wire.of(*piece);
                            while !wire.is_empty() {
                                append(leaf, wire.value(encoding)?, wire, items)?;
                            }
                        }
                    }
                }
                fits(column.end(), "[…]")
            }
            Fill::Map { list, key, value } => self.map(*list, key, value, column),
        }
    }

    /// A field that was not sent.
    #[inline(never)]
    fn not_sent(
        &self,
        at: usize,
        leaf: &Leaf,
        presence: &Presence,
        column: &mut dyn TypedColumn,
    ) -> Step<()> {
        let is_in_message = self.found.has(presence.parent);
        match (presence.rule, &self.plan.absences[at]) {
            (PresenceRule::Implicit, _) if is_in_message => default(leaf, &presence.default, column),
            (PresenceRule::Required, _) if is_in_message => Err(Fault::lacking(
                at,
                &self.schema.columns()[at].field,
                "is missing, and the schema requires it",
            )),
            (_, Absence::Required) => default(leaf, &presence.default, column),
            (_, absence) => fits(absence.append(column), "null"),
        }
    }

    /// Nothing at all, which no default stands for.
    fn nothing(&self, at: usize, column: &mut dyn TypedColumn) -> Step<()> {
        match &self.plan.absences[at] {
            Absence::Required => Err(Fault::absent(at, &self.schema.columns()[at].field)),
            absence => fits(absence.append(column), "null"),
        }
    }

    fn map(&mut self, list: usize, key: &Leaf, value: &Leaf, column: &mut dyn TypedColumn) -> Step<()> {
        let Some((keys, values, _)) = column.entries() else { return fits(column.end(), "{…}") };
        self.entries.clear();
        for (at, piece) in self.found.list(list).iter().enumerate() {
            let mut entry = Entry { key: None, value: None, at };
            let mut wire = self.wire.of(*piece);
            while !wire.is_empty() {
                let before = wire;
                let field = wire.key()?;
                let (part, leaf) = match field >> 3 {
                    1 => (&mut entry.key, key),
                    2 => (&mut entry.value, value),
                    _ => {
                        wire.skip(field)?;
                        continue;
                    }
                };
                if field & 7 != leaf.encoding().bits() {
                    return Err(before.fault("the entry's part is written as another type"));
                }
                *part = Some(wire.value(leaf.encoding())?);
            }
            self.entries.push(entry);
        }
        self.last_of_each(key);
        for entry in &*self.entries {
            part(key, entry.key, self.wire, keys)?;
            part(value, entry.value, self.wire, values)?;
        }
        fits(column.end(), "{…}")
    }

    /// Of entries with the same key the last one counts.
    fn last_of_each(&mut self, key: &Leaf) {
        if self.entries.len() < 2 {
            return;
        }
        let wire = self.wire;
        match key.encoding() {
            Encoding::Sized => {
                let bytes =
                    |entry: &Entry| entry.key.map_or(&b""[..], |bits| wire.bytes(Piece::unpack(bits)));
                self.entries.sort_unstable_by(|a, b| bytes(a).cmp(bytes(b)).then(b.at.cmp(&a.at)));
                self.entries.dedup_by(|later, kept| bytes(later) == bytes(kept));
            }
            _ => {
                let number = |entry: &Entry| same(key, entry.key.unwrap_or(0));
                self.entries.sort_unstable_by(|a, b| number(a).cmp(&number(b)).then(b.at.cmp(&a.at)));
                self.entries.dedup_by(|later, kept| number(later) == number(kept));
            }
        }
        self.entries.sort_unstable_by_key(|entry| entry.at);
    }
}

/// Bits that are the same for the same key, however it is written.
fn same(key: &Leaf, bits: u64) -> u64 {
    match key {
        Leaf::Number(Number::Bool, _) => (bits != 0).into(),
        Leaf::Number(Number::Signed32 | Number::Unsigned32 | Number::Zigzag32, _) => bits as u32 as u64,
        _ => bits,
    }
}

/// A part of an entry or the inside of a wrapper, which has its default where it was not sent.
fn part(leaf: &Leaf, bits: Option<u64>, wire: Wire<'_>, column: &mut dyn TypedColumn) -> Step<()> {
    match bits {
        Some(bits) => append(leaf, bits, wire, column),
        None if leaf.is_message() => message(leaf, &[], wire, column),
        None if leaf.encoding() == Encoding::Sized => default(leaf, &Default::Bytes([].into()), column),
        None => default(leaf, &Default::Bits(0), column),
    }
}

/// Appends a value: bits, or a piece of the record.
#[inline(always)]
fn append(leaf: &Leaf, bits: u64, wire: Wire<'_>, column: &mut dyn TypedColumn) -> Step<()> {
    match leaf {
        Leaf::Number(kind, _) => number(*kind, bits, column),
        Leaf::Text => {
            let piece = Piece::unpack(bits);
            let bytes = wire.bytes(piece);
            match std::str::from_utf8(bytes) {
                Ok(text) => text_fits(column.text(text), bytes),
                Err(error) => {
                    let at = wire.position(piece.at) + error.valid_up_to();
                    let byte = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
                    Err(Fault::bytes(at, format!("byte `0x{byte:02x}` of a string is not UTF-8")))
                }
            }
        }
        Leaf::Bytes => {
            let bytes = wire.bytes(Piece::unpack(bits));
            bytes_fit(column.bytes(bytes), bytes)
        }
        Leaf::Name(names) => match names.get(bits as i32) {
            Some(name) => text_fits(column.text(name), name.as_bytes()),
            None => {
                let rule = "is none of the enum's numbers; was it written with a newer schema?";
                fits(Err(Misfit::range(rule)), bits as i32)
            }
        },
        Leaf::Timestamp | Leaf::Duration | Leaf::Wrapper(_) => {
            message(leaf, &[Piece::unpack(bits)], wire, column)
        }
    }
}

/// Appends the default of a field.
fn default(leaf: &Leaf, default: &Default, column: &mut dyn TypedColumn) -> Step<()> {
    match (leaf, default) {
        (Leaf::Bytes, Default::Bytes(bytes)) => bytes_fit(column.bytes(bytes), bytes),
        (_, Default::Bytes(bytes)) => {
            // The compiler of a schema takes no other texts.
            let text = String::from_utf8_lossy(bytes);
            text_fits(column.text(&text), bytes)
        }
        (leaf, Default::Bits(bits)) => append(leaf, *bits, Wire::new(&[], 0, 0), column),
    }
}

#[inline(always)]
fn number(kind: Number, bits: u64, column: &mut dyn TypedColumn) -> Step<()> {
    let value = match kind {
        Number::Signed32 => i64::from(bits as i32),
        Number::Signed64 => bits as i64,
        Number::Unsigned32 => i64::from(bits as u32),
        Number::Zigzag32 => unzigzag(u64::from(bits as u32)),
        Number::Zigzag64 => unzigzag(bits),
        Number::Double => {
            let value = f64::from_bits(bits);
            return fits(column.float(value), value);
        }
        Number::Float => {
            let value = f32::from_bits(bits as u32);
            return fits(column.float(value.into()), value);
        }
        Number::Bool => return fits(column.boolean(bits != 0), bits != 0),
        Number::Unsigned64 => match i64::try_from(bits) {
            Ok(value) => value,
            Err(_) => return fits(column.decimal(Exact::of(bits.into(), 0)), bits),
        },
    };
    fits(column.signed(value), value)
}

/// Appends the value of a message that stands for one, merged of its pieces.
#[inline(never)]
fn message(leaf: &Leaf, pieces: &[Piece], wire: Wire<'_>, column: &mut dyn TypedColumn) -> Step<()> {
    match leaf {
        Leaf::Timestamp => {
            let [seconds, nanos] = parts(pieces, wire)?;
            timestamp(seconds as i64, nanos as i32, column)
        }
        Leaf::Duration => {
            let [seconds, nanos] = parts(pieces, wire)?;
            duration(seconds as i64, nanos as i32, column)
        }
        Leaf::Wrapper(inner) => {
            let mut found = None;
            for piece in pieces {
                let mut wire = wire.of(*piece);
                while !wire.is_empty() {
                    let before = wire;
                    let key = wire.key()?;
                    if key >> 3 != 1 {
                        wire.skip(key)?;
                    } else if key & 7 == inner.encoding().bits() {
                        found = Some(wire.value(inner.encoding())?);
                    } else {
                        return Err(before.fault("the value in the message is written as another type"));
                    }
                }
            }
            part(inner, found, wire, column)
        }
        _ => unreachable!("the caller has seen that it is a message"),
    }
}

/// The varints in the fields 1 and 2 of a message.
fn parts(pieces: &[Piece], wire: Wire<'_>) -> Step<[u64; 2]> {
    let mut found = [0; 2];
    for piece in pieces {
        let mut wire = wire.of(*piece);
        while !wire.is_empty() {
            let before = wire;
            let key = wire.key()?;
            match (key >> 3, key & 7) {
                (number @ 1..=2, 0) => found[number as usize - 1] = wire.varint()?,
                (1 | 2, _) => return Err(before.fault("the seconds or nanos are written as another type")),
                _ => wire.skip(key)?,
            }
        }
    }
    Ok(found)
}

/// The first and the last second that a Timestamp may have: the years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
/// A Duration may be so long to both sides: ten thousand years.
const DURATION_MAX: i64 = 315_576_000_000;
const NANOS: i32 = 1_000_000_000;

fn timestamp(seconds: i64, nanos: i32, column: &mut dyn TypedColumn) -> Step<()> {
    if !SECONDS.contains(&seconds) || !(0..NANOS).contains(&nanos) {
        let rule = "is no Timestamp: seconds from year 1 to 9999 and 0 to 999999999 nanos";
        return fits(Err(Misfit::range(rule)), format_args!("{seconds} s, {nanos} ns"));
    }
    let whole = seconds.checked_mul(NANOS.into()).and_then(|ticks| ticks.checked_add(nanos.into()));
    match whole {
        Some(ticks) => fits(column.timestamp(ticks, 9), format_args!("{seconds} s, {nanos} ns")),
        // Beyond what 64 bits hold in nanoseconds no column has them; a coarser one cuts them off.
        None => fits(
            column.timestamp(seconds * 1_000_000 + i64::from(nanos / 1_000), 6),
            format_args!("{seconds} s, {nanos} ns"),
        ),
    }
}

fn duration(seconds: i64, nanos: i32, column: &mut dyn TypedColumn) -> Step<()> {
    let is_mixed = (seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0);
    if seconds.unsigned_abs() > DURATION_MAX as u64 || nanos.unsigned_abs() >= NANOS as u32 || is_mixed {
        let rule = "is no Duration: at most 315576000000 seconds, and nanos of the same sign";
        return fits(Err(Misfit::range(rule)), format_args!("{seconds} s, {nanos} ns"));
    }
    let whole = i128::from(seconds) * i128::from(NANOS) + i128::from(nanos);
    fits(column.decimal(Exact::of(whole, -9)), format_args!("{seconds} s, {nanos} ns"))
}
