//! `steps:` to operators.

use dataflow::{Operator, Schema};
use operators::{Dedup, DedupConfig, EventTime};

use super::WiringError;
use crate::config::model::step::{self as model, Keep, Step};
use crate::config::values::Window;

/// The operators of the steps, in their order, for rows of `schema`.
///
/// # Errors
/// When a step names a column that is not there or does not serve.
pub fn steps(steps: &[Step], schema: &Schema) -> Result<Vec<Box<dyn Operator>>, WiringError> {
    let mut operators: Vec<Box<dyn Operator>> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let Some(dedup) = &step.dedup else {
            return Err(WiringError::Settings(format!("`steps[{index}]` names no step")));
        };
        let fault =
            |error: operators::ConfigError| WiringError::Settings(format!("`steps[{index}].dedup`: {error}"));
        if let Some(column) = &dedup.time {
            operators.push(Box::new(EventTime::new(schema, column.as_str()).map_err(fault)?));
        }
        let step = Dedup::new(schema, dedup_config(dedup)).map_err(fault)?;
        operators.push(Box::new(step.with_memory(dedup.memory.bytes)));
    }
    Ok(operators)
}

fn dedup_config(dedup: &model::Dedup) -> DedupConfig {
    // The only word there is; a further one must not be taken for it.
    let Keep::First = dedup.keep;
    DedupConfig {
        key: dedup.key.iter().map(ToString::to_string).collect(),
        window: match dedup.window {
            Window::Unbounded => None,
            Window::Within(period) => Some(period.duration()),
        },
        late: match dedup.late {
            model::Late::Keep => operators::Late::Keep,
            model::Late::DeadLetter => operators::Late::DeadLetter,
            model::Late::Drop => operators::Late::Drop,
        },
    }
}
