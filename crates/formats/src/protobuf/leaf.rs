//! What a column makes of a field's type.
//!
//! Owns the kinds of values that fields have, and the refusal of columns that a field can never fill. Does not own fields inside messages
//! (`protobuf::plan`) nor the values (`protobuf::fill`).

use std::collections::BTreeMap;
use std::sync::Arc;

use dataflow::ColumnType;
use protox::prost_reflect::{EnumDescriptor, FieldDescriptor, Kind as FieldKind, MessageDescriptor};

use super::plan::Encoding;
use crate::columns::{Kind, takes, type_word};

/// A value that fills a column, an item or a part of an entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Leaf {
    Number(Number, Encoding),
    /// An enum as its name.
    Name(Arc<Names>),
    Text,
    Bytes,
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// `google.protobuf.Duration`.
    Duration,
    /// The value in a message such as `google.protobuf.Int64Value`.
    Wrapper(Box<Leaf>),
}

/// How the bits of a number are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Bool,
    /// `int32` and `sfixed32`; also an enum as its number.
    Signed32,
    Signed64,
    Unsigned32,
    Unsigned64,
    Zigzag32,
    Zigzag64,
    Float,
    Double,
}

/// The names of an enum.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Names {
    by_number: BTreeMap<i32, Box<str>>,
}

impl Names {
    fn of(found: &EnumDescriptor) -> Self {
        let mut by_number = BTreeMap::new();
        for value in &found.enum_descriptor_proto().value {
            // Of several names of a number the first counts.
            by_number.entry(value.number()).or_insert_with(|| value.name().into());
        }
        Self { by_number }
    }

    /// The name of a number.
    pub fn get(&self, number: i32) -> Option<&str> {
        self.by_number.get(&number).map(|name| &**name)
    }
}

impl Number {
    fn kind(self) -> Kind {
        match self {
            Self::Bool => Kind::Bool,
            Self::Float | Self::Double => Kind::Float,
            _ => Kind::Integer,
        }
    }
}

impl Leaf {
    /// How it is written.
    pub fn encoding(&self) -> Encoding {
        match self {
            Self::Number(_, encoding) => *encoding,
            Self::Name(_) => Encoding::Varint,
            Self::Text | Self::Bytes | Self::Timestamp | Self::Duration | Self::Wrapper(_) => Encoding::Sized,
        }
    }

    /// Whether it is written as a message, of which pieces may come one after the other.
    pub fn is_message(&self) -> bool {
        matches!(self, Self::Timestamp | Self::Duration | Self::Wrapper(_))
    }

    /// What a value, an item or the part of an entry of the type of `field` is for `column_type`.
    ///
    /// # Errors
    /// Why no such column takes it.
    pub fn of(field: &FieldDescriptor, column_type: &ColumnType) -> Result<Self, String> {
        let of = |kind: Kind, leaf: Self| match takes(column_type, kind) {
            true => Ok(leaf),
            false => Err(refusal(field, column_type, kind)),
        };
        if let Some((number, encoding)) = number(&field.kind()) {
            return of(number.kind(), Self::Number(number, encoding));
        }
        match field.kind() {
            FieldKind::String => of(Kind::Text, Self::Text),
            FieldKind::Bytes => of(Kind::Bytes, Self::Bytes),
            FieldKind::Enum(found) => enumeration(&found, field, column_type),
            FieldKind::Message(_) if field.is_group() => {
                Err("the schema has a group, which is skipped".into())
            }
            FieldKind::Message(found) => message(&found, field, column_type),
            _ => unreachable!("all others are numbers"),
        }
    }
}

/// The number that a kind is, and how it is written; an enum is none by itself.
fn number(kind: &FieldKind) -> Option<(Number, Encoding)> {
    Some(match kind {
        FieldKind::Bool => (Number::Bool, Encoding::Varint),
        FieldKind::Int32 => (Number::Signed32, Encoding::Varint),
        FieldKind::Int64 => (Number::Signed64, Encoding::Varint),
        FieldKind::Uint32 => (Number::Unsigned32, Encoding::Varint),
        FieldKind::Uint64 => (Number::Unsigned64, Encoding::Varint),
        FieldKind::Sint32 => (Number::Zigzag32, Encoding::Varint),
        FieldKind::Sint64 => (Number::Zigzag64, Encoding::Varint),
        FieldKind::Fixed32 => (Number::Unsigned32, Encoding::Fixed32),
        FieldKind::Fixed64 => (Number::Unsigned64, Encoding::Fixed64),
        FieldKind::Sfixed32 => (Number::Signed32, Encoding::Fixed32),
        FieldKind::Sfixed64 => (Number::Signed64, Encoding::Fixed64),
        FieldKind::Float => (Number::Float, Encoding::Fixed32),
        FieldKind::Double => (Number::Double, Encoding::Fixed64),
        FieldKind::String | FieldKind::Bytes | FieldKind::Enum(_) | FieldKind::Message(_) => return None,
    })
}

