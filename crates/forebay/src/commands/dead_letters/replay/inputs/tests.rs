use pipeline::config;
use pipeline::config::values::reference::Surroundings;
use protocol::lane::{InputState, PartitionState};
use store::MemoryStore;

use super::*;

fn pipeline(inputs: &str) -> Pipeline {
    let text = format!(
        "pipeline: p\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\n{inputs}"
    );
    let checked = config::check(&text, &Surroundings::of_process());
    checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")))
}

/// A lane with these inputs, and these streams each of the input with that number.
fn lane(inputs: &[&str], streams: &[(u32, &str)]) -> Lane {
    let input =
        |name: &&str| InputState { name: (*name).to_owned(), was_opened: true, counts: Default::default() };
    let partition = |(input, stream): &(u32, &str)| PartitionState {
        input: *input,
        stream: (*stream).to_owned(),
        index: 0,
        identity: String::new(),
        next: 0,
        leader_epoch: -1,
        time_ms_max: 0,
        taken_over: None,
    };
    let (inputs, partitions) = (inputs.iter().map(input).collect(), streams.iter().map(partition).collect());
    Lane { pipeline: "p".into(), inputs, partitions, ..Lane::new() }
}

async fn inputs(file: &str, lane: &Lane) -> Inputs {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    Inputs::of(&pipeline(file), lane, &store).await.expect("its first input is in the file")
}

#[tokio::test]
async fn letters_of_an_input_that_has_left_are_not_read_as_those_of_the_only_one() {
    let lane = lane(&["orders", "payments"], &[(0, "o"), (1, "p")]);
    let one = inputs("inputs: { orders: { kafka: { brokers: b, topic: o } } }", &lane).await;
    let of = |stream: &str| one.of_stream(stream);
    assert_eq!((of("o"), of("p"), of("never-read")), (String::new(), "payments".into(), String::new()));
    one.check([of("o"), of("never-read")].iter().map(String::as_str)).expect("the only input takes them");
    let refused = one.check([of("o"), of("p")].iter().map(String::as_str)).expect_err("nobody reads it");
    let told = refused.to_string();
    assert!(
        told.contains("of input `payments`") && told.contains("`--input` with one of `orders`"),
        "{told}"
    );
}

#[tokio::test]
async fn a_stream_is_of_the_input_that_the_file_names_though_another_has_read_it() {
    let lane = lane(&["orders", "payments", "old"], &[(0, "o"), (1, "p"), (2, "o")]);
    let file = "inputs:\n  orders: { kafka: { brokers: b, topic: o } }\n  payments: { kafka: { brokers: b, topic: p } }";
    let both = inputs(file, &lane).await;
    let of = |stream: &str| both.of_stream(stream);
    assert_eq!((of("o"), of("p"), of("")), ("orders".into(), "payments".into(), "orders".into()));
    let one = inputs("inputs: { orders: { kafka: { brokers: b, topic: o } } }", &lane).await;
    assert_eq!(one.of_stream("o"), "");
}

#[tokio::test]
async fn schemas_that_are_fetched_are_there_for_the_input_that_carries_the_log_alone() {
    let lane = lane(&["a"], &[(0, "a")]);
    for (format, source, can) in [
        ("json", "kafka: { brokers: k, topic: b }", true),
        ("json", "pulsar: { service: \"pulsar://localhost:6650\", topic: b }", true),
        (
            "{ avro: { registry: { url: \"http://localhost:8081\" } } }",
            "kafka: { brokers: k, topic: b }",
            false,
        ),
        (
            "{ protobuf: { registry: { url: \"http://localhost:8081\" } } }",
            "kafka: { brokers: k, topic: b }",
            false,
        ),
        ("avro", "pulsar: { service: \"pulsar://localhost:6650\", topic: b }", false),
        ("protobuf", "pulsar: { service: \"pulsar://localhost:6650\", topic: b }", false),
    ] {
        let of = |first: &str, second: &str| {
            format!(
                "inputs:\n  {first}: {{ kafka: {{ brokers: k, topic: a }} }}\n  {second}: {{ {source}, format: {format} }}"
            )
        };
        let beside = inputs(&of("a", "b"), &lane).await;
        assert_eq!(beside.check(["b"].into_iter()).is_ok(), can, "{source} {format}");
        // The first of the journal carries the log.
        inputs(&of("z", "a"), &Lane::new())
            .await
            .check(["a"].into_iter())
            .expect("its own source fetches them");
    }
}

#[test]
fn the_input_that_is_missing_is_the_one_that_has_read_the_log() {
    let names = ["orders", "payments"];
    assert_eq!(carries(&lane(&names, &[(0, "o"), (1, "p")])), "orders");
    assert_eq!(carries(&lane(&names, &[(0, "o"), (1, "p"), (1, STREAM)])), "payments");
}
