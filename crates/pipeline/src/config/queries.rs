//! `sql` steps that are windows, as the `window` steps that they stand for.
//!
//! Owns the way from the table functions to the settings of a window. Does not own their grammar ([`sql::windowed`]) nor what an aggregate means.

use super::faults::Faults;
use super::model::Pipeline;
use super::rules;
use super::spans::Node;

/// Replaces every `sql` step that reads `FROM TUMBLE(…)`, `HOP`, `CUMULATE` or `SESSION`. One that cannot be a window stays, with a fault.
#[cfg(feature = "sql")]
pub(super) fn windows(pipeline: &mut Pipeline, tree: &Node, faults: &mut Faults) {
    for (index, step) in pipeline.steps.iter_mut().enumerate() {
        let Some(text) = &step.sql else { continue };
        let path = format!("steps[{index}].sql");
        let found = sql::windowed(text).map_err(|fault| fault.message);
        match found.and_then(|found| found.map(window).transpose()) {
            Ok(None) => {}
            Ok(Some(window)) => (step.sql, step.window) = (None, Some(window)),
            Err(message) => faults.fault(rules::place(tree, &path), path, message),
        }
    }
}

/// Without SQL there are none: the planner says so of the step.
#[cfg(not(feature = "sql"))]
pub(super) fn windows(_: &mut Pipeline, _: &Node, _: &mut Faults) {}

#[cfg(feature = "sql")]
fn window(found: sql::Windowed) -> Result<super::model::step::WindowStep, String> {
    use super::model::step::WindowStep;
    use super::values::{Identifier, Pairs, Period};

    let sql::Windowed { kind, time, lateness, max, key, aggregates } = found;
    let name =
        |name: String| name.parse::<Identifier>().map_err(|error| format!("the name `{name}` {error}"));
    let aggregates = aggregates.into_iter().map(|(one, text)| Ok((name(one)?, text)));
    let aggregates = Pairs(aggregates.collect::<Result<_, String>>()?);
    let key = key.into_iter().map(name).collect::<Result<_, _>>()?;
    let mut window = WindowStep { key, time: Some(name(time)?), aggregates, ..WindowStep::default() };
    window.lateness = lateness.map_or(window.lateness, |ms| Period { ms });
    window.max = max.map(|ms| Period { ms });
    let length = |ms: u64| match ms {
        1_000.. => Ok(Some(Period { ms })),
        _ => Err(format!("`{ms}` ms is too short for a window; write a second or more")),
    };
    Ok(match kind {
        sql::WindowKind::Tumble { size } => WindowStep { size: length(size)?, ..window },
        sql::WindowKind::Hop { slide, size } => {
            WindowStep { size: length(size)?, slide: length(slide)?, ..window }
        }
        sql::WindowKind::Cumulate { step, size } => {
            WindowStep { size: length(size)?, step: length(step)?, ..window }
        }
        sql::WindowKind::Session { gap } => WindowStep { gap: length(gap)?, ..window },
    })
}

#[cfg(all(test, feature = "sql"))]
mod tests;
