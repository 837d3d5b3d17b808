use dataflow::conformance::source::{self, Fixture, read_all};
use glassflow::Spec;

use super::*;
use crate::test_runtime::TestRuntime;

struct GeneratorFixture {
    source: GeneratorSource,
    runtime: Arc<TestRuntime>,
}

#[async_trait]
impl Fixture for GeneratorFixture {
    fn source(&self) -> &dyn Source {
        &self.source
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        self.runtime.clone()
    }
}

fn workload(uniques: u64) -> glassflow::Workload {
    let spec =
        Spec { seed: 7, publishers: 3, uniques, far_duplicates: 10, cross_duplicates: 10, ..Spec::default() };
    glassflow::Workload::new(spec).expect("a small workload")
}

fn fixture(uniques: u64) -> GeneratorFixture {
    let runtime = Arc::new(TestRuntime::new());
    let source = GeneratorSource::new(Arc::new(workload(uniques)), runtime.clone());
    GeneratorFixture { source, runtime }
}

#[tokio::test]
async fn the_generator_keeps_the_rules_of_a_source() {
    source::run(async || Box::new(fixture(9_000)) as Box<dyn Fixture>).await;
}

#[tokio::test]
async fn a_paced_generator_keeps_the_rules_of_a_source() {
    source::run(async || {
        let fixture = fixture(100);
        let source = fixture.source.at_pace(20_000.0).expect("a pace");
        Box::new(GeneratorFixture { source, ..fixture }) as Box<dyn Fixture>
    })
    .await;
}

#[tokio::test]
async fn records_are_the_workload_s_own() {
    let workload = workload(500);
    let seen = read_all(&fixture(500)).await;
    assert_eq!(seen.len(), 3);
    for (partition, seen) in &seen {
        assert_eq!(seen.records.len() as u64, workload.records(partition.index));
        for (position, time_ms, body, _, _) in &seen.records {
            let mut expected = Vec::new();
            workload.write(partition.index, dataflow::position::low(*position), &mut expected);
            assert_eq!(body.as_deref(), Some(&expected[..]));
            assert!(*time_ms >= i64::from(workload.spec().start_time_s) * 1_000);
        }
        assert!(seen.records.is_sorted_by_key(|record| record.1), "times do not fall");
    }
}

#[tokio::test]
async fn the_pace_bounds_the_rate() {
    let fixture = fixture(100);
    let ends = fixture.source.ends().await.expect("known");
    let records: u64 = ends.iter().map(|(_, end)| dataflow::position::low(*end)).sum();
    let rate = records as f64 * 2.0;
    let fixture = GeneratorFixture { source: fixture.source.at_pace(rate).expect("a pace"), ..fixture };
    let began = fixture.runtime.elapsed();
    read_all(&fixture).await;
    let took = fixture.runtime.elapsed() - began;
    assert!(took >= Duration::from_millis(400), "half a second of records came in {took:?}");
}

#[test]
fn a_pace_must_be_above_0() {
    for pace in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(fixture(10).source.at_pace(pace).is_err(), "{pace}");
    }
}
