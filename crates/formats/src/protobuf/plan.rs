//! What is done with the fields of a message.
//!
//! Owns the plan that is compiled once from a message's type and the columns, and the refusal of columns that the schema can never fill. Does not
//! own what a column makes of a single type (`protobuf::leaf`) nor the steps themselves (`protobuf::walk`, `protobuf::fill`).
//!
//! Columns take fields by name: one that is filled by `site.city` takes the field `city` of the message in the field `site`. The values of a record
//! are found in one pass, in whatever order its fields come: the last of each field in a *slot*, all pieces of a repeated one in a *list*. Then
//! each column takes its slot or list.

use dataflow::{Column, ColumnType, Schema};
use protox::prost_reflect::{Cardinality, FieldDescriptor, MessageDescriptor, Value};

use super::ConfigError;
use super::flat::Flat;
use super::leaf::{Leaf, Number, type_name};
use crate::columns::{Absence, ColumnsError, Kind, type_word};
use crate::paths::Tree;

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Varint,
    Fixed64,
    Fixed32,
    /// Behind its length.
    Sized,
}

impl Encoding {
    /// The last three bits of a field's key.
    pub fn bits(self) -> u32 {
        match self {
            Self::Varint => 0,
            Self::Fixed64 => 1,
            Self::Sized => 2,
            Self::Fixed32 => 5,
        }
    }
}

/// What is done with a record.
#[derive(Debug)]
pub(super) struct Plan {
    /// The messages that have fields with columns; the first is the record itself.
    pub messages: Vec<Message>,
    /// What fills each column.
    pub fills: Vec<Fill>,
    /// What each column gets where a record has nothing for it.
    pub absences: Vec<Absence>,
    /// How many values of single fields are kept.
    pub slots: usize,
    /// How many repeated ones.
    pub lists: usize,
    /// How many groups of fields there are of which only the last one counts.
    pub oneofs: usize,
    /// What belongs to each member of those, by [`Member::id`].
    pub members: Vec<Parts>,
    /// The short way for whole blocks, if the message is one for it.
    pub flat: Option<Flat>,
}

/// A message, of which some fields have columns.
#[derive(Debug, Default)]
pub(super) struct Message {
    fields: Vec<Field>,
    /// For field numbers below [`DIRECT`] the place in `fields`, and one; 0 for none.
    direct: Vec<u16>,
}

/// Field numbers whose fields are found without a search.
const DIRECT: u32 = 256;

impl Message {
    fn new(mut fields: Vec<Field>) -> Self {
        fields.sort_by_key(|field| field.number);
        let last = fields.iter().map(|field| field.number).filter(|number| *number < DIRECT).max();
        let mut direct = vec![0; last.map_or(0, |last| last as usize + 1)];
        for (at, field) in fields.iter().enumerate() {
            if let Some(place) = direct.get_mut(field.number as usize) {
                // No more than `DIRECT` of them.
                *place = at as u16 + 1;
            }
        }
        Self { fields, direct }
    }

    /// The field of a number, if it is of any concern.
    #[inline(always)]
    pub fn field(&self, number: u32) -> Option<&Field> {
        match self.direct.get(number as usize) {
            Some(0) => None,
            Some(place) => self.fields.get(usize::from(*place) - 1),
            None if number < DIRECT => None,
            None => self.far(number),
        }
    }

    #[cold]
    fn far(&self, number: u32) -> Option<&Field> {
        let at = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        self.fields.get(at)
    }
}

/// A field that is of concern.
#[derive(Debug)]
pub(super) struct Field {
    pub number: u32,
    pub name: Box<str>,
    pub read: Read,
    /// Set if only the last of several fields counts.
    pub member: Option<Member>,
}

impl Field {
    fn new(field: &FieldDescriptor, read: Read, member: Option<Member>) -> Self {
        Self { number: field.number(), name: field.name().into(), read, member }
    }
}

/// One of the fields of a `oneof`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub oneof: usize,
    pub id: usize,
}

/// Where a field's value goes.
#[derive(Debug)]
pub(super) enum Read {
    Varint {
        slot: usize,
    },
    Fixed64 {
        slot: usize,
    },
    Fixed32 {
        slot: usize,
    },
    Sized {
        slot: usize,
    },
    /// Numbers, several in a value or one.
    Packed {
        list: usize,
        encoding: Encoding,
    },
    /// Values with a length, each to a list; and messages, whose fields are of concern.
    Pieces {
        list: Option<usize>,
        message: Option<usize>,
    },
    /// Nowhere: it counts as a member of its `oneof` alone.
    Skip,
}

/// Slots, lists and messages that belong together.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub slots: Vec<usize>,
    pub lists: Vec<usize>,
    pub messages: Vec<usize>,
}

