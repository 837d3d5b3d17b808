//! Records that name the schema they were written with: in Confluent's wire format (a zero byte, four bytes with the schema's number, the datum), or
//! without a header in a block that names the schema of all its records ([`RecordBlock::schema`]).
//!
//! Owns the header, the set of schemas by number or name and the plan that is compiled for each of them. Does not own how a schema is
//! fetched: before blocks reach the decoder, every schema that they name is put into [`Schemas`] (by the crate `registry`).
//!
//! | the header                   | the record                                                              |
//! |------------------------------|-------------------------------------------------------------------------|
//! | is too short, or begins with another byte | is `malformed`                                             |
//! | names a schema that fits     | is read by that schema                                                   |
//! | names one that the registry does not have, that is not Avro, or that a column cannot be filled from | is a reject of the reason `schema` |
//!
//! Of a block that names its schema, or none, the last two rows hold for all its records: none is one that is of no use.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, PoisonError, RwLock};

use dataflow::{RecordBlock, Schema};

use super::cursor::Cursor;
use super::datum::Rows;
use super::plan::Plan;
use super::schema::Types;
use crate::fault::{Fault, Step};

/// Bytes in front of the datum.
pub(super) const HEADER_BYTES: usize = 5;

/// Schemas that are kept. A registry has hundreds, seldom thousands.
pub const SCHEMAS_MAX: usize = 1 << 16;
/// Numbers without a usable schema that are kept, apart from the schemas: a producer with broken headers makes up any number of them.
pub const UNUSABLE_MAX: usize = 1 << 12;

/// What is known of a schema's number or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The schema's text, behind the texts that define the named types it uses.
    Texts(Arc<[String]>),
    /// There is none that a record could be read by, and why: the rest of a sentence that begins with the schema's number or name.
    Unusable(Arc<str>),
}

/// The schemas that records were written with, by number or by name. Shared between their fetcher and the decoders.
#[derive(Debug)]
pub struct Schemas<K = u32> {
    known: RwLock<Known<K>>,
}

#[derive(Debug)]
struct Known<K> {
    texts: BTreeMap<K, Arc<[String]>>,
    unusable: BTreeMap<K, Arc<str>>,
}

impl<K> Default for Schemas<K> {
    fn default() -> Self {
        Self { known: RwLock::new(Known { texts: BTreeMap::new(), unusable: BTreeMap::new() }) }
    }
}

impl<K: Ord> Schemas<K> {
    /// What is known of `id`.
    pub fn get(&self, id: &K) -> Option<Writer> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let texts = known.texts.get(id).map(|texts| Writer::Texts(texts.clone()));
        texts.or_else(|| known.unusable.get(id).map(|why| Writer::Unusable(why.clone())))
    }

    /// Whether [`UNUSABLE_MAX`] numbers without a usable schema are kept, so that no further one is.
    pub fn is_full_of_unusable(&self) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).unusable.len() >= UNUSABLE_MAX
    }

    /// Keeps what was found, and says whether it did: of numbers without a usable schema only [`UNUSABLE_MAX`] are kept. A text, once
    /// known, stays: numbers are never given twice.
    ///
    /// # Errors
    /// When [`SCHEMAS_MAX`] schemas are known already.
    pub fn put(&self, id: K, found: Writer) -> Result<bool, SchemasFull> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.texts.contains_key(&id) {
            return Ok(true);
        }
        match found {
            Writer::Texts(_) if known.texts.len() >= SCHEMAS_MAX => return Err(SchemasFull),
            Writer::Texts(texts) => {
                known.unusable.remove(&id);
                known.texts.insert(id, texts);
            }
            Writer::Unusable(_)
                if known.unusable.len() >= UNUSABLE_MAX && !known.unusable.contains_key(&id) =>
            {
                return Ok(false);
            }
            Writer::Unusable(why) => _ = known.unusable.insert(id, why),
        }
        Ok(true)
    }
}

/// No further schema is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "records were written with more than `{SCHEMAS_MAX}` different schemas, which are not held in memory; register one schema for each kind of record, not one for each record"
)]
pub struct SchemasFull;

/// The number of the schema that a record was written with; `None` if it has no such header.
#[inline]
pub fn schema_id(record: &[u8]) -> Option<u32> {
    match record {
        [0, a, b, c, d, ..] => Some(u32::from_be_bytes([*a, *b, *c, *d])),
        _ => None,
    }
}

/// Each number in a block, once a run: a topic has one or two, and they seldom change from record to record.
pub fn schema_ids(block: &RecordBlock) -> impl Iterator<Item = u32> {
    let mut from = 0;
    let mut last = None;
    block.payloads.ends.iter().filter_map(move |end| {
        let record = &block.payloads.bytes[from..*end as usize];
        from = *end as usize;
        let id = schema_id(record)?;
        (last.replace(id) != Some(id)).then_some(id)
    })
}

/// A schema, compiled for the columns.
#[derive(Debug)]
pub(super) enum Compiled {
    Plan(Plan),
    /// No record of it can be read, and why.
    Refused(String),
}

/// What the records of a block without headers are read by.
pub(super) enum OfBlock {
    /// The block names no schema.
    Nameless,
    /// The schema's name and what it was compiled to.
    Named(Arc<str>, Arc<Compiled>),
}

