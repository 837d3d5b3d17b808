//! The questions about a server and a table.
//!
//! Owns the statements on `system.*` and the reading of a view's declaration. Never writes. Does not own the judgement
//! ([`super::judge`]).

use std::collections::{BTreeMap, BTreeSet};

use dataflow::Remedy;
use futures::future::{join, join3, try_join_all};

use super::{Engine, Facts, Fault, Place, VERSION_MIN};
use crate::client::{Client, QueryError};
use crate::config::TableConfig;
use crate::types::{self, identifier};

/// Views on one table, over all levels: beyond this an insert would not end in time anyway.
const VIEWS_MAX: usize = 64;
/// New connections made to see whether several servers answer: with two behind a balancer that takes turns or draws lots, one
/// in sixteen goes unseen, and the next start sees it.
const NODE_PROBES: usize = 5;

/// A server.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Year and month of its version.
    pub version: (u32, u32),
    /// Its time zone's name.
    pub zone: String,
    /// Default settings of tables: true for replicated ones, name, value.
    pub table_defaults: Vec<(bool, String, u64)>,
}

impl Server {
    /// The default of a table's setting.
    pub fn table_default(&self, replicated: bool, name: &str) -> Option<u64> {
        self.table_defaults.iter().find(|(r, n, _)| *r == replicated && n == name).map(|(_, _, v)| *v)
    }
}

/// A row of `system.tables`, with the table's columns.
#[derive(Clone, Debug, Default)]
pub struct TableRow {
    /// The engine's name.
    pub engine: String,
    /// The engine with its arguments, clauses and settings.
    pub engine_full: String,
    /// The partition key as an expression.
    pub partition_key: String,
    /// The sorting key as an expression.
    pub sorting_key: String,
    /// The identity; zeros where the database has none.
    pub uuid: String,
    /// Where its data lies.
    pub data_paths: String,
    /// The whole declaration.
    pub create_query: String,
    /// The columns, in order.
    pub columns: Vec<ColumnRow>,
}

impl TableRow {
    /// What tells this table from one of the same name made later.
    pub fn identity(&self) -> String {
        let nil = self.uuid.chars().all(|c| matches!(c, '0' | '-'));
        if nil { self.data_paths.clone() } else { self.uuid.clone() }
    }
}

/// A row of `system.columns`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnRow {
    /// The name.
    pub name: String,
    /// The type as the server writes it.
    pub type_name: String,
    /// Empty, `DEFAULT`, `MATERIALIZED`, `ALIAS` or `EPHEMERAL`.
    pub default_kind: String,
    /// The expression behind it.
    pub default_expression: String,
}

impl ColumnRow {
    /// True if an insert may name the column and the value is kept.
    pub fn is_stored_as_sent(&self) -> bool {
        matches!(self.default_kind.as_str(), "" | "DEFAULT")
    }
}

/// A materialized view and its target.
#[derive(Clone, Debug)]
pub struct View {
    /// `database.view`.
    pub name: String,
    /// Database and table of the target.
    pub target_path: (String, String),
    /// The target; `None` if there is none of that name.
    pub target: Option<TableRow>,
    /// The view's declaration, with its SELECT.
    pub select: String,
}

impl View {
    /// `database.target`, for people.
    pub fn target_name(&self) -> String {
        format!("{}.{}", self.target_path.0, self.target_path.1)
    }

    /// The same, quoted for a statement.
    pub fn target_quoted(&self) -> String {
        format!("{}.{}", identifier(&self.target_path.0), identifier(&self.target_path.1))
    }
}

impl From<QueryError> for Fault {
    fn from(error: QueryError) -> Self {
        Self { remedy: error.remedy, kind: error.kind, message: error.message, mend: None }
    }
}

/// Reads everything about a table, in two rounds of questions side by side: a start waits for them.
pub async fn facts(client: &Client, config: &TableConfig) -> Result<Facts, Fault> {
    let table = table(client, &config.database, &config.table);
    let (server, table) = join(server(client), table).await;
    // What the server is comes first: one that is too old answers the other questions wrongly.
    let server = server?;
    let Some((table, dependencies)) = table? else {
        return Ok(Facts { server, table: None, views: Vec::new(), nodes: Vec::new() });
    };
    let replicated = Engine::read(&table.engine, &table.engine_full).is_ok_and(|e| e.replicated);
    let nodes = async { if replicated { Ok(Vec::new()) } else { nodes(client).await } };
    let (nodes, views) = join(nodes, views(client, dependencies)).await;
    let (nodes, views) = (nodes?, views?);
    Ok(Facts { server, table: Some(table), views, nodes })
}