/// What fills a column.
#[derive(Debug)]
pub(super) enum Fill {
    /// Nothing: the schema does not have the field.
    Absent,
    /// The value of a field.
    One { slot: usize, leaf: Leaf, presence: Presence },
    /// The message that pieces make together.
    Message { list: usize, leaf: Leaf },
    /// Each item of a list.
    List { list: usize, leaf: Leaf },
    /// Each entry of a list of them.
    Map { list: usize, key: Leaf, value: Leaf },
}

/// What it means that a field was not sent.
#[derive(Debug)]
pub(super) struct Presence {
    pub rule: PresenceRule,
    /// The message that it belongs to, unless that is the record.
    pub parent: Option<usize>,
    /// The value that it has where nothing else is said.
    pub default: Default,
}

/// Whether a field that was not sent differs from one that has its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PresenceRule {
    /// No: it was not sent because it has its default.
    Implicit,
    /// Yes.
    Explicit,
    /// It is always sent.
    Required,
}

/// A field's value where none was sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Default {
    /// A number, as it would be sent.
    Bits(u64),
    /// A text or bytes.
    Bytes(Box<[u8]>),
}

impl Plan {
    /// The plan for records of the type `message` into the columns of `schema`.
    pub fn new(message: &MessageDescriptor, schema: &Schema) -> Result<Self, ConfigError> {
        let tree = Tree::of(schema).map_err(|(column, why)| ColumnsError::Type { column, why })?;
        let fills = schema.columns().iter().map(|_| Fill::Absent).collect();
        let absences = schema.columns().iter().map(Absence::of).collect();
        let plan = Self {
            messages: Vec::new(),
            fills,
            absences,
            slots: 0,
            lists: 0,
            oneofs: 0,
            members: Vec::new(),
            flat: None,
        };
        let mut compiler = Compiler { schema, plan };
        compiler.message(message, &tree)?;
        let mut plan = compiler.plan;
        plan.flat = Flat::of(&plan);
        Ok(plan)
    }
}

struct Compiler<'a> {
    schema: &'a Schema,
    plan: Plan,
}

