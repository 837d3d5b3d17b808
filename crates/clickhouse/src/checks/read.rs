//! The questions about the shape of a server and a table: versions, settings, engines, columns, views.
//!
//! Owns the statements on `system.*` and the reading of a view's declaration. Never writes. Does not own the judgement
//! ([`super::judge`]), nor what changes from moment to moment ([`super::sight`]). Every question has exactly one row as its answer, so that
//! an answer that was lost on its way is not taken for "nothing".

use std::collections::{BTreeMap, BTreeSet};

use dataflow::{Remedy, TableFault};
use futures::future::{join, join3, try_join_all};
use serde::de::DeserializeOwned;

use super::{ASYNC_INSERT, Engine, Facts, Fault, Place, VERSION_MIN};
use crate::client::{Client, QueryError};
use crate::config::TableConfig;
use crate::settings::{Known, Of, Shown};
use crate::types::{self, identifier};

/// Views on one table, over all levels: beyond this an insert would not end in time anyway.
const VIEWS_MAX: usize = 64;
/// New connections made to see whether several servers answer: with two behind a balancer that takes turns or draws lots, one
/// in sixteen goes unseen, and the next start sees it.
const NODE_PROBES: usize = 5;

/// From this version on the server says how it remembers inserts.
const VERSION_HASHES: (u32, u32) = (26, 2);
/// Asynchronous inserts that the server took since its start, into any table.
pub(super) const ASYNC_COUNT: &str =
    "(SELECT toUInt64(sum(value)) FROM system.events WHERE event = 'AsyncInsertQuery')";

/// A server.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Year and month of its version.
    pub version: (u32, u32),
    /// The time zone of this user's sessions: the server's own, unless a profile sets one.
    pub zone: String,
    /// Default settings of tables: true for replicated ones, name, value.
    pub table_defaults: Vec<(bool, String, u64)>,
    /// The settings that requests name, as this user has them.
    pub known: Known,
    /// Seconds after which the server gives up an insert by itself.
    pub insert_seconds: u64,
    /// How it remembers inserts.
    pub hashes: Hashes,
    /// True if it says how many asynchronous inserts it took.
    pub counts_async: bool,
    /// Row policies on the table; none if this user may not see them.
    pub policies: Vec<Policy>,
}

/// A row policy on the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// The condition; empty for none.
    pub filter: String,
    /// True if it is for all but some.
    pub to_all: bool,
    /// Users and roles it is for, or, if it is for all, those it is not for.
    pub listed: Vec<String>,
    /// The names of this user and its roles.
    pub own: Vec<String>,
}

impl Policy {
    /// True if it may hide rows from this user.
    pub fn may_hide(&self) -> bool {
        let is_listed = self.listed.iter().any(|name| self.own.contains(name));
        let shows_all = matches!(self.filter.trim(), "" | "1" | "true");
        is_listed != self.to_all && !shows_all
    }
}

/// How a server remembers inserts: its setting `insert_deduplication_version`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hashes {
    /// Synchronous and asynchronous inserts apart, a token each. All versions before 26.2.
    #[default]
    Separate,
    /// Both kinds of hash for every insert.
    Double,
    /// One kind of hash for both kinds of inserts.
    Unified,
    /// It could not be read: the most of all.
    Unknown,
}

impl Hashes {
    /// What the setting says.
    pub fn read(value: Option<&str>) -> Self {
        match value {
            Some("old_separate_hashes") => Self::Separate,
            Some("compatible_double_hashes") => Self::Double,
            Some("new_unified_hash" | "new_unified_hashes") => Self::Unified,
            _ => Self::Unknown,
        }
    }

    /// Tokens that one part uses which holds one insert.
    pub fn per_insert(self) -> u64 {
        match self {
            Self::Separate | Self::Unified => 1,
            Self::Double | Self::Unknown => 2,
        }
    }

