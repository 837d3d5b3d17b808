//! A writer's schema, read from its JSON.
//!
//! Owns the types of Avro 1.12 and the resolution of names. Does not own what a column makes of them ([`super::plan`]).
//!
//! Read here and not by `apache-avro`, which brings a dozen more packages and procedural macros, of which nothing but the parser would be
//! used.
//!
//! - As the specification has it, a logical type that is not known, or does not belong to its type, is as if it were not there.
//! - `doc`, `default`, `aliases`, `order` and all other attributes say nothing about a record's bytes and are ignored.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

/// Bytes of a schema's text; the registries' own bound is the same.
pub const SCHEMA_BYTES_MAX: usize = 1 << 20;
/// Types inside each other in the text, named ones counted where they are defined.
const DEPTH_MAX: usize = 64;

/// Where a type stands in [`Types`].
pub(super) type TypeId = usize;

/// All types of a schema. Named types may hold themselves, so types point at each other by place.
#[derive(Debug)]
pub(super) struct Types {
    list: Vec<Type>,
    root: TypeId,
}

/// A schema by which values can be stepped over.
#[derive(Debug)]
pub(super) struct Shape {
    /// The writer's types.
    pub types: Types,
    /// Which of them have no bytes.
    pub empty: Vec<bool>,
}

impl Shape {
    /// The shape of values of these types.
    pub fn of(types: Types) -> Self {
        Self { empty: types.empty(), types }
    }
}

/// One type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    /// The symbols, in order.
    Enum(Arc<[Box<str>]>),
    Array(TypeId),
    Map(TypeId),
    Union(Vec<TypeId>),
    /// Fields, in order.
    Record(Vec<(Box<str>, TypeId)>),
    /// An unscaled number in `bytes`.
    Decimal {
        scale: u32,
    },
    /// An unscaled number in a `fixed` of this many bytes.
    DecimalFixed {
        scale: u32,
        size: usize,
    },
    /// A UUID as a `string`.
    UuidText,
    /// A UUID in a `fixed` of 16 bytes.
    UuidFixed,
    /// Days since 1970 in an `int`.
    Date,
    /// A time of day in an `int` or `long`.
    TimeOfDay {
        long: bool,
    },
    /// An instant in a `long`, by its digits after the second.
    Timestamp {
        digits: u8,
    },
    /// The same without a zone.
    LocalTimestamp {
        digits: u8,
    },
}

/// A schema that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the schema is not a valid Avro schema: {place}{why}")]
pub struct SchemaError {
    /// The record's field, with a colon, or nothing.
    place: String,
    /// What is wrong.
    why: String,
}

impl SchemaError {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self { place: String::new(), why: why.into() }
    }

    pub(super) fn within(mut self, field: &str) -> Self {
        self.place = match self.place.strip_prefix("field `") {
            Some(inner) => format!("field `{field}.{inner}"),
            None => format!("field `{field}`: "),
        };
        self
    }
}

impl Types {
    /// Reads a schema's text.
    pub fn read(text: &str) -> Result<Self, SchemaError> {
        Self::read_all(&[text])
    }

    /// Reads the last of `texts`, which may use the named types that those before it define. All of them together have at most
    /// [`SCHEMA_BYTES_MAX`] bytes.
    pub fn read_all<S: AsRef<str>>(texts: &[S]) -> Result<Self, SchemaError> {
        if texts.iter().map(|text| text.as_ref().len()).sum::<usize>() > SCHEMA_BYTES_MAX {
            return Err(SchemaError::new(format!("it is longer than `{SCHEMA_BYTES_MAX}` bytes")));
        }
        let mut reader = Reader { list: Vec::new(), names: HashMap::new() };
        let mut root = None;
        for text in texts {
            let json: Value =
                serde_json::from_str(text.as_ref()).map_err(|error| SchemaError::new(error.to_string()))?;
            root = Some(reader.any(&json, "", 0)?);
        }
        let root = root.ok_or_else(|| SchemaError::new("there is no text"))?;
        Ok(Self { list: reader.list, root })
    }

    /// The type of a whole record.
    pub fn root(&self) -> TypeId {
        self.root
    }

