use std::sync::{Arc, mpsc};
use std::time::Duration;

use dataflow::{ReadFrom, Runtime};
use prost::Message as _;

use super::super::super::client::Route;
use super::super::super::frame;
use super::super::super::lead::{Slot, UNANSWERED_MAX};
use super::super::super::messages::Metadata;
use super::super::PERMITS;
use super::*;
use crate::pulsar::PulsarOptions;
use crate::pulsar::address::Address;
use crate::queue::channel;
use crate::test_runtime::TestRuntime;

/// An entry as a broker sends it, which says that it is a batch of so many messages.
fn batch(messages: i32) -> Vec<u8> {
    entry(&Metadata { producer: "p".into(), messages: Some(messages), ..Metadata::default() })
}

fn entry(metadata: &Metadata) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write_entry(&mut bytes, &frame::ping(), &metadata.encode_to_vec(), b"x");
    bytes.split_off(8 + frame::ping().encoded_len())
}

/// A partition that is read from the second entry of a ledger on, by this consumer.
fn lead(index: u32, consumer: u64) -> Lead {
    let from = ReadFrom {
        partition: Partition::new("a/b/c", index),
        identity: String::new(),
        next: Entry { ledger: 7, entry: 1 }.position(),
        leader_epoch: NO_LEADER_EPOCH,
    };
    let mut lead = Lead::new(Slot::new(from, String::new(), 1 << 20));
    lead.subscribed(consumer, 100 + consumer);
    lead
}

fn broker(leads: Vec<(u64, Lead)>) -> Broker {
    let options = PulsarOptions::new("pulsar://127.0.0.1:9", &["a/b/c".to_owned()], "s").expect("options");
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    let (events, _) = channel(1 << 20);
    let (_, commands) = mpsc::channel();
    let (reports, _) = mpsc::channel();
    let address = Address::of_url("pulsar://127.0.0.1:9").expect("an address");
    let partition = |lead: &Lead| lead.slot.from.partition.clone();
    Broker {
        route: Route { address, broker: None },
        options: Arc::new(options),
        runtime,
        events,
        commands,
        reports,
        consumers: leads.iter().map(|(consumer, lead)| (*consumer, partition(lead))).collect(),
        leads: leads.into_iter().map(|(_, lead)| (partition(&lead), lead)).collect(),
        ready: Vec::new(),
        scratch: Vec::new(),
        expire_at: Duration::ZERO,
        held_up: false,
    }
}

#[test]
fn an_entry_that_is_stepped_over_takes_as_many_permits_as_it_has_messages() {
    let mut lead = lead(0, 1);
    lead.has_consumer();
    lead.permits = PERMITS;
    let mut broker = broker(vec![(1, lead)]);
    let partition = Partition::new("a/b/c", 0);
    // The newest entry that was read comes once more.
    let next = broker.deliver(1, Entry { ledger: 7, entry: 0 }, &batch(99_999));
    assert!(matches!(next, Next::Nothing));
    assert_eq!(broker.leads[&partition].permits, PERMITS - 99_999);
    // Of more messages than may still be sent.
    broker.leads.get_mut(&partition).expect("it is read").spend(150_000);
    assert_eq!(broker.leads[&partition].permits, PERMITS - 249_999, "what is missing is asked for too");
}

/// The broker owes an answer for the second partition, or its first entry, and entries of the first one come in every moment.
#[test]
fn a_broker_that_has_lost_a_question_is_left_though_other_entries_come_all_the_time() {
    let lost = lead(1, 2);
    let mut undelivered = lead(1, 2);
    undelivered.has_consumer();
    undelivered.heard(Some(Entry { ledger: 7, entry: 9 }));
    for (silent, may_be_lost) in [(lost, false), (undelivered, true)] {
        let mut reads = lead(0, 1);
        reads.has_consumer();
        let mut broker = broker(vec![(1, reads), (2, silent)]);
        let alone = entry(&Metadata { producer: "p".into(), publish_time: 5, ..Metadata::default() });
        let mut second = |n: u64, held_up: bool| {
            let next = broker.deliver(1, Entry { ledger: 7, entry: n }, &alone);
            assert!(matches!(next, Next::Nothing), "{n}");
            broker.held_up |= held_up;
            broker.forgotten()
        };
        let most = u64::from(UNANSWERED_MAX);
        for n in 0..most {
            assert_eq!(second(n, false), None, "it may come yet: {n}");
        }
        assert_eq!(second(most, true), None, "it may stand behind what there was no room for");
        let Some((partition, trouble)) = second(most + 1, false) else { panic!("it does not come") };
        assert_eq!(partition, Partition::new("a/b/c", 1));
        assert_eq!(matches!(trouble, Trouble::NotHeld(_)), may_be_lost, "{trouble:?}");
        assert_eq!(matches!(trouble, Trouble::Moved(_)), !may_be_lost, "{trouble:?}");
    }
}
