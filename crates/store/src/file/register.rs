//! Registers: small values that are replaced, on a disk that has no compare-and-set.
//!
//! Owns the names in a register's folder and the order of the system calls. Does not own objects (`file::disk`), nor what a register says
//! (`object_log::root`, `object_log::acks`, `object_log::note`). Uses no lock to decide: the *name* of an empty file, the pointer, says
//! which value is current, and a rename of that name is the compare-and-set, because of any number of renames of one name exactly one finds
//! it.
//!
//! ```text
//! root/orders/.root/p.7-90312-1f…      the pointer: value 7 is current
//! root/orders/.root/v.7-90312-1f…      its bytes
//! root/orders/.root/v.8-90377-c0…      of a writer that is about to rename the pointer, or that died before it could
//! ```
//!
//! | step of a swap                       | if it fails, or the process ends there                                  |
//! |--------------------------------------|--------------------------------------------------------------------------|
//! | write and fsync a temporary file     | nothing has happened                                                     |
//! | link it as `v.NEW`, fsync the folder | nothing has happened; the file is removed by a later swap                |
//! | rename `p.OLD` to `p.NEW`            | not found: refused; no answer: unknown, and the value stays               |
//! | fsync the folder                     | unknown: visible, and a loss of power may undo it; readers fsync first   |
//! | remove `v.OLD`                       | left over, removed by a later swap                                       |
//!
//! A tag is the value's number in the register's history, its file's inode and the hash of its bytes. Numbers only grow, two files that exist at
//! one time differ in their inodes, and another register of the same name differs in its bytes: so no tag comes twice.
//!
//! A register is created by renaming a whole folder with its first pointer to its place, which fails where one is, because a register's
//! folder is never empty.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128;

use super::disk::{Disk, Step, is_absent};
use super::temp::TempFile;
use crate::limits::check_bytes_max;
use crate::{ErrorKind, Key, Operation, StoreError, Swap, Tag};
use dataflow::Effect;

/// Looks at a register's folder before a read gives up: each costs a swap of another process in just that moment.
const LOOKS_MAX: usize = 1_000;

/// One swap in so many looks for values that dead writers have left.
const SWEEP_EVERY: u64 = 64;

const POINTER: &str = "p.";
const VALUE: &str = "v.";

impl Disk {
    pub(super) fn read_register(
        &self,
        key: &Key,
        bytes_max: u64,
    ) -> Result<Option<(Bytes, Tag)>, StoreError> {
        let failed = |doing| move |error| StoreError::io(Operation::Get, key, doing, error);
        let folder = self.register(Operation::Get, key)?;
        let (mut pointers, mut without_value) = (0, None);
        for _ in 0..LOOKS_MAX {
            let Some(found) = pointers_in(&folder).map_err(failed("read the register's folder"))? else {
                return Ok(None);
            };
            pointers += found.len();
            for tag in found {
                let Some((file, size_bytes)) = open(&folder, &tag).map_err(failed("open its value"))? else {
                    // A value is removed behind the rename of its pointer, and no pointer comes twice: one that is listed after that is no swap under way.
                    if without_value.as_ref() == Some(&tag) {
                        let reason = format!("`{POINTER}{tag}` names a value that is not there");
                        return Err(StoreError::new(ErrorKind::Corrupt, Operation::Get, key, reason));
                    }
                    without_value = Some(tag);
                    continue;
                };
                check_bytes_max(key, size_bytes, bytes_max)?;
                // Made durable before it is judged: what is current then, and was read, cannot be undone.
                self.sync_register(Operation::Get, key, &folder, &tag)?;
                if folder.join(format!("{POINTER}{tag}")).symlink_metadata().is_ok() {
                    let bytes = super::disk::read(key, file, size_bytes)?;
                    return Ok(Some((bytes, Tag::new(tag))));
                }
            }
        }
        Err(match pointers {
            0 => StoreError::new(
                ErrorKind::Corrupt,
                Operation::Get,
                key,
                "nothing says which value is current",
            ),
            _ => {
                let reason = format!("its value changed {LOOKS_MAX} times while it was read");
                StoreError::new(ErrorKind::Io, Operation::Get, key, reason)
            }
        })
    }

