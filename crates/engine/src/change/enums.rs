//! The Enums that a state keeps values of, between a step and the journal.
//!
//! Owns how a step's Enums are recorded, and the words for two lists that differ. Does not own the rule by which they do
//! ([`StepShape::continues`]).

use std::sync::Arc;

use dataflow::State;
use protocol::record::{EnumName, KeptEnum, StepShape};

/// Names that a message lists at the most.
const NAMES_MAX: usize = 4;

/// A step of this name and state as the journal records it.
pub(super) fn recorded(name: String, state: &dyn State) -> StepShape {
    let one = |found: dataflow::KeptEnum| {
        let name =
            |(name, number): &(Arc<str>, i16)| EnumName { name: name.to_string(), number: (*number).into() };
        KeptEnum { of: found.of, names: found.names.iter().map(name).collect() }
    };
    let enums = state.enums().into_iter().map(one).collect();
    StepShape { name, shape: state.shape(), absorbs: state.absorbs(), enums }
}

/// What the state of a step was made with, and what the step has now: their settings, or the first Enum that differs if it is only Enums that do.
pub(super) fn differing(before: &StepShape, now: &StepShape) -> (String, String) {
    if before.shape != now.shape {
        return (before.shape.clone(), now.shape.clone());
    }
    let of = |enums: &[KeptEnum], at: usize| enums.get(at).cloned().unwrap_or_default();
    let all = before.enums.len().max(now.enums.len());
    let pairs = (0..all).map(|at| (of(&before.enums, at), of(&now.enums, at)));
    let mut differing = pairs.filter(|(before, now)| before.of != now.of || !now.extends(before));
    let Some((was, is)) = differing.next() else { return (before.shape.clone(), now.shape.clone()) };
    if was.of != is.of || was.names.is_empty() {
        let unknown = "Enums whose names the program of then did not record, so they cannot be compared";
        let was = if before.enums.is_empty() { unknown.to_owned() } else { words(&before.enums) };
        return (was, words(&now.enums));
    }
    let lost = was.names.iter().find(|one| is.number_of(&one.name) != Some(one.number));
    let EnumName { name, number } = lost.expect("an Enum that is not extended has lost a name or its number");
    let now = match is.number_of(name) {
        Some(number) => format!("`{name}` = {number}"),
        None => format!("no `{name}`"),
    };
    (format!("`{name}` = {number} in the Enum of `{}`", was.of), now)
}

/// The Enums, or that there is none.
fn words(enums: &[KeptEnum]) -> String {
    let one = |found: &KeptEnum| {
        let name = |one: &EnumName| format!("`{}` = {}", one.name, one.number);
        let names: Vec<String> = found.names.iter().take(NAMES_MAX).map(name).collect();
        let more = match found.names.len().saturating_sub(NAMES_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{}{more} in the Enum of `{}`", names.join(", "), found.of)
    };
    match enums {
        [] => "no Enum".to_owned(),
        all => all.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}
