//! What a column gets where a record has nothing for it.
//!
//! Owns the choice between NULL, the DEFAULT and a refusal, which is made once for each column. Does not own what counts as nothing: that is
//! each format's.

use dataflow::Column;
use serde_json::Value;

use super::rules::{Fit, Misfit};
use super::typed::{TypedColumn, append_json};

/// What a column gets where a record has nothing for it.
#[derive(Debug)]
pub(crate) enum Absence {
    /// Nothing: the record is turned down.
    Required,
    /// A null, which stands for NULL or for the DEFAULT.
    Null,
    /// The DEFAULT itself, where it cannot be sent as NULL.
    Default(Value),
}

impl Absence {
    /// What `column` gets.
    pub fn of(column: &Column) -> Self {
        match &column.default_json {
            _ if !column.is_optional() => Self::Required,
            // Text that is no JSON stands for nothing.
            Some(json) => serde_json::from_str(json).map_or(Self::Required, Self::Default),
            None => Self::Null,
        }
    }

    /// Appends it. After an error `column` is as it was.
    pub fn append(&self, column: &mut dyn TypedColumn) -> Fit<()> {
        match self {
            Self::Required => {
                Err(Misfit::missing("is refused, because its column has neither NULL nor a DEFAULT"))
            }
            Self::Null => column.null(),
            Self::Default(json) => {
                let before = column.len();
                append_json(column, json).map_err(|_| {
                    // Only a DEFAULT that the column's own type does not take fails here; then nothing can replace the null.
                    column.truncate(before);
                    Misfit::missing("is refused, because its column's DEFAULT is not of its type")
                })
            }
        }
    }
}
