//! A store in a folder of a local disk.
//!
//! Owns the hand-over from async callers to threads that may block, and the bound on how many do. Does not own the
//! system calls (`disk`), temporary files (`temp`), writing past the page cache (`direct`), listings (`walk`) or registers
//! (`register`).
//!
//! ```text
//! root/.tmp/4711-12      being written; never listed; removed by the next open if its writer is dead
//! root/lane/.root        the register of the key `lane/root`
//! root/lane/journal/7    the object of the key `lane/journal/7`
//! ```
//!
//! A put writes the bytes to a temporary file, fsyncs it, links it to its name (which fails if the name exists), fsyncs
//! the folder and removes the temporary name. So a name never shows a part of an object, and two processes cannot both
//! create one. Folders are made for the owner only (0700) and files in the same way (0600), because the data may be personal.
//!
//! It needs a file system with hard links, fsync of folders and case-sensitive names: ext4, XFS, Btrfs, ZFS, tmpfs. Symbolic
//! links above the root are followed once, at open; the root itself, its folder of temporary files, and what lies in the place
//! of a folder or an object must be none. The root must belong to the user of the process or to root, and not be open to
//! everybody. Folders stay when their last object is deleted.

mod direct;
mod disk;
mod register;
mod temp;
mod walk;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};

use crate::{Entry, ErrorKind, Key, Operation, Prefix, Put, Store, StoreError, Swap, Tag};
use dataflow::Effect;
use disk::{Disk, Way};
pub(crate) use disk::{is_used, objection};

/// Operations of one store that run or wait in the pool at once; more wait their turn. Enough to keep a fast disk's
/// queue busy, far below the threads of tokio's pool.
pub const OPERATIONS_MAX: usize = 32;

/// Where blocking work runs.
pub trait BlockingPool: Send + Sync + fmt::Debug {
    /// Runs `job`, now or soon, on a thread that may block. A pool that shuts down may drop it unrun; the store then
    /// answers with [`ErrorKind::Stopped`].
    fn run(&self, job: Box<dyn FnOnce() + Send>);
}

/// tokio's pool of blocking threads. Outside of a tokio runtime it runs the job on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioPool;

/// The calling thread, before the future's first suspension: for simulations, tests and tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

/// A store in a folder of a local disk. Clones share one bound of operations.
#[derive(Clone)]
pub struct FileStore {
    disk: Arc<Disk>,
    pool: Arc<dyn BlockingPool>,
    operations: Arc<Semaphore>,
}

impl FileStore {
    /// Opens the folder `root`, and makes it if it is absent. Blocks the calling thread for a few fsyncs.
    ///
    /// Checks that the file system has hard links, and removes temporary files of writers that are dead. A writer holds
    /// a lock (`flock`) on its temporary file while it writes, and the kernel drops that lock when it dies; that distinguishes
    /// dead writers from living ones across containers too, where a process id would not. Without locks on the file system
    /// nothing is removed. A living writer never loses anything but a retry.
    pub fn open(root: &Path, pool: Arc<dyn BlockingPool>) -> Result<Self, StoreError> {
        Ok(Self::on(Disk::open(root)?, pool))
    }

    /// Opens a folder that is there, only to read: nothing is made, checked or swept, and puts and deletes are refused. For
    /// those who inspect a store that another process writes.
    pub fn open_to_read(root: &Path, pool: Arc<dyn BlockingPool>) -> Result<Self, StoreError> {
        Ok(Self::on(Disk::open_to_read(root)?, pool))
    }

    /// The absolute path of the root, without symbolic links.
    pub fn root(&self) -> &Path {
        self.disk.root()
    }

    /// The path of the file that holds the object `key`, whether it exists or not: for messages and tests.
    pub fn path(&self, key: &Key) -> PathBuf {
        self.disk.path(key.segments())
    }

    fn on(disk: Disk, pool: Arc<dyn BlockingPool>) -> Self {
        Self { disk: Arc::new(disk), pool, operations: Arc::new(Semaphore::new(OPERATIONS_MAX)) }
    }

