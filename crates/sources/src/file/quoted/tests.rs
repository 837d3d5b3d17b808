use std::sync::Arc;

use dataflow::{BlockBuilder, Partition, Position};
use proptest::prelude::*;

use super::super::lines::Lines;
use super::*;

const CSV: Csv = Csv { delimiter: b',', quote: Some(b'"'), has_head: false };

fn builder(next: u64) -> BlockBuilder {
    BlockBuilder::new(Partition::new("f", 0), next.into())
}

/// Position and text of the records from `from` on, fed in pieces of `step` bytes, and what is left.
fn records(csv: Csv, text: &str, from: usize, step: usize, is_final: bool) -> (Vec<(u64, String)>, u64) {
    let mut lines = Lines::of_csv(csv, from as u64, 4 << 20);
    let mut block = builder(from as u64);
    let mut rest = &text.as_bytes()[from..];
    while !rest.is_empty() {
        let used = lines.feed(&rest[..step.min(rest.len())], &mut block);
        assert!(used > 0, "the block is not full");
        rest = &rest[used..];
    }
    let left = lines.finish(&mut block, is_final);
    let block = block.take();
    let record =
        |row: usize| (block.positions[row], String::from_utf8(block.payloads.get(row).to_vec()).unwrap());
    assert_eq!(Position::from(lines.next()), block.next);
    ((0..block.len()).map(record).collect(), left)
}

fn texts(text: &str) -> Vec<String> {
    let (records, left) = records(CSV, text, 0, usize::MAX, false);
    assert_eq!(left, 0);
    records.into_iter().map(|(_, text)| text).collect()
}

#[test]
fn line_breaks_within_quotes_are_parts_of_the_record() {
    assert_eq!(texts("1,\"a\nb\"\n2,c\n"), ["1,\"a\nb\"", "2,c"]);
    assert_eq!(texts("1,\"a\r\n\r\nb\"\r\n2,c\r\n"), ["1,\"a\r\n\r\nb\"", "2,c"]);
    assert_eq!(texts("\"a\"\"\n\"\"b\",\"\n\"\nx\n"), ["\"a\"\"\n\"\"b\",\"\n\"", "x"]);
    // A quote counts at the beginning of a field only.
    assert_eq!(texts("5\" pipe,1\n6\" pipe,2\n"), ["5\" pipe,1", "6\" pipe,2"]);
    assert_eq!(texts("\n\n1\n\r\n2\n"), ["1", "2"]);
    let unquoted = Csv { quote: None, ..CSV };
    let (found, _) = records(unquoted, "\"a\nb\"\n", 0, 3, false);
    assert_eq!(found, [(0, "\"a".into()), (3, "b\"".into())]);
}

#[test]
fn a_quote_that_nobody_closes_costs_one_record() {
    // The next quote is followed by text, so the first one was a mistake.
    assert_eq!(texts("1,\"a\n2,b\n3,\"c\"\n"), ["1,\"a", "2,b", "3,\"c\""]);
    // None follows, within the bound.
    let line = "2,".to_owned() + &"x".repeat(1000);
    let mut text = "1,\"a\n".to_owned();
    for _ in 0..1_100 {
        text += &line;
        text += "\n";
    }
    let found = texts(&text);
    assert_eq!((found.len(), &*found[0], &found[1]), (1_101, "1,\"a", &line));
    // A record that has line breaks keeps to the bound; a line by itself may be longer.
    let long = format!("1,\"a\n{}\"\n{}\n", "x".repeat(JOINED_BYTES_MAX), "y".repeat(JOINED_BYTES_MAX + 1));
    assert_eq!(texts(&long).len(), 3);
}

#[test]
fn what_may_go_on_waits_for_its_end() {
    for (text, whole, left) in
        [("1,a\n2,b", 1, 3), ("1,a\n2,\"b\n", 1, 5), ("1,a\n2,\"b\n3,c\n", 1, 9), ("1,a\n2,{}", 1, 4)]
    {
        let (found, rest) = records(CSV, text, 0, usize::MAX, false);
        assert_eq!((found.len(), rest), (whole, left), "{text:?}");
    }
    // Nothing follows standard input, so that what there is are the records.
    let (found, rest) = records(CSV, "1,a\n2,\"b\n3,c\n4,d", 0, usize::MAX, true);
    let found: Vec<_> = found.into_iter().map(|(_, text)| text).collect();
    assert_eq!((found, rest), (["1,a", "2,\"b", "3,c", "4,d"].map(String::from).into(), 0));
}

