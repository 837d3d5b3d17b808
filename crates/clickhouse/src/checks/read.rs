//! The questions about the shape of a server and a table: versions, settings, engines, columns, views.
//!
//! Owns the statements on `system.*` and the reading of a view's declaration. Never writes. Does not own the judgement
//! ([`super::judge`]), nor what changes from moment to moment ([`super::sight`]). Every question has exactly one row as its answer, so that
//! an answer that was lost on its way is not taken for "nothing".

mod first;
mod replicas;
mod rights;
mod shape;

use std::collections::{BTreeMap, BTreeSet};

use dataflow::{Remedy, TableFault};
use futures::future::{join, join3, try_join_all};
use serde::de::DeserializeOwned;

pub use self::rights::Lacking;
pub use self::shape::{ColumnRow, Hashes, Policy, Server, TableRow, View};
use super::{ASYNC_INSERT, Engine, Facts, Fault, VERSION_MIN};
use crate::client::{Client, QueryError};
use crate::config::TableConfig;
use crate::settings::{Known, Of, Shown};
use crate::types;

/// Views on one table, over all levels: beyond this an insert would not end in time anyway.
const VIEWS_MAX: usize = 64;
/// New connections made to see whether several servers answer: with two behind a balancer that takes turns or draws lots, one
/// in sixteen goes unseen, and the next start sees it.
const NODE_PROBES: usize = 5;
/// How often they are made at the most, if all that differs is the table.
const NODE_ROUNDS: u32 = 3;
/// How many are made at a poll without a doubt, which comes every five seconds: both servers of a balancer that takes turns.
const NODE_PROBES_OF_POLL: usize = 2;

/// Characters shown of an answer that is no version: enough to tell whose it is.
const VERSION_CHARS_MAX: usize = 100;

/// From this version on the server says how it remembers inserts.
const VERSION_HASHES: (u32, u32) = (26, 2);
/// Asynchronous inserts that the server took since its start, into any table.
pub(super) const ASYNC_COUNT: &str =
    "(SELECT toUInt64(sum(value)) FROM system.events WHERE event = 'AsyncInsertQuery')";

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

/// Reads everything about a table, in rounds of questions side by side: a start waits for them. `known_node` is the one node that answered before, if fewer
/// connections are enough while all of them reach it; of replicas it is the identity that the table has on all of them, and none are made.
pub async fn facts(client: &Client, config: &TableConfig, known_node: Option<&str>) -> Result<Facts, Fault> {
    // What the server is comes first: one that is too old answers the other questions wrongly.
    let (version, known) = join(version(client), known(client)).await;
    let (version, known) = (version?, known?);
    let question_seconds = client.question_seconds();
    let of = Of { partitions_max: 1, seconds: 1, question_seconds, zone: String::new(), shared: false };
    let ask = Asker { client, settings: known.look_as_allowed(&of) };
    let (server, table, policies) =
        join3(server(&ask, version), table(&ask, &config.database, &config.table), policies(&ask, config))
            .await;
    let server = Server { known, policies: policies?, ..server? };
    let Some((table, dependencies)) = table? else {
        let has_database = has_database(&ask, &config.database).await?;
        let may_create = config.create.is_none() || rights::may_create(&ask, config).await?;
        let (views, nodes) = (Vec::new(), Vec::new());
        return Ok(Facts { server, table: None, has_database, may_create, views, nodes });
    };
    let views = views(&ask, dependencies, &server.known.user);
    let (views, lacking) = join(views, rights::lacking(&ask, config, &table)).await;
    let hidden_rows = if server.policies.is_empty() { 0 } else { hidden_rows(&ask, config).await? };
    let (views, server) = (views?, Server { lacking: lacking?, hidden_rows, ..server });
    let is_replicated =
        |table: &TableRow| Engine::read(&table.engine, &table.engine_full).is_ok_and(|e| e.replicated);
    let targets = views.iter().filter_map(|view| view.target.as_ref());
    let all_replicated = std::iter::once(&table).chain(targets).all(is_replicated);
    let nodes = match (all_replicated, known_node) {
        (false, known) => nodes(&ask, config, known).await?,
        (true, Some(known)) => vec![known.to_owned()],
        (true, None) => replicas::identity(&ask, config).await?,
    };
    Ok(Facts { server, table: Some(table), has_database: true, may_create: true, views, nodes })
}

async fn version(client: &Client) -> Result<(u32, u32), Fault> {
    // In the oldest form that there is: a server too old for the rest must still be told apart.
    let text = loop {
        let settings = first::settings(client);
        match client.query("SELECT version()", &borrowed(&settings), &[]).await {
            Err(error) if first::should_retry(client, &settings, &error) => {}
            answer => break answer?,
        }
    };
    let text = text.trim();
    if text.is_empty() {
        let message = "the answer to `SELECT version()` is empty: look for a proxy, or for a setting of this user (`offset`, `additional_result_filter`), \
             that changes answers";
        return Err(Fault { remedy: Remedy::Resend, kind: TableFault::Uncertain, ..Fault::stop(message) });
    }
    let version = version_of(text).map_err(Fault::stop)?;
    if version < VERSION_MIN {
        return Err(Fault::stop(format!(
            "the server is ClickHouse {text}; exactly-once insertion needs {}.{} or newer: upgrade the server",
            VERSION_MIN.0, VERSION_MIN.1
        )));
    }
    Ok(version)
}

