//! The settings that exactly-once insertion rests on.
//!
//! Owns one table of them (name, value, reason, first version), the choice of those that a server has, and the judgement of a user's
//! constraints. Pure. Does not own the reading ([`crate::checks::read`]) or the requests ([`crate::client`]).
//!
//! A profile, a role or a newer default can change any setting, so each request names the ones in this table. A server refuses a
//! request that names a setting it does not know. So only those are named that `system.settings` shows.
//!
//! | the server shows for a setting                | what follows                                             |
//! |-----------------------------------------------|----------------------------------------------------------|
//! | nothing                                       | it is not named: this version cannot be changed by it    |
//! | our value                                     | it is named                                              |
//! | another value, which the user may change      | it is named                                              |
//! | another value, which the user may not change  | a fault: the table is not written                        |
//! | a `MIN` or `MAX` that forbids our value       | a fault; a time limit is lowered to the `MAX` instead    |
//! | the same, for a setting that can only refuse  | it is not named                                          |
//!
//! [`page`] is the same table for users, in `docs/reference/insert-settings.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use dataflow::TableFault;

use crate::checks::{Fault, VERSION_MIN};
use crate::types::{identifier, quote};

mod table;

pub use table::{INSERT, LOOK, MAKE, PARAMETERS};

/// From this version on `ALTER USER … MODIFY SETTING` changes one setting and keeps the user's others.
const VERSION_MODIFY_SETTING: (u32, u32) = (24, 12);

/// With 1 a user may set nothing and insert nothing; with 2 it may set all but this, and insert nothing.
const READONLY: &str = "readonly";
/// Asynchronous inserts that are written as one part at the most.
const ASYNC_QUERIES: &str = "async_insert_max_query_number";
/// Its default.
const ASYNC_QUERIES_DEFAULT: u64 = 450;

/// With 1 the node that answers first learns of all parts that the others have written.
const SEQUENTIAL: &str = "select_sequential_consistency";

/// One setting and what a request says about it.
#[derive(Debug)]
pub struct Pin {
    /// The setting's name.
    pub name: &'static str,
    /// The value.
    pub value: Value,
    /// Year and month of the first version that has the setting; [`VERSION_MIN`] for those that every supported version has.
    pub since: (u32, u32),
    /// What could go wrong with another value.
    pub why: &'static str,
}

/// What a setting is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Always this.
    Is(&'static str),
    /// This, where the user may change it: without it a question may be refused, but is never answered wrongly.
    Rather(&'static str),
    /// The frame's token.
    Token,
    /// 1, or the bound for a partitioned target of a view.
    Partitions,
    /// `sink.clickhouse.timeout`, less the five seconds by which the server gives up before us.
    Seconds,
    /// The time that a question of a pipeline may take, where the user may change it.
    Question,
    /// The time zone that this user's sessions had at the start.
    TimeZone,
    /// 1 on tables whose parts all nodes share, 0 otherwise.
    IfShared,
}

impl Value {
    /// The value for users.
    fn describe(self) -> String {
        match self {
            Self::Is("") => "empty".into(),
            Self::Is(value) => format!("`{value}`"),
            Self::Rather(value) => format!("`{value}`, unless a constraint forbids it"),
            Self::Token => "the token of the insert".into(),
            Self::Partitions => "`1`; `100` if a view's target is partitioned".into(),
            Self::Seconds => "`timeout` less 5 s".into(),
            Self::Question => "`timeout`, at most 30 s, unless a constraint forbids it".into(),
            Self::TimeZone => "the zone of the user's sessions at the start".into(),
            Self::IfShared => "`1` for `Shared…MergeTree`, else `0`".into(),
        }
    }

    /// Without it a question may be refused, but is never answered wrongly.
    fn may_be_left(self) -> bool {
        matches!(self, Self::Rather(_) | Self::Question)
    }

    /// A smaller value does as well, so that a `MAX` is obeyed.
    fn may_be_lowered(self) -> bool {
        matches!(self, Self::Seconds | Self::Question)
    }
}

/// What differs from table to table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Of {
    /// Partitions that one frame may touch in the table and in each view's target: 1 unless a view's target needs more.
    pub partitions_max: u32,
    /// Seconds after which the server gives up an insert; at least 1.
    pub seconds: u64,
    /// Seconds after which a question is given up; at least 1.
    pub question_seconds: u64,
    /// The time zone of this user's sessions; empty if it is not known.
    pub zone: String,
    /// True if all nodes read the same parts.
    pub shared: bool,
}

/// A setting as `system.settings` shows it to this user, without the request's own values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The value by the user's profiles.
    pub value: String,
    /// True if the user cannot change it.
    pub fixed: bool,
    /// The least value that the user may set.
    pub min: Option<String>,
    /// The greatest value that the user may set.
    pub max: Option<String>,
}

/// The settings of one server, for one user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Who this is, for the statement that fixes a constraint.
    pub user: String,
    /// By name.
    pub settings: BTreeMap<String, Shown>,
}

