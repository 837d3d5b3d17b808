//! A gateway that follows files into a log in memory, and is stopped and killed.

use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;
use store::Store;

use super::*;
use crate::server::{GatewayError, Server};
use crate::support::{self, NEVER, Running, held, in_memory, options, records};

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("forebay-gateway-files-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn add(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn files(&self) -> FilesOptions {
        FilesOptions {
            paths: vec![self.0.join("*.log").to_str().unwrap().to_owned()],
            exclude: vec![self.0.join("not-*").to_str().unwrap().to_owned()],
            stream: "files".to_owned(),
            host: "here".to_owned(),
            is_json: true,
            from_end: false,
            line_bytes_max: 1_000,
            open_max: 10,
            ahead_bytes_max: 1 << 20,
        }
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn gateway(store: &Arc<dyn Store>, files: Vec<FilesOptions>) -> crate::Options {
    let mut options = options(vec![support::stream("files", store)]);
    options.files = files;
    options
}

async fn start(store: &Arc<dyn Store>, dir: &Dir) -> Running {
    support::start(gateway(store, vec![dir.files()])).await
}

async fn wait_for(store: &Arc<dyn Store>, count: usize) -> Vec<String> {
    let waiting = async {
        loop {
            let found = records(store).await;
            if found.len() >= count {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(NEVER, waiting).await.expect("they become durable")
}

#[tokio::test]
async fn lines_are_in_the_log_once_over_stops_and_kills() {
    let (store, dir) = (in_memory(), Dir::new("kills"));
    let mut count = 0;
    for life in 0..6 {
        let running = start(&store, &dir).await;
        for line in 0..20 {
            dir.add(&format!("{}.log", life % 2), &format!("{{\"n\":{}}}\n", life * 20 + line));
            if line % 5 == 0 {
                tokio::task::yield_now().await;
            }
        }
        count += 20;
        match life % 3 {
            0 => {
                wait_for(&store, count).await;
                assert_eq!(running.stop().await.unwrap(), crate::End::Drained);
            }
            // As a kill leaves it: somewhere between reading, noting and appending.
            _ => {
                tokio::time::sleep(Duration::from_millis(60 * life as u64)).await;
                running.served.abort();
                let _ = running.served.await;
            }
        }
    }
    dir.add("not-this.log", "x\n");
    dir.add("0.log", "no JSON\n");
    let running = start(&store, &dir).await;
    let found = wait_for(&store, count + 1).await;
    running.stop().await.unwrap();
    assert_eq!(records(&store).await.len(), count + 1);
    let json: Vec<Value> = found.iter().map(|record| serde_json::from_str(record).unwrap()).collect();
    let mut numbers: Vec<u64> = json.iter().filter_map(|record| record["n"].as_u64()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..count as u64));
    let wrapped = json.iter().find(|record| record["n"].is_null()).unwrap();
    assert_eq!((&wrapped["line"], &wrapped["host"]), (&"no JSON".into(), &"here".into()));
}

#[tokio::test]
async fn a_gateway_that_follows_no_files_keeps_what_their_labels_say() {
    let (store, dir) = (in_memory(), Dir::new("without"));
    let running = start(&store, &dir).await;
    dir.add("a.log", "one\n");
    wait_for(&store, 1).await;
    running.served.abort();
    let _ = running.served.await;
    // Names of requests are told from labels of files, and retention takes the records of the first life.
    let mut without = gateway(&store, Vec::new());
    let crate::Fills::Log { settings, .. } = &mut without.streams[0].fills else { panic!("it fills no log") };
    settings.retention.bytes_max = Some(0);
    settings.collect_every = Duration::from_millis(1);
    let running = support::start(without).await;
    assert_eq!(running.gate.streams().map(|stream| stream.known_keys()).sum::<usize>(), 0);
    for n in 0..3 {
        running.good("/v1/streams/files", &[], &format!("{{\"n\":{n}}}\n")).await;
    }
    let goes = async {
        while records_from_low(&store).await >= 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(NEVER, goes).await.expect("the first records go");
    running.stop().await.unwrap();

    dir.add("a.log", "two\n");
    let running = start(&store, &dir).await;
    let waiting = async {
        while !last_record(&store).await.contains("two") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(NEVER, waiting).await.expect("it is read on");
    running.stop().await.unwrap();
    let last = last_record(&store).await;
    assert!(last.contains("\"offset\":4,"), "{last}");
}

async fn records_from_low(store: &Arc<dyn Store>) -> usize {
    held(store).await.len()
}

async fn last_record(store: &Arc<dyn Store>) -> String {
    held(store).await.pop().unwrap_or_default()
}

#[tokio::test]
async fn files_fill_a_stream_that_is_there_and_takes_json_once() {
    let dir = Dir::new("refused");
    let refused = async |change: &dyn Fn(&mut crate::Options)| {
        let mut options = gateway(&in_memory(), vec![dir.files()]);
        change(&mut options);
        match Server::open(options, support::runtime()).await {
            Err(GatewayError::Log { error, .. }) => error.to_string(),
            _ => panic!("it opened"),
        }
    };
    let told = refused(&|options| options.files[0].stream = "other".to_owned()).await;
    assert!(told.contains("there is no such stream"), "{told}");
    let told = refused(&|options| options.streams[0].format = crate::Format::Message).await;
    assert!(told.contains("does not take JSON"), "{told}");
    let told = refused(&|options| options.files.push(options.files[0].clone())).await;
    assert!(told.contains("give all their paths at once"), "{told}");
    let told = refused(&|options| options.files[0].paths = vec!["a[".to_owned()]).await;
    assert!(told.contains("pattern `a[` is wrong"), "{told}");
}

/// The runtime of other tests, whose wall clock is set while it runs, and whose own time passes faster.
struct Set {
    inner: Arc<dyn dataflow::Runtime>,
    ahead_ms: std::sync::atomic::AtomicI64,
    passed_s: std::sync::atomic::AtomicU64,
}

impl Set {
    fn new() -> Arc<Self> {
        Arc::new(Self { inner: support::runtime(), ahead_ms: 0.into(), passed_s: 0.into() })
    }
}

impl dataflow::Runtime for Set {
    fn wall_ms(&self) -> i64 {
        self.inner.wall_ms() + self.ahead_ms.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn elapsed(&self) -> Duration {
        self.inner.elapsed() + Duration::from_secs(self.passed_s.load(std::sync::atomic::Ordering::Relaxed))
    }

    fn begin_ms(&self) -> i64 {
        self.inner.begin_ms()
    }

    fn sleep(&self, time: Duration) -> futures::future::BoxFuture<'static, ()> {
        self.inner.sleep(time)
    }

    fn spawn(&self, name: &'static str, task: futures::future::BoxFuture<'static, ()>) -> dataflow::Task {
        self.inner.spawn(name, task)
    }

    fn compute(&self, job: Box<dyn FnOnce() + Send>) {
        self.inner.compute(job);
    }

    fn compute_threads(&self) -> usize {
        self.inner.compute_threads()
    }

    fn random(&self) -> u128 {
        self.inner.random()
    }
}

/// A disk that is away for some seconds, in which the clock is set to the day after tomorrow.
#[tokio::test]
async fn a_clock_that_is_set_forgets_no_file() {
    let (store, dir) = (in_memory(), Dir::new("clock"));
    let disk = dir.0.join("disk");
    std::fs::create_dir(&disk).unwrap();
    std::fs::write(disk.join("a.log"), "{\"n\":1}\n").unwrap();
    let files = FilesOptions { paths: vec![disk.join("*.log").to_str().unwrap().to_owned()], ..dir.files() };
    let clock = Set::new();
    let running = support::start_with(gateway(&store, vec![files]), clock.clone()).await;
    wait_for(&store, 1).await;
    std::fs::rename(&disk, dir.0.join("away")).unwrap();
    // Two looks at the folders, before and after: what is right does not depend on how many there are.
    tokio::time::sleep(2 * SCAN_EVERY).await;
    clock.ahead_ms.store(2 * 86_400_000, std::sync::atomic::Ordering::Relaxed);
    tokio::time::sleep(3 * SCAN_EVERY).await;
    std::fs::rename(dir.0.join("away"), &disk).unwrap();
    dir.add("disk/a.log", "{\"n\":2}\n");
    let found = wait_for(&store, 2).await;
    running.stop().await.unwrap();
    let lines = found.iter().chain(&records(&store).await[found.len()..]).cloned().collect::<Vec<_>>();
    let of = |record: &String| serde_json::from_str::<Value>(record).unwrap()["n"].as_i64().unwrap();
    assert_eq!(lines.iter().map(of).collect::<Vec<_>>(), [1, 2], "each line once");
}

/// Requests fill the stream as well, and the file has no new line: what they fill goes all the same, soon after the next note.
#[tokio::test]
async fn a_quiet_file_keeps_nothing_that_requests_have_filled() {
    let (store, dir) = (in_memory(), Dir::new("quiet"));
    let mut options = gateway(&store, vec![dir.files()]);
    let crate::Fills::Log { settings, .. } = &mut options.streams[0].fills else { panic!("it fills no log") };
    settings.retention.bytes_max = Some(0);
    settings.collect_every = Duration::from_millis(1);
    let clock = Set::new();
    let running = support::start_with(options, clock.clone()).await;
    let all_goes = async || {
        clock.passed_s.fetch_add(NOTE_EVERY.as_secs() + 1, std::sync::atomic::Ordering::Relaxed);
        let going = async {
            while records_from_low(&store).await > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(NEVER, going).await.expect("nothing is kept");
    };
    dir.add("a.log", "one\n");
    wait_for(&store, 1).await;
    all_goes().await;
    for n in 0..3 {
        running.good("/v1/streams/files", &[], &format!("{{\"n\":{n}}}\n")).await;
    }
    all_goes().await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn files_are_followed_by_a_gateway_that_takes_nothing_over_http() {
    let (store, dir) = (in_memory(), Dir::new("no-http"));
    let options = crate::Options { listen: None, ..gateway(&store, vec![dir.files()]) };
    let server = Server::open(options, support::runtime()).await.expect("opens");
    assert_eq!((server.address(), server.addresses().count()), (None, 0));
    let (stop, asked) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        let _ = asked.await;
    };
    let served = tokio::spawn(server.serve(axum::Router::new(), stopped));
    dir.add("a.log", "one\n");
    wait_for(&store, 1).await;
    stop.send(()).expect("it runs");
    let end = tokio::time::timeout(NEVER, served).await.expect("it ends").expect("no panic");
    assert_eq!(end.unwrap(), crate::End::Drained);
}
