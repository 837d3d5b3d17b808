//! Rules of tables: how many there are, which rows each takes, and how batches are cut for them.
//!
//! Owns the rules of `sink`, `sinks`, `columns` and `dead_letters`. Does not own those of `upsert` and of side outputs, nor anything that needs a server.

use std::collections::BTreeSet;

use operators::mapping::route::TABLES_MAX;

use super::{Rules, node};
use crate::config::created;
use crate::config::model::sink::{TableSink, Target};
use crate::config::model::{Create, Pipeline};

impl Rules<'_> {
    pub(super) fn batches(&mut self) {
        let Pipeline { sink, spool, memory, .. } = self.pipeline;
        if sink.batch.bytes.bytes.saturating_mul(2) > memory.bytes {
            let message = format!(
                "`sink.batch.bytes` ({}) must be at most half of `memory` ({memory}): a batch and its frame are held \
                 at the same time",
                sink.batch.bytes
            );
            self.fault("sink.batch.bytes", message);
        }
        if sink.batch.bytes > spool.bytes {
            let message = format!(
                "`sink.batch.bytes` ({}) must be at most `spool.bytes` ({}): a batch must fit the spool",
                sink.batch.bytes, spool.bytes
            );
            self.fault("sink.batch.bytes", message);
        }
        if sink.batch.age > spool.age {
            let message =
                format!("`sink.batch.age` ({}) must be at most `spool.age` ({})", sink.batch.age, spool.age);
            self.fault("sink.batch.age", message);
        }
    }

    /// One table under `sink`, or several under `sinks`.
    pub(super) fn sinks(&mut self) {
        let Pipeline { sink, sinks, columns, .. } = self.pipeline;
        let table = &sink.clickhouse;
        if sinks.is_empty() {
            if table.table.is_none() && node(self.tree, "sink.clickhouse.table").is_none() {
                self.fault("sink.clickhouse", "`table` is missing: name the table, or several under `sinks`");
            }
            return;
        }
        let of_one_table = [
            ("sink.clickhouse.table", table.table.is_some()),
            ("sink.clickhouse.unique_key", !table.unique_key.is_empty()),
            ("sink.clickhouse.create", table.create.is_some()),
            ("columns", !columns.is_empty()),
            ("sink.upsert", sink.upsert.is_some()),
        ];
        for (path, _) in of_one_table.iter().filter(|(_, is_set)| *is_set) {
            let key = path.rsplit('.').next().unwrap_or(path);
            let message =
                format!("with `sinks` each table has a `{key}` of its own; move it to one of `sinks`");
            self.fault(path, message);
        }
        if sinks.iter().all(|sink| sink.from.is_some()) {
            self.fault("sinks", "the rows behind the last step have no table; add an entry without `from`");
        }
        for (index, sink) in sinks.iter().enumerate() {
            if sink.condition.is_some() && sink.otherwise {
                self.fault(
                    &format!("sinks[{index}].otherwise"),
                    "`otherwise` takes what no `where` takes, so a table has one of the two",
                );
            }
            self.side(index, sink);
            if let Some(by) = &sink.by {
                let placeholder = by.placeholder();
                if !sink.clickhouse.table.as_str().contains(&placeholder) {
                    self.fault(
                        &format!("sinks[{index}].clickhouse.table"),
                        format!("with `by` there is a table for each value; write `{placeholder}` where it stands in the name"),
                    );
                }
                if sink.otherwise {
                    self.fault(
                        &format!("sinks[{index}].otherwise"),
                        "a table of a value takes its rows alone; give the other rows an entry of their own",
                    );
                }
            }
            let chooses = |sink: &TableSink| sink.condition.is_some() || sink.by.is_some();
            if sink.otherwise && !sinks.iter().any(chooses) {
                self.fault(
                    &format!("sinks[{index}].otherwise"),
                    "no other table has a `where`, so this one takes every row; remove it",
                );
            }
        }
        let targets = self.pipeline.targets();
        if targets.len() > TABLES_MAX {
            let message =
                format!("these are {} tables, and a pipeline has at most {TABLES_MAX}", targets.len());
            self.fault("sinks", message);
        }
        for (at, target) in targets.iter().enumerate() {
            let name = target.clickhouse.full_name();
            if targets[..at].iter().any(|other| other.clickhouse.full_name() == name) {
                let message =
                    format!("table `{name}` is named twice; join its conditions by `OR` in one `where`");
                self.fault(&format!("{}.clickhouse.table", target.path), message);
            }
        }
    }

    pub(super) fn table(&mut self) {
        for target in self.pipeline.targets() {
            let path = format!("{}.clickhouse", target.path);
            for column in target.columns.keys() {
                self.created_column(&target, &format!("{}.{column}", target.columns_path), column.as_str());
            }
            for (index, column) in target.clickhouse.unique_key.iter().enumerate() {
                self.created_column(&target, &format!("{path}.unique_key[{index}]"), column.as_str());
            }
        }
        self.created();
        self.dotted();
        let sink = &self.pipeline.sink.clickhouse;
        let is_made_up = self.pipeline.inputs().iter().any(|input| input.source.generator.is_some());
        if matches!(sink.create, Some(Create::Workload(true))) && !is_made_up {
            self.fault(
                "sink.clickhouse.create",
                "`true` creates the table of the generator's workload; with another source describe the table: \
                 `create: { columns: { name: type }, order_by: name }`",
            );
        }
        if sink.password.is_some()
            && !sink.url.is_tls()
            && !sink.url.is_loopback()
            && !sink.allow_plaintext_password
        {
            self.fault(
                "sink.clickhouse.url",
                "the password is sent in clear to another machine; use `https://`, or write `allow_plaintext_password: true`",
            );
        }
        if sink.ca.is_some() && !sink.url.is_tls() {
            self.hint("sink.clickhouse.ca", "`ca` has no effect with `http://`");
        }
    }

    /// ClickHouse takes a dot in a table's name, and elsewhere `shop.orders` is a table with its database. The name may come from a reference, so it is not shown.
    fn dotted(&mut self) {
        const MESSAGE: &str = "the dot is part of the table's name here; to name the database, write `database: NAME` beside `table`";
        let pipeline = self.pipeline;
        let of_one = pipeline.sink.clickhouse.table.iter();
        let of_one = of_one.map(|table| ("sink.clickhouse.table".to_owned(), table.to_string()));
        let of_several = pipeline.sinks.iter().enumerate().map(|(index, sink)| {
            let table = sink.clickhouse.table.to_string();
            // The column that a value is of may have one.
            let table = sink.by.as_ref().map_or(table.clone(), |by| table.replace(&by.placeholder(), ""));
            (format!("sinks[{index}].clickhouse.table"), table)
        });
        for (path, _) in of_one.chain(of_several).filter(|(_, table)| table.contains('.')) {
            self.hint(&path, MESSAGE);
        }
    }

    /// What the file creates must be a table that its rows can be written to: once it is there, `create` changes nothing.
    fn created(&mut self) {
        let mut paths = BTreeSet::new();
        for target in self.pipeline.targets() {
            let Some(Err(faults)) = created::columns(&target) else { continue };
            // With `by` one description is that of several tables.
            if !paths.insert(target.path.clone()) {
                continue;
            }
            let of_partitions = created::is_of_partitions(&target);
            for fault in faults {
                let place = match fault.column {
                    Some(column) => format!("columns.{column}"),
                    None if of_partitions => "partition_by".to_owned(),
                    None => "columns".to_owned(),
                };
                self.fault(&format!("{}.clickhouse.create.{place}", target.path), fault.message);
            }
        }
    }

    /// A column that is used must be one of those that the file creates.
    pub(super) fn created_column(&mut self, target: &Target, path: &str, column: &str) {
        let Some(Create::Table(create)) = &target.clickhouse.create else { return };
        if create.columns.has(column) {
            return;
        }
        let known: Vec<&str> = create.columns.0.iter().map(|(name, _)| name.as_str()).collect();
        let near = crate::config::nearest::nearest(column, &known);
        let near = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
        self.fault(path, format!("`{column}` is no column of `{}.clickhouse.create`{near}", target.path));
    }

    pub(super) fn dead_letters(&mut self) {
        let (database, table) = self.pipeline.letters_place();
        let name = format!("{database}.{table}");
        if self.pipeline.targets().iter().any(|target| target.clickhouse.full_name() == name) {
            self.fault("dead_letters.table", "dead letters cannot go to the sink's own table");
        }
    }
}
