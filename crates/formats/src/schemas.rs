//! The schemas that records were written with, where records or blocks name them: shared by the formats whose schemas say their bytes (Avro, Protobuf).
//!
//! Owns the set of schemas by number or name, the number in front of a record (Confluent's wire format: a zero byte, then four bytes), and the
//! plans that are compiled for them (`plans`). Does not own what a schema says, nor what else stands in front of a record (each format), nor how a
//! schema is fetched: before blocks reach the decoder, every schema that they name is put into [`Schemas`] (by the crate `registry`).
//!
//! | the header                   | the record                                                              |
//! |------------------------------|-------------------------------------------------------------------------|
//! | is too short, or begins with another byte | is `malformed`                                             |
//! | names a schema that fits     | is read by that schema                                                   |
//! | names one that the registry does not have, that is of another format, or that a column cannot be filled from | is a reject of the reason `schema` |
//!
//! Of a block that names its schema, or none, the last two rows hold for all its records: none is one that is of no use.

pub(crate) mod plans;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use dataflow::RecordBlock;

use crate::fault::Fault;

/// Bytes of a header up to the end of the schema's number.
pub(crate) const ID_BYTES: usize = 5;

/// Schemas that are kept. A registry has hundreds, seldom thousands.
pub const SCHEMAS_MAX: usize = 1 << 16;
/// Numbers without a usable schema that are kept, apart from the schemas: a producer with broken headers makes up any number of them.
pub const UNUSABLE_MAX: usize = 1 << 12;

/// A text of a schema, as its registry has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaText {
    /// The name by which others refer to it; empty for the schema itself.
    pub name: String,
    /// The text.
    pub text: String,
}

impl SchemaText {
    /// The text of a schema itself.
    pub fn own(text: impl Into<String>) -> Self {
        Self { name: String::new(), text: text.into() }
    }
}

impl AsRef<str> for SchemaText {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

/// What is known of a schema's number or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The schema's text, the last, behind those that it refers to.
    Texts(Arc<[SchemaText]>),
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
    texts: BTreeMap<K, Arc<[SchemaText]>>,
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

/// The fault of a record without a header, whose shortest has so many bytes.
#[cold]
pub(crate) fn no_header(record: &[u8], header_bytes: usize) -> Box<Fault> {
    let what = match record {
        [] | [0, ..] => {
            format!("the record has `{}` bytes; a header alone has `{header_bytes}`", record.len())
        }
        [first, ..] => format!("the record begins with `0x{first:02x}`, and a header with `0x00`"),
    };
    Fault::bytes(0, format!("{what}; is it written without a registry (`schema_file`)?"))
}
