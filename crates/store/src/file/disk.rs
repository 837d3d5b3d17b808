//! The system calls of one store's root, each blocking.
//!
//! Owns the order of fsync and link, and which failure leaves which effect. Does not own the threads that may block in here ([`super`]),
//! the names of temporary files (`file::temp`), nor registers (`file::register`).
//!
//! | step of a put              | if it fails                                                     |
//! |----------------------------|------------------------------------------------------------------|
//! | make and fsync the folders | none                                                             |
//! | write the temporary file   | none                                                             |
//! | fsync the temporary file   | none: the file is thrown away, and a retry writes a new one      |
//! | link it to its name        | none, unless the file has two names by now: then continue        |
//! | fsync the folder           | unknown                                                          |
//!
//! A failed fsync of a folder, at any step, is final for this store: it takes no more writes, because a second fsync may
//! succeed although the first one lost the pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::fs::OFlags;

use super::temp::{self, TempFile};
use crate::limits::{check_bytes_max, check_range};
use crate::{ErrorKind, Key, Operation, Prefix, Put, StoreError};
use dataflow::Effect;

/// Puts tried when a sweep or an operator removes the temporary file or the folder in between.
const ATTEMPTS_MAX: usize = 4;

/// Folders that are remembered as durable; when there are more, all are forgotten and cost their fsyncs once again.
pub(super) const FOLDERS_MAX: usize = 4_096;

/// One root.
pub(super) struct Disk {
    root: PathBuf,
    /// Folders that this process has made durable, with all folders above them.
    folders: Mutex<BTreeSet<PathBuf>>,
    /// Folders that were seen to be folders and no links, with all above them.
    plain: Mutex<BTreeSet<PathBuf>>,
    /// The value of each register that was last seen to be durable.
    synced: Mutex<BTreeMap<PathBuf, String>>,
    /// An fsync of a folder has failed: it is no longer known what is durable.
    sync_failed: AtomicBool,
    /// Puts and deletes are refused.
    read_only: bool,
    #[cfg(test)]
    pub(crate) faults: tests::Faults,
}

/// How a put's bytes reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the page cache, where the next reader finds them.
    Cached,
    /// Past it, as far as that can be done.
    PastCache,
}

/// A step that a test can watch or let fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(super) enum Step {
    MakeFolder,
    Sync,
    CreateTemp,
    WriteTemp,
    SyncTemp,
    Link,
}

