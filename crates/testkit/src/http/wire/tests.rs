use super::*;

fn content(framing: Framing, mut bytes: &[u8]) -> io::Result<(Vec<u8>, usize)> {
    let mut content = Vec::new();
    Body::new(&mut bytes, framing).read_to_end(&mut content)?;
    Ok((content, bytes.len()))
}

#[test]
fn a_head_that_is_written_reads_back() {
    let head = Head { start: "POST /?a=b HTTP/1.1".into(), headers: vec![("X-One".into(), "1: 2".into())] };
    let mut bytes = Vec::new();
    head.write(&mut bytes).unwrap();
    let read = Head::read(&mut bytes.as_slice()).unwrap().unwrap();
    assert_eq!(read, head);
    assert_eq!(read.request().unwrap(), ("POST", "/?a=b"));
    assert_eq!(read.get("x-one"), Some("1: 2"));
}

#[test]
fn a_closed_connection_is_no_head_and_half_a_head_is_an_error() {
    assert_eq!(Head::read(&mut &b""[..]).unwrap(), None);
    for half in ["GET / HT", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: x\r\n"] {
        assert!(Head::read(&mut half.as_bytes()).is_err(), "{half}");
    }
}

#[test]
fn a_body_ends_where_its_framing_says() {
    assert_eq!(content(Framing::Length(3), b"abcNEXT").unwrap(), (b"abc".to_vec(), 4));
    assert_eq!(
        content(Framing::Chunked, b"2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\nNEXT").unwrap(),
        (b"abc".to_vec(), 4)
    );
    assert_eq!(content(Framing::Chunked, b"0\r\nTrailer: 1\r\n\r\nNEXT").unwrap(), (vec![], 4));
    assert_eq!(content(Framing::UntilClose, b"abc").unwrap(), (b"abc".to_vec(), 0));
    assert_eq!(content(Framing::Length(0), b"NEXT").unwrap(), (vec![], 4));
}

#[test]
fn a_body_that_is_cut_is_an_error() {
    for (framing, bytes) in [
        (Framing::Length(4), &b"abc"[..]),
        (Framing::Chunked, b"3\r\nab"),
        (Framing::Chunked, b"2\r\nab\r\n"),
        (Framing::Chunked, b"2\r\nabc\r\n0\r\n\r\n"),
        (Framing::Chunked, b"x\r\n"),
    ] {
        assert!(content(framing, bytes).is_err(), "{framing:?} {bytes:?}");
    }
}

#[test]
fn chunks_that_are_written_read_back() {
    let mut bytes = Vec::new();
    for chunk in [&b"hello"[..], b"", b" world"] {
        write_chunk(&mut bytes, chunk).unwrap();
    }
    write_last_chunk(&mut bytes).unwrap();
    assert_eq!(content(Framing::Chunked, &bytes).unwrap(), (b"hello world".to_vec(), 0));
}

#[test]
fn a_line_without_an_end_is_refused_before_it_fills_the_memory() {
    let endless = vec![b'a'; LINE_BYTES_MAX as usize + 10];
    assert!(Head::read(&mut endless.as_slice()).unwrap_err().to_string().contains("too long"));
}
