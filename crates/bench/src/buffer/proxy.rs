//! A proxy before S3 or ClickHouse that changes nothing of a request or an answer, so that signatures hold.
//!
//! Owns what it adds: it takes longer, as a service in another house does, counts what is paid for, may be away for a while, and can hold a
//! request at a named moment until something was killed ([`Proxy::trap`]). Does not own prices (`buffer::costs`), nor when a trap is set
//! (`buffer::crash`). When what stands behind it gives no answer, the connection of the request breaks, as it does without a proxy.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{self, Poll};
use std::time::Duration;

use anyhow::Context;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::connections::serve;

/// What a store takes longer than it does.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Delay {
    pub put: Duration,
    pub get: Duration,
}

/// What was asked so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Requests at the price of a PUT: PUT, POST and lists.
    pub puts: u64,
    /// Requests at the price of a GET: GET and HEAD.
    pub gets: u64,
    /// Bytes in the bodies of PUTs.
    pub put_bytes: u64,
    /// Of the PUTs: data objects of the log.
    pub objects: u64,
    /// Of the PUTs: commits of the log.
    pub roots: u64,
    /// Of the PUTs: records of the pipeline's journal.
    pub records: u64,
}

/// What a trap may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A data object of the log is put.
    PutObject,
    /// A data object of the log is read.
    GetObject,
    /// The root of the log is put: by a commit, or a claim.
    PutRoot,
    /// A record of a pipeline's journal is put: by a batch, or a claim.
    PutRecord,
    /// Rows are inserted.
    Insert,
}

impl Asked {
    fn of(request: &Request<impl Body>) -> Option<Self> {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let (is_object, is_root) = (path.contains("/p/0/data/"), path.ends_with("/p/0/root"));
        match *request.method() {
            Method::PUT if is_object => Some(Self::PutObject),
            Method::GET if is_object => Some(Self::GetObject),
            Method::PUT if is_root => Some(Self::PutRoot),
            Method::PUT if path.contains("/lane-0/journal/") => Some(Self::PutRecord),
            Method::POST if query.contains("query=INSERT") => Some(Self::Insert),
            _ => None,
        }
    }
}

/// The moment of a request at which a trap snaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// It has come, and is held before it is passed on.
    Coming,
    /// All of it was passed on. It goes on as ever.
    Passed,
    /// It was answered, and the answer is held.
    Answered,
}

/// A trap that was set for the next request of a kind. Such a request is held until this is dropped; then its connection breaks.
#[derive(Debug)]
pub struct Trap {
    caught: oneshot::Receiver<()>,
    /// Its end is what the request waits for.
    _holds: oneshot::Sender<()>,
}

impl Trap {
    /// Waits until there is a request in it; false if that was not within `bound`.
    pub async fn has_caught(&mut self, bound: Duration) -> bool {
        matches!(tokio::time::timeout(bound, &mut self.caught).await, Ok(Ok(())))
    }
}

/// The other side of a [`Trap`].
struct Set {
    asked: Asked,
    at: At,
    caught: oneshot::Sender<()>,
    held: oneshot::Receiver<()>,
}

/// A proxy that listens.
pub struct Proxy {
    url: String,
    /// Where it listens, also after it was away.
    address: SocketAddr,
    shared: Arc<Shared>,
    /// `None` while it is away.
    serving: RefCell<Option<JoinHandle<()>>>,
}

/// What its connections share.
struct Shared {
    /// `host:port`.
    upstream: String,
    delay: Delay,
    client: Client<HttpConnector, Watched>,
    puts: AtomicU64,
    gets: AtomicU64,
    put_bytes: AtomicU64,
    objects: AtomicU64,
    roots: AtomicU64,
    records: AtomicU64,
    trap: Mutex<Option<Set>>,
}