/// What a question names of which no setting of the server is known yet: settings of every supported version.
pub fn first(question_seconds: u64) -> Vec<(&'static str, String)> {
    let each = LOOK.iter().filter(|pin| pin.since == VERSION_MIN).filter_map(|pin| match pin.value {
        Value::Is(value) | Value::Rather(value) => Some((pin.name, value.to_owned())),
        Value::Question => Some((pin.name, question_seconds.to_string())),
        _ => None,
    });
    each.collect()
}

impl Known {
    /// The names to ask `system.settings` for.
    pub fn names() -> impl Iterator<Item = &'static str> {
        INSERT.iter().chain(LOOK).chain(MAKE).map(|pin| pin.name).chain([ASYNC_QUERIES, READONLY])
    }

    /// How many asynchronous inserts one part may hold, by the setting of this user or its default, whichever is more.
    pub fn async_queries_max(&self) -> u64 {
        let shown = self.settings.get(ASYNC_QUERIES).and_then(|shown| shown.value.parse().ok());
        shown.unwrap_or(0).max(ASYNC_QUERIES_DEFAULT)
    }

    /// True if the server has the setting.
    pub fn has(&self, name: &str) -> bool {
        self.settings.contains_key(name)
    }

    /// What an insert of such a table names, beside its token.
    pub fn insert(&self, of: &Of) -> Vec<(&'static str, String)> {
        self.chosen(INSERT, of)
    }

    /// The settings that a query of such a table names.
    pub fn look(&self, of: &Of) -> Vec<(&'static str, String)> {
        self.chosen(LOOK, of)
    }

    /// As [`Known::look`], without the settings that this user may not set: to read what a table is before all that is wrong is told at once.
    pub fn look_as_allowed(&self, of: &Of) -> Vec<(&'static str, String)> {
        let mut named = self.look(of);
        named.retain(|(name, asked)| {
            self.settings.get(*name).is_some_and(|shown| shown.obstacle(asked).is_none())
        });
        named
    }

    /// What a statement names that makes a table.
    pub fn make(&self) -> Vec<(&'static str, String)> {
        let each = MAKE.iter().filter_map(|pin| match pin.value {
            Value::Is(value) => self.has(pin.name).then(|| (pin.name, value.to_owned())),
            _ => None,
        });
        each.collect()
    }

    /// What a question names that is asked by no pipeline: all of it but what differs from table to table, which is left to the user.
    pub fn ask(&self) -> Vec<(&'static str, String)> {
        let each = LOOK.iter().filter_map(|pin| match pin.value {
            Value::Is(value) => self.has(pin.name).then(|| (pin.name, value.to_owned())),
            Value::Rather(value) => {
                let is_free = self.settings.get(pin.name)?.obstacle(value).is_none();
                is_free.then(|| (pin.name, value.to_owned()))
            }
            _ => None,
        });
        each.collect()
    }

    /// What a question names besides that has text of others in it: it reads tables, and reaches no file and no other server. A user that only reads
    /// may not set this, and is left as it is.
    pub fn read_only(&self) -> Option<(&'static str, String)> {
        (self.has(READONLY) && !self.only_reads()).then(|| (READONLY, "1".to_owned()))
    }

    /// What a question names besides that is about a table whose parts all nodes share: the node that answers knows every part. Who may not set it may not
    /// write such a table.
    pub fn sequential(&self) -> Option<(&'static str, String)> {
        let is_free = self.settings.get(SEQUENTIAL)?.obstacle("1").is_none();
        is_free.then(|| (SEQUENTIAL, "1".to_owned()))
    }

    /// Whether a profile keeps this user from all but reading, whatever it is granted.
    pub fn only_reads(&self) -> bool {
        self.settings.get(READONLY).is_some_and(|shown| matches!(shown.value.as_str(), "1" | "2"))
    }

    fn chosen(&self, pins: &[Pin], of: &Of) -> Vec<(&'static str, String)> {
        let each = pins.iter().filter_map(|pin| {
            let shown = self.settings.get(pin.name)?;
            let asked = shown.allowed(pin.value, wanted(pin.value, of)?);
            let is_left = pin.value.may_be_left() && shown.obstacle(&asked).is_some();
            (!is_left).then_some((pin.name, asked))
        });
        each.collect()
    }

    /// Why requests cannot name what they must, for each setting that the user may not change as needed.
    pub fn faults(&self, of: &Of, version: (u32, u32)) -> Vec<Fault> {
        if let Some(readonly) =
            self.settings.get(READONLY).filter(|shown| matches!(shown.value.as_str(), "1" | "2"))
        {
            let why = "a user that only reads can neither insert nor set what inserts rest on";
            let pin = Pin { name: READONLY, value: Value::Is("0"), since: VERSION_MIN, why };
            let verb = if readonly.fixed { "fixes at" } else { "sets to" };
            let obstacle = format!("{verb} `{}`", readonly.value);
            return vec![self.fault(&pin, "0", &obstacle, version)];
        }
        let pins = INSERT.iter().chain(LOOK).filter(|pin| !pin.value.may_be_left());
        let each = pins.filter_map(|pin| {
            let (shown, wanted) = (self.settings.get(pin.name)?, wanted(pin.value, of)?);
            let asked = shown.allowed(pin.value, wanted);
            let obstacle = shown.obstacle(&asked)?;
            Some((pin.name, self.fault(pin, &asked, &obstacle, version)))
        });
        // A setting that stands in both lists is one fault.
        let by_name: BTreeMap<&str, Fault> = each.collect();
        by_name.into_values().collect()
    }

    fn fault(&self, pin: &Pin, asked: &str, obstacle: &str, version: (u32, u32)) -> Fault {
        let Pin { name, why, .. } = pin;
        let message = format!(
            "the profile of user `{}` {obstacle} the setting `{name}`, and every request must set it to `{asked}` ({why}). \
             `SELECT * FROM system.settings_profile_elements WHERE setting_name = {}` shows where it is set; a profile in \
             `users.xml` is changed there",
            self.user,
            quote(name)
        );
        let value = if asked.parse::<i64>().is_ok() { asked.to_owned() } else { quote(asked) };
        let user = identifier(&self.user);
        let fix = if version >= VERSION_MODIFY_SETTING {
            format!("ALTER USER {user} MODIFY SETTING {name} = {value}")
        } else {
            format!("ALTER USER {user} SETTINGS {name} = {value} /* repeat the user's other settings */")
        };
        Fault { kind: TableFault::Access, fix: Some(fix), ..Fault::stop(message) }
    }
}

