//! What a window step is, apart from its state.
//!
//! Owns the checks of its settings, the columns of its results, and the words that its state is known by. Does not own which windows a time
//! lies in (`window::kinds`), the functions (`window::aggregate`), nor how a pipeline file's words become these settings
//! (`pipeline::plan`).

use std::time::Duration;

use dataflow::{Column, ColumnType, KeptEnum, Schema};

use super::aggregate::{self, Aggregate};
use super::emit::{Emit, Firing};
use super::key::Keys;
use super::key::items::Items;
use super::kinds::{SIZE_MAX, Spans, Windows};
use crate::ConfigError;
use crate::config::column_index;
use crate::dedup::key::{ANY_KEY, key_kind, kind};

/// The column of a result that holds its window's first instant.
pub const START: &str = "window_start";

/// The column that holds the instant after its last.
pub const END: &str = "window_end";

/// Columns of a key at the most, and aggregates: beyond it somebody meant something else.
pub const COLUMNS_MAX: usize = 64;

/// The settings of a `window` step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// The columns of the key; without one there is one result a window.
    pub key: Vec<String>,
    /// Which windows there are.
    pub windows: Windows,
    /// How far the watermark must be behind a window's end to close it.
    pub lateness: Duration,
    /// What is computed; at least one.
    pub aggregates: Vec<Aggregate>,
    /// Results before a window is closed; `None` for one result alone, which never changes.
    pub emit: Option<Emit>,
}

/// What the step is, apart from its state.
#[derive(Clone)]
pub(super) struct Plan {
    pub input: Schema,
    pub keys: Keys,
    pub aggregates: Vec<aggregate::Bound>,
    pub spans: Spans,
    pub lateness_ms: i64,
    pub emit: Option<Firing>,
    pub output: Schema,
    pub shape: String,
}