    /// The type at a place.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.list[id]
    }

    /// The number of types.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether each type's values have no bytes at all, so that their number is bounded by nothing.
    pub fn empty(&self) -> Vec<bool> {
        // Assumed of all, until something in it has bytes; a record within itself alone never ends, and stays empty. Each field is looked at once: schemas
        // come from senders too.
        let mut empty = vec![true; self.list.len()];
        let mut records_of = vec![Vec::new(); self.list.len()];
        let mut with_bytes = Vec::new();
        for (id, found) in self.list.iter().enumerate() {
            match found {
                Type::Null | Type::Fixed(0) | Type::DecimalFixed { size: 0, .. } => {}
                Type::Record(fields) => fields.iter().for_each(|(_, field)| records_of[*field].push(id)),
                _ => with_bytes.push(id),
            }
        }
        while let Some(id) = with_bytes.pop() {
            if std::mem::replace(&mut empty[id], false) {
                with_bytes.extend_from_slice(&records_of[id]);
            }
        }
        empty
    }

    /// Whether each type has a value at all. A record that holds itself has none, unless a union, array or map lets it end.
    pub fn has_value(&self) -> Vec<bool> {
        // Assumed of none, until all fields of a record, or one branch of a union, have one. Each field is looked at once: schemas come from senders too.
        let mut has_value = vec![false; self.list.len()];
        let mut missing = vec![0_usize; self.list.len()];
        let mut users_of = vec![Vec::new(); self.list.len()];
        let mut found = Vec::new();
        for (id, of) in self.list.iter().enumerate() {
            match of {
                Type::Record(fields) if !fields.is_empty() => {
                    missing[id] = fields.len();
                    fields.iter().for_each(|(_, field)| users_of[*field].push(id));
                }
                Type::Union(branches) => {
                    missing[id] = 1;
                    branches.iter().for_each(|branch| users_of[*branch].push(id));
                }
                _ => found.push(id),
            }
        }
        while let Some(id) = found.pop() {
            if std::mem::replace(&mut has_value[id], true) {
                continue;
            }
            for user in &users_of[id] {
                missing[*user] = missing[*user].saturating_sub(1);
                if missing[*user] == 0 {
                    found.push(*user);
                }
            }
        }
        has_value
    }

    /// The type's name in messages.
    pub fn name(&self, id: TypeId) -> String {
        match self.get(id) {
            Type::Null => "null".into(),
            Type::Boolean => "boolean".into(),
            Type::Int => "int".into(),
            Type::Long => "long".into(),
            Type::Float => "float".into(),
            Type::Double => "double".into(),
            Type::Bytes => "bytes".into(),
            Type::String => "string".into(),
            Type::Fixed(size) => format!("fixed({size})"),
            Type::Enum(_) => "enum".into(),
            Type::Array(_) => "array".into(),
            Type::Map(_) => "map".into(),
            Type::Union(branches) => {
                let names: Vec<_> = branches.iter().map(|branch| self.branch_name(*branch)).collect();
                format!("union of {}", names.join(", "))
            }
            Type::Record(_) => "record".into(),
            Type::Decimal { .. } | Type::DecimalFixed { .. } => "decimal".into(),
            Type::UuidText | Type::UuidFixed => "uuid".into(),
            Type::Date => "date".into(),
            Type::TimeOfDay { long } => if *long { "time-micros" } else { "time-millis" }.into(),
            Type::Timestamp { digits } => format!("timestamp-{}", unit(*digits)),
            Type::LocalTimestamp { digits } => format!("local-timestamp-{}", unit(*digits)),
        }
    }

    /// The same without looking into unions, which do not hold each other.
    fn branch_name(&self, id: TypeId) -> String {
        match self.get(id) {
            Type::Union(_) => "union".into(),
            _ => self.name(id),
        }
    }
}

fn unit(digits: u8) -> &'static str {
    match digits {
        3 => "millis",
        6 => "micros",
        _ => "nanos",
    }
}

struct Reader {
    list: Vec<Type>,
    names: HashMap<String, TypeId>,
}

impl Reader {
    fn add(&mut self, found: Type) -> TypeId {
        self.list.push(found);
        self.list.len() - 1
    }

