//! How the last schema fills the table.
//!
//! Owns the choice of a conversion for each column, and the fault with the cast that mends it where there is none. Does not own the
//! conversion itself ([`operators::mapping`]).

use dataflow::{Column, ColumnType, Schema};
use operators::Mapping;
use operators::mapping::types::Conversion;
use operators::mapping::{Fill, Unfit, fits};

use super::{Fault, Faults, Mapped, Origin, Planner, fault};

impl Planner<'_> {
    /// How the last schema fills the table, the schema that the lane sees, and the step between the two unless they are the same.
    pub(super) fn mapping(
        &self,
        last: &Schema,
        extras: &[String],
    ) -> Result<(Vec<Mapped>, Schema, Option<Mapping>), Faults> {
        let (mut mapping, mut fills, mut faults) = (Vec::new(), Vec::new(), Faults::new());
        for column in self.table.columns() {
            let name = self.source_of(column);
            let from = last.index_of(name);
            let from_type = from.map(|at| &last.columns()[at].column_type);
            let conversion = match fits(from_type, column) {
                Ok(conversion) => conversion,
                Err(unfit) => {
                    faults.push(self.unfit(column, name, from_type, unfit));
                    continue;
                }
            };
            let field = match self.origin(name, self.steps.len()) {
                Origin::Field(field) if from.is_some() => Some(field),
                _ => None,
            };
            let type_name = clickhouse::types::name(&column.column_type);
            fills.push(Fill { from, is_untouched: field.is_some(), type_name });
            let from = from.map(|_| name.to_owned());
            mapping.push(Mapped { column: column.name.clone(), from, conversion, field });
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut columns = self.table.columns().to_vec();
        for name in extras {
            let at = last.index_of(name).expect("it was found there");
            columns.push(last.columns()[at].clone());
            fills.push(Fill { from: Some(at), is_untouched: true, type_name: String::new() });
        }
        let lane = Schema::new(columns);
        let is_as_it_is =
            fills.iter().enumerate().all(|(at, fill)| fill.from == Some(at) && fill.is_untouched)
                && lane.columns().iter().zip(last.columns()).all(|(lane, last)| lane.name == last.name)
                && mapping.iter().all(|mapped| mapped.conversion == Conversion::Same)
                && lane.arrow().fields().iter().zip(last.arrow().fields()).all(|(lane, last)| {
                    lane.data_type() == last.data_type() && lane.is_nullable() == last.is_nullable()
                });
        if is_as_it_is {
            // What stands behind is for the steps alone, and is left behind with the keys.
            return Ok((mapping, last.clone(), None));
        }
        let mapper = Mapping::new(last, lane.clone(), fills).map_err(|(at, unfit)| {
            let column = &lane.columns()[at];
            vec![self.unfit(column, &column.name, None, unfit)]
        })?;
        Ok((mapping, lane, Some(mapper)))
    }

    fn unfit(&self, column: &Column, name: &str, from: Option<&ColumnType>, unfit: Unfit) -> Fault {
        let to = clickhouse::types::name(&column.column_type);
        let last = self.stateless().last().map_or("source.fields".to_owned(), |step| step.path.clone());
        match unfit {
            Unfit::Missing => fault(
                last,
                format!(
                    "no step gives column `{}` ({to}) of the table, which has neither NULL nor a DEFAULT; give it, or `ALTER TABLE … MODIFY \
                     COLUMN` with a DEFAULT",
                    column.name
                ),
            ),
            Unfit::Type => {
                let from = from.map(clickhouse::types::name).unwrap_or_default();
                let bare = clickhouse::types::name(column.column_type.bare());
                fault(
                    self.giver(name).unwrap_or(last),
                    format!(
                        "`{name}` is of type {from}, and column `{}` of the table of type {to}: no conversion keeps every value; write \
                         `CAST(… AS {bare})` in a `select`",
                        column.name
                    ),
                )
            }
        }
    }
}
