//! `forebay explain`: what a pipeline decodes, where each step runs, and how its rows become those of the tables.
//!
//! Owns the report. Does not own the plan ([`pipeline::plan`]). Asks ClickHouse for the tables' columns, or takes those that the file would
//! create; reads nothing else and writes nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use clap::Args;
use clickhouse::types::name as type_name;
use dataflow::{Column, ColumnType, Runtime, Schema, Table};
use engine::TokioRuntime;
use pipeline::config::model::Pipeline;
use pipeline::config::model::sink::{SideOutput, Takes, Upsert};
use pipeline::plan::{Conversion, Fault, InputPlan, Mapped, Place, Plan, Plans, Stage};
use pipeline::wiring::{self, sink};
use serde_json::{Value, json};

use crate::console::{Exit, PipelineFile, print};

/// Shows the plan of a pipeline: what is decoded, where each step runs, and how each column of a table is filled.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay explain orders.yaml
  forebay explain orders.yaml --json

Reads the tables' columns from ClickHouse; for a table that does not exist yet it uses those under `create:`. Reads no record and writes \
nothing.

Exit codes: 0; 2 if the file has an error or its steps do not fit the table; 1 if ClickHouse does not answer.")]
pub struct Explain {
    #[command(flatten)]
    file: PipelineFile,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

impl Explain {
    /// Runs the command.
    ///
    /// # Errors
    /// When the file cannot be read, or the table cannot be used.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let Some((pipeline, checked)) = super::load_to_plan(&self.file.file)? else {
            return Ok(Exit::Fault);
        };
        let tables = super::runtime()?.block_on(columns(&pipeline))?;
        let plans = match planned(&pipeline, &tables) {
            Ok(plans) => plans,
            Err(faults) => return super::refuse(&self.file.file, &checked, &faults),
        };
        let report = Report { pipeline: &pipeline, plans: &plans };
        match self.json {
            true => print(&format!("{:#}\n", report.json())),
            false => print(&report.text()),
        }
    }
}

/// The columns of every table that rows go to.
///
/// # Errors
/// When ClickHouse does not answer, or has no such table and the file does not describe one.
pub async fn columns(pipeline: &Pipeline) -> anyhow::Result<Vec<Schema>> {
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let mut all = Vec::new();
    for target in pipeline.targets() {
        let open = sink::open_once(sink::target(pipeline, &target)?, pipeline, &runtime).await?;
        let columns = open.map(|table| table.schema().clone()).or_else(|| sink::described(&target));
        all.push(columns.ok_or_else(|| {
            anyhow::anyhow!(
                "the columns of table `{}` cannot be read now; `forebay check FILE --connect` says why",
                target.clickhouse.table_name()
            )
        })?);
    }
    Ok(all)
}

/// The plan for tables with these columns, or all that does not fit.
///
/// # Errors
/// The faults.
pub fn planned(pipeline: &Pipeline, tables: &[Schema]) -> Result<Plans, Vec<Fault>> {
    wiring::steps::plan(pipeline, tables).map_err(|mut faults| {
        faults.extend(sink::unlike_described(pipeline, tables));
        faults
    })
}

struct Report<'a> {
    pipeline: &'a Pipeline,
    plans: &'a Plans,
}

