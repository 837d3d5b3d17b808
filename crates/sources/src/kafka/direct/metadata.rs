//! Who leads what, as one broker sees it: a request and its answer as bytes.
//!
//! Owns the layout of `Metadata` (version 12, which every broker that can be fetched from directly knows). Unlike what librdkafka hands
//! out, an answer has each leader's *epoch*, by which an old view is told from a newer one. Does not own whom to ask and when
//! (`leaders`). Pure.

use super::cursor::{Cursor, Malformed, put_unsigned};
use super::wire::{begin, end};

const METADATA: i16 = 3;
const VERSION: i16 = 12;

/// Bytes of an entry of each array at the least; bounds the number of entries that are believed.
const BROKER_BYTES_MIN: usize = 4 + 1 + 4 + 1 + 1;
const TOPIC_BYTES_MIN: usize = 2 + 1 + 16 + 1 + 1 + 4 + 1;
const PARTITION_BYTES_MIN: usize = 2 + 4 + 4 + 4 + 1 + 1 + 1 + 1;

/// A partition's leader, as a broker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leader {
    pub(super) topic: [u8; 16],
    pub(super) partition: i32,
    /// Grows with every election.
    pub(super) epoch: i32,
    pub(super) address: String,
}

/// What a broker knows of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cluster {
    /// `host:port` of every broker that this one thinks alive.
    pub(super) brokers: Vec<String>,
    /// Partitions without a leader are left out.
    pub(super) leaders: Vec<Leader>,
}

/// Asks for topics by name.
pub(super) fn request(out: &mut Vec<u8>, correlation: i32, client: &str, topics: &[String]) {
    begin(out, METADATA, VERSION, correlation, client);
    out.push(0);
    put_unsigned(out, topics.len() as u64 + 1);
    for topic in topics {
        out.extend_from_slice(&[0; 16]);
        put_unsigned(out, topic.len() as u64 + 1);
        out.extend_from_slice(topic.as_bytes());
        out.push(0);
    }
    // No topic is made, no grants are asked for; no tagged fields.
    out.extend_from_slice(&[0, 0, 0]);
    end(out);
}

/// Reads an answer (without its length).
pub(super) fn answer(bytes: &[u8]) -> Result<Cluster, Malformed> {
    let mut at = Cursor(bytes);
    at.i32()?;
    at.skip_tagged()?;
    at.i32()?;
    let mut brokers = Vec::new();
    for _ in 0..at.count(BROKER_BYTES_MIN)? {
        let (node, host, port) = (at.i32()?, text(at.compact()?)?, at.i32()?);
        at.compact()?;
        at.skip_tagged()?;
        let port = u16::try_from(port).map_err(|_| Malformed)?;
        brokers.push((node, crate::kafka::client::address(&host, port)));
    }
    at.compact()?;
    at.i32()?;
    let mut leaders = Vec::new();
    for _ in 0..at.count(TOPIC_BYTES_MIN)? {
        let error = at.i16()?;
        at.compact()?;
        let topic = at.uuid()?;
        at.i8()?;
        for _ in 0..at.count(PARTITION_BYTES_MIN)? {
            let (failed, partition, leader, epoch) = (at.i16()?, at.i32()?, at.i32()?, at.i32()?);
            for _replicas_in_sync_offline in 0..3 {
                let count = at.count(4)?;
                at.take(count * 4)?;
            }
            at.skip_tagged()?;
            let address =
                brokers.iter().find(|(node, _)| *node == leader).map(|(_, address)| address.clone());
            if let (0, 0, Some(address)) = (error, failed, address) {
                leaders.push(Leader { topic, partition, epoch, address });
            }
        }
        at.i32()?;
        at.skip_tagged()?;
    }
    at.skip_tagged()?;
    Ok(Cluster { brokers: brokers.into_iter().map(|(_, address)| address).collect(), leaders })
}

fn text(bytes: Option<&[u8]>) -> Result<String, Malformed> {
    String::from_utf8(bytes.unwrap_or_default().to_vec()).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests;
