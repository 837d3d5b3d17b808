use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;

use super::*;
use crate::conformance;

/// A new folder that is removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("store-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("makes a folder");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn key(text: &str) -> Key {
    Key::new(text).expect("a key")
}

fn open(folder: &Folder) -> FileStore {
    FileStore::open(&folder.path().join("root"), Arc::new(Inline)).expect("opens")
}

fn put(store: &FileStore, text: &str, body: &'static [u8]) -> Result<Put, StoreError> {
    store
        .put_if_absent(&key(text), vec![Bytes::from_static(body)])
        .now_or_never()
        .expect("inline never waits")
}

fn get(store: &FileStore, text: &str) -> Result<Option<Bytes>, StoreError> {
    store.get(&key(text), 1 << 20).now_or_never().expect("inline never waits")
}

fn names(store: &FileStore) -> Vec<String> {
    let listed = store.list(&Prefix::root(), None, 1_000).now_or_never().expect("inline never waits");
    listed.expect("lists").into_iter().map(|entry| entry.key.to_string()).collect()
}

fn temps(store: &FileStore) -> Vec<PathBuf> {
    fs::read_dir(store.root().join(temp::FOLDER))
        .expect("reads")
        .map(|entry| entry.expect("reads").path())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_conform_in_tokios_pool() {
    let mut folders = Vec::new();
    conformance::run(|| {
        folders.push(Folder::new());
        let root = folders.last().expect("just pushed").path().join("root");
        Arc::new(FileStore::open(&root, Arc::new(TokioPool)).expect("opens"))
    })
    .await;
}

#[test]
fn files_conform_inline_without_any_runtime() {
    let mut folders = Vec::new();
    let run = conformance::run(|| {
        folders.push(Folder::new());
        Arc::new(open(folders.last().expect("just pushed")))
    });
    run.now_or_never().expect("inline never waits");
}

#[test]
fn two_stores_on_one_root_race_with_one_winner() {
    let folder = Folder::new();
    let stores = [open(&folder), open(&folder)];
    for round in 0..20 {
        let text = format!("race/{round}");
        let winners = std::thread::scope(|scope| {
            let text = &text;
            let threads: Vec<_> = (0..8)
                .map(|n| &stores[n % 2])
                .map(|store| scope.spawn(move || put(store, text, b"x")))
                .collect();
            let puts = threads.into_iter().map(|thread| thread.join().expect("no panic").expect("no error"));
            puts.filter(|&put| put == Put::Created).count()
        });
        assert_eq!(winners, 1);
    }
    assert!(temps(&stores[0]).is_empty(), "losers leave nothing behind");
}

#[test]
fn a_store_opened_again_has_everything() {
    let folder = Folder::new();
    put(&open(&folder), "lane/1", b"one").expect("puts");
    let again = open(&folder);
    assert_eq!(get(&again, "lane/1").expect("reads").as_deref(), Some(&b"one"[..]));
    assert_eq!(put(&again, "lane/1", b"two").expect("puts"), Put::Exists);
}

#[test]
fn a_write_cut_short_leaves_nothing_to_be_seen_and_goes_with_the_next_open() {
    let folder = Folder::new();
    let store = open(&folder);
    put(&store, "lane/1", b"whole").expect("puts");
    // What a writer leaves that was killed between its write and its link: the kernel has dropped its lock.
    let leftover = store.root().join(temp::FOLDER).join("4711-0");
    fs::write(&leftover, b"half of an obj").expect("writes");
    assert_eq!(names(&store), ["lane/1"]);
    let again = open(&folder);
    assert!(temps(&again).is_empty());
    assert_eq!(names(&again), ["lane/1"]);
}

#[test]
fn a_writer_killed_behind_the_link_leaves_a_whole_object_that_the_sweep_spares() {
    let folder = Folder::new();
    let store = open(&folder);
    let leftover = store.root().join(temp::FOLDER).join("4711-0");
    fs::write(&leftover, b"whole").expect("writes");
    fs::hard_link(&leftover, store.root().join("object")).expect("links");
    let again = open(&folder);
    assert!(temps(&again).is_empty());
    assert_eq!(get(&again, "object").expect("reads").as_deref(), Some(&b"whole"[..]));
    assert_eq!(put(&again, "object", b"other").expect("puts"), Put::Exists);
}

#[test]
fn folders_and_files_are_for_their_owner_only() {
    let folder = Folder::new();
    let store = open(&folder);
    put(&store, "a/b/c", b"x").expect("puts");
    let mode = |path: PathBuf| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
    assert_eq!(mode(store.path(&key("a/b/c"))), 0o600);
    for path in ["", "a", "a/b", ".tmp"] {
        assert_eq!(mode(store.root().join(path)), 0o700, "`{path}`");
    }
}

#[test]
fn what_a_store_did_not_write_is_passed_over_or_refused() {
    let folder = Folder::new();
    let store = open(&folder);
    put(&store, "lane/1", b"x").expect("puts");
    fs::write(folder.path().join("outside"), b"secret").expect("writes");
    symlink(folder.path().join("outside"), store.root().join("lane/link")).expect("links");
    symlink(folder.path(), store.root().join("lane/folder")).expect("links");
    fs::create_dir(store.root().join("lost+found")).expect("makes");
    fs::write(store.root().join("lost+found/x"), b"x").expect("writes");
    fs::write(store.root().join("lane/.hidden"), b"x").expect("writes");

    assert_eq!(names(&store), ["lane/1"]);
    assert_eq!(get(&store, "lane/link").expect_err("a link").kind, ErrorKind::Corrupt);
    assert_eq!(put(&store, "lane/link", b"x").expect_err("a link").kind, ErrorKind::Corrupt);
    assert_eq!(fs::read(folder.path().join("outside")).expect("reads"), b"secret");
    store.harden(&Prefix::root()).now_or_never().expect("inline never waits").expect("hardens");
}

#[test]
fn a_folder_removed_by_a_person_is_made_again() {
    let folder = Folder::new();
    let store = open(&folder);
    put(&store, "lane/journal/1", b"x").expect("puts");
    fs::remove_dir_all(store.root().join("lane")).expect("removes");
    fs::remove_dir_all(store.root().join(temp::FOLDER)).expect("removes");
    assert_eq!(put(&store, "lane/journal/2", b"y").expect("puts"), Put::Created);
    assert_eq!(names(&store), ["lane/journal/2"]);
}

/// A pool that drops every job unrun.
#[derive(Debug)]
struct Gone;

impl BlockingPool for Gone {
    fn run(&self, _job: Box<dyn FnOnce() + Send>) {}
}

#[test]
fn a_pool_that_stops_leaves_a_puts_effect_unknown() {
    let folder = Folder::new();
    let store = FileStore::open(folder.path(), Arc::new(Gone)).expect("opens");
    let error = put(&store, "a", b"x").expect_err("stopped");
    assert_eq!((error.kind, error.effect), (ErrorKind::Stopped, Effect::Unknown));
    let error = get(&store, "a").expect_err("stopped");
    assert_eq!((error.kind, error.effect), (ErrorKind::Stopped, Effect::None));
}

/// A pool that keeps its jobs until they are asked for.
#[derive(Debug, Default)]
struct Held(Mutex<Vec<Job>>);

struct Job(Box<dyn FnOnce() + Send>);

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}

