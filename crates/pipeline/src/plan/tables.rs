//! The columns of all tables as one list.
//!
//! Owns which columns of several tables are one, for they are filled alike, and which stand side by side. Does not own how a column is
//! filled ([`super::mapping`]).
//!
//! With one table the list is the table's. With several, or steps behind one with state, a column has a name of its own there, which no step can name: the keys of steps
//! with state are columns behind the list, with the values that they had before any of them was converted for a table.

use dataflow::{Column, ColumnType, Schema};
use operators::mapping::route::{self, ByTable, TableSet};

use super::{Faults, Mapped, TablePlan, fault};
use crate::config::model::sink::{Takes, Target};
use crate::config::nearest::nearest;

/// A column of one table, or of several that fill it alike.
pub(super) struct Slot {
    /// The column, with its name in the list.
    pub(super) column: Column,
    /// The name of what fills it.
    pub(super) source: String,
    /// Its name in the first of its tables.
    pub(super) name: String,
    /// The first of its tables, as a message names it; empty if there is only one.
    pub(super) table: String,
    /// The places of its tables.
    pub(super) tables: TableSet,
}

/// The columns of all tables.
pub(super) struct Union {
    targets: Vec<Target>,
    /// Whether steps behind one with state may drop rows that go on.
    has_steps_behind: bool,
    schemas: Vec<Schema>,
    slots: Vec<Slot>,
    /// For each table the places of its columns in `slots`.
    columns: Vec<Vec<usize>>,
}

impl Union {
    /// The columns of `targets`, which are `schemas`. Names under `columns:` that a table does not have are `faults`.
    pub(super) fn new(
        targets: Vec<Target>,
        schemas: &[Schema],
        has_steps_behind: bool,
        faults: &mut Faults,
    ) -> Self {
        let (schemas, slots, columns) = (schemas.to_vec(), Vec::new(), Vec::new());
        let mut union = Self { targets, has_steps_behind, schemas, slots, columns };
        let (is_of_several, is_apart) = (union.is_of_several(), union.is_apart());
        for (place, (target, schema)) in union.targets.iter().zip(&union.schemas).enumerate() {
            // Two databases may have a table of the same name.
            let table_name = union.short_name(target);
            let table = if is_of_several { table_name.as_str() } else { "" };
            unknown_columns(target, schema, table, faults);
            let mut own = Vec::with_capacity(schema.columns().len());
            for column in schema.columns() {
                let named = target.columns.iter().find(|(name, _)| name.as_str() == column.name);
                let source = named.map_or(column.name.as_str(), |(_, field)| field.as_str());
                let at = union.slots.iter().position(|slot| is_apart && slot.is_filled_as(column, source));
                own.push(at.unwrap_or(union.slots.len()));
                match at {
                    Some(at) => union.slots[at].tables |= route::only(place),
                    None => union.slots.push(Slot {
                        column: Column {
                            name: match is_apart {
                                false => column.name.clone(),
                                true => format!("`{}` of `{table_name}`", column.name),
                            },
                            ..column.clone()
                        },
                        source: source.to_owned(),
                        name: column.name.clone(),
                        table: table.to_owned(),
                        tables: route::only(place),
                    }),
                }
            }
            union.columns.push(own);
        }
        faults.extend(union.two_defaults());
        union
    }

    /// Whether there is more than one table.
    pub(super) fn is_of_several(&self) -> bool {
        self.targets.len() > 1
    }

    /// Whether the columns of the list have names of their own, and a row may go to none of the tables.
    pub(super) fn is_apart(&self) -> bool {
        self.is_of_several() || self.has_steps_behind
    }

    /// Whether steps without state are to stand behind one with state, of which only those before it are at hand.
    pub(super) fn expect_steps_behind(&mut self, are_behind: bool) {
        self.has_steps_behind = are_behind;
    }

    /// The tables.
    pub(super) fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The columns with all that is known of them.
    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The columns.
    pub(super) fn columns(&self) -> impl Iterator<Item = &Column> {
        self.slots.iter().map(|slot| &slot.column)
    }

