//! Rules of steps: which may stand where, and their settings beside those of the pipeline.
//!
//! Owns the rules of windows and of `dedup`. Does not own those of joins and lookups, nor which columns a step may name (`plan`).

use dataflow::Metadata;

use super::Rules;
use crate::config::model::step::{AtEnd, Dedup, Step, WindowStep};
use crate::config::values::{Identifier, Period, Window};
use crate::config::windows;

/// Why a step behind a window takes no time from a column.
const TIME_OF_RESULTS: &str =
    "a result of a window has a time of its own, the last millisecond of its window; leave `time` out";

/// Why a step behind a join takes no time from a column.
const TIME_OF_JOINED: &str =
    "a joined row has a time of its own, the later of its two rows'; leave `time` out";

impl Rules<'_> {
    pub(super) fn steps(&mut self) {
        let (mut is_behind_window, mut is_behind_join, mut waits) = (false, false, false);
        for (index, step) in self.pipeline.steps.iter().enumerate() {
            let path = format!("steps[{index}].{}", step.word());
            let time = step.dedup.as_ref().and_then(|dedup| dedup.time.as_ref());
            let time = step.window.as_ref().and_then(|window| window.time.as_ref()).or(time);
            if is_behind_window && time.is_some() {
                self.fault(&format!("{path}.time"), TIME_OF_RESULTS);
            } else if is_behind_join && time.is_some() && !self.is_of_inputs(step) {
                self.fault(&format!("{path}.time"), TIME_OF_JOINED);
            }
            if let Some(join) = &step.join {
                self.at_end(join.at_end, &path, false);
                waits |= join.at_end == AtEnd::Wait;
                is_behind_join = true;
            }
            if let Some(window) = &step.window {
                self.window(window, &path, is_behind_window || is_behind_join);
                self.at_end(window.at_end, &path, waits);
                self.emit(window, index, &path);
                waits |= window.at_end == AtEnd::Wait;
                is_behind_window = true;
            }
            if let Some((_, text)) =
                step.select.iter().flat_map(|items| &items.0).find(|(name, _)| name.as_str() == "*")
                && text != "*"
            {
                self.fault(
                    &format!("steps[{index}].select.*"),
                    "`*` stands for all columns that are not named; write `\"*\": \"*\"`",
                );
            }
        }
    }

    /// Whether the step is for the records of inputs that it names, which may go into a join behind another one.
    fn is_of_inputs(&self, step: &Step) -> bool {
        let inputs = self.pipeline.inputs();
        let is_input = |name: &Identifier| inputs.iter().any(|input| input.name == name.as_str());
        step.from.as_ref().is_some_and(|from| from.as_slice().iter().all(is_input))
    }

    /// Whether the records of an input have no time unless a step names it.
    fn has_timeless_input(&self) -> bool {
        self.pipeline.inputs().iter().any(|input| input.source.file.is_some() && input.source.time.is_none())
    }

    pub(super) fn window(&mut self, window: &WindowStep, path: &str, is_behind_window: bool) {
        // The first one's time is that of the records, by which the watermark goes; a later one's is only its own.
        let first = self.pipeline.steps.iter().find_map(|step| step.dedup.as_ref());
        let is_timed = first.is_some_and(|dedup| dedup.time.is_some());
        if window.time.is_none() && !is_timed && !is_behind_window && self.has_timeless_input() {
            self.fault(path, "records of a file have no time of their own, so a window needs `time: column`");
        }
        // A length that could not be read is left out, and what is there does not tell which windows were meant.
        let is_unread = ["size", "slide", "step", "gap", "max"]
            .iter()
            .any(|length| self.faults.concern(&format!("{path}.{length}")));
        for fault in windows::config(window, path).err().into_iter().flatten() {
            if !(is_unread && fault.is_of_lengths) {
                self.fault(&fault.path, fault.message);
            }
        }
    }

    /// What a window or a join does at the end; `waits` says whether one before it waits for more.
    fn at_end(&mut self, at_end: AtEnd, path: &str, waits: bool) {
        if at_end == AtEnd::Wait {
            return;
        }
        let path = format!("{path}.at_end");
        if self.pipeline.inputs().iter().any(|input| input.source.is_endless()) {
            self.fault(&path, "a topic, a log or a file that is followed never ends, so nothing comes out at its end; remove it");
        }
        if waits {
            self.fault(
                &path,
                "the step before it waits at the end and has rows for this one later; let it close too, by `at_end: close`, or `at_end => 'close'` in a query",
            );
        }
    }

    /// What may stand behind results that others replace: nothing that could keep a later one from its place.
    fn emit(&mut self, window: &WindowStep, index: usize, path: &str) {
        if window.emit.is_none() {
            return;
        }
        let behind = self.pipeline.steps[index + 1..].iter().find(|step| step.select.is_none());
        if let Some(step) = behind {
            let path = format!("{path}.emit");
            let message = match step.word() {
                "window" => "the window behind would count each result of a key and window again; give the last window `emit`, and no other".to_owned(),
                "dedup" => "the `dedup` behind would drop the results that replace others; put it before the window".to_owned(),
                word => format!(
                    "a `{word}` behind could drop a result whose predecessor is in the table and would stay there; filter in the query, over FINAL, \
                     or before the window"
                ),
            };
            self.fault(&path, message);
        }
        let has_sign = window.emit.as_ref().is_some_and(|emit| emit.sign.is_some());
        if has_sign && self.pipeline.targets().iter().any(|target| target.upsert.is_some()) {
            let message = "with `upsert` a row that takes another back would replace it; remove `upsert`, or write `version` in place of `sign`";
            self.fault(&format!("{path}.emit.sign"), message);
        }
        let sinks = self.pipeline.sinks.iter();
        if sinks
            .filter(|sink| sink.from.is_none())
            .any(|sink| sink.condition.is_some() || sink.by.is_some() || sink.otherwise)
        {
            self.fault(
                &format!("{path}.emit"),
                "a table with `where`, `by` or `otherwise` could get a result and miss the one that replaces it; give all results to one table",
            );
        }
    }

    pub(super) fn dedup(&mut self) {
        // Behind a window or a join every row has a time.
        let makes_rows = |step: &Step| step.window.is_some() || step.join.is_some() && step.from.is_none();
        let window = self.pipeline.steps.iter().position(makes_rows);
        for (index, step) in self.pipeline.steps.iter().enumerate() {
            let timeless = self.has_timeless_input() && window.is_none_or(|window| index < window);
            let Some(dedup) = &step.dedup else { continue };
            let path = format!("steps[{index}].dedup");
            if timeless && dedup.time.is_none() && dedup.window != Window::Unbounded {
                self.fault(
                    &path,
                    "records of a file have no time of their own, so a window needs `time: column`; or write \
                     `window: unbounded`",
                );
            }
            if let Window::Within(window) = dedup.window {
                let quarter = Period { ms: window.ms / 4 };
                for input in self.pipeline.inputs() {
                    if let Some(future) = input.source.future_max.filter(|future| *future > quarter) {
                        self.fault(
                            &format!("{}.future_max", input.path),
                            format!(
                                "`{future}` is more than a quarter of the window of `{path}`: one record from the future would free \
                                 history that the next ones need; write `{quarter}` or less"
                            ),
                        );
                    }
                }
            }
            if let Some(future) = dedup.future_max {
                let quarter = match dedup.window {
                    Window::Unbounded => None,
                    Window::Within(window) => Some(Period { ms: window.ms / 4 }),
                };
                match quarter {
                    None => self.fault(
                        &format!("{path}.future_max"),
                        "an `unbounded` window keeps every key whatever the time, so nothing is freed too early; remove it",
                    ),
                    Some(quarter) if future > quarter => self.fault(
                        &format!("{path}.future_max"),
                        format!(
                            "`{future}` is more than a quarter of the window: one record from the future would free history that the \
                             next ones need; write `{quarter}` or less"
                        ),
                    ),
                    Some(_) => {}
                }
            }
            self.two_meanings(&path, dedup);
            let named =
                dedup.key.iter().enumerate().map(|(at, column)| (format!("{path}.key[{at}]"), column));
            let named = named.chain(dedup.time.iter().map(|column| (format!("{path}.time"), column)));
            // A column that the table does not store comes from a step, or is a declared field; the planner knows.
            let is_of_table = self.pipeline.inputs().iter().all(|input| input.source.fields.is_empty())
                && self.pipeline.sinks.is_empty()
                && self.pipeline.steps.iter().all(|step| step.dedup.is_some());
            // What the source says of a record is there whether the table stores it or not.
            let is_stored = |(_, column): &(String, &Identifier)| {
                is_of_table && Metadata::named(column.as_str()).is_none()
            };
            for (path, column) in named.filter(is_stored).collect::<Vec<_>>() {
                for target in self.pipeline.targets() {
                    self.created_column(&target, &path, column.as_str());
                }
            }
        }
    }

    /// A key that is a column of the table while no step stands behind, and a field of that name once one does. Its words in the journal are the same, so the state goes on,
    /// and values of the field are compared with those of the column.
    fn two_meanings(&mut self, path: &str, dedup: &Dedup) {
        let (inputs, filled) = (self.pipeline.inputs(), &self.pipeline.columns);
        for (at, key) in dedup.key.iter().enumerate() {
            let is_field = inputs.iter().any(|input| input.source.fields.has(key.as_str()));
            let Some(by) = filled.get(key).filter(|by| is_field && by.as_str() != key.as_str()) else {
                continue;
            };
            let message = format!(
                "`{key}` is a field, and also a column that is filled by `{by}`: while no step stands behind, the key is the column, otherwise the field. If \
                 that changes, the state still holds keys of the other, and rows that have a value of them are dropped as duplicates; take `{key}` out of \
                 `fields`, or give the column the name of its field"
            );
            self.hint(&format!("{path}.key[{at}]"), message);
        }
    }
}
