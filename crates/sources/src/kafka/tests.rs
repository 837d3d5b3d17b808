use std::collections::{BTreeMap, BTreeSet};

use dataflow::SourceFault;
use rdkafka_sys::rd_kafka_resp_err_t::*;

use super::client::Topic;
use super::config::{Role, properties};
use super::*;
use crate::queue::channel;
use crate::test_runtime::TestRuntime;

fn options() -> KafkaOptions {
    KafkaOptions::new(vec!["127.0.0.1:9".into()], vec!["events".into()], "forebay-test")
}

fn with(name: &str, value: &str) -> KafkaOptions {
    let mut options = options();
    options.properties.insert(name.into(), value.into());
    options
}

fn refused(options: KafkaOptions) -> String {
    match KafkaSource::new(options, Arc::new(TestRuntime::new())) {
        Ok(_) => panic!("must be refused"),
        Err(error) => {
            assert_eq!(error.fault, SourceFault::Config);
            error.message
        }
    }
}

#[test]
fn properties_that_the_guarantee_rests_on_are_refused_with_the_reason() {
    for (name, value, says) in [
        ("enable.auto.commit", "true", "the journal holds the positions"),
        ("enable.auto.offset.store", "true", "the journal holds the positions"),
        ("isolation.level", "read_uncommitted", "aborted transactions"),
        ("auto.offset.reset", "earliest", "must stop the pipeline"),
        ("enable.partition.eof", "false", "read to its end"),
        ("group.id", "mine", "give `group`"),
        ("bootstrap.servers", "a:1", "give `brokers`"),
        ("partition.assignment.strategy", "range", "without a group's membership"),
        ("no.such.property", "1", "no.such.property"),
        ("fetch.wait.max.ms", "soon", "fetch.wait.max.ms"),
    ] {
        let message = refused(with(name, value));
        assert!(message.contains(says) && message.contains(name), "{message}");
    }
    KafkaSource::new(with("isolation.level", "read_committed"), Arc::new(TestRuntime::new()))
        .expect("agrees");
}

#[test]
fn any_other_property_is_passed_through() {
    let properties = properties(&with("max.partition.fetch.bytes", "123456"), Role::Read).expect("fine");
    assert_eq!(properties["fetch.message.max.bytes"], "123456");
    assert_eq!(
        (properties["group.id"].as_str(), properties["isolation.level"].as_str()),
        ("forebay-test", "read_committed")
    );
}

