//! Compressed files that are damaged, and the ways out that the messages name.

use std::io::Write;

use dataflow::Source;
use dataflow::conformance::source::{Watch, at};

use super::FileOptions;
use super::rotated::Before;
use super::rotation_tests::{Run, ids, rows};
use super::tests::{Dir, bodies, fixture};

type Pack = fn(&[u8], u32) -> Vec<u8>;

fn gzip(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level as i32).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const PACKINGS: [(&str, Pack); 2] = [("gzip", gzip), ("zstd", zstd)];

/// Members of these rows, good and with one bit flipped in the middle of the last.
fn damaged(pack: Pack, members: &[std::ops::Range<usize>]) -> (Vec<u8>, Vec<u8>) {
    let packed: Vec<Vec<u8>> = members.iter().map(|member| pack(&rows(member.clone()), 6)).collect();
    let good = packed.concat();
    let last = packed.last().unwrap().len();
    let mut bad = good.clone();
    bad[good.len() - last / 2] ^= 4;
    assert!(good.len() < 1024, "the damage is in what the file is known by: {}", good.len());
    (good, bad)
}

#[tokio::test]
async fn a_good_copy_that_is_written_over_a_damaged_file_is_read_on_where_the_damage_began() {
    for (name, pack) in PACKINGS {
        let dir = Dir::new(&format!("good-copy-{name}"));
        let (good, bad) = damaged(pack, &[0..50, 50..100]);
        let path = dir.write("a.packed", &bad);
        let mut run = Run::new(&[dir.path("*.packed")]);
        let message = run.refusal().await;
        assert!(message.contains("write a good copy over the file"), "{message}");
        let next = run.known[0].next;
        assert_eq!(next, rows(0..50).len() as u128, "the good member has been read");
        let again = run.refusal().await;
        assert!(again.contains("cannot be read after position"), "{again}");
        std::fs::write(&path, &good).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(50..100), "{name}: as the message says");
        assert_eq!(run.run().await.unwrap(), ids(0..0));
        // Its text, whatever it is compressed by, and more of it.
        std::fs::write(&path, pack(&rows(0..120), 1)).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(100..120), "{name}");
        std::fs::write(&path, pack(&rows(200..320), 1)).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(200..320), "{name}: another file has its place");
    }
}

#[tokio::test]
async fn another_file_that_is_written_over_a_damaged_one_is_refused() {
    for (name, pack) in PACKINGS {
        let dir = Dir::new(&format!("no-copy-{name}"));
        let (good, bad) = damaged(pack, &[0..50, 50..100]);
        let path = dir.write("a.packed", &bad);
        let mut run = Run::new(&[dir.path("*.packed")]);
        run.refusal().await;
        let (_, other_bad) = damaged(pack, &[200..250, 250..300]);
        for other in
            [pack(&rows(200..300), 6), other_bad, pack(&rows(0..20), 6), rows(0..100)[..900].to_vec()]
        {
            std::fs::write(&path, other).unwrap();
            let message = run.refusal().await;
            assert!(message.contains("written over") && message.contains("--partition"), "{name}: {message}");
        }
        // The other way out: it is taken out, and comes back as what it was.
        std::fs::write(&path, &good).unwrap();
        let shown = run.source().partitions().await.unwrap();
        let left = run.known[0].clone();
        let found = run.source().recognize(shown, vec![left.clone()]).await.unwrap();
        assert_eq!((&found[0].partition, &found[0].identity), (&left.partition, &left.identity), "{name}");
    }
}

#[tokio::test]
async fn a_file_that_is_damaged_in_its_first_member_is_read_from_its_beginning_once_it_is_good() {
    for (name, pack) in PACKINGS {
        let dir = Dir::new(&format!("first-{name}"));
        let (good, bad) = damaged(pack, std::slice::from_ref(&(0..80)));
        let path = dir.write("a.packed", &bad);
        let mut run = Run::new(std::slice::from_ref(&path));
        run.refusal().await;
        assert_eq!(run.known[0].next, 0);
        std::fs::write(&path, &good).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(0..80), "{name}");
        assert_eq!(run.run().await.unwrap(), ids(0..0), "{name}");
    }
}

#[tokio::test]
async fn a_file_that_had_other_bytes_behind_it_is_good_without_them() {
    let dir = Dir::new("behind");
    let good = gzip(&rows(0..50), 6);
    let path = dir.write("a.packed", &[&good[..], b"other"].concat());
    let mut run = Run::new(std::slice::from_ref(&path));
    let message = run.refusal().await;
    assert!(message.contains("is no gzip member"), "{message}");
    std::fs::write(&path, &good).unwrap();
    assert_eq!(run.run().await.unwrap(), ids(0..0));
    std::fs::write(&path, [good, gzip(&rows(50..60), 6)].concat()).unwrap();
    assert_eq!(run.run().await.unwrap(), ids(50..60));
}

#[tokio::test]
async fn a_compressed_file_with_nothing_in_it_may_be_deleted() {
    for (name, pack) in PACKINGS {
        let dir = Dir::new(&format!("nothing-{name}"));
        let path = dir.write("a.packed", &pack(b"", 6));
        let mut run = Run::new(&[dir.path("*.packed")]);
        for _ in 0..2 {
            assert_eq!(run.run().await.unwrap(), ids(0..0), "{name}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(0..0), "{name}: nothing of it is missed");
        dir.write("a.packed", &pack(&rows(0..5), 6));
        assert_eq!(run.run().await.unwrap(), ids(0..5), "{name}");
    }
}

#[tokio::test]
async fn a_file_that_was_read_before_it_was_compressed_is_known_by_its_name_and_beginning() {
    for (name, pack) in PACKINGS {
        let dir = Dir::new(&format!("packed-later-{name}"));
        let path = dir.write("a.log", &rows(0..50));
        let mut run = Run::new(std::slice::from_ref(&path));
        assert_eq!(run.run().await.unwrap(), ids(0..50));
        let before = Before::new(&run.known);
        for (file, bytes, of) in [
            ("a.log.1.gz", pack(&rows(0..60), 6), Some(path.as_str())),
            ("a.log-20260101", pack(&rows(0..50), 6), Some(path.as_str())),
            ("a.log.2.gz", pack(&rows(1..60), 6), None),
            ("b.log.1.gz", pack(&rows(0..60), 6), None),
            ("a.log.3", rows(0..50), None),
        ] {
            assert_eq!(before.packed(&dir.write(file, &bytes)), of, "{name}: {file}");
        }
    }
}

#[tokio::test]
async fn a_member_that_is_written_over_between_its_two_passes_gives_nothing_of_what_was_written() {
    for (name, pack) in PACKINGS {
        let dir = Dir::new(&format!("passes-{name}"));
        let path = dir.write("a.packed", &pack(&rows(0..100_000), 6));
        // One block ahead, so that the reader waits in the second pass.
        let options = FileOptions { ahead_bytes_max: 1, ..FileOptions::new(vec![path.clone()]) };
        let fixture = fixture(options);
        let start = fixture.source.partitions().await.unwrap().swap_remove(0);
        let mut watch = Watch::start(&fixture, vec![at(&start, 0)]).await.unwrap();
        watch.step().await.unwrap();
        std::fs::write(&path, pack(&rows(200_000..300_000), 6)).unwrap();
        watch.all().await.expect_err("it was written over");
        let read = bodies(&watch.seen[&start.partition]);
        assert!(!read.is_empty(), "{name}");
        assert_eq!(read, ids(0..read.len()), "{name}");
    }
}
