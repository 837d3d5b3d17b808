//! What lies around the files of a source: the names that its paths mean, and what the folders of its files hold.
//!
//! Owns the listings, made once for as many files as are looked for: thousands of files that have gone would each list a folder of thousands. Does not
//! own which of the files is the one that is looked for (`place`), nor what a path means (`find`).
//!
//! A listing may be older than what it is used for. Whoever finds nothing calls [`Around::renew`] before it says so where that has consequences.

use std::collections::{BTreeMap, HashMap};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dataflow::SourceError;
use files::identity::head;

use super::find::failed;

/// Files of a folder that are inspected; more are no folder of logs.
const SIBLINGS_MAX: usize = 100_000;

/// So many bytes at the beginning are enough to pass over nearly all files that are no copies, without opening them once more.
const PRINT_BYTES: u64 = files::identity::COPY_BYTES_MIN;

type Paths<'a> = Box<dyn Fn() -> Result<Vec<String>, SourceError> + Send + Sync + 'a>;

/// The surroundings of a source's files.
pub(super) struct Around<'a> {
    paths: Paths<'a>,
    listed: Mutex<Listed>,
    /// Listings that were made.
    pub(super) made: AtomicU64,
}

#[derive(Default)]
struct Listed {
    /// What the paths mean, by inode.
    meant: Option<HashMap<u64, Vec<PathBuf>>>,
    folders: BTreeMap<PathBuf, Arc<Folder>>,
}

/// The regular files of a folder.
#[derive(Default)]
pub(super) struct Folder {
    /// By name.
    files: BTreeMap<String, Sibling>,
    by_inode: HashMap<u64, Vec<PathBuf>>,
}

/// A file of a folder.
pub(super) struct Sibling {
    pub path: PathBuf,
    /// Of its first bytes; `None` inside if it has fewer, or cannot be read.
    print: OnceLock<Option<u64>>,
}

impl<'a> Around<'a> {
    /// Of the files that `paths` gives the names of, which is called when somebody asks.
    pub fn new(paths: impl Fn() -> Result<Vec<String>, SourceError> + Send + Sync + 'a) -> Self {
        Self { paths: Box::new(paths), listed: Mutex::default(), made: AtomicU64::new(0) }
    }

    /// Of files that have no names but their own.
    pub fn nothing() -> Self {
        Self::new(|| Ok(Vec::new()))
    }

    /// The names that the paths mean of the file with this inode.
    ///
    /// # Errors
    /// When the paths cannot be looked through.
    pub fn meant(&self, inode: u64) -> Result<Vec<PathBuf>, SourceError> {
        if self.lock().meant.is_none() {
            let mut meant: HashMap<u64, Vec<PathBuf>> = HashMap::new();
            for path in (self.paths)()? {
                // One that has gone since is none.
                if let Ok(metadata) = std::fs::metadata(&path) {
                    meant.entry(metadata.ino()).or_default().push(path.into());
                }
            }
            self.made.fetch_add(1, Ordering::Relaxed);
            self.lock().meant = Some(meant);
        }
        Ok(self.lock().meant.as_ref().and_then(|meant| meant.get(&inode)).cloned().unwrap_or_default())
    }

    /// What a folder holds; nothing if it is not there.
    ///
    /// # Errors
    /// When it cannot be listed: a file that nobody could look for is not known to be gone.
    pub fn folder(&self, path: &Path) -> Result<Arc<Folder>, SourceError> {
        if let Some(folder) = self.lock().folders.get(path) {
            return Ok(folder.clone());
        }
        let folder = Arc::new(Folder::list(path)?);
        self.made.fetch_add(1, Ordering::Relaxed);
        self.lock().folders.insert(path.to_owned(), folder.clone());
        Ok(folder)
    }

    /// Forgets the listings; false if there were none.
    pub fn renew(&self) -> bool {
        let listed = std::mem::take(&mut *self.lock());
        listed.meant.is_some() || !listed.folders.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Listed> {
        // Every change replaces one value: what is there is whole even if a thread has panicked.
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Folder {
    fn list(path: &Path) -> Result<Self, SourceError> {
        let failed = |error| failed(&path.display().to_string(), "listed", &error);
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error)),
        };
        let mut folder = Self::default();
        for entry in entries.take(SIBLINGS_MAX) {
            let entry = entry.map_err(failed)?;
            // One that has gone since it was listed is none.
            let Some(metadata) = entry.metadata().ok().filter(Metadata::is_file) else { continue };
            // As the paths of a source write it.
            let path = entry.path();
            let path = path.strip_prefix(".").map(Path::to_owned).unwrap_or(path);
            folder.by_inode.entry(metadata.ino()).or_default().push(path.clone());
            if let Some(name) = entry.file_name().to_str() {
                let sibling = Sibling { path, print: OnceLock::new() };
                folder.files.insert(name.to_owned(), sibling);
            }
        }
        Ok(folder)
    }

    /// The names of the file with this inode.
    pub fn of_inode(&self, inode: u64) -> &[PathBuf] {
        self.by_inode.get(&inode).map_or(&[], Vec::as_slice)
    }

    /// The files whose names begin so, by name.
    pub fn named(&self, beginning: &str) -> impl Iterator<Item = &Sibling> {
        let from =
            self.files.range::<str, _>((std::ops::Bound::Included(beginning), std::ops::Bound::Unbounded));
        from.take_while(move |(name, _)| name.starts_with(beginning)).map(|(_, sibling)| sibling)
    }
}

impl Sibling {
    /// Whether the file may begin as one did whose first bytes had this hash; the file is read once, whoever asks.
    pub fn may_begin(&self, print: Option<u64>) -> bool {
        let own = || {
            let head = head(&files::open(&self.path).ok()?).ok()?;
            files::identity::print(&head, PRINT_BYTES)
        };
        print.is_none_or(|print| *self.print.get_or_init(own) == Some(print))
    }
}

/// The hash of a file's first bytes that [`Sibling::may_begin`] compares, if the identity has it.
pub(super) fn print(identity: &files::Identity) -> Option<u64> {
    identity.print(PRINT_BYTES)
}
