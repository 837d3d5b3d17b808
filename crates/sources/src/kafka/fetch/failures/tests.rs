use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Partition, ReadFrom, Runtime};
use rdkafka_sys::rd_kafka_resp_err_t as Code;
use rdkafka_sys::rd_kafka_resp_err_t::*;

use super::*;
use crate::kafka::KafkaOptions;
use crate::kafka::client::{Client, Topic};
use crate::kafka::config::Role;
use crate::kafka::fetch::Handle;
use crate::queue::{Receiver, channel};
use crate::test_runtime::TestRuntime;

/// One that reads a partition, and what it reports to. No broker is there.
fn fetch() -> (Fetch, Receiver<Result<Event, SourceError>>) {
    let options = KafkaOptions::new(vec!["127.0.0.1:9".into()], vec!["t".into()], "g");
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    let handle = Arc::new(Handle::new(&options, runtime.clone()).expect("a consumer"));
    let look = Arc::new(Client::new(&options, Role::Look, runtime.clone()).expect("a client"));
    let (events, received) = channel(1 << 20);
    let (_, orders) = mpsc::channel();
    let from = ReadFrom {
        partition: Partition::new("t", 0),
        identity: "id".into(),
        next: 5,
        leader_epoch: NO_LEADER_EPOCH,
    };
    let fetch = Fetch::new(&options, runtime, handle, look, events, orders, vec![from]);
    (fetch.unwrap_or_else(|error| panic!("{error}")), received)
}

/// What comes in place of a message of the partition, or of none.
fn comes(fetch: &mut Fetch, code: Code, slot: Option<usize>) -> Result<(), Stop> {
    // SAFETY: a message without a topic, a key and a body is all zeros.
    let mut message: ffi::rd_kafka_message_t = unsafe { std::mem::zeroed() };
    message.err = code;
    // SAFETY: it is live, and stands for an error.
    unsafe { fetch.take_error(&message, slot) }
}

#[test]
fn a_reading_by_librdkafka_is_not_let_in_only_once_many_answers_in_a_row_say_so() {
    let (mut fetch, _received) = fetch();
    let denied = comes(&mut fetch, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Some(0));
    assert!(matches!(denied, Err(Stop::Failed(error)) if error.fault == SourceFault::Config), "a mistake");
    // Records let us in as well as the end does.
    fetch.slots[0].next += 1;
    for _ in 0..2 {
        for _ in 1..slot::DENIED_MAX {
            let denied = comes(&mut fetch, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Some(0));
            assert!(matches!(denied, Err(Stop::Again(why)) if why.contains("`t/0`")));
        }
        assert!(comes(&mut fetch, RD_KAFKA_RESP_ERR__PARTITION_EOF, Some(0)).is_ok(), "it is let in");
    }
    for _ in 1..slot::DENIED_MAX {
        let denied = comes(&mut fetch, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Some(0));
        assert!(matches!(denied, Err(Stop::Again(_))));
    }
    let denied = comes(&mut fetch, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Some(0));
    assert!(matches!(denied, Err(Stop::Failed(error)) if error.fault == SourceFault::Config));
}

#[test]
fn that_a_topic_may_not_be_read_any_more_counts_for_all_of_its_partitions() {
    let (mut fetch, _received) = fetch();
    for (topic, index) in [("t", 1), ("t", 2), ("u", 0)] {
        let from = ReadFrom { partition: Partition::new(topic, index), ..fetch.slots[0].from.clone() };
        fetch.slots.push(slot::Slot::new(from, 1 << 20));
    }
    fetch.slots.iter_mut().for_each(slot::Slot::let_in);
    // One of them is told so, and what comes of the others is dropped.
    let mut partitions = [0, 1, 2].into_iter().cycle();
    for time in 1..slot::DENIED_MAX {
        let denied = comes(&mut fetch, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, partitions.next());
        assert!(matches!(denied, Err(Stop::Again(_))), "{time}");
    }
    let another = comes(&mut fetch, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Some(3));
    assert!(matches!(another, Err(Stop::Again(_))), "of another topic");
    let denied = comes(&mut fetch, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, partitions.next());
    assert!(matches!(denied, Err(Stop::Failed(error)) if error.fault == SourceFault::Config));
}

/// It is not fetched, so that nothing would let it in again.
#[test]
fn that_a_topic_may_not_be_read_does_not_count_for_a_partition_that_is_paused() {
    let (mut fetch, _received) = fetch();
    let from = ReadFrom { partition: Partition::new("t", 1), ..fetch.slots[0].from.clone() };
    fetch.slots.push(slot::Slot::new(from, 1 << 20));
    fetch.slots.iter_mut().for_each(slot::Slot::let_in);
    fetch.slots[1].is_paused = true;
    for time in 1..slot::DENIED_MAX {
        let denied = comes(&mut fetch, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Some(0));
        assert!(matches!(denied, Err(Stop::Again(_))), "{time}");
    }
    assert!(comes(&mut fetch, RD_KAFKA_RESP_ERR__PARTITION_EOF, Some(0)).is_ok(), "it is let in");
    fetch.slots[1].is_paused = false;
    let denied = comes(&mut fetch, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Some(1));
    assert!(matches!(denied, Err(Stop::Again(_))), "it is refused for the first time");
}

#[test]
fn what_librdkafka_says_of_no_partition_ends_no_reading() {
    let (mut fetch, _received) = fetch();
    for code in [
        RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
        RD_KAFKA_RESP_ERR__AUTHENTICATION,
        RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
    ] {
        assert!(comes(&mut fetch, code, None).is_ok(), "{code:?}");
    }
}

#[test]
fn a_reading_by_librdkafka_ends_too_where_we_may_not_look_at_the_topic_either() {
    let (mut fetch, _received) = fetch();
    let refused = || SourceError::new(SourceFault::Config, "kafka: cannot describe the topics");
    assert!(comes(&mut fetch, RD_KAFKA_RESP_ERR__PARTITION_EOF, Some(0)).is_ok(), "it is let in");
    for look in 0..2 * slot::DENIED_MAX {
        assert!(fetch.not_described(refused()).is_ok(), "a password on its way: {look}");
    }
    fetch.must_confirm = false;
    let denied = comes(&mut fetch, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Some(0));
    assert!(matches!(denied, Err(Stop::Again(_))));
    assert!(fetch.must_confirm, "librdkafka may say no more");
    for look in 2..slot::DENIED_MAX {
        assert!(fetch.not_described(refused()).is_ok(), "{look}");
    }
    let ended = fetch.not_described(refused());
    assert!(matches!(ended, Err(Stop::Failed(error)) if error.fault == SourceFault::Config));
}

/// What was fetched of the new topic waits for a confirmation, which a broker that is behind would give.
#[test]
fn a_topic_that_librdkafka_follows_is_another_as_soon_as_one_answer_says_so() {
    let (mut fetch, _received) = fetch();
    let answer = |id: &str, partitions: &[u32]| {
        let topic = Topic { id: id.into(), partitions: partitions.to_vec(), leaders: BTreeMap::new() };
        BTreeMap::from([("t".to_owned(), topic)])
    };
    // What is not there may be so at a broker that is behind.
    for _ in 1..MISSES_MAX {
        assert!(matches!(fetch.fits(&answer("id", &[])), Ok(false)));
    }
    assert!(matches!(fetch.fits(&answer("id", &[0])), Ok(true)));
    let Err(Stop::Failed(error)) = fetch.fits(&answer("another", &[0])) else { panic!("it is another") };
    assert_eq!(error.fault, SourceFault::Refused);
    assert!(error.message.contains("made anew"), "{error}");
}
