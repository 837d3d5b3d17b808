use super::*;

/// What a look that finds so many files without room logs.
fn look(left_out: &mut LeftOut, count: usize) -> Option<usize> {
    left_out.begin();
    (0..count).for_each(|_| left_out.add(Why::NoRoom));
    assert_eq!((left_out.count(Why::NoRoom), left_out.count(Why::NotUtf8)), (count, 0));
    left_out.should_warn(Why::NoRoom)
}

#[test]
fn many_files_are_one_warning_until_there_are_twice_as_many() {
    let mut left_out = LeftOut::default();
    let counts = [0, 500, 500, 501, 999, 1_000, 1_200, 0, 1];
    let warned: Vec<usize> = counts.into_iter().filter_map(|count| look(&mut left_out, count)).collect();
    assert_eq!(warned, [500, 1_000, 1]);
}

#[test]
fn a_problem_is_logged_once_and_many_of_a_kind_leave_room_for_another_kind() {
    let mut left_out = LeftOut::default();
    let logged: Vec<String> = (0..3_000)
        .filter_map(|file| left_out.complaint(Why::Compressed, format!("file `{}`", file / 2)))
        .collect();
    assert_eq!((logged.len(), logged[0].as_str()), (COMPLAINTS_MAX + 1, "file `0`"));
    assert!(logged[COMPLAINTS_MAX].starts_with("more than 1000 such problems were logged"), "{logged:?}");
    let other = || "file `a` cannot be opened".to_owned();
    assert_eq!(left_out.complaint(Why::Unreadable, other()), Some(other()));
    assert_eq!(left_out.complaint(Why::Unreadable, other()), None);
}