    fn any(&mut self, json: &Value, namespace: &str, depth: usize) -> Result<TypeId, SchemaError> {
        if depth > DEPTH_MAX {
            return Err(SchemaError::new(format!("types may nest `{DEPTH_MAX}` deep at the most")));
        }
        match json {
            Value::String(name) => self.named(name, namespace),
            Value::Array(branches) => self.union(branches, namespace, depth),
            Value::Object(object) => self.object(object, namespace, depth),
            _ => Err(SchemaError::new("a type is a name, an object or an array")),
        }
    }

    fn named(&mut self, name: &str, namespace: &str) -> Result<TypeId, SchemaError> {
        if let Some(primitive) = primitive(name) {
            return Ok(self.add(primitive));
        }
        let found = self.names.get(&full_name(name, namespace)).or_else(|| self.names.get(name));
        found
            .copied()
            .ok_or_else(|| SchemaError::new(format!("the type `{name}` is not defined before its use")))
    }

    fn union(&mut self, branches: &[Value], namespace: &str, depth: usize) -> Result<TypeId, SchemaError> {
        if branches.is_empty() {
            return Err(SchemaError::new("a union has at least one branch"));
        }
        if branches.iter().any(Value::is_array) {
            return Err(SchemaError::new("a union does not hold a union"));
        }
        let branches = branches.iter().map(|branch| self.any(branch, namespace, depth + 1));
        let branches: Vec<TypeId> = branches.collect::<Result<_, _>>()?;
        // A plan has work for each branch, so a short text that names a large type again and again would take much memory.
        let mut once = BTreeSet::new();
        if !branches.iter().all(|branch| once.insert(*branch)) {
            return Err(SchemaError::new("a union has the same type twice"));
        }
        Ok(self.add(Type::Union(branches)))
    }

    fn object(
        &mut self,
        json: &Map<String, Value>,
        namespace: &str,
        depth: usize,
    ) -> Result<TypeId, SchemaError> {
        let Some(kind) = json.get("type") else { return Err(SchemaError::new("a type has no `type`")) };
        let Value::String(kind) = kind else {
            // `{"type": {"type": "string"}}`: as some generators write it.
            return self.any(kind, namespace, depth + 1);
        };
        match kind.as_str() {
            "record" | "error" => self.record(json, namespace, depth),
            "enum" => {
                let symbols = list(json, "symbols")?.iter().map(|symbol| symbol.as_str().map(Box::from));
                let symbols: Option<Arc<[Box<str>]>> = symbols.collect();
                let symbols =
                    symbols.ok_or_else(|| SchemaError::new("the `symbols` of an enum are names"))?;
                let (name, _) = definition(json, namespace)?;
                self.define(name, Type::Enum(symbols))
            }
            "fixed" => {
                let size =
                    json.get("size").and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
                let size = size.filter(|size| *size <= i32::MAX as usize);
                let size = size.ok_or_else(|| SchemaError::new("a fixed has a `size` in bytes"))?;
                let (name, _) = definition(json, namespace)?;
                self.define(name, logical_fixed(json, size))
            }
            "array" => {
                let items = json.get("items").ok_or_else(|| SchemaError::new("an array has `items`"))?;
                let items = self.any(items, namespace, depth + 1)?;
                Ok(self.add(Type::Array(items)))
            }
            "map" => {
                let values = json.get("values").ok_or_else(|| SchemaError::new("a map has `values`"))?;
                let values = self.any(values, namespace, depth + 1)?;
                Ok(self.add(Type::Map(values)))
            }
            name => match primitive(name) {
                Some(primitive) => Ok(self.add(logical(json, primitive))),
                None => self.named(name, namespace),
            },
        }
    }

