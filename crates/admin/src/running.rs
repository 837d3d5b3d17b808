//! What the process that runs a pipeline on this machine says of it.
//!
//! Owns the question at `http.listen` and the bounds of its answer. Does not own the fields, which the program that listens there writes. One plain request
//! to an address of the pipeline file: no proxy, no redirect, no name to resolve.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use pipeline::config::model::Pipeline;
use pipeline::config::values::{Listen, StoreUrl};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use xxhash_rust::xxh3::xxh3_64;

/// A process that runs answers at once, however busy its lane is; a machine that is too busy gets more. `reset` and others take one that does not answer for
/// none, and end it. Only where a connection is taken and nothing comes is so long waited.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);

/// A thousand partitions are 100 kB.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// The lane at this moment, or why it is not known.
///
/// # Errors
/// When nothing answers, or something else does, such as a pipeline of this name in another store.
pub async fn ask(pipeline: &Pipeline) -> Result<Value, String> {
    ask_all(pipeline, store(&pipeline.store).as_deref()).await
}

/// Whether a process answers that runs a pipeline of this name, in whichever store: the one that is taken over may have the store by another way.
pub async fn answers(pipeline: &Pipeline) -> bool {
    ask_all(pipeline, None).await.is_ok()
}

/// What tells a store from others, without showing what it is called; `None` before it is there. A folder is known by its inode, which is the same by
/// every path.
pub fn store(url: &StoreUrl) -> Option<String> {
    if url.is_memory() {
        return None;
    }
    let place = match url.remote_scheme() {
        Some(_) => url.as_str().trim_end_matches('/').to_owned(),
        None => {
            let path = url.as_str();
            let folder = std::fs::metadata(path.strip_prefix("file://").unwrap_or(path)).ok()?;
            format!("inode {}", folder.ino())
        }
    };
    Some(format!("{:016x}", xxh3_64(place.as_bytes())))
}

async fn ask_all(pipeline: &Pipeline, store: Option<&str>) -> Result<Value, String> {
    let addresses = match pipeline.http.listen {
        Listen::None => return Err("the pipeline file lets it listen nowhere (`http.listen`)".into()),
        Listen::At(address) if address.port() == 0 => {
            return Err("it listens at any free port (`http.listen`)".into());
        }
        Listen::At(_) => pipeline.http.addresses().into_iter().map(here),
    };
    // Where other pipelines have the default port, this one has a later one. The first answer is that of the default port.
    let mut first = None;
    for address in addresses {
        match ask_at(address, pipeline).await.and_then(|status| of_store(status, store, address)) {
            Ok(status) => return Ok(status),
            Err(why) => drop(first.get_or_insert(why)),
        }
    }
    Err(first.unwrap_or_else(|| "the pipeline file names no address".into()))
}

/// The lane as the process at one address tells of it.
async fn ask_at(address: SocketAddr, pipeline: &Pipeline) -> Result<Value, String> {
    let asked = tokio::time::timeout(ANSWER_WAIT_MAX, get(address)).await;
    let text = match asked {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => return Err(format!("nothing answers at {address}: {error}")),
        Err(_) => return Err(format!("nothing answers at {address} within {} s", ANSWER_WAIT_MAX.as_secs())),
    };
    let Some(status) = body(&text).and_then(|body| serde_json::from_str::<Value>(body).ok()) else {
        return Err(format!("something else answers at {address}"));
    };
    match status["pipeline"].as_str() {
        Some(name) if name == pipeline.pipeline.as_str() => Ok(status),
        Some(name) => Err(format!("pipeline `{name}` answers at {address}")),
        None => Err(format!("something else answers at {address}")),
    }
}

/// The answer, unless it is of another store than this one. A process of an earlier release does not say.
fn of_store(status: Value, store: Option<&str>, address: SocketAddr) -> Result<Value, String> {
    match (status["store"].as_str(), store) {
        (Some(theirs), Some(own)) if theirs != own => {
            Err(format!("a pipeline of this name with another `store` answers at {address}"))
        }
        _ => Ok(status),
    }
}

/// Whether a process runs the pipeline, as far as this machine shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It answers on this machine.
    Here,
    /// Nothing listens at any of its addresses, and its store is on this machine.
    Nowhere,
    /// It may run elsewhere, or without being seen.
    Unknown,
}

/// Whether a process runs the pipeline: by the answers at all addresses that it may have, for other pipelines take the first of them.
pub async fn presence(pipeline: &Pipeline) -> Presence {
    // Only a store on this machine is surely used by this machine alone.
    let is_local = pipeline.store.remote_scheme().is_none();
    match presence_at(&pipeline.http.addresses(), pipeline.pipeline.as_str(), is_local).await {
        // What answers may be one of this name with another store.
        Presence::Here if ask(pipeline).await.is_err() => Presence::Unknown,
        presence => presence,
    }
}

async fn presence_at(addresses: &[SocketAddr], pipeline: &str, is_local: bool) -> Presence {
    // It listens nowhere, or at a port that nobody knows.
    let mut may_run =
        !is_local || addresses.is_empty() || addresses.iter().any(|address| address.port() == 0);
    for address in addresses {
        match name_at(here(*address)).await {
            Ok(Some(name)) if name == pipeline => return Presence::Here,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
            // Another pipeline, another program, or one that is suspended.
            Ok(_) | Err(_) => may_run = true,
        }
    }
    if may_run { Presence::Unknown } else { Presence::Nowhere }
}

/// The name of the pipeline that tells its status at an address; `None` if the answer is something else.
///
/// # Errors
/// When nobody answers there in time.
async fn name_at(address: SocketAddr) -> std::io::Result<Option<String>> {
    let answer = tokio::time::timeout(ANSWER_WAIT_MAX, get(address)).await;
    let answer = answer.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
    let status = body(&answer).and_then(|body| serde_json::from_str::<Value>(body).ok());
    Ok(status.and_then(|status| Some(status.get("pipeline")?.as_str()?.to_owned())))
}

/// Where a process that listens everywhere can be asked.
fn here(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, address.port()).into(),
        IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, address.port()).into(),
        _ => address,
    }
}

async fn get(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    // In HTTP/1.0 the answer comes whole and ends with the connection.
    stream.write_all(b"GET /status HTTP/1.0\r\nHost: localhost\r\n\r\n").await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The body of a good answer.
fn body(answer: &str) -> Option<&str> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.split(' ').nth(1).filter(|status| *status == "200").map(|_| body)
}

#[cfg(test)]
mod tests;
