use super::*;

/// An empty folder of the test's own.
fn parent(name: &str) -> PathBuf {
    let parent = std::env::temp_dir().join(format!("forebay-test-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&parent);
    fs::create_dir_all(&parent).expect("makes a folder");
    parent
}

fn left(parent: &Path) -> usize {
    fs::read_dir(parent).expect("lists").count()
}

#[test]
fn entries_come_back_sorted_may_grow_and_leave_no_file() {
    let parent = parent("spill");
    let mut spill = Spill::new(&parent).expect("makes files");
    assert_eq!(left(&parent), 0, "also if the process is killed from here on");
    let of = |n: u64| Entry {
        hash: n.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        order: -(n as i64),
        place: Place::new(n as u32 % 3, n, (n.is_multiple_of(2)).then_some(n as u32 % 7)),
        value: !n,
        missing: n << 7,
        is_deleted: n.is_multiple_of(3),
    };
    (0..5_000).for_each(|n| spill.push(&of(n)).expect("writes"));
    let read = |spill: &mut Spill| -> Vec<Entry> {
        (0..FILES).flat_map(|n| spill.sorted(n).expect("reads")).collect()
    };
    assert_eq!(read(&mut spill).len(), 5_000);
    (5_000..6_000).for_each(|n| spill.push(&of(n)).expect("writes behind what was read"));
    let mut all: Vec<Entry> = (0..6_000).map(of).collect();
    all.sort_unstable();
    assert_eq!(read(&mut spill), all);
    assert_eq!(spill.len(), 6_000);
    drop(spill);
    fs::remove_dir(&parent).expect("it is empty");
}

#[test]
fn a_folder_that_a_killed_process_of_the_same_number_has_left_is_in_nobodys_way() {
    let parent = parent("spill-left");
    // Other tests of this process may take some of these numbers.
    for n in 0..1_000 {
        fs::create_dir(parent.join(format!("forebay-verify-{}-{n}", std::process::id()))).expect("makes");
    }
    drop(Spill::new(&parent).expect("makes files"));
    assert_eq!(left(&parent), 1_000);
    fs::remove_dir_all(&parent).expect("removes");
}
