use std::net::TcpListener;
use std::time::Duration;

use super::*;

#[test]
fn a_condition_that_comes_true_ends_the_wait() {
    let mut looks = 0;
    wait_until(Duration::from_secs(600), "the third look", || {
        looks += 1;
        looks == 3
    });
    assert_eq!(looks, 3);
}

#[test]
#[should_panic(expected = "in vain for the moon")]
fn a_condition_that_stays_false_names_what_was_awaited() {
    wait_until(Duration::from_millis(30), "the moon", || false);
}

#[test]
fn a_condition_is_looked_at_once_more_after_the_deadline() {
    let mut looks = 0;
    wait_until(Duration::ZERO, "the second look", || {
        looks += 1;
        looks == 2
    });
}

#[test]
fn ports_are_given_once_and_can_be_bound() {
    let ports: Vec<u16> = (0..20).map(|_| free_port()).collect();
    let distinct: std::collections::BTreeSet<_> = ports.iter().collect();
    assert_eq!(distinct.len(), ports.len());
    for port in ports {
        assert!(PORTS.contains(&port));
        TcpListener::bind(("127.0.0.1", port)).expect("a free port can be bound");
    }
}
