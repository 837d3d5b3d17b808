use super::*;

const MS: i128 = 1_000_000;

fn sampled(sent: i128, received: i128, inserted: i128, visible: i128) -> Sampled {
    Sampled { sent_ns: sent * MS, more: vec![received * MS, inserted * MS], visible_ns: visible * MS }
}

#[test]
fn each_latency_is_of_the_record_and_of_its_own_moments() {
    // A batch of three that were sent at different times and inserted at once, and a batch of one.
    let records = [
        sampled(0, 100, 900, 950),
        sampled(300, 350, 900, 950),
        sampled(600, 620, 900, 950),
        sampled(0, 1, 2, 3),
    ];
    let latencies = Latencies::of(&records).expect("in order");
    assert_eq!(latencies.strict_s, [0.003, 0.35, 0.65, 0.95]);
    assert_eq!(latencies.theirs_s, [0.001, 0.28, 0.55, 0.8], "no batch counts more than its records");
}

#[test]
fn theirs_is_never_more_than_ours_of_any_share() {
    let mut state = 7_u64;
    let mut draw = |most: i128| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i128::from(state >> 33) % most
    };
    let records: Vec<Sampled> = (0..1_000)
        .map(|_| {
            let sent = draw(60_000);
            let received = sent + draw(400);
            let inserted = received + draw(2_000);
            sampled(sent, received, inserted, inserted + draw(100))
        })
        .collect();
    let latencies = Latencies::of(&records).expect("in order");
    for percent in 1..=100 {
        let at = |sorted: &[f64]| at_share(sorted, f64::from(percent) / 100.0).expect("there are records");
        assert!(at(&latencies.theirs_s) <= at(&latencies.strict_s), "{percent} %");
    }
}

#[test]
fn a_receipt_to_the_millisecond_may_seem_to_precede_the_sending_and_adds_nothing() {
    let moments = Moments::of([MS + 900_000, MS, 50 * MS, 60 * MS]).expect("clocks may differ by as much");
    assert_eq!(moments.received, moments.sent);
    assert!(moments.theirs_s() < moments.strict_s());
    let late = Moments::of([0, MS, 62 * MS, 60 * MS]).expect("so may the server's");
    assert_eq!(late.inserted, late.visible);
}

#[test]
fn moments_out_of_order_are_an_error_and_no_latency() {
    for (moments, words) in [
        ([100, 0, 200, 300], "received before it was sent"),
        ([0, 100, 50, 300], "inserted before it was received"),
        ([0, 100, 200, 150], "visible before it was inserted"),
        ([4, 3, 2, 1], "visible before it was sent"),
    ] {
        let error = Moments::of(moments.map(|at| at * MS)).expect_err("out of order").to_string();
        assert!(error.contains(words), "{error}");
    }
}
