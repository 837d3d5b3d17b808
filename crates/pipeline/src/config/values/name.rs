//! Names: of pipelines, columns, tables, topics and fields.
//!
//! Owns the characters and lengths of each kind, which are those of the system that stores the name. Does not own whether there is such a
//! thing.

use std::fmt;
use std::str::FromStr;

use super::{Kind, text_kind};

/// A newtype around a checked `String`.
macro_rules! name_kind {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $called:literal, $example:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(String);

        impl $type {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let check: fn(&str) -> Result<(), String> = $check;
                check(text)?;
                Ok(Self(text.to_owned()))
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Kind for $type {
            const KIND: &'static str = $kind;
            const CALLED: &'static str = $called;
            const EXAMPLE: &'static str = $example;
        }
        text_kind!($type);
    };
}
pub(super) use name_kind;

name_kind!(
    /// A pipeline's name: part of store keys and metric labels.
    PipelineName, "pipeline_name", "1 to 64 of `a-z`, `0-9`, `-`", "user-events", |text| {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        match text.len() {
            0 => Err("is empty; a pipeline's name has 1 to 64 characters".into()),
            1..=64 if text.bytes().all(allowed) => Ok(()),
            1..=64 => Err("holds other characters than `a-z`, `0-9` and `-`".into()),
            _ => Err("is longer than 64 characters".into()),
        }
    }
);

name_kind!(
    /// The name under which a pipeline acknowledges what it has read of a log: part of the log's store keys.
    Consumer, "consumer", "1 to 64 of letters, digits, `-`, `_` and `.`", "user-events", |text| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        match text.len() {
            0 => Err("is empty; a consumer's name has 1 to 64 characters".into()),
            1..=64 if text.starts_with('.') => Err("begins with a dot".into()),
            1..=64 if text.bytes().all(allowed) => Ok(()),
            1..=64 => Err("holds other characters than letters, digits, `-`, `_` and `.`".into()),
            _ => Err("is longer than 64 characters".into()),
        }
    }
);

name_kind!(
    /// A name in ClickHouse: a database, a table, a column. Quoted wherever it is sent.
    Identifier, "identifier", "name", "event_id", |text| identifier(text)
);

name_kind!(
    /// A field of a record, dotted for nested ones.
    Field, "field", "field name, dotted for nested ones", "user.id", |text| match text.len() {
        0 => Err("is empty".into()),
        1..=1024 => Ok(()),
        _ => Err("is longer than 1024 bytes".into()),
    }
);

name_kind!(
    /// A Kafka topic. Not a pattern: librdkafka would read a leading `^` as one.
    Topic, "topic", "topic name", "user_events", |text| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        match text.len() {
            0 => Err("is empty".into()),
            1..=249 if matches!(text, "." | "..") || !text.bytes().all(allowed) => {
                Err("is no topic name: Kafka allows letters, digits, `.`, `_` and `-`".into())
            }
            1..=249 => Ok(()),
            _ => Err("is longer than 249 characters, which Kafka refuses".into()),
        }
    }
);

name_kind!(
    /// A Pulsar topic, with its tenant and namespace unless it is in `public/default`.
    PulsarTopic, "pulsar_topic", "`persistent://tenant/namespace/topic`, or a name in `public/default`",
    "persistent://public/default/user_events", |text| match text.len() {
        0 => Err("is empty".into()),
        1..=1024 => sources::pulsar::topic_name(text).map(|_| ()),
        _ => Err("is longer than 1024 bytes".into()),
    }
);

impl PulsarTopic {
    /// The topic's name without its domain, by which it is known in the journal: `tenant/namespace/topic`.
    pub fn stream(&self) -> String {
        sources::pulsar::topic_name(self.as_str()).unwrap_or_default()
    }
}

name_kind!(
    /// A table, with its database in front unless it is the sink's own.
    TableName, "table", "`table` or `database.table`", "default.user_events", |text| {
        let (database, table) = text.split_once('.').unwrap_or(("default", text));
        identifier(database)?;
        if table.contains('.') {
            return Err("has more than one dot; write `table` or `database.table`".into());
        }
        identifier(table)
    }
);

impl TableName {
    /// Database and table; `database` where the file names none.
    pub fn split<'a>(&'a self, database: &'a str) -> (&'a str, &'a str) {
        self.as_str().split_once('.').unwrap_or((database, self.as_str()))
    }
}

/// The column that an expression is, if it is nothing else: a word, or a text in double quotes.
pub(crate) fn column_of(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        let parts = inner.replace("\"\"", "");
        return (!inner.is_empty() && !parts.contains('"')).then(|| inner.replace("\"\"", "\""));
    }
    let mut chars = text.chars();
    let is_word = chars.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '_');
    let is_value = ["null", "true", "false"].iter().any(|value| text.eq_ignore_ascii_case(value));
    (is_word && !is_value).then(|| text.to_owned())
}

fn identifier(text: &str) -> Result<(), String> {
    match text.len() {
        0 => Err("is empty; a name has 1 to 200 bytes".into()),
        1..=200 if text.chars().any(char::is_control) => Err("holds a control character".into()),
        1..=200 => Ok(()),
        _ => Err("is longer than 200 bytes, which does not fit a file name of ClickHouse".into()),
    }
}
