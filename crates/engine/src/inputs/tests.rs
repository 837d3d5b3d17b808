use dataflow::Streams;
use protocol::lane::InputState;
use sources::memory::MemorySource;

use super::*;
use crate::flow::Flow;

fn input(name: &str) -> Input {
    let source = Arc::new(MemorySource::new([("e", 1)]));
    let schema = dataflow::Schema::new(vec![]);
    Input { name: name.into(), source, intake: Intake::new(Arc::new(Nothing(schema))) }
}

struct Nothing(dataflow::Schema);

impl dataflow::Decoder for Nothing {
    fn schema(&self) -> &dataflow::Schema {
        &self.0
    }

    fn decode(&self, _: &dataflow::RecordBlock) -> dataflow::Decoded {
        unreachable!("nothing is read")
    }
}

fn lane(names: &[&str]) -> Lane {
    let known = |name: &&str| InputState { name: (*name).to_owned(), ..InputState::default() };
    Lane { inputs: names.iter().map(known).collect(), ..Lane::new() }
}

#[test]
fn an_input_keeps_its_number_wherever_it_stands_in_the_file() {
    let numbers = |known: &[&str], named: &[&str]| -> Vec<u32> {
        let inputs: Vec<Input> = named.iter().map(|name| input(name)).collect();
        numbered(&lane(known), &inputs).iter().map(|input| input.number).collect()
    };
    assert_eq!(numbers(&[], &["a", "b"]), [0, 1]);
    assert_eq!(numbers(&["a", "b"], &["b", "a"]), [1, 0]);
    assert_eq!(
        numbers(&["a", "b"], &["d", "b", "c"]),
        [2, 1, 3],
        "new ones follow, and no number is used again"
    );
}

#[test]
fn new_inputs_are_named_in_the_order_of_their_numbers() {
    let inputs: Vec<Input> = ["d", "b", "c"].map(input).into_iter().collect();
    let lane = lane(&["a", "b"]);
    assert_eq!(unknown(&lane, &numbered(&lane, &inputs)), ["d", "c"]);
}

#[test]
fn two_inputs_of_one_name_are_refused() {
    assert!(check(&[input("a"), input("b")], &Flow::default()).is_ok());
    let error = check(&[input("a"), input("a")], &Flow::default()).expect_err("one name for two").to_string();
    assert!(error.contains("`a` is named twice"), "{error}");
    assert!(check(&[], &Flow::default()).is_err());
}

/// Two clusters may have a topic of one name each.
#[test]
fn a_command_about_a_stream_of_one_of_several_inputs_names_that_input() {
    let source = || Arc::new(MemorySource::new([("e", 1)]));
    let (alone, beside) = (Inlet::new(0, "eu", source(), false), Inlet::new(1, "eu west", source(), true));
    let forget = "run `forebay forget FILE --topic e`, or `forebay reset FILE --yes`";
    let reset = "run `forebay reset FILE --to earliest --partition e/0` or `forebay reset FILE --to 'e/0=9'`";
    let of_another =
        "run `forebay forget FILE --input us`, or `forebay forget FILE --input 'eu west' --topic e`";
    for (words, own) in [
        (forget, "run `forebay forget FILE --input 'eu west' --topic e`, or `forebay reset FILE --yes`"),
        (
            reset,
            "run `forebay reset FILE --input 'eu west' --to earliest --partition e/0` or `forebay reset FILE --input 'eu west' --to 'e/0=9'`",
        ),
        (of_another, of_another),
    ] {
        let error = || EngineError::Mismatch(words.to_owned());
        assert_eq!(alone.named(error()).to_string(), words, "there is no other");
        let once = beside.with_own_commands(error());
        assert_eq!(once.to_string(), own);
        assert_eq!(beside.with_own_commands(once).to_string(), own);
        assert_eq!(beside.named(error()).to_string(), format!("input `eu west`: {own}"));
        let of_source = SourceError::new(dataflow::SourceFault::Refused, words);
        let named = beside.named(of_source.into()).to_string();
        assert_eq!(named, format!("source: input `eu west`: {own}"));
    }
}

