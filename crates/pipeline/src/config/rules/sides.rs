//! Rules for the tables of side outputs.
//!
//! Owns which rows there are beside the output of a step. Does not own how they fill a table (`plan::aside`).

use operators::JoinSide;

use super::super::model::join::{JoinKind, JoinStep};
use super::super::model::sink::{SideOutput, TableSink};
use super::Rules;

impl Rules<'_> {
    /// The table of a side output, if an entry is for one.
    pub(super) fn side(&mut self, index: usize, sink: &TableSink) {
        let Some(from) = &sink.from else { return };
        let path = format!("sinks[{index}].from");
        let Some(output) = self.pipeline.side_of(sink) else {
            let is_there = |output: &SideOutput| match *output {
                SideOutput::Late(_) => true,
                SideOutput::Unmatched(at, side) => {
                    self.pipeline.steps[at].join.as_ref().is_some_and(|join| refusal(join, side).is_none())
                }
            };
            let known = self.pipeline.side_outputs().into_iter().filter(|(_, output)| is_there(output));
            let known: Vec<String> = known.map(|(name, _)| format!("`{name}`")).collect();
            let there = match known.is_empty() {
                true => "no window and no join has a name; write `as: NAME` under one".to_owned(),
                false => format!("there is {}", known.join(", ")),
            };
            return self.fault(&path, format!("`{from}` is no side output of a step: {there}"));
        };
        match output {
            SideOutput::Late(step) => self.late(&path, step),
            SideOutput::Unmatched(step, side) => {
                let join = self.pipeline.steps[step].join.as_ref();
                if let Some(message) = join.and_then(|join| refusal(join, side)) {
                    self.fault(&path, message);
                }
            }
        }
        if sink.condition.is_some() || sink.by.is_some() || sink.otherwise {
            self.fault(
                &path,
                "a table of a side output takes all of its rows: remove `where`, `by` and `otherwise`",
            );
        }
        let sinks = &self.pipeline.sinks;
        if sinks[..index].iter().any(|other| other.from.as_ref() == Some(from)) {
            self.fault(&path, format!("`{from}` has a table already; the rows of a side output go to one"));
        }
    }

    /// A table for the late records of a window.
    fn late(&mut self, path: &str, step: usize) {
        if self.pipeline.steps[..step].iter().any(|step| step.join.is_some()) {
            self.fault(path, "late records of a window behind a join cannot have a table yet; a longer `lateness` of the join takes them in");
        }
        if self.pipeline.steps[..step].iter().any(|step| step.window.is_some()) {
            self.fault(
                path,
                "the results of a window are never late for the window behind it; name the first window",
            );
        }
    }
}

/// Why a join has no rows of this side beside its output.
fn refusal(join: &JoinStep, side: JoinSide) -> Option<String> {
    let is_kept = match side {
        JoinSide::Left => matches!(join.kind, JoinKind::Left | JoinKind::Full),
        JoinSide::Right => matches!(join.kind, JoinKind::Right | JoinKind::Full),
    };
    if join.is_temporal() && side == JoinSide::Right {
        let message = "with `as_of` the right side has versions, which stay whether a row gets them or not; only left rows can be without a match: remove this table";
        return Some(message.to_owned());
    }
    let (kind, without) = match (join.kind, side) {
        (JoinKind::Full, JoinSide::Left) => ("full", "right"),
        (JoinKind::Full, JoinSide::Right) => ("full", "left"),
        (JoinKind::Left, _) => ("left", "inner"),
        (JoinKind::Right, _) => ("right", "inner"),
        (JoinKind::Inner, _) => ("inner", "inner"),
    };
    is_kept.then(|| {
        format!(
            "with `kind: {kind}` {} rows without a match are among the joined rows, and a row goes to one of the two; remove this table, or write `kind: {without}`",
            side.word()
        )
    })
}
