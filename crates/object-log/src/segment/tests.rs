use super::*;
use crate::support::{draft, root};

fn entries() -> Segment {
    let root = root();
    let drafts: Vec<_> = (0..3).map(|number| draft(root.claim(), number, &[])).collect();
    Segment::of_entries(&root.queue, &root.committing(&drafts, 2_000).expect("is new").tail)
}

const WRITTEN: Written = Written { epoch: 1, run: 77, number: 4 };

#[test]
fn a_segment_is_read_back_by_its_reference_alone() {
    let segment = entries();
    let bytes = segment.to_bytes();
    let reference = segment.reference(WRITTEN, &bytes);
    assert_eq!((reference.first, reference.rows, reference.objects, reference.bytes), (0, 6, 3, 300));
    assert_eq!(Segment::from_bytes(&segment.queue, &reference, &bytes).expect("is whole"), segment);
    let above = Segment::of_references(&segment.queue, &[reference]);
    let above_bytes = above.to_bytes();
    let higher = above.reference(WRITTEN, &above_bytes);
    assert_eq!((higher.level, higher.objects, higher.rows), (1, 3, 6));
    assert_eq!(Segment::from_bytes(&segment.queue, &higher, &above_bytes).expect("is whole"), above);
    for other in [
        Reference { first: 1, ..reference },
        Reference { rows: 5, ..reference },
        Reference { level: 1, ..reference },
        Reference { crc32c: 1, ..reference },
    ] {
        assert!(Segment::from_bytes(&segment.queue, &other, &bytes).is_err(), "{other:?}");
    }
    assert!(Segment::from_bytes(&[9; 16], &reference, &bytes).is_err(), "of another log");
}

#[test]
fn a_segment_keeps_its_golden_bytes() {
    let hex: String = entries().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, include_str!("golden.txt").trim());
}

#[test]
fn fuzz_segment() {
    let segment = entries();
    let example = segment.to_bytes();
    testkit::Fuzz::new("log segment").example(&example).memory_max(1 << 20, 300).run(3_000, |bytes| {
        let mut summed = bytes.to_vec();
        summed.truncate(bytes.len().saturating_sub(4));
        let crc = crc32c::crc32c(&summed);
        summed.extend_from_slice(&crc.to_le_bytes());
        let reference = segment.reference(WRITTEN, &summed);
        if let Ok(read) = Segment::from_bytes(&segment.queue, &reference, &summed) {
            assert_eq!((read.spans().next().expect("one").first, reference.first), (0, 0));
        }
        let _ = Segment::from_bytes(&segment.queue, &reference, bytes);
    });
}
