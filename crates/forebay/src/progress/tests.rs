use super::*;

fn ended(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let status = Status::default();
    status.update(change);
    status.snapshot()
}

fn counts(read: u64, written: u64, duplicates: u64, dead_letters: u64) -> Totals {
    let records = Counts { read, passed: written, duplicates, dead_letters, ..Counts::default() };
    Totals { records, written, replaced: 0, dead_letters }
}

#[test]
fn all_of_it_is_in_the_table_only_if_every_record_is() {
    let say = |run: Totals| verdict(&Outcome::Complete, &ended(|s| s.sealed = run), "d.t_rejected");
    assert_eq!(say(counts(10, 10, 0, 0)), "all was read, and all of it is in the table: 10 records",);
    assert_eq!(
        say(counts(9_999, 0, 0, 9_999)),
        "all was read: 9999 records read, 0 rows written, 9999 dead letters; the dead letters are in `d.t_rejected`, and \
         `forebay dead-letters list FILE --summary` says why"
    );
    assert_eq!(say(counts(10, 8, 2, 0)), "all was read: 10 records read, 8 rows written, 2 duplicates");
    let mut every_kind = counts(6, 1, 1, 1);
    (every_kind.records.filtered, every_kind.records.late) = (2, 1);
    let said = say(every_kind);
    assert!(
        said.starts_with(
            "all was read: 6 records read, 1 row written, 2 filtered, 1 duplicate, 1 late, 1 dead letter;"
        ),
        "{said}"
    );
    assert_eq!(say(Totals::default()), "all was read: nothing new was read");
}

#[test]
fn the_last_line_counts_this_run_and_not_those_before() {
    let last = ended(|s| {
        s.sealed = counts(1_010, 905, 0, 105);
        s.sealed_at_start = counts(1_000, 900, 0, 100);
    });
    let said = verdict(&Outcome::Drained, &last, "t_rejected");
    assert!(said.starts_with("drained: 10 records read, 5 rows written, 5 dead letters;"), "{said}");
    let clean = ended(|s| {
        s.sealed = counts(1_010, 910, 0, 100);
        s.sealed_at_start = counts(1_000, 900, 0, 100);
    });
    let said = verdict(&Outcome::Drained, &clean, "t_rejected");
    assert_eq!(said, "drained, and all that was read is in the table: 10 records");
}

#[test]
fn what_an_earlier_run_left_and_what_waits_is_said() {
    let delivered = ended(|s| s.tables.entry("t".into()).or_default().rows_settled = 7);
    assert_eq!(
        verdict(&Outcome::Complete, &delivered, "l"),
        "all was read: nothing new was read, and what waited in the store is delivered"
    );
    let interrupted = ended(|s| {
        s.sealed = counts(10, 10, 0, 0);
        s.tables.entry("t".into()).or_default().rows_sealed = 10;
    });
    assert_eq!(
        verdict(&Outcome::Interrupted, &ended(|_| {}), "l"),
        "stopped before all was delivered: nothing new was read; whatever waited in the store waits there still, and the next \
         start continues from the journal",
        "the journal was not opened"
    );
    assert_eq!(
        verdict(&Outcome::Interrupted, &interrupted, "l"),
        "stopped before all was delivered: 10 records read, 10 rows written; 10 rows wait in the store, and the next start \
         continues from the journal"
    );
}

#[test]
fn a_share_of_dead_letters_above_the_limit_fails_a_run() {
    let limit = Some("1%".parse().expect("a share"));
    let failed = |run: Totals, limit| too_many_dead_letters(&ended(|s| s.sealed = run), limit);
    assert_eq!(failed(counts(10_000, 9_900, 0, 100), limit), None, "as many as are allowed");
    assert_eq!(
        failed(counts(10_000, 9_899, 0, 101), limit).as_deref(),
        Some(
            "101 of the 10000 records read became dead letters, more than the 1% that `dead_letters.fail_above` allows"
        )
    );
    assert_eq!(failed(Totals::default(), limit), None, "nothing was read");
    // Without the setting, only a run of which nothing else came.
    assert_eq!(failed(counts(10_000, 1, 0, 9_999), None), None);
    assert!(failed(counts(9_999, 0, 0, 9_999), None).is_some());
    // Of two tables one has refused every row.
    assert_eq!(failed(counts(100, 100, 0, 100), None), None, "the other has all of them");
    let twice = failed(counts(100, 0, 0, 200), None).expect("both have");
    assert!(twice.starts_with("200 dead letters came of 100 records read"), "{twice}");
    assert_eq!(failed(counts(5, 0, 5, 0), None), None, "duplicates are no failure");
    let earlier = ended(|s| {
        s.sealed = counts(110, 10, 0, 100);
        s.sealed_at_start = counts(100, 0, 0, 100);
    });
    assert_eq!(too_many_dead_letters(&earlier, limit), None, "those of earlier runs do not count");
}

#[test]
fn rates_after_a_restart_do_not_count_what_was_restored() {
    let restored = ended(|s| {
        s.sealed = counts(1_000_000, 1_000_000, 0, 0);
        s.sealed_at_start = s.sealed;
    });
    assert_eq!(read(&restored), 0);
    assert_eq!(read(&ended(|s| s.read = 5)), 5);
}