impl Report<'_> {
    fn text(&self) -> String {
        let mut out = format!("pipeline `{}`\n", self.pipeline.pipeline);
        for input in &self.plans.inputs {
            let of = OfInput { pipeline: self.pipeline, plan: &input.plan };
            let which =
                if self.plans.are_several() { format!(" of input `{}`", input.name) } else { String::new() };
            let _ = write!(out, "\ndecoded from each record{which}\n{}", of.decoded());
            let _ = write!(out, "\nsteps{which}\n{}", of.steps());
        }
        for place in 0..self.plans.common().tables.len() {
            self.table(place, &mut out);
        }
        out
    }

    /// How the columns of a table are filled, once if that is the same for all inputs.
    fn table(&self, place: usize, out: &mut String) {
        let first = &self.plans.common().tables[place].mapping;
        let targets = self.pipeline.targets();
        let is_one = self.plans.inputs.iter().all(|input| input.plan.tables[place].mapping == *first);
        for input in &self.plans.inputs[..if is_one { 1 } else { self.plans.inputs.len() }] {
            let table = &input.plan.tables[place];
            let which = if is_one { String::new() } else { format!(", rows of input `{}`", input.name) };
            let upsert = targets[place].upsert.as_ref();
            let _ = write!(
                out,
                "\ntable `{}`{}{}{which}\n",
                table.name,
                takes(&table.takes, self.pipeline),
                newest(upsert)
            );
            let rows = table.mapping.iter().zip(table.columns.columns()).map(|(mapped, column)| {
                let from = mapped.from.as_ref().map_or(String::new(), |from| format!("from {from}"));
                let converted = mapped.from_type.as_ref().filter(|_| mapped.conversion != Conversion::Same);
                let from = converted.map_or(from.clone(), |kind| format!("{from} {}", type_name(kind)));
                let is_sign = upsert
                    .and_then(|upsert| upsert.sign.as_ref())
                    .is_some_and(|sign| sign.as_str() == mapped.column);
                let how = if is_sign {
                    "1, or -1 for a row that is taken back".to_owned()
                } else {
                    how(mapped, column).0
                };
                [format!("{} {}", mapped.column, type_name(&column.column_type)), from, how]
            });
            let made = upsert.filter(|upsert| upsert.version.is_none() && upsert.sign.is_none()).map(|_| {
                let how = "made by Forebay: greater with every row".to_owned();
                [format!("{} UInt64", clickhouse::upsert::VERSION), String::new(), how]
            });
            columns_of(out, &rows.chain(made).collect::<Vec<_>>());
        }
    }

    fn json(&self) -> Value {
        let name = self.pipeline.pipeline.to_string();
        let of = |input: &InputPlan| OfInput { pipeline: self.pipeline, plan: &input.plan }.json();
        if !self.plans.are_several() {
            let mut json = of(&self.plans.inputs[0]);
            json["pipeline"] = name.into();
            return json;
        }
        let inputs = self.plans.inputs.iter().map(|input| (input.name.clone(), of(input)));
        json!({ "pipeline": name, "inputs": inputs.collect::<serde_json::Map<_, _>>() })
    }
}

/// The plan of one input.
struct OfInput<'a> {
    pipeline: &'a Pipeline,
    plan: &'a Plan,
}

