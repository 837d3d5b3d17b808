//! PostgreSQL's types against those of our columns, and the question that gives each value in its exact form.
//!
//! Owns which types are read, by which of our types each is taken, and the SQL. Does not own what becomes of a single value: a number that is too large for its column, or a date
//! that is `infinity`, is turned down by the decoder, with its row.
//!
//! | type there                          | Bool | Int, UInt | Float | Decimal | String | UUID | Date, Date32 | DateTime, DateTime64 | Enum, FixedString, IPv4, IPv6 | Array   |
//! |-------------------------------------|------|-----------|-------|---------|--------|------|--------------|----------------------|-------------------------------|---------|
//! | `bool`                              | yes  |           |       |         |        |      |              |                      |                               |         |
//! | `int2`, `int4`, `int8`              |      | yes       | yes   | yes     |        |      |              |                      |                               |         |
//! | `float4`, `float8`                  |      |           | yes   |         |        |      |              |                      |                               |         |
//! | `numeric`                           |      | yes       | yes   | yes     |        |      |              |                      |                               |         |
//! | `text`, `varchar`, `char(n)`, enums, `citext` | | yes     | yes   | yes     | yes    | yes  | yes          | yes                  | yes                           |         |
//! | `uuid`                              |      |           |       |         | yes    | yes  |              |                      |                               |         |
//! | `date`                              |      |           |       |         | yes    |      | yes          |                      |                               |         |
//! | `timestamp`, `timestamptz`          |      |           |       |         | yes    |      |              | yes                  |                               |         |
//! | `json`, `jsonb`                     |      |           |       |         | yes    |      |              |                      |                               |         |
//! | arrays of these                     |      |           |       |         |        |      |              |                      |                               | by item |
//! | domains                             | as what they are made of |                                                                                                              |

use std::error::Error;

use dataflow::{Column, ColumnType, Schema};
use tokio_postgres::types::{FromSql, Kind, Type};

use crate::Rows;

/// What a type is to us.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Bool,
    /// The name of our type for it.
    Integer(&'static str),
    Float(&'static str),
    Numeric,
    Text,
    Uuid,
    Date,
    Timestamp,
    TimestampTz,
    Json,
    Array(Box<Shape>),
}

impl Shape {
    /// `None` for a type that is not read.
    fn of(of: &Type) -> Option<Self> {
        match of.kind() {
            Kind::Domain(inner) => return Self::of(inner),
            Kind::Enum(_) => return Some(Self::Text),
            Kind::Array(item) => {
                return Self::of(item)
                    .filter(|item| !matches!(item, Self::Array(_)))
                    .map(|item| Self::Array(item.into()));
            }
            Kind::Simple => {}
            _ => return None,
        }
        Some(match *of {
            Type::BOOL => Self::Bool,
            Type::INT2 => Self::Integer("Int16"),
            Type::INT4 => Self::Integer("Int32"),
            Type::INT8 => Self::Integer("Int64"),
            Type::FLOAT4 => Self::Float("Float32"),
            Type::FLOAT8 => Self::Float("Float64"),
            Type::NUMERIC => Self::Numeric,
            Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN => Self::Text,
            Type::UUID => Self::Uuid,
            Type::DATE => Self::Date,
            Type::TIMESTAMP => Self::Timestamp,
            Type::TIMESTAMPTZ => Self::TimestampTz,
            Type::JSON | Type::JSONB => Self::Json,
            // An extension's type has a number of its own in each database.
            _ if of.name() == "citext" => Self::Text,
            _ => return None,
        })
    }

    fn fits(&self, column_type: &ColumnType) -> bool {
        use ColumnType as T;
        let bare = column_type.bare();
        let is_integer = matches!(
            bare,
            T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64
        );
        let is_number = is_integer || matches!(bare, T::Float32 | T::Float64 | T::Decimal { .. });
        match self {
            Self::Bool => matches!(bare, T::Bool),
            Self::Integer(_) | Self::Numeric => is_number,
            Self::Float(_) => matches!(bare, T::Float32 | T::Float64),
            Self::Text => !matches!(bare, T::Bool | T::Array(_) | T::Map(..) | T::State(_)),
            Self::Uuid => matches!(bare, T::Uuid | T::String),
            Self::Date => matches!(bare, T::Date | T::Date32 | T::String),
            Self::Timestamp | Self::TimestampTz => {
                matches!(bare, T::DateTime { .. } | T::DateTime64 { .. } | T::String)
            }
            Self::Json => matches!(bare, T::String),
            Self::Array(item) => matches!(bare, T::Array(of) if item.fits(of)),
        }
    }

    /// The type to write under `fields`.
    fn ours(&self) -> String {
        match self {
            Self::Bool => "Bool".to_owned(),
            Self::Integer(name) | Self::Float(name) => (*name).to_owned(),
            Self::Numeric => "Decimal(38, 9)".to_owned(),
            Self::Text | Self::Json => "String".to_owned(),
            Self::Uuid => "UUID".to_owned(),
            Self::Date => "Date32".to_owned(),
            Self::Timestamp => "DateTime64(6)".to_owned(),
            Self::TimestampTz => "DateTime64(6, 'UTC')".to_owned(),
            Self::Array(item) => format!("Array({})", item.ours()),
        }
    }

    /// The expression that gives a value in the form that JSON shall hold.
    fn expression(&self, name: &str) -> String {
        match self {
            Self::Text | Self::Json => format!("{name}::text"),
            Self::Array(item) if matches!(**item, Self::Text | Self::Json) => format!("{name}::text[]"),
            _ => name.to_owned(),
        }
    }
}

/// The question whose answer describes the columns.
pub(crate) fn columns(rows: &Rows, columns: &Schema) -> String {
    let names: Vec<String> = columns.columns().iter().map(|column| quoted(&column.name)).collect();
    format!("SELECT {} FROM {}", names.join(", "), from(rows))
}

/// The question whose answer is a JSON object a row, for columns of the types that were `found`; of the rows for which `condition` holds, if there is one.
///
/// # Errors
/// When one of them is not read, or not as what it is declared: of all of them, with the way out.
pub(crate) fn question(
    rows: &Rows,
    columns: &Schema,
    found: &[(&str, &Type)],
    condition: Option<&str>,
) -> Result<String, String> {
    let (mut items, mut faults) = (Vec::new(), Vec::new());
    let all: Vec<&str> = columns.columns().iter().map(|column| column.name.as_str()).collect();
    for (column, (name, of)) in columns.columns().iter().zip(found) {
        match item(column, name, of, &all) {
            Ok(item) => items.push(item),
            Err(fault) => faults.push(fault),
        }
    }
    if !faults.is_empty() {
        return Err(faults.join("; "));
    }
    let condition = condition.map_or_else(String::new, |condition| format!(" WHERE {condition}"));
    Ok(format!(
        "SELECT row_to_json(\"row\")::text FROM (SELECT {} FROM {}{condition}) AS \"row\"",
        items.join(", "),
        from(rows)
    ))
}

/// How the values of a key's column are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AskedAs {
    /// The type that a list of texts is cast to.
    pub cast: String,
    /// What they are there.
    pub values: Values,
}

