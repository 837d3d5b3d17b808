//! A store that counts what it is asked for.
//!
//! Owns the metrics of every kind of store: on object storage a request costs money and a round trip, on local disk an fsync. Does not own
//! an answer, which it passes on unchanged, nor the tries after a failed one ([`crate::patient`], [`crate::retry`]). One operation is one
//! request, except for a list that passes by foreign objects and for several ranges of one object, which are as many as the store says
//! ([`Store::requests_for`]).
//!
//! | outcome   | meaning                                                        |
//! |-----------|----------------------------------------------------------------|
//! | `ok`      | done                                                           |
//! | `exists`  | a put that found an object of its name                         |
//! | `absent`  | a get of an object that is not there                           |
//! | `failed`  | it did not happen                                              |
//! | `unknown` | it may have happened: a lost answer                            |

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use dataflow::Effect;
use dataflow::Runtime;
use metrics::{counter, histogram};
use store::{Entry, ErrorKind, Key, Operation, Prefix, Put, Store, StoreError, Swap, Tag};

use crate::Status;
use crate::problem::{Noticed, STORE, State};

/// A store whose requests, bytes and failures are counted.
pub struct Measured {
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    status: Arc<Status>,
    /// Bytes of the smallest object that was not taken since the store last took one so large: a full disk still takes small ones,
    /// and they must not pass for its recovery.
    not_taken: AtomicU64,
}

impl Measured {
    /// `store`, with its requests told to `status` and the metrics.
    pub fn new(store: Arc<dyn Store>, runtime: Arc<dyn Runtime>, status: Arc<Status>) -> Self {
        Self { store, runtime, status, not_taken: AtomicU64::new(u64::MAX) }
    }