    /// The place of the column of that name in the list.
    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.column.name == name)
    }

    /// The names that the tables give their columns.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.slots.iter().map(|slot| slot.name.as_str()).collect();
        names.dedup();
        names
    }

    /// The name that its table gives a column of the list.
    pub(super) fn name_of<'a>(&'a self, column: &'a str) -> &'a str {
        self.index_of(column).map_or(column, |at| &self.slots[at].name)
    }

    /// A table's name without its database, if no other table has it.
    fn short_name(&self, target: &Target) -> String {
        let name = target.clickhouse.table_name();
        match self.targets.iter().filter(|other| other.clickhouse.table_name() == name).count() {
            1 => name.to_owned(),
            _ => target.clickhouse.full_name(),
        }
    }

    /// The name of what fills a column of the list.
    pub(super) fn source_of<'a>(&'a self, column: &'a str) -> &'a str {
        self.index_of(column).map_or(column, |at| &self.slots[at].source)
    }

    /// Whether some rows go to some tables only.
    pub(super) fn is_routed(&self) -> bool {
        self.has_steps_behind || self.targets.iter().any(|target| target.takes != Takes::Every)
    }

    /// Whether every row that is not filtered goes to one of these tables.
    pub(super) fn take_every_row(&self, tables: TableSet) -> bool {
        if self.has_steps_behind {
            return false;
        }
        let has = |at: usize| tables & route::only(at) != 0;
        let mut targets = self.targets.iter().enumerate();
        targets.clone().any(|(at, target)| target.takes == Takes::Every && has(at))
            // One of all tables takes it.
            || targets.clone().any(|(_, target)| target.takes == Takes::Otherwise)
                && targets.all(|(at, _)| has(at))
    }

    /// The column that a field is decoded as which fills `column` untouched: one that may be missing where not every row needs it, for the
    /// tables that a row goes to are known only later.
    pub(super) fn decoded_as(&self, column: &Column) -> Column {
        let source = self.source_of(&column.name);
        let of_field = || self.slots.iter().filter(|slot| slot.source == source);
        let tables = of_field().fold(0, |tables, slot| tables | slot.tables);
        let is_needed = of_field().all(|slot| !slot.column.is_optional()) && self.take_every_row(tables);
        if !self.is_apart() || is_needed { column.clone() } else { loosened(column) }
    }

    /// What the plan says of each table.
    pub(super) fn plans(&self, mappings: Vec<Vec<Mapped>>) -> Vec<TablePlan> {
        let tables = self.targets.iter().zip(&self.schemas).zip(mappings);
        let plan = |((target, columns), mapping): ((&Target, &Schema), _)| TablePlan {
            name: self.short_name(target),
            takes: target.takes.clone(),
            columns: columns.clone(),
            mapping,
        };
        tables.map(plan).collect()
    }

    /// Of what is known of each column of the list, that of each table.
    pub(super) fn by_table(&self, mapped: &[Mapped]) -> Vec<Vec<Mapped>> {
        let tables = self.columns.iter().zip(&self.schemas);
        let of = |(columns, schema): (&Vec<usize>, &Schema)| {
            let own = columns.iter().zip(schema.columns());
            own.map(|(at, column)| Mapped { column: column.name.clone(), ..mapped[*at].clone() }).collect()
        };
        tables.map(of).collect()
    }

    /// What deals rows out to several tables; `set` is where the set of a row stands.
    pub(super) fn router(&self, set: Option<usize>) -> Option<ByTable> {
        self.is_apart().then(|| ByTable { columns: self.columns.clone(), set })
    }

    /// A decoder fills in the DEFAULT of an array or a map itself, and it can fill in only one.
    fn two_defaults(&self) -> Faults {
        let slots = self.slots.iter().enumerate();
        let differs = |(at, slot): &(usize, &Slot)| {
            let mut before = self.slots[..*at].iter().filter(|other| other.source == slot.source);
            before.any(|other| other.column.default_json != slot.column.default_json)
        };
        let message = |slot: &Slot| {
            format!(
                "column `{}` of table `{}` and a column of another table are filled by `{}` and have different DEFAULTs: a record \
                 without it has one value; give both columns the same DEFAULT, or compute one of them in a `select`",
                slot.name, slot.table, slot.source
            )
        };
        slots.filter(differs).map(|(_, slot)| fault("sinks", message(slot))).collect()
    }
}

impl Slot {
    fn is_filled_as(&self, column: &Column, source: &str) -> bool {
        self.source == source
            && self.column.column_type == column.column_type
            && self.column.default.is_some() == column.default.is_some()
            && self.column.default_json == column.default_json
    }
}

fn unknown_columns(target: &Target, schema: &Schema, table: &str, faults: &mut Faults) {
    let known: Vec<&str> = schema.columns().iter().map(|column| column.name.as_str()).collect();
    let which = if table.is_empty() { "the table".to_owned() } else { format!("table `{table}`") };
    for name in target.columns.keys().filter(|name| schema.index_of(name.as_str()).is_none()) {
        let near = nearest(name.as_str(), &known);
        let near = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
        let path = format!("{}.{name}", target.columns_path);
        faults.push(fault(path, format!("{which} has no column `{name}`{near}")));
    }
}

/// The same column, with room for rows that have no value for it.
pub(super) fn loosened(column: &Column) -> Column {
    if column.is_optional() {
        return column.clone();
    }
    match &column.column_type {
        // Neither can be NULL: the null stands for a DEFAULT that is never used.
        ColumnType::Array(_) | ColumnType::Map(..) | ColumnType::State(_) => {
            Column { default: Some(String::new()), ..column.clone() }
        }
        other => Column { column_type: nullable(other), ..column.clone() },
    }
}

fn nullable(column_type: &ColumnType) -> ColumnType {
    match column_type {
        ColumnType::LowCardinality(inner) => ColumnType::LowCardinality(Box::new(nullable(inner))),
        other => ColumnType::Nullable(Box::new(other.clone())),
    }
}
