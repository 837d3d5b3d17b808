use super::*;
use crate::report::{Report, Run, Setting, Verdict};
use crate::trace::Trace;

/// A thousandth of a month.
const TOOK: Duration = Duration::from_secs(2_592);

fn counted() -> Counted {
    Counted { puts: 1_000, gets: 1_000, put_bytes: 1_000_000_000, ..Counted::default() }
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < expected * 1e-4, "{found} instead of {expected}");
}

#[test]
fn a_month_costs_what_is_counted_at_list_prices() {
    // A million requests of each kind are 5 dollars and 40 cents; 386 kB a second for a quarter of an hour are 347 MB.
    let flow = Flow::of(counted(), 1e6, (800.0, 2_700.0), TOOK);
    close(flow.requests(), 5.4);
    close(flow.storage(), 0.34722 * 0.023);
    close(flow.month(), 5.408);
    // A thousand million records of 800 B in a month are 0.8 TB.
    close(flow.terabyte(), 5.408 / 0.8);
}

#[test]
fn the_published_rate_is_between_as_many_requests_a_second_and_as_many_a_record() {
    let flow = Flow::of(counted(), 1e6, (800.0, 2_700.0), TOOK);
    let times = PUBLISHED_RECORDS_PER_S / (1e6 / TOOK.as_secs_f64());
    let [least, most] = flow.at_published();
    // Time would cut a thousand objects in as many seconds; the bytes fill more than two a second.
    let full = 800.0 * PUBLISHED_RECORDS_PER_S / object_bytes();
    assert!((2.0..2.5).contains(&full), "{full}");
    close(least.puts_per_s, full + COMMITS_PER_S);
    close(most.requests(), 5.4 * times);
    close(least.storage(), most.storage());
    close(least.storage(), flow.storage() * times);
    // Twice the published rate: half of the requests at the least.
    let fast =
        Flow::of(counted(), 2.0 * PUBLISHED_RECORDS_PER_S * TOOK.as_secs_f64(), (800.0, 2_700.0), TOOK);
    let [least, most] = fast.at_published();
    close(least.puts_per_s, full + COMMITS_PER_S);
    close(most.puts_per_s, full + COMMITS_PER_S);
    close(least.gets_per_s, 0.5 * most.gets_per_s);
    // Where the objects of the bytes are fewer than those that were counted, those count.
    let many = Flow { puts_per_s: 30.0, records_per_s: PUBLISHED_RECORDS_PER_S, ..fast };
    assert_eq!(many.at_published().map(|flow| flow.puts_per_s), [30.0, 30.0]);
}

#[test]
fn objects_follow_the_bytes_and_all_else_the_time() {
    let took_s = TOOK.as_secs_f64();
    let counted =
        |objects: f64| Counted { objects: (objects * took_s) as u64, roots: 2 * 2_592, ..counted() };
    let at =
        |objects| Flow::of(counted(objects), 1_000.0 * took_s, (800.0, 2_700.0), TOOK).at_published_by_kind();
    let full = 800.0 * PUBLISHED_RECORDS_PER_S / object_bytes();
    let (rest_puts, gets) = (1_000.0 / took_s, 1_000.0 / took_s);
    // No record of the journal was counted.
    let seals = 2_700.0 * PUBLISHED_RECORDS_PER_S / SEAL_BYTES;
    assert!((1.5..2.0).contains(&seals), "{seals}");
    let few = at(0.1).expect("objects were counted");
    close(few.puts_per_s, rest_puts + full - 0.1 + seals);
    close(few.gets_per_s, gets + full - 0.1);
    close(few.stored_bytes_per_s, 1e9 / took_s * 175.0);
    let many = at(3.0).expect("objects were counted");
    close(many.puts_per_s, rest_puts + seals);
    assert_eq!(at(0.0), None);
    // Time made more of them than the rows fill.
    let counted = Counted { records: 3 * 2_592, ..counted(3.0) };
    let timed = Flow::of(counted, 1_000.0 * took_s, (800.0, 2_700.0), TOOK).at_published_by_kind();
    close(timed.expect("objects were counted").puts_per_s, rest_puts);
}

#[test]
fn the_published_figures_agree_with_each_other() {
    close(PUBLISHED_RECORDS_PER_S * PUBLISHED_RECORD_BYTES * 8.0 / 1e9, 1.1004);
    // 7.1 uploads and 5.3 changes of the manifest a second are most of its 180 dollars at these prices.
    let flow = Flow {
        puts_per_s: 7.1 + 5.3,
        kinds_per_s: [7.1, 5.3, 0.0],
        gets_per_s: 7.1,
        stored_bytes_per_s: 0.0,
        records_per_s: PUBLISHED_RECORDS_PER_S,
        record_bytes: PUBLISHED_RECORD_BYTES,
        row_bytes: 2_700.0,
    };
    assert!((0.9..1.0).contains(&(flow.month() / PUBLISHED_MONTH)), "{}", flow.month());
}

fn report(with_store: bool) -> Report {
    let mut figures = Figures::default();
    figures.put(super::super::figures::WIRE_BYTES, 800.0);
    if with_store {
        put(&Flow::of(counted(), 1e6, (800.0, 2_700.0), TOOK), &mut figures);
    }
    let run = Run {
        arm: "5,000 records/s".to_owned(),
        figures,
        verdict: Verdict::default(),
        not_valid: None,
        trace: Trace::default(),
    };
    let setting = Setting {
        workload: "buffer",
        sentences: Vec::new(),
        facts: serde_json::Map::new(),
        clickhouse: "1".to_owned(),
        build: "development",
        processor: "one".to_owned(),
        cores: 2,
    };
    Report::new(setting, vec![run], |_| Vec::new())
}

#[test]
fn ours_stands_beside_the_published_system_and_its_cluster_with_every_assumption() {
    let grid = grid(&report(true).arms).expect("a store was asked");
    let names: Vec<&str> = grid.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names[0], "5,000 records/s");
    assert_eq!(names[3..], ["published: requests and storage", "published: the Kafka cluster"]);
    assert_eq!(grid.cells(&grid.rows[0])[4..], ["5.41", "6.76"]);
    assert_eq!(grid.cells(&grid.rows[3]), ["-", "-", "-", "-", "180.00", "0.50"]);
    assert_eq!(grid.cells(&grid.rows[4])[4..], ["24667.00", "69.19"]);
    let notes = grid.notes.join("\n");
    for word in ["2,592,000 s", "$0.005", "$0.0004", "$0.023", "900 s", "786 B", "10^12"] {
        assert!(notes.contains(word), "{word}: {notes}");
    }
    assert!(super::grid(&report(false).arms).is_none(), "a folder asks for no money");
}
