use pipeline::config::values::Size;
use pipeline::config::{self, values::reference::Surroundings};
use workloads::buffer::Spec;

use super::*;
use crate::engine::no_fault;

fn plan(over: Over, direct: bool) -> Plan {
    let common = Common {
        clickhouse: None,
        repeat: 1,
        dir: "/var/tmp".into(),
        keep: false,
        memory: None,
        program: None,
        touch: Size { bytes: 0 },
    };
    Plan {
        common,
        workload: Workload::new(Spec::default()).expect("valid"),
        bucket: None,
        delay: store::Delay::default(),
        direct,
        over,
        compression: Compression::Zstd,
        inserts: Inserts::None,
        senders: 1,
        rate: None,
        batch_age: Some(Duration::from_millis(200)),
        outage: None,
    }
}

#[tokio::test]
async fn the_files_of_both_processes_have_no_fault() {
    let say = |_: &str| {};
    let plan = plan(Over::Stream, false);
    let place = Place::of(&plan.common, "bench_1", &say);
    let store = Store::start(None, plan.delay, "bench_1", 1, "/var/tmp".as_ref()).await.expect("a folder");
    let bench = Bench { plan: &plan, place: &place };
    no_fault(bench.pipeline_text(&store, "http://127.0.0.1:8123", "bench_1"));
    let text = gateway::text(&store, plan.over);
    let checked = config::check_gateway(&text, &Surroundings::of_process());
    assert!(checked.gateway.is_some(), "{}", checked.faults.render("gateway.yaml"));
}

#[tokio::test]
async fn the_file_of_a_pipeline_that_listens_has_no_fault() {
    let say = |_: &str| {};
    let plan = plan(Over::OtlpHttp, true);
    let place = Place::of(&plan.common, "bench_2", &say);
    let store = Store::start(None, plan.delay, "bench_2", 1, "/var/tmp".as_ref()).await.expect("a folder");
    no_fault(Bench { plan: &plan, place: &place }.pipeline_text(&store, "http://127.0.0.1:8123", "bench_2"));
}

#[test]
fn a_month_costs_what_is_counted_at_list_prices() {
    let counted = store::Counted { puts: 1_000, gets: 1_000, put_bytes: 1_000_000_000 };
    // A thousandth of a month: a million requests of each kind are 5 dollars and 40 cents; 386 kB a second for a quarter of an hour are 347 MB.
    let cost = Prices::LIST.month(counted, Duration::from_secs(2_592));
    assert!((cost - 5.408).abs() < 0.001, "{cost}");
}
