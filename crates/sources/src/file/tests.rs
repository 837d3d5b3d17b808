use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use dataflow::conformance::source::{self, Fixture, Seen, Watch, read_all};
use dataflow::{BlockBuilder, Position, Runtime};
use proptest::prelude::*;

use super::inflate::Packing;
use super::lines::Lines;
use super::*;
use crate::test_runtime::TestRuntime;

/// A folder that goes with the test.
pub(super) struct Dir(PathBuf);

impl Dir {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("forebay-file-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) struct FileFixture {
    pub(super) source: FileSource,
    runtime: Arc<TestRuntime>,
}

#[async_trait]
impl Fixture for FileFixture {
    fn source(&self) -> &dyn Source {
        &self.source
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        self.runtime.clone()
    }
}

pub(super) fn fixture(options: FileOptions) -> FileFixture {
    FileFixture { source: FileSource::new(options).unwrap(), runtime: Arc::new(TestRuntime::new()) }
}

pub(super) fn over(paths: &[String]) -> FileFixture {
    fixture(FileOptions::new(paths.to_vec()))
}

fn events(count: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|n| format!("{{\"n\":{n},\"text\":\"{}\"}}\n", "x".repeat(n % 50)).into_bytes())
        .collect()
}

/// Two members, cut in the middle of a line.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let member = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let (a, b) = bytes.split_at(bytes.len() / 2);
    [member(a), member(b)].concat()
}

/// Two frames, cut in the middle of a line.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let (a, b) = bytes.split_at(bytes.len() / 2);
    [zstd::encode_all(a, 1).unwrap(), zstd::encode_all(b, 1).unwrap()].concat()
}

pub(super) fn bodies(seen: &Seen) -> Vec<String> {
    seen.records.iter().map(|r| String::from_utf8(r.2.clone().unwrap()).unwrap()).collect()
}

async fn one(fixture: &FileFixture) -> Seen {
    read_all(fixture).await.into_values().next().unwrap()
}

async fn refusal(fixture: &FileFixture, start: &PartitionStart, next: u64) -> SourceError {
    let mut watch = Watch::start(fixture, vec![source::at(start, next.into())]).await.unwrap();
    watch.all().await.expect_err("must be refused")
}

#[tokio::test]
async fn plain_and_compressed_files_keep_the_rules_of_a_source() {
    for (name, pack) in [("plain", <[u8]>::to_vec as fn(&[u8]) -> Vec<u8>), ("gzip", gzip), ("zstd", zstd)] {
        let dir = Dir::new(&format!("rules-{name}"));
        let paths: Vec<String> =
            (0..3).map(|n| dir.write(&format!("{n}.log"), &pack(&events(20 + 3_000 * n)))).collect();
        source::run(async || Box::new(over(&paths)) as Box<dyn Fixture>).await;
    }
}

fn csv(paths: &[String]) -> FileFixture {
    let csv = Some(Csv { delimiter: b',', quote: Some(b'"'), has_head: true });
    fixture(FileOptions { csv, ..FileOptions::new(paths.to_vec()) })
}

/// Records of one to three lines below a header.
fn lines_of_csv(count: usize) -> Vec<u8> {
    let record = |n: usize| format!("{n},\"{}\"\r\n", "text\n".repeat(n % 3)).into_bytes();
    b"\xef\xbb\xbfid,text\r\n".iter().copied().chain((0..count).flat_map(record)).collect()
}

#[tokio::test]
async fn files_of_csv_keep_the_rules_of_a_source() {
    for (name, pack) in [("plain", <[u8]>::to_vec as fn(&[u8]) -> Vec<u8>), ("gzip", gzip), ("zstd", zstd)] {
        let dir = Dir::new(&format!("csv-rules-{name}"));
        let paths: Vec<String> =
            (0..3).map(|n| dir.write(&format!("{n}.csv"), &pack(&lines_of_csv(20 + 9_000 * n)))).collect();
        source::run(async || Box::new(csv(&paths)) as Box<dyn Fixture>).await;
    }
}