    pub(super) fn compare_and_set(
        &self,
        key: &Key,
        expected: Option<&Tag>,
        body: &Bytes,
    ) -> Result<Swap, StoreError> {
        self.check_writable(Operation::Put, key)?;
        self.check_sync(Operation::Put, key)?;
        let folder = self.register(Operation::Put, key)?;
        let failed = |doing| move |error| self.judge(StoreError::io(Operation::Put, key, doing, error));
        self.step(Step::CreateTemp).map_err(failed("make a temporary file"))?;
        let mut temp = TempFile::create(self.root()).map_err(failed("make a temporary file"))?;
        let write = temp.write(std::slice::from_ref(body)).and_then(|()| temp.sync());
        self.step(Step::WriteTemp).and(write).map_err(failed("write its bytes"))?;
        let inode = temp.inode().map_err(failed("inspect its temporary file"))?;
        let number = expected.map_or(0, |tag| number_of(tag.as_str()).saturating_add(1));
        let tag = format!("{number}-{inode}-{:032x}", xxh3_128(body));
        match expected {
            None => self.create_register(key, &folder, &temp, &tag),
            Some(old) => self.replace(key, &folder, &temp, old.as_str(), &tag),
        }
    }

    fn create_register(
        &self,
        key: &Key,
        folder: &Path,
        temp: &TempFile,
        tag: &str,
    ) -> Result<Swap, StoreError> {
        let failed = |doing| move |error| self.judge(StoreError::io(Operation::Put, key, doing, error));
        let above = folder.parent().expect("a register lies below the root");
        self.make_folders(above).map_err(failed("make its folder"))?;
        // Only spares the work; the rename decides.
        if folder.symlink_metadata().is_ok() {
            return Ok(Swap::Refused);
        }
        let made = temp.folder();
        let make = || {
            fs::DirBuilder::new().mode(0o700).create(&made)?;
            fs::hard_link(temp.path(), made.join(format!("{VALUE}{tag}")))?;
            let pointer = made.join(format!("{POINTER}{tag}"));
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(pointer)?.sync_all()?;
            self.sync(&File::open(&made)?)
        };
        let rename = || {
            let above = File::open(above)?;
            self.step(Step::Link).and_then(|()| fs::rename(&made, folder)).map(|()| above)
        };
        let renamed = make().map_err(failed("make the register's folder")).and_then(|()| {
            let renamed = match rename() {
                // Its folder was made before, and removed behind this process's back.
                Err(error) if is_absent(&error) => {
                    self.folders().clear();
                    self.make_folders(above).and_then(|()| rename())
                }
                renamed => renamed,
            };
            match renamed {
                Ok(above) => Ok(Some(above)),
                // A full folder is there; on some file systems it is said in one way and on some in the other.
                Err(error) if is_taken(&error) => Ok(None),
                Err(error) => Err(failed("rename the register's folder")(error)),
            }
        });
        match renamed {
            Ok(Some(above)) => {
                let in_doubt = |error| failed("fsync its folder")(error).with_effect(Effect::Unknown);
                self.sync(&above).map_err(in_doubt)?;
                self.remember_synced(folder, tag);
                Ok(Swap::Done(Tag::new(tag)))
            }
            other => {
                // What stays goes with the next open's sweep.
                fs::remove_dir_all(&made).ok();
                other.map(|_| Swap::Refused)
            }
        }
    }

    fn replace(
        &self,
        key: &Key,
        folder: &Path,
        temp: &TempFile,
        old: &str,
        tag: &str,
    ) -> Result<Swap, StoreError> {
        let failed = |doing| move |error| self.judge(StoreError::io(Operation::Put, key, doing, error));
        let (pointer, value) = (folder.join(format!("{POINTER}{tag}")), folder.join(format!("{VALUE}{tag}")));
        let opened = match File::open(folder) {
            Ok(opened) => opened,
            Err(error) if is_absent(&error) => return Ok(Swap::Refused),
            Err(error) => return Err(failed("open the register's folder")(error)),
        };
        match fs::hard_link(temp.path(), &value) {
            Ok(()) => {}
            Err(error) if is_absent(&error) => return Ok(Swap::Refused),
            Err(error) => return Err(failed("link its value")(error)),
        }
        let not_done = |result| {
            // No pointer of that name can come any more: nobody but this call makes one.
            fs::remove_file(&value).ok();
            result
        };
        // The value's name is durable before the pointer's, whatever order the file system has.
        if let Err(error) = self.sync(&opened) {
            return not_done(Err(failed("fsync the register's folder")(error)));
        }
        let renamed =
            self.step(Step::Link).and_then(|()| fs::rename(folder.join(format!("{POINTER}{old}")), &pointer));
        match renamed {
            Ok(()) => {}
            // A network file system may lose the answer and then miss the old name.
            Err(_) if pointer.symlink_metadata().is_ok() => {}
            Err(error) if is_absent(&error) => return not_done(Ok(Swap::Refused)),
            Err(error) => {
                let error = failed("rename its pointer")(error);
                // A network file system that has given up on the answer may make the rename yet, and the pointer needs its value then. If it does not, a sweep
                // removes the value behind a later swap, when no pointer of the old name is left.
                if error.kind == ErrorKind::Io {
                    return Err(error.with_effect(Effect::Unknown));
                }
                return not_done(Err(error));
            }
        }
        let in_doubt = |error| failed("fsync the register's folder")(error).with_effect(Effect::Unknown);
        self.sync(&opened).map_err(in_doubt)?;
        self.remember_synced(folder, tag);
        // What stays is found by a sweep.
        fs::remove_file(folder.join(format!("{VALUE}{old}"))).ok();
        if number_of(tag).is_multiple_of(SWEEP_EVERY) {
            sweep(folder, tag).ok();
        }
        Ok(Swap::Done(Tag::new(tag)))
    }

