//! Opens the logs, listens, and ends in order.
//!
//! Owns the start and the end. Does not own connections and TLS (`listener`), the routes (a module for each protocol), nor an append
//! (`gateway::stream`). What was answered is durable whenever the process ends; draining is only kinder to those who wait.
//!
//! ```text
//! claim every log ─▶ read the names of late requests ─▶ listen ─▶ serve
//! asked to stop ─▶ no new connections ─▶ requests under way are answered ─▶ appends are committed ─▶ end
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use dataflow::Runtime;
use futures::future::{join_all, select_all, try_join_all};
use listener::{Bounds, Edge, Names};
use object_log::{Clock, LogError, LogPartition, Owner, labels};
use store::{Prefix, Store};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::auth::{Auth, SecretError};
use crate::body::BodyBounds;
use crate::budget::Budget;
use crate::files::{Following, Place, file_of};
use crate::gate::Gate;
use crate::keys::{Key, Keys};
use crate::options::{Fills, Limits, Options, OtlpStreams, StreamOptions};
use crate::stream::{Destination, Stream};
use crate::syslog::{Bound, SyslogOptions};
use crate::{elastic, ingest, loki, otlp, prometheus, splunk};

/// The longest wait for the head of a request, and for the next request of a kept connection.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(60);
/// The largest head: names of streams, a token, and what proxies add.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// The longest wait for a client to take bytes of its answer.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(30);

/// By how much longer than their names records stay: two machines' clocks may differ by this.
const KEPT_LONGER: Duration = Duration::from_secs(60);

/// Why a gateway does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// A client's secrets.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A stream's log.
    #[error("stream `{stream}`: {error}")]
    Log {
        /// The stream.
        stream: String,
        /// Why.
        error: LogError,
    },
    /// The address.
    #[error("cannot listen at `{address}`: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything that was under way was answered.
    Drained,
    /// Time ran out with requests or appends under way; what was answered is durable.
    OutOfTime,
}

/// A gateway that owns its logs and listens.
pub struct Server {
    /// One for each address, the main one first; none where nothing is taken over HTTP.
    listeners: Vec<(TcpListener, SocketAddr)>,
    gate: Gate,
    owners: Vec<(String, Owner)>,
    syslog: Vec<Bound>,
    /// By the stream that they fill.
    files: Vec<(String, Following)>,
    edge: Edge,
    otlp: OtlpStreams,
    limits: Limits,
}

impl Server {
    /// Claims every log and listens. Waits while a store is away.
    ///
    /// # Errors
    /// When a client's secrets cannot be read, the address is taken, or a log cannot be claimed.
    pub async fn open(options: Options, runtime: Arc<dyn Runtime>) -> Result<Self, GatewayError> {
        let Options {
            name,
            listen,
            also_listen,
            edge,
            streams,
            clients,
            tenant_header,
            otlp,
            syslog,
            files,
            limits,
        } = options;
        let auth = Auth::open(clients)?;
        let mut listeners = Vec::new();
        for address in listen.into_iter().chain(also_listen) {
            let at = |error| GatewayError::Listen { address, error };
            let listener = TcpListener::bind(address).await.map_err(at)?;
            let bound = listener.local_addr().map_err(at)?;
            listeners.push((listener, bound));
        }
        let owner = format!("gateway {name}, process {}", std::process::id());
        let followed: BTreeSet<String> = files.iter().map(|files| files.stream.clone()).collect();
        let opened = streams.into_iter().map(|stream| {
            let follows = followed.contains(&stream.name);
            open_stream(stream, follows, &owner, &limits, runtime.clone())
        });
        let opened = try_join_all(opened).await?;
        let (mut streams, mut owners, mut places) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (stream, owned) in opened {
            if let Some((owner, place)) = owned {
                owners.push((stream.name.clone(), owner));
                places.insert(stream.name.clone(), place);
            }
            streams.push(stream);
        }
        // Behind an address of other machines it is asked by names that only their network knows.
        let is_local = listeners.iter().all(|(_, address)| address.ip().is_loopback());
        let main = listeners.first().filter(|_| is_local);
        let names = main.map(|(_, address)| Names::of(address.ip()).any_address());
        let budget = Budget::new("all requests", limits.memory_bytes).raised_by("`limits.memory`");
        let gate =
            Gate::new(auth, streams, (tenant_header, names), budget, limits.answer_wait_max, runtime.clone());
        let mut bound = Vec::new();
        for options in syslog {
            bound.push(open_syslog(options, &gate).await?);
        }
        let mut following = Vec::new();
        for options in files {
            let name = options.stream.clone();
            let stream = stream_of_json(&gate, &name, "files fill it")?;
            let refused = |error| GatewayError::Log { stream: name.clone(), error };
            let place = places.remove(&name).ok_or_else(|| {
                refused(LogError::Refused(
                    "files fill a stream that has a log, and once; give all their paths at once".to_owned(),
                ))
            })?;
            following.push((name.clone(), Following::new(options, place, stream).map_err(refused)?));
        }
        Ok(Self { listeners, gate, owners, syslog: bound, files: following, edge, otlp, limits })
    }

