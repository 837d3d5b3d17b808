//! Records by their schema alone, without columns: where each ends, whether two schemas write the same bytes, and a record as JSON.
//!
//! Owns these for whoever takes records and does not decode them. Does not own the walk over a value's bytes (`avro::datum`), the forms that values have in
//! JSON (`avro::text`), nor the files that records come in (`avro::container`).

use std::collections::BTreeSet;

use super::ConfigError;
use super::cursor::Cursor;
use super::datum::skip;
use super::schema::{SchemaError, Shape, Type, TypeId, Types};
use super::text::{self, Out};

/// The schema of records.
#[derive(Debug)]
pub struct RecordSchema(Shape);

/// Why a record has no form in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoJson {
    /// It is longer than was allowed.
    TooLong,
    /// It is not of the schema, or has a value that JSON cannot hold: the sentence.
    Refused(String),
}

impl RecordSchema {
    /// Reads a schema's text.
    ///
    /// # Errors
    /// When it is no schema, one of something else than records, or one of which no record can exist.
    pub fn read(text: &str) -> Result<Self, ConfigError> {
        let types = Types::read(text)?;
        let Type::Record(fields) = types.get(types.root()) else {
            return Err(ConfigError::NoRecord { found: types.name(types.root()) });
        };
        let has_value = types.has_value();
        if let Some((endless, _)) = fields.iter().find(|(_, field)| !has_value[*field]) {
            let why = "a record there holds itself without an end, so no record of this schema can be written; let it hold \
                       a union of `null` and itself, or an array of itself";
            return Err(SchemaError::new(why).within(endless).into());
        }
        Ok(Self(Shape::of(types)))
    }

    /// Whether a record has no bytes at all, so that their number is bounded by nothing.
    pub fn is_empty(&self) -> bool {
        self.0.empty[self.0.types.root()]
    }

    /// The types of the schema: a record is stepped over in about as many steps, beside one for each of its bytes.
    pub fn width(&self) -> usize {
        self.0.empty.len()
    }

    /// Where the record that begins at `bytes[at]` ends. Values are stepped over as a decoder does with those that no column asks for.
    ///
    /// # Errors
    /// A sentence, when the bytes are not of this schema.
    pub fn end_of(&self, bytes: &[u8], at: usize) -> Result<usize, String> {
        let mut cursor = Cursor::new(bytes, at, bytes.len());
        match skip(&self.0, self.0.types.root(), &mut cursor, 0) {
            Ok(()) => Ok(at + cursor.position()),
            Err(fault) => Err(fault.sentence()),
        }
    }

    /// Appends the record that begins at `bytes[at]` as a JSON object of at most `bytes_max` bytes; where the record ends.
    ///
    /// # Errors
    /// When there is no room, or the record has no such form. What was appended by then is to be taken back.
    pub fn to_json(
        &self,
        bytes: &[u8],
        at: usize,
        (out, bytes_max): (&mut Vec<u8>, usize),
    ) -> Result<usize, NoJson> {
        let mut cursor = Cursor::new(bytes, at, bytes.len());
        let mut out = Out::new(out, bytes_max);
        let written = text::write(&self.0, self.0.types.root(), &mut cursor, &mut out, 0);
        match written {
            _ if out.is_full() => Err(NoJson::TooLong),
            Ok(()) => Ok(at + cursor.position()),
            Err(fault) => Err(NoJson::Refused(fault.sentence())),
        }
    }

    /// In what another schema differs, so that its records have other bytes, or the same bytes another meaning; `None` if in nothing. Names of types and
    /// what does not matter to a record's bytes (`doc`, `default`, `aliases`) may differ.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let (own, other) = (&self.0.types, &other.0.types);
        let mut seen = BTreeSet::new();
        let (place, why) = differ((own, own.root()), (other, other.root()), &mut seen)?;
        Some(if place.is_empty() { why } else { format!("field `{place}`: {why}") })
    }
}

/// The place of the first difference, dotted, and what it is.
///
/// A type that is named again was compared where it was defined, which is before: so the recursion is no deeper than the text.
fn differ(
    (own, id): (&Types, TypeId),
    (others, other): (&Types, TypeId),
    seen: &mut BTreeSet<(TypeId, TypeId)>,
) -> Option<(String, String)> {
    if !seen.insert((id, other)) {
        return None;
    }
    let mut inner = |id: &TypeId, other: &TypeId| differ((own, *id), (others, *other), seen);
    let is_not = |why: String| Some((String::new(), why));
    match (own.get(id), others.get(other)) {
        (Type::Array(own), Type::Array(other)) | (Type::Map(own), Type::Map(other)) => inner(own, other),
        (Type::Union(own), Type::Union(other)) if own.len() == other.len() => {
            own.iter().zip(other).find_map(|(own, other)| inner(own, other))
        }
        (Type::Record(own), Type::Record(other)) => {
            let named = |fields: &[(Box<str>, TypeId)], at: usize| {
                fields.get(at).map_or("nothing".to_owned(), |(name, _)| format!("`{name}`"))
            };
            (0..own.len().max(other.len())).find_map(|at| match (own.get(at), other.get(at)) {
                (Some((name, own)), Some((same, other))) if name == same => {
                    let (place, why) = inner(own, other)?;
                    let dot = if place.is_empty() { "" } else { "." };
                    Some((format!("{name}{dot}{place}"), why))
                }
                _ => {
                    let (ours, theirs) = (named(own, at), named(other, at));
                    is_not(format!("its field number {} is {theirs} instead of {ours}", at + 1))
                }
            })
        }
        (same, found) if same == found => None,
        _ => {
            let (ours, theirs) = (own.name(id), others.name(other));
            is_not(match ours == theirs {
                true => format!("its {ours} has other symbols, another size or another scale"),
                false => format!("it is {theirs} instead of {ours}"),
            })
        }
    }
}

#[cfg(test)]
mod tests;
