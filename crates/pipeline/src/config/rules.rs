//! Rules that span several keys of a pipeline file.
//!
//! Owns what the schema cannot say. Runs on files whose single values may still have faults, so a rule only speaks when
//! all that it compares is there. Does not own anything that needs a server (`wiring`).

mod csv;
mod inputs;
mod joins;
mod listen;
mod lookups;
mod sides;
mod upsert;

use operators::mapping::route::TABLES_MAX;

use super::faults::{Faults, Position};
use super::model::sink::{TableSink, Target};
use super::model::step::{AtEnd, Step, WindowStep};
use super::model::{Create, Delivery, Pipeline};
use super::spans::{Node, Value};
use super::values::{Listen, Period, Size, Window};

/// The least `memory` of a pipeline with keys that a full load was seen to stay within, and a fifth.
const MEMORY_WITH_KEYS_MIN: Size = Size::mib(256);

/// Checks all rules; `file` is the text of the file.
pub fn check(pipeline: &Pipeline, tree: &Node, file: &str, faults: &mut Faults) {
    let mut rules = Rules { pipeline, tree, file, faults };
    rules.delivery();
    rules.store();
    rules.memory();
    rules.batches();
    rules.http();
    rules.inputs();
    rules.listen();
    rules.steps();
    rules.dedup();
    rules.lookups();
    rules.sinks();
    rules.table();
    rules.upserts();
    rules.dead_letters();
}

struct Rules<'a> {
    pipeline: &'a Pipeline,
    tree: &'a Node,
    file: &'a str,
    faults: &'a mut Faults,
}

