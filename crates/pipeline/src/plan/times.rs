//! The event time of an input: the one field that holds it.
//!
//! Owns who may ask for it, that all who do ask for the same, that no step computes it, and that its type holds a time. Does not own how it is read
//! ([`operators::EventTime`]).

use dataflow::{Column, Schema};
use operators::EventTime;

use super::planner::{Origin, Planner};
use super::{Faults, fault};

impl<'a> Planner<'a> {
    /// The column of the event time where the tables' columns are decoded as they are.
    pub(super) fn straight_time(&self) -> Result<Option<String>, Faults> {
        let of_dedup = self.dedups().next();
        let of_dedup = of_dedup
            .and_then(|(_, path, dedup)| Some((format!("{path}.time"), dedup.time.as_ref()?.as_str())));
        let own = self.view.time().and_then(|time| self.column_filled_by(time));
        let columns = || self.union.columns();
        match (own, of_dedup) {
            (None, None) => Ok(None),
            (None, Some((path, time))) => {
                check_type(path, columns().find(|column| column.name == time)).map(|()| Some(time.to_owned()))
            }
            (Some(own), Some((path, time))) if own.name != time => {
                Err(vec![fault(path, self.two_times(time))])
            }
            (Some(own), _) => check_type(self.own_path(), Some(own)).map(|()| Some(own.name.clone())),
        }
    }

    /// The field that holds the event time: the input's own, or that of the first `dedup` that names one, if it is the first of all, or of the
    /// window.
    pub(super) fn time(&self, candidates: &[Column]) -> Result<Option<String>, Faults> {
        let asked = self.asked_time()?;
        let (path, field) = match (self.view.time(), asked) {
            (None, None) => return Ok(None),
            (None, Some(asked)) => asked,
            (Some(own), Some((path, asked))) if own != asked => {
                return Err(vec![fault(path, self.two_times(&asked))]);
            }
            (Some(own), _) => (self.own_path(), own.to_owned()),
        };
        self.keeps_time(&field)?;
        if let Some(known) = candidates.iter().find(|known| known.name == field) {
            return check_type(path, Some(known)).map(|()| Some(field));
        }
        let is_there = |name: &str| candidates.iter().any(|known| known.name == name);
        let message = self.named_in_table(&field, is_there);
        Err(vec![fault(path, message.unwrap_or_else(|| self.undeclared(&field, "DateTime64(3)")))])
    }

    /// Whether the rows still have the time `field` at the window or join behind, if the file says that it goes by it: a `dedup` behind the first one gives
    /// them its own.
    fn keeps_time(&self, field: &str) -> Result<(), Faults> {
        let is_given = self.view.time().is_some() || self.event_time.is_some();
        let later = self.dedups().skip(1);
        let last = later.filter_map(|(place, path, dedup)| Some((place, path, dedup.time.as_ref()?))).last();
        let Some((place, path, time)) = last.filter(|_| self.is_for_window && is_given) else {
            return Ok(());
        };
        if matches!(self.origin(time.as_str(), place), Origin::Field(own) if own == field) {
            return Ok(());
        }
        let message = format!(
            "the window or join behind would go by `{time}` too, and not by `{field}`, the event time; write `{field}` here, or leave `time` out"
        );
        Err(vec![fault(format!("{path}.time"), message)])
    }

    /// The field that the steps take the event time from, and who asks for it.
    fn asked_time(&self) -> Result<Option<(String, String)>, Faults> {
        let first = self.dedups().next();
        let of_dedup = first.map(|(_, path, dedup)| (format!("{path}.time"), dedup.time.as_ref()));
        let place = first.filter(|(_, _, dedup)| dedup.time.is_some()).map(|(place, ..)| place);
        let (path, time) = match (of_dedup, &self.event_time) {
            (Some((path, Some(time))), Some((other_path, other))) if time.as_str() != other => {
                let message = format!(
                    "the event time is `{time}`, by `{path}`, and a pipeline has one; write the same here, or leave it out"
                );
                return Err(vec![fault(other_path, message)]);
            }
            (Some((path, Some(time))), _) => (path, time.as_str()),
            (_, Some((path, time))) => (path.clone(), time.as_str()),
            (_, None) => return Ok(None),
        };
        let column = self.union.columns().find(|column| column.name == time);
        let name = column.map_or(time, |column| self.source_of(column));
        match self.origin(name, place.unwrap_or(self.steps.len())) {
            Origin::Field(field) => Ok(Some((path, field))),
            Origin::Absent => Ok(Some((path, time.to_owned()))),
            Origin::Computed(step) => {
                let message = format!(
                    "`{name}` is computed by `{step}`, but the event time is read before the first step, so that records which a step drops \
                     move the watermark too; use a field of the record, with its type under `{}`",
                    self.view.fields()
                );
                Err(vec![fault(path, message)])
            }
        }
    }

    /// The key of the input's own event time.
    fn own_path(&self) -> String {
        format!("{}.time", self.view.input.path)
    }

    /// Why a step's event time cannot be `asked`: the input has its own.
    fn two_times(&self, asked: &str) -> String {
        let input = &self.view.input.path;
        let own = self.view.time().unwrap_or_default();
        format!(
            "the event time of `{input}` is `{own}`, by `{input}.time`, and here it is `{asked}`; leave it out here, and give every input its `time`"
        )
    }
}

/// Whether the column of the event time, which `path` asks for, holds a time. One that is not there is reported elsewhere.
fn check_type(path: String, column: Option<&Column>) -> Result<(), Faults> {
    let Some(column) = column else { return Ok(()) };
    let made = EventTime::new(&Schema::new(vec![column.clone()]), &column.name);
    made.map(|_| ()).map_err(|error| vec![fault(path, error.to_string())])
}
