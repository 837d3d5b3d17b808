//! Where the log and the pipeline's store are, and what is asked of it.
//!
//! Owns a proxy before S3 that takes longer, as a service in another house does, counts what is paid for, and may be away for a while. Does not
//! own S3 itself, nor prices (`buffer::costs`). The proxy changes nothing of a request or an answer, so that signatures hold.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use http_body_util::Either;
use http_body_util::Empty;
use hyper::body::{Body, Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// A bucket of an S3 service.
#[derive(Clone)]
pub struct Bucket {
    /// `http://host:port`.
    pub endpoint: String,
    /// The bucket's name.
    pub name: String,
    /// Its region.
    pub region: String,
    /// The id of the key.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucket")
            .field("endpoint", &self.endpoint)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What the store takes longer than it does.
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
}

/// What was asked of a store; nothing is known of a folder.
#[derive(Clone, Copy, Debug)]
pub struct Traffic(Option<Counted>);

impl Traffic {
    /// What was counted.
    pub fn counted(self) -> Option<Counted> {
        self.0
    }

    /// What was asked since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let of = |(now, before): (Counted, Counted)| Counted {
            puts: now.puts - before.puts,
            gets: now.gets - before.gets,
            put_bytes: now.put_bytes - before.put_bytes,
        };
        Self(self.0.zip(before.0).map(of))
    }
}

/// The place of one run.
pub struct Store {
    /// What stands before the names of its parts.
    base: String,
    /// The lines of `object_storage`; none for a folder.
    connection: String,
    proxy: Option<Proxy>,
}

impl Store {
    /// A prefix of the bucket that is new, or a folder below `dir`. The proxy listens at `port`, or at any free one if that is 0.
    ///
    /// # Errors
    /// When the proxy cannot listen or the keys cannot be written.
    pub async fn start(
        bucket: Option<&Bucket>,
        delay: Delay,
        name: &str,
        run: &str,
        dir: &Path,
        port: u16,
    ) -> anyhow::Result<Self> {
        let Some(bucket) = bucket else {
            let base = format!("file://{}", dir.display());
            return Ok(Self { base, connection: String::new(), proxy: None });
        };
        let proxy = Proxy::start(&bucket.endpoint, delay, port).await?;
        let key = |name: &str, value: &str| -> anyhow::Result<PathBuf> {
            let path = dir.join(name);
            write_private(&path, value).with_context(|| format!("cannot write `{}`", path.display()))?;
            Ok(path)
        };
        let (id, secret) = (key("access-key", &bucket.access_key)?, key("secret-key", &bucket.secret_key)?);
        let connection = format!(
            "object_storage:\n  endpoint: {}\n  region: {}\n  access_key: file:{}\n  secret_key: file:{}\n",
            proxy.url,
            bucket.region,
            id.display(),
            secret.display()
        );
        Ok(Self { base: format!("s3://{}/{name}/{run}", bucket.name), connection, proxy: Some(proxy) })
    }

    /// The address of a part.
    pub fn url(&self, part: &str) -> String {
        format!("{}/{part}", self.base)
    }

    /// The lines of a file that say where a part is and how it is reached.
    pub fn lines(&self, part: &str) -> String {
        format!("store: {}\n{}", self.url(part), self.connection)
    }

    /// Whether it can be away: a folder cannot.
    pub fn can_be_away(&self) -> bool {
        self.proxy.is_some()
    }

    /// Cuts every connection and refuses new ones for this long, as a service that is killed and started again.
    ///
    /// # Errors
    /// When it is a folder, or the port is taken meanwhile.
    pub async fn kill(&self, away: Duration) -> anyhow::Result<()> {
        let proxy = self.proxy.as_ref().context("a folder is never away")?;
        proxy.stop().await;
        tokio::time::sleep(away).await;
        proxy.serve().await
    }

    /// What was asked of it so far.
    pub fn traffic(&self) -> Traffic {
        Traffic(self.proxy.as_ref().map(|proxy| proxy.shared.counted()))
    }
}

/// Writes a file that only its owner may read: the keys are those of the caller's bucket.
fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(text.as_bytes())
}

struct Proxy {
    url: String,
    /// Where it listens, also after it was away.
    address: SocketAddr,
    shared: Arc<Shared>,
    /// `None` while it is away.
    serving: RefCell<Option<JoinHandle<()>>>,
}

struct Shared {
    /// `host:port`.
    upstream: String,
    delay: Delay,
    client: Client<HttpConnector, Incoming>,
    puts: AtomicU64,
    gets: AtomicU64,
    put_bytes: AtomicU64,
}

impl Proxy {
    async fn start(endpoint: &str, delay: Delay, port: u16) -> anyhow::Result<Self> {
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
        });
        let serving = RefCell::new(Some(tokio::spawn(serve(listener, shared.clone()))));
        Ok(Self { url: format!("http://{address}"), address, shared, serving })
    }

    async fn stop(&self) {
        let serving = self.serving.borrow_mut().take();
        if let Some(serving) = serving {
            serving.abort();
            // Its end is the end of its connections too.
            let _ = serving.await;
        }
    }

    async fn serve(&self) -> anyhow::Result<()> {
        let listener = listen(self.address).await?;
        *self.serving.borrow_mut() = Some(tokio::spawn(serve(listener, self.shared.clone())));
        Ok(())
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

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    // Two processes of ours connect, with a few dozen connections each. They end with this task.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let shared = shared.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let shared = shared.clone();
                async move { Ok::<_, Infallible>(shared.relay(request).await) }
            });
            // A connection that breaks is its client's to open again.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

impl Shared {
    async fn relay(&self, mut request: Request<Incoming>) -> Response<Either<Incoming, Empty<Bytes>>> {
        tokio::time::sleep(self.count(&request)).await;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let uri =
            Uri::builder().scheme("http").authority(self.upstream.as_str()).path_and_query(path).build();
        let answer = match uri {
            Ok(uri) => {
                *request.uri_mut() = uri;
                self.client.request(request).await.ok()
            }
            Err(_) => None,
        };
        match answer {
            Some(answer) => answer.map(Either::Left),
            None => {
                let mut answer = Response::new(Either::Right(Empty::new()));
                *answer.status_mut() = StatusCode::BAD_GATEWAY;
                answer
            }
        }
    }

    /// Counts a request, and says how long it is to wait.
    fn count(&self, request: &Request<impl Body>) -> Duration {
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
        Counted { puts: of(&self.puts), gets: of(&self.gets), put_bytes: of(&self.put_bytes) }
    }
}

#[cfg(test)]
mod tests;
