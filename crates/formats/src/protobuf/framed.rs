//! Records that name the type they were written with: in Confluent's wire format, or without a header in a block that names the schema of all its records
//! ([`RecordBlock::schema`]), as Pulsar's brokers have it.
//!
//! Owns the header and the way from what a record names to the plan that it is read by. Does not own the schemas nor when they are compiled
//! ([`crate::schemas`]), nor the types in them (`protobuf::types`).
//!
//! The header is a zero byte, four bytes with the schema's number, and the message's place in the schema, in numbers with the sign in the lowest bit and seven
//! bits a byte: how many there are, then the number of a message on the outside, of one within it, and so on. A single zero stands for the first message.
//! It says where it ends, so two records whose first bytes are the same header name the same message: only a header that differs from the one before is read.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use dataflow::{RecordBlock, Schema};
use protox::prost_reflect::MessageDescriptor;

use super::fill::Rows;
use super::plan::Plan;
use super::types::{Types, is_named};
use super::wire::Wire;
use crate::fault::{Fault, Step};
use crate::schemas::plans::{self, Compiled};
use crate::schemas::{ID_BYTES, SchemaText, Schemas, no_header, schema_id};
use crate::varint::unzigzag;

/// Bytes of the shortest header.
const HEADER_BYTES_MIN: usize = ID_BYTES + 1;
/// Messages within each other that a header may name: compilers take fewer.
const PATH_MAX: i64 = 64;
/// Bytes of a number of 64 bits.
const NUMBER_BYTES_MAX: usize = 10;

/// Plans of the records before, by their headers.
pub(super) type Last = plans::Last<Box<[u8]>, Plan>;

/// A header, and the plan of the message that it names.
type Found = (Box<[u8]>, Arc<Compiled<Plan>>);

/// The plans of records with headers.
pub(super) struct Plans {
    schemas: plans::Plans<OfSchema>,
    /// The only message whose records are taken.
    message: Option<Box<str>>,
}

/// A schema's types, and the plans of those messages that records have named.
struct OfSchema {
    types: Types,
    /// No more than the schema has messages.
    messages: RwLock<BTreeMap<Vec<u32>, Arc<Compiled<Plan>>>>,
}

/// What stands in front of a message.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    id: u32,
    path: Vec<u32>,
    bytes: usize,
}

impl Plans {
    /// Plans for records of any message, or of `message` alone.
    pub fn new(schemas: Arc<Schemas>, message: Option<&str>) -> Self {
        Self { schemas: plans::Plans::new(schemas), message: message.map(Box::from) }
    }

    /// Appends the record that is `bytes[start..end]`, read by the message that it names.
    #[inline]
    pub fn push(
        &self,
        last: &mut Last,
        rows: &mut Rows<'_>,
        columns: &Schema,
        bytes: &[u8],
        (start, end): (usize, usize),
    ) -> Step<()> {
        let record = &bytes[start..end];
        if !last.is_at(|header| record.starts_with(header)) {
            last.go(|header| record.starts_with(header), || self.find(record, columns))?;
        }
        let (header, compiled) = last.here();
        match compiled {
            Compiled::Plan(plan) => rows.push(plan, Wire::behind(bytes, start, header.len(), end)),
            Compiled::Refused(why) => Err(refused(header, why)),
        }
    }

    /// The plan of a block of numbers whose records all begin with the same header, and the bytes of that header.
    pub fn flat(&self, block: &RecordBlock, columns: &Schema) -> Option<(Arc<Compiled<Plan>>, usize)> {
        let bytes = &block.payloads.bytes[..];
        let first = &bytes[..*block.payloads.ends.first()? as usize];
        let (header, compiled) = self.find(first, columns).ok()?;
        compiled.plan()?.flat.as_ref()?;
        let mut from = 0;
        let is_same = block.payloads.ends.iter().all(|end| {
            let record = &bytes[from..*end as usize];
            from = *end as usize;
            record.starts_with(&header)
        });
        is_same.then_some((compiled, header.len()))
    }