/// Major and minor number in the text of a version.
fn version_of(text: &str) -> Result<(u32, u32), String> {
    let mut numbers = text.split('.').map_while(|n| n.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => Ok((major, minor)),
        _ => Err(format!(
            "the answer to `SELECT version()` is `{}`, which is no version of ClickHouse: look for a proxy or a login page at this address",
            types::shorten(text, VERSION_CHARS_MAX)
        )),
    }
}

/// The settings as this user has them. Of those that the question itself names it is shown that the user may set them as they must be; all others are
/// asked for as the profile has them.
pub(crate) async fn known(client: &Client) -> Result<Known, QueryError> {
    type Row = (String, String, u8, Option<String>, Option<String>);
    let names: Vec<String> = Known::names().map(types::quote).collect();
    let sql = format!(
        "SELECT currentUser(), groupArray((name, value, readonly, min, max)) FROM system.settings WHERE name IN ({})",
        names.join(", ")
    );
    let (user, rows): (String, Vec<Row>) = loop {
        let settings = first::settings(client);
        match client.one(&sql, &borrowed(&settings), &[]).await {
            Err(error) if first::should_retry(client, &settings, &error) => {}
            answer => break answer?,
        }
    };
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
        question_seconds: ask.client.question_seconds(),
        hashes: hashes?,
        counts_async: asyncs?.is_some(),
        policies: Vec::new(),
        hidden_rows: 0,
        lacking: Lacking::default(),
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

/// Rows of the table's parts, if this user sees none of them.
async fn hidden_rows(ask: &Asker<'_>, config: &TableConfig) -> Result<u64, QueryError> {
    let sql = format!(
        "SELECT if((SELECT count() FROM (SELECT 1 FROM {} LIMIT 1)) = 0, (SELECT toUInt64(sum(rows)) FROM system.parts WHERE active \
         AND database = {{database:String}} AND table = {{table:String}}), toUInt64(0))",
        config.quoted()
    );
    let params = [("database", config.database.as_str()), ("table", config.table.as_str())];
    // Who may not read the table is told so by name.
    let rows: Option<(u64,)> = ask.one_if_allowed(&sql, &params).await?;
    Ok(rows.map_or(0, |(rows,)| rows))
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

/// Whether the database is there. A user that may not ask is not told that it is not.
async fn has_database(ask: &Asker<'_>, name: &str) -> Result<bool, Fault> {
    let sql = "SELECT count() FROM system.databases WHERE name = {database:String}";
    let count: Option<(u64,)> = ask.one_if_allowed(sql, &[("database", name)]).await?;
    Ok(count.is_none_or(|(count,)| count > 0))
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

/// The views on a table, then those on their targets, as `user` sees them.
async fn views(ask: &Asker<'_>, mut open: Dependencies, user: &str) -> Result<Vec<View>, Fault> {
    let mut views = Vec::new();
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    while let Some((database, name)) = open.pop() {
        if !seen.insert((database.clone(), name.clone())) {
            continue;
        }
        if views.len() == VIEWS_MAX {
            return Err(Fault::stop(format!("more than {VIEWS_MAX} materialized views hang on the table")));
        }
        let Some((mut view, _)) = table(ask, &database, &name).await? else {
            // Or else it was dropped in between.
            if is_listed(ask, &database, &name).await? {
                return Err(hidden_view(&database, &name, user));
            }
            continue;
        };
        // Plain views and dictionaries depend on a table too, and take no part in an insert.
        if view.engine != "MaterializedView" {
            continue;
        }
        if is_nil(&view.uuid)
            && let Some(uuid) = declared_uuid(ask, &database, &name).await?
        {
            view.uuid = uuid;
        }
        let target_path = target_of(&view, &database, &name);
        let target = table(ask, &target_path.0, &target_path.1).await?;
        let target = target.map(|(target, next)| {
            open.extend(next);
            target
        });
        views.push(View {
            name: format!("{database}.{name}"),
            path: (database, name),
            target_path,
            target,
            select: view.create_query,
        });
    }
    Ok(views)
}

/// Whether a table says still that this view hangs on it. It says so to everybody who may see the table.
async fn is_listed(ask: &Asker<'_>, database: &str, name: &str) -> Result<bool, QueryError> {
    let sql = "SELECT count() FROM system.tables WHERE arrayExists((d, t) -> d = {database:String} AND t = {name:String}, \
               dependencies_database, dependencies_table)";
    let (tables,): (u64,) = ask.one(sql, &[("database", database), ("name", name)]).await?;
    Ok(tables > 0)
}

/// Inserts feed a view with the rights of whoever made it, so that nothing else shows it.
fn hidden_view(database: &str, name: &str, user: &str) -> Fault {
    let message = format!(
        "materialized view `{database}.{name}` hangs on the table, and user `{user}` may not see it: whether its target remembers insert tokens is not \
         known, and where it does not, a repeated insert would double its rows"
    );
    let view = format!("{}.{}", types::identifier(database), types::identifier(name));
    let grant = format!("GRANT SHOW TABLES ON {view} TO {}", types::identifier(user));
    Fault { kind: TableFault::Access, ..Fault::fixed_by(message, grant) }
}

fn is_nil(uuid: &str) -> bool {
    uuid.chars().all(|c| matches!(c, '0' | '-'))
}

/// The identity in a view's declaration. A database that lies over others, as the engine in a process has it, shows none in `system.tables`, and
/// still names a view's hidden table by it.
async fn declared_uuid(ask: &Asker<'_>, database: &str, name: &str) -> Result<Option<String>, QueryError> {
    let sql = "SELECT max(extract(create_table_query, 'UUID \\'([0-9a-f-]{36})\\'')) FROM system.tables \
               WHERE database = {database:String} AND name = {table:String} SETTINGS show_table_uuid_in_table_create_query_if_not_nil = 1";
    let found: Option<(String,)> =
        ask.one_if_allowed(sql, &[("database", database), ("table", name)]).await?;
    Ok(found.map(|(uuid,)| uuid).filter(|uuid| !uuid.is_empty()))
}

/// Where a view writes: the table after `TO`, or the hidden table of its own.
pub(super) fn target_of(view: &TableRow, database: &str, name: &str) -> (String, String) {
    // The declaration begins `CREATE MATERIALIZED VIEW database.name [UUID '…'] [REFRESH …] TO database.target (…) AS SELECT`.
    let shown = without_names(&view.create_query);
    let end = shown.find(" AS SELECT ").unwrap_or(shown.len());
    let end = shown[..end].find('(').unwrap_or(end);
    if let Some(at) = shown[..end].find(" TO ") {
        let mut parts = path(&view.create_query[at + " TO ".len()..end]);
        if let Some(table) = parts.pop() {
            return (parts.pop().unwrap_or_else(|| database.to_owned()), table);
        }
    }
    let hidden =
        if is_nil(&view.uuid) { format!(".inner.{name}") } else { format!(".inner_id.{}", view.uuid) };
    (database.to_owned(), hidden)
}

/// The text with another byte for each one within backticks, where brackets and words mean nothing.
fn without_names(text: &str) -> String {
    let (mut quoted, mut is_escaped) = (false, false);
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let is_name = quoted && (is_escaped || c != '`');
        is_escaped = is_name && !is_escaped && c == '\\';
        quoted ^= c == '`' && !is_name;
        match is_name {
            true => shown.extend(std::iter::repeat_n('x', c.len_utf8())),
            false => shown.push(c),
        }
    }
    shown
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
async fn nodes(ask: &Asker<'_>, config: &TableConfig, known: Option<&str>) -> Result<Vec<String>, Fault> {
    let fresh = ask.client.without_kept_connections()?;
    let settings = borrowed(&ask.settings);
    let params = [("database", config.database.as_str()), ("table", config.table.as_str())];
    let sql = "SELECT toString(serverUUID()), hostName(), (SELECT groupArray(concat(toString(uuid), ' ', toString(data_paths))) \
               FROM system.tables WHERE database = {database:String} AND name = {table:String})";
    let meet = async |count| {
        let nodes = try_join_all((0..count).map(|_| fresh.one::<Node>(sql, &settings, &params))).await;
        nodes.map_err(|e| Fault { remedy: Remedy::Resend, ..Fault::from(e) })
    };
    let named = |nodes: &[Node]| -> Vec<String> {
        nodes.iter().map(|(uuid, host, tables)| format!("{uuid} {host} {}", tables.join(" "))).collect()
    };
    if let Some(known) = known {
        let met = named(&meet(NODE_PROBES_OF_POLL).await?);
        if met.iter().all(|node| node == known) {
            return Ok(met);
        }
    }
    let mut round = 1;
    loop {
        let nodes = meet(NODE_PROBES).await?;
        if round == NODE_ROUNDS || !differ_in_the_table_alone(&nodes) {
            return Ok(named(&nodes));
        }
        round += 1;
    }
}

/// The identity of a server, its host, and the identity of the table there.
type Node = (String, String, Vec<String>);

/// True if these may be one server, on which another table got the name meanwhile (`EXCHANGE TABLES`, `RENAME`): they are asked again, and copies of a machine,
/// which call themselves the same, differ again.
fn differ_in_the_table_alone(nodes: &[Node]) -> bool {
    nodes.windows(2).all(|two| (&two[0].0, &two[0].1) == (&two[1].0, &two[1].1))
        && nodes.windows(2).any(|two| two[0].2 != two[1].2)
}

#[cfg(test)]
mod tests;
