use futures::FutureExt as _;

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

/// A reader, and the way to what it gives; a file that cannot be looked at.
fn away(dir: &Dir) -> (FileReader, Sender<Item>, ReadFrom) {
    let path = dir.write("a.log", b"{}\n");
    let identity =
        Identity::of(&File::open(&path).expect("it is there")).expect("it can be read").to_string();
    // Below what is no folder the system finds neither a file nor that there is none.
    let partition = Partition::new(format!("{path}/b"), 0);
    let from = ReadFrom { partition, identity, next: 0, leader_epoch: NO_LEADER_EPOCH };
    let shared = Arc::new(Shared {
        work: Mutex::default(),
        changed: Condvar::new(),
        options: FileOptions::new(vec![path]),
        around: Around::nothing(),
    });
    let (sender, events) = channel(1 << 20);
    (FileReader { shared, events, read: BTreeSet::new() }, sender, from)
}

/// After an outage, what is read stands behind all that was said of it.
#[test]
fn that_a_file_is_away_is_not_said_again_before_it_was_heard() {
    let dir = Dir::new("away-once");
    let (mut reader, sender, from) = away(&dir);
    for tries in [2, 1] {
        for _ in 0..tries {
            assert!(run(&reader.shared, &sender, Job { from: from.clone(), open: None }).is_ok());
        }
        let Some(Err(error)) = reader.next().now_or_never() else { panic!("it is said") };
        assert_eq!(error.fault, SourceFault::Away, "{error}");
        assert!(reader.next().now_or_never().is_none(), "once");
    }
}

/// While much is read of other files, something of them always waits.
#[test]
fn that_a_file_is_away_is_said_although_something_of_others_waits() {
    let dir = Dir::new("away-beside");
    let (mut reader, sender, from) = away(&dir);
    let partition = Partition::new("b.log", 0);
    assert!(sender.send(Ok(Event::Ended { partition, next: 3 }), 0).is_ok());
    assert!(run(&reader.shared, &sender, Job { from, open: None }).is_ok());
    assert!(matches!(reader.next().now_or_never(), Some(Ok(Event::Ended { .. }))));
    let Some(Err(error)) = reader.next().now_or_never() else { panic!("it is said") };
    assert_eq!(error.fault, SourceFault::Away, "{error}");
}