#[tokio::test]
async fn every_block_has_the_header_of_its_file_wherever_reading_begins() {
    let dir = Dir::new("csv-head");
    let fixture = csv(&[dir.write("a", &gzip(&lines_of_csv(20_000)))]);
    let starts = fixture.source.partitions().await.unwrap();
    let first = one(&fixture).await;
    assert_eq!(first.records.len(), 20_000);
    assert_eq!(first.records[2].2.as_deref(), Some(&b"2,\"text\ntext\n\""[..]));
    for next in [0, first.records[5].0, first.records[19_999].0] {
        let mut reader = fixture.source.read(vec![source::at(&starts[0], next)]).await.unwrap();
        let mut blocks = 0;
        while let dataflow::Event::Block(block) = reader.next().await.unwrap() {
            assert_eq!(block.head.as_deref(), Some(&b"id,text"[..]));
            blocks += 1;
        }
        assert!(blocks > 0);
    }
    let record = fixture.source.record(source::at(&starts[0], first.records[7].0)).await.unwrap().unwrap();
    assert_eq!((record.len(), record.head.as_deref()), (1, Some(&b"id,text"[..])));
    // A file that has nothing but its header has no record, and is read to its end.
    let empty = one(&csv(&[dir.write("b", b"id,text\n")])).await;
    assert_eq!((empty.records.len(), empty.next), (0, 8));
}

#[tokio::test]
async fn compression_is_known_by_the_bytes_and_changes_no_record() {
    let dir = Dir::new("magic");
    let plain = one(&over(&[dir.write("a.gz", &events(5_000))])).await;
    assert_eq!(plain.records.len(), 5_000);
    assert_eq!(one(&over(&[dir.write("b.txt", &gzip(&events(5_000)))])).await, plain);
    assert_eq!(one(&over(&[dir.write("c", &zstd(&events(5_000)))])).await, plain);
    let skippable = [&[0x53, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9][..], &zstd(&events(5_000))].concat();
    assert_eq!(one(&over(&[dir.write("d", &skippable)])).await, plain);
    assert_eq!(Packing::of(b""), Packing::Plain);
}

#[tokio::test]
async fn carriage_returns_empty_lines_and_a_missing_newline_harm_nothing() {
    let dir = Dir::new("odd");
    let seen = one(&over(&[dir.write("a", b"\r\n{\"a\":1}\r\n\n\n{\"b\":2}\n  \n{\"c\":3}")])).await;
    assert_eq!(bodies(&seen), ["{\"a\":1}", "{\"b\":2}", "  ", "{\"c\":3}"]);
    assert_eq!(seen.records.iter().map(|r| r.0).collect::<Vec<_>>(), [2, 13, 21, 24]);
    assert_eq!(seen.next, 31);
    let empty = over(&[dir.write("b", b"")]);
    assert_eq!(empty.source.partitions().await.unwrap(), [], "nothing to read, and nothing to know it by");
}

#[tokio::test]
async fn a_line_above_the_bound_is_cut_one_byte_above_it_and_harms_no_other() {
    let dir = Dir::new("long");
    let fits = "y".repeat(1_000);
    let long = "x".repeat(3 * inflate::CHUNK_BYTES);
    let path = dir.write("a", format!("{fits}\r\n{long}\nshort\n{fits}z\n").as_bytes());
    let options = FileOptions { line_bytes_max: 1_000, ..FileOptions::new(vec![path]) };
    let seen = one(&fixture(options)).await;
    let lengths: Vec<usize> = bodies(&seen).iter().map(String::len).collect();
    assert_eq!(lengths, [1_000, 1_001, 5, 1_001]);
    assert_eq!(seen.next, ((1_002 + long.len() + 1 + 6 + 1_002) as u64).into());
}

#[test]
fn a_line_above_the_bound_knows_its_whole_length_however_it_is_fed() {
    let text = format!(
        "{}\nshort\n{}\r\n{}z\r\n{}\r\n",
        "x".repeat(50),
        "y".repeat(40),
        "z".repeat(10),
        "w".repeat(10)
    );
    for step in [1, 2, 3, 7, 49, 50, 51, 1_000] {
        let mut block = BlockBuilder::new(Partition::new("f", 0), 0);
        let mut lines = Lines::new(0, 10);
        for chunk in text.as_bytes().chunks(step) {
            assert_eq!(lines.feed(chunk, &mut block), chunk.len());
        }
        let block = block.take();
        assert_eq!(block.cut, [(0, 50), (2, 40)], "fed by {step}");
        let lengths: Vec<u64> = (0..5).map(|row| block.whole_bytes(row)).collect();
        assert_eq!(lengths, [50, 5, 40, 11, 10], "fed by {step}");
        let held: Vec<usize> = (0..5).map(|row| block.payloads.get(row).len()).collect();
        assert_eq!(held, [11, 5, 11, 11, 10], "fed by {step}");
    }
}

