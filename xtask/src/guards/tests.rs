use super::*;

fn baseline(own: u64, libraries: u64) -> Baseline {
    let counts = Counts { own, libraries };
    Baseline { libc: "glibc 2.36".into(), lines: vec![Line { step: "decode".into(), units: 10, counts }] }
}

#[test]
fn a_baseline_is_read_as_it_was_written() {
    let whole = baseline(1_000, 20);
    assert_eq!(Baseline::from_text(&whole.to_text()).expect("our own text"), whole);
    assert!(Baseline::from_text("decode 1 2").is_err());
    assert!(Baseline::from_text("decode 1 2 x").is_err());
}

#[test]
fn five_per_cent_more_instructions_fail() {
    let was = baseline(1_000, 100);
    let failed = |own, libraries| compare(&was, &baseline(own, libraries)).1;
    assert!(failed(1_050, 100).is_empty());
    assert_eq!(failed(1_051, 100), ["decode"]);
    assert_eq!(failed(1_000, 106), ["decode"]);
    assert!(failed(500, 50).is_empty());
    // Half of nothing is nothing.
    assert!(compare(&baseline(1_000, 2), &baseline(1_000, 4)).1.is_empty());
}

#[test]
fn fewer_instructions_ask_for_a_new_baseline() {
    let report = |own| compare(&baseline(1_000, 0), &baseline(own, 0)).0;
    assert!(report(949).contains("--bless"));
    assert!(!report(951).contains("--bless"));
}

#[test]
fn another_c_library_is_not_judged_and_the_own_part_is() {
    let other = |own, libraries| Baseline { libc: "glibc 2.41".into(), ..baseline(own, libraries) };
    let was = baseline(1_000, 100);
    let (report, failed) = compare(&was, &other(1_000, 200));
    assert!(failed.is_empty() && report.contains("not judged"), "{report}");
    assert_eq!(compare(&was, &other(1_100, 100)).1, ["decode"]);
}

#[test]
fn a_step_on_one_side_alone_fails() {
    let none = Baseline { lines: Vec::new(), ..baseline(0, 0) };
    let one = baseline(1_000, 0);
    assert_eq!(compare(&none, &one).1, ["decode"]);
    assert_eq!(compare(&one, &none).1, ["decode"]);
    let mut longer = one.clone();
    longer.lines[0].units = 20;
    assert_eq!(compare(&one, &longer).1, ["decode"], "another amount of work cannot be compared");
}
