//! `grpc.reflection` v1 and v1alpha: what the gateway's services are, for tools that ask (`grpcurl`).
//!
//! Owns the answers to questions about files and names, from descriptors that `scripts/grpc-descriptors` has made. Does not own the call
//! ([`super::stream`]). As on `/readyz`, nobody has to say who asks: the descriptors are those that everybody has.
//!
//! | question                      | answer                                                              |
//! |-------------------------------|---------------------------------------------------------------------|
//! | `list_services`               | the services that the gateway has                                   |
//! | `file_by_filename`            | the file, and behind it those that it imports                       |
//! | `file_containing_symbol`      | the file of a service, a method, a message or an enum, and its imports |
//! | `file_containing_extension`, `all_extension_numbers_of_type` | not found: there are no extensions   |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::SERVICES;
use crate::wire::{Fields, Value};

/// A FileDescriptorSet.
const DESCRIPTORS: &[u8] = include_bytes!("descriptors.bin");

/// Both services, by the names under which they are called.
pub(super) const NAMES: [&str; 2] =
    ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

/// The service for health.
pub(super) const HEALTH: &str = "grpc.health.v1.Health";

const NOT_FOUND: u64 = 5;
const INVALID_ARGUMENT: u64 = 3;

static KNOWN: LazyLock<Known> = LazyLock::new(|| Known::of(DESCRIPTORS));

/// What the descriptors say.
#[derive(Default)]
struct Known {
    files: BTreeMap<String, File>,
    /// The file of each name.
    symbols: BTreeMap<String, String>,
}

struct File {
    bytes: &'static [u8],
    imports: Vec<String>,
}

/// The answer to one question, as a message.
pub(super) fn answer(question: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut fields = Fields::of("ServerReflectionRequest", question);
    let mut asked = None;
    while let Ok(Some((field, value))) = fields.next() {
        match (field, value) {
            (1, Value::Bytes(host)) => put(&mut out, 1, host),
            // The last of a choice is the one that counts.
            (3..=7, Value::Bytes(what)) => asked = Some((field, what)),
            _ => {}
        }
    }
    put(&mut out, 2, question);
    let known = &*KNOWN;
    match asked {
        Some((3, name)) => put_files(&mut out, text(name).and_then(|name| known.with_imports(name)), name),
        Some((4, name)) => put_files(&mut out, text(name).and_then(|name| known.of_symbol(name)), name),
        Some((7, _)) => {
            let mut services = Vec::new();
            let of_otlp = SERVICES.iter().map(|(service, _)| *service);
            for service in of_otlp.chain([HEALTH]).chain(NAMES) {
                let mut one = Vec::new();
                put(&mut one, 1, service.as_bytes());
                put(&mut services, 1, &one);
            }
            put(&mut out, 6, &services);
        }
        Some(_) => put_error(&mut out, NOT_FOUND, "the services have no extensions"),
        None => put_error(&mut out, INVALID_ARGUMENT, "the question is none that is known"),
    }
    out
}

fn put_files(out: &mut Vec<u8>, files: Option<Vec<&[u8]>>, name: &[u8]) {
    match files {
        Some(files) => {
            let mut found = Vec::new();
            files.iter().for_each(|file| put(&mut found, 1, file));
            put(out, 4, &found);
        }
        None => {
            let message = format!("the gateway has nothing of the name `{}`", String::from_utf8_lossy(name));
            put_error(out, NOT_FOUND, &message);
        }
    }
}

fn put_error(out: &mut Vec<u8>, code: u64, message: &str) {
    let mut error = vec![0x08];
    put_varint(&mut error, code);
    put(&mut error, 2, message.as_bytes());
    put(out, 7, &error);
}

/// Appends a field of bytes.
fn put(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

impl Known {
    fn of(set: &'static [u8]) -> Self {
        let mut known = Self::default();
        for (_, bytes) in each(set).filter(|(field, _)| *field == 1) {
            let (mut name, mut package, mut imports, mut symbols) =
                (String::new(), "", Vec::new(), Vec::new());
            for (field, value) in each(bytes) {
                let Some(text) = text(value).filter(|_| (1..=3).contains(&field)) else { continue };
                match field {
                    1 => name = text.to_owned(),
                    2 => package = text,
                    _ => imports.push(text.to_owned()),
                }
            }
            add_symbols(bytes, package, &mut symbols);
            known.symbols.extend(symbols.into_iter().map(|symbol| (symbol, name.clone())));
            known.files.insert(name, File { bytes, imports });
        }
        known
    }

    fn of_symbol(&self, symbol: &str) -> Option<Vec<&[u8]>> {
        self.with_imports(self.symbols.get(symbol)?)
    }

    /// A file, and behind it those that it imports, each once.
    fn with_imports(&self, name: &str) -> Option<Vec<&[u8]>> {
        self.files.get(name)?;
        let (mut open, mut seen, mut found) = (vec![name], BTreeSet::from([name]), Vec::new());
        while let Some(name) = open.pop() {
            let Some(file) = self.files.get(name) else { continue };
            found.push(file.bytes);
            open.extend(file.imports.iter().map(String::as_str).filter(|import| seen.insert(import)));
        }
        Some(found)
    }
}

/// The names of a file's messages, enums, services and methods, with those of messages inside.
fn add_symbols(file: &'static [u8], package: &str, symbols: &mut Vec<String>) {
    for (field, value) in each(file) {
        match field {
            4 => add_message(value, package, symbols),
            5 => symbols.extend(named(value, package)),
            6 => {
                let Some(service) = named(value, package) else { continue };
                let methods = each(value).filter(|(field, _)| *field == 2);
                symbols.extend(methods.filter_map(|(_, method)| named(method, &service)));
                symbols.push(service);
            }
            _ => {}
        }
    }
}

fn add_message(message: &'static [u8], within: &str, symbols: &mut Vec<String>) {
    let Some(name) = named(message, within) else { return };
    for (field, value) in each(message) {
        match field {
            3 => add_message(value, &name, symbols),
            4 => symbols.extend(named(value, &name)),
            _ => {}
        }
    }
    symbols.push(name);
}

/// The whole name of a descriptor, whose first field is its own.
fn named(descriptor: &'static [u8], within: &str) -> Option<String> {
    let (_, name) = each(descriptor).find(|(field, _)| *field == 1)?;
    Some(format!("{within}.{}", text(name)?))
}

/// The fields of a descriptor that are bytes.
fn each(message: &'static [u8]) -> impl Iterator<Item = (u32, &'static [u8])> {
    let mut fields = Fields::of("descriptor", message);
    std::iter::from_fn(move || fields.next().ok().flatten()).filter_map(|(field, value)| match value {
        Value::Bytes(bytes) => Some((field, bytes)),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