impl Rules<'_> {
    fn fault(&mut self, path: &str, message: impl Into<String>) {
        // The settings of a join may be those of a query.
        let (path, at) = self.pipeline.in_query(path).unwrap_or_else(|| (path.to_owned(), None));
        let place = place_in(self.tree, self.file, &path, at.map(|at| at.start));
        self.faults.fault(place, path, message);
    }

    fn hint(&mut self, path: &str, message: impl Into<String>) {
        self.faults.hint(place(self.tree, path), path, message);
    }

    fn delivery(&mut self) {
        match self.pipeline.delivery {
            Delivery::AtLeastOnce => {
                self.hint("delivery", "`at_least_once`: after a crash some rows may be in the table twice");
            }
            Delivery::ExactlyOnce if self.pipeline.store.is_memory() => self.fault(
                "store",
                "`memory://` forgets the journal when the process ends, so `exactly_once` cannot be held; \
                 give a path, or write `delivery: at_least_once`",
            ),
            Delivery::ExactlyOnce => {
                for input in self.pipeline.inputs() {
                    let files = input.source.file.as_ref();
                    if !files.is_some_and(|files| files.paths.as_slice().iter().any(|path| path == "-")) {
                        continue;
                    }
                    self.fault(
                        &format!("{}.file.paths", input.path),
                        "standard input (`-`) cannot be read again after a crash, so `exactly_once` cannot be held; \
                         name a file, or write `delivery: at_least_once`",
                    );
                }
            }
        }
    }

    /// Settings of object storage that would not be used are a mistake about where the journal goes.
    fn store(&mut self) {
        let Some(storage) = &self.pipeline.object_storage else { return };
        let Some(scheme) = self.pipeline.store.remote_scheme() else {
            let message = format!("`store` is `{}`, which is not on object storage", self.pipeline.store);
            return self.fault("object_storage", message);
        };
        let of_one = [
            ("region", storage.region.is_some(), "s3"),
            ("access_key", storage.access_key.is_some(), "s3"),
            ("session_token", storage.session_token.is_some(), "s3"),
            ("account", storage.account.is_some(), "az"),
            ("service_account", storage.service_account.is_some(), "gs"),
        ];
        for (key, is_set, only) in of_one {
            if is_set && scheme != only {
                let path = format!("object_storage.{key}");
                self.fault(
                    &path,
                    format!("`object_storage.{key}` is for `{only}://`, and `store` is on `{scheme}://`"),
                );
            }
        }
        if scheme == "gs" && storage.secret_key.is_some() {
            self.fault(
                "object_storage.secret_key",
                "`object_storage.secret_key` is for `s3://` and `az://`; `gs://` takes `service_account`",
            );
        }
        if scheme == "s3" && storage.access_key.is_some() != storage.secret_key.is_some() {
            self.fault(
                "object_storage",
                "`object_storage` needs both of `access_key` and `secret_key`, or none",
            );
        }
        if let Some(endpoint) = &storage.endpoint
            && !endpoint.is_tls()
            && !endpoint.is_loopback()
            && !storage.allow_http
        {
            let message = "`object_storage.endpoint` is not encrypted and on another machine; write `https://`, or `allow_http: true`";
            self.fault("object_storage.endpoint", message);
        }
    }

    fn memory(&mut self) {
        let Pipeline { steps, memory, .. } = self.pipeline;
        if steps.iter().any(Step::is_stateful) && *memory < MEMORY_WITH_KEYS_MIN {
            let message = format!(
                "`memory` ({memory}) must be at least {MEMORY_WITH_KEYS_MIN} with `dedup`, `window` or `join`: the program, a bucket of keys on its \
                 way to a file and the batches do not fit into less"
            );
            self.fault("memory", message);
        }
    }

    fn batches(&mut self) {
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

    fn http(&mut self) {
        let http = &self.pipeline.http;
        if let Listen::At(address) = http.listen
            && !address.ip().is_loopback()
            && !http.allow_remote
        {
            let message = format!(
                "`{address}` can be reached by other machines and there is no authentication; listen at `127.0.0.1` or \
                 write `allow_remote: true`"
            );
            self.fault("http.listen", message);
        }
    }

    fn steps(&mut self) {
        let (mut is_behind_window, mut is_behind_join, mut waits) = (false, false, false);
        for (index, step) in self.pipeline.steps.iter().enumerate() {
            let path = format!("steps[{index}].{}", step.word());
            let time = step.dedup.as_ref().and_then(|dedup| dedup.time.as_ref());
            let time = step.window.as_ref().and_then(|window| window.time.as_ref()).or(time);
            if is_behind_window && time.is_some() {
                self.fault(&format!("{path}.time"), crate::plan::windows::TIME_OF_RESULTS);
            } else if is_behind_join && time.is_some() {
                self.fault(&format!("{path}.time"), crate::plan::joins::TIME_OF_JOINED);
            }
            if let Some(join) = &step.join {
                self.at_end(join.at_end, &path, false);
                waits |= join.at_end == AtEnd::Wait;
                is_behind_join = true;
            }
            if let Some(window) = &step.window {
                self.window(window, &path, is_behind_window || is_behind_join);
                self.at_end(window.at_end, &path, waits);
                self.emit(window, index, &path);
                waits |= window.at_end == AtEnd::Wait;
                is_behind_window = true;
            }
            if let Some((_, text)) =
                step.select.iter().flat_map(|items| &items.0).find(|(name, _)| name.as_str() == "*")
                && text != "*"
            {
                self.fault(
                    &format!("steps[{index}].select.*"),
                    "`*` stands for all columns that are not named; write `\"*\": \"*\"`",
                );
            }
        }
    }

    /// Whether the records of an input have no time unless a step names it.
    fn has_timeless_input(&self) -> bool {
        self.pipeline.inputs().iter().any(|input| input.source.file.is_some() && input.source.time.is_none())
    }

    fn window(&mut self, window: &WindowStep, path: &str, is_behind_window: bool) {
        let is_timed = self
            .pipeline
            .steps
            .iter()
            .any(|step| step.dedup.as_ref().is_some_and(|dedup| dedup.time.is_some()));
        if window.time.is_none() && !is_timed && !is_behind_window && self.has_timeless_input() {
            self.fault(path, "records of a file have no time of their own, so a window needs `time: column`");
        }
        for fault in crate::plan::windows::config(window, path).err().into_iter().flatten() {
            self.fault(&fault.path, fault.message);
        }
    }

    /// What a window or a join does at the end; `waits` says whether one before it waits for more.
    fn at_end(&mut self, at_end: AtEnd, path: &str, waits: bool) {
        if at_end == AtEnd::Wait {
            return;
        }
        let path = format!("{path}.at_end");
        if self.pipeline.inputs().iter().any(|input| input.source.is_endless()) {
            self.fault(&path, "a topic or log never ends, so nothing comes out at its end; remove it");
        }
        if waits {
            self.fault(
                &path,
                "the step before it waits at the end and has rows for this one later; write `at_end: close` there too",
            );
        }
    }

    /// What may stand behind results that others replace: nothing that could keep a later one from its place.
    fn emit(&mut self, window: &WindowStep, index: usize, path: &str) {
        if window.emit.is_none() {
            return;
        }
        let behind = self.pipeline.steps[index + 1..].iter().find(|step| step.select.is_none());
        if let Some(step) = behind {
            let path = format!("{path}.emit");
            let message = match step.word() {
                "window" => "the window behind would count each result of a key and window again; give the last window `emit`, and no other".to_owned(),
                "dedup" => "the `dedup` behind would drop the results that replace others; put it before the window".to_owned(),
                word => format!(
                    "a `{word}` behind could drop a result whose predecessor is in the table and would stay there; filter in the query, over FINAL, \
                     or before the window"
                ),
            };
            self.fault(&path, message);
        }
        let sinks = self.pipeline.sinks.iter();
        if sinks
            .filter(|sink| sink.from.is_none())
            .any(|sink| sink.condition.is_some() || sink.by.is_some() || sink.otherwise)
        {
            self.fault(
                &format!("{path}.emit"),
                "a table with `where`, `by` or `otherwise` could get a result and miss the one that replaces it; give all results to one table",
            );
        }
    }

    fn dedup(&mut self) {
        // Behind a window or a join every row has a time.
        let makes_rows = |step: &Step| step.window.is_some() || step.join.is_some() && step.from.is_none();
        let window = self.pipeline.steps.iter().position(makes_rows);
        for (index, step) in self.pipeline.steps.iter().enumerate() {
            let timeless = self.has_timeless_input() && window.is_none_or(|window| index < window);
            let Some(dedup) = &step.dedup else { continue };
            let path = format!("steps[{index}].dedup");
            if timeless && dedup.time.is_none() && dedup.window != Window::Unbounded {
                self.fault(
                    &path,
                    "records of a file have no time of their own, so a window needs `time: column`; or write \
                     `window: unbounded`",
                );
            }
            if let Some(future) = dedup.future_max {
                let quarter = match dedup.window {
                    Window::Unbounded => None,
                    Window::Within(window) => Some(Period { ms: window.ms / 4 }),
                };
                match quarter {
                    None => self.fault(
                        &format!("{path}.future_max"),
                        "an `unbounded` window keeps every key whatever the time, so nothing is freed too early; remove it",
                    ),
                    Some(quarter) if future > quarter => self.fault(
                        &format!("{path}.future_max"),
                        format!(
                            "`{future}` is more than a quarter of the window: one record from the future would free history that the \
                             next ones need; write `{quarter}` or less"
                        ),
                    ),
                    Some(_) => {}
                }
            }
            let named =
                dedup.key.iter().enumerate().map(|(at, column)| (format!("{path}.key[{at}]"), column));
            let named = named.chain(dedup.time.iter().map(|column| (format!("{path}.time"), column)));
            // A column that the table does not store comes from a step, or is a declared field; the planner knows.
            let is_of_table = self.pipeline.inputs().iter().all(|input| input.source.fields.is_empty())
                && self.pipeline.sinks.is_empty()
                && self.pipeline.steps.iter().all(|step| step.dedup.is_some());
            for (path, column) in named.collect::<Vec<_>>().into_iter().filter(|_| is_of_table) {
                for target in self.pipeline.targets() {
                    self.created_column(&target, &path, column.as_str());
                }
            }
        }
    }

    /// One table under `sink`, or several under `sinks`.
    fn sinks(&mut self) {
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

    fn table(&mut self) {
        for target in self.pipeline.targets() {
            let path = format!("{}.clickhouse", target.path);
            for column in target.columns.keys() {
                self.created_column(&target, &format!("{}.{column}", target.columns_path), column.as_str());
            }
            for (index, column) in target.clickhouse.unique_key.iter().enumerate() {
                self.created_column(&target, &format!("{path}.unique_key[{index}]"), column.as_str());
            }
        }
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

    /// A column that is used must be one of those that the file creates.
    fn created_column(&mut self, target: &Target, path: &str, column: &str) {
        let Some(Create::Table(create)) = &target.clickhouse.create else { return };
        if create.columns.has(column) {
            return;
        }
        let known: Vec<&str> = create.columns.0.iter().map(|(name, _)| name.as_str()).collect();
        let near = super::nearest::nearest(column, &known);
        let near = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
        self.fault(path, format!("`{column}` is no column of `{}.clickhouse.create`{near}", target.path));
    }

    fn dead_letters(&mut self) {
        let (database, table) = self.pipeline.letters_place();
        let name = format!("{database}.{table}");
        if self.pipeline.targets().iter().any(|target| target.clickhouse.full_name() == name) {
            self.fault("dead_letters.table", "dead letters cannot go to the sink's own table");
        }
    }
}

/// Where the value at `path` stands; the nearest thing above it if it is not written.
pub(super) fn place(tree: &Node, path: &str) -> Position {
    walk(tree, path).1
}

/// Where byte `at` of the text at `path` stands; where the text stands if that is not known.
pub(super) fn place_in(tree: &Node, file: &str, path: &str, at: Option<usize>) -> Position {
    let inner = at.and_then(|at| super::spans::place_in(node(tree, path)?, file, at));
    inner.unwrap_or_else(|| place(tree, path))
}

/// The value at `path`, if it is written.
pub(super) fn node<'t>(tree: &'t Node, path: &str) -> Option<&'t Node> {
    let (node, _, rest) = walk(tree, path);
    rest.is_empty().then_some(node)
}

