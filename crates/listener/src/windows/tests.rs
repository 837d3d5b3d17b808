use super::*;

#[test]
fn what_is_promised_stays_within_what_was_given_and_comes_back() {
    let given = 16 << 20;
    let windows = Windows::new(given);
    let opened: Vec<Window> = (0..1_000).map(|_| windows.open()).collect();
    let beyond: Vec<u32> = opened.iter().map(|window| window.bytes - LEAST_BYTES).collect();
    assert_eq!(beyond[0], SHARE_MAX_BYTES);
    assert!(beyond.is_sorted_by(|earlier, later| earlier >= later), "{beyond:?}");
    assert!(beyond.iter().map(|bytes| *bytes as usize).sum::<usize>() <= given);
    assert!(
        beyond.iter().filter(|bytes| **bytes > 0).count() > 16,
        "more than have the most each: {beyond:?}"
    );
    assert_eq!(beyond.last(), Some(&0));
    drop(opened);
    assert_eq!(windows.open().bytes, LEAST_BYTES + SHARE_MAX_BYTES);
}

#[test]
fn one_request_has_half_of_a_large_window_and_all_of_the_least() {
    assert_eq!(Windows::new(0).open().of_request(), LEAST_BYTES);
    assert_eq!(Windows::new(usize::MAX).open().of_request(), (LEAST_BYTES + SHARE_MAX_BYTES) / 2);
}
