//! Whether a table can be written exactly once, and how.
//!
//! Owns the judgement: from facts already read to either a plan or every fault at once, each with the statement that fixes it.
//! Pure. Does not own the questions ([`read`]) or the inserts ([`crate::table`]).
//!
//! | what is asked                                             | why                                                       |
//! |-----------------------------------------------------------|-----------------------------------------------------------|
//! | the server is not older than [`VERSION_MIN`]              | tokens on plain tables, settings that inserts name        |
//! | the engine is of the MergeTree family                     | nothing else remembers tokens                             |
//! | the table remembers tokens                                | a repeated insert would double rows, without any error    |
//! | so does every materialized view's target                  | each has a log of its own                                 |
//! | the memory holds every insert under way, four times       | a token must outlive its insert and the others', within half of what is remembered |
//! | an insert may take less than half of a token's age        | the same, where tokens are forgotten by age               |
//! | the table is not asynchronous by its own setting          | that setting wins over the request's, and shares parts    |
//! | the user may set what requests name                       | [`crate::settings`]                                       |
//! | no row policy hides rows from the user, if it may be seen | a probe would call them absent                            |
//! | no column by which rows are found expires                 | the same                                                  |
//! | `provenance: true` finds a `_forebay` column              | beyond the token memory only a probe of the rows shows           |
//! | the partition key depends on sent columns, by known functions | a token is known inside one partition only            |
//! | one node, if the table or a target is not replicated      | each node has a log of its own                            |
//! | one identity of the table on all replicas                 | each other one would count as another table ([`read`])    |
//! | with `upsert`: what [`upsert`] asks                       | rows must replace each other as the pipeline means it     |

mod chosen;
mod columns;
mod declared;
mod engine;
mod literal;
mod memory;
pub mod read;
mod results;
mod rights;
pub mod sight;
mod ttl;
mod upsert;
mod views;

use std::collections::BTreeMap;

use dataflow::{Column, ColumnType, Remedy, Schema, TableFault};

use crate::config::{CreateTable, TableConfig, Upsert};
use crate::partition::PartitionKey;
use crate::settings::Of;
use crate::sort::SortKey;
use crate::types::identifier;
use crate::upsert::{Places, VERSION};
pub use declared::{ColumnFault, declared};
pub use engine::Engine;
pub use memory::Memory;
use memory::{check_room, check_window, on_each_replica};
use read::{Server, TableRow, View};
use views::{VIEW_PARTITIONS_MAX, check_view, is_unpartitioned};

/// Tokens on plain tables came with 22.2, the last of the settings that inserts name some releases later; from this long-term
/// release on all are there.
pub const VERSION_MIN: (u32, u32) = (23, 3);
/// Tokens travel to the targets of materialized views in their present form since 24.7, with fixes in the release after it.
pub const VERSION_MIN_VIEWS: (u32, u32) = (24, 8);
/// The oldest version for tables with columns of type `JSON`: from it on the type is no experiment any more.
pub const VERSION_MIN_JSON: (u32, u32) = (25, 3);
/// The column that holds a row's frame.
pub const PROVENANCE: &str = "_forebay";
/// What a created table remembers, and what is advised: ClickHouse's own default for replicated tables.
pub const WINDOW: u64 = 10_000;
/// The setting of a table that makes inserts asynchronous, whatever the request says.
const ASYNC_INSERT: &str = "async_insert";

/// One reason why a table cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `Resend` if it is worth asking again (the server is away), `Stop` if an operator is needed.
    pub remedy: Remedy,
    /// [`TableFault::Differs`] for whatever is wrong with a table that is there.
    pub kind: TableFault,
    /// What is wrong.
    pub message: String,
    /// The statement that fixes it, if one does.
    pub fix: Option<String>,
}

