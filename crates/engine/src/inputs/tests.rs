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
