//! How the last schema fills the tables.
//!
//! Owns the choice of a conversion for each column, and the fault with the cast that fixes it where there is none. Does not own the
//! conversion itself ([`operators::mapping`]).

use dataflow::{Column, ColumnType, Schema};
use operators::Mapping;
use operators::mapping::route::{Routes, Takes};
use operators::mapping::types::Conversion;
use operators::mapping::{Fill, Unfit, fits};

use super::chain::flag;
use super::planner::{Origin, Planner};
use super::tables::{self, Slot};
use super::{Fault, Faults, Mapped, fault};
use crate::config::model::sink::{self as model, Target};

/// How the last rows become those of the tables.
pub(super) struct Made {
    /// For each table how its columns are filled.
    pub(super) mappings: Vec<Vec<Mapped>>,
    /// The columns that the lane sees.
    pub(super) lane: Schema,
    /// The step that makes them; `None` if the last rows are the table's as they are.
    pub(super) mapper: Option<Mapping>,
    /// Where the set of tables of a row stands in `lane`, if rows go to some tables only.
    pub(super) set: Option<usize>,
}

/// The column of the set of tables of a row. No step can name it.
const SET: &str = "`sinks` of a row";

/// A column behind the tables' that only steps with state read.
pub(super) struct Extra {
    /// Its name in the lane.
    pub(super) name: String,
    /// Its name among the columns that are shown.
    pub(super) from: String,
}

/// The column of a key behind which steps are done ahead.
pub(super) fn kept_as(key: &str) -> String {
    format!("`{key}` of `dedup`")
}

impl Planner<'_> {
    /// How the last schema fills the tables, the schema that the lane sees, and the step between the two unless they are the same.
    /// `shown` are the columns of `last` with those of the conditions behind.
    pub(super) fn mapping(&self, last: &Schema, shown: &Schema, extras: &[Extra]) -> Result<Made, Faults> {
        let (mut mapping, mut fills, mut faults) = (Vec::new(), Vec::new(), Faults::new());
        let mut columns = Vec::new();
        let routes = self.routes(shown);
        for slot in self.union.slots() {
            let from = last.index_of(&slot.source);
            let from_type = from.map(|at| &last.columns()[at].column_type);
            if matches!(slot.column.column_type, ColumnType::State(_)) && self.results_of.is_none() {
                let to = clickhouse::types::name(&slot.column.column_type);
                faults.push(fault(
                    self.view.fields(),
                    format!(
                        "column `{}` is of type {to}, and only a `window` makes states, as in `{}: sumState(x)`",
                        slot.name, slot.name
                    ),
                ));
                continue;
            }
            let conversion = match fits(from_type, &slot.column) {
                Ok(conversion) => conversion,
                Err(unfit) => {
                    faults.push(self.unfit(slot, from_type, unfit));
                    continue;
                }
            };
            let field = match self.origin(&slot.source, self.steps.len()) {
                Origin::Field(field) if from.is_some() => Some(field),
                _ => None,
            };
            fills.push(Fill {
                // Where the step of the conditions puts it.
                from: from.and_then(|_| shown.index_of(&slot.source)),
                // The bounds of a window may lie where its type does not reach: no decoder has looked at them.
                is_untouched: field.is_some() && self.results_of.is_none(),
                is_required: !slot.column.is_optional(),
                type_name: clickhouse::types::name(&slot.column.column_type),
                column: slot.name.clone(),
                table: slot.table.clone(),
                tables: slot.tables,
            });
            let is_loose = routes.is_some() && !self.union.take_every_row(slot.tables);
            columns.push(if is_loose { tables::loosened(&slot.column) } else { slot.column.clone() });
            let from = from.map(|_| slot.source.clone());
            // No field of a record is in a result.
            let field = field.filter(|_| self.results_of.is_none());
            let from_type = from_type.cloned();
            mapping.push(Mapped { column: slot.name.clone(), from, from_type, conversion, field });
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        for Extra { name, from } in extras {
            let at = shown.index_of(from).expect("it was found there");
            let column = Column { name: name.clone(), field: name.clone(), ..shown.columns()[at].clone() };
            fills.push(Fill { is_untouched: true, ..Fill::of(Some(at), &column) });
            columns.push(column);
        }
        let set = routes.is_some().then_some(columns.len());
        columns.extend(routes.is_some().then(|| Routes::column(SET)));
        let lane = Schema::new(columns);
        let mappings = self.union.by_table(&mapping);
        if !self.union.is_apart() && !self.view.joint.maps && is_as_it_is(&lane, last, &fills, &mapping) {
            // What stands behind is for the steps alone, and is left behind with the keys.
            return Ok(Made { mappings, lane: last.clone(), mapper: None, set });
        }
        let mapper = Mapping::new(shown, lane.clone(), fills, routes).map_err(|(at, unfit)| {
            vec![match self.union.slots().get(at) {
                Some(slot) => self.unfit(slot, None, unfit),
                None => fault("steps", format!("`{}` cannot be kept for a key", lane.columns()[at].name)),
            }]
        })?;
        Ok(Made { mappings, lane, mapper: Some(mapper), set })
    }

    /// Which rows each table takes, if not every table takes all.
    fn routes(&self, shown: &Schema) -> Option<Routes> {
        let takes = |target: &Target| match &target.takes {
            // The planner of the rows behind the last step knows no table of a side output.
            model::Takes::Every | model::Takes::Side(_) => Takes::Every,
            model::Takes::Otherwise => Takes::Otherwise,
            model::Takes::Where(_) => {
                let at = shown.index_of(&target.condition_path);
                Takes::If(at.expect("the step of the conditions has made it"))
            }
        };
        self.union.is_routed().then(|| Routes {
            takes: self.union.targets().iter().map(takes).collect(),
            passes: shown.index_of(&flag(self.segments())),
        })
    }

    fn unfit(&self, slot: &Slot, from: Option<&ColumnType>, unfit: Unfit) -> Fault {
        let (column, name) = (&slot.name, &slot.source);
        let table =
            if slot.table.is_empty() { "the table".to_owned() } else { format!("table `{}`", slot.table) };
        let to = clickhouse::types::name(&slot.column.column_type);
        let rows = self.view.of_rows();
        let given_by = || self.results_of.clone().unwrap_or_else(|| self.view.fields());
        let last = self.stateless().last().map_or_else(given_by, |step| step.path.clone());
        match unfit {
            Unfit::Missing => fault(
                last,
                format!(
                    "no step gives column `{column}` ({to}) of {table}{rows}, which has neither NULL nor a DEFAULT; give it, or `ALTER TABLE … \
                     MODIFY COLUMN` with a DEFAULT"
                ),
            ),
            Unfit::Type if matches!(slot.column.column_type, ColumnType::State(_)) => {
                let from = from.map(clickhouse::types::name).unwrap_or_default();
                fault(
                    self.giver(name).unwrap_or(last),
                    format!(
                        "`{name}` is of type {from}, and column `{column}` of {table} of type {to}: give the aggregate as its state, as in \
                         `{name}: sumState(x)`, of columns with exactly these types, which `fields:` or a `CAST` says"
                    ),
                )
            }
            Unfit::Type => {
                let cast = from.and_then(|from| cast(from.bare(), slot.column.column_type.bare()));
                let cast =
                    cast.map_or_else(String::new, |to| format!("write `CAST(… AS {to})` in a `select`, or "));
                let from = from.map(clickhouse::types::name).unwrap_or_default();
                fault(
                    self.giver(name).unwrap_or(last),
                    format!(
                        "`{name}` is of type {from}{rows}, and column `{column}` of {table} of type {to}: no conversion keeps every value; {cast}\
                         make the column {from}"
                    ),
                )
            }
        }
    }
}

