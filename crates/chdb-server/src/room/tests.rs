use super::*;

#[tokio::test]
async fn a_body_above_the_bound_is_refused_before_it_is_read() {
    let budget = Budget::new(1 << 20, 1 << 10);
    assert_eq!(budget.wait_for(1025).await.err().unwrap().status.as_u16(), 413);
    assert!(budget.wait_for(1024).await.is_ok());
}

#[tokio::test]
async fn a_body_of_unknown_length_stops_at_the_bound() {
    let budget = Budget::new(1 << 20, 1000);
    let mut share = budget.share();
    assert!(share.take(1000).is_ok());
    assert_eq!(share.take(1).unwrap_err().status.as_u16(), 413);
}

#[tokio::test]
async fn all_bodies_together_stay_within_the_total() {
    let budget = Budget::new(1 << 20, 1 << 20);
    let first = budget.wait_for(900 << 10).await.unwrap();
    let mut second = budget.share();
    assert_eq!(second.take(200 << 10).unwrap_err().status.as_u16(), 503);
    drop(first);
    assert!(budget.share().take(200 << 10).is_ok());
}

#[tokio::test]
async fn a_known_length_waits_for_room() {
    let budget = Budget::new(1 << 20, 1 << 20);
    let first = budget.wait_for(1 << 20).await.unwrap();
    let mut second = Box::pin(budget.wait_for(1 << 10));
    assert!(futures::poll!(&mut second).is_pending());
    drop(first);
    assert!(second.await.is_ok());
}
