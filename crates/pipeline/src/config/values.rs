//! The kinds of text that a pipeline file holds: durations, sizes, names, addresses, secrets.
//!
//! Owns, for each kind, the one reading of its text: the schema walk uses it to complain and serde uses it to build the
//! value, so the two cannot disagree. Does not own where a kind may stand (`model`) or bounds of single settings.
//!
//! | module        | kinds                                                        |
//! |---------------|--------------------------------------------------------------|
//! | [`period`]    | [`Period`] `1h30m`, [`Window`] `8h` or `unbounded`           |
//! | [`size`]      | [`Size`] `64MiB`                                             |
//! | [`secret`]    | [`Secret`], never shown                                      |
//! | [`name`]      | pipeline names, identifiers, topics, tables, dotted fields    |
//! | [`address`]   | stores, ClickHouse's URL, brokers, the address to listen at  |
//! | [`pairs`]     | [`Pairs`]: names and texts in the order of the file          |
//! | [`share`]     | [`Share`] `1%`, `0.01`                                       |
//! | [`start`]     | [`Start`]: where a topic is read from at first               |
//! | [`reference`] | `${NAME}` and `file:/path`, put in place before all of these |

pub mod address;
pub mod name;
pub mod pairs;
pub mod period;
pub mod reference;
pub mod secret;
pub mod share;
pub mod size;
pub mod start;

pub use address::{Broker, HttpUrl, Listen, PostgresUrl, PulsarUrl, StoreUrl};
pub(crate) use name::column_of;
pub use name::{Consumer, Field, Identifier, PipelineName, PulsarTopic, TableName, Topic};
pub use pairs::Pairs;
pub use period::{Period, Window};
pub use secret::Secret;
pub use share::Share;
pub use size::Size;
pub use start::Start;

use serde::{Deserialize, Serialize};

/// The schema keyword that names the kind of a text.
pub const KIND: &str = "x-kind";

/// A text with a kind: reads itself, shows itself, and knows how the schema names it.
pub trait Kind: std::str::FromStr<Err = String> {
    /// The value of [`KIND`].
    const KIND: &'static str;
    /// What the kind is called in the reference.
    const CALLED: &'static str;
    /// One text of that kind.
    const EXAMPLE: &'static str;
    /// A number to compare bounds with, for kinds that have an order.
    fn magnitude(&self) -> Option<u128> {
        None
    }
}

/// Reads `text` as `kind` and gives its magnitude, or says what is wrong with it.
///
/// # Errors
/// With a sentence without the text itself, for the text may be a secret.
pub fn read(kind: &str, text: &str) -> Result<Option<u128>, String> {
    fn one<T: Kind>(text: &str) -> Result<Option<u128>, String> {
        text.parse::<T>().map(|value| value.magnitude())
    }
    match kind {
        Period::KIND => one::<Period>(text),
        Window::KIND => one::<Window>(text),
        Size::KIND => one::<Size>(text),
        Share::KIND => one::<Share>(text),
        Secret::KIND => one::<Secret>(text),
        PipelineName::KIND => one::<PipelineName>(text),
        Identifier::KIND => one::<Identifier>(text),
        Field::KIND => one::<Field>(text),
        Topic::KIND => one::<Topic>(text),
        PulsarTopic::KIND => one::<PulsarTopic>(text),
        Consumer::KIND => one::<Consumer>(text),
        TableName::KIND => one::<TableName>(text),
        StoreUrl::KIND => one::<StoreUrl>(text),
        HttpUrl::KIND => one::<HttpUrl>(text),
        Broker::KIND => one::<Broker>(text),
        PulsarUrl::KIND => one::<PulsarUrl>(text),
        PostgresUrl::KIND => one::<PostgresUrl>(text),
        Listen::KIND => one::<Listen>(text),
        Start::KIND => one::<Start>(text),
        other => Err(format!("is of the kind `{other}`, which this program cannot read")),
    }
}

/// One value, or a list of them.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum OneOrMany<T> {
    /// `a`
    One(T),
    /// `[a, b]`
    Many(#[schemars(length(min = 1, max = 1000), extend("uniqueItems" = true))] Vec<T>),
}

impl<T> OneOrMany<T> {
    /// The values; at least one in a file that was checked.
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

/// Serde by text and a schema with the kind's name, for a type that is a [`Kind`] and can be displayed.
macro_rules! text_kind {
    ($type:ident) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                use $crate::config::values::Kind;
                schemars::json_schema!({ "type": "string", "x-kind": <$type>::KIND })
            }
        }
    };
}
pub(crate) use text_kind;

#[cfg(test)]
mod tests;
