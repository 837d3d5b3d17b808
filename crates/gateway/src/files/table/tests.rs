use std::fs::File;

use super::*;

fn known(path: &str) -> Known {
    let file = File::open(std::env::current_exe().unwrap()).unwrap();
    Known {
        path: path.to_owned(),
        at: path.to_owned(),
        identity: Identity::of(&file).unwrap(),
        offset: u64::MAX >> 1,
        bytes: u64::MAX >> 1,
        met_ms: i64::MAX,
        missing_ms: i64::MAX,
        is_lost: false,
        mark: Mark { at: u64::MAX, hash: u64::MAX },
    }
}

#[test]
fn a_table_is_read_back_and_a_full_one_fits_into_a_note() {
    let mut table = Table::default();
    assert!(table.begin(&["/a/*".to_owned(), "/b".to_owned()]) && !table.begin(&["/b".to_owned()]));
    while table.has_room_for(2 * 60) {
        let number = u64::MAX - table.files.len() as u64;
        table.files.insert(number, known(&format!("/var/log/\n{:0>50}", table.files.len())));
    }
    let bytes = table.to_bytes();
    assert!(bytes.len() <= object_log::note::NOTE_BYTES_MAX, "{}", bytes.len());
    assert!(table.files.len() > 1_300, "{}", table.files.len());
    assert_eq!(Table::from_bytes(&bytes), Ok(table));
    assert!(Table::from_bytes(b"{}").is_err() && Table::from_bytes(b"").is_err());
}

#[test]
fn labels_of_files_are_told_from_names_of_requests() {
    assert_eq!(file_of(label_id(7)), Some(7));
    assert_eq!(file_of(crate::keys::Key::named("client", b"name", 1).id), None);
    let mut table = Table::default();
    table.files.insert(7, Known { offset: 10, ..known("a") });
    for (number, offset) in [(7, 30), (7, 20), (8, 5)] {
        table.reached(number, offset);
    }
    assert_eq!((table.files.len(), table.files[&7].offset), (1, 30), "and nothing is learned of others");
}