    async fn put(&self, key: &Key, body: Vec<Bytes>, way: Way) -> Result<Put, StoreError> {
        crate::limits::check_size(key, &body)?;
        let owned = key.clone();
        self.run(Operation::Put, key, move |disk| disk.put_if_absent(&owned, &body, way)).await
    }

    async fn run<T: Send + 'static>(
        &self,
        operation: Operation,
        place: &(impl fmt::Display + Sync),
        job: impl FnOnce(&Disk) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit =
            Arc::clone(&self.operations).acquire_owned().await.expect("the semaphore is never closed");
        let (answer, answered) = oneshot::channel();
        let disk = Arc::clone(&self.disk);
        self.pool.run(Box::new(move || {
            let result = job(&disk);
            // The permit goes with the job, not with the caller, so that dropped futures do not lift the bound.
            drop(permit);
            // If the caller was cancelled nothing receives this; by contract its effect is unknown then.
            answer.send(result).ok();
        }));
        answered.await.unwrap_or_else(|_| {
            let error =
                StoreError::new(ErrorKind::Stopped, operation, place, "its worker stopped before an answer");
            Err(match operation {
                Operation::Put | Operation::Delete => error.with_effect(Effect::Unknown),
                Operation::Open | Operation::Get | Operation::List | Operation::Harden => error,
            })
        })
    }
}

#[async_trait]
impl Store for FileStore {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        self.put(key, body, Way::Cached).await
    }

    async fn put_past_cache(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        self.put(key, body, Way::PastCache).await
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        let owned = key.clone();
        self.run(Operation::Get, key, move |disk| disk.get(&owned, bytes_max)).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        let owned = key.clone();
        self.run(Operation::Get, key, move |disk| disk.get_range(&owned, &range)).await
    }

    async fn get_ranges(&self, key: &Key, ranges: &[Range<u64>]) -> Result<Option<Vec<Bytes>>, StoreError> {
        let (owned, ranges) = (key.clone(), ranges.to_vec());
        self.run(Operation::Get, key, move |disk| disk.get_ranges(&owned, &ranges)).await
    }

    /// The file is opened once for all of them.
    fn requests_for(&self, ranges: &[Range<u64>]) -> u64 {
        u64::from(!ranges.is_empty())
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let (owned, after) = (prefix.clone(), after.cloned());
        let limit = limit.min(crate::LIST_LIMIT_MAX);
        self.run(Operation::List, prefix, move |disk| walk::list(disk, &owned, after.as_ref(), limit)).await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        let owned = key.clone();
        self.run(Operation::Delete, key, move |disk| disk.delete(&owned)).await
    }

    async fn read_register(&self, key: &Key, bytes_max: u64) -> Result<Option<(Bytes, Tag)>, StoreError> {
        let owned = key.clone();
        self.run(Operation::Get, key, move |disk| disk.read_register(&owned, bytes_max)).await
    }

    async fn compare_and_set(
        &self,
        key: &Key,
        expected: Option<&Tag>,
        body: Bytes,
    ) -> Result<Swap, StoreError> {
        crate::limits::check_register(key, &body)?;
        let (owned, expected) = (key.clone(), expected.cloned());
        self.run(Operation::Put, key, move |disk| disk.compare_and_set(&owned, expected.as_ref(), &body))
            .await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        let owned = prefix.clone();
        self.run(Operation::Harden, prefix, move |disk| disk.harden(&owned)).await
    }

    fn describe(&self) -> String {
        format!("file://{}", self.disk.root().display())
    }
}

impl BlockingPool for TokioPool {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        match tokio::runtime::Handle::try_current() {
            // The job answers through its own channel, so the handle has nothing to add.
            Ok(runtime) => drop(runtime.spawn_blocking(job)),
            Err(_) => job(),
        }
    }
}

impl BlockingPool for Inline {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("root", &self.disk.root()).field("pool", &self.pool).finish()
    }
}

#[cfg(test)]
pub(crate) mod tests;
