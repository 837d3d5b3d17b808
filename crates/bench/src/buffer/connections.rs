//! A server of HTTP/1.1 in this process, such as a proxy before S3 or before ClickHouse.
//!
//! Owns the taking of connections, and that all of them end with the server's task. Does not own what a request gets (`buffer::proxy`, `buffer::answers`).

use std::error::Error;

use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Takes connections until its task is ended, which ends them too; each request gets what `answer` says. Where that is an error, the connection breaks.
pub async fn serve<A, F, B, E>(listener: TcpListener, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    // A few processes of the benchmark connect, with a few dozen connections each.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let service = service_fn(answer.clone());
        connections.spawn(async move {
            // A connection that breaks is its client's to open again, and to tell of.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
