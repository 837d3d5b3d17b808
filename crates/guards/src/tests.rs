use super::*;

#[test]
fn every_step_does_all_of_its_work() {
    for step in STEPS {
        assert_eq!(measured(step.prepare()), step.units, "{}", step.name);
    }
}

#[test]
fn names_are_unique_and_found() {
    for step in STEPS {
        assert!(std::ptr::eq(Step::named(step.name).expect("by its name"), step), "{}", step.name);
    }
    assert!(Step::named("nothing").is_none());
}
