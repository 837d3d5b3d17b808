//! Rules of `upsert` of a table.
//!
//! Owns what the schema of the pipeline file cannot say of these settings. Does not own what is asked of the table (`clickhouse::checks`).

use clickhouse::upsert::VERSION;

use super::Rules;
use crate::config::model::Create;
use crate::config::model::sink::{CreateTable, Takes, Target, Upsert};
use crate::config::values::Identifier;
use crate::config::windows::identity;

impl Rules<'_> {
    pub(super) fn upserts(&mut self) {
        for target in self.pipeline.targets() {
            let Some(upsert) = &target.upsert else { continue };
            let path = format!("{}.upsert", target.path);
            self.roles(upsert, &path);
            let key = upsert.key.iter().enumerate().map(|(at, name)| (format!("{path}.key[{at}]"), name));
            self.sign(&target, upsert, &path);
            let deleted = if upsert.sign.is_some() { &None } else { &upsert.deleted };
            let named = [("version", &upsert.version), ("deleted", deleted)];
            let named =
                named.into_iter().filter_map(|(role, name)| Some((format!("{path}.{role}"), name.as_ref()?)));
            for (path, name) in key.chain(named).collect::<Vec<_>>() {
                self.created_column(&target, &path, name.as_str());
            }
            if let Some(Create::Table(create)) = &target.clickhouse.create {
                self.created_by_key(&target, upsert, create);
                self.partitioned_by_key(&target, upsert, create);
            }
            self.results_by_window(&target, upsert, &path);
        }
        self.first_of_a_key();
    }

    /// A column has one role.
    fn roles(&mut self, upsert: &Upsert, path: &str) {
        if upsert.version.as_ref().is_some_and(|version| version.as_str() == VERSION) {
            let message = format!(
                "Forebay fills `{VERSION}` if `version` is left out; name a column that the records fill"
            );
            self.fault(&format!("{path}.version"), message);
        }
        let mut seen: Vec<&str> = upsert.key.iter().map(|name| name.as_str()).collect();
        for (role, name) in
            [("version", &upsert.version), ("deleted", &upsert.deleted), ("sign", &upsert.sign)]
        {
            let Some(name) = name else { continue };
            if seen.contains(&name.as_str()) {
                let message = format!(
                    "`{name}` has another role already: key, version, `deleted` and `sign` are different columns"
                );
                self.fault(&format!("{path}.{role}"), message);
            }
            seen.push(name.as_str());
        }
    }

    /// What takes rows back has all rows of the table, in their order.
    fn sign(&mut self, target: &Target, upsert: &Upsert, path: &str) {
        if upsert.sign.is_none() {
            if upsert.memory.is_some() {
                let message = "without `sign` the table keeps the rows, and Forebay none; remove it";
                self.fault(&format!("{path}.memory"), message);
            }
            return;
        }
        let message = if self.pipeline.targets().len() > 1 || target.takes != Takes::Every {
            "with `sign` every row goes to one table, for one that takes some would keep the row of a key whose last record goes elsewhere; give the table a pipeline of its own, or \
             use a ReplacingMergeTree"
        } else if self.pipeline.steps.iter().any(|step| step.window.is_some()) {
            "the results of a window replace each other by its own `emit: { sign: … }`, which knows what was written; write that in place of `upsert`"
        } else {
            return;
        };
        self.fault(&format!("{path}.sign"), message);
    }

    /// A table that is created is sorted by the key, and has room for the versions.
    fn created_by_key(&mut self, target: &Target, upsert: &Upsert, create: &CreateTable) {
        let path = format!("{}.clickhouse.create", target.path);
        let sorted = create.order_by.as_slice().iter().flat_map(|key| key.split(','));
        let sorted: Vec<&str> = sorted.map(|column| column.trim().trim_matches('`')).collect();
        let is_key = |column: &&str| upsert.key.iter().any(|name| name.as_str() == *column);
        if !sorted.iter().all(is_key) || !upsert.key.iter().all(|name| sorted.contains(&name.as_str())) {
            let key: Vec<&str> = upsert.key.iter().map(|name| name.as_str()).collect();
            let message = format!(
                "rows with the same sorting key replace each other, so `order_by` and `{}.upsert.key` must be the same columns: write \
                 `order_by: [{}]`",
                target.path,
                key.join(", ")
            );
            self.fault(&format!("{path}.order_by"), message);
        }
        let declared = create.columns.0.iter().find(|(name, _)| name.as_str() == VERSION);
        if let (None, None, Some((_, kind))) = (&upsert.version, &upsert.sign, declared)
            && kind.trim() != "UInt64"
        {
            let message = format!(
                "`{VERSION}` holds the versions that Forebay makes, and is a `UInt64`; leave it out and it is added"
            );
            self.fault(&format!("{path}.columns.{VERSION}"), message);
        }
    }

    /// Rows in different partitions never replace each other, and once the table is there, `create` changes nothing any more. What only the server knows of the
    /// expression is judged at the start.
    fn partitioned_by_key(&mut self, target: &Target, upsert: &Upsert, create: &CreateTable) {
        let of_key = |word: &str| upsert.key.iter().any(|name| name.as_str() == word);
        let text = create.partition_by.as_deref().unwrap_or_default();
        let other = words(text).find(|&word| {
            let declared = create.columns.0.iter().find(|(name, _)| name.as_str() == word);
            // One that the server computes may come from the key alone.
            declared.is_some_and(|(_, declared)| !is_computed(declared)) && !of_key(word)
        });
        if let Some(word) = other {
            let path = format!("{}.clickhouse.create.partition_by", target.path);
            let message = format!(
                "`{word}` is not in `{}.upsert.key`: rows of one key could lie in several partitions, where they never replace each other; partition by \
                 columns of the key, or leave `partition_by` out",
                target.path
            );
            self.fault(&path, message);
        }
    }

    /// A result that replaces an earlier one of its key and window must replace no other. Results that are written once may: the table then has those of
    /// each key's newest window.
    fn results_by_window(&mut self, target: &Target, upsert: &Upsert, path: &str) {
        let known = identity::in_table(self.pipeline, target);
        let Some(known) = known.filter(|known| known.replaces) else { return };
        let create = match &target.clickhouse.create {
            Some(Create::Table(create)) => Some(create),
            None | Some(Create::Workload(_)) => None,
        };
        let key: Vec<&str> = upsert.key.iter().map(|name| name.as_str()).collect();
        let missing = known.missing(&key);
        if missing.is_empty() {
            return;
        }
        let missing: Vec<&str> = missing.into_iter().map(|columns| one_of(columns, create)).collect();
        let whole: Vec<&str> = key.iter().chain(&missing).copied().collect();
        let order = if create.is_some() { ", and `order_by` with the same columns" } else { "" };
        let message = format!(
            "without `{}` results of different keys or windows have the same `key` and replace each other; write `key: [{}]`{order}",
            missing.join("`, `"),
            whole.join(", ")
        );
        self.fault(&format!("{path}.key"), message);
    }

    /// A `dedup` of the same key drops what an upsert is for.
    fn first_of_a_key(&mut self) {
        let targets = self.pipeline.targets();
        let keys = || targets.iter().filter_map(|target| Some(&target.upsert.as_ref()?.key));
        for (index, step) in self.pipeline.steps.iter().enumerate() {
            let Some(dedup) = &step.dedup else { continue };
            let is_same = |key: &Vec<Identifier>| {
                key.len() == dedup.key.len() && key.iter().all(|name| dedup.key.contains(name))
            };
            if keys().any(is_same) {
                self.hint(
                    &format!("steps[{index}].dedup.key"),
                    "`dedup` keeps the first record of a key within its window and drops the later ones, which `upsert` would write: remove \
                     the step to keep the last",
                );
            }
        }
    }
}

/// The words of an expression that stand outside of texts.
fn words(expression: &str) -> impl Iterator<Item = &str> {
    let outside = expression.split('\'').step_by(2);
    outside.flat_map(|part| part.split(|c: char| !c.is_alphanumeric() && c != '_'))
}

/// Whether a column that is declared so is filled by the server.
fn is_computed(declared: &str) -> bool {
    let declared = declared.to_uppercase();
    ["MATERIALIZED", "ALIAS"].iter().any(|kind| declared.contains(kind))
}

/// The one of these columns to name: one that the table will have, if it is created.
fn one_of<'a>(columns: &'a [String], create: Option<&CreateTable>) -> &'a str {
    let is_there = |column: &&String| create.is_some_and(|create| create.columns.has(column.as_str()));
    columns.iter().find(is_there).or(columns.first()).map_or("", String::as_str)
}
