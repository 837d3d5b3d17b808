//! The shape of a server and a table, as it is read: what the judgement is about.
//!
//! Owns what follows from one of these values alone: whether a policy may hide rows, how many tokens a block may cost, what tells two tables of one name
//! apart. Does not own the statements (`checks::read`) or the judgement (`checks`).

use super::rights::Lacking;
use crate::checks::Place;
use crate::settings::Known;
use crate::types::identifier;

/// What a server says of itself, as far as it decides how a table is written.
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
    /// Seconds after which a question is given up.
    pub question_seconds: u64,
    /// How it remembers inserts.
    pub hashes: Hashes,
    /// True if it says how many asynchronous inserts it took.
    pub counts_async: bool,
    /// Row policies on the table; none if this user may not see them.
    pub policies: Vec<Policy>,
    /// Rows in the table's parts, if it has policies and shows this user no row: where users without a policy see nothing, one for somebody else is enough.
    pub hidden_rows: u64,
    /// What this user may not do with the table.
    pub lacking: Lacking,
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
    /// Its type, and its kind of default if it has one.
    pub fn declared(&self) -> String {
        format!("{} {}", self.type_name, self.default_kind).trim_end().to_owned()
    }

    /// True if an insert may name the column and the value is kept.
    pub fn is_stored_as_sent(&self) -> bool {
        matches!(self.default_kind.as_str(), "" | "DEFAULT")
    }

    /// True if an insert may name the column and the value is not kept: only the DEFAULTs of other columns read it.
    pub fn is_ephemeral(&self) -> bool {
        self.default_kind == "EPHEMERAL"
    }

    /// True if no insert may name the column.
    pub fn is_computed(&self) -> bool {
        matches!(self.default_kind.as_str(), "MATERIALIZED" | "ALIAS")
    }
}

/// A materialized view and its target.
#[derive(Clone, Debug)]
pub struct View {
    /// `database.view`.
    pub name: String,
    /// The same as two names.
    pub path: (String, String),
    /// Database and table of the target.
    pub target_path: (String, String),
    /// The target; `None` if there is none of that name.
    pub target: Option<TableRow>,
    /// The view's declaration, with its SELECT.
    pub select: String,
}

impl View {
    /// `database.target`, for messages.
    pub fn target_name(&self) -> String {
        format!("{}.{}", self.target_path.0, self.target_path.1)
    }

    /// The same, quoted for a statement.
    pub fn target_quoted(&self) -> String {
        format!("{}.{}", identifier(&self.target_path.0), identifier(&self.target_path.1))
    }
}
