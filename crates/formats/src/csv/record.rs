//! One record after the other into the columns of a batch, by a plan.
//!
//! Owns the walk over a record's fields, what an empty field becomes, and that a record that is turned down leaves nothing behind. Does not
//! own blocks and rejects ([`super`]), nor where a field ends ([`super::scan`]).

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;

use super::Target;
use super::fault::{Fault, Step};
use super::plan::{Fill, Plan};
use super::scan::{Dialect, Field, Fields, Form};
use crate::columns::TypedColumn;

/// The columns of a batch while it is decoded.
pub(super) struct Rows<'s> {
    dialect: Dialect,
    plan: &'s Plan,
    targets: &'s [Target],
    null: &'s [u8],
    columns: Vec<Box<dyn TypedColumn>>,
    /// The rows that are complete.
    rows: usize,
    /// The text of a field with doubled quotes.
    scratch: Vec<u8>,
}

impl<'s> Rows<'s> {
    /// No rows yet.
    pub fn new(
        dialect: Dialect,
        plan: &'s Plan,
        targets: &'s [Target],
        null: &'s str,
        expected: usize,
    ) -> Self {
        let columns = targets.iter().map(|target| target.pattern.fresh(expected)).collect();
        Self { dialect, plan, targets, null: null.as_bytes(), columns, rows: 0, scratch: Vec::new() }
    }

    /// Appends a record. After an error all columns are as they were before.
    #[inline]
    pub fn push(&mut self, record: &[u8]) -> Step<()> {
        let walked = self.walk(record);
        match walked {
            Ok(()) => self.rows += 1,
            Err(_) => self.columns.iter_mut().for_each(|column| column.truncate(self.rows)),
        }
        walked
    }

    /// The columns as Arrow arrays, in the order of the schema.
    pub fn finish(self) -> Result<Vec<ArrayRef>, ArrowError> {
        self.columns.into_iter().map(|column| column.finish()).collect()
    }

    #[inline]
    fn walk(&mut self, record: &[u8]) -> Step<()> {
        let plan = self.plan;
        let mut fields = Fields::new(record, self.dialect);
        for (found, fill) in plan.fields.iter().enumerate() {
            let field = match fields.step() {
                Ok(Some(field)) => field,
                Ok(None) => return Err(self.too_few(found, fields.position())),
                Err(fault) => return Err(fault.of(fill)),
            };
            match fill {
                Fill::Skip => {}
                Fill::One(column) => self.fill(*column, field)?,
                Fill::Several(columns) => columns.iter().try_for_each(|column| self.fill(*column, field))?,
            }
        }
        let end = fields.position();
        if fields.step()?.is_some() {
            return Err(self.too_many(end));
        }
        for column in &plan.absent {
            let appended = self.targets[*column].absence.append(&mut *self.columns[*column]);
            appended.map_err(|misfit| Fault::value(*misfit, b"", *column))?;
        }
        Ok(())
    }

    #[inline(always)]
    fn fill(&mut self, column: usize, field: Field<'_>) -> Step<()> {
        if field.form == Form::Plain && (field.raw.is_empty() || field.raw == self.null) {
            return self.nothing(column, field);
        }
        self.text(column, field)
    }

    #[inline(always)]
    fn text(&mut self, column: usize, field: Field<'_>) -> Step<()> {
        let text = match field.text(&mut self.scratch) {
            Ok(text) => text,
            Err(fault) => return Err(fault.in_column(column)),
        };
        match self.columns[column].text(text) {
            Ok(()) => Ok(()),
            Err(misfit) => Err(Fault::value(*misfit, text.as_bytes(), column)),
        }
    }

    /// A field without a value.
    #[inline(never)]
    fn nothing(&mut self, column: usize, field: Field<'_>) -> Step<()> {
        let target = &self.targets[column];
        if target.takes_empty && field.raw.is_empty() {
            return self.text(column, field);
        }
        let appended = target.absence.append(&mut *self.columns[column]);
        appended.map_err(|misfit| Fault::value(*misfit, field.raw, column))
    }

    #[cold]
    fn too_few(&self, found: usize, at: usize) -> Box<Fault> {
        let wanted = self.plan.fields.len();
        Fault::bytes(at, format!("the record ends after field `{found}` of `{wanted}`"))
    }

    #[cold]
    fn too_many(&self, at: usize) -> Box<Fault> {
        let wanted = self.plan.fields.len();
        Fault::bytes(at, format!("the record has more than `{wanted}` fields, and there are no more names"))
    }
}
