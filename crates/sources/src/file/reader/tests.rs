use super::super::tests::Dir;
use super::*;

/// Rows of the next block.
fn block(job: &mut Job, shared: &Shared) -> Option<RecordBlock> {
    loop {
        match advance(job, shared, &|| true).expect("the file is read") {
            Some(Event::Block(block)) => return Some(block),
            Some(Event::Ended { .. }) => return None,
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
}

#[test]
fn a_file_whose_disk_was_away_is_read_on_behind_the_last_block() {
    let dir = Dir::new("away");
    let lines = 3 * BlockBuilder::RECORDS_MAX;
    let text: String = (0..lines).map(|n| format!("{{\"row\":{n}}}\n")).collect();
    let path = dir.write("a.log", text.as_bytes());
    let file = File::open(&path).expect("it is there");
    let identity = Identity::of(&file).expect("it can be read").to_string();
    let first = text.find('\n').expect("a line ends") as u64 + 1;
    // As an earlier run has recorded it: read to a position that was the file's end then, or was not.
    for is_end in [true, false] {
        let leader_epoch = Mark::of(&file, first, is_end).expect("it can be read").epoch();
        let partition = Partition::new(path.as_str(), 0);
        let from = ReadFrom { partition, identity: identity.clone(), next: first.into(), leader_epoch };
        let mut job = Job { from, open: None };
        let shared = Shared {
            work: Mutex::default(),
            changed: Condvar::new(),
            options: FileOptions::new(vec![path.clone()]),
            around: Around::nothing(),
        };
        let mut rows = 0;
        while let Some(block) = block(&mut job, &shared) {
            rows += block.len();
            job.pass(&block);
            // The disk fails and comes back: the file is opened again at its position.
            job.open = None;
        }
        assert_eq!(rows, lines - 1, "each line behind the position, once");
    }
}

#[test]
fn a_damaged_stream_names_the_way_to_its_rest_alone() {
    let options = FileOptions::new(vec![STDIN.to_owned()]);
    let damage = std::io::Error::new(std::io::ErrorKind::InvalidData, "damaged");
    let of_stream = unreadable(STDIN, 10, &damage, &options).message;
    assert!(of_stream.contains("tail -c +11 INPUT > rest") && !of_stream.contains("cat good"), "{of_stream}");
    let of_file = unreadable("a.gz", 10, &damage, &options).message;
    assert!(of_file.contains("write a good copy over the file") && !of_file.contains("tail"), "{of_file}");
}