#[test]
fn the_first_record_becomes_the_head_and_a_mark_is_no_part_of_it() {
    let csv = Csv { has_head: true, ..CSV };
    for text in ["a,b\n1,2\n", "\u{feff}a,b\r\n1,2\n", "\n\na,b\n1,2"] {
        let mut lines = Lines::of_csv(csv, 0, 1 << 20);
        let mut block = builder(0);
        lines.feed(text.as_bytes(), &mut block);
        lines.finish(&mut block, true);
        let block = block.take();
        assert_eq!(block.head.as_deref(), Some(&b"a,b"[..]), "{text:?}");
        assert_eq!((block.len(), block.payloads.get(0)), (1, &b"1,2"[..]));
    }
    let (found, _) = records(csv, "\u{feff}\"a\nb\",c\n1,2\n", 0, 5, false);
    assert_eq!(found, [(11, "1,2".into())]);
    let (found, _) = records(CSV, "\u{feff}\"a\nb\",c\n1,2\n", 0, 4, false);
    assert_eq!(found, [(0, "\"a\nb\",c".into()), (11, "1,2".into())]);
}

#[test]
fn a_full_block_leaves_the_rest_for_the_next_one() {
    let mut text = "x,\"\n".to_owned();
    text.extend(std::iter::repeat_n("1\n", 2 * BlockBuilder::RECORDS_MAX));
    text += "2,\"a\"\n";
    let mut lines = Lines::of_csv(CSV, 0, 1 << 20);
    let (mut block, mut rest) = (builder(0), text.as_bytes());
    let (mut sizes, mut next) = (Vec::new(), 0);
    // As the reader does it: at the end of the file a block is taken whether it is full or not.
    loop {
        let is_end = rest.is_empty();
        if is_end {
            lines.finish(&mut block, false);
        }
        if block.is_full() || is_end {
            let taken = block.take();
            if taken.is_empty() {
                break;
            }
            assert!(taken.positions[0] >= next);
            next = dataflow::position::low(taken.next);
            sizes.push(taken.len());
        } else {
            let used = lines.feed(rest, &mut block);
            rest = &rest[used..];
        }
    }
    assert_eq!((lines.next(), lines.next()), (next, text.len() as u64));
    assert_eq!(sizes.iter().sum::<usize>(), 2 * BlockBuilder::RECORDS_MAX + 2, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= BlockBuilder::RECORDS_MAX), "{sizes:?}");
}

proptest! {
    /// However the bytes come, and from whichever record one begins, the records are the same.
    #[test]
    fn records_hang_on_nothing_before_their_start(
        parts in prop::collection::vec(prop::sample::select(vec!["a", ",", "\"", "\"\"", "\n", "\r\n", ",\"", "\",", "\"\n", "é"]), 0..60),
        step in 1usize..9,
        is_final: bool,
    ) {
        let text = parts.concat();
        let (whole, left) = records(CSV, &text, 0, usize::MAX, is_final);
        prop_assert_eq!(&(whole.clone(), left), &records(CSV, &text, 0, step, is_final));
        for (n, (from, _)) in whole.iter().enumerate() {
            let (rest, rest_left) = records(CSV, &text, *from as usize, step, is_final);
            prop_assert_eq!(&whole[n..], &rest[..]);
            prop_assert_eq!(left, rest_left);
        }
        // Nothing is lost but line ends and empty lines.
        let kept: String = whole.iter().map(|(_, text)| &**text).collect::<String>().replace(['\r', '\n'], "");
        let all = text[..text.len() - left as usize].replace(['\r', '\n'], "");
        prop_assert_eq!(kept, all);
    }
}

#[test]
fn a_head_is_shared_by_all_blocks() {
    let csv = Csv { has_head: true, ..CSV };
    let mut lines = Lines::of_csv(csv, 0, 1 << 20);
    let mut block = builder(0);
    lines.feed(b"a\n1\n", &mut block);
    let first = block.take();
    lines.feed(b"2\n", &mut block);
    let (first, second) = (first.head.unwrap(), block.take().head.unwrap());
    assert!(Arc::ptr_eq(&first, &second));
}
