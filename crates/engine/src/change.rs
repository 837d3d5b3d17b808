//! What may change under a pipeline's name: what the journal holds state of, beside what the pipeline file says.
//!
//! Owns the rule, as pure functions. Does not own what a change does to a lane (`protocol::lane`), what is refused for a table, an input or a
//! stream ([`crate::start`]), nor the comparison that is shown to users (`admin::plan`).
//!
//! | what the file says now, beside the journal                    | what follows                                                   |
//! |----------------------------------------------------------------|----------------------------------------------------------------|
//! | other steps without state, conditions, columns, formats        | changes freely; recorded, for the next comparison              |
//! | the same, while inserts must be made again from the source     | refused: they are made by what made them ([`crate::remake`])   |
//! | another table, or one less                                     | changes freely: see [`crate::tables`]                          |
//! | a step with state that is the same, also in another place behind or before steps without state | its state goes on |
//! | a step with state, and an Enum whose values it keeps has more names | its state goes on; recorded                                  |
//! | the same, and a name of such an Enum is gone or has another number | needs a decision, as the next                                 |
//! | a step with state that is new, gone, in another order, or has another key or window | needs a decision: refused, with the ways out |
//! | the same, and the step was named by `--new-state`              | it begins empty; one record says so                            |
//! | the same, while frames are pending                             | refused: they must be delivered by the steps that made them    |
//! | an unchanged step that was named by `--new-state`              | refused, unless asked for plainly                              |

mod enums;

use dataflow::Operator;
use protocol::Lane;
use protocol::record::{Change, KeptState, Part, StepShape};

use crate::EngineError;

/// What becomes of an unchanged step whose state is to be given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unchanged {
    /// The start is refused: whoever says so may not know that the step is as it was.
    #[default]
    Refuse,
    /// Its state is given up all the same.
    Empty,
    /// Its state goes on: the process has done before what it was told.
    Keep,
}

/// Steps that are to begin with empty state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewState {
    /// Their names, as [`labels`] has them.
    pub steps: Vec<String>,
    /// What is done about one that has not changed.
    pub unchanged: Unchanged,
}

/// What a pipeline is made of, as its file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Composition {
    /// The steps that keep state, in order.
    pub steps: Vec<StepShape>,
    /// What each of them has lost once its state is given up, in the same order.
    pub losses: Vec<String>,
    /// All else that may change at any time.
    pub parts: Vec<Part>,
}

impl Composition {
    /// Of these operators, and what else the file says.
    pub fn of(operators: &mut [Box<dyn Operator>], parts: Vec<Part>) -> Self {
        let mut made = Self { parts, ..Self::default() };
        for operator in operators {
            let name = operator.name().to_owned();
            if let Some(state) = operator.state() {
                made.steps.push(enums::recorded(name, state));
                made.losses.push(state.loss().to_owned());
            }
        }
        made
    }
}

/// What becomes of a step with state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its state goes on.
    Kept,
    /// It has other settings.
    Changed {
        /// Those that the state was made with.
        was: String,
        /// Those of now.
        now: String,
    },
    /// There was no such step, or it stood in another place.
    Added {
        /// Its settings.
        now: String,
    },
    /// There is no such step any more.
    Removed {
        /// The settings that its state was made with.
        was: String,
    },
}

/// A step with state, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFate {
    /// The step, as users name it.
    pub label: String,
    /// What becomes of its state.
    pub fate: Fate,
    /// What is lost with the state, in words.
    pub loss: String,
}

/// The steps' names as users give them: a name that several steps have stands with its place among them, `dedup.2`.
pub fn labels(steps: &[StepShape]) -> Vec<String> {
    let label = |(n, step): (usize, &StepShape)| {
        let place = steps[..n].iter().filter(|other| other.name == step.name).count();
        if place == 0 { step.name.clone() } else { format!("{}.{}", step.name, place + 1) }
    };
    steps.iter().enumerate().map(label).collect()
}

