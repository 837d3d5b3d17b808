//! Names that are no text: which of them a pattern means, and how they are shown; and how a name stands in a command.
//!
//! Owns finding them. Does not own what becomes of them: `sources::file` refuses its paths, and `gateway::files` leaves such files out and reports them.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Whether a path is a pattern, if nothing has it as its name.
pub fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Files and folders that a pattern means and whose names are not UTF-8, at most `max`: `glob` passes over them without a word. Folders that cannot be
/// listed have none. A folder stands for all that the pattern means in it.
pub fn not_utf8(pattern: &str, max: usize) -> Vec<PathBuf> {
    let (mut found, mut at) = (Vec::new(), 0);
    for part in pattern.split('/') {
        let (before, end) = (&pattern[..at], at + part.len());
        at = (end + 1).min(pattern.len());
        if !is_pattern(part) {
            continue;
        }
        let is_last = end == pattern.len();
        for folder in folders(before, part == "**") {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if name.to_str().is_none() && is_meant(part, &name.to_string_lossy(), is_last, &entry.path())
                {
                    found.push(entry.path());
                }
                if found.len() >= max {
                    return found;
                }
            }
        }
    }
    found
}

/// A name as `bash` takes it between `$'` and `'`.
pub fn escaped(path: &Path) -> String {
    path.as_os_str().as_bytes().escape_ascii().to_string()
}

/// What a shell takes for this one word.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The folders that a pattern means which ends with `/`, or is empty; with those in them, if it goes on with `**`.
fn folders(pattern: &str, with_all_in_them: bool) -> Vec<PathBuf> {
    if let Some(pattern) = pattern.strip_suffix("**/") {
        return folders(pattern, true);
    }
    let of = |pattern: &str| {
        let found = glob::glob(pattern).into_iter().flatten().flatten();
        found.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let mut folders = match is_pattern(pattern) {
        true => of(pattern),
        false => vec![PathBuf::from(if pattern.is_empty() { "." } else { pattern })],
    };
    if with_all_in_them {
        folders.extend(of(&format!("{pattern}**/")));
    }
    folders
}

/// Whether a part of a pattern means an entry of that name, as far as it can be read: a file for the last part, a folder for the others.
fn is_meant(part: &str, name: &str, is_last: bool, path: &Path) -> bool {
    let is_wanted = if is_last && part != "**" { path.is_file() } else { path.is_dir() };
    is_wanted && (part == "**" || glob::Pattern::new(part).is_ok_and(|pattern| pattern.matches(name)))
}