impl Disk {
    pub(super) fn open(root: &Path) -> Result<Self, StoreError> {
        let place = root.display().to_string();
        let failed = |doing: &'static str| {
            let place = place.clone();
            move |error| StoreError::io(Operation::Open, &place, doing, error)
        };
        // Without a slash or a dot at its end, behind which a link would be followed.
        let root = root.components().as_path();
        if let Some(target) = link_target(root) {
            return Err(StoreError::new(ErrorKind::NotSupported, Operation::Open, &place, target));
        }
        make_root(root).map_err(failed("make its folder"))?;
        let root = fs::canonicalize(root).map_err(failed("resolve its path"))?;
        let disk = Self {
            root,
            folders: Mutex::default(),
            plain: Mutex::default(),
            synced: Mutex::default(),
            sync_failed: AtomicBool::new(false),
            read_only: false,
            #[cfg(test)]
            faults: tests::Faults::default(),
        };
        temp::sweep(&disk.root).map_err(failed("prepare its folder of temporary files"))?;
        disk.check_owner()
            .map_err(|why| StoreError::new(ErrorKind::NotSupported, Operation::Open, &place, why))?;
        disk.check_links().map_err(|error| {
            let error = failed("make a hard link")(error);
            let is_read_only = error
                .source
                .as_ref()
                .is_some_and(|source| source.kind() == io::ErrorKind::ReadOnlyFilesystem);
            // A file system that was mounted read-only is to be mounted again; one without hard links stays without.
            match error.kind {
                ErrorKind::Permission if !is_read_only => error.with_kind(ErrorKind::NotSupported),
                _ => error,
            }
        })?;
        Ok(disk)
    }

    /// Opens a folder that is there, without leaving a trace in it.
    pub(super) fn open_to_read(root: &Path) -> Result<Self, StoreError> {
        let place = root.display().to_string();
        let failed = |error| StoreError::io(Operation::Open, &place, "resolve its path", error);
        Ok(Self {
            root: fs::canonicalize(root).map_err(failed)?,
            folders: Mutex::default(),
            plain: Mutex::default(),
            synced: Mutex::default(),
            sync_failed: AtomicBool::new(false),
            read_only: true,
            #[cfg(test)]
            faults: tests::Faults::default(),
        })
    }

    pub(super) fn check_writable(&self, operation: Operation, key: &Key) -> Result<(), StoreError> {
        if self.read_only {
            return Err(StoreError::new(
                ErrorKind::NotSupported,
                operation,
                key,
                "the store was opened to read",
            ));
        }
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn path<'a>(&self, segments: impl Iterator<Item = &'a str>) -> PathBuf {
        let mut path = self.root.clone();
        path.extend(segments);
        path
    }

    pub(super) fn put_if_absent(&self, key: &Key, body: &[Bytes], way: Way) -> Result<Put, StoreError> {
        self.check_writable(Operation::Put, key)?;
        self.check_sync(Operation::Put, key)?;
        let path = self.path(key.segments());
        self.check_folders(Operation::Put, key, &path)?;
        // Only spares the writing; the link decides.
        if path.symlink_metadata().is_ok_and(|found| found.is_file()) {
            return Ok(Put::Exists);
        }
        for _ in 0..ATTEMPTS_MAX {
            if let Some(put) = self.try_put(key, &path, body, way)? {
                return Ok(put);
            }
        }
        let reason =
            format!("its folder or temporary file was removed {ATTEMPTS_MAX} times while it was written");
        Err(StoreError::new(ErrorKind::Io, Operation::Put, key, reason))
    }

    pub(super) fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        let Some((file, size_bytes)) = self.open_object(key)? else { return Ok(None) };
        check_bytes_max(key, size_bytes, bytes_max)?;
        read(key, file, size_bytes).map(Some)
    }

    pub(super) fn get_range(&self, key: &Key, range: &Range<u64>) -> Result<Option<Bytes>, StoreError> {
        let Some((mut file, size_bytes)) = self.open_object(key)? else { return Ok(None) };
        check_range(key, size_bytes, range)?;
        file.seek(SeekFrom::Start(range.start))
            .map_err(|error| StoreError::io(Operation::Get, key, "find the range", error))?;
        read(key, file, range.end - range.start).map(Some)
    }

    /// Opens the file once for all ranges.
    pub(super) fn get_ranges(
        &self,
        key: &Key,
        ranges: &[Range<u64>],
    ) -> Result<Option<Vec<Bytes>>, StoreError> {
        let Some((file, size_bytes)) = self.open_object(key)? else { return Ok(None) };
        let read = |range: &Range<u64>| {
            check_range(key, size_bytes, range)?;
            // Within an object, whose bytes are far below a usize.
            let mut bytes = vec![0; (range.end - range.start) as usize];
            file.read_exact_at(&mut bytes, range.start)
                .map_err(|error| StoreError::io(Operation::Get, key, "read the range", error))?;
            Ok(Bytes::from(bytes))
        };
        ranges.iter().map(read).collect::<Result<_, _>>().map(Some)
    }

    pub(super) fn delete(&self, key: &Key) -> Result<(), StoreError> {
        self.check_writable(Operation::Delete, key)?;
        let path = self.path(key.segments());
        self.check_folders(Operation::Delete, key, &path)?;
        match fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if is_absent(&error) || path.is_dir() => Ok(()),
            // The name may be deleted before the error comes.
            Err(error) => {
                let error = StoreError::io(Operation::Delete, key, "remove its file", error);
                Err(if error.kind == ErrorKind::Permission {
                    error
                } else {
                    error.with_effect(Effect::Unknown)
                })
            }
        }
    }

    /// Fsyncs folders only. A name is linked after its file's fsync, so whoever sees a name knows that the bytes are
    /// durable; what a crash can leave open is the name. An fsync of each file would cost milliseconds an object even
    /// where nothing is left to write.
    pub(super) fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        self.check_sync(Operation::Harden, prefix)?;
        let failed =
            |error| self.judge(StoreError::io(Operation::Harden, prefix, "fsync its folders", error));
        let mut folder = self.root.clone();
        for segment in prefix.segments() {
            match File::open(&folder).and_then(|folder| self.sync(&folder)) {
                Ok(()) => folder.push(segment),
                Err(error) if is_absent(&error) => return Ok(()),
                Err(error) => return Err(failed(error)),
            }
        }
        super::walk::visit_folders(&folder, &|path| self.sync(&File::open(path)?)).map_err(failed)
    }

    /// One try. `None` if something that was just made has been removed again.
    fn try_put(&self, key: &Key, path: &Path, body: &[Bytes], way: Way) -> Result<Option<Put>, StoreError> {
        let failed = |doing| move |error| self.judge(StoreError::io(Operation::Put, key, doing, error));
        let folder = path.parent().expect("an object lies below the root");
        self.make_folders(folder).map_err(failed("make its folder"))?;
        // Opened before the link, so that behind it nothing can fail but the fsync.
        let folder = match File::open(folder) {
            Ok(folder) => folder,
            Err(error) if is_absent(&error) => {
                self.folders().clear();
                return Ok(None);
            }
            Err(error) => return Err(failed("open its folder")(error)),
        };
        self.step(Step::CreateTemp).map_err(failed("make a temporary file"))?;
        let mut temp = TempFile::create(&self.root).map_err(failed("make a temporary file"))?;
        let mut write = || match way {
            Way::Cached => temp.write(body),
            Way::PastCache => temp.write_past_cache(body),
        };
        self.step(Step::WriteTemp).and_then(|()| write()).map_err(failed("write its bytes"))?;
        self.step(Step::SyncTemp).and_then(|()| temp.sync()).map_err(failed("fsync its bytes"))?;

        let linked = self.step(Step::Link).and_then(|()| fs::hard_link(temp.path(), path));
        if let Err(error) = linked {
            // A network file system may lose the answer and then find its own link.
            let is_linked = temp
                .is_linked()
                .map_err(|error| failed("see whether it was linked")(error).with_effect(Effect::Unknown))?;
            if !is_linked {
                return self.not_linked(key, path, error);
            }
        }
        let in_doubt = |error| failed("fsync its folder")(error).with_effect(Effect::Unknown);
        self.sync(&folder).map(|()| Some(Put::Created)).map_err(in_doubt)
    }

    /// What a link that was not made means.
    fn not_linked(&self, key: &Key, path: &Path, error: io::Error) -> Result<Option<Put>, StoreError> {
        match error.kind() {
            io::ErrorKind::AlreadyExists => match path.symlink_metadata() {
                Ok(found) if found.is_file() => Ok(Some(Put::Exists)),
                Ok(found) if found.is_dir() => {
                    Err(StoreError::new(ErrorKind::Conflict, Operation::Put, key, "it is a folder"))
                }
                Ok(_) => Err(not_a_file(Operation::Put, key)),
                // Deleted since: the caller's put came after an object that is no more, so try again.
                Err(absent) if is_absent(&absent) => Ok(None),
                Err(error) => Err(StoreError::io(Operation::Put, key, "inspect what exists", error)),
            },
            io::ErrorKind::NotFound => {
                self.folders().clear();
                Ok(None)
            }
            // Every other kind is a failure of the link itself.
            _ => Err(StoreError::io(Operation::Put, key, "link its file", error)),
        }
    }

    /// Creates `folder` and its parents below the root, and makes their names durable once per process: one that
    /// exists already may come from a writer that crashed before it was durable.
    pub(super) fn make_folders(&self, folder: &Path) -> io::Result<()> {
        if folder == self.root || self.folders().contains(folder) {
            return Ok(());
        }
        let above = folder.parent().expect("a folder below the root has one above");
        self.make_folders(above)?;
        self.step(Step::MakeFolder)?;
        match fs::DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => {}
            // A link to a folder is none: it could lead out of the root.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_plain_folder(folder)? => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let words = "one of its folders is an object or a link";
                return Err(io::Error::new(io::ErrorKind::NotADirectory, words));
            }
            Err(error) => return Err(error),
        }
        self.sync(&File::open(above)?)?;
        let mut folders = self.folders();
        if folders.len() >= FOLDERS_MAX {
            folders.clear();
        }
        folders.insert(folder.to_owned());
        Ok(())
    }

    fn open_object(&self, key: &Key) -> Result<Option<(File, u64)>, StoreError> {
        let path = self.path(key.segments());
        let failed = |error| StoreError::io(Operation::Get, key, "open its file", error);
        self.check_folders(Operation::Get, key, &path)?;
        // Looks before it opens: opening a pipe would block, and a link could lead anywhere.
        match path.symlink_metadata() {
            Ok(found) if found.is_file() => {}
            Ok(found) if found.is_dir() => return Ok(None),
            Ok(_) => return Err(not_a_file(Operation::Get, key)),
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        // Again by the kernel, because the path may have changed since.
        let no_link = OFlags::NOFOLLOW.bits() as i32;
        let file = match File::options().read(true).custom_flags(no_link).open(&path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let size_bytes = file.metadata().map_err(failed)?.len();
        Ok(Some((file, size_bytes)))
    }

    /// Refuses a place that is reached over a link: behind it are files of others.
    pub(super) fn check_folders(
        &self,
        operation: Operation,
        key: &Key,
        path: &Path,
    ) -> Result<(), StoreError> {
        let folder = path.parent().expect("an object lies below the root");
        if folder == self.root || self.plain().contains(folder) {
            return Ok(());
        }
        let above: Vec<&Path> = folder.ancestors().take_while(|above| *above != self.root).collect();
        for above in above.into_iter().rev() {
            match above.symlink_metadata() {
                Ok(found) if found.is_symlink() => {
                    let why = format!("its folder `{}` is a link", above.display());
                    return Err(StoreError::new(ErrorKind::Corrupt, operation, key, why));
                }
                Ok(_) => {}
                // What is not there yet is inspected when it is.
                Err(error) if is_absent(&error) => return Ok(()),
                Err(error) => return Err(StoreError::io(operation, key, "inspect its folder", error)),
            }
        }
        let mut plain = self.plain();
        if plain.len() >= FOLDERS_MAX {
            plain.clear();
        }
        plain.insert(folder.to_owned());
        Ok(())
    }

    pub(super) fn synced(&self) -> MutexGuard<'_, BTreeMap<PathBuf, String>> {
        // As the set below.
        self.synced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plain(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        // A set of facts that are each true.
        self.plain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The root and its folder of temporary files must belong to this user or to root, and nobody else may put anything into
    /// them: another user could take the place of a folder or a file by a link. A file that we have made shows who this user is, even
    /// where a network file system gives the user another number.
    fn check_owner(&self) -> Result<(), String> {
        let words = |error: io::Error| format!("cannot see who owns it: {error}");
        let own = TempFile::create(&self.root).and_then(|own| own.owner()).map_err(words)?;
        for folder in [self.root.clone(), self.root.join(temp::FOLDER)] {
            let found = folder.symlink_metadata().map_err(words)?;
            let shown = folder.display();
            if ![0, own].contains(&found.uid()) {
                return Err(format!(
                    "`{shown}` belongs to another user (uid {}); `chown` it to the one that runs this program (uid {own})",
                    found.uid()
                ));
            }
            if let Some(why) = open_to_all(&folder, &found) {
                return Err(why);
            }
        }
        Ok(())
    }

    /// Makes a folder's names durable.
    pub(super) fn sync(&self, folder: &File) -> io::Result<()> {
        self.step(Step::Sync).and_then(|()| folder.sync_all()).inspect_err(|_| {
            self.sync_failed.store(true, Ordering::SeqCst);
        })?;
        // The kernel tells a failed write-back to one of those who wait for it, and success to the others.
        if self.sync_failed.load(Ordering::SeqCst) {
            return Err(io::Error::other("another fsync failed meanwhile"));
        }
        Ok(())
    }

    /// Marks an error as final once an fsync has failed.
    pub(super) fn judge(&self, error: StoreError) -> StoreError {
        if self.sync_failed.load(Ordering::SeqCst) { error.with_kind(ErrorKind::SyncFailed) } else { error }
    }

    pub(super) fn check_sync(
        &self,
        operation: Operation,
        place: &impl std::fmt::Display,
    ) -> Result<(), StoreError> {
        if self.sync_failed.load(Ordering::SeqCst) {
            let reason = "an earlier fsync failed, so what is durable is not known";
            return Err(StoreError::new(ErrorKind::SyncFailed, operation, place, reason));
        }
        Ok(())
    }

    /// Tries on two temporary names what every put relies on.
    fn check_links(&self) -> io::Result<()> {
        let from = TempFile::create(&self.root)?;
        let to = TempFile::create(&self.root)?;
        match fs::hard_link(from.path(), to.path()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Ok(()) => return Err(io::Error::new(io::ErrorKind::Unsupported, "a link replaced a file")),
            Err(error) => return Err(error),
        }
        fs::remove_file(to.path())?;
        fs::hard_link(from.path(), to.path())
    }

    pub(super) fn folders(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        // A set of facts that are each true; a panic between two of them does no harm.
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(not(test))]
    pub(super) fn step(&self, _step: Step) -> io::Result<()> {
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn step(&self, step: Step) -> io::Result<()> {
        self.faults.reach(step)
    }
}

/// Whether the error says that there is nothing of that name. A file in the place of a folder is such a case too.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Reads exactly `bytes` from where the file stands, into memory that is not zeroed first.
pub(super) fn read(key: &Key, file: File, bytes: u64) -> Result<Bytes, StoreError> {
    let too_large = || {
        let reason = format!("no memory for its `{bytes}` bytes");
        StoreError::new(ErrorKind::TooLarge, Operation::Get, key, reason)
    };
    let mut body = Vec::new();
    let length = usize::try_from(bytes).map_err(|_| too_large())?;
    body.try_reserve_exact(length).map_err(|_| too_large())?;
    let found = file
        .take(bytes)
        .read_to_end(&mut body)
        .map_err(|error| StoreError::io(Operation::Get, key, "read its bytes", error))?;
    if found != length {
        let reason = format!("its file ended after `{found}` of `{bytes}` bytes");
        return Err(StoreError::new(ErrorKind::Corrupt, Operation::Get, key, reason));
    }
    Ok(Bytes::from(body))
}

pub(super) fn not_a_file(operation: Operation, key: &Key) -> StoreError {
    StoreError::new(ErrorKind::Corrupt, operation, key, "its place is taken by a link or a special file")
}

/// What a start would have against a root that may be there already, as far as that can be seen without writing.
pub(crate) fn objection(root: &Path) -> Option<String> {
    let of_folder = |folder: PathBuf| open_to_all(&folder, &folder.symlink_metadata().ok()?);
    link_target(root).or_else(|| [root.to_owned(), root.join(temp::FOLDER)].into_iter().find_map(of_folder))
}

/// Whether a store was made at this root.
pub(crate) fn is_used(root: &Path) -> bool {
    root.join(temp::FOLDER).is_dir()
}

/// Why a folder that everybody may write to is refused; `None` if it is none.
fn open_to_all(folder: &Path, found: &fs::Metadata) -> Option<String> {
    let shown = folder.display();
    let is_open = found.mode() & 0o002 != 0;
    is_open.then(|| format!("everybody may write to `{shown}`; forbid that: `chmod o-w {shown}`"))
}

/// Why a root that is a link is refused; `None` if it is none.
fn link_target(root: &Path) -> Option<String> {
    let is_link = root.symlink_metadata().is_ok_and(|found| found.is_symlink());
    is_link.then(|| {
        let target = fs::canonicalize(root).map_or_else(|_| "nowhere".to_owned(), |to| format!("`{}`", to.display()));
        format!("it is a symbolic link, which others may point elsewhere; name the folder that it leads to: {target}")
    })
}

/// Whether `folder` is a folder and no link to one.
fn is_plain_folder(folder: &Path) -> io::Result<bool> {
    folder.symlink_metadata().map(|found| found.is_dir())
}

/// Makes the root and the folders above it that are absent, and makes their names durable.
fn make_root(root: &Path) -> io::Result<()> {
    let above = match root.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => return Ok(()),
    };
    let is_new = match fs::DirBuilder::new().mode(0o700).create(root) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_root(above)?;
            fs::DirBuilder::new().mode(0o700).create(root)?;
            true
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && root.is_dir() => false,
        Err(error) => return Err(error),
    };
    match File::open(above).and_then(|above| above.sync_all()) {
        // The folder above may be closed to us; a root that was given to us is its giver's to keep.
        Err(error) if is_new || error.kind() != io::ErrorKind::PermissionDenied => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