impl OfInput<'_> {
    /// The steps that read a column of the input, as far as they read it under this name.
    fn readers(&self, field: &str) -> Vec<&str> {
        // What reads the results of a window or joined rows reads no field, though it may be of the same name.
        let is_of_records = |place: Place| !matches!(place, Place::Results | Place::Joined);
        let of_records = self.plan.stages.iter().filter(|stage| is_of_records(stage.place));
        let stages = of_records.filter(|stage| stage.reads.iter().any(|read| read == field));
        stages.map(|stage| stage.path.as_str()).collect()
    }

    /// The columns that a field passes to untouched.
    fn fills(&self, field: &str) -> Vec<&str> {
        let mapped = self.plan.tables.iter().flat_map(|table| &table.mapping);
        let fills = mapped.filter(|mapped| mapped.field.as_deref() == Some(field));
        let mut fills: Vec<&str> = fills.map(|mapped| mapped.column.as_str()).collect();
        fills.dedup();
        fills
    }

    fn decoded(&self) -> String {
        let plan = self.plan;
        let mut out = String::new();
        let mut fields = Vec::new();
        for column in plan.input.columns() {
            let field = if column.field == column.name {
                String::new()
            } else {
                format!(" (field `{}`)", column.field)
            };
            let mut why = Vec::new();
            let fills = self.fills(&column.field);
            if !fills.is_empty() {
                why.push(format!("fills {}", fills.join(", ")));
            }
            let readers = self.readers(&column.name);
            if fills.is_empty() && readers.is_empty() && self.is_sign(&column.name) {
                continue;
            }
            if !readers.is_empty() {
                why.push(format!("read by {}", readers.join(", ")));
            }
            if plan.metadata.iter().any(|one| one.name() == column.name) {
                why.push("the source fills it".to_owned());
            }
            if plan.time.as_ref() == Some(&column.name) {
                why.push("the event time".to_owned());
            }
            fields.push([format!("{}{field}", column.name), type_name(&column.column_type), why.join("; ")]);
        }
        columns_of(&mut out, &fields);
        if plan.time.is_none() {
            out += "  the event time is the source's\n";
        }
        out
    }

    /// Whether it is the sign of a table, which no record gives.
    fn is_sign(&self, column: &str) -> bool {
        let signs = self.pipeline.targets().into_iter().filter_map(|target| target.upsert?.sign);
        signs.into_iter().any(|sign| sign.as_str() == column)
    }

    fn steps(&self) -> String {
        let mut out = String::new();
        let mut steps = Vec::new();
        for stage in &self.plan.stages {
            let place = match stage.place {
                Place::DecodeJob => "in the decode job, on all cores",
                Place::Ahead => "in the decode job too; what it drops counts as seen",
                Place::Lane => "in the lane, in order",
                Place::Results => "in the lane, when a window closes",
                Place::Joined => "in the lane, with the joined rows",
            };
            let reads = if stage.reads.is_empty() {
                String::new()
            } else {
                format!("reads {}", stage.reads.join(", "))
            };
            let many = if stage.multiplies { ", a row of each item of the array" } else { "" };
            steps.push([stage.path.clone(), format!("{place}{many}"), reads]);
        }
        if steps.is_empty() {
            out += "  none\n";
        }
        let mut lines = String::new();
        columns_of(&mut lines, &steps);
        for (line, columns) in lines.lines().zip(self.changed_columns()) {
            let _ = writeln!(out, "{line}");
            if let Some(columns) = columns {
                wrapped(&mut out, "    gives ", &columns);
            }
        }
        out
    }

    /// For each step the columns of its rows, with their types, unless they are those of the step before.
    fn changed_columns(&self) -> Vec<Option<Vec<String>>> {
        let shown = |schema: &Schema| -> Vec<String> {
            // What has another name in the plan than a step can give it is no column of the rows.
            let columns = schema.columns().iter().filter(|column| !column.name.contains('`'));
            columns.map(|column| format!("{} {}", column.name, type_name(&column.column_type))).collect()
        };
        let mut before = shown(&self.plan.input);
        let of = |stage: &Stage| {
            // A `dedup` changes no row, and the conditions of the tables are no columns that a step reads.
            if stage.path.ends_with("].dedup") || stage.path == "sinks" {
                return None;
            }
            let columns = shown(&stage.output);
            let is_changed = columns != before;
            before.clone_from(&columns);
            is_changed.then_some(columns)
        };
        self.plan.stages.iter().map(of).collect()
    }

    fn json(&self) -> Value {
        let schema = |schema: &Schema| -> Vec<Value> {
            let columns = schema.columns().iter();
            columns.map(|c| json!({ "name": c.name, "type": type_name(&c.column_type) })).collect()
        };
        let plan = self.plan;
        let input = plan.input.columns().iter().map(|column| {
            json!({
                "name": column.name, "field": column.field, "type": type_name(&column.column_type),
                "fills": self.fills(&column.field), "read_by": self.readers(&column.name)
            })
        });
        let steps = plan.stages.iter().map(|stage| {
            let place = match stage.place {
                Place::DecodeJob => "decode_job",
                Place::Ahead => "decode_job_ahead",
                Place::Lane => "lane",
                Place::Results => "lane_results",
                Place::Joined => "lane_joined",
            };
            json!({
                "step": stage.path, "runs_in": place, "reads": stage.reads, "columns": schema(&stage.output),
                "multiplies": stage.multiplies
            })
        });
        let tables = plan.tables.iter().zip(self.pipeline.targets()).map(|(table, target)| {
            let mapping = table.mapping.iter().zip(table.columns.columns()).map(|(mapped, column)| {
                json!({
                    "column": mapped.column, "type": type_name(&column.column_type), "from": mapped.from,
                    "from_type": mapped.from_type.as_ref().map(type_name),
                    "untouched_field": mapped.field, "how": how(mapped, column).1
                })
            });
            let (condition, otherwise) = match &table.takes {
                Takes::Every | Takes::Side(_) => (None, false),
                Takes::Where(text) => (Some(text), false),
                Takes::Otherwise => (None, true),
            };
            json!({
                "table": table.name, "from": self.pipeline.from_of(&target), "where": condition, "otherwise": otherwise,
                "upsert": target.upsert,
                "columns": mapping.collect::<Vec<_>>()
            })
        });
        json!({
            "decoded": input.collect::<Vec<_>>(),
            "event_time": plan.time,
            "steps": steps.collect::<Vec<_>>(),
            "tables": tables.collect::<Vec<_>>(),
        })
    }
}

