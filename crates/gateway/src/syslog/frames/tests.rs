use super::*;

/// The messages of these pieces, and the rest at the end.
fn all(pieces: &[&[u8]], max: usize) -> Vec<(String, bool)> {
    let mut frames = Frames::new(max);
    let mut found = Vec::new();
    let text = |frame: Frame<'_>| (String::from_utf8_lossy(frame.bytes).into_owned(), frame.is_cut);
    for piece in pieces {
        frames.buffer.extend_from_slice(piece);
        while let Some(frame) = frames.next() {
            found.push(text(frame));
        }
        frames.compact();
        assert!(frames.buffer.len() <= max + DIGITS_MAX + 2, "{}", frames.buffer.len());
    }
    found.extend(frames.last(true).map(text));
    found
}

fn whole(texts: &[&str]) -> Vec<(String, bool)> {
    texts.iter().map(|text| ((*text).to_owned(), false)).collect()
}

#[test]
fn messages_are_counted_or_end_with_a_line() {
    let bytes = b"7 <1>a\nb<2>c\r\n\n<3>d\x00<4>e\n5 <5>f 12 apes\n1234567890 <\n9 <6>";
    let expected = whole(&["<1>a\nb", "<2>c\r", "<3>d", "<4>e", "<5>f ", "12 apes", "1234567890 <"]);
    // The first is seven bytes long, the line break among them.
    let expected =
        [whole(&["<1>a\nb<"]), whole(&["2>c\r"]), expected[2..].to_vec(), vec![("<6>".to_owned(), true)]]
            .concat();
    assert_eq!(all(&[bytes], 100), expected);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(all(&single, 100), expected, "byte by byte");
}

#[test]
fn a_line_that_begins_as_a_length_does_is_one_unless_a_priority_follows() {
    let bytes = b"404 <html>not found</html>\n<1>a\n200 <\n3 <2>";
    let expected = whole(&["404 <html>not found</html>", "<1>a", "200 <", "<2>"]);
    assert_eq!(all(&[bytes], 100), expected);
    assert_eq!(all(&bytes.chunks(1).collect::<Vec<_>>(), 100), expected, "byte by byte");
}

#[test]
fn what_is_longer_than_the_bound_is_cut_and_the_next_one_is_whole() {
    let bytes = [&b"30 <1>"[..], &[b'x'; 27], b"4 <2>a<3>", &[b'y'; 40], b"\n<4>b\n"].concat();
    let cut = |text: &str, is_cut| (text.to_owned(), is_cut);
    let expected = [cut("<1>xxxxxxx", true), cut("<2>a", false), cut("<3>yyyyyyy", true), cut("<4>b", false)];
    assert_eq!(all(&bytes.chunks(10).collect::<Vec<_>>(), 10), expected);
    assert_eq!(all(&bytes.chunks(1).collect::<Vec<_>>(), 10), expected);
    assert_eq!(all(&[b"999999999 <1>xx"], 4), [cut("<1>x", true)], "the length alone takes nothing");
}

#[test]
fn a_line_without_an_end_counts_at_the_end_of_its_connection() {
    assert_eq!(all(&[b"<1>a\n<2>b"], 100), whole(&["<1>a", "<2>b"]));
    assert_eq!(all(&[b"<1>a\n \n"], 100), whole(&["<1>a"]));
    let mut frames = Frames::new(100);
    frames.buffer.extend_from_slice(b"<1>a");
    assert!(frames.next().is_none() && frames.is_within());
    assert_eq!(frames.last(false), Some(Frame { bytes: b"<1>a", is_cut: true }));
    assert!(!frames.is_within());
}

#[test]
fn fuzz_frames() {
    testkit::Fuzz::new("gateway syslog frames")
        .examples([&b"7 <1>a\nb<2>c\r\n\n<3>d\x00<4>e\n5 <5>f 12 apes\n"[..]])
        .words([&b"9 <"[..], b"1000 <1>", b"\n", b"\x00", b"999999999 <"])
        .memory_max(64 << 10, 200)
        .run(3_000, |bytes| {
            let at_once = all(&bytes.chunks(12).collect::<Vec<_>>(), 12);
            assert_eq!(at_once, all(&bytes.chunks(1).collect::<Vec<_>>(), 12), "pieces make no difference");
            assert!(at_once.iter().all(|(text, _)| text.chars().count() <= 12));
        });
}
