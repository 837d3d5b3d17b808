//! ClickHouse's answers as its own HTTP port gives them to clickhouse-go, made of those of the engine as a library.
//!
//! Owns a server before ClickHouse for the collector's exporter, and what it adds to an answer. clickhouse-go asks by `client_protocol_version` for
//! blocks as the native protocol has them: with a few bytes before each block that say what it is, and one behind each type that says how the column is
//! serialized. The engine as a library gives those of `FORMAT Native`, which lack both. Nothing of what is sent is changed: an insert goes
//! through as it comes, and its answer is empty. Does not own the collector (`buffer::collector`), nor the measurement (`buffer::straight`).

use std::sync::Arc;

use anyhow::{Context, bail};
use clickhouse::compress::{Compressor, Method, decompress};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::connections::serve;

/// The columns of a table are a thousandth of it.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// A block for itself: neither of totals, nor of one bucket of several.
const BLOCK_INFO: [u8; 8] = [1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0];
/// A column is serialized as its type says.
const AS_EVER: u8 = 0;

/// A server that listens.
pub struct Answers {
    url: String,
    serving: JoinHandle<()>,
}

/// What its connections share.
struct Shared {
    /// `host:port`.
    upstream: String,
    client: Client<HttpConnector, Incoming>,
}

impl Answers {
    /// Starts one before ClickHouse at `url`, which is `http://host:port`.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(url: &str) -> anyhow::Result<Self> {
        let upstream =
            url.strip_prefix("http://").with_context(|| format!("`{url}` is no `http://` address"))?;
        let upstream = upstream.trim_end_matches('/').to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("no port is free")?;
        let url = format!("http://{}", listener.local_addr()?);
        let client = Client::builder(TokioExecutor::new()).build_http();
        let shared = Arc::new(Shared { upstream, client });
        // What breaks is the collector's to try again.
        let serving = tokio::spawn(serve(listener, move |request| {
            let shared = shared.clone();
            async move { shared.relay(request).await }
        }));
        Ok(Self { url, serving })
    }

    /// `http://host:port`.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    async fn relay(&self, mut request: Request<Incoming>) -> anyhow::Result<Response<Full<Bytes>>> {
        let query = request.uri().query().unwrap_or_default();
        let is_insert = query.split('&').any(|pair| pair.starts_with("query="));
        let is_packed = query.split('&').any(|pair| pair == "compress=1");
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let uri = Uri::builder().scheme("http").authority(self.upstream.as_str()).path_and_query(path);
        *request.uri_mut() = uri.build()?;
        let (mut head, body) = self.client.request(request).await?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let mut body = body.map_err(|error| anyhow::anyhow!("the answer broke off: {error}"))?.to_bytes();
        if head.status == StatusCode::OK && !is_insert && !body.is_empty() {
            body = if is_packed { packed(&later(&decompress(&body)?)?) } else { later(&body)? }.into();
        }
        head.headers.remove(CONTENT_LENGTH);
        head.headers.remove(TRANSFER_ENCODING);
        Ok(Response::from_parts(head, Full::new(body)))
    }
}

fn packed(body: &[u8]) -> Vec<u8> {
    let mut chunks = Compressor::new(Method::Lz4);
    chunks.push(body);
    chunks.finish()
}

/// Blocks of `FORMAT Native` as the native protocol has them.
fn later(blocks: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut copying = Copying { rest: blocks, out: Vec::with_capacity(blocks.len() + 256) };
    while !copying.rest.is_empty() {
        copying.block()?;
    }
    Ok(copying.out)
}

/// Blocks that are copied piece by piece.
struct Copying<'b> {
    rest: &'b [u8],
    out: Vec<u8>,
}

impl<'b> Copying<'b> {
    fn block(&mut self) -> anyhow::Result<()> {
        self.out.extend_from_slice(&BLOCK_INFO);
        let (columns, rows) = (self.number()?, self.number()?);
        for _ in 0..columns {
            self.text()?;
            let kind = self.text()?;
            self.out.push(AS_EVER);
            match kind {
                b"String" => {
                    for _ in 0..rows {
                        self.text()?;
                    }
                }
                b"UInt8" => {
                    self.bytes(rows)?;
                }
                b"UInt32" => {
                    self.bytes(rows.saturating_mul(4))?;
                }
                other => bail!("a column of an answer is of `{}`", String::from_utf8_lossy(other)),
            }
        }
        Ok(())
    }

    /// Bytes behind their number.
    fn text(&mut self) -> anyhow::Result<&'b [u8]> {
        let length = self.number()?;
        self.bytes(length)
    }

    /// Seven bits a byte, the lowest first.
    fn number(&mut self) -> anyhow::Result<usize> {
        let mut number = 0_u64;
        for shift in (0..63).step_by(7) {
            let [byte] = self.bytes(1)? else { bail!("one byte was asked for") };
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(usize::try_from(number)?);
            }
        }
        bail!("a number of an answer has more than nine bytes")
    }

    fn bytes(&mut self, count: usize) -> anyhow::Result<&'b [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count).context("an answer ends within a block")?;
        self.out.extend_from_slice(bytes);
        self.rest = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