/// How a column is filled, for users and for programs.
fn how(mapped: &Mapped, column: &Column) -> (String, &'static str) {
    let default = column.default.as_deref();
    match (&mapped.from, mapped.conversion) {
        (None, _) => (default.map_or("NULL".into(), |default| format!("DEFAULT {default}")), "absent"),
        (Some(_), Conversion::Same) if mapped.field.is_some() => ("as decoded".into(), "same"),
        (Some(_), Conversion::Same) => (format!("of the same type{}", of_null(mapped, column)), "same"),
        (Some(_), Conversion::Lossless) => {
            (format!("converted, every value fits{}", of_null(mapped, column)), "lossless")
        }
        (Some(_), Conversion::Checked | Conversion::Absent) => {
            ("converted; a value that does not fit makes its record a dead letter".into(), "checked")
        }
    }
}

/// What a NULL becomes in a column that takes none.
fn of_null(mapped: &Mapped, column: &Column) -> &'static str {
    let may_be_null = mapped.from_type.as_ref().is_some_and(ColumnType::is_nullable);
    match (may_be_null && !column.column_type.is_nullable(), column.default.is_some()) {
        (false, _) => "",
        (true, true) => "; NULL becomes the DEFAULT",
        (true, false) => "; NULL makes its record a dead letter",
    }
}

/// Which rows of a table stay, behind its name.
fn newest(upsert: Option<&Upsert>) -> String {
    upsert.map_or(String::new(), |upsert| {
        let key: Vec<&str> = upsert.key.iter().map(|name| name.as_str()).collect();
        let by = upsert.version.as_ref().map_or(String::new(), |version| format!(" by {version}"));
        format!(", the newest row of each {}{by}", key.join(", "))
    })
}

/// Which rows a table takes, behind its name.
fn takes(takes: &Takes, pipeline: &Pipeline) -> String {
    match takes {
        Takes::Every => String::new(),
        Takes::Where(text) => format!(", where {text}"),
        Takes::Otherwise => ", otherwise".to_owned(),
        Takes::Side(SideOutput::Late(step)) => {
            format!(", the late records of {}", pipeline.step_in_file(*step))
        }
        Takes::Side(SideOutput::Unmatched(step, side)) => {
            format!(", the {} rows without a match of {}", side.word(), pipeline.step_in_file(*step))
        }
    }
}

/// Characters of a line with the columns of a step.
const LINE_CHARS_MAX: usize = 100;

/// A list with commas, on as many lines as it needs; those behind the first are indented as far as the words before it.
fn wrapped(out: &mut String, before: &str, items: &[String]) {
    let mut line = before.to_owned();
    for (at, item) in items.iter().enumerate() {
        let comma = if at + 1 < items.len() { "," } else { "" };
        if at > 0 && line.chars().count() + item.chars().count() + comma.len() > LINE_CHARS_MAX {
            let _ = writeln!(out, "{}", line.trim_end());
            line = " ".repeat(before.len());
        }
        line += &format!("{item}{comma} ");
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

/// Three columns of text, each as wide as its widest entry.
pub fn columns_of(out: &mut String, rows: &[[String; 3]]) {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default();
    let (first, second) = (width(0), width(1));
    for [a, b, c] in rows {
        let line = format!("  {a:<first$}  {b:<second$}  {c}");
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests;
