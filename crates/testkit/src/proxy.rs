//! A proxy before an HTTP server (ClickHouse, S3) that misbehaves on order.
//!
//! Owns the listening port, the rules and the record of what went by. Does not own what a rule may do (`proxy::rule`), nor how a connection
//! is served (`proxy::relay`). Does not change a request or an answer that no rule speaks of, except for `Connection`, since each request
//! goes to the server on a connection of its own.
//!
//! ```text
//! client ── keep-alive ──▶ FaultProxy ── one connection a request ──▶ server
//!                             │ rules: the first that matches and has turns left decides
//!                             └ record: the query, the body's length and hash, the outcome
//! ```

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::process::without_forks;
use crate::wait::{free_port, poll};

mod relay;
mod rule;

pub use rule::{Answer, Fault, Reach, Rule, RuleId, Seen};

/// The accepting thread looks this often for a connection and for orders; it bounds what the proxy adds to a connect.
const ACCEPT_EVERY: Duration = Duration::from_millis(1);
/// Orders to the accepting thread are followed within a few looks; only a starved machine needs longer.
const OBEY_MAX: Duration = Duration::from_secs(120);
/// More connections than any client under test opens; beyond them new ones are closed.
const CONNECTIONS_MAX: usize = 256;
/// The record keeps the newest so many requests.
const RECORD_MAX: usize = 10_000;

/// The proxy. Passes everything until rules are added; dropped, it cuts every connection.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// What went by, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that were closed at once because too many were open.
    pub connections_over: u64,
    /// Requests whose head was read.
    pub requests: u64,
    /// Requests that a rule decided on.
    pub faults: u64,
    /// Requests that are here to their last byte and wait for a delay, or did.
    pub delayed: u64,
    /// Requests for which the server could not be reached.
    pub unreachable: u64,
}

impl FaultProxy {
    /// A proxy on a free port before the server at `http://HOST:PORT`, which need not run yet.
    pub fn start(upstream: &str) -> Result<FaultProxy> {
        let authority =
            upstream.strip_prefix("http://").with_context(|| format!("`{upstream}` is no `http://` URL"))?;
        let authority = authority.trim_end_matches('/');
        let upstream = authority.to_socket_addrs().with_context(|| format!("`{authority}` is no address"))?;
        let upstream = upstream.last().with_context(|| format!("`{authority}` has no address"))?;
        let port = free_port();
        let shared = Arc::new(Shared { upstream, state: Mutex::default() });
        let listener = listen(port).with_context(|| format!("cannot listen on port {port}"))?;
        shared.lock().listening = true;
        let for_thread = Arc::clone(&shared);
        let acceptor = Some(std::thread::spawn(move || accept_all(listener, port, &for_thread)));
        Ok(FaultProxy { port, shared, acceptor })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Adds a rule after those that are there.
    pub fn add(&self, rule: Rule) -> RuleId {
        let mut state = self.shared.lock();
        let id = RuleId(state.next_rule);
        state.next_rule += 1;
        state.rules.insert(id, rule);
        id
    }

    /// Every request from now on gets these parameters, unless it names them itself: what a user's profile does to the settings of a
    /// request to ClickHouse. An empty list ends that.
    pub fn profile(&self, parameters: &[(&str, &str)]) {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.shared.lock().profile = parameters.iter().map(owned).collect();
    }

    /// From now on requests reach the server with the parameters that this accepts alone, and without a word about the others.
    pub fn pass_parameters(&self, is_passed: fn(&str) -> bool) {
        self.shared.lock().is_passed = Some(is_passed);
    }

    /// Takes a rule away; requests that it holds in a delay or a hang stay with it.
    pub fn remove(&self, id: RuleId) {
        self.shared.lock().rules.remove(&id);
    }

    /// Takes every rule away.
    pub fn clear(&self) {
        self.shared.lock().rules.clear();
    }

    /// How often a rule has decided, also after it was taken away.
    pub fn fired(&self, id: RuleId) -> u64 {
        self.shared.lock().fired.get(&id).copied().unwrap_or(0)
    }

    /// Cuts every connection and refuses new ones, as a server that is not there. When it returns, no connect succeeds.
    pub fn refuse(&self) -> Result<()> {
        self.order(true)
    }

    /// Accepts connections again, after [`FaultProxy::refuse`].
    pub fn accept(&self) -> Result<()> {
        self.order(false)
    }

    /// Cuts every open connection; new ones are welcome.
    pub fn cut_connections(&self) {
        self.shared.lock().cut_all();
    }

    /// What went by so far.
    pub fn counters(&self) -> Counters {
        self.shared.lock().counters
    }

    /// The newest 10,000 requests that were answered or are over, in the order of their beginnings. A client that has any of
    /// its answer finds its request here; one that was cut or reset, or whose connection ended, may be ahead of it.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.lock().seen.values().cloned().collect()
    }