impl BlockingPool for Held {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        self.0.lock().expect("no panic").push(Job(job));
    }
}

#[tokio::test]
async fn dropped_calls_count_against_the_bound_until_they_are_done() {
    let folder = Folder::new();
    let pool = Arc::new(Held::default());
    let store = FileStore::open(folder.path(), Arc::clone(&pool) as Arc<dyn BlockingPool>).expect("opens");
    for n in 0..2 * OPERATIONS_MAX {
        let key = key(&format!("k/{n}"));
        // Polled once and dropped.
        assert!(store.put_if_absent(&key, vec![]).now_or_never().is_none());
    }
    let jobs = std::mem::take(&mut *pool.0.lock().expect("no panic"));
    assert_eq!(jobs.len(), OPERATIONS_MAX, "dropping a future does not lift the bound");
    for job in jobs {
        (job.0)();
    }
    assert_eq!(names(&open_inline(&store)).len(), OPERATIONS_MAX, "a dropped put may land later, whole");
    assert!(store.put_if_absent(&key("k/new"), vec![]).now_or_never().is_none());
    assert_eq!(pool.0.lock().expect("no panic").len(), 1, "there is room again");
}

fn open_inline(store: &FileStore) -> FileStore {
    FileStore::open(store.root(), Arc::new(Inline)).expect("opens")
}