impl Compiler<'_> {
    fn column(&self, column: usize) -> &Column {
        &self.schema.columns()[column]
    }

    fn refuse(&self, column: usize, why: String) -> ConfigError {
        let column = self.column(column);
        ConfigError::Field { field: column.field.clone(), column: column.name.clone(), why }
    }

    /// The place of a message of which the columns below `tree` take fields. The first one is the record.
    fn message(&mut self, message: &MessageDescriptor, tree: &Tree) -> Result<usize, ConfigError> {
        let place = self.plan.messages.len();
        // The record is always there, so that it is nobody's parent.
        let parent = (place > 0).then_some(place);
        self.plan.messages.push(Message::default());
        let mut asked = Vec::new();
        for (name, child) in &tree.children {
            match message.get_field_by_name(name) {
                Some(field) => asked.push((field, child)),
                None => self.missing(child)?,
            }
        }
        let mut fields: Vec<Field> = Vec::new();
        for oneof in message.oneofs().filter(|oneof| !oneof.is_synthetic()) {
            if !asked.iter().any(|(field, _)| oneof.fields().any(|member| member == *field)) {
                continue;
            }
            for field in oneof.fields() {
                let member = Member { oneof: self.plan.oneofs, id: self.plan.members.len() };
                self.plan.members.push(Parts::default());
                let (slots, lists, messages) = (self.plan.slots, self.plan.lists, self.plan.messages.len());
                let read = match asked.iter().find(|(asked, _)| *asked == field) {
                    Some((_, child)) => self.field(&field, child, parent)?,
                    None => Read::Skip,
                };
                self.plan.members[member.id] = Parts {
                    slots: (slots..self.plan.slots).collect(),
                    lists: (lists..self.plan.lists).collect(),
                    messages: (messages..self.plan.messages.len()).collect(),
                };
                fields.push(Field::new(&field, read, Some(member)));
            }
            self.plan.oneofs += 1;
        }
        for (field, child) in asked {
            if !fields.iter().any(|other| other.number == field.number()) {
                let read = self.field(&field, child, parent)?;
                fields.push(Field::new(&field, read, None));
            }
        }
        self.plan.messages[place] = Message::new(fields);
        Ok(place)
    }

    /// The columns of `tree` have no field: they stay absent, as all are at first.
    fn missing(&self, tree: &Tree) -> Result<(), ConfigError> {
        match tree.all().into_iter().find(|column| !self.column(*column).is_optional()) {
            None => Ok(()),
            Some(column) => {
                let why = "the schema does not have it, and the column has neither NULL nor a DEFAULT";
                Err(self.refuse(column, why.into()))
            }
        }
    }

    /// Where the value of a field goes that the columns of `tree` take; `parent` is the message that it belongs to.
    fn field(
        &mut self,
        field: &FieldDescriptor,
        tree: &Tree,
        parent: Option<usize>,
    ) -> Result<Read, ConfigError> {
        let found = field.kind().as_message().cloned();
        let is_single = !field.is_list() && !field.is_map();
        let message = match (&found, tree.children.is_empty()) {
            (_, true) => None,
            (Some(found), false) if is_single && !field.is_group() => Some(self.message(found, tree)?),
            (_, false) => {
                let inside = tree.children.values().flat_map(Tree::all).next().unwrap_or_default();
                let found = whole_name(field);
                let why =
                    format!("the column is filled from inside of a message, and the schema has {found}");
                return Err(self.refuse(inside, why));
            }
        };
        if tree.columns.is_empty() {
            return Ok(Read::Pieces { list: None, message });
        }
        if is_single && found.is_none() {
            return self.one(field, &tree.columns, parent);
        }
        let list = self.plan.lists;
        self.plan.lists += 1;
        let mut encoding = Encoding::Sized;
        for column in &tree.columns {
            let fill = self.listed(field, list, &self.column(*column).column_type);
            let fill = fill.map_err(|why| self.refuse(*column, why))?;
            if let Fill::List { leaf, .. } = &fill {
                encoding = leaf.encoding();
            }
            self.plan.fills[*column] = fill;
        }
        Ok(match encoding {
            Encoding::Sized => Read::Pieces { list: Some(list), message },
            encoding => Read::Packed { list, encoding },
        })
    }

    /// A field with one value that is no message.
    fn one(
        &mut self,
        field: &FieldDescriptor,
        columns: &[usize],
        parent: Option<usize>,
    ) -> Result<Read, ConfigError> {
        let slot = self.plan.slots;
        self.plan.slots += 1;
        let mut encoding = Encoding::Sized;
        for column in columns {
            let leaf = Leaf::of(field, &self.column(*column).column_type);
            let leaf = leaf.map_err(|why| self.refuse(*column, why))?;
            encoding = leaf.encoding();
            let rule = match (field.cardinality(), field.supports_presence()) {
                (Cardinality::Required, _) => PresenceRule::Required,
                (_, true) => PresenceRule::Explicit,
                (_, false) => PresenceRule::Implicit,
            };
            let presence = Presence { rule, parent, default: default_of(field, &leaf) };
            self.plan.fills[*column] = Fill::One { slot, leaf, presence };
        }
        Ok(match encoding {
            Encoding::Varint => Read::Varint { slot },
            Encoding::Fixed64 => Read::Fixed64 { slot },
            Encoding::Fixed32 => Read::Fixed32 { slot },
            Encoding::Sized => Read::Sized { slot },
        })
    }

    /// What a column of this type makes of the pieces of a message, or of those of a repeated field.
    fn listed(&self, field: &FieldDescriptor, list: usize, column_type: &ColumnType) -> Result<Fill, String> {
        let refused = |kind: Kind| {
            let (name, word) = (whole_name(field), type_word(column_type));
            format!("the schema has {name}, and {word} does not take {}", kind.as_str())
        };
        match (field.kind().as_message(), column_type.bare()) {
            (Some(entry), ColumnType::Map(key, value)) if field.is_map() => Ok(Fill::Map {
                list,
                key: Leaf::of(&entry.map_entry_key_field(), key)?,
                value: Leaf::of(&entry.map_entry_value_field(), value)?,
            }),
            _ if field.is_map() => Err(refused(Kind::Map)),
            (_, ColumnType::Array(item)) if field.is_list() => {
                Ok(Fill::List { list, leaf: Leaf::of(field, item)? })
            }
            _ if field.is_list() => Err(refused(Kind::List)),
            _ => Ok(Fill::Message { list, leaf: Leaf::of(field, column_type)? }),
        }
    }
}

/// A field's type in messages.
fn whole_name(field: &FieldDescriptor) -> String {
    match field.kind().as_message() {
        Some(entry) if field.is_map() => {
            let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
            format!("map<{}, {}>", type_name(&key), type_name(&value))
        }
        _ if field.is_list() => format!("repeated {}", type_name(field)),
        _ => type_name(field),
    }
}

/// The value of a field that was not sent.
fn default_of(field: &FieldDescriptor, leaf: &Leaf) -> Default {
    let is_zigzag = matches!(leaf, Leaf::Number(Number::Zigzag32 | Number::Zigzag64, _));
    let signed = |value: i64| match is_zigzag {
        true => (value << 1 ^ value >> 63) as u64,
        false => value as u64,
    };
    Default::Bits(match field.default_value() {
        Value::Bool(value) => value.into(),
        Value::I32(value) => signed(value.into()),
        Value::I64(value) => signed(value),
        Value::EnumNumber(value) => signed(value.into()),
        Value::U32(value) => value.into(),
        Value::U64(value) => value,
        Value::F32(value) => value.to_bits().into(),
        Value::F64(value) => value.to_bits(),
        Value::String(text) => return Default::Bytes(text.into_bytes().into()),
        Value::Bytes(bytes) => return Default::Bytes(bytes.to_vec().into()),
        // No field with one value has one of those.
        Value::Message(_) | Value::List(_) | Value::Map(_) => 0,
    })
}
