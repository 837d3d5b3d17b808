//! `${NAME}`, `${NAME:-default}` and `file:/path`: values that stand elsewhere. A relative path begins at the pipeline file's folder.
//!
//! Owns the reading of references. `${…}` works in every value; `file:` only where a secret is due, for a store may have
//! such a URL. Does not own who may see the result: the walk shows what was written, never what came of it.

use std::path::Path;

use super::Secret;

/// The world around a pipeline file; tests bring their own.
pub struct Surroundings<'a> {
    /// Looks up an environment variable; `Err` when it is there but is no UTF-8.
    pub env: &'a dyn Fn(&str) -> Result<Option<String>, String>,
    /// Reads a secret's file.
    pub file: &'a dyn Fn(&Path) -> Result<String, String>,
}

impl Surroundings<'static> {
    /// The process's own environment and disk.
    pub fn of_process() -> Self {
        Self { env: &process_env, file: &secret_file }
    }
}

/// Replaces every `${…}` in `text`; `None` if there is none. `$${` stands for `${` itself.
///
/// # Errors
/// When a name is not set, or a reference is not written as it must be. The message has no value in it.
pub fn expand(text: &str, around: &Surroundings) -> Result<Option<String>, String> {
    if !text.contains("${") {
        return Ok(None);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            out.push_str(&rest[..at]);
            out.push('{');
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let (inside, tail) = rest[at + 2..]
            .split_once('}')
            .ok_or("has a `${` without `}`; write `$${` if the characters themselves are meant")?;
        out.push_str(&one(inside, around)?);
        rest = tail;
    }
    out.push_str(rest);
    Ok(Some(out))
}

/// What a secret's text `file:/path` stands for; `None` if the text is no such reference.
///
/// # Errors
/// When the file cannot be read.
pub fn from_file(text: &str, around: &Surroundings) -> Result<Option<String>, String> {
    let Some(path) = text.strip_prefix("file:") else { return Ok(None) };
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() {
        return Err(
            "names no file; write `file:/path`, or `file:path` for one beside the pipeline file".into()
        );
    }
    let mut text = (around.file)(Path::new(path))?;
    // Editors and `echo` end a file with a line feed that is no part of the secret.
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    if text.is_empty() { Err(format!("names the file `{path}`, which is empty")) } else { Ok(Some(text)) }
}

fn one(inside: &str, around: &Surroundings) -> Result<String, String> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !first || !bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(format!("refers to `${{{name}}}`, which is no name of an environment variable"));
    }
    // It would end at the first `}`, and what stands behind that would be taken for text.
    if default.is_some_and(|default| default.contains("${")) {
        return Err(format!(
            "refers to `${{{name}}}` with a default that holds another reference, which is not read; write a default without `${{`"
        ));
    }
    let value = (around.env)(name).map_err(|why| format!("refers to `${{{name}}}`, which {why}"))?;
    match (value, default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => {
            Err(format!("refers to `${{{name}}}`, which is not set; set it, or write `${{{name}:-default}}`"))
        }
    }
}

fn process_env(name: &str) -> Result<Option<String>, String> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err("is not UTF-8".into()),
    }
}

fn secret_file(path: &Path) -> Result<String, String> {
    use std::io::Read;
    let shown = path.display();
    let file = std::fs::File::open(path)
        .map_err(|error| format!("names the file `{shown}`, which cannot be read: {error}"))?;
    // One byte above the bound is enough to know that the file is too long.
    let mut text = String::new();
    let read = file.take(Secret::BYTES_MAX as u64 + 1).read_to_string(&mut text);
    match read {
        Ok(_) if text.len() > Secret::BYTES_MAX => {
            Err(format!("names the file `{shown}`, which has more than {} bytes", Secret::BYTES_MAX))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(format!("names the file `{shown}`, which cannot be read: {error}")),
    }
}