/// Writes on at the end of a file.
pub(super) fn append(path: &str, bytes: &[u8]) {
    std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// The records from `next` on, and where the file ended.
async fn rest(fixture: &FileFixture, start: &PartitionStart, next: u64) -> (Vec<String>, Position) {
    let mut watch = Watch::start(fixture, vec![source::at(start, next.into())]).await.unwrap();
    watch.all().await.unwrap();
    (bodies(&watch.seen[&start.partition]), watch.seen[&start.partition].next)
}

#[tokio::test]
async fn a_last_line_without_a_newline_is_read_once_it_is_whole_and_the_file_goes_on() {
    let dir = Dir::new("grown");
    let path = dir.write("a", b"{\"a\":1}\n");
    let fixture = over(std::slice::from_ref(&path));
    let start = fixture.source.partitions().await.unwrap().swap_remove(0);
    // Half of a record is left where it is; more than once.
    append(&path, b"{\"b\":{\"c\":\"}");
    assert_eq!(rest(&fixture, &start, 8).await, (vec![], 8));
    append(&path, b"\"}");
    assert_eq!(rest(&fixture, &start, 8).await, (vec![], 8));
    // Whole, and still without its newline: a record.
    append(&path, b"}");
    let whole = ("{\"b\":{\"c\":\"}\"}}".to_owned(), 23);
    assert_eq!(rest(&fixture, &start, 8).await, (vec![whole.0.clone()], whole.1));
    assert_eq!(rest(&fixture, &start, 23).await, (vec![], 23));
    // Its newline comes later, behind a carriage return, and is no record.
    append(&path, b"\r\n{\"d\":4}");
    assert_eq!(rest(&fixture, &start, 23).await, (vec!["{\"d\":4}".to_owned()], 32));
    // Or another record comes without any.
    append(&path, b"{\"e\":5}\nx");
    assert_eq!(rest(&fixture, &start, 32).await, (vec!["{\"e\":5}".to_owned()], 40));
    // From the beginning, each line is what the run found that read it.
    let bodies = rest(&fixture, &start, 8).await.0;
    assert_eq!(bodies, [&whole.0, "{\"d\":4}{\"e\":5}"]);
    let error = refusal(&fixture, &start, 3).await;
    assert!(error.message.contains("no line of file"), "{error}");
}

#[tokio::test]
async fn a_head_that_comes_later_than_the_blank_lines_in_front_of_it_is_no_record() {
    let dir = Dir::new("late-head");
    for (name, blank) in [("lines", &b"\n\r\n"[..]), ("mark", &b"\xef\xbb\xbf\n"[..])] {
        let path = dir.write(name, blank);
        let fixture = csv(std::slice::from_ref(&path));
        let start = fixture.source.partitions().await.unwrap().swap_remove(0);
        assert_eq!(
            rest(&fixture, &start, 0).await,
            (vec![], 0),
            "{name}: it is read again with what follows"
        );
        append(&path, b"id,text\n1,a\n");
        assert_eq!(rest(&fixture, &start, 0).await.0, ["1,a"], "{name}");
    }
}

#[tokio::test]
async fn a_byte_order_mark_costs_no_record() {
    let dir = Dir::new("mark");
    let text = b"\xef\xbb\xbf{\"a\":1}\r\n{\"b\":2}\n\xef\xbb\xbf{}\n";
    for (name, bytes) in [("plain", text.to_vec()), ("gzip", gzip(text)), ("zstd", zstd(text))] {
        let fixture = over(&[dir.write(name, &bytes)]);
        let seen = one(&fixture).await;
        assert_eq!(bodies(&seen), ["{\"a\":1}", "{\"b\":2}", "\u{feff}{}"], "{name}");
        assert_eq!(seen.records.iter().map(|r| r.0).collect::<Vec<_>>(), [0, 12, 20], "{name}");
        let start = fixture.source.partitions().await.unwrap().swap_remove(0);
        let again = fixture.source.record(source::at(&start, 0)).await.unwrap().unwrap();
        assert_eq!(again.payloads.get(0), b"{\"a\":1}", "{name}: read again by its position");
    }
    let only = one(&over(&[dir.write("only", b"\xef\xbb\xbf\n")])).await;
    assert_eq!((only.records.len(), only.next), (0, 4));
    // A line of exactly the bound behind the mark is whole, however its bytes come.
    for step in [1, 2, 4, 100] {
        let mut block = BlockBuilder::new(Partition::new("f", 0), 0);
        let mut lines = Lines::new(0, 8);
        for chunk in b"\xef\xbb\xbf{\"a\":12}\r\n\xef\xbb\xbf{\"a\":1}\n".chunks(step) {
            assert_eq!(lines.feed(chunk, &mut block), chunk.len());
        }
        let block = block.take();
        assert_eq!(block.payloads.get(0), b"{\"a\":12}", "fed by {step}");
        assert_eq!(block.cut, [(1, 10)], "fed by {step}");
    }
}

#[tokio::test]
async fn a_cut_or_replaced_file_is_refused() {
    let dir = Dir::new("cut");
    let path = dir.write("a", &events(500));
    let fixture = over(std::slice::from_ref(&path));
    let start = fixture.source.partitions().await.unwrap().swap_remove(0);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(2_000).unwrap();
    let error = refusal(&fixture, &start, 5_000).await;
    assert!(error.message.contains("ends at position `2000`"), "{error}");

    std::fs::remove_file(&path).unwrap();
    assert!(refusal(&fixture, &start, 0).await.message.contains("is gone"));
    let replace = |content: &[u8]| std::fs::rename(dir.write("other", content), &path).unwrap();
    replace(b"{\"another\":\"file\"}\n");
    let error = refusal(&fixture, &start, 0).await;
    assert!(error.message.contains("another one than was read"), "{error}");
    replace(&events(500));
    let mut watch = Watch::start(&fixture, vec![source::at(&start, 0)]).await.unwrap();
    watch.all().await.expect("it has all that was read, and is read on");
}

#[tokio::test]
async fn damage_in_a_compressed_file_is_refused_after_the_good_lines() {
    for (name, pack) in [("gzip", gzip as fn(&[u8]) -> Vec<u8>), ("zstd", zstd)] {
        let dir = Dir::new(&format!("damage-{name}"));
        let mut bytes = pack(&events(5_000));
        bytes.truncate(bytes.len() - 10);
        let fixture = over(&[dir.write("a", &bytes)]);
        let start = fixture.source.partitions().await.unwrap().swap_remove(0);
        let mut watch = Watch::start(&fixture, vec![source::at(&start, 0)]).await.unwrap();
        let error = watch.all().await.expect_err("the file is not whole");
        assert_eq!((error.fault, error.partition.as_ref()), (SourceFault::Refused, Some(&start.partition)));
        let seen = &watch.seen[&start.partition];
        assert!(seen.records.len() > 2_000, "{name}: the good lines came, {} of them", seen.records.len());
        assert!(error.message.contains(&format!("after position `{}`", seen.next)), "{error}");
    }
}

#[tokio::test]
async fn patterns_match_each_file_once_in_order() {
    let dir = Dir::new("glob");
    for name in ["b.log", "a.log", "c.txt", "[x].log"] {
        dir.write(name, b"line\n");
    }
    std::fs::create_dir(dir.0.join("d.log")).unwrap();
    let streams = async |paths: Vec<String>| {
        let fixture = over(&paths);
        let starts = fixture.source.partitions().await?;
        let starts = fixture.source.recognize(starts, Vec::new()).await?;
        let name = |s: PartitionStart| s.partition.stream.rsplit('/').next().unwrap().to_owned();
        Ok::<_, SourceError>(starts.into_iter().map(name).collect::<Vec<_>>())
    };
    let found = streams(vec![dir.path("c.*"), dir.path("?.log"), dir.path("*.log")]).await.unwrap();
    assert_eq!(found, ["c.txt", "a.log", "b.log", "[x].log"]);
    assert_eq!(
        streams(vec![dir.path("[x].log")]).await.unwrap(),
        ["[x].log"],
        "a name that exists is no pattern"
    );

    for (path, says) in [
        (dir.path("*.csv"), "matches no file"),
        (dir.path("gone.log"), "does not exist"),
        (dir.path("d.log"), "is a directory"),
        (dir.path("[a.log"), "is wrong at character"),
        ("/dev/null".to_owned(), "no regular file"),
    ] {
        let error = streams(vec![path]).await.expect_err(says);
        assert_eq!(error.fault, SourceFault::Config);
        assert!(error.message.contains(says), "{error}");
    }
}

#[tokio::test]
async fn standard_input_is_read_from_position_0_only() {
    let fixture = over(&[STDIN.to_owned()]);
    let start = fixture.source.partitions().await.unwrap().swap_remove(0);
    let error = refusal(&fixture, &start, 10).await;
    assert_eq!(error.fault, SourceFault::Refused);
    assert!(error.message.contains("cannot be read again"), "{error}");
    assert!(
        error.message.contains("`tail -c +11 INPUT > rest`"),
        "what was read must not come again: {error}"
    );
    let error = refusal(&csv(&[STDIN.to_owned()]), &start, 10).await;
    assert!(error.message.contains("(head -n 1 INPUT; tail -c +11 INPUT) > rest"), "{error}");
    let beside = FileSource::new(FileOptions::new(vec![STDIN.into(), "a".into()])).expect_err("ambiguous");
    assert_eq!(beside.fault, SourceFault::Config);
}

#[tokio::test]
async fn paused_files_leave_the_threads_to_the_others() {
    let dir = Dir::new("pause");
    let paths: Vec<String> = (0..4).map(|n| dir.write(&n.to_string(), &events(50))).collect();
    let fixture = fixture(FileOptions { threads: 1, ..FileOptions::new(paths) });
    let starts = fixture.source.partitions().await.unwrap();
    let from = starts.iter().map(|start| source::at(start, 0)).collect();
    let mut watch = Watch::start(&fixture, from).await.unwrap();
    for start in &starts[..3] {
        watch.reader().pause(&start.partition);
    }
    watch.until(|seen| seen[&starts[3].partition].ended).await.unwrap();
    for start in &starts[..3] {
        watch.reader().resume(&start.partition);
    }
    watch.all().await.unwrap();
}

#[tokio::test]
async fn files_that_are_away_leave_the_threads_to_the_others() {
    let dir = Dir::new("away-threads");
    let path = dir.write("a", &events(50));
    let fixture = fixture(FileOptions { threads: 1, ..FileOptions::new(vec![path.clone()]) });
    let start = fixture.source.partitions().await.unwrap().swap_remove(0);
    // Below what is no folder the system finds neither a file nor that there is none.
    let away = ReadFrom { partition: Partition::new(format!("{path}/b"), 0), ..source::at(&start, 0) };
    let mut watch = Watch::start(&fixture, vec![away, source::at(&start, 0)]).await.unwrap();
    watch.until(|seen| seen[&start.partition].ended).await.unwrap();
    assert_eq!(watch.seen[&start.partition].records.len(), 50);
}

proptest! {
    #[test]
    fn lines_do_not_depend_on_how_the_bytes_are_cut(
        text in "[ab\r\n]{0,60}",
        cuts in proptest::collection::vec(1_usize..9, 1..20),
        bound in 1_usize..8,
    ) {
        let bytes = text.as_bytes();
        let feed = |cuts: &mut dyn Iterator<Item = usize>| {
            let mut lines = Lines::new(100, bound);
            let mut block = BlockBuilder::new(Partition::new("f", 0), 100);
            let mut rest = bytes;
            while !rest.is_empty() {
                let chunk = &rest[..cuts.next().unwrap_or(usize::MAX).min(rest.len())];
                let used = lines.feed(chunk, &mut block);
                rest = &rest[used..];
            }
            assert_eq!(lines.finish(&mut block, true), 0);
            (block.take(), lines.next())
        };
        let (whole, end) = feed(&mut std::iter::empty());
        let (cut, cut_end) = feed(&mut cuts.into_iter());
        prop_assert_eq!(&whole.payloads, &cut.payloads);
        prop_assert_eq!(&whole.positions, &cut.positions);
        prop_assert_eq!((whole.next, end), (cut.next, cut_end));
        prop_assert_eq!(end, 100 + bytes.len() as u64);
        // An independent reading: split, drop one carriage return, drop the empty ones, cut above the bound.
        let expected: Vec<&[u8]> = bytes
            .split(|b| *b == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .filter(|line| !line.is_empty())
            .map(|line| &line[..line.len().min(bound + 1)])
            .collect();
        let got: Vec<&[u8]> = (0..whole.len()).map(|row| whole.payloads.get(row)).collect();
        prop_assert_eq!(got, expected);
    }
}
