//! Rules for pipelines with joins: who reads whose rows.
//!
//! Owns that the inputs and joins of a pipeline make one tree whose root goes to the tables. Does not own columns and types, which the planner
//! knows (`plan::joins`).

use std::collections::BTreeMap;

use super::super::model::Input;
use super::super::model::join::{JoinKind, JoinStep};
use super::super::model::step::Step;
use super::super::nearest::nearest;
use super::Rules;

impl Rules<'_> {
    /// Whether there is a join.
    pub(super) fn has_join(&self) -> bool {
        self.pipeline.steps.iter().any(|step| step.join.is_some())
    }

    /// The joins of the pipeline, and the `from` of the steps around them.
    pub(super) fn joins(&mut self, inputs: &[Input<'_>]) {
        let steps = self.pipeline.steps.iter().enumerate();
        let joins: Vec<(usize, &JoinStep)> =
            steps.filter_map(|(at, step)| Some((at, step.join.as_ref()?))).collect();
        let Some((last, _)) = joins.last().copied() else { return };
        if self.pipeline.source.is_some() {
            return self
                .fault(&format!("steps[{last}].join"), "a join needs two inputs; name them under `inputs`");
        }
        for input in inputs.iter().filter(|input| input.source.file.is_some() && input.source.time.is_none())
        {
            let message =
                "records of a file have no time of their own, so a join needs `time: column` of this input";
            self.fault(&input.path, message);
        }
        // Whose rows have which name, and the step behind which they have gone into a join.
        let mut taken: BTreeMap<&str, Option<usize>> =
            inputs.iter().map(|input| (input.name, None)).collect();
        for (at, step) in self.pipeline.steps.iter().enumerate() {
            let Some(join) = &step.join else {
                self.whose(at, step, last, &taken);
                continue;
            };
            self.join(at, join);
            if step.from.is_some() {
                let message =
                    "a join names the inputs that it reads; remove it, or put it at the steps before";
                self.fault(&format!("steps[{at}].from"), message);
            }
            for (side, name) in [("left", &join.left), ("right", &join.right)] {
                let path = format!("steps[{at}].join.{side}");
                let is_input = inputs.iter().any(|input| input.name == name.as_str());
                let is_own = side == "left" && join.query.as_ref().is_some_and(|query| query.is_behind);
                if join.query.is_some() && !is_own && !is_input && taken.contains_key(name.as_str()) {
                    let message = format!(
                        "no column holds the time of the rows of the join `{name}`, so no query can compare it; write a `join` step, with `within: 1h`"
                    );
                    self.fault(&path, message);
                }
                self.rows(&path, name.as_str(), &taken);
                taken.insert(name.as_str(), Some(at));
            }
            let Some(name) = &join.name else {
                if at != last {
                    let message = match join.query {
                        None => "a join behind it takes its rows by name; write `as: NAME`",
                        Some(_) => {
                            "a join behind it takes its rows by name, which a query has none for; write a `join` step with `as: NAME`"
                        }
                    };
                    self.fault(&format!("steps[{at}].join"), message);
                }
                continue;
            };
            if taken.insert(name.as_str(), None).is_some() {
                let message = format!("`{name}` is the name of an input or another join; take another one");
                self.fault(&format!("steps[{at}].join.as"), message);
            }
        }
        // Sides that are none leave rows without a join, which is no mistake of its own.
        if self.has_unknown_side() {
            return;
        }
        let root = self.pipeline.steps[last].join.as_ref().and_then(|join| join.name.as_ref());
        let left: Vec<&str> = taken
            .iter()
            .filter(|(name, taken)| taken.is_none() && root.is_none_or(|root| root.as_str() != **name))
            .map(|(name, _)| *name)
            .collect();
        for name in left {
            let message = format!("no join uses `{name}`; only the rows of the last join go to the tables");
            self.fault(&format!("steps[{last}].join"), message);
        }
    }

    /// Whether a join names the rows of one input twice, or rows that there are none of.
    fn has_unknown_side(&self) -> bool {
        let inputs = self.pipeline.inputs();
        let joins = self.pipeline.steps.iter().filter_map(|step| step.join.as_ref());
        let is_known = |name: &str| {
            let is_join = |join: &JoinStep| join.name.as_ref().is_some_and(|of| of.as_str() == name);
            inputs.iter().any(|input| input.name == name) || joins.clone().any(is_join)
        };
        let is_wrong = |join: &JoinStep| {
            join.left == join.right || ![&join.left, &join.right].iter().all(|side| is_known(side.as_str()))
        };
        joins.clone().any(is_wrong)
    }

    /// What one join says by itself.
    fn join(&mut self, at: usize, join: &JoinStep) {
        let path = format!("steps[{at}].join");
        if join.left == join.right {
            let message = "these are the rows of one input, which are not joined with themselves, and two inputs cannot read one topic or file; relate the rows of a \
                           key in a `window` step, by aggregates such as `first` and `last`, or join them in ClickHouse";
            self.fault(&format!("{path}.right"), message);
        }
        self.as_of(&path, join);
        match (join.within, join.before, join.after) {
            (None, None, None) if join.is_temporal() => {}
            (None, None, None) => self.fault(
                &path,
                format!(
                    "write `within: 1h`: how far apart in time the two rows may be; or `as_of: {}`, for the version of the right side at the time of the left row",
                    join.left
                ),
            ),
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => self.fault(
                &format!("{path}.within"),
                "`within` is for both directions, and `before` and `after` for one each; remove it, or them",
            ),
            (Some(_), None, None) | (None, ..) => {}
        }
        for (nth, (left, right)) in join.pairs().iter().enumerate() {
            if left.is_empty() || right.is_empty() || right.contains('=') {
                let message = "write a column that both sides have, or `left_name = right_name`";
                self.fault(&format!("{path}.on[{nth}]"), message);
            }
        }
        for (name, text) in &join.columns.0 {
            let side = text.split_once('.').map(|(side, _)| side);
            if !side.is_some_and(|side| [&join.left, &join.right].iter().any(|name| name.as_str() == side)) {
                let message = format!("write `{}.COLUMN` or `{}.COLUMN`", join.left, join.right);
                self.fault(&format!("{path}.columns.{name}"), message);
            }
        }
    }

    /// What belongs to a temporal join alone, and what does not go with one.
    fn as_of(&mut self, path: &str, join: &JoinStep) {
        let Some(as_of) = &join.as_of else {
            if join.deleted.is_some() {
                let message = "rows near in time are no versions, and none deletes a key; remove it, or write `as_of` in place of the interval";
                self.fault(&format!("{path}.deleted"), message);
            }
            return;
        };
        if *as_of != join.left {
            let message = format!(
                "each left row gets the version of the right side at its own time; write `as_of: {}`, and what has versions under `right`",
                join.left
            );
            self.fault(&format!("{path}.as_of"), message);
        }
        for (word, given) in [("within", join.within), ("before", join.before), ("after", join.after)] {
            if given.is_some() {
                let message = "with `as_of` a version holds until the next, however long that is; remove it, or `as_of`";
                self.fault(&format!("{path}.{word}"), message);
            }
        }
        if matches!(join.kind, JoinKind::Right | JoinKind::Full) {
            let message = "with `as_of`, unmatched right rows cannot be output; use `inner` or `left`";
            self.fault(&format!("{path}.kind"), message);
        }
    }

    /// Whether rows of this name are there to be read.
    fn rows(&mut self, path: &str, name: &str, taken: &BTreeMap<&str, Option<usize>>) {
        let known: Vec<&str> = taken.keys().copied().collect();
        match taken.get(name) {
            Some(None) => {}
            Some(Some(by)) => {
                let message = format!(
                    "`{name}` is already consumed by `{}`; refer to that join by its `as`",
                    self.pipeline.step_in_file(*by)
                );
                self.fault(path, message);
            }
            None => {
                let near = nearest(name, &known);
                let near = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
                let message = format!("there is no input and no join before called `{name}`{near}");
                let is_of_query = self.pipeline.in_query(path).is_some();
                let lookup = if is_of_query { "; for the rows of a table use the step `lookup`" } else { "" };
                self.fault(path, message + lookup);
            }
        }
    }

    /// Whose rows a step works on that is no join.
    fn whose(&mut self, at: usize, step: &Step, last: usize, taken: &BTreeMap<&str, Option<usize>>) {
        let path = format!("steps[{at}].{}", step.word());
        let Some(from) = &step.from else {
            // A query that is none for another reason was refused by that.
            if at < last && !self.faults.concern(&path) {
                let message = format!(
                    "it stands before `{}`, where there are rows of several inputs; add `from:` to say which input it processes, as in `from: {}`",
                    self.pipeline.step_in_file(last),
                    taken.iter().find(|(_, by)| by.is_none()).map_or("NAME", |(name, _)| *name)
                );
                self.fault(&path, message);
            }
            return;
        };
        let of_from = format!("steps[{at}].from");
        for name in from.as_slice() {
            self.rows(&of_from, name.as_str(), taken);
        }
        if step.is_stateful() && from.as_slice().len() > 1 {
            let message = format!(
                "`{}` has a state, so it works on the rows of one; write a step for each",
                step.word()
            );
            self.fault(&of_from, message);
        }
        if step.window.is_some() && at < last {
            let message = "a window before a join is not supported yet; put it behind the last join, or make two pipelines";
            self.fault(&path, message);
        }
    }
}
