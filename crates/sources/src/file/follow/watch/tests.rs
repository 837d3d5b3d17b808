//! What a look has decided while files were read on.

use dataflow::ReadFrom;
use dataflow::block::NO_LEADER_EPOCH;
use files::Identity;

use super::*;
use crate::file::tests::Dir;

#[test]
fn a_file_that_may_be_a_copy_of_one_that_was_read_meanwhile_is_looked_at_again() {
    let dir = Dir::new("watch-overtaken");
    for (bytes, is_overtaken_by_reading) in [(900, true), (1_024, false)] {
        let path = dir.write("web.log", &vec![b'x'; bytes]);
        let identity = Identity::of(&std::fs::File::open(&path).unwrap()).unwrap().to_string();
        let known = |next| {
            let partition = Partition::new(path.clone(), 0);
            let from =
                ReadFrom { partition, identity: identity.clone(), next, leader_epoch: NO_LEADER_EPOCH };
            Known::new(from).expect("it was made of a file")
        };
        let start = |name: &str| super::super::start(&dir.path(name), 0, identity.clone());
        let now = |next| BTreeMap::from([(Partition::new(path.clone(), 0), known(next))]);
        assert!(!is_overtaken(&start("web.log.1"), &[known(0)], &now(0)), "it was not read");
        assert_eq!(is_overtaken(&start("web.log.1"), &[known(0)], &now(9)), is_overtaken_by_reading);
        assert!(!is_overtaken(&start("app.log"), &[known(0)], &now(9)), "no copy is called so");
    }
}
