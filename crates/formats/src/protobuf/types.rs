//! The types that messages are described by, from a descriptor set or from the text of `.proto` files.
//!
//! Owns what is taken as a description, its bounds and what is said of one that cannot be used. Does not own what a column makes of a field
//! (`protobuf::leaf`), nor where texts and bytes come from.
//!
//! Texts are compiled by `protox`, so no `protoc` is needed; the types of `google/protobuf/*.proto` are there without a file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use protox::prost_reflect::{DescriptorPool, MessageDescriptor};
use serde_json::Value;

use crate::schemas::SchemaText;
use crate::shown::shorten;

/// Bytes of a descriptor set, or of all texts together. A company's whole set has a few megabytes.
pub const DESCRIPTORS_BYTES_MAX: usize = 16 << 20;
/// Files that are opened for one; each is opened once.
const FILES_MAX: usize = 1_024;
/// Brackets inside each other in a text: options are read by recursion.
const BRACKETS_MAX: usize = 64;
/// What a schema's own text is called in messages, where a registry gives it no name.
const OWN: &str = "schema.proto";
/// Names that a message about a missing one shows.
const NAMES_SHOWN: usize = 8;

/// Types that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TypesError(String);

/// The types of a schema.
#[derive(Clone, Debug)]
pub struct Types {
    pub(super) pool: DescriptorPool,
    /// The file whose messages are meant where nobody names one.
    root: Option<String>,
}

/// Opens a file by the name that an import gives it; `None` if there is none of it.
pub type Open<'a> = dyn Fn(&str) -> std::io::Result<Option<String>> + Send + Sync + 'a;

impl Types {
    /// Those of a `FileDescriptorSet`, as `protoc --descriptor_set_out` writes it.
    ///
    /// # Errors
    /// When it is none, or types that it uses are not in it.
    pub fn of_set(bytes: &[u8]) -> Result<Self, TypesError> {
        if bytes.len() > DESCRIPTORS_BYTES_MAX {
            return Err(too_long());
        }
        let pool = pool(bytes).map_err(|TypesError(why)| {
            TypesError(format!("{why}; write it with `protoc --include_imports --descriptor_set_out=FILE`"))
        })?;
        Ok(Self { pool, root: None })
    }

    /// Those of a schema that Pulsar's brokers keep as `PROTOBUF_NATIVE`, and the name of the message that records are: JSON with a descriptor set in base64.
    ///
    /// # Errors
    /// When it is none, or types that it uses are not in it.
    pub fn of_broker(text: &str) -> Result<(Self, String), TypesError> {
        // In base64 every three bytes are four.
        if text.len() > DESCRIPTORS_BYTES_MAX / 3 * 4 {
            return Err(too_long());
        }
        let none = |why: String| TypesError(format!("the brokers' schema is none of Protobuf: {why}"));
        let json: Value = serde_json::from_str(text).map_err(|error| none(error.to_string()))?;
        let of = |key: &str| {
            json.get(key).and_then(Value::as_str).ok_or_else(|| none(format!("it has no text `{key}`")))
        };
        let (set, message) = (of("fileDescriptorSet")?, of("rootMessageTypeName")?);
        let set = STANDARD.decode(set).map_err(|error| none(format!("`fileDescriptorSet`: {error}")))?;
        Ok((Self { pool: pool(&set)?, root: None }, message.to_owned()))
    }

    /// Those of the last of `texts`, which may import the others by their names, and what serializers take to be known.
    ///
    /// # Errors
    /// As [`of_text`](Self::of_text), and when one name stands for two texts.
    pub fn of_texts(texts: &[SchemaText]) -> Result<Self, TypesError> {
        let Some((own, others)) = texts.split_last() else {
            return Err(TypesError("there is no text".into()));
        };
        let mut named = BTreeMap::new();
        for SchemaText { name, text } in others {
            if named.insert(name.clone(), text.clone()).is_some_and(|before| before != *text) {
                let name = shorten(name.as_bytes());
                return Err(TypesError(format!("it refers to two different schemas as `{name}`")));
            }
        }
        for (name, text) in known() {
            named.entry(name.to_owned()).or_insert(text);
        }
        let mut root = OWN.to_owned();
        while named.contains_key(&root) {
            root.insert(0, '_');
        }
        named.insert(root.clone(), own.text.clone());
        Self::of_text(&root, Arc::new(move |name| Ok(named.get(name).cloned())))
    }

