//! `tombstones:` of a source: records without a body as rows.
//!
//! Owns the keys and defaults. Does not own what such a row holds (`formats::tombstones`), nor rules that span several keys (`config::rules`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::values::Field;

/// Records without a body become rows, with the fields of their keys. `_tombstone` is true in these rows.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tombstones {
    /// The fields that a record's key has. Other columns are NULL, have their DEFAULT, or are 0 or empty.
    #[schemars(length(min = 1, max = 100), extend("x-why" = "a record without a body says what it deletes by its key alone"))]
    pub key: Vec<Field>,

    /// How keys are written: `text` if the whole key is the only field's value, `json` for an object, `avro` for Confluent's wire format with the registry of `format`.
    #[serde(default)]
    pub format: KeyFormat,

    /// The fields that have the record's timestamp, such as the one that `time` names, or the `version` of an `upsert`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-why" = "one or two hold the time of a change"))]
    pub timestamp: Vec<Field>,
}

/// How the keys of records are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyFormat {
    /// The value of one field as text.
    #[default]
    Text,
    /// A JSON object.
    Json,
    /// Avro with the number of its schema in front.
    Avro,
}