impl Fault {
    pub(crate) fn stop(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::Stop, kind: TableFault::Differs, message: message.into(), fix: None }
    }

    fn fixed_by(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..Self::stop(message) }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.fix {
            Some(fix) => write!(f, "{}; fix it with: {fix}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// What was read of a table: everything that the judgement needs.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The server.
    pub server: Server,
    /// The table; `None` if there is none of that name.
    pub table: Option<TableRow>,
    /// False if the table is not there because its database is not.
    pub has_database: bool,
    /// False if the table is not there and this user has no right to make it; true if that is not known.
    pub may_create: bool,
    /// The views on it and on their targets, however deep.
    pub views: Vec<View>,
    /// Identities that repeated connections met: of servers, or, if all that is written is replicated, of the table.
    pub nodes: Vec<String>,
}

impl Facts {
    /// Whether a start can make the table.
    pub(crate) fn lacks_table_alone(&self) -> bool {
        self.table.is_none() && self.has_database
    }
}

/// How a table is written.
#[derive(Debug)]
pub struct Plan {
    /// The columns that rows must have.
    pub schema: Schema,
    /// The columns of a frame, but the provenance column: the same, with the version if the engine makes it.
    pub sent: Schema,
    /// Where the columns stand by which rows replace each other, if they do.
    pub upsert: Option<Places>,
    /// The table's columns that are not in a frame: the server computes them, or their types cannot be written, or they are not named.
    pub others: Vec<read::ColumnRow>,
    /// The partition cut.
    pub partition: PartitionKey,
    /// The order of rows, if they are to be sorted and can be.
    pub sort: Option<SortKey>,
    /// True if the table has the provenance column.
    pub provenance: bool,
    /// Where the unique key's columns stand in the schema.
    pub unique_key: Vec<usize>,
    /// True if the order of inserts matters to the engine of the table or of a view's target: one frame in flight.
    pub order_dependent: bool,
    /// True if merges join or drop rows: then rows that are not found may have been there.
    pub merges: bool,
    /// True if rows expire: the same.
    pub expires: bool,
    /// True if the table is replicated, so that the node that answers may lag.
    pub replicated: bool,
    /// True if all nodes read the same parts, so that none lags.
    pub shared: bool,
    /// The table, then every view's target once, by name.
    pub places: Vec<Place>,
    /// True if materialized views hang on the table.
    pub views: bool,
    /// Database and name of each of them.
    pub view_paths: Vec<(String, String)>,
    /// For `max_partitions_per_insert_block`.
    pub partitions_max: u32,
    /// The time zone in which rows fall into partitions.
    pub zone: String,
    /// Settings that every insert names, beside its token.
    pub insert_settings: Vec<(&'static str, String)>,
    /// Settings that every look names.
    pub look_settings: Vec<(&'static str, String)>,
    /// True if the server says how many asynchronous inserts it took.
    pub counts_async: bool,
    /// Tokens that one frame costs at most, in the table or target where it costs most.
    pub parts_per_frame: u64,
    /// Tokens that one step of a block number may stand for, in the place where that is most.
    pub tokens_per_block_max: u64,
    /// Tokens remembered, the smallest over the table and its views' targets.
    pub token_window: u64,
    /// Milliseconds that a token is remembered at least; `u64::MAX` if only the number counts.
    pub token_age_ms_max: u64,
    /// The table's identity.
    pub table_uuid: String,
    /// What an operator should know and need not fix.
    pub notes: Vec<String>,
}

impl Plan {
    /// Whether inserts reach targets of views that they did not reach when the table was `before`, or more partitions of them: a table
    /// that was opened then bounds neither what it sends at once nor what it costs by them.
    pub fn has_more_views_than(&self, before: &Plan) -> bool {
        let is_new = |target: &Place| {
            let mut known = before.places.iter().skip(1);
            !known.any(|known| (&known.database, &known.table) == (&target.database, &target.table))
        };
        self.views && !before.views
            || self.partitions_max > before.partitions_max
            || self.places.iter().skip(1).any(is_new)
    }
}

/// A table that an insert writes to: the one that is named, or a view's target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The database.
    pub database: String,
    /// The table.
    pub table: String,
    /// True if it is replicated.
    pub replicated: bool,
    /// True if all nodes read the same parts.
    pub shared: bool,
}

/// The plan, or every fault.
pub fn judge(facts: &Facts, config: &TableConfig) -> Result<Plan, Vec<Fault>> {
    let mut faults = Vec::new();
    check_version(facts, &mut faults);
    let Some(table) = &facts.table else {
        faults.push(no_table(facts, config));
        return Err(faults);
    };
    let Some(engine) = check_engine(table, &config.name(), &mut faults) else { return Err(faults) };
    let mut memory = check_window(&engine, &config.name(), &config.quoted(), &facts.server, &mut faults);
    check_async(table, &engine, config, &facts.server, &mut faults);
    // A server that writes two hashes for an insert uses up its memory twice as fast.
    let tokens = facts.server.hashes.per_insert();
    check_room(config, &engine, &config.name(), &config.quoted(), memory, tokens, &mut faults);
    let mut partitions_max = 1;
    let mut order_dependent = engine.order_dependent || engine.keeps_last(&table.columns);
    // Two views that feed one target use up its tokens twice.
    let mut targets: BTreeMap<Place, (u64, Engine, Memory, &View)> = BTreeMap::new();
    for view in &facts.views {
        let Some((target, of_target)) = check_view(view, &facts.server, &mut faults) else { continue };
        let keeps_last = view.target.as_ref().is_some_and(|table| target.keeps_last(&table.columns));
        order_dependent |= target.order_dependent || keeps_last;
        memory = memory.and(of_target);
        let partitioned = view.target.as_ref().is_some_and(|t| !is_unpartitioned(&t.partition_key));
        let parts = if partitioned { VIEW_PARTITIONS_MAX } else { 1 };
        partitions_max = partitions_max.max(parts);
        let (database, table) = view.target_path.clone();
        let place = Place { database, table, replicated: target.replicated, shared: target.is_shared() };
        targets.entry(place).or_insert((0, target, of_target, view)).0 += u64::from(parts) * tokens;
    }
    for (parts, target, of_target, view) in targets.values() {
        let (name, quoted) = (view.target_name(), view.target_quoted());
        check_room(config, target, &name, &quoted, *of_target, *parts, &mut faults);
    }
    let parts_per_frame = targets.values().map(|(parts, ..)| *parts).max().unwrap_or(tokens);
    let base = Place {
        database: config.database.clone(),
        table: config.table.clone(),
        replicated: engine.replicated,
        shared: engine.is_shared(),
    };
    let places: Vec<Place> = std::iter::once(base).chain(targets.into_keys()).collect();
    check_nodes(facts, &places, &mut faults);
    let of = Of {
        partitions_max,
        seconds: facts.server.insert_seconds,
        question_seconds: facts.server.question_seconds,
        zone: facts.server.zone.clone(),
        shared: engine.is_shared(),
    };
    faults.extend(facts.server.known.faults(&of, facts.server.version));
    let mut notes = Vec::new();
    let schema = columns::written(table, config, &mut faults, &mut notes);
    let provenance = columns::check_provenance(table, config, &mut faults);
    let unique_key = columns::check_unique_key(table, &schema, config, &mut faults);
    let found_by = unique_key.iter().map(|at| schema.columns()[*at].name.as_str());
    let found_by: Vec<&str> = found_by.chain(provenance.then_some(PROVENANCE)).collect();
    ttl::check(table, &found_by, config, &mut faults);
    let upsert = upsert::check(table, &engine, &schema, config, &mut faults);
    // Of two rows with the same version of their own the one stays that was inserted last.
    order_dependent |= upsert.as_ref().is_some_and(|places| places.version.is_some());
    upsert::note_computed(&schema, config, &mut notes);
    let can_be_found = provenance || !unique_key.is_empty();
    check_policies(config, &facts.server, can_be_found, &mut faults);
    rights::check(config, &facts.server, can_be_found, &mut faults, &mut notes);
    note_what_is_not_counted(&facts.server, &places, &mut notes);
    results::note(table, &engine, &schema, config, &mut notes);
    if !provenance {
        columns::note_what_cannot_be_found(&engine, &unique_key, config, &mut notes);
    }
    let partition = columns::check_partition(table, &schema, (config, &facts.server), &mut faults);
    let sort = if config.sort { SortKey::new(&table.sorting_key, &schema) } else { None };
    if config.sort && sort.is_none() {
        notes.push(format!(
            "the sorting key `{}` cannot be sorted by here; the server sorts",
            table.sorting_key
        ));
    }
    let (Some(partition), true) = (partition, faults.is_empty()) else { return Err(faults) };
    let made = config.upsert.as_ref().filter(|upsert| upsert.makes_versions());
    let made = made.map(|_| Column::new(VERSION, ColumnType::UInt64));
    let sent = Schema::new(schema.columns().iter().cloned().chain(made).collect());
    Ok(Plan {
        others: table
            .columns
            .iter()
            .filter(|column| sent.index_of(&column.name).is_none())
            .cloned()
            .collect(),
        sent,
        upsert,
        schema,
        partition,
        sort,
        provenance,
        unique_key,
        order_dependent,
        merges: engine.merges,
        expires: engine.expires,
        replicated: engine.replicated,
        shared: engine.is_shared(),
        places: places.clone(),
        views: !facts.views.is_empty(),
        view_paths: facts.views.iter().map(|view| view.path.clone()).collect(),
        partitions_max,
        zone: facts.server.zone.clone(),
        insert_settings: facts.server.known.insert(&of),
        look_settings: facts.server.known.look(&of),
        counts_async: facts.server.counts_async,
        parts_per_frame,
        tokens_per_block_max: places
            .iter()
            .map(|place| facts.server.tokens_per_block_max(place))
            .max()
            .unwrap_or(1),
        token_window: memory.window,
        token_age_ms_max: memory.age_ms,
        table_uuid: table.identity(),
        notes,
    })
}

/// Why a table that is still to be created cannot be, or would be created in vain: what this user may not do, or not set.
pub fn faults_before_create(facts: &Facts, config: &TableConfig) -> Vec<Fault> {
    let server = &facts.server;
    let of = Of {
        partitions_max: 1,
        seconds: server.insert_seconds,
        question_seconds: server.question_seconds,
        zone: server.zone.clone(),
        shared: false,
    };
    let mut faults = server.known.faults(&of, server.version);
    // Of a user that only reads nobody knows what is granted.
    if !facts.may_create && !server.known.only_reads() {
        let user = &server.known.user;
        let message =
            format!("table `{}` does not exist, and user `{user}` may not create it", config.name());
        let grant = format!("GRANT CREATE TABLE ON {} TO {}", config.quoted(), identifier(user));
        faults.push(Fault { kind: TableFault::Access, ..Fault::fixed_by(message, grant) });
    }
    faults
}

/// The statement that makes the table.
pub fn create_statement(config: &TableConfig, create: &CreateTable) -> String {
    let mut columns: Vec<String> =
        create.columns.iter().map(|(name, declared)| format!("{} {declared}", identifier(name))).collect();
    if config.provenance && !create.columns.iter().any(|(name, _)| name == PROVENANCE) {
        columns.push(format!("{} UUID", identifier(PROVENANCE)));
    }
    let is_declared = |column: &str| create.columns.iter().any(|(name, _)| name == column);
    if config.upsert.as_ref().is_some_and(Upsert::makes_versions) && !is_declared(VERSION) {
        columns.push(format!("{} UInt64", identifier(VERSION)));
    }
    let sign = config.upsert.as_ref().and_then(|upsert| upsert.sign.as_ref());
    if let Some(sign) = sign.filter(|sign| !is_declared(sign)) {
        columns.push(format!("{} Int8", identifier(sign)));
    }
    let engine = config.upsert.as_ref().map_or("MergeTree".to_owned(), Upsert::engine);
    let partition = match create.partition_by.trim() {
        "" => String::new(),
        key => format!("PARTITION BY {key} "),
    };
    let order = if create.order_by.trim().is_empty() { "tuple()" } else { create.order_by.trim() };
    format!(
        "CREATE TABLE IF NOT EXISTS {} ({}) ENGINE = {engine} {partition}ORDER BY ({order}) \
         SETTINGS non_replicated_deduplication_window = {WINDOW}",
        config.quoted(),
        columns.join(", ")
    )
}

/// As [`create_statement`], for this server: where its setting for tables makes their inserts asynchronous, the table has another one. It would be refused
/// otherwise as soon as it is made.
pub fn create_statement_on(server: &Server, config: &TableConfig, create: &CreateTable) -> String {
    let statement = create_statement(config, create);
    match server.table_default(false, ASYNC_INSERT) {
        None | Some(0) => statement,
        Some(_) => format!("{statement}, {ASYNC_INSERT} = 0"),
    }
}

/// What the table and its views' targets remember now, the least of them, whatever else is wrong with them; `None` if that cannot be read.
pub fn remembered(facts: &Facts) -> Option<Memory> {
    let targets = facts.views.iter().map(|view| view.target.as_ref());
    let memories = std::iter::once(facts.table.as_ref())
        .chain(targets)
        .flatten()
        .map(|table| Some(Memory::of(&Engine::read(&table.engine, &table.engine_full).ok()?, &facts.server)));
    memories.collect::<Option<Vec<Memory>>>()?.into_iter().reduce(Memory::and)
}

fn check_version(facts: &Facts, faults: &mut Vec<Fault>) {
    let version = facts.server.version;
    let mut need = |min: (u32, u32), why: &str| {
        if version < min {
            faults.push(Fault::stop(format!(
                "the server is ClickHouse {}.{}; {why} needs {}.{} or newer: upgrade the server",
                version.0, version.1, min.0, min.1
            )));
        }
    };
    need(VERSION_MIN, "exactly-once insertion");
    if !facts.views.is_empty() && version >= VERSION_MIN {
        need(VERSION_MIN_VIEWS, "exactly-once insertion into a table with materialized views");
    }
    // Older ones may have the type, but not in the form that is sent, or not for NULL.
    let has_json = |table: &TableRow| {
        table.columns.iter().filter(|c| c.is_stored_as_sent()).any(|column| {
            crate::types::parse(&column.name, &column.type_name).is_ok_and(|of| of.holds_json())
        })
    };
    if version >= VERSION_MIN && facts.table.as_ref().is_some_and(has_json) {
        need(VERSION_MIN_JSON, "a column of type `JSON`");
    }
}

fn no_table(facts: &Facts, config: &TableConfig) -> Fault {
    let mut message = format!("table `{}` does not exist", config.name());
    if !facts.has_database {
        message += &format!(", and neither does its database `{}`", config.database);
    }
    let fault = match &config.create {
        Some(_) if !facts.has_database => {
            Fault::fixed_by(message, format!("CREATE DATABASE {}", identifier(&config.database)))
        }
        Some(create) => Fault::fixed_by(message, create_statement_on(&facts.server, config, create)),
        None => Fault::stop(format!("{message}; {}", config.if_missing)),
    };
    Fault { kind: TableFault::TableMissing, ..fault }
}

fn check_engine(table: &TableRow, name: &str, faults: &mut Vec<Fault>) -> Option<Engine> {
    match Engine::read(&table.engine, &table.engine_full) {
        Ok(engine) => Some(engine),
        Err(reason) => {
            faults.push(Fault::stop(format!("table `{name}` has the engine `{}`: {reason}", table.engine)));
            None
        }
    }
}

fn check_nodes(facts: &Facts, places: &[Place], faults: &mut Vec<Fault>) {
    let mut nodes = facts.nodes.clone();
    nodes.sort();
    nodes.dedup();
    let Some(plain) = places.iter().find(|place| !place.replicated).filter(|_| nodes.len() > 1) else {
        return;
    };
    faults.push(Fault::stop(format!(
        "repeated connections reach {} servers, and table `{}.{}` is not replicated: each server has tokens and rows \
         of its own; point `url` at one server, or use a Replicated engine",
        nodes.len(),
        plain.database,
        plain.table
    )));
}

/// The table's own setting, or else the server's default for tables, makes an insert asynchronous although the request says no. That of a
/// view's target does not: an insert reaches it by way of the table.
fn check_async(
    table: &TableRow,
    engine: &Engine,
    config: &TableConfig,
    server: &Server,
    faults: &mut Vec<Fault>,
) {
    let own = engine.setting(ASYNC_INSERT);
    let is_async = own.or_else(|| server.table_default(engine.replicated, ASYNC_INSERT)).unwrap_or(0) != 0;
    // A text that is no number counts as on: nothing else is known of it.
    let is_unread = own.is_none() && table.engine_full.contains("async_insert = ");
    if is_async || is_unread {
        let whose =
            if own.is_some() || is_unread { "its own setting" } else { "the server's setting for tables" };
        faults.push(Fault::fixed_by(
            format!(
                "table `{}` takes inserts asynchronously by {whose} `{ASYNC_INSERT}`, which wins over the request's: rows would share a \
                 part with those of other clients, and an answer could come from a buffer in memory. Nothing is sent to it{}",
                config.name(),
                on_each_replica(engine)
            ),
            format!("ALTER TABLE {} MODIFY SETTING {ASYNC_INSERT} = 0", config.quoted()),
        ));
    }
}

/// A probe that does not see all rows calls those of an insert absent, and they would be written twice.
fn check_policies(config: &TableConfig, server: &Server, can_probe: bool, faults: &mut Vec<Fault>) {
    if can_probe && server.hidden_rows > 0 {
        let user = &server.known.user;
        faults.push(Fault::fixed_by(
            format!(
                "table `{}` has {} rows and row policies, and shows user `{user}` none: on this server a user to whom no policy applies sees no row. \
                 Rows of an insert in doubt would be called absent, and written twice",
                config.name(),
                server.hidden_rows,
            ),
            format!("CREATE ROW POLICY forebay ON {} USING 1 TO {}", config.quoted(), identifier(user)),
        ));
    }
    for policy in server.policies.iter().filter(|policy| can_probe && policy.may_hide()) {
        let user = identifier(&server.known.user);
        let message = format!(
            "row policy `{}` (`{}`) may hide rows of table `{}` from user `{}`: rows of an insert in doubt that are hidden would be called \
             absent, and written twice",
            policy.name,
            policy.filter,
            config.name(),
            server.known.user
        );
        // Users and roles that it names are the administrator's to list.
        faults.push(match policy.to_all && policy.listed.is_empty() {
            true => Fault::fixed_by(
                message,
                format!(
                    "ALTER ROW POLICY {} ON {} TO ALL EXCEPT {user}",
                    identifier(&policy.name),
                    config.quoted()
                ),
            ),
            false => Fault::stop(format!("{message}; take the user out of the policy")),
        });
    }
}

/// Without these two tables the tokens that others use are counted as the most that there can be.
fn note_what_is_not_counted(server: &Server, places: &[Place], notes: &mut Vec<String>) {
    let mut unread = Vec::new();
    if server.hashes == read::Hashes::Unknown {
        unread.push("system.server_settings");
    }
    if !server.counts_async && places.iter().any(|place| !place.replicated) {
        unread.push("system.events");
    }
    let user = identifier(&server.known.user);
    notes.extend(unread.into_iter().map(|table| {
        format!(
            "user `{}` may not read `{table}`, so Forebay assumes that other writers use many insert tokens, and sooner looks for the rows of an \
             insert whose answer was lost. To avoid this: `GRANT SELECT ON {table} TO {user}`",
            server.known.user
        )
    }));
}

#[cfg(test)]
mod tests;