async fn server(client: &Client) -> Result<Server, Fault> {
    let defaults = client.rows(
        "SELECT 0, name, value FROM system.merge_tree_settings WHERE name LIKE '%deduplication_window%' \
         UNION ALL SELECT 1, name, value FROM system.replicated_merge_tree_settings WHERE name LIKE '%deduplication_window%'",
        &[],
    );
    // In the oldest form that there is: a server too old for the rest must still be told apart.
    let (text, zone, defaults) =
        join3(client.query("SELECT version()", &[], &[]), client.rows("SELECT timezone()", &[]), defaults)
            .await;
    let text = text?;
    let mut numbers = text.trim().split('.').map(|n| n.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < VERSION_MIN {
        return Err(Fault::stop(format!(
            "the server is ClickHouse {}; exactly-once insertion needs {}.{} or newer: upgrade the server",
            text.trim(),
            VERSION_MIN.0,
            VERSION_MIN.1
        )));
    }
    let zone: Vec<(String,)> = zone?;
    let zone = zone.into_iter().next().map(|(z,)| z).unwrap_or_default();
    let defaults: Vec<(u8, String, String)> = defaults?;
    let table_defaults =
        defaults.into_iter().filter_map(|(r, n, v)| Some((r == 1, n, v.parse().ok()?))).collect();
    Ok(Server { version, zone, table_defaults })
}

type Dependencies = Vec<(String, String)>;

async fn table(
    client: &Client,
    database: &str,
    name: &str,
) -> Result<Option<(TableRow, Dependencies)>, Fault> {
    let params = [("database", database), ("table", name)];
    type Row = (String, String, String, String, String, String, String, Vec<String>, Vec<String>);
    let (rows, columns) = join(
        client.rows(
            "SELECT engine, engine_full, partition_key, sorting_key, toString(uuid), toString(data_paths), create_table_query, \
             dependencies_database, dependencies_table \
             FROM system.tables WHERE database = {database:String} AND name = {table:String}",
            &params,
        ),
        columns(client, &params),
    )
    .await;
    let rows: Vec<Row> = rows?;
    let Some(row) = rows.into_iter().next() else { return Ok(None) };
    let mut columns = columns?;
    if columns.is_empty() {
        // Every table has a column: another process made it after this question was answered and before the other one was.
        columns = self::columns(client, &params).await?;
    }
    let (engine, engine_full, partition_key, sorting_key, uuid, data_paths, create_query, databases, tables) =
        row;
    let dependencies = databases.into_iter().zip(tables).collect();
    let table =
        TableRow { engine, engine_full, partition_key, sorting_key, uuid, data_paths, create_query, columns };
    Ok(Some((table, dependencies)))
}

async fn columns(client: &Client, params: &[(&str, &str)]) -> Result<Vec<ColumnRow>, Fault> {
    let rows: Vec<(String, String, String, String)> = client
        .rows(
            "SELECT name, type, default_kind, default_expression FROM system.columns \
             WHERE database = {database:String} AND table = {table:String} ORDER BY position",
            params,
        )
        .await?;
    let row = |(name, type_name, default_kind, default_expression)| ColumnRow {
        name,
        type_name,
        default_kind,
        default_expression,
    };
    Ok(rows.into_iter().map(row).collect())
}

/// The views on a table, then those on their targets.
async fn views(client: &Client, mut open: Dependencies) -> Result<Vec<View>, Fault> {
    let mut views = Vec::new();
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    while let Some((database, name)) = open.pop() {
        if !seen.insert((database.clone(), name.clone())) {
            continue;
        }
        if views.len() == VIEWS_MAX {
            return Err(Fault::stop(format!("more than {VIEWS_MAX} materialized views hang on the table")));
        }
        let Some((view, _)) = table(client, &database, &name).await? else { continue };
        // Plain views and dictionaries depend on a table too, and take no part in an insert.
        if view.engine != "MaterializedView" {
            continue;
        }
        let target_path = target_of(&view, &database, &name);
        let target = table(client, &target_path.0, &target_path.1).await?;
        let target = target.map(|(target, next)| {
            open.extend(next);
            target
        });
        views.push(View {
            name: format!("{database}.{name}"),
            target_path,
            target,
            select: view.create_query,
        });
    }
    Ok(views)
}

/// Where a view writes: the table after `TO`, or the hidden table of its own.
pub(super) fn target_of(view: &TableRow, database: &str, name: &str) -> (String, String) {
    // The declaration begins `CREATE MATERIALIZED VIEW database.name [UUID '…'] [REFRESH …] TO database.target (…) AS SELECT`.
    let head = view.create_query.split(" AS SELECT ").next().unwrap_or_default();
    let head = head.split_once('(').map_or(head, |(head, _)| head);
    if let Some((_, target)) = head.split_once(" TO ") {
        let mut parts = path(target);
        if let Some(table) = parts.pop() {
            return (parts.pop().unwrap_or_else(|| database.to_owned()), table);
        }
    }
    let nil = view.uuid.chars().all(|c| matches!(c, '0' | '-'));
    let hidden = if nil { format!(".inner.{name}") } else { format!(".inner_id.{}", view.uuid) };
    (database.to_owned(), hidden)
}

/// The names in `a.b` at the start of a text, with or without backticks.
fn path(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    let mut chars = text.trim_start().chars();
    while let Some(c) = chars.next() {
        let last = parts.len() - 1;
        match c {
            '`' => quoted = !quoted,
            '\\' if quoted => parts[last].extend(chars.next()),
            '.' if !quoted => parts.push(String::new()),
            c if !quoted && (c.is_whitespace() || c == '(') => break,
            c => parts[last].push(c),
        }
    }
    parts.retain(|p| !p.is_empty());
    parts
}

/// The newest block number of each place: it moves with every insert by anyone. Plain tables number their blocks over all
/// partitions. Replicated ones number them inside of each partition, and their replication log has one entry or more for
/// every insert on any replica, so that its newest number stands in.
pub async fn blocks(client: &Client, places: &[Place]) -> Result<Vec<u64>, QueryError> {
    let newest: BTreeMap<(String, String), u64> = {
        let plain = ask_blocks(
            client,
            places.iter().filter(|p| !p.replicated),
            "SELECT database, table, toUInt64(greatest(max(max_block_number), 0)) FROM system.parts",
            "GROUP BY database, table",
        );
        let replicated = ask_blocks(
            client,
            places.iter().filter(|p| p.replicated),
            "SELECT database, table, toUInt64(log_max_index) FROM system.replicas",
            "",
        );
        plain.await?.into_iter().chain(replicated.await?).map(|(d, t, n)| ((d, t), n)).collect()
    };
    // A table without parts has no row, and its first insert moves it from 0 on.
    Ok(places
        .iter()
        .map(|p| newest.get(&(p.database.clone(), p.table.clone())).copied().unwrap_or(0))
        .collect())
}

async fn ask_blocks(
    client: &Client,
    places: impl Iterator<Item = &Place>,
    select: &str,
    end: &str,
) -> Result<Vec<(String, String, u64)>, QueryError> {
    let pairs: Vec<String> =
        places.map(|p| format!("({}, {})", types::quote(&p.database), types::quote(&p.table))).collect();
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    client.rows(&format!("{select} WHERE (database, table) IN ({}) {end}", pairs.join(", ")), &[]).await
}

/// How far a replica is behind: read-only, without its keeper session, entries of the log that it has not fetched.
pub type ReplicaState = (u8, u8, u64);

/// The state of the table's replica on the node that answers.
pub async fn replica(client: &Client, config: &TableConfig) -> Result<Option<ReplicaState>, QueryError> {
    let params = [("database", config.database.as_str()), ("table", config.table.as_str())];
    // Merges in the queue hide no rows; inserts that were not fetched do.
    let rows: Vec<ReplicaState> = client
        .rows(
            "SELECT toUInt8(is_readonly), toUInt8(is_session_expired), \
             toUInt64(inserts_in_queue + greatest(toInt64(log_max_index) - toInt64(log_pointer) + 1, 0)) \
             FROM system.replicas WHERE database = {database:String} AND table = {table:String}",
            &params,
        )
        .await?;
    Ok(rows.into_iter().next())
}

/// Why a replica cannot say that rows are not there; `None` if it can. Without its session a replica does not know how far the
/// log has gone, and shows no lag.
pub fn lag(replica: Option<ReplicaState>) -> Option<String> {
    match replica {
        None => Some("the server does not show the table's replica".into()),
        Some((readonly, expired, _)) if readonly != 0 || expired != 0 => {
            Some("the table's replica has lost its keeper".into())
        }
        Some((_, _, 0)) => None,
        Some((_, _, behind)) => Some(format!("the table's replica is {behind} log entries behind")),
    }
}

/// Who answers on new connections.
async fn nodes(client: &Client) -> Result<Vec<String>, Fault> {
    let fresh = client.without_kept_connections()?;
    let probes = (0..NODE_PROBES).map(|_| fresh.rows("SELECT toString(serverUUID()), hostName()", &[]));
    let rows: Vec<Vec<(String, String)>> =
        try_join_all(probes).await.map_err(|e| Fault { remedy: Remedy::Resend, ..Fault::from(e) })?;
    Ok(rows.into_iter().flatten().map(|(uuid, host)| format!("{uuid} {host}")).collect())
}

#[cfg(test)]
mod tests;
