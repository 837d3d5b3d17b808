use super::*;

#[test]
fn a_program_name_with_spaces_and_parentheses_does_not_shift_the_ticks() {
    let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 100 0 0 0 17 5 0 0 20 0 1 0 100 1000 10";
    assert_eq!(ticks(stat), Some((17, 5)));
    assert_eq!(ticks("42 (short) S 1"), None);
}

#[test]
fn a_status_without_memory_has_no_peak() {
    assert_eq!(kilobytes("Name:\tx\nVmHWM:\t    2048 kB\n", "VmHWM:"), Some(2 << 20));
    assert_eq!(kilobytes("Name:\tx\nState:\tZ (zombie)\n", "VmHWM:"), None);
}

/// Looks at a child until its memory was seen: one that ends before is known by less, however busy this machine is.
async fn until_seen(child: &mut Child) {
    while child.rss_bytes_max < 100_000 {
        assert!(child.poll().unwrap().is_none(), "it waits for the test");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[tokio::test]
async fn a_child_that_worked_has_used_cpu_and_memory() {
    let dir = std::env::temp_dir().join(format!("forebay-bench-child-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let go_on = dir.join("go-on");
    let mut command = Command::new("sh");
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; while [ ! -e \"$0\" ]; do sleep 0.01; done; exit 7";
    command.args(["-c", script]).arg(&go_on);
    let mut child = Child::start("worker", command, &dir).unwrap();
    until_seen(&mut child).await;
    std::fs::write(&go_on, "").unwrap();
    let end = child.wait(Duration::from_secs(600)).await.unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(end.status.code(), Some(7));
    assert!(end.usage.cpu_s() > 0.01, "{end:?}");
    assert!(end.usage.rss_bytes_max > 100_000, "{end:?}");
    assert!(end.usage.rss_bytes_max < 64 << 20, "a shell that counts: {end:?}");
    assert!(end.wall.as_secs_f64() > 0.01, "{end:?}");
}

#[tokio::test]
async fn the_memory_of_the_process_that_starts_a_child_is_not_the_childs() {
    const HELD: usize = 256 << 20;
    let held = vec![1_u8; HELD];
    let dir = std::env::temp_dir().join(format!("forebay-bench-inherits-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut command = Command::new("sleep");
    command.arg("3600");
    let mut child = Child::start("sleeper", command, &dir).unwrap();
    until_seen(&mut child).await;
    child.terminate();
    let end = child.wait(Duration::from_secs(600)).await.unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(std::hint::black_box(&held).iter().step_by(4_096).all(|byte| *byte == 1));
    assert!((100_000..HELD as u64 / 4).contains(&end.usage.rss_bytes_max), "{end:?}");
}

#[tokio::test]
async fn a_suspended_child_ends_when_it_is_asked_to() {
    let dir = std::env::temp_dir().join(format!("forebay-bench-suspended-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut command = Command::new("sleep");
    command.arg("3600");
    let mut child = Child::start("sleeper", command, &dir).unwrap();
    child.suspend();
    child.terminate();
    let end = child.wait(Duration::from_secs(600)).await.unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(end.status.signal(), Some(libc::SIGTERM));
}
