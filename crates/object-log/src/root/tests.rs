use super::*;
use crate::decide;
use crate::names::Written;
use crate::support::{draft, root};

/// A root with `objects` committed, whose full lists have been moved out.
fn filled(objects: u64) -> Root {
    let mut root = root();
    let mut segments = 0;
    for number in 0..objects {
        root = root.committing(&[draft(root.claim(), number, &[])], 2_000).expect("is new");
        while let Some(segment) = decide::seal(&root) {
            let bytes = segment.to_bytes();
            let written = Written { epoch: root.epoch, run: root.run, number: segments };
            segments += 1;
            root = root.sealing(&segment.reference(written, &bytes)).expect("stands at the front");
        }
    }
    root
}

#[test]
fn a_root_is_read_back() {
    for objects in [0, 1, 63, 64, 65, 5_000] {
        let root = filled(objects).truncated(3).unwrap_or_else(|| filled(objects));
        assert_eq!(Root::from_bytes(&root.to_bytes()).expect("is whole"), root, "{objects}");
        assert_eq!(root.next, 2 * objects);
    }
}

#[test]
fn every_edit_is_idempotent_and_l1_holds_behind_it() {
    // The tail is full, so that there is something to seal.
    let drafts = |root: &Root| (200..240).map(|n| draft(root.claim(), n, &[])).collect::<Vec<_>>();
    let root = filled(200);
    let root = root.committing(&drafts(&root), 1).expect("is new");
    let segment = decide::seal(&root).expect("the tail is full");
    let reference = segment.reference(Written { epoch: 1, run: 77, number: 999 }, &segment.to_bytes());
    type Edit<'a> = &'a dyn Fn(&Root) -> Option<Root>;
    let edits: [(&str, Edit<'_>); 5] = [
        ("claim", &|root| root.claimed(78, "host 2")),
        ("commit", &|root| root.committing(&[draft(root.claim(), 240, &[(5, 9)])], 3)),
        ("seal", &|root| root.sealing(&reference)),
        ("truncate", &|root| root.truncated(100)),
        ("consumer", &|root| root.with_consumer("reader", true)),
    ];
    for (name, edit) in edits {
        let once = edit(&root).unwrap_or_else(|| panic!("{name} changes something"));
        Root::from_bytes(&once.to_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(once.revision > root.revision, "{name}");
        assert_eq!(edit(&once), None, "{name} changes nothing twice");
    }
    let low = root.truncated(100).expect("is higher");
    let cleaned = low.cleaned(96, 500).expect("is higher");
    Root::from_bytes(&cleaned.to_bytes()).expect("is whole");
    assert_eq!(cleaned.cleaned(96, 500), None);
    assert_eq!(root.cleaned(96, 500), None, "nothing is cleaned that is held");
}

#[test]
fn a_commit_that_is_in_the_log_is_not_made_twice() {
    let root = root();
    let drafts: Vec<Draft> = (0..3).map(|number| draft(root.claim(), number, &[(4, number)])).collect();
    let first = root.committing(&drafts[..2], 1).expect("is new");
    let both = first.committing(&drafts, 1).expect("the third is new");
    assert_eq!((both.next, both.committed, both.watermark(4)), (6, 3, Some(2)));
    assert_eq!(both.tail.iter().map(|entry| entry.first).collect::<Vec<_>>(), [0, 2, 4]);
    assert_eq!(both.committing(&drafts, 1), None);
}

#[test]
fn earlier_owners_are_remembered_with_what_they_have_committed() {
    let mut root = filled(5);
    let first = root.claim();
    for run in 100..100 + PAST_MAX as u64 {
        root = root.claimed(run, "next").expect("another run");
        assert_eq!((root.committed_by(first), root.committed), (Some(5), 0));
    }
    root = root.claimed(1, "one more").expect("another run");
    assert_eq!(root.committed_by(first), None);
}

#[test]
fn the_stamp_of_a_commit_never_goes_back() {
    let root = root().committing(&[draft(root().claim(), 0, &[])], 5_000).expect("is new");
    let root = root.committing(&[draft(root.claim(), 1, &[])], 4_000).expect("is new");
    assert_eq!(root.tail.iter().map(|entry| entry.stamp_ms).collect::<Vec<_>>(), [5_000, 5_000]);
}

#[test]
fn a_silent_producer_makes_room_and_a_busy_one_does_not() {
    let mut root = root();
    for producer in 0..PRODUCERS_MAX as u64 {
        let draft = draft(root.claim(), producer, &[(u128::from(producer) + 1, 0)]);
        root = root.committing(&[draft], 10_000 + producer as i64).expect("is new");
        while let Some(segment) = decide::seal(&root) {
            let written = Written { epoch: 1, run: 77, number: producer };
            root = root.sealing(&segment.reference(written, &segment.to_bytes())).expect("stands there");
        }
    }
    assert!(!root.has_room_for_producer(20_000));
    let late = 10_001 + PRODUCER_IDLE_MS;
    assert!(root.has_room_for_producer(late));
    let draft = draft(root.claim(), PRODUCERS_MAX as u64, &[(9_999, 0)]);
    let root = root.committing(&[draft], late).expect("is new");
    assert_eq!((root.watermark(1), root.watermark(2), root.watermark(9_999)), (None, Some(0), Some(0)));
}

/// L8: the longest root that the bounds allow.
#[test]
fn a_root_with_every_list_full_is_below_64_kib() {
    let wide = Entry {
        epoch: u64::MAX,
        run: u64::MAX,
        number: u64::MAX,
        first: u64::MAX,
        rows: u32::MAX,
        bytes: u64::MAX,
        raw_bytes: u64::MAX,
        crc32c: u32::MAX,
        time_min_ms: i64::MIN,
        time_max_ms: i64::MAX,
        stamp_ms: i64::MAX,
        appends: u32::MAX,
    };
    let reference = Reference {
        epoch: u64::MAX,
        run: u64::MAX,
        number: u64::MAX,
        level: 3,
        first: u64::MAX,
        rows: u64::MAX,
        objects: u64::MAX,
        bytes: u64::MAX,
        stamp_min_ms: i64::MAX,
        stamp_max_ms: i64::MAX,
        crc32c: u32::MAX,
    };
    let root = Root {
        queue: vec![255; 16],
        revision: u64::MAX,
        epoch: u64::MAX,
        run: u64::MAX,
        owner: shortened(&"\u{10ffff}".repeat(500)),
        low: u64::MAX,
        cleaned: u64::MAX,
        next: u64::MAX,
        committed: u64::MAX,
        stamp_ms: i64::MAX,
        tail: vec![wide; TAIL_MAX],
        levels: vec![Level { references: vec![reference; LEVEL_MAX] }; LEVELS_MAX],
        producers: vec![
            Producer {
                id: vec![255; 16],
                ordinal: u64::MAX,
                digest: Some(u32::MAX),
                stamp_ms: i64::MAX
            };
            PRODUCERS_MAX
        ],
        consumers: vec!["x".repeat(crate::names::CONSUMER_BYTES_MAX); CONSUMERS_MAX],
        past: vec![Past { epoch: u64::MAX, run: u64::MAX, committed: u64::MAX }; PAST_MAX],
        bytes: u64::MAX,
        sealed: u64::MAX,
    };
    let bytes = root.to_bytes().len() as u64;
    println!("the longest root has {bytes} bytes");
    assert!(bytes <= ROOT_BYTES_MAX, "{bytes}");
}

/// L8: an hour without a consumer at 7.1 objects a second, and a week.
#[test]
fn an_hours_outage_leaves_the_root_small() {
    let hour = filled(25_560);
    let week = filled(300_000);
    let bytes = (hour.to_bytes().len(), week.to_bytes().len());
    println!("root after 25,560 objects: {} bytes, after 300,000: {} bytes", bytes.0, bytes.1);
    assert!(bytes.0 < 16 << 10 && bytes.1 < 24 << 10, "{bytes:?}");
}

/// The store may be another's: an edit of what it says must not leave a number's type.
#[test]
fn numbers_that_no_log_comes_to_are_refused() {
    let whole = filled(3_000);
    let whole = whole.committing(&[draft(whole.claim(), 3_000, &[(5, 9)])], 1).expect("is new");
    let whole = whole.claimed(99, "host 2").expect("is another");
    let changes: [fn(&mut Root); 18] = [
        |root| root.revision = u64::MAX,
        |root| root.epoch = u64::MAX,
        |root| root.committed = u64::MAX,
        |root| root.sealed = u64::MAX,
        |root| root.bytes = u64::MAX,
        |root| root.stamp_ms = i64::MAX,
        |root| root.stamp_ms = i64::MIN,
        |root| root.producers[0].ordinal = u64::MAX,
        |root| root.producers[0].stamp_ms = i64::MIN,
        |root| root.past[0].epoch = u64::MAX,
        |root| root.past[0].committed = u64::MAX,
        |root| root.tail[0].number = u64::MAX,
        |root| root.tail[0].bytes = u64::MAX,
        |root| root.tail[0].stamp_ms = i64::MIN,
        |root| root.levels[0].references[0].number = u64::MAX,
        |root| root.levels[0].references[0].bytes = u64::MAX,
        |root| root.levels[0].references[0].objects = u64::MAX,
        |root| root.levels[0].references[0].stamp_max_ms = i64::MAX,
    ];
    assert_eq!(Root::from_bytes(&whole.to_bytes()).expect("is whole"), whole);
    for (n, change) in changes.into_iter().enumerate() {
        let mut root = whole.clone();
        change(&mut root);
        let found = Root::from_bytes(&root.to_bytes());
        assert!(found.is_err_and(|error| error.to_string().contains("no log comes to")), "change {n}");
    }
}

#[test]
fn a_root_keeps_its_golden_bytes() {
    let root = root()
        .committing(&[draft(root().claim(), 0, &[(1, 2)])], 1_234)
        .and_then(|root| root.with_consumer("reader", true))
        .and_then(|root| root.claimed(99, "host 2"))
        .and_then(|root| root.truncated(1))
        .expect("each changes something");
    assert_eq!(hex(&root.to_bytes()), include_str!("golden.txt").trim());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn fuzz_root() {
    let examples = [filled(0), filled(70), filled(3_000)].map(|root| root.to_bytes());
    let empty = (1..18_u8).map(|tag| [tag << 3 | 2, 0].repeat(1_000));
    // The greatest number for each field that is one.
    let greatest = (1..16_u8).map(|tag| [&[tag << 3][..], &[0xff; 9], &[1]].concat());
    testkit::Fuzz::new("log root")
        .examples(examples)
        .words(empty.chain(greatest))
        .memory_max(1 << 20, 300)
        .run(3_000, |bytes| {
            let _ = Root::from_bytes(bytes);
            let mut summed = bytes.to_vec();
            summed.truncate(bytes.len().saturating_sub(4));
            let crc = crc32c::crc32c(&summed);
            summed.extend_from_slice(&crc.to_le_bytes());
            let Ok(root) = Root::from_bytes(&summed) else { return };
            assert_eq!(
                Root::from_bytes(&root.to_bytes()).expect("what was read can be written and read"),
                root
            );
            // Whatever it says, an edit of it does not panic.
            let _ = (root.claimed(1, "x"), root.truncated(u64::MAX), root.with_consumer("x", true));
            let _ = (root.cleaned(u64::MAX, u64::MAX), root.has_room_for_producer(0));
            let drafts = [draft(root.claim(), root.committed, &[(1, 2)])];
            let _ = root.committing(&drafts, 0);
            let _ = decide::seal(&root).map(|segment| {
                let written = Written { epoch: root.epoch, run: root.run, number: root.sealed };
                root.sealing(&segment.reference(written, &[]))
            });
        });
}
