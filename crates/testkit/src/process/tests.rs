use super::*;
use crate::{TestDir, wait_until};

/// Longer than any pause of a busy machine: no test here is decided by it.
const SOON: Duration = Duration::from_secs(600);

fn shell(script: &str) -> Spawn {
    Spawn::new("shell", "/bin/sh").arg("-c").arg(script)
}

fn exists(pid: i32) -> bool {
    // A zombie that another parent has yet to reap is dead for our purpose.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn output_exit_code_and_environment_come_through() {
    let dir = TestDir::new("output").unwrap();
    let output =
        shell("echo out $WORD; echo err >&2; exit 3").env("WORD", "x y").run(dir.path(), SOON).unwrap();
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out x y\n", "err\n"));
    assert_eq!(output.exit.status.code(), Some(3));
    let error = output.success().unwrap_err().to_string();
    assert!(error.contains("exit status: 3") && error.contains("stderr: err"), "{error}");
}

#[test]
fn a_second_child_of_the_same_name_does_not_read_the_first_ones_output() {
    let dir = TestDir::new("append").unwrap();
    shell("echo ready one").run(dir.path(), SOON).unwrap();
    let mut second = shell("echo ready two; sleep 60").start(dir.path()).unwrap();
    assert_eq!(second.wait_for_stdout("ready", SOON).unwrap(), "ready two");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let dir = TestDir::new("absent").unwrap();
    let error = Spawn::new("ghost", "/nonexistent/ghost").start(dir.path()).unwrap_err();
    assert!(format!("{error:#}").contains("cannot start ghost (`/nonexistent/ghost`)"), "{error:#}");
}

#[test]
fn a_child_that_ends_early_shows_its_log() {
    let dir = TestDir::new("early").unwrap();
    let mut child = shell("echo no port left >&2; exit 1").start(dir.path()).unwrap();
    let error = child.wait_for_stdout("ready", SOON).unwrap_err().to_string();
    assert!(error.contains("exit status: 1") && error.contains("no port left"), "{error}");
}

#[test]
fn a_child_that_runs_on_is_killed_at_the_timeout() {
    let dir = TestDir::new("timeout").unwrap();
    let start = Instant::now();
    let error = shell("sleep 60").run(dir.path(), Duration::from_millis(100)).unwrap_err().to_string();
    assert!(error.contains("did not end within"), "{error}");
    assert!(start.elapsed() < SOON);
}

#[test]
fn signals_are_told_apart_in_the_exit() {
    let dir = TestDir::new("signals").unwrap();
    let mut child = shell("exec sleep 60").start(dir.path()).unwrap();
    assert_eq!(child.term_and_wait(SOON).unwrap().status.signal(), Some(libc::SIGTERM));
    let mut child = shell("exec sleep 60").start(dir.path()).unwrap();
    assert_eq!(child.kill9().unwrap().status.signal(), Some(libc::SIGKILL));
    assert_eq!(child.kill9().unwrap().status.signal(), Some(libc::SIGKILL), "again, without harm");
    assert!(!child.is_running().unwrap());
}

#[test]
fn a_stopped_child_does_nothing_until_it_is_continued() {
    let dir = TestDir::new("stopped").unwrap();
    // No commands of its own: a shell that is stopped while it starts one waits in another state.
    let script = "i=0; while :; do i=$((i+1)); if [ $((i % 1000)) = 0 ]; then echo tick; fi; done";
    let mut child = shell(script).start(dir.path()).unwrap();
    child.wait_for_stdout("tick", SOON).unwrap();
    child.stop_signal().unwrap();
    let state = |pid| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ");
    wait_until(SOON, "the child to be stopped", || state(child.pid()));
    let ticks = child.stdout().unwrap().len();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(child.stdout().unwrap().len(), ticks);
    child.continue_signal().unwrap();
    wait_until(SOON, "more ticks", || child.stdout().unwrap().len() > ticks);
}

#[test]
fn usage_counts_cpu_and_memory() {
    let dir = TestDir::new("usage").unwrap();
    let mut child = shell("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; sleep 60")
        .start(dir.path())
        .unwrap();
    child.wait_for_stdout("done", SOON).unwrap();
    let running = child.usage().unwrap();
    let ended = child.kill9().unwrap().usage;
    assert!(running.cpu_s() > 0.02, "{running:?}");
    // The kernel rounds the running count to its ticks.
    assert!(ended.cpu_s() >= running.cpu_s() - 0.03, "{running:?} then {ended:?}");
    assert!(ended.rss_bytes_max > 256 << 10, "{ended:?}");
    assert_eq!(child.usage().unwrap(), ended);
}

#[test]
fn a_dropped_child_takes_its_group_with_it() {
    let dir = TestDir::new("group").unwrap();
    let mut child = shell("sleep 60 & echo pid $!; wait").start(dir.path()).unwrap();
    let line = child.wait_for_stdout("pid ", SOON).unwrap();
    let grandchild: i32 = line["pid ".len()..].parse().unwrap();
    let pid = child.pid();
    assert!(exists(pid) && exists(grandchild));
    drop(child);
    assert!(!exists(pid));
    wait_until(SOON, "the grandchild to die", || !exists(grandchild));
}

#[test]
fn a_child_outlives_the_thread_that_asked_for_it() {
    let dir = TestDir::new("thread").unwrap();
    let path = dir.path().to_path_buf();
    let mut child = std::thread::spawn(move || shell("exec sleep 60").start(&path).unwrap()).join().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!(child.is_running().unwrap());
}

/// The helper of the next test: run by it in a process of its own, which then dies without any clean-up.
#[test]
fn helper_that_starts_a_child_and_aborts() {
    if let Some(dir) = std::env::var_os("TESTKIT_ORPHAN_DIR") {
        let dir = PathBuf::from(dir);
        let child = shell("exec sleep 60").start(&dir).unwrap();
        fs::write(dir.join("pid"), child.pid().to_string()).unwrap();
        std::process::abort();
    }
}

#[test]
fn a_child_dies_with_a_test_process_that_is_killed() {
    let dir = TestDir::new("orphan").unwrap();
    let output = Spawn::new("victim", std::env::current_exe().unwrap())
        .args(["--exact", "process::tests::helper_that_starts_a_child_and_aborts"])
        .env("TESTKIT_ORPHAN_DIR", dir.path())
        .run(dir.path(), SOON)
        .unwrap();
    assert_eq!(output.exit.status.signal(), Some(libc::SIGABRT), "{}", output.stderr);
    let orphan: i32 = fs::read_to_string(dir.path().join("pid")).unwrap().parse().unwrap();
    wait_until(SOON, "the orphan to die", || !exists(orphan));
}
