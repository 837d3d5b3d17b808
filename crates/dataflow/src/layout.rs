//! The columns that a frame was made for.
//!
//! Owns the words for a table's columns as they travel with frames: the journal keeps them, so that a frame sealed for other columns
//! than the table has now is known as one. Does not own what a change of columns means for a frame ([`crate::Table::fit`]).

/// Replaces the DEFAULT of a column that has none, and was added to a table after the first write: a record
/// without it gets the type's own zero value, as existing rows do.
pub const TYPE_DEFAULT: &str = "defaultValueOfType";

/// The columns of a frame, in order. Empty if the table does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The columns, with those that the table fills for itself (a provenance column).
    pub columns: Vec<LayoutColumn>,
}

/// One column of a [`Layout`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayoutColumn {
    /// Its name.
    pub name: String,
    /// Its type, as the server writes it.
    pub type_name: String,
    /// What stands in the table where a record gave no value: the column's DEFAULT, or [`TYPE_DEFAULT`]; empty if it has none.
    pub default: String,
    /// Whether every record must give a value.
    pub is_required: bool,
}

impl Layout {
    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&LayoutColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// How `now` differs from this, for the log: names of columns that were added, dropped and changed. Empty if it does not.
    pub fn difference(&self, now: &Layout) -> String {
        let added = now.columns.iter().filter(|column| self.column(&column.name).is_none());
        let dropped = self.columns.iter().filter(|column| now.column(&column.name).is_none());
        let mut changes: Vec<String> =
            added.map(|column| format!("added `{}` {}", column.name, column.type_name)).collect();
        changes.extend(dropped.map(|column| format!("dropped `{}`", column.name)));
        for column in &self.columns {
            let Some(now) = now.column(&column.name) else { continue };
            if now.type_name != column.type_name {
                changes.push(format!("`{}` from {} to {}", column.name, column.type_name, now.type_name));
            } else if now.default != column.default {
                changes.push(format!("the DEFAULT of `{}`", column.name));
            }
        }
        changes.join(", ")
    }
}

/// Whether a frame that was made for some columns can go to the table as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// As it is.
    AsIs,
    /// Once it was encoded again for the columns of now.
    Again {
        /// True if that works whatever its values are; otherwise only if they fit.
        always: bool,
    },
    /// Once it was encoded again without a column that is gone, if none of its rows has a value there. Whether one has is known when it
    /// is encoded; until then it counts as one that does not fit wherever nobody looks into it (a start, a frame in doubt).
    Without {
        /// Which column, and the statement that brings it back.
        words: String,
    },
    /// Not without losing values: a column that it holds was dropped, or has a type that cannot hold them.
    No {
        /// Which column, and the statement that fixes it.
        words: String,
    },
}