impl Shown {
    /// The value to name: ours, or the `MAX` of a limit that may be lower.
    fn allowed(&self, value: Value, wanted: String) -> String {
        match (self.max.as_deref().and_then(number), number(&wanted)) {
            (Some(max), Some(ours)) if value.may_be_lowered() && max < ours => {
                self.max.clone().unwrap_or(wanted)
            }
            _ => wanted,
        }
    }

    /// What forbids to set `asked`, as a verb; `None` if nothing does. A server lets everyone set the value that is set anyway.
    fn obstacle(&self, asked: &str) -> Option<String> {
        if is_same(&self.value, asked) {
            return None;
        }
        if self.fixed {
            return Some(format!("fixes at `{}`", self.value));
        }
        let beyond = |bound: &Option<String>, is_beyond: fn(f64, f64) -> bool| {
            let bound = bound.as_deref()?;
            is_beyond(number(asked)?, number(bound)?).then(|| bound.to_owned())
        };
        if let Some(min) = beyond(&self.min, |asked, min| asked < min) {
            return Some(format!("keeps at `{min}` or more"));
        }
        let max = beyond(&self.max, |asked, max| asked > max)?;
        Some(format!("keeps at `{max}` or less"))
    }
}

/// What a request says; `None` if it does not name the setting, or its value comes with the attempt.
fn wanted(value: Value, of: &Of) -> Option<String> {
    match value {
        Value::Is(value) | Value::Rather(value) => Some(value.to_owned()),
        Value::Token => None,
        Value::Partitions => Some(of.partitions_max.to_string()),
        Value::Seconds => Some(of.seconds.to_string()),
        Value::Question => Some(of.question_seconds.to_string()),
        Value::TimeZone => (!of.zone.is_empty()).then(|| of.zone.clone()),
        Value::IfShared => Some(u8::from(of.shared).to_string()),
    }
}

fn is_same(shown: &str, asked: &str) -> bool {
    shown == asked || matches!((number(shown), number(asked)), (Some(a), Some(b)) if a == b)
}

/// A value as a number; switches are written as words by some versions.
fn number(text: &str) -> Option<f64> {
    match text.trim_matches('\'') {
        "true" => Some(1.0),
        "false" => Some(0.0),
        text => text.parse().ok(),
    }
}

/// The page for users.
pub fn page() -> String {
    let mut page = String::from(table::PAGE_HEAD);
    page.push_str("\n## Inserts\n");
    rows(&mut page, INSERT);
    page.push_str("\n## Queries: probes and polls of a table\n");
    rows(&mut page, LOOK);
    page.push_str("\n## Statements that create a table\n");
    rows(&mut page, MAKE);
    page.push_str("\n## Parameters of the HTTP interface\n| parameter | value | why |\n|---|---|---|\n");
    for (name, value, why) in PARAMETERS {
        writeln!(page, "| `{name}` | {value} | {why} |").expect("a text takes all");
    }
    page.push_str(table::PAGE_TAIL);
    page
}

fn rows(page: &mut String, pins: &[Pin]) {
    page.push_str("| setting | value | why | since |\n|---|---|---|---|\n");
    for Pin { name, value, since, why } in pins {
        let since = if *since == VERSION_MIN { "–".to_owned() } else { format!("{}.{}", since.0, since.1) };
        writeln!(page, "| `{name}` | {} | {why} | {since} |", value.describe()).expect("a text takes all");
    }
}

#[cfg(test)]
mod tests;
