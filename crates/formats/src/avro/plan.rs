//! What is done with the bytes of a record, from first to last.
//!
//! Owns the plan that is compiled once from a writer's schema and the columns, and the refusal of columns that the schema can never fill. Does
//! not own the steps themselves ([`super::datum`]).
//!
//! The writer's schema decides the bytes; columns take fields by name. A column filled by `user.id` takes the field `id` of the record in the
//! field `user`. Whatever way a record takes through its unions, each column is filled once.

use std::sync::Arc;

use dataflow::{Column, ColumnType, Schema};

use super::ConfigError;
use super::flat::Flat;
use super::schema::{Shape, Type, TypeId, Types};
use crate::columns::{Absence, ColumnsError, Kind, takes, type_word};
use crate::paths::Tree;

/// What is done with the bytes of a record.
#[derive(Debug)]
pub(super) struct Plan {
    /// The writer's types, by which unknown fields are skipped.
    pub shape: Shape,
    /// The record's fields, in order.
    pub fields: Box<[Field]>,
    /// What each column gets where a record has nothing for it.
    pub absences: Vec<Absence>,
    /// The short way for whole blocks, if the record is one for it.
    pub flat: Option<Flat>,
}

/// A field of a record.
#[derive(Debug)]
pub(super) struct Field {
    /// Its name; empty for what stands for no field.
    pub name: Box<str>,
    /// What is done with it.
    pub op: Op,
}

/// What is done with the bytes of a field.
#[derive(Debug)]
pub(super) enum Op {
    /// Its value goes to a column.
    Fill { column: usize, wire: Wire },
    /// It is of no concern.
    Skip(TypeId),
    /// It is a record, of whose fields some are.
    Record(Box<[Field]>),
    /// A branch number, and the branch.
    Union(Box<[Op]>),
    /// No bytes; the columns get nothing.
    Absent(Box<[usize]>),
    /// The same bytes, for several columns.
    Several(Box<[Op]>),
}

/// How a value is written.
#[derive(Debug)]
pub(super) enum Wire {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Fixed(usize),
    Enum(Arc<[Box<str>]>),
    Decimal { scale: u32 },
    DecimalFixed { scale: u32, size: usize },
    UuidFixed,
    Date,
    Timestamp { digits: u8 },
    LocalTimestamp { digits: u8 },
    Array(Box<Wire>),
    Map(Box<Wire>),
    Union(Box<[Wire]>),
}

impl Plan {
    /// The plan for records of `types` into the columns of `schema`.
    pub fn new(types: Types, schema: &Schema) -> Result<Self, ConfigError> {
        let tree = Tree::of(schema).map_err(|(column, why)| ColumnsError::Type { column, why })?;
        let absences = schema.columns().iter().map(Absence::of).collect();
        let root = types.root();
        let Type::Record(_) = types.get(root) else {
            return Err(ConfigError::NoRecord { found: types.name(root) });
        };
        let shape = Shape::of(types);
        let compiler = Compiler { types: &shape.types, empty: &shape.empty, schema };
        let fields = compiler.record(root, &tree, false)?;
        let flat = Flat::of(&fields, &shape.types, schema.columns().len());
        Ok(Self { shape, fields, absences, flat })
    }
}

struct Compiler<'a> {
    types: &'a Types,
    empty: &'a [bool],
    schema: &'a Schema,
}