/// What the values of a key's column are on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Integers,
    Texts,
    Days,
    Others,
}

/// How the values of the key column `key`, one of `columns` and of those `found`, are asked for.
///
/// # Errors
/// When values of its type there cannot be asked for as what they are here; with the way out.
pub(crate) fn asked_as(columns: &Schema, key: &str, found: &[(&str, &Type)]) -> Result<AskedAs, String> {
    use ColumnType as T;
    let of = columns.columns().iter().zip(found).find(|(column, _)| column.name == key);
    let (column, (_, of)) = of.ok_or_else(|| format!("`{key}` is not among the columns; report this"))?;
    let mut base = *of;
    while let Kind::Domain(inner) = base.kind() {
        base = inner;
    }
    let bare = column.column_type.bare();
    let is_integer = matches!(
        bare,
        T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64
    );
    let (is_enum, shape) = (matches!(base.kind(), Kind::Enum(_)), Shape::of(base));
    let cast = match (&shape, bare) {
        // Operators between integers of two widths use the index of either.
        (Some(Shape::Integer(_)), _) if is_integer => "int8[]".to_owned(),
        (Some(Shape::Numeric), _) if is_integer => "numeric[]".to_owned(),
        (Some(Shape::Text), T::String) if !is_enum => match *base {
            Type::TEXT | Type::VARCHAR | Type::NAME | Type::UNKNOWN => "text[]".to_owned(),
            _ => format!("{}.{}[]", quoted(base.schema()), quoted(base.name())),
        },
        (Some(Shape::Uuid), T::Uuid) => "uuid[]".to_owned(),
        (Some(Shape::Date), T::Date | T::Date32) => "date[]".to_owned(),
        (Some(Shape::Bool), T::Bool) => "bool[]".to_owned(),
        _ => {
            return Err(format!(
                "`{key}` is of type `{}` there, and keys of that cannot be asked for as what it is under `fields`; give it there the type that it has, or cast it in `query`, \
                 or leave `cache` out",
                of.name()
            ));
        }
    };
    let values = match shape {
        Some(Shape::Integer(_)) => Values::Integers,
        Some(Shape::Text) => Values::Texts,
        Some(Shape::Date) => Values::Days,
        _ => Values::Others,
    };
    Ok(AskedAs { cast, values })
}

fn item(column: &Column, found: &str, of: &Type, all: &[&str]) -> Result<String, String> {
    let name = &column.name;
    if name != found {
        return Err(format!(
            "`{name}` is longer than a name can be there, which is 63 bytes; use `query` and give it a shorter name"
        ));
    }
    let own = quoted(name);
    let Some(shape) = Shape::of(of) else {
        let columns: Vec<String> = all
            .iter()
            .map(|other| if other == name { format!("{own}::text AS {own}") } else { quoted(other) })
            .collect();
        return Err(format!(
            "`{name}` is of type `{}` there, which is not read; cast it to one that is: `query: 'SELECT {} FROM …'`",
            of.name(),
            columns.join(", ")
        ));
    };
    if !shape.fits(&column.column_type) {
        return Err(format!(
            "`{name}` is of type `{}` there, and its type under `fields` does not take that; write `{name}: {}`",
            of.name(),
            shape.ours()
        ));
    }
    Ok(format!("{} AS {own}", shape.expression(&own)))
}

fn from(rows: &Rows) -> String {
    match rows {
        Rows::Table { .. } => quoted_table(rows).unwrap_or_default(),
        // A comment at its end must not swallow what follows.
        Rows::Query(query) => format!("(\n{}\n) AS \"side\"", query.trim_end().trim_end_matches(';')),
    }
}

/// The name of the table; `None` for a query.
pub(crate) fn quoted_table(rows: &Rows) -> Option<String> {
    let Rows::Table { schema, table } = rows else { return None };
    let schema = schema.as_ref().map_or_else(String::new, |schema| format!("{}.", quoted(schema)));
    Some(format!("{schema}{}", quoted(table)))
}

/// A name in SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A value of type text, as its bytes: a database may hold such that are not UTF-8.
pub(crate) struct Line<'a>(pub &'a [u8]);

impl<'a> FromSql<'a> for Line<'a> {
    fn from_sql(_: &Type, bytes: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(bytes))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::TEXT
    }
}

#[cfg(test)]
mod tests;
