use super::*;

#[test]
fn columns_are_as_wide_as_what_stands_in_them() {
    let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
    let shown = columns(&["A", "WHY"], &[row(["long cell", "x"]), row(["é", ""])]);
    assert_eq!(shown, "A          WHY\nlong cell  x\né\n");
}

#[test]
fn a_record_cannot_write_to_the_terminal_but_its_text() {
    assert_eq!(printable("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
    let shown = columns(&["A", "B"], &[vec!["\u{7}".repeat(99), "x\ry".into()]]);
    assert!(!shown.contains('\u{7}') && !shown.contains('\r') && shown.lines().count() == 2, "{shown}");
}

#[test]
fn bytes_that_are_no_text_are_shown_in_hexadecimal() {
    assert_eq!(text_or_hex(b"a\xff"), ("61ff".to_owned(), false));
    assert_eq!(text_or_hex("é".as_bytes()), ("é".to_owned(), true));
}

#[test]
fn names_are_shown_whole_however_long() {
    let name = format!("/data/{}/events.jsonl.gz/0/123456789", "a long folder/".repeat(20));
    let shown = columns(&["LETTER", "COLUMN", "WHY"], &[vec![name.clone(), "c".repeat(200), "x".into()]]);
    assert!(shown.contains(&format!("{name}  {}  x", "c".repeat(200))), "{shown}");
}