    /// The header of a record, and the plan that it names.
    fn find(&self, record: &[u8], columns: &Schema) -> Step<Found> {
        let header = Header::read(record)?;
        let schema = self.schemas.plan(&header.id, OfSchema::new);
        let compiled = match &*schema.map_err(|why| Fault::schema(&header.id, &why))? {
            Compiled::Plan(schema) => schema.plan(&header.path, self.message.as_deref(), columns),
            Compiled::Refused(why) => Arc::new(Compiled::Refused(why.clone())),
        };
        Ok((Box::from(&record[..header.bytes]), compiled))
    }
}

impl OfSchema {
    fn new(texts: &[SchemaText]) -> Result<Self, String> {
        let types = Types::of_texts(texts).map_err(|error| error.to_string())?;
        Ok(Self { types, messages: RwLock::default() })
    }

    fn plan(&self, path: &[u32], wanted: Option<&str>, columns: &Schema) -> Arc<Compiled<Plan>> {
        if let Some(known) = self.messages.read().unwrap_or_else(PoisonError::into_inner).get(path) {
            return known.clone();
        }
        let message = match self.types.message_at(path, wanted) {
            Ok(message) => message,
            // Not kept: a producer with broken headers makes up any number of them.
            Err(error) => return Arc::new(Compiled::Refused(error.to_string())),
        };
        let compiled = Arc::new(Compiled::from(plan(&message, wanted, columns)));
        let mut messages = self.messages.write().unwrap_or_else(PoisonError::into_inner);
        messages.insert(path.to_vec(), compiled.clone());
        compiled
    }
}

/// The plan for records of the message that the schema of a block names, in the form in which Pulsar's brokers keep it.
pub(super) fn of_block(texts: &[SchemaText], wanted: Option<&str>, columns: &Schema) -> Result<Plan, String> {
    let text = texts.last().map_or("", |text| &text.text);
    let (types, name) = Types::of_broker(text).map_err(|error| error.to_string())?;
    let message = types.message(&name).map_err(|error| error.to_string())?;
    plan(&message, wanted, columns)
}

fn plan(message: &MessageDescriptor, wanted: Option<&str>, columns: &Schema) -> Result<Plan, String> {
    if let Some(wanted) = wanted.filter(|name| !is_named(message, name)) {
        let found = message.full_name();
        return Err(format!("the record is of the message `{found}`, and the pipeline reads `{wanted}`"));
    }
    Plan::new(message, columns).map_err(|error| error.to_string())
}

#[cold]
fn refused(header: &[u8], why: &str) -> Box<Fault> {
    Fault::schema(&schema_id(header).unwrap_or_default(), why)
}

impl Header {
    #[cold]
    fn read(record: &[u8]) -> Step<Self> {
        let Some(id) = schema_id(record) else { return Err(no_header(record, HEADER_BYTES_MIN)) };
        let mut at = ID_BYTES;
        let count = number(record, &mut at)?;
        let mut path = Vec::new();
        match count {
            0 => path.push(0),
            1..=PATH_MAX => {
                for _ in 0..count {
                    let before = at;
                    let place = u32::try_from(number(record, &mut at)?);
                    path.push(place.map_err(|_| broken(before, "the number of a message is none"))?);
                }
            }
            _ => return Err(broken(ID_BYTES, &format!("`{count}` numbers name no message"))),
        }
        Ok(Self { id, path, bytes: at })
    }
}

/// The number at the byte `at`, which is moved behind it.
fn number(record: &[u8], at: &mut usize) -> Step<i64> {
    let mut bits = 0;
    for shift in 0..NUMBER_BYTES_MAX {
        let Some(byte) = record.get(*at) else {
            return Err(broken(*at, "the header does not end within the record"));
        };
        *at += 1;
        // The tenth byte has one bit of 64; the others are lost, as other readers lose them.
        bits |= u64::from(byte & 0x7f) << (7 * shift);
        if byte & 0x80 == 0 {
            return Ok(unzigzag(bits));
        }
    }
    Err(broken(*at, "a number in the header does not end"))
}

fn broken(at: usize, what: &str) -> Box<Fault> {
    Fault::bytes(at, format!("{what}; is it written without a registry (`schema_file`)?"))
}
