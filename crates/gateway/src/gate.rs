//! What every route asks: who sends, which stream is meant, and what the body holds.
//!
//! Owns the rules of who may fill what. Does not own a protocol's words: a route makes them of a [`Refusal`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, Uri};
use dataflow::Runtime;
use listener::Names;
use metrics::counter;

use crate::auth::Auth;
use crate::body::{self, Raw};
use crate::budget::{Budget, Held};
use crate::options::ClientOptions;
use crate::refusal::{Kind, Refusal};
use crate::stream::Stream;

/// Characters of a tenant's name.
const TENANT_MAX: usize = 64;

/// What all routes share. Clones are the same gate.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

struct Inner {
    auth: Auth,
    streams: BTreeMap<String, Arc<Stream>>,
    tenant_header: Option<HeaderName>,
    budget: Budget,
    names: Option<Names>,
    answer_wait_max: Duration,
    runtime: Arc<dyn Runtime>,
    is_draining: AtomicBool,
}

/// Who sends a request.
#[derive(Clone)]
pub struct Caller {
    client: Option<Arc<ClientOptions>>,
    tenant: Option<String>,
}

impl Caller {
    /// The client's name; empty where nobody has to say.
    pub fn name(&self) -> &str {
        self.client.as_ref().map_or("", |client| &client.name)
    }

    /// The tenant for whom it sends.
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }
}

impl Gate {
    pub(crate) fn new(
        auth: Auth,
        streams: Vec<Arc<Stream>>,
        (tenant_header, names): (Option<HeaderName>, Option<Names>),
        budget: Budget,
        answer_wait_max: Duration,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        let streams = streams.into_iter().map(|stream| (stream.name.clone(), stream)).collect();
        let is_draining = AtomicBool::new(false);
        Self(Arc::new(Inner {
            auth,
            streams,
            tenant_header,
            budget,
            names,
            answer_wait_max,
            runtime,
            is_draining,
        }))
    }

