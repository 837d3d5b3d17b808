//! What this crate's unit tests run on: tokio's real clock and threads, a gate, and a scripted server. Built for tests alone.
//!
//! Owns these stand-ins. Does not own what a server answers: each unit test says so, and `tests/live.rs` starts ClickHouse by `testkit`.
#![allow(clippy::disallowed_methods, reason = "tests run in real time")]

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use dataflow::{Gate, Runtime, Task};
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Statements about users that the checks print, as unit tests find them and `tests/live.rs` has them parsed.
#[allow(dead_code, reason = "each of the two test programs uses a part of it")]
pub const ACCESS: &str = include_str!("../tests/live/access.txt");

/// The statement that lengthens the age of tokens.
#[allow(dead_code, reason = "each of the two test programs uses a part of it")]
pub const AGE: &str = "ALTER TABLE `d`.`t` MODIFY SETTING replicated_deduplication_window_seconds = 604800";

/// Whether a fault's statement is one that a server parses in a test.
#[allow(dead_code, reason = "each of the two test programs uses a part of it")]
pub fn is_parsed_by_a_server(fault: &str) -> bool {
    let statement = fault.split("fix it with: ").last().unwrap_or_default();
    ACCESS.lines().any(|line| line == statement)
}

/// Tokio's clock and threads.
pub struct RealTime(Instant);

impl RealTime {
    pub fn shared() -> Arc<dyn Runtime> {
        Arc::new(Self(Instant::now()))
    }
}

impl Runtime for RealTime {
    fn wall_ms(&self) -> i64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn begin_ms(&self) -> i64 {
        0
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) -> Task {
        let handle = tokio::spawn(task);
        Task::new(move || handle.abort())
    }

    fn compute(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }

    fn compute_threads(&self) -> usize {
        1
    }

    fn random(&self) -> u128 {
        4
    }
}

/// A gate that is open or shut.
pub struct Fixed(pub bool);

#[async_trait]
impl Gate for Fixed {
    async fn may_complete(&self) -> bool {
        self.0
    }
}

/// A server that answers each question as told, one after the other.
#[allow(dead_code, reason = "each of the two test programs uses a part of it")]
pub async fn serve(listener: TcpListener, mut answer: impl FnMut(&str) -> String) {
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut seen = String::new();
        let mut piece = [0; 4096];
        while !seen.contains("JSONCompactEachRow") {
            let len = socket.read(&mut piece).await.unwrap();
            seen.push_str(&String::from_utf8_lossy(&piece[..len]));
        }
        let body = answer(&seen);
        let head = format!(
            "HTTP/1.1 200 OK\r\nX-ClickHouse-Query-Id: x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    }
}