impl OfBlock {
    /// The plan, or why a record cannot be read.
    #[inline]
    pub fn plan(&self) -> Step<&Plan> {
        match self {
            Self::Nameless => Err(Fault::nameless(NAMELESS)),
            Self::Named(name, compiled) => match &**compiled {
                Compiled::Plan(plan) => Ok(plan),
                Compiled::Refused(why) => Err(Fault::schema(name, why)),
            },
        }
    }
}

/// The plans by number or name.
#[derive(Debug)]
pub(super) struct Plans<K = u32> {
    schemas: Arc<Schemas<K>>,
    compiled: RwLock<BTreeMap<K, Arc<Compiled>>>,
}

/// Plans of the records before: a topic may hold a few kinds of records in turn, so a few are at hand without a lock.
#[derive(Default)]
pub(super) struct Last {
    plans: Vec<(u32, Arc<Compiled>)>,
    /// The one of the record before.
    at: usize,
}

/// What to do about messages without a schema.
const NAMELESS: &str = "the message names no schema: it was produced without one; produce it with an Avro schema, or write the one that it has as \
                        `schema_file`";
/// Plans at hand.
const LAST_MAX: usize = 8;

impl Last {
    #[inline]
    fn is_at(&self, id: u32) -> bool {
        self.plans.get(self.at).is_some_and(|(known, _)| *known == id)
    }

    /// Goes to the plan of `id`; `make` makes one that is not at hand.
    #[inline(never)]
    fn go(&mut self, id: u32, make: impl FnOnce() -> Step<Arc<Compiled>>) -> Step<()> {
        if let Some(at) = self.plans.iter().position(|(known, _)| *known == id) {
            self.at = at;
            return Ok(());
        }
        let plan = (id, make()?);
        if self.plans.len() < LAST_MAX {
            self.at = self.plans.len();
            self.plans.push(plan);
        } else {
            self.at = (self.at + 1) % LAST_MAX;
            self.plans[self.at] = plan;
        }
        Ok(())
    }
}

impl Plans {
    /// Appends the record that is `bytes[start..end]`, read by the schema that it names.
    #[inline]
    pub fn push(
        &self,
        last: &mut Last,
        rows: &mut Rows<'_>,
        columns: &Schema,
        bytes: &[u8],
        (start, end): (usize, usize),
    ) -> Step<()> {
        let Some(id) = schema_id(&bytes[start..end]) else { return Err(no_header(&bytes[start..end])) };
        if !last.is_at(id) {
            last.go(id, || self.plan(&id, columns).map_err(|why| Fault::schema(&id, &why)))?;
        }
        match &*last.plans[last.at].1 {
            Compiled::Plan(plan) => {
                let mut cursor = Cursor::new(bytes, start, end);
                cursor.rewind(HEADER_BYTES);
                rows.push(plan, cursor)
            }
            Compiled::Refused(why) => Err(Fault::schema(&id, why)),
        }
    }

    /// The plan of a block whose records all name one schema; `None` for others, and for a schema that is not known.
    pub fn only(&self, block: &RecordBlock, columns: &Schema) -> Option<Arc<Compiled>> {
        let mut from = 0;
        let mut ids = block.payloads.ends.iter().map(|end| {
            let id = schema_id(&block.payloads.bytes[from..*end as usize]);
            from = *end as usize;
            id
        });
        let id = ids.next()??;
        if ids.any(|other| other != Some(id)) {
            return None;
        }
        self.plan(&id, columns).ok()
    }
}

impl Plans<Arc<str>> {
    /// The plan of all records of a block that names their schema, or why there is none.
    pub fn of_block(&self, block: &RecordBlock, columns: &Schema) -> OfBlock {
        let Some(name) = &block.schema else { return OfBlock::Nameless };
        let compiled = self.plan(name, columns);
        OfBlock::Named(
            name.clone(),
            compiled.unwrap_or_else(|why| Arc::new(Compiled::Refused(why.to_string()))),
        )
    }
}

impl<K: Ord + Clone + Display> Plans<K> {
    pub fn new(schemas: Arc<Schemas<K>>) -> Self {
        Self { schemas, compiled: RwLock::default() }
    }

    /// The plan of a schema; an error says why none is known yet.
    #[cold]
    fn plan(&self, id: &K, columns: &Schema) -> Result<Arc<Compiled>, Arc<str>> {
        if let Some(known) = self.compiled.read().unwrap_or_else(PoisonError::into_inner).get(id) {
            return Ok(known.clone());
        }
        let texts = match self.schemas.get(id) {
            Some(Writer::Texts(texts)) => texts,
            // Not kept: it may be registered later.
            Some(Writer::Unusable(why)) => return Err(why),
            None => {
                let why = "no usable schema is known for it, nor for many others: look for a producer that names schemas which nobody has registered";
                return Err(why.into());
            }
        };
        let plan = Types::read_all(&texts)
            .map_err(super::ConfigError::from)
            .and_then(|types| Plan::new(types, columns));
        let compiled = Arc::new(match plan {
            Ok(plan) => Compiled::Plan(plan),
            Err(error) => Compiled::Refused(error.to_string()),
        });
        self.compiled.write().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), compiled.clone());
        Ok(compiled)
    }
}

#[cold]
fn no_header(record: &[u8]) -> Box<Fault> {
    let what = match record {
        [] | [0, ..] => {
            format!("the record has `{}` bytes; a header alone has `{HEADER_BYTES}`", record.len())
        }
        [first, ..] => format!("the record begins with `0x{first:02x}`, and a header with `0x00`"),
    };
    Fault::bytes(0, format!("{what}; is it written without a registry (`schema_file`)?"))
}