/// Needs a tiny file system at `STORE_TINY`, as `mount -t tmpfs -o size=1m tmpfs DIR` makes one.
#[test]
#[ignore = "needs a tiny file system"]
fn a_full_disk_has_no_effect_and_heals() {
    let root = std::env::var("STORE_TINY").expect("the folder of a tiny file system");
    let store = FileStore::open(&Path::new(&root).join("root"), Arc::new(Inline)).expect("opens");
    put(&store, "a/kept", b"x").expect("puts");
    let big = |text: &str, bytes| {
        let put = store.put_if_absent(&key(text), vec![Bytes::from(vec![7; bytes])]).now_or_never();
        put.expect("inline never waits")
    };
    let error = big("a/big", 2 << 20).expect_err("does not fit");
    assert_eq!((error.kind, error.effect), (ErrorKind::Full, Effect::None), "{error}");
    assert_eq!(names(&store), ["a/kept"]);
    assert!(temps(&store).is_empty());
    assert_eq!(big("a/big", 500_000).expect("fits"), Put::Created);
    store.delete(&key("a/big")).now_or_never().expect("inline never waits").expect("deletes");

    let past_cache = |bytes: usize| {
        let body = vec![conformance::at_page(&vec![7; bytes])];
        store.put_past_cache(&key("a/big"), body).now_or_never().expect("inline never waits")
    };
    let error = past_cache(2 << 20).expect_err("does not fit");
    assert_eq!((error.kind, error.effect), (ErrorKind::Full, Effect::None), "{error}");
    assert!(error.to_string().contains("`a/big`"), "{error}");
    assert!(temps(&store).is_empty());
    assert_eq!(past_cache(600_000).expect("fits"), Put::Created);
}

/// Prints what a put costs; run it with `--ignored --nocapture` on the disk that matters (`TMPDIR`).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
#[allow(clippy::disallowed_methods)] // It measures real time.
async fn measure_puts() {
    let folder = Folder::new();
    let store = FileStore::open(&folder.path().join("root"), Arc::new(TokioPool)).expect("opens");
    for (label, bytes, count) in [("1 KB", 1_000, 300), ("100 KB", 100_000, 100), ("10 MB", 10_000_000, 20)] {
        let pieces: Vec<Bytes> = vec![Bytes::from(vec![7; bytes.min(100_000)]); bytes.div_ceil(100_000)];
        let mut taken: Vec<Duration> = Vec::new();
        for n in 0..count {
            let started = std::time::Instant::now();
            store.put_if_absent(&key(&format!("m/{bytes}/{n}")), pieces.clone()).await.expect("puts");
            taken.push(started.elapsed());
        }
        taken.sort_unstable();
        println!("put {label}: median {:?}, p99 {:?}, of {count}", taken[count / 2], taken[count * 99 / 100]);
    }
    for n in 0..5_000 {
        fs::write(store.path(&key(&format!("m/1000/f{n}"))), [1; 1_000]).expect("writes");
    }
    let started = std::time::Instant::now();
    store.harden(&Prefix::root()).await.expect("hardens");
    println!("harden 5 folders of 5,420 objects: {:?}", started.elapsed());
    let puts = (0..200).map(|n| {
        let (store, key) = (store.clone(), key(&format!("p/{n}")));
        async move { store.put_if_absent(&key, vec![Bytes::from_static(&[7; 1_000])]).await.expect("puts") }
    });
    let started = std::time::Instant::now();
    futures::future::join_all(puts).await;
    println!("put 1 KB, 200 at once: {:?} each", started.elapsed() / 200);
    let started = std::time::Instant::now();
    let listed = store.list(&Prefix::root(), None, 1_000).await.expect("lists").len();
    println!("list {listed} of 5,420: {:?}", started.elapsed());
}

