//! A message is refused by its head alone, in whatever pieces it comes, and all others pass.

use testkit::{Lcg, seed};

use super::*;

fn message(content: usize) -> Vec<u8> {
    let length = (content as u32 + 4).to_be_bytes();
    [b"D".as_slice(), &length, &vec![b'x'; content]].concat()
}

/// How much of `bytes` passes, in pieces of random lengths.
fn follow(bytes: &[u8], bytes_max: usize, random: &mut Lcg) -> Result<(), (usize, usize)> {
    let (mut messages, mut at) = (Messages::new(bytes_max), 0);
    while at < bytes.len() {
        let piece = (1 + random.below(40) as usize).min(bytes.len() - at);
        messages.follow(&bytes[at..at + piece]).map_err(|length| (at + piece, length))?;
        at += piece;
    }
    Ok(())
}

#[test]
fn a_message_that_is_too_long_is_refused_by_its_head() {
    let mut random = Lcg::new(seed());
    let max = MESSAGE_BYTES_MIN + 100;
    for _ in 0..200 {
        let mut bytes = Vec::new();
        for _ in 0..random.below(20) {
            bytes.extend(message(random.below(300) as usize));
        }
        assert_eq!(follow(&bytes, 100, &mut random), Ok(()));
        let before = bytes.len();
        let long = max as u32 + 1 + random.below(u64::from(u32::MAX - max as u32 - 1)) as u32;
        bytes.push(b'D');
        bytes.extend(long.to_be_bytes());
        bytes.extend([b'x'; 100]);
        let (at, length) = follow(&bytes, 100, &mut random).expect_err("it is too long");
        assert_eq!(length, long as usize);
        assert!(at >= before + HEAD_BYTES && at <= before + HEAD_BYTES + 40, "as soon as its head has come");
    }
    let exact = (max as u32).to_be_bytes();
    assert_eq!(follow(&[b"D", exact.as_slice()].concat(), 100, &mut random), Ok(()));
}

#[test]
fn fuzz_any_bytes_end_or_pass() {
    let mut random = Lcg::new(seed());
    for _ in 0..2_000 {
        let bytes: Vec<u8> =
            (0..random.below(200)).map(|_| [0, 1, 4, 255][random.below(4) as usize]).collect();
        let whole = Messages::new(10).follow(&bytes);
        assert_eq!(whole.err(), follow(&bytes, 10, &mut random).err().map(|(_, length)| length));
    }
}
