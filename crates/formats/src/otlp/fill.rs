//! A field's value into its column.
//!
//! Owns what each [`What`] makes of the slots of a message. Does not own the rules of columns ([`crate::columns`]).

use super::fault::{Fault, Step, fits, text_fits, utf8};
use super::fields::What;
use super::messages::AS_INT;
use super::value;
use super::wire::{self, Slots};
use crate::columns::{Absence, Exact, Kind, TypedColumn};

/// The attribute whose text is the name of the service.
const SERVICE_NAME: &str = "service.name";

/// Memory that filling needs, kept from one value to the next.
#[derive(Debug, Default)]
pub(super) struct Scratch<'a> {
    text: String,
    inner: Slots<'a>,
}

/// Appends a value of `message` to `column`. After an error the column may hold a part of it.
#[inline]
pub(super) fn fill<'a>(
    what: &'static What,
    message: &Slots<'a>,
    column: &mut dyn TypedColumn,
    absence: &Absence,
    scratch: &mut Scratch<'a>,
) -> Step<()> {
    let number = |at: u8| message.numbers[usize::from(at)];
    let list = |at: u8| &message.lists[usize::from(at)][..];
    match *what {
        What::Nothing(kind) => nothing(kind, column, absence),
        What::MaybeDouble(at) if !message.has(at) && !matches!(absence, Absence::Required) => {
            nothing(Kind::Float, column, absence)
        }
        What::Inside(at, spec, what) => {
            let mut inner = std::mem::take(&mut scratch.inner);
            let filled =
                inner.read_all(spec, list(at)).and_then(|()| flat(what, &inner, column, &mut scratch.text));
            scratch.inner = inner;
            filled
        }
        What::Each(at, spec, what) => {
            let mut inner = std::mem::take(&mut scratch.inner);
            let filled = each(
                list(at),
                |piece, items| {
                    inner.read(spec, piece)?;
                    flat(what, &inner, items, &mut scratch.text)
                },
                column,
            );
            scratch.inner = inner;
            filled
        }
        What::Time(at) => time(number(at), column),
        _ => flat(what, message, column, &mut scratch.text),
    }
}

/// The same for what stands in the message itself.
fn flat(
    what: &'static What,
    message: &Slots<'_>,
    column: &mut dyn TypedColumn,
    scratch: &mut String,
) -> Step<()> {
    let number = |at: u8| message.numbers[usize::from(at)];
    let bytes = |at: u8| message.texts[usize::from(at)];
    let list = |at: u8| &message.lists[usize::from(at)][..];
    match *what {
        What::Text(at) => text(utf8(bytes(at))?, column),
        What::Hex(at) => text(value::hex(bytes(at), scratch), column),
        What::Time(at) => time(number(at), column),
        What::Signed(at) => signed(number(at) as i64, column),
        What::Zigzag(at) => signed(wire::zigzag(number(at)), column),
        What::Unsigned(at) => unsigned(number(at), column),
        What::Low8(at) => signed((number(at) & 0xff) as i64, column),
        What::Bool(at) => {
            let value = number(at) != 0;
            fits(column.boolean(value), value)
        }
        What::Double(at) | What::MaybeDouble(at) => double(f64::from_bits(number(at)), column),
        What::Number(at) if number(at + 1) == AS_INT => signed(number(at) as i64, column),
        What::Number(at) => double(f64::from_bits(number(at)), column),
        What::Word(at, words) => match words.get(number(at) as usize) {
            Some(word) => text(word, column),
            None => text(&(number(at) as i64).to_string(), column),
        },
        What::Always(word) => text(word, column),
        What::Any(at) => match value::of_pieces(list(at))? {
            map @ value::Any::Map(_) => text(map.text_with(doubles_of(column), scratch)?, column),
            value => text(value.text(scratch)?, column),
        },
        What::Attributes(at) => attributes(list(at), column, scratch),
        What::Paths(at) => paths(list(at), column),
        What::Service => service(list(super::messages::ATTRIBUTES), column, scratch),
        What::Doubles(at) => {
            numbers(wire::fixed64s(list(at))?, column, |bits, items| double(f64::from_bits(bits), items))
        }
        What::Counts(at) => numbers(wire::fixed64s(list(at))?, column, unsigned),
        What::Varints(at) => {
            let Some((items, _)) = column.items() else { return fits(column.end(), "[…]") };
            wire::varints(list(at), |value| unsigned(value, items))?;
            fits(column.end(), "[…]")
        }
        // Nothing stands deeper than these.
        What::Nothing(_) | What::Inside(..) | What::Each(..) => {
            Err(Fault::malformed("a part within a part".into()))
        }
    }
}