impl Proxy {
    /// Starts one before `endpoint`, which is `http://host:port`; it listens at `port`, or at any free one if that is 0.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(endpoint: &str, delay: Delay, port: u16) -> anyhow::Result<Self> {
        let upstream = endpoint
            .strip_prefix("http://")
            .with_context(|| format!("`{endpoint}` is no `http://` address"))?
            .trim_end_matches('/')
            .to_owned();
        let listener = listen(([127, 0, 0, 1], port).into()).await?;
        let address = listener.local_addr()?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let shared = Arc::new(Shared {
            upstream,
            delay,
            client,
            puts: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            put_bytes: AtomicU64::new(0),
            objects: AtomicU64::new(0),
            roots: AtomicU64::new(0),
            records: AtomicU64::new(0),
            trap: Mutex::new(None),
        });
        let serving = RefCell::new(Some(serving(listener, shared.clone())));
        Ok(Self { url: format!("http://{address}"), address, shared, serving })
    }

    /// `http://host:port`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Cuts every connection and refuses new ones, as a service that was killed.
    pub async fn stop(&self) {
        let serving = self.serving.borrow_mut().take();
        if let Some(serving) = serving {
            serving.abort();
            // Its end is the end of its connections too.
            let _ = serving.await;
        }
    }

    /// Takes connections again.
    ///
    /// # Errors
    /// When the port was taken meanwhile.
    pub async fn serve(&self) -> anyhow::Result<()> {
        let listener = listen(self.address).await?;
        *self.serving.borrow_mut() = Some(serving(listener, self.shared.clone()));
        Ok(())
    }

    /// What was asked so far.
    pub fn counted(&self) -> Counted {
        self.shared.counted()
    }

    /// Sets a trap for the next such request, in place of one that was set before.
    pub fn trap(&self, asked: Asked, at: At) -> Trap {
        let (catches, caught) = oneshot::channel();
        let (holds, held) = oneshot::channel();
        let set = Set { asked, at, caught: catches, held };
        *self.shared.trap.lock().unwrap_or_else(PoisonError::into_inner) = Some(set);
        Trap { caught, _holds: holds }
    }
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("the proxy cannot listen at `{address}`"))
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.get_mut() {
            serving.abort();
        }
    }
}

/// Answers what comes at `listener`, in a task of its own.
fn serving(listener: TcpListener, shared: Arc<Shared>) -> JoinHandle<()> {
    tokio::spawn(serve(listener, move |request| {
        let shared = shared.clone();
        async move { shared.relay(request).await.ok_or_else(|| io::Error::other("no answer")) }
    }))
}

/// A body that may say when all of it was passed on.
struct Watched {
    body: Incoming,
    passed: Option<oneshot::Sender<()>>,
}

impl Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let is_over = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(_)) => self.body.is_end_stream(),
            Poll::Pending => false,
        };
        if is_over && let Some(passed) = self.passed.take() {
            // If nobody waits any more, nobody needs to know.
            let _ = passed.send(());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Shared {
    /// The answer to a request; `None` where there is none, and its connection is to break.
    async fn relay(&self, mut request: Request<Incoming>) -> Option<Response<Incoming>> {
        let asked = Asked::of(&request);
        self.hold(asked, At::Coming).await?;
        tokio::time::sleep(self.count(&request, asked)).await;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let uri =
            Uri::builder().scheme("http").authority(self.upstream.as_str()).path_and_query(path).build();
        *request.uri_mut() = uri.ok()?;
        let passed = self.take(asked, At::Passed).map(|set| set.caught);
        let request = request.map(|body| Watched { body, passed });
        let answer = self.client.request(request).await.ok()?;
        self.hold(asked, At::Answered).await?;
        Some(answer)
    }

    /// The trap for a request at this moment, if there is one.
    fn take(&self, asked: Option<Asked>, at: At) -> Option<Set> {
        let is_for_it = |set: &mut Set| Some(set.asked) == asked && set.at == at;
        self.trap.lock().unwrap_or_else(PoisonError::into_inner).take_if(is_for_it)
    }

    /// Lets a request go on unless there is a trap for it; then it is held, and `None` once the trap is open.
    async fn hold(&self, asked: Option<Asked>, at: At) -> Option<()> {
        let Some(set) = self.take(asked, at) else { return Some(()) };
        // If nobody waits any more, the trap is open already.
        let _ = set.caught.send(());
        let _ = set.held.await;
        None
    }

    /// Counts a request, and says how long it is to wait.
    fn count(&self, request: &Request<impl Body>, asked: Option<Asked>) -> Duration {
        let kind = match asked {
            Some(Asked::PutObject) => Some(&self.objects),
            Some(Asked::PutRoot) => Some(&self.roots),
            Some(Asked::PutRecord) => Some(&self.records),
            Some(Asked::GetObject | Asked::Insert) | None => None,
        };
        if let Some(kind) = kind {
            kind.fetch_add(1, Relaxed);
        }
        let is_list = request.uri().query().is_some_and(|query| query.contains("list-type"));
        match *request.method() {
            // Nothing is charged for a deletion.
            Method::DELETE => self.delay.put,
            Method::GET | Method::HEAD if !is_list => {
                self.gets.fetch_add(1, Relaxed);
                self.delay.get
            }
            Method::GET => {
                self.puts.fetch_add(1, Relaxed);
                self.delay.get
            }
            _ => {
                self.puts.fetch_add(1, Relaxed);
                self.put_bytes.fetch_add(request.body().size_hint().lower(), Relaxed);
                self.delay.put
            }
        }
    }

    fn counted(&self) -> Counted {
        let of = |number: &AtomicU64| number.load(Relaxed);
        Counted {
            puts: of(&self.puts),
            gets: of(&self.gets),
            put_bytes: of(&self.put_bytes),
            objects: of(&self.objects),
            roots: of(&self.roots),
            records: of(&self.records),
        }
    }
}

#[cfg(test)]
mod tests;
