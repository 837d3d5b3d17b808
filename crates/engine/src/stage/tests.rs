use super::*;
use crate::TokioRuntime;

#[tokio::test]
async fn work_is_accounted_to_its_stage_and_waiting_to_none() {
    let (runtime, status) = (TokioRuntime::new(1), Status::default());
    let sum = accounted(Stage::Decode, &*runtime, &status, || {
        let until = runtime.thread_cpu() + Duration::from_millis(5);
        let mut turns = 0_u64;
        while runtime.thread_cpu() < until {
            turns += 1;
        }
        turns
    });
    assert!(sum > 0);
    runtime.sleep(Duration::from_millis(5)).await;
    let now = status.snapshot();
    assert!(now.cpu["decode"] >= Duration::from_millis(5), "{:?}", now.cpu);
    assert_eq!(now.cpu.keys().copied().collect::<Vec<_>>(), ["decode"]);
}
