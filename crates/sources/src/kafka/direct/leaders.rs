//! Asking brokers in turn who leads what.
//!
//! Owns the thread that asks and [`Known`], the newest leader of each partition by its epoch. A broker that has lost its controller goes on
//! to answer as the leader that it was: its own word, and that of whoever asks it alone, is the old one for ever. Kafka's own clients
//! refresh their metadata from any broker and believe the greatest epoch; so does this. Does not own the way of a partition from one
//! broker to another (`supervisor`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use dataflow::Runtime;

use super::Plan;
use super::connection::{Connection, Lost};
use super::metadata::{Cluster, Leader};
use super::supervisor::Message;

/// In a cluster of one broker there is nobody else to ask; this often it is asked whether there are more by now.
const ALONE_EVERY: Duration = Duration::from_secs(300);
/// The port of a broker that is named without one, as librdkafka has it.
const PORT: u16 = 9092;

/// The newest leaders that any broker has named.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<([u8; 16], i32), Newest>);

/// The leader of the greatest epoch.
#[derive(Debug)]
struct Newest {
    epoch: i32,
    address: String,
    /// It said that it leads no more, or its connection was lost.
    is_refuted: bool,
}

impl Known {
    /// Takes what a broker says; an older epoch says nothing new.
    pub(super) fn learn(&mut self, leader: Leader) {
        let Leader { topic, partition, epoch, address } = leader;
        if self.0.get(&(topic, partition)).is_none_or(|known| epoch >= known.epoch) {
            self.0.insert((topic, partition), Newest { epoch, address, is_refuted: false });
        }
    }

    /// The leader, with its epoch, unless it said that it leads no more.
    pub(super) fn leader(&self, topic: [u8; 16], partition: i32) -> Option<(i32, &str)> {
        let known = self.0.get(&(topic, partition)).filter(|known| !known.is_refuted)?;
        Some((known.epoch, known.address.as_str()))
    }

    /// False if another broker was the leader of the greatest epoch: `address` may be an older one that has lost its controller, and lack what the newer
    /// one holds.
    pub(super) fn may_lead(&self, topic: [u8; 16], partition: i32, address: &str) -> bool {
        self.0.get(&(topic, partition)).is_none_or(|known| known.address == address)
    }

    /// `address` no longer serves the partition: whoever else reports a leader is believed again.
    pub(super) fn refute(&mut self, topic: [u8; 16], partition: i32, address: &str) {
        if let Some(known) = self.0.get_mut(&(topic, partition))
            && known.address == address
        {
            known.is_refuted = true;
        }
    }
}

/// The state of the thread.
pub(super) struct Asker {
    pub(super) plan: Arc<Plan>,
    pub(super) runtime: Arc<dyn Runtime>,
    /// Ends when the supervisor does; nothing is ever sent.
    pub(super) end: mpsc::Receiver<std::convert::Infallible>,
    pub(super) reports: mpsc::Sender<Message>,
    pub(super) topics: Vec<String>,
    /// How often a broker is asked.
    pub(super) every: Duration,
    /// The brokers that the pipeline names.
    pub(super) named: Vec<String>,
    /// Whom to ask, the next one first.
    pub(super) brokers: VecDeque<String>,
}

impl Asker {
    /// Asks until the reader is gone. A broker that does not answer is left to the others: whoever reads from it says so.
    pub(super) fn run(mut self) {
        let mut alone = false;
        loop {
            if !self.wait(if alone { self.every.max(ALONE_EVERY) } else { self.every }) {
                return;
            }
            let Some(address) = self.brokers.pop_front() else { return };
            match self.ask(&address) {
                Ok(cluster) => {
                    self.meet(&cluster.brokers);
                    alone = cluster.brokers.len() == 1;
                    if self.reports.send(Message::Leaders(cluster.leaders)).is_err() {
                        return;
                    }
                }
                Err(Lost::Closed) => return,
                Err(lost) => {
                    tracing::debug!(%lost, "a broker cannot be asked who leads");
                    alone = false;
                    // Should all be gone that were met, the cluster has moved behind the names in the pipeline file.
                    for named in &self.named {
                        if !self.brokers.contains(named) {
                            self.brokers.push_back(named.clone());
                        }
                    }
                }
            }
            if !self.brokers.contains(&address) {
                self.brokers.push_back(address);
            }
        }
    }

    /// False once the supervisor has ended.
    fn wait(&self, time: Duration) -> bool {
        matches!(self.end.recv_timeout(time), Err(mpsc::RecvTimeoutError::Timeout))
    }

    fn ask(&self, address: &str) -> Result<Cluster, Lost> {
        let is_wanted = || !matches!(self.end.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        let Plan { client, security, answer_bytes_max, .. } = &*self.plan;
        let mut connection =
            Connection::open(address, client, security, *answer_bytes_max, self.runtime.clone(), &is_wanted)?;
        connection.metadata(&self.topics, &is_wanted)
    }

    /// Brokers that came are asked too; those that went are not asked for ever.
    fn meet(&mut self, alive: &[String]) {
        if !alive.is_empty() {
            self.brokers.retain(|broker| alive.contains(broker));
        }
        for broker in alive {
            if !self.brokers.contains(broker) {
                self.brokers.push_back(broker.clone());
            }
        }
    }
}

/// `host:port` of a broker as a pipeline names it.
pub(super) fn address(broker: &str) -> String {
    let bare = broker.trim();
    let bare = bare.split_once("://").map_or(bare, |(_, bare)| bare);
    let has_port = bare.rsplit_once(':').is_some_and(|(host, port)| {
        port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
    });
    if has_port { bare.to_owned() } else { format!("{bare}:{PORT}") }
}

#[cfg(test)]
mod tests;
