//! The listener of a pipeline whose records are sent to it.
//!
//! Owns the listener's life, which is longer than that of the lane: a lane that is opened again for other columns finds the same addresses and the
//! requests that wait. Does not own what is done with requests (`gateway`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dataflow::{Runtime, Task};
use gateway::direct::{Direct, DirectSource};
use gateway::{End, Fills, GatewayError, Server};
use tokio::sync::{oneshot, watch};

use super::{WiringError, gateway as wired};
use crate::config::model::Pipeline;

/// What answers take at the longest that are known when the lane has ended.
const ANSWERS_MAX: Duration = Duration::from_secs(5);

/// The ways from a listener into the lane, by the names of inputs.
#[derive(Clone, Debug, Default)]
pub struct Ways(BTreeMap<String, Arc<Direct>>);

impl Ways {
    /// The source of an input that listens; `None` if nobody listens for it.
    pub(super) fn source(&self, input: &str) -> Option<DirectSource> {
        self.0.get(input).cloned().map(DirectSource::new)
    }
}

/// A listener that takes requests.
pub struct Listening {
    ways: Ways,
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<Result<End, GatewayError>>,
    _task: Task,
    runtime: Arc<dyn Runtime>,
}

impl Listening {
    /// Listens for the inputs of `pipeline` that are sent to; `None` if there are none. Requests wait until the lane is open. Once `stopping` says so,
    /// no more are taken.
    ///
    /// # Errors
    /// When an address is taken, or a file of certificates or secrets cannot be read.
    pub async fn open(
        pipeline: &Pipeline,
        runtime: &Arc<dyn Runtime>,
        mut stopping: watch::Receiver<bool>,
    ) -> Result<Option<Self>, WiringError> {
        let Some((server, ways)) = bound(pipeline, runtime).await? else { return Ok(None) };
        for address in server.addresses() {
            tracing::info!(%address, streams = ways.0.len(), "taking records over HTTP");
        }
        for address in server.syslog_addresses() {
            tracing::info!(%address, "taking messages of syslog");
        }
        let (stop, mut asked) = watch::channel(false);
        let stopped = async move {
            tokio::select! {
                // A sender that is gone has stopped too.
                _ = stopping.wait_for(|stop| *stop) => {}
                _ = asked.wait_for(|stop| *stop) => {}
            }
        };
        let (tell, ended) = oneshot::channel();
        let serving = async move {
            // Nobody hears it if the lane's end was not waited for.
            let _ = tell.send(server.serve(Default::default(), stopped).await);
        };
        let task = runtime.spawn("listen", Box::pin(serving));
        Ok(Some(Self { ways, stop, ended, _task: task, runtime: runtime.clone() }))
    }

    /// Whether the addresses are free, and every file that the listener needs can be read. Nobody is answered.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn try_out(pipeline: &Pipeline, runtime: &Arc<dyn Runtime>) -> Result<(), WiringError> {
        bound(pipeline, runtime).await.map(drop)
    }

    /// The ways into the lane.
    pub fn ways(&self) -> Ways {
        self.ways.clone()
    }

    /// The lane has ended: what is known by now is answered, and nothing more is taken.
    pub async fn end(self) {
        self.ways.0.values().for_each(|way| way.end());
        let _ = self.stop.send(true);
        match self.runtime.timeout(ANSWERS_MAX, self.ended).await {
            Some(Ok(Ok(End::Drained))) => {}
            Some(Ok(Ok(End::OutOfTime))) | None => {
                tracing::warn!(
                    "time ran out before every sender had its answer; what was answered is sealed"
                );
            }
            Some(Ok(Err(error))) => tracing::error!(%error, "the listener failed"),
            Some(Err(_)) => tracing::error!("the listener ended by itself; report this"),
        }
    }
}

/// A server at the addresses of `listen`, which nobody is answered by yet, and the ways into the lane; `None` if no input is sent to.
async fn bound(
    pipeline: &Pipeline,
    runtime: &Arc<dyn Runtime>,
) -> Result<Option<(Server, Ways)>, WiringError> {
    let Some(file) = pipeline.gateway() else { return Ok(None) };
    let inputs = pipeline.listening_inputs();
    let ways: BTreeMap<_, _> =
        inputs.iter().map(|(input, stream)| (input.name.to_owned(), Direct::new(stream.as_str()))).collect();
    let streams = inputs.iter().filter_map(|(input, name)| {
        let fills = Fills::Pipeline(ways[input.name].clone());
        let stream = file.streams.get(name)?;
        Some(wired::stream_options((name, stream), file.body_bytes_of(stream), fills))
    });
    let settings = |why: String| WiringError::Settings(format!("`listen`: {why}"));
    let streams: anyhow::Result<Vec<_>> = streams.collect();
    let options = streams.and_then(|streams| wired::with_streams(&file, streams));
    let options = options.map_err(|error| settings(format!("{error:#}")))?;
    let server = Server::open(options, runtime.clone()).await;
    let server = server.map_err(|error| match error {
        GatewayError::Listen { .. } => WiringError::Listen(error.to_string()),
        error => settings(error.to_string()),
    })?;
    Ok(Some((server, Ways(ways))))
}
