use dataflow::{Column, ColumnType, Partition};
use protocol::lane::{InputState, PartitionState};

use super::*;
use crate::config;
use crate::config::values::reference::Surroundings;
use crate::replays::source::{INPUT_HEADER, ORIGIN_HEADER};
use crate::wiring::steps;

fn pipeline(inputs: &str) -> Pipeline {
    let text = format!(
        "pipeline: p\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\n{inputs}"
    );
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = config::check(&text, &around);
    checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")))
}

/// A lane whose inputs are `orders` and `source`, with the log at the one of this number.
fn lane(log: Option<u32>) -> Lane {
    let input =
        |name: &str| InputState { name: name.to_owned(), was_opened: true, counts: Default::default() };
    let partition = |input: u32| PartitionState {
        input,
        stream: STREAM.to_owned(),
        index: 0,
        identity: String::new(),
        next: 0,
        leader_epoch: -1,
        time_ms_max: 0,
        taken_over: None,
    };
    let inputs = vec![input("orders"), input("source")];
    let partitions = log.into_iter().map(partition).collect();
    Lane { pipeline: "p".into(), inputs, partitions, ..Lane::new() }
}

#[test]
fn the_replay_log_stays_with_the_input_that_has_read_it_though_an_earlier_one_has_left() {
    let short = pipeline("source: { kafka: { brokers: b, topic: t } }");
    let of = |log: Option<u32>, pipeline: &Pipeline| carried_by(&lane(log), pipeline);
    // Before anything was replayed, and at the start after that.
    assert_eq!(of(None, &short).as_deref(), Some("source"));
    assert_eq!(of(Some(1), &short).as_deref(), Some("source"));
    assert_eq!(of(Some(0), &short), None);
    let both = pipeline(
        "inputs:\n  orders: { kafka: { brokers: b, topic: o } }\n  source: { kafka: { brokers: b, topic: t } }",
    );
    assert_eq!(of(None, &both).as_deref(), Some("orders"));
    assert_eq!(of(Some(0), &both).as_deref(), Some("orders"));
    assert_eq!(of(Some(1), &both).as_deref(), Some("source"));
    assert_eq!(carried_by(&Lane::new(), &both).as_deref(), Some("orders"));
}

/// A letter that was replayed waits in the log, and before it is read its input is forgotten and leaves the file.
#[test]
fn replayed_records_of_an_input_that_has_left_the_file_stay_dead_letters() {
    let orders = "orders: { kafka: { brokers: b, topic: o } }";
    let record = |input: Option<&str>| {
        let mut builder = BlockBuilder::new(Partition::new(STREAM, 0), 0);
        builder.push(0, 7, Some(br#"{"id":1}"#));
        if let Some(input) = input {
            builder.header(INPUT_HEADER, Some(input.as_bytes()));
        }
        builder.header(ORIGIN_HEADER, Some(b"p/0/5"));
        builder.take()
    };
    for file in [
        format!("inputs: {{ {orders} }}"),
        format!("inputs: {{ {orders}, returns: {{ kafka: {{ brokers: b, topic: r }} }} }}"),
    ] {
        let table = Schema::new(vec![Column::new("id", ColumnType::Int64)]);
        let chain = steps::chain(&pipeline(&file), &[table], 1).unwrap_or_else(|error| panic!("{error}"));
        let intake = Others::of(&chain.inputs).within("orders", chain.inputs[0].intake.clone());
        for own in [None, Some("orders")] {
            let prepared = intake.prepare(&record(own), 0).expect("it is decoded");
            assert_eq!((prepared.batch.len(), prepared.rejects.len()), (1, 0), "{own:?}");
        }
        let left = record(Some("payments"));
        let prepared = intake.prepare(&left, 0).expect("it is rejected");
        assert_eq!((prepared.batch.len(), prepared.rejects.len()), (0, 1), "no row is made of it");
        let message = &prepared.rejects[0].message;
        assert!(message.contains("`payments`") && message.contains("add it again"), "{message}");
        assert_eq!(intake.other_input(&left), Some("orders"), "it enters where it was read");
    }
}

#[test]
fn the_replay_log_is_read_as_long_as_an_input_beside_its_own_has_no_end() {
    let beside = |other: &str| {
        let file = "source: { file: { paths: /tmp/x.jsonl } }";
        goes_on(&pipeline(&format!("inputs:\n  {file}\n  other: {{ {other} }}")))
    };
    for endless in [
        "kafka: { brokers: b, topic: t }",
        "pulsar: { service: \"pulsar://localhost:6650\", topic: t }",
        "log: { url: \"file:///tmp/log\" }",
        "file: { paths: /tmp/y.jsonl, follow: true }",
    ] {
        assert!(beside(endless), "{endless}");
    }
    assert!(!beside("file: { paths: /tmp/y.jsonl }"), "the run ends with both");
    assert!(!goes_on(&pipeline("source: { kafka: { brokers: b, topic: t } }")), "there is none beside it");
}
