use std::collections::BTreeSet;

use super::definitions;

#[test]
fn every_function_has_a_name_of_its_own_and_a_call_that_shows_it() {
    let mut names = BTreeSet::new();
    for definition in definitions() {
        assert!(names.insert(definition.name), "`{}` is defined twice", definition.name);
        assert!(definition.call.starts_with(&format!("{}(", definition.name)), "{}", definition.call);
        assert!(definition.about.ends_with('.'), "{}", definition.about);
        assert!(definition.arguments.0 <= definition.arguments.1);
    }
}
