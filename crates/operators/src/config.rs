//! Why a step cannot be built from its configuration.
//!
//! Owns the errors and the search for the nearest known name. Does not own where in the pipeline file a setting stands: the caller adds
//! line and column (`pipeline::plan`). Nor does it own the bounds of a setting, which stand beside its step.

use dataflow::Schema;

/// A fault of the configuration; found before the first record is read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A column is named that the schema does not have.
    #[error("{setting}: there is no column `{name}`{}", nearest_words(.nearest))]
    UnknownColumn {
        /// The setting, as in the pipeline file.
        setting: &'static str,
        /// The name as it was written.
        name: String,
        /// The known name most like it, if one is near.
        nearest: Option<String>,
    },
    /// A column is named twice.
    #[error("{setting}: the column `{name}` is named twice; name it once")]
    RepeatedColumn {
        /// The setting.
        setting: &'static str,
        /// The column.
        name: String,
    },
    /// A column's type does not serve.
    #[error("{setting}: the column `{name}` is of type {found}; use {wanted}")]
    ColumnKind {
        /// The setting.
        setting: &'static str,
        /// The column.
        name: String,
        /// Its type, in words.
        found: String,
        /// What would serve.
        wanted: &'static str,
    },
    /// A setting is outside of its bounds.
    #[error("{setting}: {message}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// The value and the bound that it breaks.
        message: String,
    },
}

fn nearest_words(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// The index of the column `name`, or an error that says the nearest one.
pub(crate) fn column_index(schema: &Schema, setting: &'static str, name: &str) -> Result<usize, ConfigError> {
    schema.index_of(name).ok_or_else(|| ConfigError::UnknownColumn {
        setting,
        name: name.to_owned(),
        nearest: nearest(name, schema.columns().iter().map(|c| c.name.as_str())),
    })
}

/// The known name with the fewest edits to `name`, if they are at most a third of its length (and at least one is
/// allowed): farther names only confuse.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let allowed = (name.chars().count() / 3).max(1);
    known
        .map(|other| (strsim::osa_distance(&name.to_lowercase(), &other.to_lowercase()), other))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other.to_owned())
}

#[cfg(test)]
mod tests;
