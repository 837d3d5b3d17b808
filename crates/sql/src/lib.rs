//! SQL text to steps without state ([`dataflow::Transform`]).
//!
//! Owns the dialect: which text is accepted, what types it yields, and where a fault lies in it. Does not own where rows come from or
//! go to, nor the pipeline file; it is the only crate that names DataFusion.
//!
//! | module    | what it owns                                                     |
//! |-----------|------------------------------------------------------------------|
//! | `text`    | the surface: text to syntax tree, places back to bytes           |
//! | `names`   | functions that exist, and those that are refused, with reasons   |
//! | `functions` | our own functions, and bounds on DataFusion's                   |
//! | `types`   | our types in expressions and as results, their names in `CAST`   |
//! | `exact`   | constants, inserted casts and arithmetic that lose nothing       |
//! | `coarser` | times with fewer digits                                          |
//! | `kinds`   | UUIDs, addresses and Enums: which expressions give them, and their one text |
//! | `canonical` | constants beside those, and what their texts cannot answer     |
//! | `nullable`| which results can be NULL                                        |
//! | `compile` | tree to typed expression, and the place of a fault               |
//! | `query`   | the clauses of `SELECT … FROM input WHERE …`                     |
//! | `layers`  | queries within queries, one behind the other                     |
//! | `joined`  | `SELECT … FROM a JOIN b ON …`: the settings of joins, and what stands behind them |
//! | `windowed` | `SELECT … FROM TUMBLE(…) GROUP BY …`: the settings of a window   |
//! | `reference` | the page that lists every function                             |
//! | `operand` | columns as expressions read them: UUID, IP, Enum as text         |
//! | `program` | the evaluation of batches, and the rows that fail                |
//! | `step`    | [`Step`]: which rows go on with which columns                    |
//! | `unnest`  | the rows of a record's array, and how many they may be           |
//! | `sizes`   | the bytes of values, and how many of them may be repeated        |
//! | `fault`   | [`Fault`]: what is wrong, where, and what was probably meant     |
//!
//! A step is deterministic: the same record gives the same rows, whichever records stand beside it. Functions of the clock or of chance
//! are refused, and whether a record fails is decided for it alone (but for a batch whose rows of `UNNEST` would not fit into memory).

mod canonical;
mod coarser;
mod compile;
mod exact;
mod fault;
mod functions;
mod joined;
mod kinds;
mod layers;
mod names;
mod nullable;
mod operand;
mod panics;
mod program;
mod query;
mod reference;
mod sizes;
mod step;
mod text;
mod types;
mod unnest;
mod windowed;

use dataflow::Schema;

pub use fault::{Fault, Misnamed};
pub use joined::{Join, JoinKind, Joined, Matching, Pair, Qualified, Table, Times};
pub use layers::{Layer, Role, place};
pub use reference::reference;
pub use step::Step;
pub use windowed::{TIME as WINDOW_TIME, WindowKind, Windowed};

/// Rows for which `text` is true go on; those for which it is false or NULL are filtered. `name` is the step's in the pipeline.
///
/// # Errors
/// When the text is no condition over the columns of `input`.
pub fn filter(input: &Schema, text: &str, name: &str) -> Result<Step, Fault> {
    with_room(|| Step::filter(input, text, name))
}

/// Computes columns: `items` are names and expressions over the columns of `input`. One with the name of a column of `input` takes its
/// place; the others follow. With `keep_others` the columns of `input` stay, without it only `items` go on.
///
/// # Errors
/// When a text is no expression over the columns of `input`; [`Fault::item`] names the item.
pub fn select(
    input: &Schema,
    items: &[(String, String)],
    keep_others: bool,
    name: &str,
) -> Result<Step, Fault> {
    with_room(|| Step::select(input, items, keep_others, name))
}

/// Runs `SELECT … FROM input WHERE …`: the condition first, then the columns. An `UNNEST(array)` among the items makes a row of each item
/// of the array; a record whose array is empty or NULL is filtered.
///
/// # Errors
/// When the text is no such query over the columns of `input`.
pub fn query(input: &Schema, text: &str, name: &str) -> Result<Step, Fault> {
    with_room(|| Step::query(input, text, name))
}

/// The queries of a text that are one within the other, the innermost first; each reads the rows of the one before as `input`. A query over windows with
/// conditions, or expressions over results, is several. `is_aggregate` says of the name of a function whether it is one.
///
/// # Errors
/// When a query of WITH reads itself, or none reads it, or when a condition on records has an aggregate.
pub fn layers(text: &str, is_aggregate: fn(&str) -> bool) -> Result<Vec<Layer>, Fault> {
    with_room(|| windowed::queries(&text::Text::new(text), &is_aggregate))
}

/// The windows of `SELECT … FROM TUMBLE(input, time, INTERVAL '1 minute') GROUP BY …`, or of `HOP`, `CUMULATE` or `SESSION`; `None` for any other
/// text.
///
/// # Errors
/// When it is such a query, and says what windows cannot do.
pub fn windowed(text: &str) -> Result<Option<Windowed>, Fault> {
    with_room(|| windowed::windowed(&text::Text::new(text)))
}

/// The joins of `SELECT … FROM orders AS o JOIN payments AS p ON o.id = p.order_id AND p.time BETWEEN …`; `None` for a text that joins no inputs. `times` says
/// which column holds the time of an input's rows; of an input that is not there it is `_timestamp`.
///
/// # Errors
/// When it joins inputs, and says what joins cannot do.
pub fn joined(text: &str, times: Times<'_>) -> Result<Option<Joined>, Fault> {
    with_room(|| joined::joined(&text::Text::new(text), times))
}

/// What stands behind the last join of such a text: the select list and the filter, over `input`, the joined rows. A column `o.id` of the text is the
/// column of that name ([`Qualified::name`]).
///
/// # Errors
/// When they do not fit the columns of `input`.
pub fn behind_join(input: &Schema, text: &str, times: Times<'_>, name: &str) -> Result<Step, Fault> {
    with_room(|| joined::behind(input, text, times, name))
}

/// Stack for planning: DataFusion takes up to 100 KiB for each expression within another, and [`text::DEPTH_MAX`] of them are read.
const STACK_BYTES: usize = 16 << 20;

/// Plans on a thread that has room for the deepest text, whatever the caller's has.
fn with_room<T: Send>(plan: impl FnOnce() -> Result<T, Fault> + Send) -> Result<T, Fault> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("sql-plan".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, plan);
        let thread = thread
            .map_err(|error| Fault::new(format!("no thread to plan on: {error}; free memory"), None))?;
        thread.join().unwrap_or_else(|panic| {
            let message = panics::message(&*panic);
            Err(Fault::new(
                format!("a function failed inside (`{message}`); please report this with the text"),
                None,
            ))
        })
    })
}

#[cfg(test)]
mod tests;