#[test]
fn a_root_that_is_a_link_is_refused_and_the_way_out_named() {
    let folder = Folder::new();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    fs::create_dir(&real).expect("made");
    symlink(&real, &link).expect("links");
    for root in [link.clone(), link.join(""), link.join(".")] {
        let error = FileStore::open(&root, Arc::new(Inline)).expect_err("a link");
        assert!(
            error.to_string().contains(&*real.canonicalize().expect("there").to_string_lossy()),
            "{error}"
        );
    }
    assert!(FileStore::open(&real, Arc::new(Inline)).is_ok());
    // Above the root links are the administrator's.
    assert!(FileStore::open(&link.join("below"), Arc::new(Inline)).is_ok());
}

#[test]
fn a_linked_folder_of_temporary_files_is_refused_and_nothing_behind_it_removed() {
    let folder = Folder::new();
    let (root, victim) = (folder.path().join("root"), folder.path().join("victim"));
    fs::create_dir(&root).expect("made");
    fs::create_dir(&victim).expect("made");
    fs::write(victim.join("precious"), b"x").expect("written");
    symlink(&victim, root.join(".tmp")).expect("links");
    let error = FileStore::open(&root, Arc::new(Inline)).expect_err("a link");
    assert!(error.to_string().contains("link"), "{error}");
    assert!(victim.join("precious").exists(), "the sweep did not follow it");
}

#[test]
fn a_linked_folder_leads_no_object_out_of_the_root() {
    let folder = Folder::new();
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).expect("made");
    fs::write(outside.join("object"), b"x").expect("written");
    let store = FileStore::open(&folder.path().join("root"), Arc::new(Inline)).expect("opens");
    put(&store, "lane/one", b"x").expect("puts");
    symlink(&outside, store.root().join("lane/linked")).expect("links");
    symlink(&outside, store.root().join("other")).expect("links");
    for key in ["lane/linked/object", "lane/linked/new", "other/object"] {
        get(&store, key).expect_err("behind a link");
        put(&store, key, b"y").expect_err("behind a link");
        store.delete(&self::key(key)).now_or_never().expect("inline never waits").expect_err("behind a link");
    }
    assert_eq!(fs::read(outside.join("object")).expect("still there"), b"x");
    assert!(!outside.join("new").exists());
}

#[test]
fn a_root_that_is_open_to_everybody_is_refused() {
    let folder = Folder::new();
    let root = folder.path().join("root");
    fs::create_dir(&root).expect("made");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).expect("opened");
    let error = FileStore::open(&root, Arc::new(Inline)).expect_err("open to everybody").to_string();
    assert!(error.contains("chmod o-w"), "{error}");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o775)).expect("closed");
    FileStore::open(&root, Arc::new(Inline)).expect("the way out works");
}

/// Only root can give a folder away; for others the test says that it was not run.
#[test]
fn a_root_of_another_user_is_refused_until_it_is_given_back() {
    let folder = Folder::new();
    let root = folder.path().join("root");
    FileStore::open(&root, Arc::new(Inline)).expect("it is ours");
    for given in [root.clone(), root.join(temp::FOLDER)] {
        if std::os::unix::fs::chown(&given, Some(1), Some(1)).is_err() {
            eprintln!("SKIPPED: only root can give a folder to another user");
            return;
        }
        let error = FileStore::open(&root, Arc::new(Inline)).expect_err("another user's").to_string();
        let shown = format!("`{}` belongs to another user (uid 1); `chown` it to the one", given.display());
        assert!(error.contains(&shown) && error.contains("(uid 0)"), "{error}");
        std::os::unix::fs::chown(&given, Some(0), Some(0)).expect("given back");
        FileStore::open(&root, Arc::new(Inline)).expect("the way out works");
    }
}