/// The steps that hold records, for messages: `window`, or `join` and what is behind it.
pub fn absorbing(steps: &[StepShape]) -> String {
    let all = labels(steps).into_iter().zip(steps);
    let absorbing = all.filter(|(_, step)| step.absorbs).map(|(label, _)| format!("`{label}`"));
    absorbing.collect::<Vec<_>>().join(" and ")
}

/// Which states go on: as many as can in their order.
pub fn kept(before: &[StepShape], now: &[StepShape]) -> Vec<KeptState> {
    // `most[b][n]`: how many of the steps from `b` and `n` on can go on. Both are a file's steps, a dozen at the most.
    let mut most = vec![vec![0_usize; now.len() + 1]; before.len() + 1];
    for b in (0..before.len()).rev() {
        for n in (0..now.len()).rev() {
            most[b][n] = match now[n].continues(&before[b]) {
                true => most[b + 1][n + 1] + 1,
                false => most[b + 1][n].max(most[b][n + 1]),
            };
        }
    }
    let (mut kept, mut b, mut n) = (Vec::new(), 0, 0);
    while b < before.len() && n < now.len() {
        if now[n].continues(&before[b]) {
            kept.push(KeptState { step: n as u32, before: b as u32 });
            (b, n) = (b + 1, n + 1);
        } else if most[b + 1][n] >= most[b][n + 1] {
            b += 1;
        } else {
            n += 1;
        }
    }
    kept
}

/// What becomes of every step with state, those of the file first. A state that ends stands beside a step of its name that begins empty, if
/// there is one.
pub fn fates(lane: &Lane, made: &Composition) -> Vec<StepFate> {
    let kept = kept(&lane.steps, &made.steps);
    let now = labels(&made.steps);
    let is_gone = |at: &usize| kept.iter().all(|kept| kept.before as usize != *at);
    let mut gone: Vec<usize> = (0..lane.steps.len()).filter(is_gone).collect();
    let mut fates = Vec::new();
    for (n, step) in made.steps.iter().enumerate() {
        let shape = step.shape.clone();
        let of_name = gone.iter().position(|at| lane.steps[*at].name == step.name);
        let fate = if kept.iter().any(|kept| kept.step as usize == n) {
            Fate::Kept
        } else if let Some(at) = of_name {
            let before = &lane.steps[gone.remove(at)];
            if step.continues(before) {
                Fate::Added { now: shape }
            } else {
                let (was, now) = enums::differing(before, step);
                Fate::Changed { was, now }
            }
        } else {
            Fate::Added { now: shape }
        };
        let loss = made.losses.get(n).cloned().unwrap_or_default();
        fates.push(StepFate { label: now[n].clone(), fate, loss });
    }
    for step in gone.into_iter().map(|at| &lane.steps[at]) {
        let label = unused(&step.name, &fates);
        let fate = Fate::Removed { was: step.shape.clone() };
        fates.push(StepFate { label, fate, loss: "what it remembers".to_owned() });
    }
    fates
}

/// A label for a step that the file does not have.
fn unused(name: &str, fates: &[StepFate]) -> String {
    let labels = std::iter::once(name.to_owned()).chain((2..).map(|n| format!("{name}.{n}")));
    let mut free = labels.filter(|label| fates.iter().all(|fate| fate.label != *label));
    free.next().expect("numbers do not end")
}