/// The value that is nearest to `path`, where its key stands, and what of the path is left.
fn walk<'t, 'p>(tree: &'t Node, path: &'p str) -> (&'t Node, Position, &'p str) {
    let mut at = tree.at;
    let mut node = tree;
    let mut rest = path;
    while !rest.is_empty() {
        let step = match (&node.value, rest.strip_prefix('[')) {
            (Value::List(items), Some(tail)) => tail.split_once(']').and_then(|(index, tail)| {
                let item = items.get(index.parse::<usize>().ok()?)?;
                Some((item, item.at, tail))
            }),
            (Value::Map(entries), None) => {
                // A key may have dots of its own (`ssl.key.password`), so the longest one that fits is meant.
                let fits = |key: &str| {
                    let tail = rest.strip_prefix(key)?;
                    (tail.is_empty() || tail.starts_with(['.', '['])).then_some(tail)
                };
                let fitting = entries.iter().filter_map(|entry| Some((entry, fits(&entry.key)?)));
                let longest = fitting.max_by_key(|(entry, _)| entry.key.len());
                longest.map(|(entry, tail)| (&entry.value, entry.at, tail))
            }
            _ => None,
        };
        let Some((inner, inner_at, tail)) = step else { break };
        (node, at, rest) = (inner, inner_at, tail.strip_prefix('.').unwrap_or(tail));
    }
    (node, at, rest)
}
