//! A table that takes rows back by a sign: what its rows are before the step that makes them, and that step.
//!
//! Owns the columns that stand for the sign and for deletions until then. Does not own the step ([`operators::Upsert`]), nor which pipelines may have it
//! (`config::rules`).
//!
//! The rows are planned as if the table could do without its sign, and had the column that says what is deleted. The step stands behind all others, so every chain that ends
//! at a table can have it.

use dataflow::{Column, ColumnType, Schema};
use operators::UpsertConfig;

use super::chain::LaneStep;
use super::inputs::Plans;
use super::{Faults, Place, Stage, fault};
use crate::config::model::Pipeline;
use crate::config::model::sink::{Target, Upsert};

/// The columns of the rows for a table, whose columns are `table`: those of the table, unless they come with a sign.
pub fn rows_of(target: &Target, table: &Schema) -> Schema {
    let Some((upsert, sign)) = signed(target) else { return table.clone() };
    let mut columns = table.columns().to_vec();
    for column in columns.iter_mut().filter(|column| column.name == sign) {
        // Of the step that fills it no record knows.
        column.default = Some("1".to_owned());
    }
    if let Some(name) = upsert.deleted.as_ref().filter(|name| table.index_of(name.as_str()).is_none()) {
        columns.push(Column::new(name.as_str(), ColumnType::Nullable(Box::new(ColumnType::Bool))));
    }
    Schema::new(columns)
}

fn signed(target: &Target) -> Option<(&Upsert, &str)> {
    let upsert = target.upsert.as_ref()?;
    Some((upsert, upsert.sign.as_ref()?.as_str()))
}

/// Puts the step behind all others, if the pipeline has a table that needs it. `tables` are the columns of the tables.
///
/// # Errors
/// When rows come to it that the table does not get.
pub(super) fn add(pipeline: &Pipeline, tables: &[Schema], plans: &mut Plans) -> Result<(), Faults> {
    let targets = pipeline.targets();
    let of_table =
        targets.iter().zip(tables).find_map(|(target, table)| Some((target, table, signed(target)?)));
    let Some((target, table, (upsert, sign))) = of_table else { return Ok(()) };
    if plans.common().router.is_some() {
        let message = "a step without state behind a `dedup` drops rows only behind the lane, where nobody could say which row of a key was the last; put it before the `dedup`";
        return Err(vec![fault(format!("{}.upsert.sign", target.path), message)]);
    }
    let config = UpsertConfig {
        key: upsert.key.iter().map(ToString::to_string).collect(),
        version: upsert.version.as_ref().map(ToString::to_string),
        deleted: upsert.deleted.as_ref().map(ToString::to_string),
        sign: sign.to_owned(),
    };
    let reads = config.key.iter().chain(&config.version).chain(&config.deleted).cloned().collect();
    let stage = Stage {
        path: format!("{}.upsert", target.path),
        place: Place::Lane,
        reads,
        output: table.clone(),
        multiplies: false,
    };
    let step = LaneStep::Upsert { config, rows: rows_of(target, table), table: table.clone() };
    for input in &mut plans.inputs {
        let plan = &mut input.plan;
        plan.lane_steps.push(step.clone());
        plan.stages.push(stage.clone());
        for of_table in &mut plan.tables {
            of_table.columns = table.clone();
            of_table.mapping.truncate(table.columns().len());
            for mapped in of_table.mapping.iter_mut().filter(|mapped| mapped.column == sign) {
                (mapped.from, mapped.from_type, mapped.field) = (None, None, None);
            }
        }
    }
    Ok(())
}
