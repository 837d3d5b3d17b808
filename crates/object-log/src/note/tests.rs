use super::*;
use crate::support::{owner, partition};

fn note(position: u64, body: &str) -> Note {
    Note { position, body: body.as_bytes().to_vec() }
}

async fn notes(partition: &LogPartition) -> (Notes, Option<Note>, crate::Owner) {
    let owner = owner(partition).await;
    let root = owner.root();
    let (notes, found) = Notes::open(partition.clone(), root.queue_id(), root.claim()).await.expect("opens");
    (notes, found, owner)
}

#[tokio::test]
async fn a_later_owner_reads_what_was_noted_and_an_earlier_one_notes_nothing_more() {
    let partition = partition();
    let (mut first, found, _first) = notes(&partition).await;
    assert_eq!(found, None);
    first.write(&note(0, "a")).await.expect("writes");
    first.write(&note(3, "b")).await.expect("writes");
    let (mut second, found, _second) = notes(&partition).await;
    assert_eq!(found, Some(note(3, "b")));
    // The sleeper's late write is no harm: the owner's next one replaces it.
    first.write(&note(4, "late")).await.expect("nobody has written since");
    second.write(&note(5, "c")).await.expect("the newer epoch");
    let fenced = first.write(&note(6, "later")).await;
    assert!(matches!(fenced, Err(LogError::Fenced { epoch: 2, .. })), "{fenced:?}");
    let (_, found, _third) = notes(&partition).await;
    assert_eq!(found, Some(note(5, "c")));
    let long = Note { position: 0, body: vec![0; NOTE_BYTES_MAX + 1] };
    assert!(second.write(&long).await.is_err());
    second.write(&Note { position: 0, body: vec![0; NOTE_BYTES_MAX] }).await.expect("fits into a register");
}

#[test]
fn fuzz_bytes_of_a_note_never_panic() {
    let register =
        Register { queue: vec![7; 16], epoch: 3, run: 9, revision: 2, position: 77, body: b"body".to_vec() };
    let good = framing::encode(MAGIC, &register);
    assert_eq!(Register::from_bytes(&good), Ok(register));
    testkit::Fuzz::new("log note").example(&good).memory_max(1 << 16, 200).run(3_000, |bytes| {
        // Behind a right checksum, or everything is refused at the same place.
        let mut bytes = bytes.to_vec();
        let length = bytes.len();
        if length > 8 {
            let crc = crc32c::crc32c(&bytes[..length - 4]);
            bytes[length - 4..].copy_from_slice(&crc.to_le_bytes());
        }
        drop(Register::from_bytes(&bytes));
    });
}