/// What a row gets that does not have the field.
fn nothing(kind: Kind, column: &mut dyn TypedColumn, absence: &Absence) -> Step<()> {
    if !matches!(absence, Absence::Required) {
        return fits(absence.append(column), "null");
    }
    let empty = match kind {
        Kind::Bool => column.boolean(false),
        Kind::Integer => column.signed(0),
        Kind::Float => column.float(0.0),
        Kind::Timestamp => column.timestamp(0, 9),
        Kind::List | Kind::Map => column.end(),
        Kind::Text | Kind::Decimal | Kind::Bytes | Kind::Date | Kind::LocalTimestamp | Kind::Uuid => {
            column.text("")
        }
    };
    fits(empty, "nothing")
}

#[inline]
fn text(text: &str, column: &mut dyn TypedColumn) -> Step<()> {
    text_fits(column.text(text), text)
}

#[inline]
fn signed(value: i64, column: &mut dyn TypedColumn) -> Step<()> {
    fits(column.signed(value), value)
}

fn unsigned(value: u64, column: &mut dyn TypedColumn) -> Step<()> {
    match i64::try_from(value) {
        Ok(value) => signed(value, column),
        // A float column takes it too.
        Err(_) => fits(column.decimal(Exact::of(value.into(), 0)), value),
    }
}

fn double(value: f64, column: &mut dyn TypedColumn) -> Step<()> {
    fits(column.float(value), value)
}

#[inline]
fn time(nanoseconds: u64, column: &mut dyn TypedColumn) -> Step<()> {
    match i64::try_from(nanoseconds) {
        Ok(ticks) => fits(column.timestamp(ticks, 9), ticks),
        Err(_) => Err(too_late(nanoseconds)),
    }
}

#[cold]
fn too_late(nanoseconds: u64) -> Box<Fault> {
    let message = format!("value `{nanoseconds}` (nanoseconds since 1970) is beyond the year 2262");
    Box::new(Fault { reason: dataflow::Reason::OutOfRange, column: None, message })
}

fn numbers(
    values: impl Iterator<Item = u64>,
    column: &mut dyn TypedColumn,
    append: impl Fn(u64, &mut dyn TypedColumn) -> Step<()>,
) -> Step<()> {
    let Some((items, _)) = column.items() else { return fits(column.end(), "[…]") };
    for value in values {
        append(value, items)?;
    }
    fits(column.end(), "[…]")
}

fn each<'a>(
    pieces: &[&'a [u8]],
    mut append: impl FnMut(&'a [u8], &mut dyn TypedColumn) -> Step<()>,
    column: &mut dyn TypedColumn,
) -> Step<()> {
    let Some((items, _)) = column.items() else { return fits(column.end(), "[…]") };
    for piece in pieces {
        append(piece, items)?;
    }
    fits(column.end(), "[…]")
}

/// How floats are written within what goes to `column`.
fn doubles_of(column: &dyn TypedColumn) -> value::Doubles {
    if column.type_name() == "JSON" { value::double_in_json } else { value::double }
}

fn attributes(pairs: &[&[u8]], column: &mut dyn TypedColumn, scratch: &mut String) -> Step<()> {
    let Some((keys, values, is_nullable)) = column.entries() else {
        scratch.clear();
        value::object(pairs, doubles_of(column), scratch)?;
        return text(scratch, column);
    };
    for pair in pairs {
        let (key, value) = value::key_value(pair)?;
        text(key, keys)?;
        match value {
            value::Any::Nothing if is_nullable => fits(values.null(), "null")?,
            value => text(value.text(scratch)?, values)?,
        }
    }
    fits(column.end(), "{…}")
}

fn paths(pairs: &[&[u8]], column: &mut dyn TypedColumn) -> Step<()> {
    let Some((items, _)) = column.items() else { return fits(column.end(), "[…]") };
    for path in value::paths(pairs)? {
        text(&path, items)?;
    }
    fits(column.end(), "[…]")
}

fn service(pairs: &[&[u8]], column: &mut dyn TypedColumn, scratch: &mut String) -> Step<()> {
    for pair in pairs {
        let (key, value) = value::key_value(pair)?;
        if key == SERVICE_NAME {
            return text(value.text(scratch)?, column);
        }
    }
    text("", column)
}