impl Compiler<'_> {
    fn column(&self, column: usize) -> &Column {
        &self.schema.columns()[column]
    }

    fn refuse(&self, column: usize, why: String) -> ConfigError {
        let column = self.column(column);
        ConfigError::Field { field: column.field.clone(), column: column.name.clone(), why }
    }

    /// The fields of the record `id`. Within a union a record may lack a field that a column must have, if another branch has it.
    fn record(&self, id: TypeId, tree: &Tree, in_union: bool) -> Result<Box<[Field]>, ConfigError> {
        let Type::Record(fields) = self.types.get(id) else {
            unreachable!("the caller has seen that it is a record")
        };
        let mut compiled = Vec::with_capacity(fields.len() + 1);
        for (name, id) in fields {
            let op = match tree.children.get(&**name) {
                Some(child) => self.any(*id, child, in_union)?,
                None => Op::Skip(*id),
            };
            compiled.push(Field { name: name.clone(), op });
        }
        let has = |name: &str| fields.iter().any(|(field, _)| **field == *name);
        let missing = tree.children.iter().filter(|(name, _)| !has(name));
        let missing: Vec<usize> = missing.flat_map(|(_, child)| child.all()).collect();
        let required = missing.iter().find(|column| !self.column(**column).is_optional());
        if let Some(column) = required.filter(|_| !in_union) {
            let why = "the schema does not have it, and the column has neither NULL nor a DEFAULT";
            return Err(self.refuse(*column, why.into()));
        }
        if !missing.is_empty() {
            compiled.push(Field { name: "".into(), op: Op::Absent(missing.into()) });
        }
        Ok(compiled.into())
    }

    /// What is done with the type `id`, from which the columns of `tree` are filled.
    fn any(&self, id: TypeId, tree: &Tree, in_union: bool) -> Result<Op, ConfigError> {
        if tree.is_empty() {
            return Ok(Op::Skip(id));
        }
        if tree.children.is_empty() {
            let fills = tree.columns.iter().map(|column| self.fill(id, *column));
            let mut fills = fills.collect::<Result<Vec<_>, _>>()?;
            return Ok(match fills.len() {
                1 => fills.remove(0),
                _ => Op::Several(fills.into()),
            });
        }
        let inside = tree.children.values().flat_map(Tree::all).next().unwrap_or_default();
        match self.types.get(id) {
            Type::Record(_) => match tree.columns.first() {
                None => Ok(Op::Record(self.record(id, tree, in_union)?)),
                Some(column) => Err(self.refuse(*column, self.record_refused(*column))),
            },
            Type::Union(branches) => {
                let branch = |id: &TypeId| match self.types.get(*id) {
                    Type::Null => Ok(Op::Absent(tree.all().into())),
                    _ => self.any(*id, tree, true),
                };
                Ok(Op::Union(branches.iter().map(branch).collect::<Result<_, _>>()?))
            }
            _ => {
                let name = self.types.name(id);
                Err(self.refuse(
                    inside,
                    format!("the column is filled from inside of a record, and the schema has {name}"),
                ))
            }
        }
    }

    fn fill(&self, id: TypeId, column: usize) -> Result<Op, ConfigError> {
        let wire = self.wire(id, &self.column(column).column_type);
        Ok(Op::Fill {
            column,
            wire: wire
                .map_err(|why| self.refuse(column, why.unwrap_or_else(|| self.record_refused(column))))?,
        })
    }

    fn record_refused(&self, column: usize) -> String {
        let field = &self.column(column).field;
        format!(
            "the schema has a record, which no column takes whole; name a field in it, as in `{field}.name`"
        )
    }

    /// How a value of the type `id` is written, for a column, an item or a value of `column_type`. A refusal without words is that of a record.
    fn wire(&self, id: TypeId, column_type: &ColumnType) -> Result<Wire, Option<String>> {
        let of = |kind: Kind, wire: Wire| match takes(column_type, kind) {
            true => Ok(wire),
            false => {
                let (name, kind) = (self.types.name(id), kind.as_str());
                Err(Some(format!(
                    "the schema has {name}, and {} does not take {kind}",
                    type_word(column_type)
                )))
            }
        };
        match self.types.get(id) {
            Type::Null => Ok(Wire::Null),
            Type::Boolean => of(Kind::Bool, Wire::Boolean),
            Type::Int | Type::TimeOfDay { long: false } => of(Kind::Integer, Wire::Int),
            Type::Long | Type::TimeOfDay { long: true } => of(Kind::Integer, Wire::Long),
            Type::Float => of(Kind::Float, Wire::Float),
            Type::Double => of(Kind::Float, Wire::Double),
            Type::Bytes => of(Kind::Bytes, Wire::Bytes),
            Type::String | Type::UuidText => of(Kind::Text, Wire::Text),
            Type::Fixed(size) => of(Kind::Bytes, Wire::Fixed(*size)),
            Type::Enum(symbols) => of(Kind::Text, Wire::Enum(symbols.clone())),
            Type::Decimal { scale } => of(Kind::Decimal, Wire::Decimal { scale: *scale }),
            Type::DecimalFixed { scale, size } => {
                of(Kind::Decimal, Wire::DecimalFixed { scale: *scale, size: *size })
            }
            Type::UuidFixed => of(Kind::Uuid, Wire::UuidFixed),
            Type::Date => of(Kind::Date, Wire::Date),
            Type::Timestamp { digits } => of(Kind::Timestamp, Wire::Timestamp { digits: *digits }),
            Type::LocalTimestamp { digits } => {
                of(Kind::LocalTimestamp, Wire::LocalTimestamp { digits: *digits })
            }
            Type::Array(items) => match column_type.bare() {
                ColumnType::Array(item) => self.items(*items, item).map(|items| Wire::Array(Box::new(items))),
                _ => of(Kind::List, Wire::Null),
            },
            Type::Map(values) => match column_type.bare() {
                ColumnType::Map(key, _) if !takes(key, Kind::Text) => Err(Some(format!(
                    "the schema has a map, whose keys are text, and {} does not take text",
                    type_word(key)
                ))),
                ColumnType::Map(_, value) => {
                    self.wire(*values, value).map(|values| Wire::Map(Box::new(values)))
                }
                _ => of(Kind::Map, Wire::Null),
            },
            Type::Union(branches) => {
                let branches = branches.iter().map(|branch| self.wire(*branch, column_type));
                Ok(Wire::Union(branches.collect::<Result<_, _>>()?))
            }
            Type::Record(_) => Err(None),
        }
    }

    fn items(&self, id: TypeId, column_type: &ColumnType) -> Result<Wire, Option<String>> {
        if self.empty[id] {
            let why =
                "the schema has an array whose items have no bytes, so that nothing bounds their number";
            return Err(Some(why.into()));
        }
        self.wire(id, column_type)
    }
}
