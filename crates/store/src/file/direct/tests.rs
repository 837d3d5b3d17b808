use std::fs::{self, OpenOptions};
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::conformance::at_page;
use crate::file::tests::Folder;

const MIB: usize = 1 << 20;

fn file(folder: &Path, name: &str) -> File {
    OpenOptions::new().write(true).create_new(true).open(folder.join(name)).expect("makes")
}

/// Bytes that differ from page to page, in memory that begins at a page.
fn made(bytes: usize, seed: u8) -> Bytes {
    let content: Vec<u8> = (0..bytes).map(|n| (n / 7) as u8 ^ (n / PAGE_BYTES) as u8 ^ seed).collect();
    at_page(&content)
}

/// The bytes that `plan` sends past the cache.
fn planned(body: &[Bytes]) -> u64 {
    let past = |stretch: &Stretch<'_>| match stretch {
        Stretch::Past(bytes) => bytes.len() as u64,
        Stretch::Cached(_) => 0,
    };
    plan(body).iter().map(past).sum()
}

/// Writes and reads back; all that was planned went past the cache, or nothing where the file system refuses it.
fn round_trip(folder: &Path, name: &str, body: &[Bytes]) {
    let past_bytes = write(&mut file(folder, name), body).expect("writes");
    assert!([0, planned(body)].contains(&past_bytes), "{past_bytes}");
    let found = fs::read(folder.join(name)).expect("reads");
    assert!(found == body.concat(), "{:?}", body.iter().map(Bytes::len).collect::<Vec<_>>());
}

#[test]
fn sizes_around_pages_are_read_as_written() {
    let folder = Folder::new();
    for bytes in [0, 1, 4_095, 4_096, 4_097, MIB - 1, MIB, MIB + 1, 3 * MIB + 5_000] {
        let body = made(bytes, 1);
        round_trip(folder.path(), &format!("{bytes}"), std::slice::from_ref(&body));
        round_trip(folder.path(), &format!("{bytes}-off"), &[body.slice(bytes.min(1)..)]);
        let large = made(MIB, 2);
        round_trip(folder.path(), &format!("{bytes}-behind"), &[large.clone(), body.clone()]);
        round_trip(folder.path(), &format!("{bytes}-between"), &[large.clone(), body, large]);
    }
}

#[test]
fn whole_pages_at_pages_go_past_the_cache_and_nothing_else() {
    let large = made(MIB + 100, 1);
    let (pages, end) = large.split_at(MIB);
    assert_eq!(
        plan(std::slice::from_ref(&large)),
        [Stretch::Past(pages), Stretch::Cached(vec![end])],
        "the end is no page"
    );
    let fill = Bytes::from(vec![0; PAGE_BYTES - 100]);
    assert_eq!(
        plan(&[large.clone(), Bytes::new(), fill.clone(), large.clone()]),
        [
            Stretch::Past(pages),
            Stretch::Cached(vec![end, &fill]),
            Stretch::Past(pages),
            Stretch::Cached(vec![end])
        ],
        "what stands between large pieces is written together"
    );
    for body in [
        vec![large.slice(1..)],
        vec![Bytes::from_static(b"x"), large.clone()],
        vec![large.slice(..PAST_CACHE_BYTES_MIN - 1)],
        vec![],
        vec![Bytes::new()],
    ] {
        assert_eq!(planned(&body), 0, "not at a page of memory, of the file, or too small");
    }
    assert_eq!(planned(&[large.slice(..PAST_CACHE_BYTES_MIN)]), PAST_CACHE_BYTES_MIN as u64);
}

/// tmpfs had no `O_DIRECT` before Linux 6.6, and takes it since; with either answer the bytes are there.
#[test]
fn a_file_system_in_memory_takes_the_bytes_one_way_or_the_other() {
    let folder = Path::new("/dev/shm").join(format!("store-direct-{}", std::process::id()));
    if fs::create_dir(&folder).is_err() {
        return; // A machine without it.
    }
    let large = made(2 * MIB + 1, 3);
    round_trip(&folder, "large", &[large.clone(), Bytes::from_static(b"small")]);
    fs::remove_dir_all(&folder).expect("removes");
}

/// A device that is always full refuses `O_DIRECT` when it is asked for, and every byte for want of room.
#[test]
#[cfg(target_os = "linux")]
fn a_refusal_turns_to_the_cache_and_a_full_disk_is_told_as_one() {
    let mut full = OpenOptions::new().write(true).open("/dev/full").expect("opens");
    let large = made(MIB, 4);
    assert_eq!(write_past(&mut full, &large).expect("refused, not failed").len(), large.len());
    let error = write(&mut full, &[large]).expect_err("full");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

/// What the kernel refuses in the middle of a file goes through the cache from there on, and so does the rest of it.
#[test]
fn a_refused_write_goes_through_the_cache_from_where_it_stopped() {
    let folder = Folder::new();
    let mut file = file(folder.path(), "file");
    let large = made(MIB + 1, 5);
    // Memory that begins beside a page: what `plan` never lets through, and what a larger page than ours would be.
    let beside = &large[1..];
    let left = write_past(&mut file, beside).expect("refused, not failed");
    assert!(left.is_empty() || left.len() == beside.len());
    write_cached(&mut file, &[left]).expect("writes");
    write_cached(&mut file, &[&large[..7]]).expect("the switch is off again");
    assert!(fs::read(folder.path().join("file")).expect("reads") == [beside, &large[..7]].concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_read_is_what_was_written(
        pieces in prop::collection::vec((0_usize..900_000, prop::sample::select(vec![0_usize, 0, 0, 1, 512])), 0..6),
        is_filled in any::<bool>(),
    ) {
        let folder = Folder::new();
        let mut body = Vec::new();
        let mut at = 0;
        for (number, (bytes, off)) in pieces.into_iter().enumerate() {
            if is_filled {
                let fill = made(usize::next_multiple_of(at, PAGE_BYTES) - at, 0);
                at += fill.len();
                body.push(fill);
            }
            body.push(made(bytes + off, number as u8).slice(off..));
            at += bytes;
        }
        round_trip(folder.path(), "file", &body);
    }
}