    /// True if asynchronous inserts on any replica push out the tokens that a replicated table has of others. Before, they have a
    /// memory of their own.
    fn shares_replicated(self) -> bool {
        matches!(self, Self::Unified | Self::Unknown)
    }
}

impl Server {
    /// Tokens that one step of a place's block number may stand for.
    pub fn tokens_per_block_max(&self, place: &Place) -> u64 {
        // On one server its own count of asynchronous inserts is part of the number.
        let is_counted = if place.replicated { !self.hashes.shares_replicated() } else { self.counts_async };
        let inserts = if is_counted { 1 } else { self.known.async_queries_max() };
        inserts * self.hashes.per_insert()
    }

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
        Self { remedy: error.remedy, kind: error.kind, message: error.message, fix: None }
    }
}

/// A client and the settings that its questions name.
struct Asker<'a> {
    client: &'a Client,
    settings: Vec<(&'static str, String)>,
}

impl Asker<'_> {
    /// The one row of an answer that always has one.
    async fn one<T: DeserializeOwned>(&self, sql: &str, params: &[(&str, &str)]) -> Result<T, QueryError> {
        self.client.one(sql, &borrowed(&self.settings), params).await
    }

    /// The same, or `None` if this user may not ask.
    async fn one_if_allowed<T: DeserializeOwned>(
        &self,
        sql: &str,
        params: &[(&str, &str)],
    ) -> Result<Option<T>, QueryError> {
        self.client.one_if_allowed(sql, &borrowed(&self.settings), params).await
    }
}

pub(crate) fn borrowed<'a>(settings: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    settings.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

/// Reads everything about a table, in rounds of questions side by side: a start waits for them.
pub async fn facts(client: &Client, config: &TableConfig) -> Result<Facts, Fault> {
    // What the server is comes first: one that is too old answers the other questions wrongly.
    let (version, known) = join(version(client), known(client)).await;
    let (version, known) = (version?, known?);
    let of = Of { partitions_max: 1, seconds: 1, zone: String::new(), shared: false };
    let ask = Asker { client, settings: known.look(&of) };
    let (server, table, policies) =
        join3(server(&ask, version), table(&ask, &config.database, &config.table), policies(&ask, config))
            .await;
    let server = Server { known, policies: policies?, ..server? };
    let Some((table, dependencies)) = table? else {
        return Ok(Facts { server, table: None, views: Vec::new(), nodes: Vec::new() });
    };
    let views = views(&ask, dependencies).await?;
    let is_replicated =
        |table: &TableRow| Engine::read(&table.engine, &table.engine_full).is_ok_and(|e| e.replicated);
    let targets = views.iter().filter_map(|view| view.target.as_ref());
    let all_replicated = std::iter::once(&table).chain(targets).all(is_replicated);
    let nodes = if all_replicated { Vec::new() } else { nodes(client, config).await? };
    Ok(Facts { server, table: Some(table), views, nodes })
}

