//! Which files the inputs of a pipeline read, so that none is read twice.
//!
//! Owns the comparison, by device, inode and birth: names say nothing where there are links, where a file was renamed, or where a path can be written in two
//! ways. The inode of a file that is gone may be that of another one by now, before the input that had it takes its files again. Does not own which files an input means (`find`), nor where a file that was renamed is found (`place`).

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

use files::Node;

use super::find;

/// The files of all inputs of a pipeline, each taken by one of them under one name.
#[derive(Debug, Default)]
pub struct Claims(Mutex<BTreeMap<(u64, u64), Claim>>);

#[derive(Clone, Debug)]
struct Claim {
    input: String,
    path: String,
    file: Node,
}

impl Claims {
    /// Takes these files for an input, in place of those that it had. Files that are not there (any more) are nobody's.
    ///
    /// # Errors
    /// When another input has one of them, or the input itself by another way to the same name, with the message. Then the input has none.
    pub(super) fn take<'p>(&self, input: &str, paths: impl Iterator<Item = &'p str>) -> Result<(), String> {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claims.retain(|_, claim| claim.input != input);
        let mut own: BTreeMap<(u64, u64), (Node, Vec<&str>)> = BTreeMap::new();
        for path in paths {
            let Ok(metadata) = std::fs::metadata(path) else { continue };
            let (node, file) = ((metadata.dev(), metadata.ino()), Node::of(&metadata));
            if let Some(other) = claims.get(&node).filter(|other| other.file.is(&file)) {
                let as_other =
                    if other.path == path { String::new() } else { format!(", as `{}`", other.path) };
                return Err(format!(
                    "`{path}` is read by input `{}` already{as_other}, and its rows would be written twice; let the `paths` of one of them leave it \
                     out, or read it by one input and tell its records apart with conditions under `sinks` or a `filter`",
                    other.input
                ));
            }
            let (_, before) = own.entry(node).or_insert((file, Vec::new()));
            if before.contains(&path) {
                continue;
            }
            // Whoever has made a hard link and lets one input read both means it.
            if let Some(before) = before.iter().find(|before| is_one_name(before, path)) {
                return Err(format!(
                    "`{before}` and `{path}` are the same file (a symbolic link, or its path written in two ways), and its rows would be written twice; let \
                     `paths` name it once"
                ));
            }
            before.push(path);
        }
        let claim = |file: Node, path: &str| Claim { input: input.to_owned(), path: path.to_owned(), file };
        claims.extend(own.into_iter().map(|(node, (file, paths))| (node, claim(file, paths[0]))));
        Ok(())
    }
}

/// Whether two paths lead to one name in one folder.
fn is_one_name(one: &str, other: &str) -> bool {
    let name = |path: &str| std::fs::canonicalize(path).ok();
    name(one).is_some_and(|one| Some(one) == name(other))
}

/// Files that would be read twice: the place of the input, of those given with their names and paths, and the message; at most one for each
/// input. Looks at the files that are there now, and says nothing of what it cannot read.
pub fn shared(inputs: &[(&str, &[String])]) -> Vec<(usize, String)> {
    let claims = Claims::default();
    let taken = inputs.iter().enumerate().filter_map(|(at, (name, paths))| {
        let files = find::files(paths).ok()?;
        claims.take(name, files.iter().map(String::as_str)).err().map(|why| (at, why))
    });
    taken.collect()
}

#[cfg(test)]
mod tests;
