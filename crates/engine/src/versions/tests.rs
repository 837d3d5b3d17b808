use super::*;

fn versions(next: u64) -> Versions {
    Versions { next, is_used: true }
}

#[test]
fn versions_rise_with_every_row_and_with_the_clock() {
    let mut ours = versions(0);
    let first = ours.take(10, 1_000);
    assert_eq!(first, 1_000 << 20);
    assert_eq!(ours.take(5, 1_000), first + 10, "in the same millisecond");
    assert_eq!(ours.take(5, 900), first + 15, "the clock went back");
    assert_eq!(ours.take(0, 2_000), 2_000 << 20, "the clock went on");
    assert_eq!(ours.recorded(), 2_000 << 20);
}

#[test]
fn another_owner_begins_behind_what_is_sealed_whatever_its_clock() {
    let mut first = versions(0);
    first.take(3_000_000, 5_000);
    let sealed = first.recorded();
    // The first owner goes on and does not get its rows sealed.
    let unsealed = first.take(100, 5_000);
    let mut second = versions(sealed);
    assert!(second.take(1, 4_000) >= sealed, "its clock is behind");
    assert!(versions(sealed).take(1, 6_000) > unsealed, "or later");
}

#[test]
fn a_clock_that_makes_no_sense_leaves_room_for_rows() {
    for wall_ms in [i64::MAX, 1 << 50] {
        let mut ours = versions(0);
        let first = ours.take(1, wall_ms);
        assert!(first + (1 << 57) < 1 << 62, "signed numbers hold them for long");
    }
    assert_eq!(versions(7).take(1, i64::MIN), 7);
    assert_eq!(versions(7).take(1, -1), 7);
}

#[test]
fn tables_that_take_no_versions_leave_no_trace() {
    let mut none = Versions::new(0, std::iter::empty());
    assert_eq!(none.recorded(), 0);
    none.take(5, 1_000);
    assert_eq!(none.recorded(), 0);
}
