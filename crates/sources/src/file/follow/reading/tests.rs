use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Partition, ReadFrom};

use super::*;
use crate::file::tests::Dir;

#[test]
fn a_full_block_says_whether_its_file_ends_there() {
    for (more, is_end) in [("", true), ("{}\n", false), ("{\"half", false)] {
        let dir = Dir::new(&format!("full-block-{}", more.len()));
        let text = "{}\n".repeat(BlockBuilder::RECORDS_MAX) + more;
        let path = dir.write("a.log", text.as_bytes());
        let identity = Identity::of(&File::open(&path).expect("it opens")).expect("it is read");
        let spot = Spot { path: path.clone(), node: identity.node() };
        let from = ReadFrom {
            partition: Partition::new(path.as_str(), 0),
            identity: identity.to_string(),
            next: 0,
            leader_epoch: NO_LEADER_EPOCH,
        };
        let known = Known::new(from).expect("an identity");
        let options = FileOptions::new(vec![path]);
        let opened = Reading::open(&known, &spot, &options, &Arc::default()).expect("it is read");
        let mut reading = opened.expect("it is there");
        let read = reading.advance(&mut vec![0; CHUNK_BYTES], &|| true).expect("it is read");
        let Read::Block(block) = read else { panic!("records come first") };
        assert_eq!(block.len(), BlockBuilder::RECORDS_MAX);
        assert_eq!(Mark::from(block.leader_epoch).is_end, is_end, "{more:?}");
    }
}
