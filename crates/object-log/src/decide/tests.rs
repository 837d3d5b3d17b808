use super::*;
use crate::support::{draft, root};

const LINGER: Linger = Linger {
    object_bytes: 1_000,
    raw_bytes: 5_000,
    min: Duration::from_millis(5),
    max: Duration::from_millis(500),
    uploads_max: 3,
};

#[test]
fn an_append_is_the_next_one_or_known_or_refused() {
    for (committed, last, ordinal, expected) in [
        (None, None, 0, Admit::Accept),
        (None, None, 1, Admit::Unknown),
        (None, Some(0), 0, Admit::OnItsWay),
        (None, Some(0), 1, Admit::Accept),
        (None, Some(0), 2, Admit::Gap { expected: 1 }),
        (Some(4), None, 4, Admit::Known),
        (Some(4), None, 0, Admit::Known),
        (Some(4), None, 5, Admit::Accept),
        (Some(4), None, 6, Admit::Gap { expected: 5 }),
        (Some(4), Some(6), 5, Admit::OnItsWay),
        (Some(4), Some(6), 7, Admit::Accept),
    ] {
        assert_eq!(admit(committed, last, ordinal..=ordinal), expected, "{committed:?} {last:?} {ordinal}");
    }
}

#[test]
fn an_append_that_is_known_in_part_is_refused() {
    for (committed, last, ordinals, expected) in [
        (None, None, 0..=9, Admit::Accept),
        (None, None, 1..=9, Admit::Unknown),
        (Some(4), None, 0..=4, Admit::Known),
        (Some(4), None, 5..=9, Admit::Accept),
        (Some(4), None, 0..=9, Admit::Gap { expected: 5 }),
        (Some(4), Some(6), 5..=6, Admit::OnItsWay),
        (Some(4), Some(6), 5..=9, Admit::Gap { expected: 7 }),
    ] {
        assert_eq!(admit(committed, last, ordinals.clone()), expected, "{committed:?} {last:?} {ordinals:?}");
    }
}

#[test]
fn what_comes_alone_goes_at_once_and_what_comes_under_load_waits_for_more() {
    let ms = Duration::from_millis;
    let open = |bytes, age, uploads, uncommitted| Open {
        bytes,
        raw_bytes: 4 * bytes,
        age: ms(age),
        uploads,
        uncommitted,
        commit_in: Duration::ZERO,
        upload_time: Duration::ZERO,
    };
    assert_eq!(cut(&open(10, 0, 0, 0), &LINGER), Some(ms(5)), "nothing is on its way");
    assert_eq!(cut(&open(10, 6, 0, 0), &LINGER), Some(ms(0)));
    assert_eq!(cut(&open(10, 100, 1, 0), &LINGER), Some(ms(400)), "an upload is on its way");
    assert_eq!(cut(&open(10, 100, 0, 2), &LINGER), Some(ms(400)), "a commit is on its way");
    assert_eq!(cut(&open(10, 501, 1, 0), &LINGER), Some(ms(0)), "the deadline");
    assert_eq!(cut(&open(1_000, 0, 2, 0), &LINGER), Some(ms(0)), "the size");
    let raw = Open { raw_bytes: 5_000, ..open(10, 0, 1, 0) };
    assert_eq!(cut(&raw, &LINGER), Some(ms(0)), "what a reader has to unpack");
    assert_eq!(cut(&open(1_000, 900, 3, 0), &LINGER), None, "an upload must end first");
    let before = |commit_in, upload_time, age| {
        let (commit_in, upload_time) = (ms(commit_in), ms(upload_time));
        cut(&Open { commit_in, upload_time, ..open(10, age, 0, 0) }, &LINGER)
    };
    assert_eq!(before(300, 100, 0), Some(ms(200)), "it is uploaded when the commit may begin");
    assert_eq!(before(100, 100, 0), Some(ms(5)));
    assert_eq!(before(400, 100, 350), Some(ms(300)), "a deadline before that would gain nothing");
    assert_eq!(before(50, 100, 350), Some(ms(0)));
    assert_eq!(commit_in(None, &LINGER), ms(0));
    assert_eq!(commit_in(Some(ms(100)), &LINGER), ms(400), "at most two commits a second");
    assert_eq!(commit_in(Some(ms(700)), &LINGER), ms(0));
}

