//! A pipeline in the small world: what it is made of, and one run of it.

use super::*;

/// A pipeline from one memory source into one table, which can be started as often as one likes.
pub struct Bench {
    pub source: Arc<MemorySource>,
    pub feed: MemoryHandle,
    pub store: Arc<dyn Store>,
    pub table: Arc<TokenTable>,
    pub dead_letters: Arc<TokenTable>,
    pub settings: Settings,
    /// When dedup keys leave memory.
    pub sizes: Sizes,
    /// Into how many shards they are divided in memory; any two rows are worth a job.
    pub shards: usize,
    pub status: Arc<Status>,
    pub runtime: Arc<TokioRuntime>,
}

impl Bench {
    /// Two partitions, a store in memory, small batches.
    pub fn new() -> Self {
        let runtime = TokioRuntime::new(2);
        let settings = Settings {
            batch_rows_max: 50,
            batch_age_max: Duration::from_millis(10),
            settle_age_max: Duration::from_millis(20),
            retry_pause_max: Duration::from_millis(20),
            // Tests that wait for its end set their own; on a busy machine a drain may take seconds.
            drain_time_max: Duration::from_secs(60),
            window_frames_max: 4,
            owner_quiet_min: Duration::from_millis(200),
            ..Settings::default()
        };
        let source = Arc::new(MemorySource::new([("e", 2)]));
        Self {
            feed: source.handle(),
            source,
            store: Arc::new(store::MemoryStore::new(1 << 30)),
            table: TokenTable::numbers("d.t", runtime.clone()),
            dead_letters: TokenTable::dead_letters(runtime.clone()),
            settings,
            sizes: Sizes::new(1 << 20),
            shards: 1,
            status: Arc::default(),
            runtime,
        }
    }

    /// Records `ids`, in turn over both partitions.
    pub fn push(&self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            self.push_text(id, &id.to_string());
        }
    }

    /// A record of any text.
    pub fn push_text(&self, n: u64, text: &str) {
        self.feed.push(&Partition::new("e", (n % 2) as u32), 1_000 + n as i64, text);
    }

    /// The only input, with this source.
    pub fn inputs(&self, source: Arc<dyn Source>) -> Vec<Input> {
        vec![self.input(SOURCE, source)]
    }

    /// An input of numbers.
    pub fn input(&self, name: &str, source: Arc<dyn Source>) -> Input {
        let intake = Intake::new(Arc::new(Numbers(self.table.schema().clone())));
        Input { name: name.to_owned(), source, intake }
    }

    /// The pipeline, ready to run.
    pub fn pipeline(&self, drain: bool) -> Pipeline {
        let schema = self.table.schema().clone();
        let dedup = DedupConfig { key: vec!["id".into()], window: None, late: Late::Keep };
        let step = Dedup::new(&schema, dedup).expect("a valid step").with_sizes(self.sizes);
        let steps: Vec<Box<dyn Operator>> =
            vec![Box::new(step.with_shards(self.shards).with_job_rows_min(1))];
        Pipeline {
            name: "p".into(),
            lane: 0,
            parts: Vec::new(),
            new_state: Default::default(),
            owner: "test".into(),
            inputs: self.inputs(self.source.clone()),
            steps,
            tables: vec![self.table.clone()],
            router: None,
            sides: Vec::new(),
            flow: engine::Flow::default(),
            dead_letters: self.dead_letters.clone(),
            store: self.store.clone(),
            runtime: self.runtime.clone(),
            settings: self.settings.clone(),
            status: self.status.clone(),
            drain,
        }
    }

    /// Runs until everything that is there was read and is in the table.
    pub async fn drain(&self) -> Result<Outcome, EngineError> {
        let (_stop, asked) = watch::channel(false);
        let run = engine::run(self.pipeline(true), asked);
        tokio::time::timeout(LONG, run).await.expect("a drain of a few records ends")
    }

    /// As [`Bench::drain`], in a process of its own, so that the store stands still afterwards.
    pub async fn drain_and_exit(&self) -> Result<Outcome, EngineError> {
        Process::start(self.pipeline(true)).ends().await
    }

    /// Both ledgers of all that is sealed.
    pub async fn totals(&self) -> Totals {
        Totals::of(&self.lane().await)
    }

    /// Waits until the engine knows the table as it is now: whoever looks again has the answer of a look that began before.
    pub async fn table_looked_at(&self) {
        let looks = || self.table.world.lock().expect("no panic").looks;
        let first = looks();
        while looks() < first + 3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The table holds exactly these ids, each once.
    pub fn assert_holds(&self, ids: impl IntoIterator<Item = u64>) {
        let expected: BTreeMap<u64, u64> = ids.into_iter().map(|id| (id, 1)).collect();
        let found = self.table.world.lock().expect("no panic").ids();
        assert!(
            found == expected,
            "expected {} ids once, found {} ids, {} rows",
            expected.len(),
            found.len(),
            found.values().sum::<u64>()
        );
    }

    /// What the journal says.
    pub async fn lane(&self) -> protocol::Lane {
        engine::journal::load(&*self.store, "p/lane-0").await.expect("the journal is sound")
    }
}

/// Longer than anything here takes on a machine that is busy with other work, and short enough for a run that hangs.
pub const LONG: Duration = Duration::from_secs(300);

/// A pipeline in a process of its own, as it were: threads and tasks that no other has, and that have ended when
/// [`Process::kill`] or [`Process::ends`] returns.
///
/// Aborting a task that runs the engine is no crash: what the engine has spawned is told to end too, but may first go on to its next
/// await, on another thread and beside the next owner.
pub struct Process {
    kill: oneshot::Sender<()>,
    ended: JoinHandle<Option<Result<Outcome, EngineError>>>,
}

impl Process {
    pub fn start(pipeline: Pipeline) -> Self {
        let (kill, killed) = oneshot::channel();
        let ended = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let (_stop, asked) = watch::channel(false);
                let pipeline = Pipeline { runtime: TokioRuntime::new(2), ..pipeline };
                tokio::select! {
                    biased;
                    _ = killed => None,
                    ended = engine::run(pipeline, asked) => Some(ended),
                }
            })
        });
        Self { kill, ended }
    }

    /// Kills it; how it ended, if it had ended before.
    pub async fn kill(self) -> Option<Result<Outcome, EngineError>> {
        // Nobody listens once it has ended.
        let _ = self.kill.send(());
        self.ended.await.expect("no panic")
    }

    /// Kills it after a time.
    pub async fn kill_after(self, life: Duration) -> Option<Result<Outcome, EngineError>> {
        tokio::time::sleep(life).await;
        self.kill().await
    }

    /// Waits until it ends by itself.
    pub async fn ends(self) -> Result<Outcome, EngineError> {
        let ended = tokio::time::timeout(LONG, self.ended).await.expect("it ends by itself");
        ended.expect("no panic").expect("nobody kills it")
    }
}
