//! A store around whose puts something happens.
//!
//! Owns what is passed on as it is. Does not own what happens, which each test says.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use store::{Entry, Key, Prefix, Put, Store, StoreError};

/// What happens, of a put of this key.
pub type Happening = Box<dyn Fn(&Key) -> BoxFuture<'static, ()> + Send + Sync>;

/// What a put of this key and body comes to, if it is not passed on.
pub type Instead =
    Box<dyn Fn(Key, Vec<Bytes>) -> BoxFuture<'static, Option<Result<Put, StoreError>>> + Send + Sync>;

/// The store.
pub struct AroundPuts {
    inner: Arc<dyn Store>,
    before: Happening,
    instead: Instead,
    behind: Happening,
}

impl AroundPuts {
    /// A store in which nothing happens.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        let nothing = || -> Happening { Box::new(|_| Box::pin(async {})) };
        let instead: Instead = Box::new(|_, _| Box::pin(async { None }));
        Self { inner, before: nothing(), instead, behind: nothing() }
    }

    /// The same, with this before each put.
    pub fn before(self, before: impl Fn(&Key) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self { before: Box::new(before), ..self }
    }

    /// The same, with this in place of each put that it answers.
    pub fn instead(
        self,
        instead: impl Fn(Key, Vec<Bytes>) -> BoxFuture<'static, Option<Result<Put, StoreError>>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { instead: Box::new(instead), ..self }
    }

    /// The same, with this between each put and its answer.
    pub fn behind(self, behind: impl Fn(&Key) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self { behind: Box::new(behind), ..self }
    }
}

impl std::fmt::Debug for AroundPuts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AroundPuts").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for AroundPuts {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        (self.before)(key).await;
        let put = match (self.instead)(key.clone(), body.clone()).await {
            Some(put) => put,
            None => self.inner.put_if_absent(key, body).await,
        };
        (self.behind)(key).await;
        put
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        self.inner.get(key, bytes_max).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        self.inner.get_range(key, range).await
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        self.inner.delete(key).await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        self.inner.harden(prefix).await
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