    /// Those of the text that `open` gives for `root`, with everything that it imports.
    ///
    /// # Errors
    /// When a text is missing or has a mistake; it is named with line and column.
    pub fn of_text(root: &str, open: Arc<Open<'static>>) -> Result<Self, TypesError> {
        let said = Arc::new(Mutex::new(None));
        let mut chain = ChainFileResolver::new();
        chain.add(Texts { open, bytes: AtomicUsize::new(0), files: AtomicUsize::new(0), said: said.clone() });
        chain.add(GoogleFileResolver::new());
        let mut compiler = protox::Compiler::with_file_resolver(Named(chain));
        compiler.include_imports(true);
        if let Err(error) = compiler.open_file(root) {
            let said = said.lock().unwrap_or_else(PoisonError::into_inner).take();
            // The form for debugging is the one with file, line and column.
            return Err(TypesError(said.unwrap_or_else(|| format!("{error:?}"))));
        }
        Ok(Self { pool: compiler.descriptor_pool(), root: Some(root.to_owned()) })
    }

    /// The message of this name, with its package.
    ///
    /// # Errors
    /// When there is none, with the names that there are.
    pub fn message(&self, name: &str) -> Result<MessageDescriptor, TypesError> {
        let name = name.strip_prefix('.').unwrap_or(name);
        self.pool.get_message_by_name(name).filter(|message| !message.is_map_entry()).ok_or_else(|| {
            let names = self.pool.all_messages().filter(|message| !message.is_map_entry());
            let names = names.map(|message| message.full_name().to_owned());
            let names: BTreeSet<String> =
                names.filter(|name| !name.starts_with("google.protobuf.")).collect();
            let shown: Vec<_> = names.iter().take(NAMES_SHOWN).map(|name| format!("`{name}`")).collect();
            let more = if names.len() > NAMES_SHOWN { ", …" } else { "" };
            TypesError(format!("no message `{name}`; there are {}{more}", shown.join(", ")))
        })
    }

    /// The message at `path` in the schema's own file: the number of one on the outside, then of one within it, and so on.
    ///
    /// The entries of a map are messages of the descriptor, too. The serializer for Java leaves them out when it counts, others do not, so that a number may
    /// stand for two messages where a map comes before them; then it is the one of the name `wanted`.
    ///
    /// # Errors
    /// When there is none, or there are two of which none is wanted.
    pub fn message_at(&self, path: &[u32], wanted: Option<&str>) -> Result<MessageDescriptor, TypesError> {
        let counted = self.counted(path, |_| true).filter(|message| !message.is_map_entry());
        match (counted, self.counted(path, |message| !message.is_map_entry())) {
            (Some(one), Some(other)) if one != other => {
                let is_wanted =
                    |message: &MessageDescriptor| wanted.is_some_and(|name| is_named(message, name));
                [&one, &other].into_iter().find(|message| is_wanted(message)).cloned().ok_or_else(|| {
                    TypesError(format!(
                        "the record is of the message number `{}`, which is `{}` if the entries of a map before it count, as they do in some serializers, and \
                         `{}` if not; name the right one as `message`",
                        numbers(path),
                        one.full_name(),
                        other.full_name()
                    ))
                })
            }
            (one, other) => one.or(other).ok_or_else(|| {
                TypesError(format!(
                    "the record is of the message number `{}`, which the schema does not have",
                    numbers(path)
                ))
            }),
        }
    }

    /// The message at `path` if only these count.
    fn counted(
        &self,
        path: &[u32],
        counts: impl Fn(&MessageDescriptor) -> bool,
    ) -> Option<MessageDescriptor> {
        let file = self.pool.get_file_by_name(self.root.as_deref()?)?;
        let (first, rest) = path.split_first()?;
        let outside = file.messages().nth(*first as usize)?;
        rest.iter().try_fold(outside, |outer, number| {
            outer.child_messages().filter(|message| counts(message)).nth(*number as usize)
        })
    }
}

/// Whether a message has this name, with or without a dot in front.
pub(super) fn is_named(message: &MessageDescriptor, name: &str) -> bool {
    name.strip_prefix('.').unwrap_or(name) == message.full_name()
}