    fn order(&self, refuse: bool) -> Result<()> {
        self.shared.lock().refusing = refuse;
        poll(OBEY_MAX, || {
            let state = self.shared.lock();
            (state.listening != refuse).then_some(())
        })
        .ok_or_else(|| {
            anyhow!("the proxy did not {} within {OBEY_MAX:?}", if refuse { "refuse" } else { "accept" })
        })
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.stopping = true;
            state.cut_all();
        }
        let ended = self.acceptor.take().is_none_or(|acceptor| acceptor.join().is_ok());
        if !ended {
            eprintln!("testkit: the proxy's accepting thread panicked");
        }
    }
}

/// What the proxy's threads share.
#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: BTreeMap<RuleId, Rule>,
    fired: BTreeMap<RuleId, u64>,
    next_rule: u64,
    /// Parameters of requests that do not name them.
    profile: Vec<(String, String)>,
    /// The parameters that are passed on; all without it.
    is_passed: Option<fn(&str) -> bool>,
    /// Every open socket, of clients and to the server, so that they can be cut.
    open: BTreeMap<u64, TcpStream>,
    next_open: u64,
    clients: usize,
    /// By the number of the request.
    seen: BTreeMap<u64, Seen>,
    counters: Counters,
    refusing: bool,
    listening: bool,
    stopping: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers a request, and lets the first fitting rule with turns left decide on it.
    fn decide(&self, seen: &Seen) -> (u64, Option<(RuleId, Fault)>) {
        let mut state = self.lock();
        let number = state.counters.requests;
        state.counters.requests += 1;
        let decision =
            state.rules.iter_mut().find_map(|(id, rule)| rule.take(seen).map(|fault| (*id, fault)));
        if let Some((id, _)) = decision {
            state.counters.faults += 1;
            *state.fired.entry(id).or_default() += 1;
        }
        (number, decision)
    }

    fn record(&self, number: u64, seen: Seen) {
        let mut state = self.lock();
        state.seen.insert(number, seen);
        if state.seen.len() > RECORD_MAX {
            state.seen.pop_first();
        }
    }

    /// Notes a socket for cutting, until the guard is dropped. A socket that comes too late is cut at once.
    fn register(&self, stream: &TcpStream) -> io::Result<Registered<'_>> {
        let copy = stream.try_clone()?;
        let mut state = self.lock();
        if state.stopping || state.refusing {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let number = state.next_open;
        state.next_open += 1;
        state.open.insert(number, copy);
        Ok(Registered { shared: self, number })
    }
}

impl State {
    fn cut_all(&mut self) {
        for stream in self.open.values() {
            // A socket that the peer has closed already is as cut as it can be.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// A socket's place in the list of open ones.
struct Registered<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.shared.lock().open.remove(&self.number);
    }
}

fn listen(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn accept_all(listener: TcpListener, port: u16, shared: &Arc<Shared>) {
    let mut listener = Some(listener);
    loop {
        let (stopping, refusing) = {
            let state = shared.lock();
            (state.stopping, state.refusing)
        };
        if stopping {
            return;
        }
        if refusing {
            without_forks(|| listener = None);
            // After the port is closed, so that none slips in between.
            shared.lock().cut_all();
        } else if listener.is_none() {
            // Somebody may hold the port for a moment; the caller of `accept` waits, with a bound.
            listener = listen(port).ok();
        }
        shared.lock().listening = listener.is_some();
        match listener.as_ref().map(TcpListener::accept) {
            Some(Ok((stream, _))) => welcome(stream, shared),
            // Nothing to accept, a connection that went away in the queue, or no listener: look again.
            Some(Err(_)) | None => std::thread::sleep(ACCEPT_EVERY),
        }
    }
}

fn welcome(stream: TcpStream, shared: &Arc<Shared>) {
    {
        let mut state = shared.lock();
        if state.clients == CONNECTIONS_MAX {
            state.counters.connections_over += 1;
            return;
        }
        state.clients += 1;
        state.counters.connections += 1;
    }
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        relay::serve(stream, &shared);
        shared.lock().clients -= 1;
    });
}

#[cfg(test)]
mod tests;
