use std::io::Write;

use super::*;

fn file(text: &[u8]) -> File {
    let path = std::env::temp_dir().join(format!("forebay-mark-{}-{}", std::process::id(), text.len()));
    let mut file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(text).unwrap();
    file
}

#[test]
fn a_mark_is_what_its_number_says() {
    let of = file(b"one\ntwo\n");
    for next in [0, 4, 8] {
        for is_end in [false, true] {
            let mark = Mark::of(&of, next, is_end).unwrap();
            assert_eq!((Mark::from(mark.epoch()), mark.epoch() >= 0, mark.is_end), (mark, true, is_end));
            assert_eq!(mark.hash.is_some(), next > 0);
        }
    }
    // What earlier programs wrote, and no mark at all.
    assert_eq!([0, 1, -1].map(Mark::from), [Mark::none(false), Mark::none(true), Mark::none(false)]);
    assert_eq!([false, true].map(|is_end| Mark::none(is_end).epoch()), [0, 1]);
}

#[test]
fn only_the_bytes_in_front_of_the_position_count() {
    let line = vec![b'a'; 2 * BYTES as usize];
    let next = line.len() as u64;
    let mark = Mark::of(&file(&line), next, false).unwrap();
    let changed = |at: usize| {
        let mut line = [line.as_slice(), b"more"].concat();
        line[at] = b'b';
        mark.fits(&file(&line), next).unwrap()
    };
    let first = line.len() - BYTES as usize;
    assert_eq!([first - 1, first, line.len() - 1, line.len()].map(changed), [true, false, false, true]);
    assert!(!mark.fits(&file(&line[1..]), next).unwrap(), "a file that is shorter was not read to there");
    assert!(Mark::none(false).fits(&file(b""), next).unwrap());
}