    /// Who sends a request, by its headers.
    ///
    /// # Errors
    /// [`Kind::Unknown`] without the right secret; [`Kind::Forbidden`] when a web page sends it behind its user's back, or for a tenant that is not the
    /// client's.
    pub fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let names = self.0.names.as_ref();
        if let Some(refusal) = names.and_then(|names| names.check(uri, headers).err()) {
            return Err(Refusal::new(Kind::Forbidden, refusal.message()));
        }
        let client = self.0.auth.check(headers)?;
        let asked = self.0.tenant_header.as_ref().map(|name| asked(headers, name)).transpose()?.flatten();
        let own = client.as_ref().and_then(|client| client.tenant.clone());
        if let (Some(own), Some(asked)) = (&own, &asked)
            && own != asked
        {
            return Err(Refusal::new(
                Kind::Forbidden,
                "the request names another tenant than the client's own",
            ));
        }
        Ok(Caller { client, tenant: own.or(asked) })
    }

    /// The stream that a caller means by `name`: of its tenant, if it has one.
    ///
    /// # Errors
    /// [`Kind::NoStream`], and [`Kind::Forbidden`] for one that is not the caller's.
    pub fn stream(&self, caller: &Caller, name: &str) -> Result<Arc<Stream>, Refusal> {
        let whole = match &caller.tenant {
            Some(tenant) => format!("{tenant}.{name}"),
            None => name.to_owned(),
        };
        let allowed = caller.client.as_ref().and_then(|client| client.streams.as_ref());
        if allowed.is_some_and(|allowed| !allowed.contains(&whole)) {
            return Err(Refusal::new(Kind::Forbidden, "this client may not fill that stream"));
        }
        self.0.streams.get(&whole).cloned().ok_or_else(|| {
            Refusal::new(Kind::NoStream, "there is no such stream; a stream is made by the gateway's file")
        })
    }

    /// Reads the body of a request for a stream.
    ///
    /// # Errors
    /// As [`body::read`].
    pub async fn body(&self, stream: &Stream, headers: &HeaderMap, body: Body) -> Result<Raw, Refusal> {
        body::read(headers, body, stream.bounds, self.hold_for_request(stream)).await
    }

    /// Reads the body of a request whose streams only the body names. What it takes counts for the one of the caller's streams that has the most memory: a tenant holds
    /// no more than its streams may, so that it leaves the others their room.
    ///
    /// # Errors
    /// As [`body::read`], and [`Kind::NoStream`] for a caller who may fill none.
    pub async fn shared_body(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Raw, Refusal> {
        let bounds = self.filled_by(caller).map(|stream| stream.bounds).max_by_key(|bounds| bounds.bytes_max);
        // Without a tenant, those of tenants come last.
        let is_own = |stream: &Arc<Stream>| caller.tenant.is_some() || !stream.name.contains('.');
        let largest = self.filled_by(caller).max_by_key(|stream| (is_own(stream), stream.budget.size()));
        let (Some(bounds), Some(stream)) = (bounds, largest) else {
            return Err(Refusal::new(Kind::NoStream, "the gateway has no stream that this request may fill"));
        };
        body::read(headers, body, bounds, self.hold_for_request(stream)).await
    }

    /// The streams that a caller may fill.
    fn filled_by(&self, caller: &Caller) -> impl Iterator<Item = &Arc<Stream>> {
        let front = caller.tenant.as_ref().map_or_else(String::new, |tenant| format!("{tenant}."));
        let allowed = caller.client.as_ref().and_then(|client| client.streams.clone());
        self.0.streams.values().filter(move |stream| {
            stream.name.starts_with(&front)
                && allowed.as_ref().is_none_or(|allowed| allowed.contains(&stream.name))
        })
    }

    /// Holds nothing of the budgets of a stream yet, for one request; for a protocol that reads its bodies itself.
    pub(crate) fn hold_for_request(&self, stream: &Stream) -> Held {
        Held::of_request(&self.0.budget, &stream.budget)
    }

    /// Holds nothing of the budgets of a stream yet; for what waits for room.
    pub fn hold(&self, stream: &Stream) -> Held {
        Held::none(&self.0.budget, &stream.budget)
    }

    /// The longest wait for records to become durable, for a client that names none.
    pub fn answer_wait_max(&self) -> Duration {
        self.0.answer_wait_max
    }

    /// Time and compute threads.
    pub fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.0.runtime
    }

    /// Runs work on a compute thread.
    ///
    /// # Errors
    /// What the work ends with, and [`Kind::Unavailable`] if it panicked.
    pub async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let done = self.0.runtime.run(work).await;
        done.unwrap_or_else(|| Err(Refusal::new(Kind::Unavailable, "reading the body failed; report this")))
    }

    /// Whether requests are taken: not any more once the gateway was asked to stop.
    pub fn is_ready(&self) -> bool {
        !self.0.is_draining.load(Ordering::Acquire)
    }

    /// Whether requests are answered: they are taken, and every pipeline that they go to has begun to read.
    pub fn is_serving(&self) -> bool {
        self.is_ready() && self.streams().all(|stream| stream.is_open())
    }

    /// The streams, by their whole names.
    pub fn streams(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.0.streams.values()
    }

    /// Bytes in memory for requests of all streams that were not answered.
    pub fn held_bytes(&self) -> usize {
        self.0.budget.held_bytes()
    }

    pub(crate) fn drain(&self) {
        self.0.is_draining.store(true, Ordering::Release);
    }

    pub(crate) fn auth(&self) -> &Auth {
        &self.0.auth
    }
}

/// Counts a request by what it was answered. Only a stream that was found becomes a label: a client cannot make up new ones.
pub(crate) fn count(stream: Option<&Stream>, code: &'static str) {
    let stream = stream.map_or_else(String::new, |stream| stream.name.clone());
    counter!("forebay_gateway_requests_total", "stream" => stream, "code" => code).increment(1);
}

/// The word for what a request was answered.
pub(crate) fn word<T>(taken: &Result<T, Refusal>) -> &'static str {
    taken.as_ref().map_or_else(|refusal| refusal.kind.word(), |_| "ok")
}

/// The tenant that a request names. Of two names, one may be its sender's and the other that of a proxy that knows who sends.
fn asked(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.any(|other| other != first) {
        let message = format!("the request has more than one `{name}`, with different tenants");
        return Err(Refusal::new(Kind::Malformed, message));
    }
    tenant(first.to_str().ok()).map(Some)
}

fn tenant(text: Option<&str>) -> Result<String, Refusal> {
    let is_name = |text: &&str| {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=TENANT_MAX).contains(&text.len()) && text.bytes().all(is_known)
    };
    let named = text.filter(is_name).map(str::to_owned);
    named.ok_or_else(|| {
        let message = format!("the tenant's name has 1 to {TENANT_MAX} of letters, digits, `-` and `_`");
        Refusal::new(Kind::Malformed, message)
    })
}

#[cfg(test)]
mod tests;
