use super::super::messages::{Flow, MessageId, OfConsumer, Subscribe};
use super::*;

#[test]
fn a_command_is_read_as_it_was_written_with_its_zeros() {
    let subscribe = Subscribe {
        topic: "persistent://a/b/c".into(),
        start: Some(MessageId { ledger: 3, entry: 0, partition: None, batch_index: Some(0) }),
        durable: Some(false),
        ..Subscribe::default()
    };
    let command = Command { kind: Kind::Subscribe as i32, subscribe: Some(subscribe), ..Command::default() };
    let mut bytes = Vec::new();
    write(&mut bytes, &command);
    assert_eq!(bytes.len(), PREFIX_BYTES + u32::from_be_bytes(bytes[..4].try_into().expect("four")) as usize);
    let Ok(Frame::Command(found)) = read(&bytes[4..]) else { panic!("a command") };
    assert_eq!(*found, command);
    // What the protocol requires is there even if it is zero: an entry of 0, an empty subscription.
    assert!(bytes.windows(4).any(|window| window == [0x08, 3, 0x10, 0]), "{bytes:?}");
    assert!(bytes.windows(2).any(|window| window == [0x12, 0]), "{bytes:?}");
}

#[test]
fn a_sign_of_life_has_its_empty_field() {
    let mut bytes = Vec::new();
    write(&mut bytes, &ping());
    assert_eq!(bytes[8..], [0x08, 18, 0x92, 0x01, 0], "the kind, and field 18 without bytes");
}

#[test]
fn a_command_of_a_later_broker_is_no_fault() {
    // Kind 100, and field 100 with two bytes.
    let command = [0x08, 100, 0xa2, 0x06, 2, 1, 1];
    let bytes = [&(command.len() as u32).to_be_bytes()[..], &command].concat();
    let Ok(Frame::Command(found)) = read(&bytes) else { panic!("a command") };
    assert_eq!(found.kind(), Kind::Unknown);
}

#[test]
fn an_entry_behind_what_a_broker_adds_is_found() {
    let mut frame = Vec::new();
    write_entry(&mut frame, &ping(), b"meta", b"payload");
    let body = frame.split_off(8 + ping().encoded_len());
    assert_eq!(entry(&body), Ok((&b"meta"[..], &b"payload"[..])));
    let added = [&BROKER_MAGIC[..], &2_u32.to_be_bytes(), b"xx", &body].concat();
    assert_eq!(entry(&added), Ok((&b"meta"[..], &b"payload"[..])));
    assert_eq!(entry(&body[..body.len() - 1]), Err(FrameError::Checksum));
    for length in 0..body.len() - 11 {
        assert!(entry(&body[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn fuzz_pulsar_commands() {
    let mut examples = Vec::new();
    for command in [
        Command {
            kind: Kind::Flow as i32,
            flow: Some(Flow { consumer: 1, permits: 2 }),
            ..Command::default()
        },
        Command {
            kind: Kind::CloseConsumer as i32,
            close_consumer: Some(OfConsumer { consumer: 1, request: Some(2) }),
            ..Command::default()
        },
    ] {
        let mut bytes = Vec::new();
        write(&mut bytes, &command);
        examples.push(bytes.split_off(4));
    }
    testkit::Fuzz::new("pulsar commands").examples(examples).memory_max(1 << 20, 64).run(2_000, |bytes| {
        let _ = read(bytes);
    });
}
