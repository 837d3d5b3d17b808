//! The table for the rows of a side output: the late records of a window, or the rows of one side of a join that never matched.
//!
//! Owns how they fill its columns: as they came to the step, so that nothing can fail there. Which rows they are is known only in the lane, where
//! a value that does not fit could no longer be told apart from a record whose key counts as seen. So a column takes a value of its own type, or one
//! that it holds without loss, and anything else is a fault. Does not own which rows they are ([`operators::window`], [`operators::join`]).

use std::sync::Arc;

use dataflow::{Column, Schema, Transform};
use operators::Mapping;
use operators::mapping::types::{Conversion, conversion};
use operators::mapping::{Fill, route::TableSet};

use super::planner::{Origin, Planner};
use super::{Fault, Faults, Mapped, TablePlan, fault};
use crate::config::model::sink::{SideOutput, Takes, Target};

/// How rows of a side output fill a table.
pub(super) struct Aside {
    target: Target,
    table: Schema,
    mapping: Vec<Mapped>,
}

impl Aside {
    /// How rows with the columns of `planner`'s last step fill `table`. The columns that this reads are put behind those in `read`.
    ///
    /// # Errors
    /// The columns that cannot be filled.
    pub(super) fn new(
        planner: &Planner<'_>,
        last: &Schema,
        (target, table): (&Target, &Schema),
        read: &mut Vec<Column>,
    ) -> Result<Self, Faults> {
        let (mut mapping, mut faults) = (Vec::new(), Faults::new());
        for column in table.columns() {
            let named = target.columns.iter().find(|(name, _)| name.as_str() == column.name);
            let source = named.map_or(column.name.as_str(), |(_, field)| field.as_str());
            let known = read.iter().chain(last.columns()).find(|known| known.name == source).cloned();
            let origin = planner.origin(source, planner.steps.len());
            let conversion = match (&known, &origin) {
                (Some(known), _) => match fit(known, column) {
                    Some(conversion) => conversion,
                    None => {
                        faults.push(unfit(target, column, known));
                        continue;
                    }
                },
                // A join's rows have the columns that are known, a record may have any.
                (None, Origin::Field(_)) if planner.results_of.is_none() => Conversion::Same,
                (None, _) if column.is_optional() => {
                    let (column, conversion) = (column.name.clone(), Conversion::Same);
                    mapping.push(Mapped { column, from: None, from_type: None, conversion, field: None });
                    continue;
                }
                (None, Origin::Field(_) | Origin::Computed(_) | Origin::Absent) => {
                    faults.push(missing(target, column, source));
                    continue;
                }
            };
            let from_type = known.as_ref().unwrap_or(column).column_type.clone();
            if !read.iter().any(|known| known.name == source) {
                // Untouched from the record into the table, it has the table's type.
                let own = known.unwrap_or_else(|| column.clone());
                read.push(Column { name: source.to_owned(), field: source.to_owned(), ..own });
            }
            let field = match origin {
                Origin::Field(field) => Some(field),
                Origin::Computed(_) | Origin::Absent => None,
            };
            mapping.push(Mapped {
                column: column.name.clone(),
                from: Some(source.to_owned()),
                from_type: Some(from_type),
                conversion,
                field,
            });
        }
        let (target, table) = (target.clone(), table.clone());
        if faults.is_empty() { Ok(Self { target, table, mapping }) } else { Err(faults) }
    }

    /// What brings rows with the columns of `came` to the table's.
    pub(super) fn step(&self, came: &Schema) -> Result<Arc<dyn Transform>, Faults> {
        let fill = |(mapped, column): (&Mapped, &Column)| Fill {
            from: mapped.from.as_ref().and_then(|from| came.index_of(from)),
            is_untouched: true,
            is_required: !column.is_optional(),
            type_name: clickhouse::types::name(&column.column_type),
            column: column.name.clone(),
            table: self.target.clickhouse.table_name().to_owned(),
            tables: TableSet::MAX,
        };
        let fills = self.mapping.iter().zip(self.table.columns()).map(fill).collect();
        let step = Mapping::new(came, self.table.clone(), fills, None);
        step.map(|step| Arc::new(step) as Arc<dyn Transform>).map_err(|(at, _)| {
            let (column, (rows, _)) = (&self.table.columns()[at].name, words(&self.target));
            vec![fault(&self.target.path, format!("column `{column}` cannot be filled by {rows}"))]
        })
    }

    /// The table in the plan.
    pub(super) fn plan(self) -> TablePlan {
        TablePlan {
            name: self.target.clickhouse.table_name().to_owned(),
            takes: self.target.takes.clone(),
            columns: self.table,
            mapping: self.mapping,
        }
    }
}

/// How a value becomes the column's without loss; `None` if it may not.
fn fit(from: &Column, to: &Column) -> Option<Conversion> {
    if from.is_optional() && !to.is_optional() {
        return None;
    }
    let conversion = conversion(&from.column_type, &to.column_type);
    matches!(conversion, Conversion::Same | Conversion::Lossless).then_some(conversion)
}

/// What the rows for a table are called, and the step that gives them.
fn words(target: &Target) -> (&'static str, &'static str) {
    match target.takes {
        Takes::Side(SideOutput::Unmatched(..)) => ("unmatched rows", "join"),
        _ => ("late records", "window"),
    }
}

fn unfit(target: &Target, column: &Column, from: &Column) -> Fault {
    let (name, of, (rows, giver)) = (&column.name, target.clickhouse.table_name(), words(target));
    let (to, type_name) =
        (clickhouse::types::name(&column.column_type), clickhouse::types::name(&from.column_type));
    let message = format!(
        "{rows} are written as they came to the {giver}, so every column must fit them: `{}` is {type_name}, and column `{name}` of table \
         `{of}` is {to}; make the column {type_name}",
        from.name
    );
    fault(&target.path, message)
}

fn missing(target: &Target, column: &Column, source: &str) -> Fault {
    let (_, giver) = words(target);
    let message = format!(
        "no step before the {giver} gives `{source}`, and column `{}` of table `{}` has neither NULL nor a DEFAULT",
        column.name,
        target.clickhouse.table_name()
    );
    fault(&target.path, message)
}
