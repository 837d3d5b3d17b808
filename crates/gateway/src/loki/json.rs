//! Loki's push in JSON: `{"streams":[{"stream":{LABELS},"values":[["NANOSECONDS","LINE",{METADATA}],…]},…]}`.
//!
//! Owns the grammar of the push, read without a tree, and what pairs of labels may take. Does not own the record (`loki`), nor the route
//! and its answers.
//!
//! Only one entry is in memory beside the body and its records, where the labels stand in front of the entries as every sender has it. Entries in front of
//! their labels are kept until those come, and what they take is held like the records.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::labels::TEXT_BYTES_MAX;
use super::write_record;
use crate::records::{Parsed, Rows};
use crate::refusal::{Kind, Refusal};

/// Memory of a pair of labels beside its texts, about.
const PAIR_BYTES: usize = 8;

/// The entries of a push as records.
///
/// # Errors
/// [`Kind::Malformed`] for what is no push, and what the records meet.
pub(super) fn entries(body: &[u8], mut rows: Rows) -> Result<Parsed, Refusal> {
    let mut refused = None;
    let mut from = serde_json::Deserializer::from_slice(body);
    let push = Push(Reading { rows: &mut rows, refused: &mut refused });
    let read = (&mut from).deserialize_map(push).and_then(|()| from.end());
    match (refused, read) {
        (Some(refusal), _) => Err(refusal),
        (None, Err(error)) => {
            Err(Refusal::new(Kind::Malformed, format!("the body is no push: {error}; nothing was stored")))
        }
        (None, Ok(())) => Ok(rows.done()),
    }
}

/// Where entries go, and why they no longer do.
struct Reading<'r> {
    rows: &'r mut Rows,
    refused: &'r mut Option<Refusal>,
}

impl Reading<'_> {
    fn again(&mut self) -> Reading<'_> {
        Reading { rows: self.rows, refused: self.refused }
    }

    /// Ends the reading with a refusal.
    fn check<E: Error>(&mut self, done: Result<(), Refusal>) -> Result<(), E> {
        done.map_err(|refusal| {
            *self.refused = Some(refusal);
            E::custom("there is no room")
        })
    }

    fn write<E: Error>(&mut self, labels: &str, entry: &Entry<'_>) -> Result<(), E> {
        let Entry { time, line, metadata } = entry;
        let written = write_record(self.rows, time, line, labels, metadata);
        self.check(written)
    }
}

/// A text, as it stands in the body if it can be.
#[derive(Deserialize)]
struct Text<'b>(#[serde(borrow)] Cow<'b, str>);

/// A line as it stands in the body if it can be. It need not be UTF-8: as a text, half of a surrogate pair in one line would refuse the whole push.
struct Line<'b>(Cow<'b, [u8]>);

impl<'de> Deserialize<'de> for Line<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_bytes(OfLine)
    }
}

struct OfLine;

impl<'de> Visitor<'de> for OfLine {
    type Value = Line<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line as a text")
    }

    fn visit_borrowed_bytes<E: Error>(self, line: &'de [u8]) -> Result<Line<'de>, E> {
        Ok(Line(Cow::Borrowed(line)))
    }

    fn visit_bytes<E: Error>(self, line: &[u8]) -> Result<Line<'de>, E> {
        Ok(Line(Cow::Owned(line.to_vec())))
    }
}

struct Push<'r>(Reading<'r>);

impl<'de> Visitor<'de> for Push<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `streams`")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "streams" => map.next_value_seed(Streams(self.0.again()))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct Streams<'r>(Reading<'r>);

impl<'de> DeserializeSeed<'de> for Streams<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Streams<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of streams")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(OneStream(self.0.again()))?.is_some() {}
        Ok(())
    }
}

/// One stream: its labels, and its entries.
struct OneStream<'r>(Reading<'r>);

impl<'de> DeserializeSeed<'de> for OneStream<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OneStream<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `stream` and `values`")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let (mut labels, mut early): (Option<String>, Vec<Entry<'de>>) = (None, Vec::new());
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "stream" if labels.is_some() => return Err(A::Error::duplicate_field("stream")),
                "stream" => labels = Some(map.next_value_seed(Pairs("labels"))?),
                "values" => {
                    let (reading, labels) = (self.0.again(), labels.as_deref());
                    map.next_value_seed(Entries { reading, labels, early: &mut early })?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let labels = labels.as_deref().unwrap_or("{}");
        early.iter().try_for_each(|entry| self.0.write(labels, entry))
    }
}

/// The entries of a stream, whose labels may not be known yet.
struct Entries<'r, 'e, 'b> {
    reading: Reading<'r>,
    labels: Option<&'e str>,
    early: &'e mut Vec<Entry<'b>>,
}

impl<'de> DeserializeSeed<'de> for Entries<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while let Some(entry) = seq.next_element_seed(OneEntry)? {
            match self.labels {
                Some(labels) => self.reading.write(labels, &entry)?,
                None => {
                    // The list may have grown to twice its length.
                    let texts = entry.time.len() + entry.line.len() + entry.metadata.len();
                    let held = self.reading.rows.keep(2 * size_of::<Entry<'_>>() + texts);
                    self.reading.check(held)?;
                    self.early.push(entry);
                }
            }
        }
        Ok(())
    }
}

/// Nanoseconds, the line, and metadata as JSON; empty without any.
struct Entry<'b> {
    time: Cow<'b, str>,
    line: Cow<'b, [u8]>,
    metadata: String,
}

struct OneEntry;

impl<'de> DeserializeSeed<'de> for OneEntry {
    type Value = Entry<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Entry<'de>, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for OneEntry {
    type Value = Entry<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry: a timestamp and a line, both texts, and perhaps an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Entry<'de>, A::Error> {
        let missing = |at| A::Error::invalid_length(at, &"a timestamp and a line");
        let Text(time) = seq.next_element()?.ok_or_else(|| missing(0))?;
        let Line(line) = seq.next_element()?.ok_or_else(|| missing(1))?;
        let metadata = seq.next_element_seed(Pairs("metadata"))?.filter(|pairs| pairs != "{}");
        if seq.next_element::<IgnoredAny>()?.is_some() {
            return Err(A::Error::custom("an entry has more than a timestamp, a line and metadata"));
        }
        let digits = time.strip_prefix('-').unwrap_or(&time);
        if digits.is_empty() || digits.len() > 19 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(A::Error::custom("a timestamp is no number of nanoseconds"));
        }
        Ok(Entry { time, line, metadata: metadata.unwrap_or_default() })
    }
}

/// Labels or metadata, as JSON again: of a name that stands twice the last value counts. A value is no list and no object, so that what one takes is
/// known from its bytes.
struct Pairs(&'static str);

impl<'de> DeserializeSeed<'de> for Pairs {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Pairs {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as an object of texts", self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
        let (mut pairs, mut bytes) = (Map::new(), 0);
        while let Some(Text(name)) = map.next_key()? {
            let value = map.next_value_seed(Scalar)?;
            bytes += name.len() + value.as_str().map_or(0, str::len) + PAIR_BYTES;
            if bytes > TEXT_BYTES_MAX {
                return Err(A::Error::custom(format!("{} longer than 64 KiB", self.0)));
            }
            pairs.insert(name.into_owned(), value);
        }
        Ok(Value::Object(pairs).to_string())
    }
}

/// A text, or what some senders write without quotes, as Loki takes it: by its letters.
struct Scalar;

impl<'de> DeserializeSeed<'de> for Scalar {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl Visitor<'_> for Scalar {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.to_string().into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.to_string().into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.to_string().into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value).to_string().into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok("null".into())
    }
}
