use dataflow::conformance::source::{self, Fixture};
use dataflow::{Runtime, SourceFault};

use super::*;
use crate::test_runtime::TestRuntime;

const ONE_ERA: usize = 16;

struct MemoryFixture {
    source: MemorySource,
    eras: usize,
    runtime: Arc<TestRuntime>,
}

fn body(n: usize) -> Vec<u8> {
    format!("{{\"n\":{n}}}").into_bytes()
}

impl MemoryFixture {
    /// Forty records with gaps between them; of three eras if `eras` is below 16.
    fn fill(handle: &MemoryHandle, partition: &Partition, eras: usize) {
        for n in 0..40 {
            let is_tombstone = n % 9 == 4;
            handle.push_record(
                partition,
                MemoryRecord {
                    time_ms: n as i64,
                    payload: (!is_tombstone).then(|| body(n)),
                    key: (n % 3 == 1).then(|| vec![b'k'; n]),
                    headers: if n % 5 == 2 { vec![("h".into(), None)] } else { vec![] },
                },
            );
            handle.skip(partition, (n % 4) as u64);
            if n % 16 == eras {
                handle.begin_era(partition);
            }
        }
    }

    fn new(eras: usize) -> Self {
        let source = MemorySource::new([("events", 3)]);
        for index in 0..3 {
            Self::fill(&source.handle(), &Partition::new("events", index), eras);
        }
        Self { source, eras, runtime: Arc::new(TestRuntime::new()) }
    }
}

#[async_trait]
impl Fixture for MemoryFixture {
    fn source(&self) -> &dyn Source {
        &self.source
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        self.runtime.clone()
    }

    async fn append(&self, partition: &Partition, payload: &[u8]) -> bool {
        self.source.handle().push(partition, 0, payload);
        true
    }

    async fn forget(&self, partition: &Partition, position: Position) -> bool {
        self.source.handle().forget(partition, position);
        true
    }

    async fn recreate(&self, partition: &Partition) -> bool {
        self.source.handle().open(partition.clone());
        Self::fill(&self.source.handle(), partition, self.eras);
        true
    }

    async fn open(&self) -> Option<Partition> {
        let partition = Partition::new("events", 3);
        self.source.handle().open(partition.clone());
        Some(partition)
    }
}

#[tokio::test]
async fn memory_keeps_the_rules_of_a_source() {
    source::run(async || Box::new(MemoryFixture::new(ONE_ERA)) as Box<dyn Fixture>).await;
}

#[tokio::test]
async fn memory_whose_positions_have_eras_keeps_the_rules_of_a_source() {
    source::run(async || Box::new(MemoryFixture::new(7)) as Box<dyn Fixture>).await;
}

#[tokio::test]
async fn bounded_memory_keeps_the_rules_of_a_source() {
    struct Bounded(MemoryFixture);
    #[async_trait]
    impl Fixture for Bounded {
        fn source(&self) -> &dyn Source {
            self.0.source()
        }
        fn runtime(&self) -> Arc<dyn Runtime> {
            self.0.runtime()
        }
    }
    source::run(async || {
        let fixture = MemoryFixture::new(ONE_ERA);
        fixture.source.handle().end_all();
        Box::new(Bounded(fixture)) as Box<dyn Fixture>
    })
    .await;
}

#[tokio::test]
async fn being_away_is_reported_so_many_times_and_loses_nothing() {
    let fixture = MemoryFixture::new(ONE_ERA);
    let start = fixture.source.partitions().await.expect("at hand").swap_remove(0);
    let from = source::at(&start, 0);
    let mut reader = fixture.source.read(vec![from]).await.expect("reads");
    fixture.source.handle().fail(2);
    for _ in 0..2 {
        assert_eq!(reader.next().await.expect_err("away").fault, SourceFault::Away);
    }
    let Event::Block(block) = reader.next().await.expect("back") else { panic!("records come first") };
    assert_eq!(block.len(), 40);
}

#[tokio::test]
async fn published_positions_are_read_back() {
    let source = MemorySource::new([("events", 1)]);
    let partition = Partition::new("events", 0);
    source.publish(&[(partition.clone(), 7)]).await.expect("publishes");
    assert_eq!(source.published().await.expect("reads"), [(partition, 7)]);
}