/// Files that Confluent's serializers take to be everywhere, so that a registry has no reference to them: notes on parts of a schema, and decimal numbers.
fn known() -> [(&'static str, String); 2] {
    let head = "syntax = \"proto3\"; package confluent";
    let noted = [
        ("File", "file"),
        ("Message", "message"),
        ("Field", "field"),
        ("Enum", "enum"),
        ("EnumValue", "enum_value"),
    ];
    let notes = noted
        .map(|(of, name)| format!("extend google.protobuf.{of}Options {{ Meta {name}_meta = 1088; }}\n"));
    let meta = format!(
        "{head}; import \"google/protobuf/descriptor.proto\";\n\
         message Meta {{ repeated string tags = 3; map<string, string> params = 2; string doc = 1; }}\n{}",
        notes.concat()
    );
    let decimal = format!(
        "{head}.type;\nmessage Decimal {{ int32 scale = 3; uint32 precision = 2; bytes value = 1; }}\n"
    );
    [("confluent/meta.proto", meta), ("confluent/type/decimal.proto", decimal)]
}

fn pool(set: &[u8]) -> Result<DescriptorPool, TypesError> {
    DescriptorPool::decode(set).map_err(|error| TypesError(format!("no usable set of descriptors: {error}")))
}

fn numbers(path: &[u32]) -> String {
    path.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

fn too_long() -> TypesError {
    TypesError(format!("longer than `{DESCRIPTORS_BYTES_MAX}` bytes"))
}

/// The resolver of all, by the name alone: nothing is looked for on the disk.
struct Named(ChainFileResolver);

impl FileResolver for Named {
    fn resolve_path(&self, path: &std::path::Path) -> Option<String> {
        path.to_str().map(str::to_owned)
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        self.0.open_file(name)
    }
}

/// Texts by name, within bounds.
struct Texts {
    open: Arc<Open<'static>>,
    bytes: AtomicUsize,
    files: AtomicUsize,
    /// The first refusal of ours, in words.
    said: Arc<Mutex<Option<String>>>,
}

impl Texts {
    fn refuse(&self, words: String) -> protox::Error {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| words.clone());
        protox::Error::new(std::io::Error::other(words))
    }
}

impl FileResolver for Texts {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let text = match (self.open)(name) {
            Ok(Some(text)) => text,
            Ok(None) => return Err(protox::Error::file_not_found(name)),
            Err(error) => return Err(self.refuse(format!("`{name}`: {error}"))),
        };
        let bytes = self.bytes.fetch_add(text.len(), Ordering::Relaxed) + text.len();
        if bytes > DESCRIPTORS_BYTES_MAX {
            return Err(self.refuse(format!("`{name}` and what was read before it are {}", too_long())));
        }
        if self.files.fetch_add(1, Ordering::Relaxed) == FILES_MAX {
            return Err(self.refuse(format!("`{name}`: more than `{FILES_MAX}` files are imported")));
        }
        if nests_deeper(&text, BRACKETS_MAX) {
            return Err(self.refuse(format!("`{name}`: brackets nest deeper than `{BRACKETS_MAX}`")));
        }
        File::from_source(name, &text)
    }
}

/// Whether brackets nest deeper than `most` in a text, comments and quoted texts aside.
fn nests_deeper(text: &str, most: usize) -> bool {
    let mut rest = text.as_bytes();
    let mut depth = 0usize;
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'{' | b'[' | b'<' | b'(' => {
                depth += 1;
                if depth > most {
                    return true;
                }
            }
            b'}' | b']' | b'>' | b')' => depth = depth.saturating_sub(1),
            b'/' if after.first() == Some(&b'/') => {
                rest = &after[memchr::memchr(b'\n', after).unwrap_or(after.len())..];
            }
            b'/' if after.first() == Some(&b'*') => {
                let end = memchr::memmem::find(&after[1..], b"*/");
                rest = &after[end.map_or(after.len(), |end| end + 3)..];
            }
            quote @ (b'"' | b'\'') => {
                while let [byte, after @ ..] = rest {
                    rest = after;
                    match byte {
                        b'\\' => rest = rest.get(1..).unwrap_or_default(),
                        byte if byte == quote => break,
                        // A text ends with its line.
                        b'\n' => break,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    false
}