    fn tell<T>(
        &self,
        kind: &'static str,
        begun: Duration,
        result: &Result<T, StoreError>,
        good: impl FnOnce(&T) -> (&'static str, u64),
    ) {
        self.tell_requests(kind, 1, begun, result, good);
    }

    fn tell_requests<T>(
        &self,
        kind: &'static str,
        requests: u64,
        begun: Duration,
        result: &Result<T, StoreError>,
        good: impl FnOnce(&T) -> (&'static str, u64),
    ) {
        let (outcome, bytes) = match result {
            Ok(value) => good(value),
            Err(error) => match error.effect {
                Effect::None => ("failed", 0),
                Effect::Unknown => ("unknown", 0),
            },
        };
        match result {
            Ok(_) => self.status.ended(STORE, Noticed::Asking),
            Err(error) => {
                let noticed = if takes_nothing(error) { Noticed::Inserting } else { Noticed::Asking };
                let now_ms = self.runtime.wall_ms();
                let words = error.to_string();
                self.status.met(STORE, State::of_store(error.kind), &words, error.effect, noticed, now_ms);
            }
        }
        let seconds = self.runtime.elapsed().saturating_sub(begun).as_secs_f64();
        counter!("forebay_store_requests_total", "kind" => kind, "outcome" => outcome).increment(requests);
        counter!("forebay_store_bytes_total", "kind" => kind).increment(bytes);
        histogram!("forebay_store_request_seconds", "kind" => kind).record(seconds);
        self.status.update(|s| {
            let told = s.store_requests.entry(kind).or_default();
            told.requests += requests;
            told.bytes += bytes;
            told.errors += u64::from(result.is_err());
        });
    }
}

impl Measured {
    fn tell_put(&self, begun: Duration, bytes: u64, result: &Result<Put, StoreError>) {
        match result {
            Err(error) if takes_nothing(error) => {
                self.not_taken.fetch_min(bytes, Ordering::AcqRel);
            }
            Err(_) => {}
            // Without a failure before there is nothing to end.
            Ok(_) if self.not_taken.load(Ordering::Acquire) == u64::MAX => {}
            Ok(Put::Created) if bytes < self.not_taken.load(Ordering::Acquire) => {}
            // An object that is there already was taken by an earlier try.
            Ok(Put::Created | Put::Exists) => {
                self.not_taken.store(u64::MAX, Ordering::Release);
                self.status.ended(STORE, Noticed::Inserting);
            }
        }
        self.tell("put", begun, result, |put| put_as(put, bytes));
    }
}

/// True for a store that can be read and takes no object: only an object that it takes shows that this is over. Those who put
/// try again until it does.
fn takes_nothing(error: &StoreError) -> bool {
    error.operation == Operation::Put
        && error.effect == Effect::None
        && matches!(error.kind, ErrorKind::Full | ErrorKind::Permission)
}

fn found(bytes: &Option<Bytes>) -> (&'static str, u64) {
    bytes.as_ref().map_or(("absent", 0), |bytes| ("ok", bytes.len() as u64))
}

fn bytes_of(body: &[Bytes]) -> u64 {
    body.iter().map(|piece| piece.len() as u64).sum()
}

fn put_as(put: &Put, bytes: u64) -> (&'static str, u64) {
    match put {
        Put::Created => ("ok", bytes),
        Put::Exists => ("exists", 0),
    }
}

#[async_trait]
impl Store for Measured {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        let (begun, bytes) = (self.runtime.elapsed(), bytes_of(&body));
        let result = self.store.put_if_absent(key, body).await;
        self.tell_put(begun, bytes, &result);
        result
    }

    async fn put_past_cache(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        let (begun, bytes) = (self.runtime.elapsed(), bytes_of(&body));
        let result = self.store.put_past_cache(key, body).await;
        self.tell_put(begun, bytes, &result);
        result
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        let begun = self.runtime.elapsed();
        let result = self.store.get(key, bytes_max).await;
        self.tell("get", begun, &result, found);
        result
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        let begun = self.runtime.elapsed();
        let result = self.store.get_range(key, range).await;
        self.tell("get", begun, &result, found);
        result
    }

    async fn get_ranges(&self, key: &Key, ranges: &[Range<u64>]) -> Result<Option<Vec<Bytes>>, StoreError> {
        let begun = self.runtime.elapsed();
        let result = self.store.get_ranges(key, ranges).await;
        self.tell_requests("get", self.requests_for(ranges), begun, &result, |all| match all {
            Some(all) => ("ok", all.iter().map(|bytes| bytes.len() as u64).sum()),
            None => ("absent", 0),
        });
        result
    }

    fn requests_for(&self, ranges: &[Range<u64>]) -> u64 {
        self.store.requests_for(ranges)
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let begun = self.runtime.elapsed();
        let result = self.store.list(prefix, after, limit).await;
        self.tell("list", begun, &result, |_| ("ok", 0));
        result
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        let begun = self.runtime.elapsed();
        let result = self.store.delete(key).await;
        self.tell("delete", begun, &result, |()| ("ok", 0));
        result
    }

    async fn read_register(&self, key: &Key, bytes_max: u64) -> Result<Option<(Bytes, Tag)>, StoreError> {
        let begun = self.runtime.elapsed();
        let result = self.store.read_register(key, bytes_max).await;
        self.tell("get", begun, &result, |read| match read {
            Some((bytes, _)) => ("ok", bytes.len() as u64),
            None => ("absent", 0),
        });
        result
    }

    async fn compare_and_set(
        &self,
        key: &Key,
        expected: Option<&Tag>,
        body: Bytes,
    ) -> Result<Swap, StoreError> {
        let (begun, bytes) = (self.runtime.elapsed(), body.len() as u64);
        let result = self.store.compare_and_set(key, expected, body).await;
        self.tell("put", begun, &result, |swap| match swap {
            Swap::Done(_) => ("ok", bytes),
            Swap::Refused => ("exists", 0),
        });
        result
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        let begun = self.runtime.elapsed();
        let result = self.store.harden(prefix).await;
        self.tell("harden", begun, &result, |()| ("ok", 0));
        result
    }

    async fn probe(&self, nonce: u128) -> Result<(), StoreError> {
        self.store.probe(nonce).await
    }

    async fn probe_registers(&self, nonce: u128) -> Result<(), StoreError> {
        self.store.probe_registers(nonce).await
    }

    fn describe(&self) -> String {
        self.store.describe()
    }
}

impl std::fmt::Debug for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Measured").field("store", &self.store).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
