//! Settings of a user's profile that the server names, by a code or by words, as the reason of a refusal.
//!
//! Owns which setting stands behind a code, and the statement that mends it. Pure. Does not own what a refusal means for an insert, a question or
//! a statement ([`crate::response`] and its modules), nor the judgement of constraints before a request ([`crate::settings`]).

use crate::types::{identifier, quote};

/// A setting that refuses, and a value that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit<'a> {
    /// The setting.
    pub setting: &'a str,
    /// A value of the setting with which the request is not refused; `None` if only a constraint is in the way.
    pub value: Option<&'static str>,
}

/// Codes, the settings behind them, and values that refuse nothing. Where several settings have one code, the server's words decide; the first
/// one stands for words that name none of them. Without a value it must not be set at all: an empty one is refused as well.
const LIMITS: [(i32, &str, &str); 28] = [
    (158, "max_rows_to_read", "0"),
    (158, "max_rows_to_group_by", "0"),
    (158, "max_rows_to_sort", "0"),
    (161, "max_columns_to_read", "0"),
    (162, "max_subquery_depth", "100"),
    (164, "readonly", "0"),
    (165, "max_temporary_columns", "0"),
    (166, "max_temporary_non_const_columns", "0"),
    (167, "max_ast_depth", "1000"),
    (168, "max_ast_elements", "50000"),
    (168, "max_expanded_ast_elements", "500000"),
    (191, "max_rows_in_set", "0"),
    (191, "max_bytes_in_set", "0"),
    (277, "force_primary_key", "0"),
    (277, "force_index_by_date", "0"),
    (277, "force_data_skipping_indices", ""),
    (306, "max_parser_depth", "1000"),
    (307, "max_bytes_to_read", "0"),
    (307, "max_bytes_to_sort", "0"),
    (392, "allow_ddl", "1"),
    (396, "max_result_rows", "0"),
    (396, "max_result_bytes", "0"),
    (565, "max_partitions_to_read", "-1"),
    (584, "force_optimize_projection", "0"),
    (704, "use_query_cache", "0"),
    (719, "use_query_cache", "0"),
    (1_000_062, "max_query_size", "262144"),
    (1_000_306, "max_parser_backtracks", "1000000"),
];

/// The setting that refuses, if the code or the words say so. `text` is the server's.
pub fn limit(code: i32, text: &str) -> Option<Limit<'_>> {
    // A syntax error in the first place; only the words tell it from a statement that is cut off.
    let code = match code {
        62 if text.contains("Max query size exceeded") => 1_000_062,
        306 if text.contains("backtracks") => 1_000_306,
        452 => return forbidden(text).map(|setting| Limit { setting, value: None }),
        code => code,
    };
    let known = LIMITS.iter().filter(|(of, ..)| *of == code);
    let is_named = |setting: &str| {
        words(text).any(|word| word == setting)
            || setting.ends_with("_bytes") && text.contains("max bytes")
            || setting.ends_with("_group_by") && text.contains("GROUP BY")
            || setting.ends_with("_to_sort") && text.contains("sort")
            || setting.ends_with("_skipping_indices") && text.contains("skipping")
    };
    let (_, setting, value) =
        known.clone().find(|(_, setting, _)| is_named(setting)).or_else(|| known.clone().next())?;
    Some(Limit { setting, value: Some(value) })
}

/// The setting that a constraint forbids to change, in the server's words: `Setting NAME should not be changed`, or `shouldn't be greater than 3`.
fn forbidden(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("Setting ")?;
    words(after).next().filter(|name| !name.is_empty())
}

/// The names in a text: whatever a setting may be called.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

impl Limit<'_> {
    /// The way out for `user`, to follow what went wrong.
    pub fn way(&self, user: &str) -> String {
        let user = if user.is_empty() { "default" } else { user };
        let (setting, of) = (self.setting, identifier(user));
        let Some(value) = self.value else {
            return format!(
                "a constraint on the setting `{setting}` forbids it to user `{user}`: \
                 `SELECT * FROM system.settings_profile_elements WHERE setting_name = {}` shows where it is set; take it away, or allow the value",
                quote(setting)
            );
        };
        if value.is_empty() {
            return format!(
                "the setting `{setting}` of user `{user}` refuses it (a profile in `users.xml` is changed there); fix it with: \
                 ALTER USER {of} DROP SETTING {setting}"
            );
        }
        let value = if value.parse::<i64>().is_ok() { value.to_owned() } else { quote(value) };
        format!(
            "the setting `{setting}` of user `{user}` refuses it (a profile in `users.xml` is changed there); fix it with: \
             ALTER USER {of} MODIFY SETTING {setting} = {value}"
        )
    }
}

#[cfg(test)]
mod tests;
