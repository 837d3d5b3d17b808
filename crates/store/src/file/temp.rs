//! Temporary files: where a put's bytes lie until they are linked to their name.
//!
//! Owns their names, their lock and their removal. Does not own the link, nor how their bytes are written (`direct`).
//!
//! A name is taken by exclusive creation, so it needs no randomness: the process id and a counter only make clashes
//! rare. The lock is what says that a writer lives; see [`super::FileStore::open`].

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rustix::fs::OFlags;

use super::direct;

/// The folder below the root. It begins with a dot, which no key's segment does.
pub(super) const FOLDER: &str = ".tmp";

/// Names the folder that goes with a temporary file.
const FOLDER_EXTENSION: &str = "d";

/// Names tried before giving up. A clash needs a leftover of the same process id in another container or after a
/// restart, and each try moves on by one.
const NAMES_MAX: usize = 10_000;

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A temporary file that is removed when dropped. Its lock ends when the file is closed.
pub(super) struct TempFile {
    path: PathBuf,
    file: File,
}

impl TempFile {
    /// Makes an empty locked file in `root/.tmp`, and that folder if it is absent.
    pub(super) fn create(root: &Path) -> io::Result<Self> {
        let folder = root.join(FOLDER);
        for _ in 0..NAMES_MAX {
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{}-{number}", std::process::id()));
            let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            let file = match opened {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    make_folder(&folder)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            match file.try_lock() {
                // A sweep may have had the lock in between and removed the name.
                Ok(()) if file.metadata()?.nlink() == 0 => continue,
                Ok(()) => return Ok(Self { path, file }),
                // A sweep was quicker than the lock and is about to remove the file.
                Err(TryLockError::WouldBlock) => continue,
                // No locks on this file system: then sweeps cannot lock either and remove nothing.
                Err(TryLockError::Error(_)) => return Ok(Self { path, file }),
            }
        }
        Err(io::Error::other(format!("no free name in `{}` after {NAMES_MAX} tries", folder.display())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where a folder may be made while this file lives; removed by a sweep once it does not.
    pub(super) fn folder(&self) -> PathBuf {
        self.path.with_extension(FOLDER_EXTENSION)
    }

    /// The number of the file in its file system; no other file has it as long as one of its names exists.
    pub(super) fn inode(&self) -> io::Result<u64> {
        super::register::inode(&self.file)
    }

    /// Appends the pieces in order.
    pub(super) fn write(&mut self, body: &[Bytes]) -> io::Result<()> {
        direct::write_cached(&mut self.file, body)
    }

    /// Writes the pieces in order into the empty file, past the page cache as far as that can be done.
    pub(super) fn write_past_cache(&mut self, body: &[Bytes]) -> io::Result<()> {
        direct::write(&mut self.file, body).map(drop)
    }

    /// Makes bytes and length durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// The user that the file system takes this process for.
    pub(super) fn owner(&self) -> io::Result<u32> {
        Ok(self.file.metadata()?.uid())
    }

    /// Whether the file has a second name: the link was made, whatever the call said.
    pub(super) fn is_linked(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() > 1)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // A name that stays is harmless, is never listed, and goes with the next sweep.
        fs::remove_file(&self.path).ok();
    }
}

/// Removes the files whose writer is dead, and returns how many. Files that cannot be opened or locked stay.
pub(super) fn sweep(root: &Path) -> io::Result<usize> {
    let folder = root.join(FOLDER);
    make_folder(&folder)?;
    let mut removed = 0;
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // Its file is made before it and removed after it.
            let own = entry.path();
            let is_made = own.extension().is_some_and(|extension| extension == FOLDER_EXTENSION);
            if is_made && is_dead(&own.with_extension("")) && fs::remove_dir_all(&own).is_ok() {
                removed += 1;
            }
            continue;
        }
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        // Another user's leftover, or one that another sweep has just removed: not ours to fix.
        let no_link = OFlags::NOFOLLOW.bits() as i32;
        let opened = OpenOptions::new().write(true).custom_flags(no_link).open(entry.path());
        let Ok(file) = opened else { continue };
        if file.try_lock().is_ok() && fs::remove_file(entry.path()).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

/// Whether no process holds the temporary file, or it no longer exists.
fn is_dead(path: &Path) -> bool {
    let no_link = OFlags::NOFOLLOW.bits() as i32;
    match OpenOptions::new().write(true).custom_flags(no_link).open(path) {
        Ok(file) => file.try_lock().is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        // Behind a link, files of another folder would be mistaken for leftovers.
        Err(_) if !folder.symlink_metadata()?.is_dir() => {
            let words = format!("`{}` is no folder but a link or a file; remove it", folder.display());
            Err(io::Error::new(io::ErrorKind::NotADirectory, words))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
