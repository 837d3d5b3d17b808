//! The columns that frames were made for, beside those that their tables have now.
//!
//! Owns the judgement of a start and of a running lane: whether frames that wait still fit, and whether the lane should be opened
//! again for the columns of now. Does not own what a change means for one frame (the table does), nor the numbers ([`protocol::lane`]).
//!
//! | frames that wait        | the table has now                       | a start      | a running lane            |
//! |-------------------------|-----------------------------------------|--------------|---------------------------|
//! | fit, or can be made to  | more columns, or wider ones             | goes on      | is opened again           |
//! | fit, or can be made to  | narrower columns                        | goes on      | goes on with its own      |
//! | hold a column that is gone | –                                    | refuses, before it seals anything | goes on sealing; those with a value there wait |
//! | hold a column that was gone when the table was opened | that column | opens it again, before it seals anything | is opened again |
//! | none                    | fewer columns than the newest frame had | goes on without, and says so | –         |
//! | fit, or can be made to  | a materialized view that it had not     | goes on      | is opened again           |

use std::collections::BTreeMap;
use std::sync::Arc;

use dataflow::{Fit, Layout, LayoutColumn, TYPE_DEFAULT, Table};
use protocol::Lane;
use protocol::lane::TableState;
use protocol::record;
use tokio::sync::Mutex;

use crate::EngineError;
use crate::journal::Journal;
use crate::tables::Tables;
use crate::target::Target;

/// A layout as a part of a record.
pub fn to_record(layout: &Layout) -> Vec<record::LayoutColumn> {
    let column = |c: &LayoutColumn| record::LayoutColumn {
        name: c.name.clone(),
        type_name: c.type_name.clone(),
        default: c.default.clone(),
        is_required: c.is_required,
    };
    layout.columns.iter().map(column).collect()
}

/// A layout from a record.
pub fn from_record(layout: &record::Layout) -> Layout {
    let column = |c: &record::LayoutColumn| LayoutColumn {
        name: c.name.clone(),
        type_name: c.type_name.clone(),
        default: c.default.clone(),
        is_required: c.is_required,
    };
    Layout { columns: layout.columns.iter().map(column).collect() }
}

/// Whether every frame that waits can go to its table as that is now, as far as its columns tell. Asked before the claim: a
/// start that is refused has read and sealed nothing.
///
/// # Errors
/// When a frame holds a column that is gone, with the way out.
pub fn check(lane: &Lane, tables: &Tables) -> Result<(), EngineError> {
    for (table, state) in known(lane, tables) {
        for layout in state.live_layouts() {
            let (Fit::No { words } | Fit::Without { words }) = table.fit(&from_record(&layout)) else {
                continue;
            };
            let live = state.pending.iter().flatten().filter(|piece| piece.is_live());
            let waiting = live.filter(|piece| piece.frame.layout == layout.number).count();
            return Err(EngineError::Mismatch(format!(
                "{waiting} sealed inserts wait for table `{}` and were made when it had other columns: {words}; then start again. \
                 Nothing is lost, and nothing was read or sealed by this start. If the column was dropped on purpose, give it \
                 back, let the inserts arrive (`forebay run FILE --drain`), and drop it again",
                table.name()
            )));
        }
    }
    Ok(())
}

/// The first table that was opened without a column that frames which wait hold, and has it back since: rows sealed now would lack it.
pub fn has_back(lane: &Lane, tables: &Tables) -> Option<String> {
    let mut known = known(lane, tables);
    let found = known.find(|(table, state)| {
        let (opened, now) = (table.layout(), table.changed());
        let is_back = |column: &record::LayoutColumn| {
            let now = now.as_ref().and_then(|now| now.column(&column.name));
            opened.column(&column.name).is_none() && now.is_some()
        };
        state.live_layouts().iter().flat_map(|layout| &layout.columns).any(is_back)
    });
    found.map(|(table, _)| table.name().to_owned())
}

/// Columns of each table that were added after it was first written, and that every record would have to give: a record without
/// them is to get the type's own zero value instead, as the rows before it have.
pub fn added(lane: &Lane, tables: &Tables) -> BTreeMap<String, Vec<String>> {
    let added = tables.of_rows().iter().map(|table| (table.name().to_owned(), added_to(lane, &**table)));
    added.filter(|(_, columns)| !columns.is_empty()).collect()
}

/// The same of one table.
pub fn added_to(lane: &Lane, table: &dyn Table) -> Vec<String> {
    let Some(newest) = lane.table(table.name()).and_then(|at| lane.tables[at].newest_layout()) else {
        return Vec::new();
    };
    let newest = from_record(&newest);
    let is_added = |c: &&LayoutColumn| {
        let before = newest.column(&c.name);
        let is_new = before.is_none_or(|before| before.default == TYPE_DEFAULT);
        c.is_required && is_new && !table.has_no_zero(&c.name)
    };
    table.layout().columns.iter().filter(is_added).map(|c| c.name.clone()).collect()
}

/// Says how the table's columns differ from those of the newest frame.
pub fn tell(lane: &Lane, tables: &Tables) {
    for (table, state) in known(lane, tables) {
        let (now, Some(newest)) = (table.layout(), state.newest_layout()) else { continue };
        let newest = from_record(&newest);
        if now == newest || now.columns.is_empty() {
            continue;
        }
        let changes = newest.difference(&now);
        let is_dropped = |column: &&LayoutColumn| now.column(&column.name).is_none();
        let dropped: Vec<&str> =
            newest.columns.iter().filter(is_dropped).map(|column| column.name.as_str()).collect();
        if dropped.is_empty() {
            tracing::info!(
                table = table.name(),
                changes,
                "the table's columns have changed; new rows use the new columns"
            );
        } else {
            tracing::warn!(
                table = table.name(),
                changes,
                "columns were dropped from the table; no pending insert uses them; continuing without them"
            );
        }
        let zeros = now.columns.iter().filter(|column| column.default == TYPE_DEFAULT);
        for column in zeros.filter(|column| newest.column(&column.name).is_none()) {
            tracing::warn!(
                table = table.name(),
                column = column.name,
                "the new column has neither NULL nor a DEFAULT: records without it get the type's zero value, as existing rows do; give \
                 the column a DEFAULT if that is wrong"
            );
        }
    }
}

/// Whether the lane should end in order and be opened again: the table has more or wider columns than frames are made for, or it
/// feeds a view that it did not, and nothing that waits is in the way.
pub async fn should_reopen(target: &Target, journal: &Mutex<Journal>) -> bool {
    let table = &target.table;
    // The columns of the dead letters are the program's own.
    let changed = table.changed();
    let has_changed = changed.is_some() && !target.takes_dead_letters;
    if !has_changed && !table.must_reopen()
        || !matches!(table.fit(&table.layout()), Fit::AsIs | Fit::Again { always: true })
    {
        return false;
    }
    let waiting = {
        let journal = journal.lock().await;
        journal.lane().tables[target.index as usize].live_layouts()
    };
    let waits = waiting
        .iter()
        .any(|layout| matches!(table.fit(&from_record(layout)), Fit::No { .. } | Fit::Without { .. }));
    // A look at the table may have ended meanwhile: what was changed then, and what fits now, are of two tables.
    !waits && table.changed() == changed
}

fn known<'a>(
    lane: &'a Lane,
    tables: &'a Tables,
) -> impl Iterator<Item = (&'a Arc<dyn Table>, &'a TableState)> {
    tables.all().filter_map(|(table, _)| Some((table, &lane.tables[lane.table(table.name())?])))
}