/// The record that is due before this pipeline goes on with the lane; `None` if it is what it was. Its `discarded` is for whoever has restored
/// the states that go on.
///
/// # Errors
/// When the operator must decide, with the ways out.
pub fn decide(
    lane: &Lane,
    made: &Composition,
    asked: &NewState,
    by: &str,
) -> Result<Option<Change>, EngineError> {
    if lane.pipeline.is_empty() {
        return Ok(None);
    }
    let fates = fates(lane, made);
    check_named(&fates, asked)?;
    let is_asked = |fate: &&StepFate| asked.steps.contains(&fate.label);
    let open: Vec<&StepFate> =
        fates.iter().filter(|fate| fate.fate != Fate::Kept && !is_asked(fate)).collect();
    if !open.is_empty() {
        return Err(EngineError::Mismatch(undecided(&open, &fates, lane)));
    }
    let mut kept = kept(&lane.steps, &made.steps);
    if asked.unchanged == Unchanged::Empty {
        let labels = labels(&made.steps);
        kept.retain(|kept| !asked.steps.contains(&labels[kept.step as usize]));
    }
    let is_same = kept.len() == lane.steps.len() && lane.steps == made.steps;
    if is_same && lane.parts == made.parts {
        return Ok(None);
    }
    if kept.len() < lane.steps.len() && lane.spool_frames() > 0 {
        return Err(EngineError::Mismatch(pending(lane.spool_frames())));
    }
    let (steps, parts) = (made.steps.clone(), made.parts.clone());
    Ok(Some(Change { steps, kept, discarded: 0, parts, by: by.to_owned() }))
}

/// Whether each step that is to begin anew is there, and has changed.
fn check_named(fates: &[StepFate], asked: &NewState) -> Result<(), EngineError> {
    for name in &asked.steps {
        let found = fates.iter().find(|fate| fate.label == *name);
        let Some(found) = found else {
            let all: Vec<String> = fates.iter().map(|fate| format!("`{}`", fate.label)).collect();
            let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            return Err(EngineError::Mismatch(format!(
                "`--new-state {name}` names no step that keeps state; nothing was read or written. Steps that do: {all}"
            )));
        };
        if found.fate == Fate::Kept && asked.unchanged == Unchanged::Refuse {
            return Err(EngineError::Mismatch(format!(
                "`--new-state {name}`: step `{name}` has not changed, and its state in the store is still valid; nothing was read or written. Start without \
                 `--new-state {name}`. To discard the state anyway, add `--yes`; this loses {}",
                found.loss
            )));
        }
    }
    Ok(())
}

fn undecided(open: &[&StepFate], all: &[StepFate], lane: &Lane) -> String {
    let words = |fate: &&StepFate| match &fate.fate {
        Fate::Changed { was, now } => {
            format!("step `{}` has changed: it was made with {was}, and now has {now}", fate.label)
        }
        Fate::Added { now } => format!("step `{}` is new at its place, with {now}", fate.label),
        Fate::Removed { was } => format!("step `{}` with {was} is no longer in the file", fate.label),
        Fate::Kept => format!("step `{}` is as it was", fate.label),
    };
    let means = |fate: &&StepFate| match fate.fate {
        Fate::Added { .. } => format!("`{}` knows nothing of the rows before ({})", fate.label, fate.loss),
        _ => format!("`{}` loses {}", fate.label, fate.loss),
    };
    let join = |texts: Vec<String>| texts.join("; ");
    let flags: Vec<String> = all
        .iter()
        .filter(|fate| fate.fate != Fate::Kept)
        .map(|fate| format!("--new-state {}", fate.label))
        .collect();
    let held = match lane.absorbed.held {
        0 => String::new(),
        held => format!(
            " {held} records are held by {}; those of a step that begins anew are counted as discarded.",
            absorbing(&lane.steps)
        ),
    };
    format!(
        "{}. State cannot be carried over; nothing was read or written. There are three ways out. Undo: put the old steps back, and the old types of their columns. Or start with \
         empty state: `forebay run FILE {}`; then {}.{held} Or give the pipeline a new name (and its source another `group`, `subscription` or \
         `consumer`, if the file names one): it reads its source from the start again, so empty the table first or name another, or every row is there twice",
        join(open.iter().map(words).collect()),
        flags.join(" "),
        join(open.iter().map(means).collect()),
    )
}

fn pending(frames: usize) -> String {
    format!(
        "{frames} sealed inserts wait for their tables; if the server refused one of their rows, the wrong key would be forgotten in the new state. Nothing \
         was read or written. Put the old steps back, let the inserts arrive (`forebay run FILE --drain`), and change the steps then"
    )
}

#[cfg(test)]
mod tests;