/// The type to name in a `CAST` whose result the column takes; `None` where no `CAST` helps.
fn cast(from: &ColumnType, to: &ColumnType) -> Option<String> {
    use Kind::{Bool, Date, Decimal, Named, Number, Text, Time};
    // As it is written there, so that a `CAST` to it says whether an item may be NULL.
    let of_items = |from: &ColumnType, to: &ColumnType| {
        let same = || (from.bare() == to.bare()).then(|| clickhouse::types::name(to.bare()));
        cast(from, to)
            .or_else(same)
            .map(|item| if to.is_nullable() { format!("Nullable({item})") } else { item })
    };
    match (from.bare(), to.bare()) {
        (ColumnType::Array(from), ColumnType::Array(to)) => {
            return Some(format!("Array({})", of_items(from, to)?));
        }
        (ColumnType::Map(from_key, from), ColumnType::Map(key, to)) => {
            return Some(format!("Map({}, {})", of_items(from_key, key)?, of_items(from, to)?));
        }
        _ => {}
    }
    let is_possible = matches!(
        (Kind::of(from)?, Kind::of(to)?),
        // The text of a UUID, an address or a name is none of another type.
        (Text, _)
            | (_, Text)
            | (Number, Number | Decimal | Bool | Time)
            | (Decimal, Number | Decimal | Time)
            | (Bool, Number)
            | (Date, Time)
            | (Time, Date | Time | Number | Decimal)
    ) || is_enum(from) && is_enum(to);
    is_possible.then(|| match to {
        // In an expression the others of this kind are text, which their columns take.
        _ if matches!(Kind::of(to), Some(Text | Named)) => "String".to_owned(),
        // Zones are for display.
        ColumnType::DateTime { .. } => "DateTime".to_owned(),
        ColumnType::DateTime64 { precision, .. } => format!("DateTime64({precision})"),
        other => clickhouse::types::name(other),
    })
}

fn is_enum(column_type: &ColumnType) -> bool {
    matches!(column_type.bare(), ColumnType::Enum8(_) | ColumnType::Enum16(_))
}

/// What a value is in an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Decimal,
    Bool,
    Text,
    /// A UUID, an address or a name of an Enum.
    Named,
    Date,
    Time,
}

impl Kind {
    /// `None` for several values in one.
    fn of(column_type: &ColumnType) -> Option<Self> {
        use ColumnType as T;
        Some(match column_type {
            T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => {
                Self::Number
            }
            T::Float32 | T::Float64 => Self::Number,
            T::Decimal { .. } => Self::Decimal,
            T::Bool => Self::Bool,
            T::String | T::FixedString(_) | T::Json { .. } => Self::Text,
            T::Uuid | T::Ipv4 | T::Ipv6 | T::Enum8(_) | T::Enum16(_) => Self::Named,
            T::Date | T::Date32 => Self::Date,
            T::DateTime { .. } | T::DateTime64 { .. } => Self::Time,
            T::Nullable(inner) | T::LowCardinality(inner) => return Self::of(inner),
            T::Array(_) | T::Map(..) | T::State(_) => return None,
        })
    }
}

/// Whether the last rows are the table's without any work.
fn is_as_it_is(lane: &Schema, last: &Schema, fills: &[Fill], mapping: &[Mapped]) -> bool {
    fills.iter().enumerate().all(|(at, fill)| fill.from == Some(at) && fill.is_untouched)
        && lane.columns().iter().zip(last.columns()).all(|(lane, last)| lane.name == last.name)
        && mapping.iter().all(|mapped| mapped.conversion == Conversion::Same)
        && lane.arrow().fields().iter().zip(last.arrow().fields()).all(|(lane, last)| {
            lane.data_type() == last.data_type() && lane.is_nullable() == last.is_nullable()
        })
}