    /// Where it listens for HTTP; `None` if it does not.
    pub fn address(&self) -> Option<SocketAddr> {
        self.addresses().next()
    }

    /// Where it listens for HTTP, of all addresses.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners.iter().map(|(_, address)| *address)
    }

    /// Where it listens for syslog, in the order of the options.
    pub fn syslog_addresses(&self) -> Vec<SocketAddr> {
        self.syslog.iter().map(|bound| bound.address).collect()
    }

    /// What further routes ask.
    pub fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// Answers requests, also by the routes `more`, until `stop` ends or a log is lost to another process; then drains.
    ///
    /// # Errors
    /// When a log was lost, or its store failed for good.
    pub async fn serve(self, more: Router, stop: impl Future<Output = ()>) -> Result<End, GatewayError> {
        let Self { listeners, gate, mut owners, syslog, files, edge, otlp, limits } = self;
        let bounds = Bounds {
            connections_max: limits.connections_max,
            head_wait_max: HEAD_WAIT_MAX,
            head_bytes_max: HEAD_BYTES_MAX,
            write_wait_max: WRITE_WAIT_MAX,
        };
        let follow_tls = edge.tls.clone();
        let following = async {
            match follow_tls {
                Some(tls) => tls.follow::<()>().await,
                None => pending().await,
            }
        };
        let auth = gate.auth().clone();
        let (stopping, asked) = watch::channel(false);
        let router = ingest::routes(gate.clone())
            .merge(elastic::routes(gate.clone()))
            .merge(loki::routes(gate.clone()))
            .merge(splunk::routes(gate.clone()))
            .merge(prometheus::routes(gate.clone()))
            .merge(otlp::routes(gate.clone(), otlp))
            .merge(more);
        let mut syslogs = JoinSet::new();
        for bound in syslog {
            syslogs.spawn(bound.serve(gate.clone(), asked.clone()));
        }
        let mut followers = JoinSet::new();
        for (stream, following) in files {
            let (gate, asked) = (gate.clone(), asked.clone());
            followers.spawn(async move {
                let served = following.serve(gate, asked).await;
                served.map_err(|error| GatewayError::Log { stream, error })
            });
        }
        let serving: Vec<_> = listeners
            .into_iter()
            .map(|(listener, _)| {
                let until = until_asked(asked.clone());
                tokio::spawn(listener::serve_with(listener, router.clone(), bounds, edge.clone(), until))
            })
            .collect();
        let lost = {
            let lost = owners.iter_mut().map(|(stream, owner)| Box::pin(lost(stream.clone(), owner)));
            let lost: Vec<_> = lost.collect();
            let any_lost = async {
                match lost.is_empty() {
                    true => pending().await,
                    false => {
                        let (error, place, _) = select_all(lost).await;
                        (error, place)
                    }
                }
            };
            tokio::select! {
                (error, place) = any_lost => Some((error, Some(place))),
                error = fails(&mut followers) => Some((error, None)),
                () = stop => None,
                () = auth.follow::<()>() => None,
                () = following => None,
            }
        };
        let lost = lost.map(|(error, place)| {
            tracing::error!(%error, "a log is lost, so the gateway stops");
            if let Some(place) = place {
                // It has ended, so there is nothing to wait for.
                owners.remove(place);
            }
            error
        });
        gate.drain();
        gate.streams().for_each(|stream| stream.stop_waiting());
        // The server may have ended by itself, which it never does.
        let _ = stopping.send(true);
        // Nothing waits for others that could share its commit: with a long `linger` the time of the stop could be over before.
        owners.iter().for_each(|(_, owner)| owner.hurry());
        let drained = async {
            let _ = join_all(serving).await;
            while syslogs.join_next().await.is_some() {}
            let mut failed = None;
            while let Some(ended) = followers.join_next().await {
                failed = failed.or(ended.ok().and_then(Result::err));
            }
            gate.streams().for_each(|stream| stream.close());
            let closing = owners.into_iter().map(|(stream, owner)| async move {
                owner.close().await.map_err(|error| GatewayError::Log { stream, error })
            });
            (failed, join_all(closing).await)
        };
        let Ok((failed, closed)) = tokio::time::timeout(limits.drain_max, drained).await else {
            return lost.map_or(Ok(End::OutOfTime), Err);
        };
        if let Some(error) = lost.or(failed) {
            return Err(error);
        }
        closed.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(End::Drained)
    }
}

/// The stream of this name, of JSON, which `what` needs.
fn stream_of_json(gate: &Gate, name: &str, what: &str) -> Result<Arc<Stream>, GatewayError> {
    let refused = |why: String| GatewayError::Log { stream: name.to_owned(), error: LogError::Refused(why) };
    let stream = gate.streams().find(|stream| stream.name == name).cloned();
    let stream = stream.ok_or_else(|| refused(format!("{what}, and there is no such stream")))?;
    stream.takes_json().map_err(|refusal| refused(refusal.message))?;
    Ok(stream)
}

