use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::file::tests::Folder;

fn key() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab=-][ab._=-]{0,1}", 1..4).prop_map(|segments| segments.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_listing_is_what_sorting_all_keys_gives(
        keys in prop::collection::btree_set(key(), 0..30),
        prefix in prop_oneof![Just(String::new()), key()],
        after in prop::option::of(key()),
        limit in 0_usize..12,
    ) {
        let folder = Folder::new();
        let disk = Disk::open(folder.path()).expect("opens");
        let mut written = BTreeSet::new();
        for key in keys {
            let path = folder.path().join(&key);
            // Keys that clash with one another cannot all be there.
            let made = fs::create_dir_all(path.parent().expect("below the root")).is_ok();
            if made && fs::write(&path, key.as_bytes()).is_ok() {
                written.insert(Key::new(key).expect("a key"));
            }
        }
        let prefix = Prefix::new(&prefix).expect("a prefix");
        let after = after.map(|after| Key::new(after).expect("a key"));
        let expected: Vec<&Key> = written
            .iter()
            .filter(|key| prefix.contains(key) && after.as_ref().is_none_or(|after| *key > after))
            .take(limit)
            .collect();
        let found = list(&disk, &prefix, after.as_ref(), limit).expect("lists");
        prop_assert_eq!(found.iter().map(|entry| &entry.key).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn more_empty_folders_than_one_pass_keeps_do_not_end_a_page() {
    let folder = Folder::new();
    let disk = Disk::open(folder.path()).expect("opens");
    for n in 0..2 * NAMES_MIN + 3 {
        fs::create_dir(folder.path().join(format!("{n:05}"))).expect("makes");
    }
    fs::write(folder.path().join("last"), b"x").expect("writes");
    let found = list(&disk, &Prefix::root(), None, 1).expect("lists");
    assert_eq!(found.len(), 1);
}