async fn version(client: &Client) -> Result<(u32, u32), Fault> {
    // In the oldest form that there is: a server too old for the rest must still be told apart.
    let text = client.query("SELECT version()", &[], &[]).await?;
    let text = text.trim();
    if text.is_empty() {
        let message = "the answer to `SELECT version()` is empty: look for a proxy that changes answers";
        return Err(Fault { remedy: Remedy::Resend, kind: TableFault::Uncertain, ..Fault::stop(message) });
    }
    let mut numbers = text.split('.').map(|n| n.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < VERSION_MIN {
        return Err(Fault::stop(format!(
            "the server is ClickHouse {text}; exactly-once insertion needs {}.{} or newer: upgrade the server",
            VERSION_MIN.0, VERSION_MIN.1
        )));
    }
    Ok(version)
}

/// The settings as this user has them. Asked without any setting of ours, which would be shown in the place of the profile's.
async fn known(client: &Client) -> Result<Known, QueryError> {
    type Row = (String, String, u8, Option<String>, Option<String>);
    let names: Vec<String> = Known::names().map(types::quote).collect();
    let sql = format!(
        "SELECT currentUser(), groupArray((name, value, readonly, min, max)) FROM system.settings WHERE name IN ({})",
        names.join(", ")
    );
    let (user, rows): (String, Vec<Row>) = client.one(&sql, &[], &[]).await?;
    let row = |(name, value, readonly, min, max)| (name, Shown { value, fixed: readonly != 0, min, max });
    let settings: BTreeMap<String, Shown> = rows.into_iter().map(row).collect();
    if settings.is_empty() {
        return Err(QueryError {
            remedy: Remedy::Resend,
            code: 0,
            kind: TableFault::Uncertain,
            message: "the server shows none of its settings in `system.settings`, so that inserts cannot name those that they rest on; \
                      look for a proxy, or for a setting of this user, that changes answers"
                .into(),
        });
    }
    Ok(Known { user, settings })
}

async fn server(ask: &Asker<'_>, version: (u32, u32)) -> Result<Server, Fault> {
    let defaults = |replicated: u8, table: &str| {
        format!(
            "(SELECT groupArray((toUInt8({replicated}), name, value)) FROM system.{table} \
             WHERE name LIKE '%deduplication_window%' OR name = '{ASYNC_INSERT}')"
        )
    };
    let sql = format!(
        "SELECT timezone(), {}, {}",
        defaults(0, "merge_tree_settings"),
        defaults(1, "replicated_merge_tree_settings")
    );
    let hashes = async {
        if version < VERSION_HASHES {
            return Ok(Hashes::Separate);
        }
        let sql = "SELECT max(value) FROM system.server_settings WHERE name = 'insert_deduplication_version'";
        let value: Option<(String,)> = ask.one_if_allowed(sql, &[]).await?;
        Ok::<_, QueryError>(Hashes::read(value.as_ref().map(|(v,)| v.as_str())))
    };
    let asyncs = format!("SELECT toUInt64({ASYNC_COUNT})");
    let (settings, hashes, asyncs) =
        join3(ask.one(&sql, &[]), hashes, ask.one_if_allowed::<(u64,)>(&asyncs, &[])).await;
    type Defaults = Vec<(u8, String, String)>;
    let (zone, plain, replicated): (String, Defaults, Defaults) = settings?;
    let table_defaults = plain
        .into_iter()
        .chain(replicated)
        .filter_map(|(r, n, v)| Some((r == 1, n, super::engine::number(&v)?)))
        .collect();
    Ok(Server {
        version,
        zone,
        table_defaults,
        known: Known::default(),
        insert_seconds: ask.client.insert_seconds(),
        hashes: hashes?,
        counts_async: asyncs?.is_some(),
        policies: Vec::new(),
    })
}

/// The row policies on the table, as far as this user may see them.
async fn policies(ask: &Asker<'_>, config: &TableConfig) -> Result<Vec<Policy>, QueryError> {
    type Row = (String, String, u8, Vec<String>, Vec<String>);
    let params = [("database", config.database.as_str()), ("table", config.table.as_str())];
    // A policy may be for all tables of a database, which has no table's name.
    let sql = "SELECT arrayConcat([currentUser()], currentRoles()), groupArray((short_name, ifNull(select_filter, ''), \
               toUInt8(apply_to_all), apply_to_list, apply_to_except)) FROM system.row_policies \
               WHERE database = {database:String} AND table IN ({table:String}, '', '*')";
    let seen: Option<(Vec<String>, Vec<Row>)> = ask.one_if_allowed(sql, &params).await?;
    let (own, rows) = seen.unwrap_or_default();
    let policy = |(name, filter, all, list, except): Row| Policy {
        name,
        filter,
        to_all: all != 0,
        listed: if all != 0 { except } else { list },
        own: own.clone(),
    };
    Ok(rows.into_iter().map(policy).collect())
}

type Dependencies = Vec<(String, String)>;

async fn table(
    ask: &Asker<'_>,
    database: &str,
    name: &str,
) -> Result<Option<(TableRow, Dependencies)>, Fault> {
    let params = [("database", database), ("table", name)];
    type Row = (String, String, String, String, String, String, String, Vec<String>, Vec<String>);
    let (rows, columns) = join(
        ask.one::<(Vec<Row>,)>(
            "SELECT groupArray((engine, engine_full, partition_key, sorting_key, toString(uuid), toString(data_paths), \
             create_table_query, dependencies_database, dependencies_table)) \
             FROM system.tables WHERE database = {database:String} AND name = {table:String}",
            &params,
        ),
        columns(ask, &params),
    )
    .await;
    let Some(row) = rows?.0.into_iter().next() else { return Ok(None) };
    let mut columns = columns?;
    if columns.is_empty() {
        // Every table has a column: another process made it after this question was answered and before the other one was.
        columns = self::columns(ask, &params).await?;
    }
    let (engine, engine_full, partition_key, sorting_key, uuid, data_paths, create_query, databases, tables) =
        row;
    let dependencies = databases.into_iter().zip(tables).collect();
    let table =
        TableRow { engine, engine_full, partition_key, sorting_key, uuid, data_paths, create_query, columns };
    Ok(Some((table, dependencies)))
}

async fn columns(ask: &Asker<'_>, params: &[(&str, &str)]) -> Result<Vec<ColumnRow>, Fault> {
    type Row = (u64, String, String, String, String);
    let (mut rows,): (Vec<Row>,) = ask
        .one(
            "SELECT groupArray((position, name, type, default_kind, default_expression)) FROM system.columns \
             WHERE database = {database:String} AND table = {table:String}",
            params,
        )
        .await?;
    rows.sort_by_key(|(position, ..)| *position);
    let row = |(_, name, type_name, default_kind, default_expression)| ColumnRow {
        name,
        type_name,
        default_kind,
        default_expression,
    };
    Ok(rows.into_iter().map(row).collect())
}

/// The views on a table, then those on their targets.
async fn views(ask: &Asker<'_>, mut open: Dependencies) -> Result<Vec<View>, Fault> {
    let mut views = Vec::new();
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    while let Some((database, name)) = open.pop() {
        if !seen.insert((database.clone(), name.clone())) {
            continue;
        }
        if views.len() == VIEWS_MAX {
            return Err(Fault::stop(format!("more than {VIEWS_MAX} materialized views hang on the table")));
        }
        let Some((view, _)) = table(ask, &database, &name).await? else { continue };
        // Plain views and dictionaries depend on a table too, and take no part in an insert.
        if view.engine != "MaterializedView" {
            continue;
        }
        let target_path = target_of(&view, &database, &name);
        let target = table(ask, &target_path.0, &target_path.1).await?;
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

/// Who answers on new connections, and which table of this name it has: servers without an identity are told apart by that.
async fn nodes(client: &Client, config: &TableConfig) -> Result<Vec<String>, Fault> {
    let fresh = client.without_kept_connections()?;
    let params = [("database", config.database.as_str()), ("table", config.table.as_str())];
    let sql = "SELECT toString(serverUUID()), hostName(), (SELECT groupArray(concat(toString(uuid), ' ', toString(data_paths))) \
               FROM system.tables WHERE database = {database:String} AND name = {table:String})";
    let probes = (0..NODE_PROBES).map(|_| fresh.one::<(String, String, Vec<String>)>(sql, &[], &params));
    let rows = try_join_all(probes).await.map_err(|e| Fault { remedy: Remedy::Resend, ..Fault::from(e) })?;
    Ok(rows.into_iter().map(|(uuid, host, tables)| format!("{uuid} {host} {}", tables.join(" "))).collect())
}

#[cfg(test)]
mod tests;