/// Ends when files cannot be followed any more; never, if they all are until they are asked to stop.
async fn fails(followers: &mut JoinSet<Result<(), GatewayError>>) -> GatewayError {
    while let Some(ended) = followers.join_next().await {
        if let Ok(Err(error)) = ended {
            return error;
        }
    }
    pending().await
}

async fn open_syslog(options: SyslogOptions, gate: &Gate) -> Result<Bound, GatewayError> {
    let address = options.listen;
    let stream = stream_of_json(gate, &options.stream, "syslog goes to it")?;
    Bound::open(options, stream).await.map_err(|error| GatewayError::Listen { address, error })
}

async fn until_asked(mut asked: watch::Receiver<bool>) {
    // A sender that is gone has stopped too.
    let _ = asked.wait_for(|asked| *asked).await;
}

/// Ends when a log is lost.
async fn lost(stream: String, owner: &mut Owner) -> GatewayError {
    match pin!(owner.lost()).await {
        Err(error) => GatewayError::Log { stream, error },
        // An owner ends well only after its appenders, and one is held.
        Ok(()) => {
            let error = LogError::Refused("the owner of the log ended by itself; report this".to_owned());
            GatewayError::Log { stream, error }
        }
    }
}

async fn open_stream(
    options: StreamOptions,
    follows: bool,
    owner: &str,
    limits: &Limits,
    runtime: Arc<dyn Runtime>,
) -> Result<(Arc<Stream>, Option<(Owner, Place)>), GatewayError> {
    let name = options.name.clone();
    opened(options, follows, owner, limits, runtime)
        .await
        .map_err(|error| GatewayError::Log { stream: name, error })
}

async fn opened(
    options: StreamOptions,
    follows: bool,
    owner: &str,
    limits: &Limits,
    runtime: Arc<dyn Runtime>,
) -> Result<(Arc<Stream>, Option<(Owner, Place)>), LogError> {
    let window_ms = i64::try_from(options.key_window.as_millis()).unwrap_or(i64::MAX);
    let mut keys = Keys::new(window_ms, options.keys_max);
    let (destination, partition, clock, owned) = match options.fills {
        Fills::Log { store, partition, mut settings } => {
            let kept = options.key_window + KEPT_LONGER;
            settings.retention.keep_min = Some(settings.retention.keep_min.unwrap_or_default().max(kept));
            let log = log_partition(store, partition, &runtime).await?;
            // The claim first: from then on nobody else adds names.
            let owner = Owner::start(log.clone(), owner, settings).await?;
            let place = Place::open(&log, &owner, follows).await?;
            let claimed = owner.root();
            let since_ms = log.clock().now_ms().saturating_sub(window_ms);
            let restore = |label: labels::Label| {
                if file_of(label.id).is_none() {
                    let key = Key { id: label.id, tag: label.tag };
                    keys.restore(key, label.first, u64::from(label.rows), label.stamp_ms);
                }
            };
            labels::read(&log, &claimed, since_ms, restore).await?;
            place.started();
            let (stream, names) = (&options.name, keys.len());
            tracing::info!(stream, names, "a log is open, with the names of late requests");
            (Destination::Log(owner.appender()), partition, log.clock().clone(), Some((owner, place)))
        }
        Fills::Pipeline(direct) => (Destination::Pipeline(direct), 0, Clock::new(runtime.clone()), None),
    };
    let bounds = BodyBounds {
        bytes_max: options.body_bytes_max.min(object_log::object::APPEND_BYTES_MAX),
        wait_max: limits.body_wait_max,
        time_max: limits.body_time_max,
    };
    let stream = Stream {
        budget: Budget::new(&format!("those of stream `{}`", options.name), options.memory_bytes)
            .raised_by("`memory` of the stream"),
        name: options.name,
        partition,
        format: options.format,
        bounds,
        destination: Mutex::new(Some(destination)),
        keys: Mutex::new(keys),
        drops_repeats: options.drops_repeats,
        rejected_said_s: Default::default(),
        runtime,
        clock,
    };
    Ok((Arc::new(stream), owned))
}

/// The partition of a log, behind those before it.
async fn log_partition(
    store: Arc<dyn Store>,
    index: u32,
    runtime: &Arc<dyn Runtime>,
) -> Result<LogPartition, LogError> {
    let root = Prefix::root();
    let log = |index| LogPartition::new(store.clone(), &root, index, runtime.clone());
    if let Some(before) = index.checked_sub(1)
        && log(before)?.look().await?.is_none()
    {
        return Err(LogError::Refused(format!(
            "the log has no partition {before}; partitions are numbered without a gap"
        )));
    }
    log(index)
}

#[cfg(test)]
mod tests;