    fn record(
        &mut self,
        json: &Map<String, Value>,
        namespace: &str,
        depth: usize,
    ) -> Result<TypeId, SchemaError> {
        let (name, namespace) = definition(json, namespace)?;
        // Known before its fields are, which may name it.
        let id = self.define(name, Type::Record(Vec::new()))?;
        let mut fields: Vec<(Box<str>, TypeId)> = Vec::new();
        let mut names = HashSet::new();
        for field in list(json, "fields")? {
            let name = field.get("name").and_then(Value::as_str);
            let name = name.ok_or_else(|| SchemaError::new("a field of a record has a `name`"))?;
            if !names.insert(name) {
                return Err(SchemaError::new("the record has it twice").within(name));
            }
            let json = field.get("type").ok_or_else(|| SchemaError::new("it has no `type`").within(name))?;
            // A logical type beside the name of a type, where it has no effect, is a common mistake; so it has none here either.
            let found = self.any(json, &namespace, depth + 1).map_err(|error| error.within(name))?;
            fields.push((name.into(), found));
        }
        self.list[id] = Type::Record(fields);
        Ok(id)
    }

    fn define(&mut self, name: String, found: Type) -> Result<TypeId, SchemaError> {
        if self.names.contains_key(&name) {
            return Err(SchemaError::new(format!("the type `{name}` is defined twice")));
        }
        let id = self.add(found);
        self.names.insert(name, id);
        Ok(id)
    }
}

fn list<'a>(json: &'a Map<String, Value>, name: &str) -> Result<&'a [Value], SchemaError> {
    let list = json.get(name).and_then(Value::as_array).map(Vec::as_slice);
    list.ok_or_else(|| SchemaError::new(format!("`{name}` is missing, or no array")))
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() { name.into() } else { format!("{namespace}.{name}") }
}

/// The full name of the type that an object defines, and the namespace of what is inside of it.
fn definition(json: &Map<String, Value>, outer: &str) -> Result<(String, String), SchemaError> {
    let name = json.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| SchemaError::new("a record, enum or fixed has a `name`"))?;
    let namespace = json.get("namespace").and_then(Value::as_str).unwrap_or(outer);
    let full = full_name(name, namespace);
    let namespace = full.rsplit_once('.').map_or("", |(namespace, _)| namespace).to_owned();
    Ok((full, namespace))
}

fn primitive(name: &str) -> Option<Type> {
    Some(match name {
        "null" => Type::Null,
        "boolean" => Type::Boolean,
        "int" => Type::Int,
        "long" => Type::Long,
        "float" => Type::Float,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "string" => Type::String,
        _ => return None,
    })
}

/// A primitive type with the logical type beside it, if that belongs to it.
fn logical(json: &Map<String, Value>, primitive: Type) -> Type {
    let Some(logical) = json.get("logicalType").and_then(Value::as_str) else { return primitive };
    match (&primitive, logical) {
        (Type::Bytes, "decimal") => scale(json).map_or(primitive, |scale| Type::Decimal { scale }),
        (Type::String, "uuid") => Type::UuidText,
        (Type::Int, "date") => Type::Date,
        (Type::Int, "time-millis") => Type::TimeOfDay { long: false },
        (Type::Long, "time-micros") => Type::TimeOfDay { long: true },
        (Type::Long, "timestamp-millis") => Type::Timestamp { digits: 3 },
        (Type::Long, "timestamp-micros") => Type::Timestamp { digits: 6 },
        (Type::Long, "timestamp-nanos") => Type::Timestamp { digits: 9 },
        (Type::Long, "local-timestamp-millis") => Type::LocalTimestamp { digits: 3 },
        (Type::Long, "local-timestamp-micros") => Type::LocalTimestamp { digits: 6 },
        (Type::Long, "local-timestamp-nanos") => Type::LocalTimestamp { digits: 9 },
        _ => primitive,
    }
}

fn logical_fixed(json: &Map<String, Value>, size: usize) -> Type {
    match json.get("logicalType").and_then(Value::as_str) {
        Some("uuid") if size == 16 => Type::UuidFixed,
        Some("decimal") => scale(json).map_or(Type::Fixed(size), |scale| Type::DecimalFixed { scale, size }),
        _ => Type::Fixed(size),
    }
}

/// The scale of a decimal that is one: it has digits, and no more of them behind the point.
fn scale(json: &Map<String, Value>) -> Option<u32> {
    let precision = json.get("precision").and_then(Value::as_u64).filter(|precision| *precision > 0)?;
    let scale = match json.get("scale") {
        None => 0,
        Some(scale) => scale.as_u64()?,
    };
    u32::try_from(scale).ok().filter(|_| scale <= precision)
}

#[cfg(test)]
mod tests;
