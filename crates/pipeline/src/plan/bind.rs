//! Texts to steps, each bound to the columns of the one before.
//!
//! Owns the order of binding, what a query lets pass, and the fault of a text that reads a field without a type. Does not own what a
//! text means ([`super::Texts`]), nor what else is wrong behind a text that is ([`super::further`]).

use dataflow::{Column, Metadata, Schema};

use super::further::Found;
use super::planner::{Origin, Planner};
use super::steps::{Kind, MARK, Planned};
use super::{Bound, Fault, Faults, TextFault, fault, lookups, shape, union};

impl Planner<'_> {
    /// What a query lets pass is known once it is bound: to all fields that it could read, whether they are decoded in the end or not.
    pub(super) fn shape_queries(&mut self) -> Result<(), Faults> {
        let mut widest = self.declared.clone();
        // All columns of a window's results are known.
        for column in self.union.columns().filter(|_| self.results_of.is_none()) {
            let name = self.source_of(column);
            if !widest.iter().any(|known| known.name == name) && !self.is_metadata(name) {
                let column = self.decoded_as(column);
                widest.push(Column { name: name.to_owned(), field: name.to_owned(), ..column });
            }
        }
        let metadata = Metadata::ALL.into_iter().filter(|one| self.is_metadata(one.name()));
        widest.extend(metadata.map(Metadata::column));
        let stateless = |at: usize| self.steps[at].is_stateless();
        let bound: Vec<(usize, Bound)> = loop {
            let found = match self.texts_bound(&Schema::new(widest.clone())) {
                Ok(bound) => break (0..self.steps.len()).filter(|at| stateless(*at)).zip(bound).collect(),
                Err(found) => found,
            };
            // `SELECT *, f(x) AS y`: then `y` is no field, though the table has a column of that name.
            let twice: Vec<&String> =
                found.faults.iter().filter_map(|(_, fault)| fault.twice.as_ref()).collect();
            let fields = widest.len();
            widest.retain(|column| !twice.contains(&&column.name) || self.is_declared(&column.name));
            if widest.len() < fields {
                continue;
            }
            match found.last {
                // The same is found again with what stands behind the steps.
                Some(_) => break found.bound,
                None => return Err(self.text_faults(found.faults)),
            }
        };
        for (at, bound) in bound {
            let step = &mut self.steps[at];
            match step.kind {
                // All that anything reads goes on.
                Kind::Joined(query) if query.is_all => {}
                Kind::Query(_) | Kind::Joined(_) => step.shape = shape::of_query(&bound),
                _ => {}
            }
        }
        Ok(())
    }

    /// Binds every step without state, one after the other.
    pub(super) fn bind(&self, input: &Schema) -> Result<Vec<Bound>, Faults> {
        let bound = self.texts_bound(input).map_err(|found| self.text_faults(found.faults))?;
        self.unnested(&bound)?;
        Ok(bound)
    }

    /// The same for a chain that ends at the tables, whose conditions may be at fault too.
    pub(super) fn bind_to_tables(&self, input: &Schema) -> Result<Vec<Bound>, Faults> {
        let Err(found) = self.texts_bound(input) else { return self.bind(input) };
        let mut faults = self.text_faults(found.faults);
        faults.extend(found.last.into_iter().flat_map(|last| self.faults_of_conditions(&last)));
        Err(faults)
    }

    /// A row of an item is told by its record and the number of the item (`UNNEST`). So one step may make such rows, of records that come as one row,
    /// and before any step that keeps or makes rows of several.
    fn unnested(&self, bound: &[Bound]) -> Result<(), Faults> {
        const INSTEAD: &str = "write the array into an Array column, and use `arrayJoin` in ClickHouse";
        let mut first: Option<&Planned<'_>> = None;
        let steps = self.steps.iter().enumerate().filter(|(_, step)| step.is_stateless());
        for ((at, step), _) in steps.zip(bound).filter(|(_, bound)| bound.step.multiplies()) {
            let before = self.steps[..at].iter().find(|step| matches!(step.kind, Kind::Dedup(_)));
            let message = match (&self.results_of, before, first) {
                (Some(of), ..) => format!(
                    "UNNEST is not supported after `{of}`, whose rows combine several records; put it before `{of}`, or {INSTEAD}"
                ),
                (None, Some(dedup), _) => format!(
                    "UNNEST behind `{0}` is not supported: rows of one record would be its duplicates. Put it before `{0}`, whose `key` then has to tell \
                     the rows of a record apart, as in `key: [id, item]`; or {INSTEAD}",
                    dedup.path
                ),
                (None, None, Some(first)) => format!(
                    "the rows of `{}` are made of items already, and one step with UNNEST is possible; write every UNNEST in that query (`flatten` for an array \
                     of arrays), or {INSTEAD}",
                    first.path
                ),
                (None, None, None) if self.view.input.source.format.otlp().is_some() => format!(
                    "UNNEST of `{}` is not supported, because an OTLP request already produces several rows; {INSTEAD}",
                    self.view.input.path
                ),
                (None, None, None) => {
                    first = Some(step);
                    continue;
                }
            };
            return Err(vec![fault(&step.path, message)]);
        }
        Ok(())
    }

    /// As [`Self::bind`], with all that is wrong.
    fn texts_bound(&self, input: &Schema) -> Result<Vec<Bound>, Box<Found>> {
        let mut bound: Vec<Bound> = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            let input = bound.last().map_or(input, |bound| bound.step.schema());
            match self.text_bound(input, step) {
                Some(Ok(made)) => bound.push(made),
                Some(Err(fault)) => {
                    let input = input.clone();
                    return Err(Box::new(self.found(at, bound, input, fault)));
                }
                None => {}
            }
        }
        Ok(bound)
    }

    /// What is wrong from step `at` on, with the steps before it, which are `bound`.
    fn found(&self, at: usize, bound: Vec<Bound>, input: Schema, fault: TextFault) -> Found {
        let stateless = self.steps.iter().enumerate().filter(|(_, step)| step.is_stateless());
        let before = stateless.map(|(at, _)| at).zip(bound);
        let mut found = self.further(at, &input, fault);
        found.bound = before.chain(found.bound).collect();
        found
    }

    /// One step bound to the columns `input`; `None` for one that is no work without state.
    pub(super) fn text_bound(&self, input: &Schema, step: &Planned<'_>) -> Option<Result<Bound, TextFault>> {
        Some(match step.kind {
            Kind::Filter(text) => self.texts.filter(input, text),
            Kind::Select(items) => self.texts.select(input, &shape::items(items), shape::keeps_others(items)),
            Kind::Query(text) => self.texts.query(input, text),
            Kind::Joined(query) => self.texts.behind_join(input, query),
            Kind::Lookup(lookup) => lookups::bound(input, (step.at, step.in_file), lookup),
            Kind::Mark(text) => self.texts.select(input, &[(MARK.to_owned(), text.to_owned())], true),
            Kind::Meet(columns) => union::meeting(input, columns),
            Kind::Dedup(_) | Kind::Window | Kind::Join | Kind::Nothing => return None,
        })
    }

    fn text_faults(&self, found: Vec<(usize, TextFault)>) -> Faults {
        found.into_iter().map(|found| self.text_fault(found)).collect()
    }

    /// A fault of a text, with the line to add if it reads a field that has no type.
    fn text_fault(&self, (at, found): (usize, TextFault)) -> Fault {
        let TextFault { message, at: place, item, unknown, .. } = found;
        let step = &self.steps[at];
        let has_items = !item.is_empty() && !matches!(step.kind, Kind::Mark(_));
        let path = if has_items { format!("{}.{item}", step.path) } else { step.path.clone() };
        Fault { path, at: place, message: message + &self.undeclared_words(unknown, at) }
    }

    /// The line to add if a text behind the first `steps` steps reads a field that has no type; otherwise nothing.
    pub(super) fn undeclared_words(&self, unknown: Option<String>, steps: usize) -> String {
        let mut message = String::new();
        if let Some(Origin::Field(field)) = unknown.map(|name| self.origin(&name, steps))
            && self.results_of.is_none()
        {
            let column = self.union.columns().find(|column| self.union.name_of(&column.name) == field);
            let of_table = column.map(|column| clickhouse::types::name(&column.column_type));
            message += &format!(
                "; if it is a field of the record, declare its type, because no column takes it unchanged: write \
                 `fields: {{ {field}: {} }}` under `{}:`",
                of_table.as_deref().unwrap_or("String"),
                self.view.input.path
            );
        }
        message
    }
}
