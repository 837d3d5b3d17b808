//! Which files the patterns mean now, and what else is in a folder.
//!
//! Owns listing. Does not own what a name of a copy looks like (`files::copies`, of the crate), which of the files are known (`files::scan`),
//! nor what is read of them (`files::pieces`). What cannot be listed or inspected is reported and left out: a folder that nobody may read must not keep other files
//! from being followed.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use files::{Node, names};

/// More matches than this are a mistake in the pattern.
const FILES_MAX: usize = 100_000;

/// A folder whose files are renamed while it is listed is listed so often at the most; what is missed all the same is found at another look.
const LISTINGS_MAX: usize = 4;

/// A file that is there.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Its name as matched.
    pub path: String,
    /// The number of the pattern.
    pub pattern: usize,
    pub node: Node,
    /// Bytes in it.
    pub bytes: u64,
}

/// What is there at one look.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub found: Vec<Found>,
    /// What went wrong, as text.
    pub problems: Vec<String>,
    /// Files and folders whose names are not UTF-8: the journal of a log, and records, hold names as text.
    pub not_utf8: BTreeSet<PathBuf>,
}

/// Paths and patterns, and those that are left out.
#[derive(Clone, Debug)]
pub(super) struct Patterns {
    pub include: Vec<String>,
    exclude: Vec<glob::Pattern>,
}

impl Patterns {
    /// From their texts.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn new(include: Vec<String>, exclude: &[String]) -> Result<Self, String> {
        let pattern = |text: &String| {
            glob::Pattern::new(text).map_err(|error| {
                format!("pattern `{text}` is wrong at character {}: {}", error.pos, error.msg)
            })
        };
        include.iter().map(pattern).collect::<Result<Vec<_>, _>>()?;
        let exclude = exclude.iter().map(pattern).collect::<Result<_, _>>()?;
        Ok(Self { include, exclude })
    }

    /// The files that are there, each once, whatever names lead to it; and what went wrong.
    pub fn found(&self) -> Look {
        let (mut found, mut problems, mut not_utf8) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut seen = BTreeSet::new();
        for (number, pattern) in self.include.iter().enumerate() {
            for path in matches(pattern, &mut problems) {
                if self.exclude.iter().any(|excluded| excluded.matches(&path)) {
                    continue;
                }
                let metadata = match std::fs::metadata(&path) {
                    Ok(metadata) => metadata,
                    // It has gone since it was listed, or a link leads nowhere.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                    Err(error) => {
                        problems.push(format!("file `{path}` cannot be inspected: {error}"));
                        continue;
                    }
                };
                let node = Node::of(&metadata);
                if metadata.is_file() && seen.insert((node.device, node.inode)) {
                    found.push(Found { path, pattern: number, node, bytes: metadata.len() });
                }
            }
            not_utf8.extend(self.not_utf8(pattern));
        }
        Look { found, problems, not_utf8 }
    }

    /// What a pattern means and cannot be followed, because its name is no text.
    fn not_utf8(&self, pattern: &str) -> impl Iterator<Item = PathBuf> {
        let found = match Path::new(pattern).exists() {
            true => Vec::new(),
            false => names::not_utf8(pattern, FILES_MAX),
        };
        let is_excluded =
            |path: &Path| self.exclude.iter().any(|excluded| excluded.matches(&path.to_string_lossy()));
        found.into_iter().filter(move |path| !is_excluded(path))
    }
}

fn matches(pattern: &str, problems: &mut Vec<String>) -> Vec<String> {
    // A path that is there is never taken for a pattern.
    if Path::new(pattern).exists() {
        return vec![pattern.to_owned()];
    }
    // It was tried in `new`.
    let Ok(paths) = glob::glob(pattern) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in paths {
        match entry {
            // `glob` gives none that is no text.
            Ok(path) => found.extend(path.to_str().map(str::to_owned)),
            Err(error) => {
                problems.push(format!("`{}` cannot be listed: {}", error.path().display(), error.error()));
            }
        }
        if found.len() == FILES_MAX {
            problems.push(format!(
                "pattern `{pattern}` matches more than {FILES_MAX} files; the others are left out"
            ));
            break;
        }
    }
    found
}

/// A file of a folder.
#[derive(Clone, Debug)]
pub(super) struct Sibling {
    pub path: String,
    pub node: Node,
    pub bytes: u64,
}

/// Folders as they are during one look, each listed once and sorted by name.
#[derive(Default)]
pub(super) struct Folders(BTreeMap<PathBuf, Vec<Sibling>>);

impl Folders {
    /// The files beside `path`, and beside what it links to.
    pub fn beside(&mut self, path: &str) -> Vec<Sibling> {
        let mut folders = vec![folder(Path::new(path))];
        if let Ok(real) = std::fs::canonicalize(path) {
            let real = folder(&real);
            let is_same = std::fs::canonicalize(&folders[0]).is_ok_and(|first| first == real);
            if !is_same {
                folders.push(real);
            }
        }
        folders.into_iter().flat_map(|folder| self.files(folder)).collect()
    }

    fn files(&mut self, folder: PathBuf) -> Vec<Sibling> {
        let list = || {
            let mut listed = list(&folder);
            for _ in 1..LISTINGS_MAX {
                if listed.1 {
                    break;
                }
                listed = list(&folder);
            }
            listed.0.sort_by(|a, b| a.path.cmp(&b.path));
            listed.0
        };
        self.0.entry(folder.clone()).or_insert_with(list).clone()
    }
}

/// The files of a folder, and whether each name was still that of the same file when it was inspected: one that is renamed between both may be missed.
fn list(folder: &Path) -> (Vec<Sibling>, bool) {
    let (mut files, mut is_whole) = (Vec::new(), true);
    // What cannot be listed has no files that anybody could find.
    for entry in std::fs::read_dir(folder).into_iter().flatten().take(FILES_MAX).flatten() {
        let Ok(metadata) = entry.metadata() else {
            is_whole = false;
            continue;
        };
        // A folder's number may be another one where a disk is mounted.
        if !metadata.is_file() {
            continue;
        }
        is_whole &= metadata.ino() == entry.ino();
        if let Some(path) = entry.path().to_str() {
            files.push(Sibling { path: path.to_owned(), node: Node::of(&metadata), bytes: metadata.len() });
        }
    }
    (files, is_whole)
}

/// The folder that a path names a file of.
pub(super) fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
