//! What the settings of `window:` mean.
//!
//! Owns the kind of windows that lengths make, the meaning of `aggregates:` ([`aggregates`]), and the faults of both; and which columns of a table tell
//! the results apart ([`identity`]). Does not own the rules that compare a window with other steps (`rules`), nor its place in the plan (`plan::windows`).

mod aggregates;
pub mod identity;

use std::time::Duration;

use operators::WindowConfig;
use operators::window::{Aggregate, Clock, Emit, Windows};

use super::model::step::{self as model, WindowStep};
use super::values::{Identifier, Period};
use aggregates::Read;

/// A setting of a window that cannot be.
#[derive(Debug)]
pub(crate) struct Unfit {
    /// The key in the pipeline file.
    pub(crate) path: String,
    /// The sentence, with the way out.
    pub(crate) message: String,
    /// Whether it is about the lengths that say which windows there are.
    pub(crate) is_of_lengths: bool,
}

fn unfit(path: impl Into<String>, message: impl Into<String>) -> Unfit {
    Unfit { path: path.into(), message: message.into(), is_of_lengths: false }
}

/// What a window of a file without faults computes.
pub fn functions(window: &WindowStep) -> Vec<Aggregate> {
    config(window, "").map(|config| config.aggregates).unwrap_or_default()
}

/// Whether a function of this name is an aggregate of windows.
#[cfg(feature = "sql")]
pub(super) fn is_aggregate(name: &str) -> bool {
    aggregates::is_name(name)
}

/// The settings of a window.
///
/// # Errors
/// The aggregates that are none, each with its place.
pub(crate) fn config(window: &WindowStep, path: &str) -> Result<WindowConfig, Vec<Unfit>> {
    read(window, path).map(|(config, _)| config)
}

/// The settings, and the columns that must be computed before the window.
///
/// # Errors
/// As [`config`].
pub(crate) fn read(window: &WindowStep, path: &str) -> Result<(WindowConfig, Vec<Computed>), Vec<Unfit>> {
    let (mut aggregates, mut all, mut faults) = (Vec::new(), Vec::<Computed>::new(), Vec::<Unfit>::new());
    for (name, text) in &window.aggregates.0 {
        let path = format!("{path}.aggregates.{name}");
        let Read { aggregate, computed } = match aggregates::read(name.as_str(), text) {
            Ok(read) => read,
            Err(message) => {
                faults.push(unfit(path, message));
                continue;
            }
        };
        aggregates.push(aggregate);
        for text in computed {
            match text.parse() {
                Ok(name) if !all.iter().any(|one| one.name == name) => {
                    all.push(Computed { path: path.clone(), name });
                }
                Ok(_) => {}
                Err(error) => faults.push(unfit(
                    &path,
                    format!("the expression cannot name a column, for it {error}; compute it in a `select` before the window"),
                )),
            }
        }
    }
    let windows = match windows(window, path) {
        Ok(windows) if faults.is_empty() => windows,
        windows => {
            let of_lengths = windows.err().map(|fault| Unfit { is_of_lengths: true, ..fault });
            return Err(of_lengths.into_iter().chain(faults).collect());
        }
    };
    let emit = window.emit.as_ref().map(|emit| Emit {
        early: emit.early.map(Period::duration),
        clock: match emit.clock {
            model::Clock::EventTime => Clock::EventTime,
            model::Clock::ProcessingTime => Clock::ProcessingTime,
        },
        updates: emit.updates,
        version: emit.version.as_ref().map(ToString::to_string),
        sign: emit.sign.as_ref().map(ToString::to_string),
    });
    let wrong = emit.as_ref().and_then(|emit| emit.check(windows).err());
    if let Some(message) = wrong {
        return Err(vec![unfit(format!("{path}.emit"), message)]);
    }
    let config = WindowConfig {
        key: window.key.iter().map(ToString::to_string).collect(),
        windows,
        lateness: window.lateness.duration(),
        aggregates,
        emit,
    };
    Ok((config, all))
}

/// The kind of windows that the settings say.
fn windows(window: &WindowStep, path: &str) -> Result<Windows, Unfit> {
    const SESSION_MAX: Duration = Duration::from_secs(24 * 3600);
    let wrong = |setting: &str, message: &str| Err(unfit(format!("{path}.{setting}"), message));
    let WindowStep { size, slide, step, gap, max, .. } = window;
    let windows = match (size, slide, step, gap) {
        (Some(size), None, None, None) => Windows::Tumbling { size: size.duration() },
        (Some(size), Some(slide), None, None) => {
            Windows::Hopping { size: size.duration(), slide: slide.duration() }
        }
        (Some(size), None, Some(step), None) => {
            Windows::Cumulative { size: size.duration(), step: step.duration() }
        }
        (None, None, None, Some(gap)) => {
            let max = max.map_or_else(|| SESSION_MAX.max(gap.duration()), |max| max.duration());
            Windows::Session { gap: gap.duration(), max }
        }
        (None, None, None, None) => {
            return Err(unfit(path, "write `size: 1m` for windows of a minute, or `gap: 30m` for sessions"));
        }
        (Some(_), Some(_), Some(_), _) => {
            return wrong("step", "windows have a `slide` or a `step`, not both; remove one");
        }
        (Some(_), _, _, Some(_)) => {
            return wrong(
                "gap",
                "a session is as long as its records say, so it has a `gap` and no `size`; remove one",
            );
        }
        (None, Some(_), _, _) => return wrong("slide", "it needs a `size`, as in `size: 1h, slide: 5m`"),
        (None, None, Some(_), _) => return wrong("step", "it needs a `size`, as in `size: 1d, step: 1h`"),
    };
    match (windows, max) {
        (Windows::Session { .. }, _) | (_, None) => {}
        (_, Some(_)) => {
            return wrong("max", "only sessions have a `max`, as in `gap: 30m, max: 1d`; remove it");
        }
    }
    windows.check().map_err(|(setting, message)| unfit(format!("{path}.{setting}"), message))?;
    Ok(windows)
}

/// An expression within an aggregate: a column before the window, whose name is its text.
pub(crate) struct Computed {
    /// The aggregate's key in the pipeline file.
    pub(crate) path: String,
    /// The text.
    pub(crate) name: Identifier,
}
