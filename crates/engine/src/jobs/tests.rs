use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};

use super::*;
use crate::TokioRuntime;

fn runtime(threads: usize) -> Arc<dyn Runtime> {
    TokioRuntime::new(threads)
}

async fn numbers(runtime: &Arc<dyn Runtime>, jobs: Vec<Job>) -> Option<Vec<usize>> {
    let done = run(runtime, &Arc::default(), jobs).await?;
    Some(done.into_iter().map(|done| *done.downcast::<usize>().expect("a number")).collect())
}

#[tokio::test]
async fn each_job_is_done_once_and_what_comes_back_is_in_order() {
    for count in [1, 2, 16] {
        let begun = Arc::new(AtomicUsize::new(0));
        let job = |number: usize| -> Job {
            let begun = begun.clone();
            Box::new(move || {
                begun.fetch_add(1, Ordering::Relaxed);
                Box::new(number)
            })
        };
        let done = numbers(&runtime(3), (0..count).map(job).collect()).await;
        assert_eq!(done, Some((0..count).collect()));
        assert_eq!(begun.load(Ordering::Relaxed), count);
    }
}

#[tokio::test]
async fn the_lane_waits_for_no_thread_that_is_busy() {
    let runtime = runtime(1);
    let (release, held) = mpsc::channel::<()>();
    let busy = runtime.run(move || held.recv().is_ok());
    let job = |number: usize| -> Job { Box::new(move || Box::new(number)) };
    assert_eq!(numbers(&runtime, (0..4).map(job).collect()).await, Some(vec![0, 1, 2, 3]));
    release.send(()).expect("the thread is held until now");
    assert_eq!(busy.await, Some(true));
}

#[tokio::test]
async fn jobs_run_at_the_same_time() {
    // The last two wait for each other: one thread after the other would never end.
    let barrier = Arc::new(Barrier::new(2));
    let job = |number: usize| -> Job {
        let barrier = barrier.clone();
        Box::new(move || {
            if number > 0 {
                barrier.wait();
            }
            Box::new(number)
        })
    };
    assert_eq!(numbers(&runtime(1), (0..3).map(job).collect()).await, Some(vec![0, 1, 2]));
}

#[tokio::test]
async fn a_job_that_panics_is_missed_wherever_it_ran() {
    for panics in 0..4 {
        let job = |number: usize| -> Job {
            Box::new(move || {
                assert_ne!(number, panics, "as it should");
                Box::new(number)
            })
        };
        assert_eq!(numbers(&runtime(2), (0..4).map(job).collect()).await, None);
    }
}

/// `cargo test -p engine --lib -- --ignored --nocapture what_a_job_costs`
#[tokio::test]
#[ignore = "a measurement"]
async fn what_a_job_costs_the_lane() {
    const BATCHES: u32 = 20_000;
    for threads in [1, 2] {
        let runtime = runtime(threads);
        for count in [1, 2, 8] {
            let before = runtime.thread_cpu();
            for _ in 0..BATCHES {
                let job = |number: usize| -> Job { Box::new(move || Box::new(number)) };
                assert!(run(&runtime, &Arc::default(), (0..count).map(job).collect()).await.is_some());
            }
            let spent = (runtime.thread_cpu() - before).as_secs_f64() * 1e6 / f64::from(BATCHES);
            println!("{count} jobs, {threads} threads: {spent:.2} us of the lane a batch");
        }
    }
}