/// An enum: its name where a column has names or texts, its number where it has integers.
fn enumeration(
    found: &EnumDescriptor,
    field: &FieldDescriptor,
    column_type: &ColumnType,
) -> Result<Leaf, String> {
    use ColumnType as T;
    match column_type.bare() {
        T::String | T::FixedString(_) | T::Enum8(_) | T::Enum16(_) => {
            Ok(Leaf::Name(Arc::new(Names::of(found))))
        }
        T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => {
            Ok(Leaf::Number(Number::Signed32, Encoding::Varint))
        }
        _ => Err(format!(
            "the schema has {}, whose names fill String and Enum and whose numbers fill integers; {} takes neither",
            type_name(field),
            type_word(column_type)
        )),
    }
}

fn message(
    found: &MessageDescriptor,
    field: &FieldDescriptor,
    column_type: &ColumnType,
) -> Result<Leaf, String> {
    use ColumnType as T;
    let is_integer = matches!(
        column_type.bare(),
        T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64
    );
    match found.full_name() {
        "google.protobuf.Timestamp" if is_integer => Err(format!(
            "the schema has {}, which is no number; name a field in it, as in `{}.seconds`",
            found.full_name(),
            field.name()
        )),
        "google.protobuf.Timestamp" if takes(column_type, Kind::Timestamp) => Ok(Leaf::Timestamp),
        "google.protobuf.Timestamp" => Err(refusal(field, column_type, Kind::Timestamp)),
        "google.protobuf.Duration" => {
            let is_time = matches!(column_type.bare(), T::DateTime { .. } | T::DateTime64 { .. });
            match takes(column_type, Kind::Decimal) && !is_time {
                true => Ok(Leaf::Duration),
                false => Err(format!(
                    "the schema has {}, whose seconds fill Decimal, floats and, if they are whole, integers; {} is none of them",
                    found.full_name(),
                    type_word(column_type)
                )),
            }
        }
        "google.protobuf.DoubleValue"
        | "google.protobuf.FloatValue"
        | "google.protobuf.Int64Value"
        | "google.protobuf.UInt64Value"
        | "google.protobuf.Int32Value"
        | "google.protobuf.UInt32Value"
        | "google.protobuf.BoolValue"
        | "google.protobuf.StringValue"
        | "google.protobuf.BytesValue" => match found.get_field(1) {
            Some(value) => Ok(Leaf::Wrapper(Box::new(Leaf::of(&value, column_type)?))),
            None => Err(format!("the schema's {} has no value", found.full_name())),
        },
        _ => Err(format!(
            "the schema has message {}, which no column takes whole; name a field in it, as in `{}.name`",
            found.full_name(),
            field.name()
        )),
    }
}

fn refusal(field: &FieldDescriptor, column_type: &ColumnType, kind: Kind) -> String {
    format!(
        "the schema has {}, and {} does not take {}",
        type_name(field),
        type_word(column_type),
        kind.as_str()
    )
}

/// A field's type in messages, without the word `repeated`.
pub(super) fn type_name(field: &FieldDescriptor) -> String {
    match field.kind() {
        FieldKind::Message(_) if field.is_group() => "a group".into(),
        FieldKind::Message(found) => format!("message {}", found.full_name()),
        FieldKind::Enum(found) => format!("enum {}", found.full_name()),
        FieldKind::Double => "double".into(),
        FieldKind::Float => "float".into(),
        FieldKind::Int32 => "int32".into(),
        FieldKind::Int64 => "int64".into(),
        FieldKind::Uint32 => "uint32".into(),
        FieldKind::Uint64 => "uint64".into(),
        FieldKind::Sint32 => "sint32".into(),
        FieldKind::Sint64 => "sint64".into(),
        FieldKind::Fixed32 => "fixed32".into(),
        FieldKind::Fixed64 => "fixed64".into(),
        FieldKind::Sfixed32 => "sfixed32".into(),
        FieldKind::Sfixed64 => "sfixed64".into(),
        FieldKind::Bool => "bool".into(),
        FieldKind::String => "string".into(),
        FieldKind::Bytes => "bytes".into(),
    }
}
