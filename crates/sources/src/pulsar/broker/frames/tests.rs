use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use dataflow::{ReadFrom, Runtime};
use prost::Message as _;

use super::super::super::client::Route;
use super::super::super::frame;
use super::super::super::lead::Slot;
use super::super::super::messages::Metadata;
use super::super::PERMITS;
use super::*;
use crate::pulsar::PulsarOptions;
use crate::pulsar::address::Address;
use crate::queue::channel;
use crate::test_runtime::TestRuntime;

/// An entry as a broker sends it, which says that it is a batch of so many messages.
fn batch(messages: i32) -> Vec<u8> {
    let metadata = Metadata { producer: "p".into(), messages: Some(messages), ..Metadata::default() };
    let mut bytes = Vec::new();
    frame::write_entry(&mut bytes, &frame::ping(), &metadata.encode_to_vec(), b"x");
    bytes.split_off(8 + frame::ping().encoded_len())
}

#[test]
fn an_entry_that_is_stepped_over_takes_as_many_permits_as_it_has_messages() {
    let options = PulsarOptions::new("pulsar://127.0.0.1:9", &["a/b/c".to_owned()], "s").expect("options");
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    let (events, _received) = channel(1 << 20);
    let (_orders, commands) = mpsc::channel();
    let (reports, _messages) = mpsc::channel();
    let partition = Partition::new("a/b/c", 0);
    let from = ReadFrom {
        partition: partition.clone(),
        identity: String::new(),
        next: Entry { ledger: 7, entry: 1 }.position(),
        leader_epoch: NO_LEADER_EPOCH,
    };
    let mut lead = Lead::new(Slot::new(from, String::new(), 1 << 20));
    lead.subscribed(1, 2);
    lead.has_consumer();
    lead.permits = PERMITS;
    let address = Address::of_url("pulsar://127.0.0.1:9").expect("an address");
    let mut broker = Broker {
        route: Route { address, broker: None },
        options: Arc::new(options),
        runtime,
        events,
        commands,
        reports,
        leads: BTreeMap::from([(partition.clone(), lead)]),
        consumers: BTreeMap::from([(1, partition.clone())]),
        ready: Vec::new(),
        scratch: Vec::new(),
        expire_at: Duration::ZERO,
    };
    // The newest entry that was read comes once more.
    let next = broker.deliver(1, Entry { ledger: 7, entry: 0 }, &batch(99_999));
    assert!(matches!(next, Next::Nothing));
    assert_eq!(broker.leads[&partition].permits, PERMITS - 99_999);
    // Of more messages than may still be sent.
    broker.leads.get_mut(&partition).expect("it is read").spend(150_000);
    assert_eq!(broker.leads[&partition].permits, PERMITS - 249_999, "what is missing is asked for too");
}