#[test]
fn a_root_that_was_read_says_who_owns_the_partition() {
    let ours = root().committing(&[draft(root().claim(), 0, &[])], 1).expect("is new");
    let (queue, claim) = (ours.queue_id(), ours.claim());
    assert_eq!(standing(queue, claim, Some(&ours)), Standing::Ours);
    let theirs = ours.claimed(5, "other").expect("another run");
    assert_eq!(standing(queue, claim, Some(&theirs)), Standing::Fenced { committed: Some(1) });
    assert_eq!(standing(queue, claim, None), Standing::Recreated);
    let other = Root::created(QueueId(9), claim.run, "ours again", 1);
    assert_eq!(standing(queue, claim, Some(&other)), Standing::Recreated, "whatever its epoch");
}

#[test]
fn only_what_nobody_can_commit_any_more_is_an_orphan() {
    let root = root().claimed(5, "second").expect("another run");
    let (queue, live) = (root.queue_id(), Live::from([((1, 77), (3, 6))]));
    let is = |queue, epoch, run, number| is_orphan(&root, &live, queue, Written { epoch, run, number });
    assert!(!is(queue, 1, 77, 3) && !is(queue, 1, 77, 6), "in the log");
    assert!(is(queue, 1, 77, 2), "cleaned before, and back after a loss of power");
    assert!(is(queue, 1, 77, 7), "uploaded and never committed");
    assert!(is(queue, 1, 78, 4), "of a run that has lost its claim");
    assert!(!is(queue, 2, 5, 0), "the present owner may still commit it");
    assert!(is(queue, 2, 6, 0));
    assert!(!is(queue, 3, 6, 0), "of a later epoch: a person must look");
    assert!(is(QueueId(1), 9, 9, 9), "of a log that was deleted");
}

#[test]
fn retention_follows_the_slowest_consumer_and_the_bounds_that_overrule_it() {
    let retention = Retention { acknowledged: true, ..Retention::default() };
    assert_eq!(acknowledged(&retention, &[]), None, "without a consumer nothing goes by it");
    assert_eq!(acknowledged(&retention, &[Some(7), Some(5)]), Some(5));
    assert_eq!(
        acknowledged(&retention, &[Some(7), None]),
        Some(0),
        "one that has not begun holds everything"
    );
    assert_eq!(acknowledged(&Retention::default(), &[Some(7)]), None);
    let mut root = root();
    for number in 0..4 {
        root = root
            .committing(&[draft(root.claim(), number, &[])], 2_000 + 1_000 * number as i64)
            .expect("is new");
    }
    let expired = |retention: &Retention, now_ms| {
        let mut held = root.bytes;
        let spans = root.spans().take_while(|span| {
            let goes = is_expired(retention, span, held, now_ms);
            held -= span.bytes;
            goes
        });
        spans.count()
    };
    let by_age = Retention { age_max: Some(Duration::from_millis(1_500)), ..Retention::default() };
    assert_eq!([2_500, 3_500, 3_501, 5_000].map(|now_ms| expired(&by_age, now_ms)), [0, 0, 1, 2]);
    for (bytes_max, gone) in [(400, 0), (399, 0), (300, 1), (299, 1), (0, 4)] {
        let by_bytes = Retention { bytes_max: Some(bytes_max), ..Retention::default() };
        assert_eq!(expired(&by_bytes, 0), gone, "{bytes_max}");
    }
    assert_eq!(low(&root, Some(5), Some(3)), 5);
    assert_eq!(low(&root, None, Some(99)), 8, "never beyond the end");
    assert_eq!(low(&root.truncated(6).expect("higher"), Some(2), None), 6, "never back");
}
