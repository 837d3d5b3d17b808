//! A store on object storage: S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage.
//!
//! Owns the translation of the [`Store`] contract into one request an operation, and the bounds on sizes, time and
//! concurrency. Does not own the protocols and signatures (the `object_store` crate, none of whose types leave this
//! folder), nor retries: every request is sent once, and the error's effect says what its answer leaves open.
//!
//! | module    | what it holds                                                             |
//! |-----------|---------------------------------------------------------------------------|
//! | `connect` | from a URL and settings to a client of the provider                       |
//! | `wire`    | one HTTP request with its deadline; answers that are no success           |
//! | `answer`  | from such an answer to the store's words: exists, absent, kind, effect    |
//! | `probes`  | whether the service holds the conditions that the contract needs          |
//!
//! ```text
//! s3://bucket/prefix        bucket, and the folder that all keys are below
//! prefix/lane/journal/7     the object of the key `lane/journal/7`
//! prefix/.probe/4f1c…       written twice and removed by the check at the start; never listed
//! ```
//!
//! An object is put in one request, whatever its size: only so is it conditional as a whole with every provider. The
//! deadline grows with the size, so that a slow link is given its time ([`wire::RATE_BYTES_MIN`]).
//!
//! A put whose connection breaks leaves nothing: every provider promises that. Puts to S3 carry a checksum all the same, since versitygw up to 1.8 keeps the part that has
//! arrived if it has nothing to compare it with.
//!
//! Rule 8 of the contract cannot be seen here: a bucket has no folders. Rule 3 holds without [`Store::harden`], for a
//! provider answers a put when the object is durable.

mod answer;
mod connect;
mod probes;
mod wire;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, GetResult, ObjectStore, PutMode, PutOptions, PutPayload, PutResult, UpdateVersion,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::limits::{check_bytes_max, check_range, check_register, check_size};
use crate::{
    Entry, ErrorKind, Key, LIST_LIMIT_MAX, OBJECT_BYTES_MAX, Operation, Prefix, Put, Remote, Store,
    StoreError, Swap, Tag,
};
use answer::Answer;

/// Requests of one store under way at once; more wait their turn. Enough to fill a fast link with small objects, far
/// below what makes a provider slow a client down.
pub const REQUESTS_MAX: usize = 32;

/// The signature of a put of up to so many bytes covers them, which takes a third of a millisecond. Roots of logs and all but a few records of a journal are shorter: a part of one
/// of these would take everything with it.
const HASHED_BYTES_MAX: usize = 512 << 10;

/// Memory that is taken for an object at once; more only as its bytes come.
const RESERVED_BYTES: usize = 8 << 20;

/// The buffer of an object grows by so many times what it already holds.
const GROWTH: usize = 7;

/// A store on object storage. Clones share one bound of requests.
#[derive(Clone)]
pub struct ObjectStorage {
    objects: Arc<dyn ObjectStore>,
    /// The same for puts of at most [`HASHED_BYTES_MAX`].
    hashing: Arc<dyn ObjectStore>,
    pages: Arc<dyn PaginatedListStore>,
    root: Prefix,
    url: String,
    requests: Arc<Semaphore>,
    /// The service compares versions, and takes no ETag for them.
    by_version: bool,
}

impl ObjectStorage {
    /// A store at `url` (`s3://bucket/prefix`, `gs://…`, `az://…`). Sends nothing.
    ///
    /// # Errors
    /// When the URL or the settings are not as they must be.
    pub fn new(url: &str, remote: &Remote) -> Result<Self, StoreError> {
        connect::connect(url, remote)
    }

    fn path(&self, key: &str) -> Path {
        let path = match self.root.as_str() {
            "" => key.to_owned(),
            root => format!("{root}/{key}"),
        };
        // Keys and the root are of letters, digits and a few signs, without empty or dotted segments but our own.
        Path::parse(path).expect("keys are valid paths")
    }