    /// The folder of the register, whose own folders are none of them links.
    fn register(&self, operation: Operation, key: &Key) -> Result<PathBuf, StoreError> {
        let path = self.path(key.segments());
        self.check_folders(operation, key, &path)?;
        let folder = path.with_file_name(format!(".{}", key.name()));
        match folder.symlink_metadata() {
            Ok(found) if !found.is_dir() => Err(super::disk::not_a_file(operation, key)),
            _ => Ok(folder),
        }
    }

    /// Makes the pointer's name durable, and the first time the folders above it, unless this process has seen it durable before.
    fn sync_register(
        &self,
        operation: Operation,
        key: &Key,
        folder: &Path,
        tag: &str,
    ) -> Result<(), StoreError> {
        let known = self.synced().get(folder).cloned();
        if known.as_deref() == Some(tag) {
            return Ok(());
        }
        let sync = || {
            if known.is_none() {
                for above in folder.ancestors().skip(1).take_while(|above| above.starts_with(self.root())) {
                    self.sync(&File::open(above)?)?;
                }
            }
            self.sync(&File::open(folder)?)
        };
        match sync() {
            // Removed while it was read.
            Err(error) if is_absent(&error) => Ok(()),
            Err(error) => {
                Err(self.judge(StoreError::io(operation, key, "fsync the register's folder", error)))
            }
            Ok(()) => {
                self.remember_synced(folder, tag);
                Ok(())
            }
        }
    }

    fn remember_synced(&self, folder: &Path, tag: &str) {
        let mut synced = self.synced();
        if synced.len() >= super::disk::FOLDERS_MAX {
            synced.clear();
        }
        synced.insert(folder.to_owned(), tag.to_owned());
    }
}

/// The tags that pointers name: one, or none or two while it is renamed. `None` if there is no register.
fn pointers_in(folder: &Path) -> io::Result<Option<Vec<String>>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut tags = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        if let Some(tag) = name.to_str().and_then(|name| name.strip_prefix(POINTER)) {
            tags.push(tag.to_owned());
        }
    }
    Ok(Some(tags))
}

/// The value of that tag and its length; `None` if it has been removed.
fn open(folder: &Path, tag: &str) -> io::Result<Option<(File, u64)>> {
    let path = folder.join(format!("{VALUE}{tag}"));
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    match OpenOptions::new().read(true).custom_flags(no_link).open(path) {
        Ok(file) => {
            let bytes = file.metadata()?.len();
            Ok(Some((file, bytes)))
        }
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes values whose writer has ended and that no pointer names. A writer holds its file's lock until its rename is done or given
/// up, so a file that can be locked gets no pointer any more.
fn sweep(folder: &Path, current: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(tag) = name.to_str().and_then(|name| name.strip_prefix(VALUE)) else { continue };
        if tag == current {
            continue;
        }
        let no_link = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let opened = OpenOptions::new().write(true).custom_flags(no_link).open(entry.path());
        let Ok(file) = opened else { continue };
        // In this order: a pointer that is not there once the lock is held never comes.
        if file.try_lock().is_ok() && folder.join(format!("{POINTER}{tag}")).symlink_metadata().is_err() {
            fs::remove_file(entry.path()).ok();
        }
    }
    Ok(())
}

/// The number of a value in its register's history.
fn number_of(tag: &str) -> u64 {
    tag.split('-').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory
    )
}

/// The inode of a file.
pub(super) fn inode(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.ino())
}

#[cfg(test)]
mod tests;