impl Plan {
    /// For batches of `schema`.
    ///
    /// # Errors
    /// When a column is unknown, named twice or of a type that does not serve, or a setting is out of its bounds.
    pub fn new(schema: &Schema, config: &WindowConfig) -> Result<Self, ConfigError> {
        let fail = |setting, message: String| Err(ConfigError::Setting { setting, message });
        let WindowConfig { key, windows, lateness, aggregates, emit } = config;
        let spans = windows.spans().map_err(|(setting, message)| ConfigError::Setting {
            setting: "window",
            message: format!("`{setting}`: {message}"),
        })?;
        if *lateness > SIZE_MAX {
            return fail("window.lateness", format!("`{lateness:?}` is more than 3650 days"));
        }
        if aggregates.is_empty() || aggregates.len() > COLUMNS_MAX || key.len() > COLUMNS_MAX {
            let (keys, results) = (key.len(), aggregates.len());
            let message =
                format!("`{keys}` key columns and `{results}` aggregates; up to {COLUMNS_MAX} of each");
            return fail("window.aggregates", format!("{message}, and at least one aggregate"));
        }
        for (at, name) in key.iter().enumerate() {
            let column = &schema.columns()[column_index(schema, "window.key", name)?];
            if key[..at].contains(name) {
                return Err(ConfigError::RepeatedColumn { setting: "window.key", name: name.clone() });
            }
            check_key(column)?;
        }
        let Some(keys) = Keys::new(&Keys::named(schema, key)) else {
            return fail("window.key", "a column is of a type that is no key".to_owned());
        };
        let bound: Vec<aggregate::Bound> = aggregates
            .iter()
            .map(|aggregate| aggregate::Bound::new(schema, aggregate))
            .collect::<Result<_, _>>()?;
        let bounds = [START, END].map(|name| {
            Column::new(name, ColumnType::DateTime64 { precision: 3, timezone: Some("UTC".into()) })
        });
        // A key's default is the input's business: here a null is a null.
        let of_key = keys.columns().map(|column| {
            let is_bare = column.column_type.is_nullable() || !column.is_optional();
            let nullable = || ColumnType::Nullable(Box::new(column.column_type.bare().clone()));
            Column::new(&column.name, if is_bare { column.column_type.clone() } else { nullable() })
        });
        let of_aggregates =
            bound.iter().map(|bound| Column::new(&bound.aggregate.name, bound.output.clone()));
        let firing = emit.as_ref().map(|emit| emit.firing(spans)).transpose();
        let firing = firing.map_err(|message| ConfigError::Setting { setting: "window.emit", message })?;
        let version = emit.iter().flat_map(|emit| &emit.version);
        let version = version.map(|name| Column::new(name, ColumnType::UInt64));
        let sign = emit.iter().flat_map(|emit| &emit.sign).map(|name| Column::new(name, ColumnType::Int8));
        let columns: Vec<Column> =
            of_key.chain(bounds).chain(of_aggregates).chain(version).chain(sign).collect();
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|other| other.name == column.name) {
                let name = column.name.clone();
                return Err(ConfigError::RepeatedColumn { setting: "window.aggregates", name });
            }
        }
        let words: Vec<String> = bound.iter().map(aggregate::Bound::words).collect();
        let named: Vec<String> = keys.columns().map(key_words).collect();
        let emit = emit.as_ref().map_or(String::new(), Emit::words);
        let shape = format!(
            "key `{}`, {}, lateness `{}ms`, aggregates `{}`{emit}",
            named.join(", "),
            spans.words(),
            lateness.as_millis(),
            words.join(", ")
        );
        let output = Schema::new(columns);
        let lateness_ms = lateness.as_millis() as i64;
        let input = schema.clone();
        Ok(Self { input, keys, aggregates: bound, spans, lateness_ms, emit: firing, output, shape })
    }

    /// The start of the pane that a time lies in; `None` for a time that is unknown or beyond all windows.
    pub fn pane_of(&self, time_ms: i64) -> Option<i64> {
        self.spans.pane_of(time_ms, self.lateness_ms)
    }

    /// The Enums of the key, and of the values that aggregates keep.
    pub fn enums(&self) -> Vec<KeptEnum> {
        let of_key =
            self.keys.columns().flat_map(|column| KeptEnum::within(&column.name, &column.column_type));
        of_key.chain(self.aggregates.iter().flat_map(aggregate::Bound::enums)).collect()
    }

    /// Whether results have a version.
    pub fn has_version(&self) -> bool {
        self.emit.is_some_and(|firing| firing.has_version)
    }

    /// Whether they have a sign, and are taken back before the next.
    pub fn has_sign(&self) -> bool {
        self.emit.is_some_and(|firing| firing.has_sign)
    }

    /// Whether open windows may be spilled to files: unless what was written of them is taken back, and so kept beside them.
    pub fn can_spill(&self) -> bool {
        !self.has_sign()
    }

    /// Whether windows are sessions.
    pub fn has_sessions(&self) -> bool {
        matches!(self.spans, Spans::Session { .. })
    }

    /// The same with the bounds of a session behind each key: what files of sessions are read and written by.
    pub fn with_span(&self) -> Self {
        Self { keys: self.keys.with_span(), ..self.clone() }
    }

    /// Whether this watermark closes the windows that end then.
    pub fn is_closed(&self, end: i64, watermark_ms: i64) -> bool {
        end.saturating_add(self.lateness_ms) <= watermark_ms
    }
}

/// The column is of a type that is a key.
fn check_key(column: &Column) -> Result<(), ConfigError> {
    let fail = |found, wanted| {
        Err(ConfigError::ColumnKind { setting: "window.key", name: column.name.clone(), found, wanted })
    };
    match key_kind(&column.column_type) {
        Err(found) => fail(found, ANY_KEY),
        // Results have the key, and the table's column cannot be NULL.
        Ok(kind) if column.is_optional() && Items::of(&column.column_type).is_some() => fail(
            format!("`{kind}` and may be NULL"),
            "an Array or a Map that every record has; in a `select` before, `coalesce` gives it where it is missing",
        ),
        Ok(_) => Ok(()),
    }
}

/// The words that a column of the key is known by: those of dedup's keys, and whether it or its items may be null, which is in the bytes of the key.
fn key_words(column: &Column) -> String {
    let kind = match Items::of(&column.column_type) {
        Some(items) => items.words(),
        None => kind(&column.column_type).unwrap_or_else(str::to_lowercase),
    };
    format!("{} {kind}{}", column.name, if column.is_optional() { " or null" } else { "" })
}
