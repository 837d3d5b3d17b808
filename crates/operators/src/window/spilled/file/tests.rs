use dataflow::StateError;
use testkit::Fuzz;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::*;
use crate::runs::TAIL;
use crate::window::tests::{batch, cut, others, put, schema};
use crate::window::{Window, spilled::Sizes};

/// A file with two panes, as a step writes it, and that step.
fn written() -> (Window, Vec<u8>) {
    let sizes = Sizes { open_bytes: 1, block_bytes: 64, ..Sizes::new(1 << 20, 1) };
    let mut step = Window::new(&schema(), &others(100)).unwrap().with_sizes(sizes);
    let rows = [
        (Some("a"), Some(5), 1.5, 10),
        (None, None, 2.0, 1_020),
        (Some("bc"), Some(7), 3.0, 30),
        (Some("a"), Some(-1), 0.5, 40),
    ];
    put(&mut step, batch(&rows));
    cut(&mut step, 7);
    let mut work = dataflow::State::work(&mut step).expect("it is above its memory");
    let need = work.step(dataflow::operator::Given::Start).unwrap();
    let dataflow::operator::Need::Write(bytes) = need else { panic!("{need:?}") };
    (step, bytes)
}

fn entry(bytes: &[u8]) -> FileEntry {
    let (footer_at, sum) = ENVELOPE.find_footer("runs/x", bytes).unwrap();
    FileEntry { object: "runs/x".into(), len: bytes.len() as u64, footer_at: footer_at as u64, sum }
}

fn open(step: &Window, bytes: &[u8]) -> File {
    let entry = entry(bytes);
    File::open(&step.plan.keys, &entry, &bytes[entry.footer_at as usize..]).unwrap()
}

/// Later versions must read this.
#[test]
fn golden_bytes_of_version_1() {
    let (_, bytes) = written();
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    if std::env::var_os("FOREBAY_TEST_WRITE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/window/spilled/file/golden.txt");
        std::fs::write(path, format!("{hex}\n")).unwrap();
    }
    assert_eq!(hex, include_str!("golden.txt").trim());
    assert_eq!(verify("runs/x", &bytes).unwrap(), 3);
}

#[test]
fn a_file_opened_from_its_footer_has_the_groups_of_its_panes_by_key() {
    let (step, bytes) = written();
    let file = Arc::new(open(&step, &bytes));
    let sections = Section::all(&file);
    assert_eq!(file.sections.iter().map(|(pane, _)| *pane).collect::<Vec<_>>(), [0, 1_000]);
    assert_eq!(sections.iter().map(Section::counts).collect::<Vec<_>>(), [(2, 3), (1, 1)]);
    let mut keys = Vec::new();
    for block in sections.iter().flat_map(|section| section.blocks.clone()) {
        let read = file.read(block..block + 1);
        let own = &bytes[read.offset as usize..][..read.len as usize];
        let groups = file.groups(&step.plan, block, own).unwrap();
        assert_eq!(groups.key(0), file.first(block));
        keys.extend((0..groups.len()).map(|group| groups.key(group).to_vec()));
    }
    let key = |text: &[u8]| [&[0][..], &(text.len() as u32).to_le_bytes(), text].concat();
    assert_eq!(keys, [key(b"a"), key(b"bc"), vec![1, 0, 0, 0, 0]]);
    for (pane, blocks) in [(0, 0..1), (1_000, sections[0].blocks.clone()), (5, sections[0].blocks.clone())] {
        assert_eq!(
            Section::of(&file, pane, blocks.clone()).is_some(),
            (pane, &blocks) == (0, &sections[0].blocks)
        );
    }
}

#[test]
fn every_single_flipped_bit_and_every_cut_is_noticed() {
    let (_, good) = written();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let error = verify("runs/x", &bad).expect_err("damaged").to_string();
        assert!(error.contains("runs/x") || error.contains("version"), "bit {bit}: {error}");
    }
    for len in 0..good.len() {
        assert!(verify("runs/x", &good[..len]).is_err(), "{len}");
    }
}

#[test]
fn a_damaged_block_and_another_file_are_named() {
    let (step, bytes) = written();
    let file = open(&step, &bytes);
    let read = file.read(1..2);
    let mut bad = bytes[read.offset as usize..][..read.len as usize].to_vec();
    bad[3] ^= 1;
    let error = file.groups(&step.plan, 1, &bad).err().expect("damaged").to_string();
    let place = format!("`runs/x`, block `1` at byte `{}`: the checksum says", read.offset);
    assert!(error.contains(&place), "{error}");
    let other = FileEntry { sum: 1, ..entry(&bytes) };
    let footer = &bytes[other.footer_at as usize..];
    let Err(error) = File::open(&step.plan.keys, &other, footer) else { panic!("it is another's") };
    let error = error.to_string();
    assert!(error.contains("`runs/x`") && error.contains("this is another file"), "{error}");
    let mut newer = bytes.clone();
    newer[4] = 2;
    assert!(matches!(verify("runs/x", &newer), Err(StateError::TooNew { found: 2, known: VERSION })));
}

/// Whoever can write into the store can make checksums, too.
#[test]
fn fuzz_file_of_spilled_windows() {
    let (step, bytes) = written();
    let entry = entry(&bytes);
    let at = entry.footer_at as usize;
    // In front of the file stands where its footer begins, so that both parts change.
    let example = [&(at as u16).to_le_bytes()[..], &bytes].concat();
    Fuzz::new("file of spilled windows").examples([example]).memory_max(1 << 20, 256).run(10_000, |input| {
        let Some((at, bytes)) = input.split_first_chunk::<2>() else { return };
        let at = usize::from(u16::from_le_bytes(*at));
        let _ = verify("runs/x", bytes);
        if at < HEAD || at + SUM + TAIL > bytes.len() {
            return;
        }
        let mut bytes = bytes.to_vec();
        let end = bytes.len() - TAIL - SUM;
        let sum = xxh3_64(&bytes[at..end]);
        bytes[end..end + SUM].copy_from_slice(&sum.to_le_bytes());
        let footer = (bytes.len() - TAIL - at) as u32;
        bytes[end + SUM..end + SUM + 4].copy_from_slice(&footer.to_le_bytes());
        bytes[end + SUM + 4..].copy_from_slice(&MAGIC);
        let entry = FileEntry { object: "x".into(), len: bytes.len() as u64, footer_at: at as u64, sum };
        let Ok(file) = File::open(&step.plan.keys, &entry, &bytes[at..]) else { return };
        for block in 0..file.blocks.len() as u32 {
            let read = file.read(block..block + 1);
            let (from, len) = (read.offset as usize, read.len as usize);
            let (body, sum) = bytes[from..from + len].split_at_mut(len - SUM);
            sum.copy_from_slice(&xxh3_64_with_seed(body, u64::from(block)).to_le_bytes());
            let _ = file.groups(&step.plan, block, &bytes[from..from + len]);
        }
    });
}
