//! The meaning of texts, as the planner asks for it.
//!
//! Owns the seam between the planner and whoever reads expressions ([`Texts`]), and what such a text becomes. Does not own the meaning, which `sql` has.

use std::ops::Range;
use std::sync::Arc;

use dataflow::{Schema, Transform};

use crate::config::model::join::JoinQuery;

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFault {
    /// The sentence, with the way out.
    pub message: String,
    /// The bytes of the text that are concerned; `None` for all of it.
    pub at: Option<Range<usize>>,
    /// The name of the computed column whose text it is; empty for a filter and a query.
    pub item: String,
    /// The column that the text reads and the input does not have, if that is the fault.
    pub unknown: Option<String>,
    /// The column that a query makes twice, if that is the fault.
    pub twice: Option<String>,
}

/// A step that a text became.
pub struct Bound {
    /// The step.
    pub step: Arc<dyn Transform>,
    /// The columns of its input that its texts read.
    pub reads: Vec<String>,
    /// The columns that pass untouched: the name in its rows and the name in its input.
    pub passes: Vec<(String, String)>,
}

/// The meaning of texts: SQL, but for tests of the planner alone.
pub trait Texts {
    /// Rows for which the text is true.
    ///
    /// # Errors
    /// When the text is no condition over the columns of `input`.
    fn filter(&self, input: &Schema, text: &str) -> Result<Bound, TextFault>;

    /// Rows of these columns: name and text of each; with `keep_others` the columns of `input` stay that are not named.
    ///
    /// # Errors
    /// When a text is no expression over the columns of `input`.
    fn select(
        &self,
        input: &Schema,
        items: &[(String, String)],
        keep_others: bool,
    ) -> Result<Bound, TextFault>;

    /// What a query makes of the rows.
    ///
    /// # Errors
    /// When the text is no query over the columns of `input`.
    fn query(&self, input: &Schema, text: &str) -> Result<Bound, TextFault>;

    /// What a query that joins two inputs makes of the joined rows.
    ///
    /// # Errors
    /// When it does not fit the columns of `input`.
    fn behind_join(&self, input: &Schema, query: &JoinQuery) -> Result<Bound, TextFault>;
}
