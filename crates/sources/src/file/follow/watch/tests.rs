//! What a look has decided while files were read on.

use dataflow::ReadFrom;
use dataflow::block::NO_LEADER_EPOCH;
use files::Identity;

use super::*;
use crate::file::FileOptions;
use crate::file::claims::Claims;
use crate::file::follow::Shared as OfSource;
use crate::file::tests::Dir;
use crate::queue::channel;

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

#[test]
fn a_file_that_is_added_while_it_is_found_is_read_once() {
    let dir = Dir::new("watch-added");
    let path = dir.write("web.log", &vec![b'x'; 2_000]);
    let options = FileOptions { follow: true, ..FileOptions::new(vec![dir.path("*.log")]) };
    let shared = Shared::new(options, OfSource::new(std::sync::Arc::<Claims>::default(), "events"));
    let (sender, _events) = channel(1 << 20);
    let mut memory = Memory::default();
    let scan = |memory: &mut Memory| super::scan(&shared, memory).expect("the folder can be read");
    let Scan { decision, compared, .. } = scan(&mut memory);
    let start = decision.new.first().cloned().expect("it is new");
    assert!(act(&shared, &sender, Decision::default(), &compared).is_ok());
    // Whoever reads it knows of it by other means, such as the journal.
    let from = ReadFrom {
        partition: start.partition.clone(),
        identity: start.identity.clone(),
        next: 0,
        leader_epoch: NO_LEADER_EPOCH,
    };
    shared.change(|work| work.add(Known::new(from).expect("it was made of a file")));
    assert!(act(&shared, &sender, decision, &compared).is_ok());
    assert!(shared.lock().told.is_empty(), "it is no other file");
    let Scan { decision, compared, .. } = scan(&mut memory);
    assert!(act(&shared, &sender, decision, &compared).is_ok());
    let work = shared.lock();
    assert_eq!(work.jobs.iter().map(|job| &*job.partition().stream).collect::<Vec<_>>(), [&*path]);
    assert!(work.lost.is_empty() && work.told.is_empty());
}