#[tokio::test]
async fn a_source_knows_nothing_of_its_number() {
    let source = Arc::new(MemorySource::new([("e", 1)]));
    let handle = source.handle();
    handle.push(&Partition::new("e", 0), 5, "x");
    let numbered = Numbered::new(source, 3);
    let of_three = Partition::new("e", 0).of_input(3);
    let shown = numbered.partitions().await.expect("there");
    assert_eq!(shown[0].partition, of_three);
    let from = |next| dataflow::ReadFrom {
        partition: of_three.clone(),
        identity: shown[0].identity.clone(),
        next,
        leader_epoch: dataflow::block::NO_LEADER_EPOCH,
    };
    assert_eq!(numbered.ends().await.expect("there"), [(of_three.clone(), 1)]);
    let mut reader = numbered.read(vec![from(0)]).await.expect("it may be read");
    let dataflow::Event::Block(block) = reader.next().await.expect("a record") else { panic!("no block") };
    assert_eq!(block.partition, of_three);
    let record = numbered.record(from(0)).await.expect("there").expect("a record");
    assert_eq!(record.partition, of_three);
    numbered.publish(&[(of_three.clone(), 1)]).await.expect("published");
    assert_eq!(numbered.published().await.expect("kept"), [(of_three, 1)]);
}

/// A source that lets go of what is published.
struct Releasing(MemorySource);

#[async_trait::async_trait]
impl Source for Releasing {
    fn streams(&self) -> Streams {
        Streams::Others
    }

    async fn partitions(&self) -> Result<Vec<dataflow::PartitionStart>, SourceError> {
        self.0.partitions().await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.0.ends().await
    }

    async fn read(&self, from: Vec<dataflow::ReadFrom>) -> Result<Box<dyn dataflow::Reader>, SourceError> {
        self.0.read(from).await
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.0.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.0.published().await
    }

    fn releases(&self) -> bool {
        true
    }
}

#[test]
fn a_source_that_lets_go_is_told_positions_only_when_all_below_is_settled() {
    let table = |frontier, next_ordinal| protocol::lane::TableState {
        frontier,
        next_ordinal,
        ..protocol::lane::TableState::default()
    };
    let lane = |tables: [(u64, u64); 2]| Lane {
        tables: tables.iter().map(|(frontier, next)| table(*frontier, *next)).collect(),
        ..Lane::new()
    };
    let at = |next: Position| vec![(Partition::new("e", 0), next)];
    let memory = || MemorySource::new([("e", 1)]);
    let shows = Inlet::new(0, "shows", Arc::new(memory()), false);
    assert_eq!(shows.publishable(&lane([(0, 9), (0, 9)]), at(5)), Some(at(5)), "it lets go of nothing");

    let inlet = Inlet::new(0, "lets-go", Arc::new(Releasing(memory())), false);
    assert_eq!(inlet.publishable(&lane([(0, 1), (0, 0)]), at(5)), None, "frame 0 is not settled");
    assert_eq!(inlet.publishable(&lane([(0, 2), (0, 0)]), at(6)), None, "and still not");
    assert_eq!(
        inlet.publishable(&lane([(1, 3), (0, 1)]), at(7)),
        Some(at(5)),
        "frame 0 is settled, so what was sealed with it goes, and no more"
    );
    assert_eq!(inlet.publishable(&lane([(3, 3), (0, 1)]), at(8)), None, "a dead letter is not written");
    assert_eq!(inlet.publishable(&lane([(3, 4), (1, 1)]), at(9)), Some(at(7)));
    assert_eq!(inlet.publishable(&lane([(4, 4), (1, 1)]), at(9)), Some(at(9)), "all is settled");
}
