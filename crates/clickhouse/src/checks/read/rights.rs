//! The questions about what this user may do with a table.
//!
//! Owns the statements `CHECK GRANT` and the reading of their answers. Does not own what follows from a right that is missing
//! ([`super::super::rights`]).

use futures::future::join;

use super::{Asker, Fault, TableRow, borrowed};
use crate::checks::PROVENANCE;
use crate::config::TableConfig;
use crate::response::limits;
use crate::types::identifier;
use dataflow::Remedy;

/// Rights on a table that this user does not have; none if the server cannot say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacking {
    /// To insert into the columns that inserts name.
    pub insert: bool,
    /// To read the columns by which the rows of an insert are looked for.
    pub select: bool,
}

/// Whether this user may make the table. A server that cannot say so is asked by the statement itself.
pub(super) async fn may_create(ask: &Asker<'_>, config: &TableConfig) -> Result<bool, Fault> {
    // With it off nothing counts as granted. Whoever has it off may not name it, and is told so.
    is_granted(ask, config, "CREATE TABLE", &[("allow_ddl", "1")]).await
}

/// What this user may not do with a table that is there. Of one with all rights it is one question.
pub(super) async fn lacking(
    ask: &Asker<'_>,
    config: &TableConfig,
    table: &TableRow,
) -> Result<Lacking, Fault> {
    if is_granted(ask, config, "SELECT, INSERT", &[]).await? {
        return Ok(Lacking::default());
    }
    // Rights may be granted on columns alone.
    let select = of_columns("SELECT", looked_for(config, table));
    let insert = of_columns("INSERT", named_by_inserts(config, table));
    let is_lacking = async |right: Option<String>| match right {
        Some(right) => is_granted(ask, config, &right, &[]).await.map(|is_granted| !is_granted),
        None => Ok(false),
    };
    let (select, insert) = join(is_lacking(select), is_lacking(insert)).await;
    Ok(Lacking { select: select?, insert: insert? })
}

/// The columns by which the rows of an insert are looked for; none where nothing names them.
fn looked_for<'a>(config: &'a TableConfig, table: &'a TableRow) -> Vec<&'a str> {
    match table.columns.iter().find(|column| column.name == PROVENANCE) {
        Some(provenance) => vec![provenance.name.as_str()],
        None => config.unique_key.iter().map(String::as_str).collect(),
    }
}

fn named_by_inserts<'a>(config: &'a TableConfig, table: &'a TableRow) -> Vec<&'a str> {
    let is_named = |name: &str| match &config.columns {
        Some(columns) => name == PROVENANCE || columns.iter().any(|column| column == name),
        None => true,
    };
    let stored = table.columns.iter().filter(|column| column.is_stored_as_sent() && is_named(&column.name));
    stored.map(|column| column.name.as_str()).collect()
}

/// A right on these columns; `None` if there are none.
fn of_columns(right: &str, columns: Vec<&str>) -> Option<String> {
    let columns: Vec<String> = columns.into_iter().map(identifier).collect();
    (!columns.is_empty()).then(|| format!("{right}({})", columns.join(", ")))
}

async fn is_granted(
    ask: &Asker<'_>,
    config: &TableConfig,
    rights: &str,
    more: &[(&str, &str)],
) -> Result<bool, Fault> {
    // It takes no FORMAT.
    let sql = format!("CHECK GRANT {rights} ON {}", config.quoted());
    let settings = [&borrowed(&ask.settings)[..], more].concat();
    match ask.client.query(&sql, &settings, &[]).await {
        Ok(answer) => Ok(answer.trim() != "0"),
        Err(error) if limits::limit(error.code, &error.message).is_some() => Err(error.into()),
        // Servers before 24.10 do not know the statement.
        Err(error) if error.remedy == Remedy::Stop => Ok(true),
        Err(error) => Err(error.into()),
    }
}
