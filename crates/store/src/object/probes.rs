//! Whether a service holds the conditions that the contract needs: asked once at a start, by objects of names that nobody else uses.
//!
//! Owns the probing objects, and that none is left for long: a process that dies, or a store that goes away between the first request and the last, leaves
//! one of a few bytes, and the next probe takes it away. Does not own requests ([`super`]).

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::ObjectMeta;
use object_store::list::PaginatedListOptions;
use object_store::path::Path;

use super::answer::Answer;
use super::{ObjectStorage, wire};
use crate::{ErrorKind, Operation, Put, StoreError};

/// Where the probing object of [`Store::probe`] lies. No [`Key`] begins with a dot.
const PROBES: &str = ".probe";

/// Puts of it. A name of its own is no folder; a gateway over a file system says so all the same when another process's probe is removed
/// at that moment, and the folder with it. So many times in a row are no chance any more.
const PROBE_TRIES: u32 = 5;

/// What is left of other probes goes once it is so much older than the newest object beside it, by the service's own clock. A probe takes seconds.
const LEFT_SECONDS: i64 = 3_600;
/// So many objects are looked at by one probe, a page of any service. What is behind them goes with later probes.
const LEFT_MAX: usize = 1_000;
/// So many are removed at a time.
const REMOVALS: usize = 8;

impl ObjectStorage {
    /// Puts an object of a random name twice; the second put must be refused, and the object is removed again.
    pub(super) async fn probe_puts(&self, nonce: u128) -> Result<(), StoreError> {
        let key = format!("{PROBES}/{nonce:032x}");
        // The URL has the root already, as the path has.
        let (path, place) = (self.path(&key), format!("{}/{key}", self.url));
        let lacks = |reason: &str| {
            Err(StoreError::new(ErrorKind::NotSupported, Operation::Open, &self.url, reason.to_owned()))
        };
        let mut tries = 1;
        let first = loop {
            match self.put(&path, &place, vec![Bytes::from_static(b"first")]).await {
                Err(error) if error.kind == ErrorKind::Conflict && tries < PROBE_TRIES => tries += 1,
                first => break first?,
            }
        };
        let second = self.put(&path, &place, vec![Bytes::from_static(b"second")]).await;
        let found = self.get_bounded(&path, &place, None, 64).await;
        let swept = self.sweep(&path).await;
        self.remove(&path, &place).await?;
        swept?;
        match (first, second?, found?.as_deref()) {
            // Nobody else draws the name: a first put that is refused for what it says itself was sent once more by a proxy.
            (_, Put::Exists, Some(b"first")) => Ok(()),
            (Put::Exists, _, None | Some(b"second")) => {
                lacks("it refuses to put an object that is not there")
            }
            (_, Put::Created, _) => lacks(
                "it overwrites an object that was to be put only if absent (`If-None-Match: *` has no effect), so two \
                 processes could write one journal",
            ),
            (_, _, None) => lacks("an object that was just put is not found"),
            (_, _, Some(_)) => lacks("an object has other content than was put first"),
        }
    }

    /// Creates a register of a random name, replaces it by its tag, and once more by the tag that is no longer its own, which must be refused; it is removed again.
    pub(super) async fn probe_swaps(&self, nonce: u128) -> Result<(), StoreError> {
        // Not the name of the object that is put only if absent: a service may take a moment to free that.
        let key = format!("{PROBES}/{nonce:032x}-register");
        let (path, place) = (self.path(&key), format!("{}/{key}", self.url));
        let found = self.swaps(&path, &place).await;
        self.remove(&path, &place).await?;
        match found? {
            None => Ok(()),
            Some(reason) => Err(StoreError::new(
                ErrorKind::NotSupported,
                Operation::Open,
                &self.url,
                format!(
                    "{reason}; a log needs object storage that replaces an object under a condition (docs/stores.md)"
                ),
            )),
        }
    }

    /// What a register does other than it must, if anything: it is created, replaced, replaced by a stale tag, created again, and read.
    async fn swaps(&self, path: &Path, place: &str) -> Result<Option<&'static str>, StoreError> {
        let value = |text: &'static str| Bytes::from_static(text.as_bytes());
        let mut tries = 1;
        let created = loop {
            match self.swap(path, place, None, value("first")).await {
                Err(error) if error.kind == ErrorKind::Conflict && tries < PROBE_TRIES => tries += 1,
                created => break created?,
            }
        };
        // By what a read says, as a claim does it, and a commit behind a lost answer: something before the service may alter that.
        let found = self.read_tagged(path, place, 64).await?;
        let Some((_, first)) = found.filter(|(read, _)| *read == b"first"[..]) else {
            return Ok(Some(match created {
                None => "it refuses to create a register that is not there",
                Some(_) => "a register that was just created is not read as it is",
            }));
        };
        let replaced = self.swap(path, place, Some(&first), value("second")).await?;
        if replaced.is_none() {
            // A swap that is refused for what it says itself was sent once more by a proxy.
            let read = self.get_bounded(path, place, None, 64).await?;
            if read.as_deref() != Some(b"second") {
                return Ok(Some("it refuses to replace an object whose ETag was given (`If-Match`)"));
            }
        }
        if self.swap(path, place, Some(&first), value("third")).await?.is_some() {
            return Ok(Some(
                "it replaces an object although the ETag that was given is no longer the object's (`If-Match` has no effect), so two owners of one \
                 log could commit, each over the other's records",
            ));
        }
        if self.swap(path, place, None, value("fourth")).await?.is_some() {
            return Ok(Some("it creates a register that is there (`If-None-Match: *` has no effect)"));
        }
        let read = self.get_bounded(path, place, None, 64).await?;
        Ok((read.as_deref() != Some(b"second"))
            .then_some("a register has another value than it was given last"))
    }

    /// Removes what earlier probes have left. `own` is among what is listed, and tells what time it is.
    async fn sweep(&self, own: &Path) -> Result<(), StoreError> {
        let prefix = own.as_ref().trim_end_matches(|letter| letter != '/');
        let options = PaginatedListOptions {
            max_keys: Some(LEFT_MAX),
            extensions: wire::told(),
            ..PaginatedListOptions::default()
        };
        let page = {
            let _turn = self.turn().await;
            self.pages.list_paginated(Some(prefix), options).await
        };
        let page = page.map_err(|e| Answer::of(&e).into_error(Operation::List, prefix, e))?;
        let left = left(&page.result.objects).map(|object| Ok(object.location.clone()));
        let removals = futures::stream::iter(left);
        removals
            .try_for_each_concurrent(REMOVALS, |path| async move { self.remove(&path, path.as_ref()).await })
            .await
    }
}

/// Objects that are far older than the newest of them.
fn left(objects: &[ObjectMeta]) -> impl Iterator<Item = &ObjectMeta> {
    let newest = objects.iter().map(|object| object.last_modified.timestamp()).max().unwrap_or(0);
    objects.iter().filter(move |object| object.last_modified.timestamp() < newest - LEFT_SECONDS)
}
