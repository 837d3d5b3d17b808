use super::*;

#[test]
fn entries_come_back_sorted_may_grow_and_leave_no_file() {
    let parent = std::env::temp_dir();
    let mut spill = Spill::new(&parent).expect("makes files");
    let folder = spill.folder.clone();
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
    assert!(!folder.exists());
}
