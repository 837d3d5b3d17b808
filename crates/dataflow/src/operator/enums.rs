//! The Enums whose values a state keeps.
//!
//! Owns which names and numbers those are. Does not own what a change of them means for the state (`protocol::record`), nor the types
//! themselves ([`crate::types`]).

use std::collections::BTreeMap;

use crate::ColumnType;
use crate::types::EnumName;

/// An Enum of a column whose values a state keeps, as numbers: with other names or numbers, the same state holds other values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptEnum {
    /// What has the type, as messages name it: a column, or an aggregate.
    pub of: String,
    /// The names and their numbers, by number.
    pub names: Vec<EnumName<i16>>,
}

impl KeptEnum {
    /// The Enums within a type, in their order: one for most, two for a Map of Enums, none for types without one.
    pub fn within(of: &str, column_type: &ColumnType) -> Vec<Self> {
        let mut found = Vec::new();
        collect(of, column_type, &mut found);
        found
    }

    /// Whether numbers of the two may be compared: no name has another number in the other, and no number another name.
    pub fn agrees(&self, other: &Self) -> bool {
        let numbers: BTreeMap<&str, i16> =
            other.names.iter().map(|(name, number)| (&**name, *number)).collect();
        let names: BTreeMap<i16, &str> =
            other.names.iter().map(|(name, number)| (*number, &**name)).collect();
        self.names.iter().all(|(name, number)| {
            numbers.get(&**name).is_none_or(|other| other == number)
                && names.get(number).is_none_or(|other| *other == &**name)
        })
    }
}

fn collect(of: &str, column_type: &ColumnType, found: &mut Vec<KeptEnum>) {
    let mut push = |mut names: Vec<EnumName<i16>>| {
        names.sort_by_key(|(_, number)| *number);
        found.push(KeptEnum { of: of.to_owned(), names });
    };
    match column_type {
        ColumnType::Enum8(names) => {
            push(names.iter().map(|(name, number)| (name.clone(), i16::from(*number))).collect());
        }
        ColumnType::Enum16(names) => push(names.to_vec()),
        ColumnType::LowCardinality(inner) | ColumnType::Nullable(inner) | ColumnType::Array(inner) => {
            collect(of, inner, found);
        }
        ColumnType::Map(key, value) => {
            collect(of, key, found);
            collect(of, value, found);
        }
        ColumnType::State(state) => state.arguments.iter().for_each(|inner| collect(of, inner, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