#[test]
fn what_librdkafka_holds_follows_the_memory_of_the_source() {
    let of = |ahead_bytes_max, set: &[(&str, &str)]| {
        let mut options = KafkaOptions { ahead_bytes_max, ..options() };
        options.properties.extend(set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let all = properties(&options, Role::Read).expect("fine");
        ["queued.max.messages.kbytes", "fetch.max.bytes"]
            .map(|name| all[name].parse::<usize>().expect("a number"))
    };
    assert_eq!(of(8 << 20, &[]), [8 << 10, 2 << 20]);
    assert_eq!(of(64 << 20, &[]), [64 << 10, 16 << 20]);
    // However little or much there is.
    assert_eq!(of(1, &[]), [1 << 10, 1 << 20]);
    assert_eq!(of(4 << 30, &[]), [64 << 10, 50 << 20]);
    // The pipeline file's own word counts.
    let set = [("queued.max.messages.kbytes", "2000"), ("fetch.max.bytes", "3000000")];
    assert_eq!(of(64 << 20, &set), [2_000, 3_000_000]);
}

#[test]
fn a_handle_that_only_looks_knows_no_group() {
    assert!(!properties(&options(), Role::Look).expect("fine").contains_key("group.id"));
}

#[test]
fn secrets_do_not_show() {
    let mut options = with("sasl.password", "hunter2");
    assert!(!format!("{options:?}").contains("hunter2"));
    options.properties.insert("ssl.key.pem".into(), "hunter2\0".into());
    assert!(!refused(options).contains("hunter2"));
}

#[test]
fn a_login_by_token_without_a_token_is_refused() {
    assert!(refused(with("sasl.mechanism", "OAUTHBEARER")).contains("file or command"));
    assert!(refused(with("sasl.mechanisms", "OAUTHBEARER")).contains("file or command"));
}

#[test]
fn names_are_checked_before_anything_is_asked() {
    let topics = |topics: &[&str]| KafkaOptions {
        topics: topics.iter().map(|t| (*t).to_owned()).collect(),
        ..options()
    };
    assert!(refused(topics(&[])).contains("no `topic`"));
    assert!(refused(topics(&["a b"])).contains("`a b`"));
    assert!(refused(topics(&["a", "b", "a"])).contains("named twice"));
    assert!(refused(KafkaOptions { brokers: vec![], ..options() }).contains("`brokers`"));
}

#[tokio::test]
async fn a_broker_that_is_not_there_is_away() {
    let source = KafkaSource::new(options(), Arc::new(TestRuntime::new())).expect("fine");
    let error = source.partitions().await.expect_err("nobody listens");
    assert_eq!(error.fault, SourceFault::Away);
    assert_eq!(error.message, "kafka: cannot describe the topics: broker `127.0.0.1:9`: connection refused");
}

#[tokio::test]
async fn the_cause_of_a_broker_that_cannot_be_used_is_told() {
    // One that accepts and never answers, one that closes at once, and a name that nobody knows.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let closes = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let (mute_at, closes_at) = (mute.local_addr().expect("bound"), closes.local_addr().expect("bound"));
    std::thread::spawn(move || closes.incoming().for_each(drop));
    let said = async |broker: String, setup_ms: &str| {
        let mut options = with("socket.connection.setup.timeout.ms", setup_ms);
        options.brokers = vec![broker];
        let source = KafkaSource::new(options, Arc::new(TestRuntime::new())).expect("fine");
        let error = source.partitions().await.expect_err("no broker");
        assert_eq!(error.fault, SourceFault::Away);
        error.message
    };
    let (no_name, no_answer, closed) = tokio::join!(
        said("no-such-broker.invalid:9092".into(), "1000"),
        said(mute_at.to_string(), "1000"),
        said(closes_at.to_string(), "1000"),
    );
    drop(mute);
    let what = "kafka: cannot describe the topics: broker";
    assert!(
        no_name.starts_with(&format!("{what} `no-such-broker.invalid:9092`: the name cannot be resolved: ")),
        "{no_name}"
    );
    assert!(no_answer.starts_with(&format!("{what} `{mute_at}`: connected, but no answer")), "{no_answer}");
    assert!(
        closed.starts_with(&format!(
            "{what} `{closes_at}`: the broker closed the connection before it answered"
        )),
        "{closed}"
    );
}

#[test]
fn errors_in_place_of_messages_are_told_apart() {
    use fault::{Meaning, of_message};
    for (code, meaning) in [
        (RD_KAFKA_RESP_ERR__PARTITION_EOF, Meaning::End),
        (RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET, Meaning::OutOfRange),
        (RD_KAFKA_RESP_ERR__LOG_TRUNCATION, Meaning::OutOfRange),
        (RD_KAFKA_RESP_ERR__BAD_MSG, Meaning::Unreadable),
        (RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED, Meaning::Unreadable),
        (RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, Meaning::Missing),
        (RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Meaning::Denied),
        (RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, Meaning::Away),
        (RD_KAFKA_RESP_ERR__TRANSPORT, Meaning::Away),
    ] {
        assert_eq!(of_message(code), meaning, "{code:?}");
    }
}

#[test]
fn a_certificate_that_is_not_trusted_needs_a_person_however_it_is_told() {
    use fault::{of_call, of_connection};
    let at_once = "ssl://h:9/bootstrap: error:0A000086:SSL routines::certificate verify failed (after 2ms in state SSL_HANDSHAKE)";
    for (code, reason, wanted) in [
        (RD_KAFKA_RESP_ERR__SSL, "SSL handshake failed", SourceFault::Config),
        (RD_KAFKA_RESP_ERR__TRANSPORT, at_once, SourceFault::Config),
        (
            RD_KAFKA_RESP_ERR__TRANSPORT,
            "ssl://h:9/bootstrap: Disconnected (after 2ms in state SSL_HANDSHAKE)",
            SourceFault::Away,
        ),
        (RD_KAFKA_RESP_ERR__RESOLVE, "Failed to resolve", SourceFault::Away),
    ] {
        let (code, reported) = of_connection(code as i32, reason.to_owned());
        assert_eq!(of_call(code), wanted, "{reason}");
        assert_eq!(reported.contains("ssl.ca.location"), reason == at_once, "{reported}");
    }
}

#[test]
fn a_partition_is_checked_by_its_topic_id() {
    let topic = |id: &str| Topic { id: id.into(), partitions: vec![0, 1, 2], leaders: BTreeMap::new() };
    let from = |identity: &str, index| ReadFrom {
        partition: Partition::new("events", index),
        identity: identity.into(),
        next: 5,
        leader_epoch: NO_LEADER_EPOCH,
    };
    let refused =
        |from: &ReadFrom, topic: Option<&Topic>| slot::check(from, topic).expect_err("refused").message;
    slot::check(&from("one", 2), Some(&topic("one"))).expect("the same");
    slot::check(&from("", 2), Some(&topic("one"))).expect("recorded from a cluster without ids");
    let anew = refused(&from("one", 2), Some(&topic("two")));
    assert!(anew.contains("`one`") && anew.contains("`two`"), "{anew}");
    // A mirror, or a name that leads elsewhere: what is read anew would be there twice.
    assert!(
        anew.contains("or `brokers` lead to another cluster") && anew.contains("correct `brokers`"),
        "{anew}"
    );
    // Not a new name, which would fill the table a second time.
    assert!(anew.contains("`forebay forget FILE --topic events`") && !anew.contains("new name"), "{anew}");
    assert!(refused(&from("one", 3), Some(&topic("one"))).contains("no partition `3`"));
    let deleted = refused(&from("one", 0), None);
    assert!(deleted.contains("was deleted") && deleted.contains("forget FILE --topic events`"), "{deleted}");
}

#[test]
fn another_id_comes_before_what_a_broker_may_not_know() {
    let topic =
        |id: &str, count| Topic { id: id.into(), partitions: (0..count).collect(), leaders: BTreeMap::new() };
    let from = |stream: &str, index| ReadFrom {
        partition: Partition::new(stream, index),
        identity: "one".into(),
        next: 5,
        leader_epoch: NO_LEADER_EPOCH,
    };
    let read = [from("a", 0), from("a", 1), from("b", 0)];
    let refused = |a: Topic, b: Option<Topic>| {
        let mut topics = BTreeMap::from([("a".to_owned(), a)]);
        topics.extend(b.map(|b| ("b".to_owned(), b)));
        slot::refusal(read.iter(), &topics).map(|(error, _)| error.message)
    };
    assert_eq!(refused(topic("one", 2), Some(topic("one", 1))), None);
    let message = refused(topic("one", 1), Some(topic("one", 1))).expect("it lacks one");
    assert!(message.contains("no partition `1`"), "{message}");
    let message = refused(topic("one", 2), None).expect("it lacks one");
    assert!(message.contains("topic `b`") && message.contains("was deleted"), "{message}");
    let message = refused(topic("one", 1), Some(topic("two", 1))).expect("it is another");
    assert!(message.contains("topic `b` was deleted and made anew"), "{message}");
}

#[test]
fn an_answer_without_an_id_is_not_that_of_another_topic() {
    let topic = |id: &str| Topic { id: id.into(), partitions: vec![0], leaders: BTreeMap::new() };
    let read = [ReadFrom {
        partition: Partition::new("events", 0),
        identity: "one".into(),
        next: 5,
        leader_epoch: NO_LEADER_EPOCH,
    }];
    let refused = |id: &str| slot::refusal(read.iter(), &BTreeMap::from([("events".to_owned(), topic(id))]));
    assert!(refused("one").is_none());
    let (error, is_another) = refused("two").expect("it is another");
    assert!(error.message.contains("made anew") && is_another, "{error}");
    // A broker of a cluster that is being upgraded, or was taken back.
    let (error, is_another) = refused("").expect("it cannot be told");
    assert!(error.message.contains("name no id") && !error.message.contains("made anew"), "{error}");
    assert!(!is_another);
}

#[test]
fn a_start_refuses_a_partition_only_once_many_answers_in_a_row_lack_it() {
    type Looked = Result<BTreeMap<String, Topic>, Lacks>;
    let topics = |id: &str, count| -> Looked {
        let topic = Topic { id: id.into(), partitions: (0..count).collect(), leaders: BTreeMap::new() };
        Ok(BTreeMap::from([("events".to_owned(), topic)]))
    };
    let from = [ReadFrom {
        partition: Partition::new("events", 1),
        identity: "one".into(),
        next: 5,
        leader_epoch: NO_LEADER_EPOCH,
    }];
    // Answers of this kind until the look of this number, and then a whole one.
    let start = |answer: &dyn Fn() -> Looked, whole_at: u32| {
        let (mut looks, pauses) = (0_u32, std::cell::Cell::new(0_u32));
        let started = settled(
            |time| {
                assert_eq!(time, LOOK_AGAIN_AFTER);
                pauses.set(pauses.get() + 1);
            },
            || {
                looks += 1;
                Ok(fitting(if looks < whole_at { answer() } else { topics("one", 2) }, &from))
            },
        );
        (started.map(drop).map_err(|error| (error.fault, error.message)), looks, pauses.get())
    };
    let behind = || topics("one", 1);
    let unknown = || -> Looked { Err(Lacks { topic: "events".into() }) };
    assert_eq!(start(&behind, 1), (Ok(()), 1, 0));
    assert_eq!(start(&behind, LOOKS_MAX), (Ok(()), LOOKS_MAX, LOOKS_MAX - 1));
    assert_eq!(start(&unknown, 3), (Ok(()), 3, 2));
    let (Err((fault, message)), LOOKS_MAX, _) = start(&behind, u32::MAX) else { panic!("it lacks one") };
    assert!(fault == SourceFault::Refused && message.contains("no partition `1`"), "{message}");
    let (Err((fault, message)), LOOKS_MAX, _) = start(&unknown, u32::MAX) else { panic!("it is gone") };
    assert!(fault == SourceFault::Refused && message.contains("does not exist"), "{message}");
    // A broker that is cut off from the others may name the id of a topic from before it was made anew.
    let another = || topics("two", 2);
    assert_eq!(start(&another, LOOKS_MAX), (Ok(()), LOOKS_MAX, LOOKS_MAX - 1));
    let (Err((_, message)), LOOKS_MAX, _) = start(&another, u32::MAX) else { panic!("it is another") };
    assert!(message.contains("was deleted and made anew"), "{message}");
}

/// A broker that is cut off from the others names the id from before a topic was made anew.
#[test]
fn a_topic_is_another_one_at_a_start_only_once_many_answers_in_a_row_say_so() {
    let shown = |ids: [&str; 2]| -> Vec<PartitionStart> {
        let start = |(index, id): (u32, &str)| PartitionStart {
            partition: Partition::new("events", index),
            identity: id.into(),
            next: 0,
            first: 0,
            leader_epoch: NO_LEADER_EPOCH,
        };
        (0..).zip(ids).map(start).collect()
    };
    // The second partition was not read.
    let known = [ReadFrom {
        partition: Partition::new("events", 0),
        identity: "one".into(),
        next: 5,
        leader_epoch: NO_LEADER_EPOCH,
    }];
    // Answers with another id until the look of this number.
    let begin = |first: [&str; 2], same_at: u32| {
        let mut looks = 0_u32;
        let look = || {
            looks += 1;
            Ok(shown(if looks < same_at { ["two"; 2] } else { ["one"; 2] }))
        };
        let last = confirmed(|time| assert_eq!(time, LOOK_AGAIN_AFTER), shown(first), &known, look);
        (last.expect("all answer")[0].identity.clone(), looks)
    };
    assert_eq!(begin(["one"; 2], 1), ("one".to_owned(), 0));
    assert_eq!(begin(["", ""], 1), (String::new(), 0), "a cluster without ids");
    assert_eq!(begin(["one", "two"], 1), ("one".to_owned(), 0), "what was not read is no other one");
    assert_eq!(begin(["two"; 2], 3), ("one".to_owned(), 3));
    assert_eq!(begin(["two"; 2], u32::MAX), ("two".to_owned(), LOOKS_MAX - 1));
    // Asked about one of them alone, as a start is after a `reset` of it.
    let first = shown(["two"; 2])[..1].to_vec();
    let last = confirmed(|_| {}, first, &known, || Ok(shown(["one"; 2]))).expect("all answer");
    assert_eq!((last.len(), &*last[0].identity), (1, "one"), "of the other nobody has asked");
}

/// A broker that is down for good leads nothing, and neither does anybody else what only it has.
#[test]
fn a_partition_without_a_leader_holds_up_no_start_of_a_topic_that_was_read() {
    let real = |stream: &str, index| PartitionStart {
        partition: Partition::new(stream, index),
        identity: "one".into(),
        next: 7,
        first: 3,
        leader_epoch: NO_LEADER_EPOCH,
    };
    let leaderless = |stream: &str, index| unasked(Partition::new(stream, index), "one".into());
    let read = |stream: &str, index| ReadFrom {
        partition: Partition::new(stream, index),
        identity: "one".into(),
        next: 5,
        leader_epoch: NO_LEADER_EPOCH,
    };
    let shown =
        || vec![real("events", 0), leaderless("events", 1), leaderless("events", 2), leaderless("new", 0)];
    let nobody = || -> Result<Vec<PartitionStart>, SourceError> { panic!("nobody is asked again") };
    // The third one has come since, and is found once it has a leader.
    let known = [read("events", 0), read("events", 1), read("new", 0)];
    let begun = led(shown(), &known, nobody).expect("it is read");
    assert_eq!(begun, [real("events", 0)]);
    // A topic that was never read begins where the pipeline file says, as a whole.
    let known = &known[..2];
    let still = led(shown(), known, || Ok(shown())).expect_err("it has no leader yet");
    assert_eq!(still.fault, SourceFault::Away);
    assert!(still.message.contains("`new/0` has no leader"), "{still}");
    assert!(still.message.contains("the start waits for it"), "{still}");
    let now = || Ok(vec![real("events", 0), real("events", 1), real("new", 0)]);
    assert_eq!(led(shown(), known, now).expect("all have one"), [real("events", 0), real("new", 0)]);
    assert!(led(shown(), &[], || Ok(shown())).is_err(), "a first start");
    // What was published of it is held against where it begins, once that is known.
    assert_eq!((leaderless("events", 1).next, leaderless("events", 1).first), (Position::MAX, 0));
}

#[test]
fn a_start_that_waited_for_a_leader_begins_where_the_newest_look_says() {
    let at = |stream: &str, index, first| PartitionStart {
        partition: Partition::new(stream, index),
        identity: "one".into(),
        next: first,
        first,
        leader_epoch: NO_LEADER_EPOCH,
    };
    let leaderless = |index| unasked(Partition::new("new", index), "one".into());
    let known = [ReadFrom {
        partition: Partition::new("events", 0),
        identity: "one".into(),
        next: 5,
        leader_epoch: NO_LEADER_EPOCH,
    }];
    let shown = || vec![at("events", 0, 3), at("new", 0, 3), leaderless(1)];
    let after = |now: Vec<PartitionStart>| led(shown(), &known, || Ok(now));
    // Retention was there meanwhile, and a partition was added. Of a topic that was read, positions are recorded.
    let now = vec![at("events", 0, 8), at("new", 0, 8), at("new", 1, 2), at("new", 2, 0)];
    let begun = [at("events", 0, 3), at("new", 0, 8), at("new", 1, 2), at("new", 2, 0)];
    assert_eq!(after(now).expect("all have one"), begun);
    // Whoever is asked may be behind, or another leader may have gone.
    for (now, lacks) in [
        (vec![at("new", 0, 8)], "`new/1`"),
        (vec![at("new", 1, 8)], "`new/0`"),
        (vec![at("new", 0, 8), at("new", 1, 8), leaderless(2)], "`new/2`"),
    ] {
        let still = after(now).expect_err("it is waited for");
        assert!(still.fault == SourceFault::Away && still.message.contains(lacks), "{still}");
    }
}

#[test]
fn what_has_no_leader_is_not_asked_for_its_range_before_it_is_read() {
    let from = |stream: &str, index| ReadFrom {
        partition: Partition::new(stream, index),
        identity: "one".into(),
        next: 5,
        leader_epoch: NO_LEADER_EPOCH,
    };
    let from = [from("a", 0), from("a", 1), from("b", 0)];
    let topics = |led: &[&str]| -> BTreeMap<String, Topic> {
        let topic = |name: &str| {
            let is_led = |index: &u32| led.contains(&format!("{name}/{index}").as_str());
            let leaders = (0..2).filter(is_led).map(|index| (index, "h:1".to_owned())).collect();
            (name.to_owned(), Topic { id: "one".into(), partitions: vec![0, 1], leaders })
        };
        ["a", "b"].map(topic).into()
    };
    let asked = |led: &[&str]| with_leader(&from, &topics(led)).map_err(|error| (error.fault, error.message));
    assert_eq!(asked(&["a/0", "a/1", "b/0"]).as_deref(), Ok(&from[..]));
    assert_eq!(asked(&["a/1"]).as_deref(), Ok(&from[1..2]));
    // There is nothing to begin with.
    let none = "kafka: `a/0` has no leader at the moment".to_owned();
    assert_eq!(asked(&["b/1"]), Err((SourceFault::Away, none)));
}

#[test]
fn a_start_looks_again_for_a_position_behind_the_end_and_not_for_one_that_was_deleted() {
    let from = |index, next| ReadFrom {
        partition: Partition::new("events", index),
        identity: "one".into(),
        next,
        leader_epoch: NO_LEADER_EPOCH,
    };
    let from = [from(0, 5), from(1, 30)];
    assert!(held(&from, &[(5, 9), (0, 30)]).is_ok_and(|held| held.is_ok()), "both ends are held");
    // A leader that was replaced may lack the newest records, and whoever is asked next may name the newer one.
    let behind = held(&from, &[(0, 9), (0, 10)]).expect("it may be held elsewhere").expect_err("not here");
    assert!(
        behind.message.contains("`30` of `events/1`") && behind.message.contains("`0` to `10`"),
        "{behind}"
    );
    let deleted = held(&from, &[(6, 9), (0, 10)]).expect_err("final");
    assert!(
        deleted.message.contains("`5` of `events/0`") && deleted.message.contains("retention"),
        "{deleted}"
    );
}

#[test]
fn a_batch_is_garbled_for_good_once_it_came_so_four_times_in_a_row() {
    let from = ReadFrom {
        partition: Partition::new("events", 0),
        identity: "one".into(),
        next: 0,
        leader_epoch: NO_LEADER_EPOCH,
    };
    let mut slot = slot::Slot::new(from, 1 << 20);
    for next in [0, 7] {
        slot.next = next;
        assert_eq!([(); 4].map(|()| slot.is_garbled_for_good()), [false, false, false, true], "at {next}");
    }
    slot.next = 9;
    assert!(!slot.is_garbled_for_good(), "another one");
}

#[test]
fn a_batch_in_an_older_format_names_the_setting_that_reads_it() {
    let error = slot::old_format(&Partition::new("events", 2), 5, "a batch has format `1`");
    assert_eq!(error.fault, SourceFault::Config);
    assert!(error.message.contains("`events/2`") && error.message.contains("`fetch: librdkafka`"), "{error}");
}

#[test]
fn a_batch_that_cannot_be_read_names_the_command_that_goes_on_behind_it() {
    let partition = Partition::new("events", 2);
    let known = slot::unreadable(&partition, 5, "a batch is malformed", Some(9));
    assert_eq!(known.fault, SourceFault::Refused);
    let wanted = "`events/2` cannot be read at or after offset `5`: a batch is malformed; the batch ends before offset `9`. To give up what is \
                  left of it and read on behind it, run `forebay reset FILE --to 'events/2=9'` and start again";
    assert_eq!(known.message, wanted);
    let unknown = slot::unreadable(&partition, 5, "corrupt message (error 2)", None).message;
    assert!(unknown.contains("run `forebay reset FILE --to latest --partition events/2` and"), "{unknown}");
}

#[test]
fn a_partition_found_after_retention_was_there_is_named() {
    let partition = |topic: &str, index| Partition::new(topic, index);
    let start = |topic: &str, index, first| PartitionStart {
        partition: partition(topic, index),
        identity: "id".into(),
        next: first,
        first,
        leader_epoch: NO_LEADER_EPOCH,
    };
    let known = vec![ReadFrom {
        partition: partition("a", 0),
        identity: "id".into(),
        next: 70,
        leader_epoch: NO_LEADER_EPOCH,
    }];
    // Known; new and whole; new and cut; of a topic that is new as a whole.
    let shown = [start("a", 0, 50), start("a", 1, 0), start("a", 2, 9), start("b", 0, 9)];
    let late: Vec<_> = found::late(&shown, &known).iter().map(|start| start.partition.clone()).collect();
    assert_eq!(late, [partition("a", 2)]);
    assert!(found::late(&shown, &[]).is_empty(), "a first start begins where the pipeline file says");
}

#[test]
fn a_new_partition_without_a_leader_holds_nothing_up() {
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    let look = Client::new(&options(), Role::Look, runtime.clone()).expect("a client");
    let topic = Topic { id: "id".into(), partitions: vec![0, 1], leaders: BTreeMap::new() };
    let topics = BTreeMap::from([("events".to_owned(), topic)]);
    let (events, _received) = channel(1 << 20);
    let mut known = BTreeSet::new();
    assert!(found::report(&look, &topics, &mut known, &events).is_ok());
    assert!(known.is_empty(), "the next look finds them again");
    assert!(runtime.elapsed() < CALL_WAIT_MAX, "nobody is asked");
}