    async fn turn(&self) -> SemaphorePermit<'_> {
        self.requests.acquire().await.expect("the semaphore is never closed")
    }

    /// The client for a put of so many bytes.
    fn putting(&self, bytes: usize) -> &dyn ObjectStore {
        if bytes <= HASHED_BYTES_MAX { &*self.hashing } else { &*self.objects }
    }

    async fn put(&self, path: &Path, place: &str, body: Vec<Bytes>) -> Result<Put, StoreError> {
        let _turn = self.turn().await;
        let options = PutOptions { mode: PutMode::Create, extensions: wire::told(), ..PutOptions::default() };
        let body = PutPayload::from_iter(body);
        match self.putting(body.content_length()).put_opts(path, body, options).await {
            Ok(_) => Ok(Put::Created),
            Err(error) => match Answer::of(&error) {
                answer if answer.is_exists() => Ok(Put::Exists),
                answer => Err(answer.into_error(Operation::Put, place, error)),
            },
        }
    }

    /// A put under a condition. `None` if the condition does not hold.
    async fn swap(
        &self,
        path: &Path,
        place: &str,
        expected: Option<&Tag>,
        body: Bytes,
    ) -> Result<Option<PutResult>, StoreError> {
        let _turn = self.turn().await;
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let mode = match expected {
            None => PutMode::Create,
            // A tag that this service never gave names no value of it.
            Some(Tag { version, .. }) if self.by_version && version.is_empty() => return Ok(None),
            Some(Tag { e_tag, version }) => {
                PutMode::Update(UpdateVersion { e_tag: text(e_tag), version: text(version) })
            }
        };
        let options = PutOptions { mode, extensions: wire::told(), ..PutOptions::default() };
        match self.putting(body.len()).put_opts(path, PutPayload::from(body), options).await {
            Ok(result) => Ok(Some(result)),
            Err(error) => match Answer::of(&error) {
                answer if answer.is_exists() => Ok(None),
                // What is to be replaced is not there any more.
                answer if expected.is_some() && answer.is_absent() => Ok(None),
                answer => Err(answer.into_error(Operation::Put, place, error)),
            },
        }
    }

    /// The tag of what was answered. An object without one could never be replaced.
    fn tag(&self, place: &str, e_tag: Option<String>, version: Option<String>) -> Result<Tag, StoreError> {
        match (e_tag, version) {
            (None, None) => {
                let reason = "the service gives objects no ETag, so none can be replaced under a condition";
                Err(StoreError::new(ErrorKind::NotSupported, Operation::Get, place, reason))
            }
            (e_tag, version) => {
                Ok(Tag { e_tag: e_tag.unwrap_or_default(), version: version.unwrap_or_default() })
            }
        }
    }

    async fn remove(&self, path: &Path, place: &str) -> Result<(), StoreError> {
        let _turn = self.turn().await;
        // By single requests even where there is one for many: that one is not to be had everywhere.
        let one = futures::stream::iter([Ok(path.clone())]).boxed();
        match self.objects.delete_stream(one).next().await {
            None | Some(Ok(_)) => Ok(()),
            Some(Err(error)) => match Answer::of(&error) {
                answer if answer.is_absent() => Ok(()),
                answer => Err(answer.into_error(Operation::Delete, place, error)),
            },
        }
    }

    /// What is asked for, opened; `None` if there is no object.
    async fn open(
        &self,
        path: &Path,
        place: &str,
        range: Option<Range<u64>>,
        head: bool,
    ) -> Result<Option<GetResult>, StoreError> {
        let range = range.map(GetRange::Bounded);
        let options = GetOptions { range, head, extensions: wire::told(), ..GetOptions::default() };
        match self.objects.get_opts(path, options).await {
            Ok(result) => Ok(Some(result)),
            Err(error) => match Answer::of(&error) {
                answer if answer.is_absent() => Ok(None),
                answer => Err(answer.into_error(Operation::Get, place, error)),
            },
        }
    }

    /// What is there, and the tag that names it.
    async fn read_tagged(
        &self,
        path: &Path,
        place: &str,
        bytes_max: u64,
    ) -> Result<Option<(Bytes, Tag)>, StoreError> {
        let _turn = self.turn().await;
        let Some(result) = self.open(path, place, None, false).await? else { return Ok(None) };
        check_bytes_max(place, result.meta.size, bytes_max)?;
        let tag = self.tag(place, result.meta.e_tag.clone(), result.meta.version.clone())?;
        Ok(Some((read(result, place).await?, tag)))
    }

    async fn get_bounded(
        &self,
        path: &Path,
        place: &str,
        range: Option<Range<u64>>,
        bytes_max: u64,
    ) -> Result<Option<Bytes>, StoreError> {
        let _turn = self.turn().await;
        let Some(result) = self.open(path, place, range.clone(), false).await? else { return Ok(None) };
        let size_bytes = result.meta.size;
        match &range {
            None => check_bytes_max(place, size_bytes, bytes_max)?,
            Some(range) => {
                check_range(place, size_bytes, range)?;
                if result.range != *range {
                    let reason = format!("bytes `{range:?}` were asked for and `{:?}` came", result.range);
                    return Err(StoreError::new(ErrorKind::Corrupt, Operation::Get, place, reason));
                }
            }
        }
        read(result, place).await.map(Some)
    }
}

