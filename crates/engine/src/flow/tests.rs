use super::{Flow, Port};

fn port(step: usize, input: usize) -> Port {
    Port { step, input }
}

/// `0 dedup`, `1 join` of what it lets out with the second input, `2 window`.
fn joined() -> Flow {
    Flow { entries: vec![port(0, 0), port(1, 1)], next: vec![port(1, 0)] }
}

fn steps_of(flow: &Flow, input: usize) -> Vec<(usize, usize)> {
    flow.path(input, 3).map(|port| (port.step, port.input)).collect()
}

#[test]
fn without_edges_every_input_goes_through_all_steps() {
    let line = Flow::default();
    assert_eq!(steps_of(&line, 0), [(0, 0), (1, 0), (2, 0)]);
    assert_eq!(steps_of(&line, 7), [(0, 0), (1, 0), (2, 0)]);
    assert!(line.fits(&[1, 1, 1]) && line.fits(&[]));
}

#[test]
fn a_join_is_entered_by_both_sides() {
    assert_eq!(steps_of(&joined(), 0), [(0, 0), (1, 0), (2, 0)]);
    assert_eq!(steps_of(&joined(), 1), [(1, 1), (2, 0)]);
    assert!(joined().fits(&[1, 2, 1]));
}

#[test]
fn edges_that_lead_back_or_nowhere_do_not_fit() {
    assert!(!joined().fits(&[1, 1, 1]), "the second step has one input");
    assert!(!Flow { entries: vec![], next: vec![port(0, 0)] }.fits(&[1]), "back to itself");
    assert!(!Flow { entries: vec![port(2, 0)], next: vec![] }.fits(&[1]), "beyond the way out");
    assert!(!Flow { entries: vec![], next: vec![port(1, 0); 2] }.fits(&[1]), "more edges than steps");
}

#[test]
fn a_step_has_the_least_watermark_of_what_comes_to_it() {
    let hold = |step: usize, own: i64| own - [5, 10, 0][step];
    assert_eq!(joined().watermarks(100, 3, hold), [100, 95, 85]);
    assert_eq!(Flow::default().watermarks(100, 3, hold), [100, 95, 85]);
    let beside = Flow { entries: vec![port(0, 0), port(1, 0)], next: vec![port(2, 0), port(2, 1)] };
    assert_eq!(beside.watermarks(100, 3, hold), [100, 100, 90], "the two steps stand side by side");
}
