//! SQL as the meaning of the planner's texts.
//!
//! Owns the way from `sql`'s steps and faults to the planner's, and what a program that was built without SQL says. Does not own the
//! dialect.

use dataflow::Schema;

use crate::config::model::join::JoinQuery;
use crate::plan::{Bound, TextFault, Texts};

/// Gives the planner's texts the meaning of SQL.
pub struct Sql;

#[cfg(feature = "sql")]
impl Texts for Sql {
    fn filter(&self, input: &Schema, text: &str) -> Result<Bound, TextFault> {
        sql::filter(input, text, "filter").map(bound).map_err(fault)
    }

    fn select(
        &self,
        input: &Schema,
        items: &[(String, String)],
        keep_others: bool,
    ) -> Result<Bound, TextFault> {
        sql::select(input, items, keep_others, "select").map(bound).map_err(fault)
    }

    fn query(&self, input: &Schema, text: &str) -> Result<Bound, TextFault> {
        sql::query(input, text, "sql").map(bound).map_err(fault)
    }

    fn behind_join(&self, input: &Schema, query: &JoinQuery) -> Result<Bound, TextFault> {
        sql::behind_join(input, &query.text, &query.times, "sql").map(bound).map_err(fault)
    }
}

#[cfg(feature = "sql")]
fn bound(step: sql::Step) -> Bound {
    let reads = step.reads().to_vec();
    let passes = step.passes().map(|(made, from)| (made.to_owned(), from.to_owned())).collect();
    Bound { step: std::sync::Arc::new(step), reads, passes }
}

#[cfg(feature = "sql")]
fn fault(fault: sql::Fault) -> TextFault {
    let sql::Fault { message, at, item, column } = fault;
    let (unknown, twice) = match column {
        Some(sql::Misnamed::Unknown(name)) => (Some(name), None),
        Some(sql::Misnamed::Twice(name)) => (None, Some(name)),
        None => (None, None),
    };
    TextFault { message, at, item, unknown, twice }
}

#[cfg(not(feature = "sql"))]
impl Texts for Sql {
    fn filter(&self, _: &Schema, _: &str) -> Result<Bound, TextFault> {
        Err(left_out())
    }

    fn select(&self, _: &Schema, _: &[(String, String)], _: bool) -> Result<Bound, TextFault> {
        Err(left_out())
    }

    fn query(&self, _: &Schema, _: &str) -> Result<Bound, TextFault> {
        Err(left_out())
    }

    fn behind_join(&self, _: &Schema, _: &JoinQuery) -> Result<Bound, TextFault> {
        Err(left_out())
    }
}

#[cfg(not(feature = "sql"))]
fn left_out() -> TextFault {
    let message =
        "this program was built without SQL; build it with the feature `sql`, as it is by default".into();
    TextFault { message, at: None, item: String::new(), unknown: None, twice: None }
}