/// The whole of an answer whose length was checked.
async fn read(result: GetResult, place: &str) -> Result<Bytes, StoreError> {
    let len = result.range.end - result.range.start;
    let broken = |reason: String| StoreError::new(ErrorKind::Io, Operation::Get, place, reason);
    let mut pieces = result.into_stream();
    let mut whole = BytesMut::new();
    while (whole.len() as u64) < len {
        let piece = wire::in_time(pieces.next())
            .await
            .ok_or_else(|| broken(format!("the answer stopped after {} of {len} bytes", whole.len())))?;
        let piece = match piece {
            None => return Err(broken(format!("the answer ended after {} of {len} bytes", whole.len()))),
            Some(Err(error)) => return Err(Answer::of(&error).into_error(Operation::Get, place, error)),
            Some(Ok(piece)) => piece,
        };
        if whole.len() as u64 + piece.len() as u64 > len {
            return Err(broken(format!("the answer has more than the {len} bytes that it promised")));
        }
        if whole.is_empty() && piece.len() as u64 == len {
            return Ok(piece);
        }
        // The length is within what the caller takes, but so far only announced: memory grows with what comes, and in few steps, since each copies what came before.
        if whole.capacity() - whole.len() < piece.len() {
            let more = piece.len().max(GROWTH * whole.len()).max(RESERVED_BYTES);
            whole.reserve((len as usize - whole.len()).min(more));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

#[async_trait]
impl Store for ObjectStorage {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        check_size(key, &body)?;
        self.put(&self.path(key.as_str()), key.as_str(), body).await
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        self.get_bounded(&self.path(key.as_str()), key.as_str(), None, bytes_max).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        let (path, place) = (self.path(key.as_str()), key.as_str());
        if range.start < range.end && range.end <= OBJECT_BYTES_MAX {
            return self.get_bounded(&path, place, Some(range), u64::MAX).await;
        }
        // No request can ask for an empty range, and none beyond what any object has is understood everywhere; the size
        // says whether it lies within the object.
        let _turn = self.turn().await;
        let Some(result) = self.open(&path, place, None, true).await? else { return Ok(None) };
        check_range(key, result.meta.size, &range)?;
        check_bytes_max(key, range.end, OBJECT_BYTES_MAX)?;
        Ok(Some(Bytes::new()))
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let limit = limit.min(LIST_LIMIT_MAX);
        let below = match prefix.as_str() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        // Folders' names sort as if they ended in a slash, as objects' names do here.
        let offset = match after.map(Key::as_str) {
            Some(after) if after.starts_with(&below) => Some(self.path(after).to_string()),
            Some(after) if after > below.as_str() => return Ok(Vec::new()),
            Some(_) | None => None,
        };
        let root = match self.root.as_str() {
            "" => String::new(),
            root => format!("{root}/"),
        };
        let mut entries = Vec::new();
        let mut page_token = None;
        // A page may hold nothing but names that are not keys; an empty answer would end the list.
        while entries.is_empty() && limit > 0 {
            let options = PaginatedListOptions {
                offset: offset.clone(),
                max_keys: Some(limit),
                page_token,
                extensions: wire::told(),
                ..PaginatedListOptions::default()
            };
            let page = {
                let _turn = self.turn().await;
                let wanted = format!("{root}{below}");
                self.pages
                    .list_paginated(Some(&wanted).filter(|w| !w.is_empty()).map(|w| w.as_str()), options)
                    .await
            };
            let page = page.map_err(|e| Answer::of(&e).into_error(Operation::List, prefix.as_str(), e))?;
            let keys = page.result.objects.into_iter().filter_map(|object| {
                let key = Key::new(object.location.as_ref().strip_prefix(&root)?).ok()?;
                // Azure's services that do not know `startFrom` list from the beginning, whatever is asked for.
                let is_behind = after.is_none_or(|after| key > *after);
                is_behind.then_some(Entry { key, size_bytes: object.size })
            });
            entries.extend(keys.take(limit));
            page_token = page.page_token;
            if page_token.is_none() {
                break;
            }
        }
        Ok(entries)
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        self.remove(&self.path(key.as_str()), key.as_str()).await
    }

    async fn read_register(&self, key: &Key, bytes_max: u64) -> Result<Option<(Bytes, Tag)>, StoreError> {
        self.read_tagged(&self.path(key.as_str()), key.as_str(), bytes_max).await
    }

    async fn compare_and_set(
        &self,
        key: &Key,
        expected: Option<&Tag>,
        body: Bytes,
    ) -> Result<Swap, StoreError> {
        check_register(key, &body)?;
        let place = key.as_str();
        Ok(match self.swap(&self.path(place), place, expected, body).await? {
            Some(result) => Swap::Done(self.tag(place, result.e_tag, result.version)?),
            None => Swap::Refused,
        })
    }

    async fn harden(&self, _prefix: &Prefix) -> Result<(), StoreError> {
        // What was answered for is durable, and what was not answered for is invisible or durable as well.
        Ok(())
    }

    async fn probe(&self, nonce: u128) -> Result<(), StoreError> {
        self.probe_puts(nonce).await
    }

    async fn probe_registers(&self, nonce: u128) -> Result<(), StoreError> {
        self.probe_swaps(nonce).await
    }

    fn describe(&self) -> String {
        self.url.clone()
    }
}

impl fmt::Debug for ObjectStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStorage").field("url", &self.url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
