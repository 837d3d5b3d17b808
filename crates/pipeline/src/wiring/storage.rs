//! From `store:` and `object_storage:` to an opened store.
//!
//! Owns the translation of the settings and the wait for a store that is away at the start. Does not own the keys (`model::storage`), what
//! the environment adds to them (`object::connect`), nor the stores. A store that is to be written shows first that it refuses to put an
//! object twice ([`Store::probe`]), and a log's that it replaces a register under its condition ([`Store::probe_registers`]); one that is only read is left alone.

use std::sync::Arc;
use std::time::Duration;

use dataflow::{Effect, Runtime};
use engine::patient::Patient;
use engine::problem::{Noticed, STORE, State};
use engine::{Status, TokioRuntime};
use store::{Remote, Store, StoreError};

use crate::config::model::{ObjectStorage, Pipeline};
use crate::config::values::StoreUrl;

use super::WiringError;

/// Tries of one read by those who only look, and the longest pause between two: a lost answer is outlived, a store that is
/// away told within seconds.
const READ_TRIES_MAX: u64 = 5;
const READ_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Pause between two tries to reach a store at the start.
const AWAY_PAUSE: Duration = Duration::from_secs(2);

/// Opens the store of a pipeline to write it. Waits while it is away.
///
/// # Errors
/// When its settings do not do, it refuses this user, its bucket is missing, or it does not refuse to put an object twice.
pub async fn open(
    pipeline: &Pipeline,
    runtime: &dyn Runtime,
    status: &Status,
) -> Result<Arc<dyn Store>, WiringError> {
    let (url, remote) = (pipeline.store.to_string(), remote(pipeline)?);
    let store = blocking(move || store::url::open(&url, &remote)).await?;
    let met = |error: &StoreError| {
        let words = error.to_string();
        status.met(STORE, State::StoreAway, &words, Effect::None, Noticed::Asking, runtime.wall_ms());
    };
    reach(&*store, "the store", runtime, met).await?;
    status.ended(STORE, Noticed::Asking);
    Ok(store)
}

/// Opens the store of a pipeline only to read it; `None` if there is none yet. Writes nothing, not even a probe.
///
/// # Errors
/// When its settings do not do.
pub async fn open_to_read(pipeline: &Pipeline) -> Result<Option<Arc<dyn Store>>, WiringError> {
    read_only(pipeline.store.to_string(), remote(pipeline)?).await
}

/// The same by an address alone; what object storage needs besides comes from the environment.
///
/// # Errors
/// When the address is none.
pub async fn open_url_to_read(url: String) -> Result<Option<Arc<dyn Store>>, WiringError> {
    read_only(url, Remote::default()).await
}

async fn read_only(url: String, remote: Remote) -> Result<Option<Arc<dyn Store>>, WiringError> {
    let store = blocking(move || store::url::open_to_read(&url, &remote)).await?;
    let patient = |store| Patient::new(store, TokioRuntime::new(1), READ_PAUSE_MAX).tries(READ_TRIES_MAX);
    Ok(store.map(|store| Arc::new(patient(store)) as Arc<dyn Store>))
}

/// Waits until a store that is to be written answers, and shows that it refuses to put an object twice. `met` hears of each error that is waited out.
///
/// # Errors
/// When waiting does not help: it refuses this user, its bucket is missing or cannot be, or it overwrites.
pub(super) async fn reach(
    store: &dyn Store,
    what: &str,
    runtime: &dyn Runtime,
    met: impl Fn(&StoreError),
) -> Result<(), StoreError> {
    patiently(what, runtime, met, || store.probe(runtime.random())).await
}

/// The same of a log's store, which shows too that it replaces a register only if it is the one that was read.
///
/// # Errors
/// As [`reach`], and when it replaces whatever stands there.
pub(super) async fn reach_log(
    store: &dyn Store,
    what: &str,
    runtime: &dyn Runtime,
) -> Result<(), StoreError> {
    patiently(
        what,
        runtime,
        |_| (),
        || async {
            store.probe(runtime.random()).await?;
            store.probe_registers(runtime.random()).await
        },
    )
    .await
}

/// Asks until waiting does not help.
async fn patiently<F: Future<Output = Result<(), StoreError>>>(
    what: &str,
    runtime: &dyn Runtime,
    met: impl Fn(&StoreError),
    mut ask: impl FnMut() -> F,
) -> Result<(), StoreError> {
    let mut tries: u64 = 0;
    while let Err(error) = ask().await {
        if !error.kind.may_pass_at_start() {
            return Err(error);
        }
        met(&error);
        if tries.is_power_of_two() || tries == 0 {
            tracing::warn!(%error, "{what} is unavailable; trying again");
        }
        tries += 1;
        runtime.sleep(AWAY_PAUSE).await;
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    open: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, WiringError> {
    let opened = tokio::task::spawn_blocking(open).await;
    Ok(opened.map_err(|error| WiringError::Settings(format!("the store's start failed: {error}")))??)
}

/// How another store at `url` is reached: as the pipeline's own if both are on the same kind of object storage, else by the environment.
///
/// # Errors
/// When the certificates cannot be read.
pub fn remote_of(pipeline: &Pipeline, url: &StoreUrl) -> Result<Remote, WiringError> {
    match url.remote_scheme() == pipeline.store.remote_scheme() {
        true => remote(pipeline),
        false => Ok(Remote::default()),
    }
}

fn remote(pipeline: &Pipeline) -> Result<Remote, WiringError> {
    of_settings(pipeline.object_storage.as_ref())
}

/// How object storage is reached, by the settings of a file.
///
/// # Errors
/// When the certificates cannot be read.
pub fn of_settings(storage: Option<&ObjectStorage>) -> Result<Remote, WiringError> {
    let Some(storage) = storage else { return Ok(Remote::default()) };
    let text =
        |secret: &Option<crate::config::values::Secret>| secret.as_ref().map(|s| s.reveal().to_owned());
    let ca_pem = storage.ca.as_deref().map(|path| {
        std::fs::read(path).map_err(|error| {
            WiringError::Settings(format!("`object_storage.ca`: `{path}` cannot be read: {error}"))
        })
    });
    Ok(Remote {
        endpoint: storage.endpoint.as_ref().map(ToString::to_string),
        region: storage.region.clone(),
        access_key: text(&storage.access_key),
        secret_key: text(&storage.secret_key),
        session_token: text(&storage.session_token),
        account: storage.account.clone(),
        service_account: storage.service_account.clone(),
        allow_http: storage.allow_http,
        ca_pem: ca_pem.transpose()?,
    })
}
