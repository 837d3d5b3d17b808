//! One poll of a table: everything that changes from moment to moment, in one statement.
//!
//! Owns the statement and the judgement of its one row. Pure. Does not own the shape of the table ([`super::read`]), nor what is done with
//! what was seen (`tokens`, `protocol::doubt`).
//!
//! Behind a balancer each request may reach another server. What a doubt compares (which server, since when it runs, how far its replica is
//! behind, the newest blocks, the rows of the frame) therefore comes from one statement, which one server answers.
//!
//! | what is seen                                            | what follows                                          |
//! |---------------------------------------------------------|-------------------------------------------------------|
//! | a replicated table without its row in `system.replicas` | an error: a number of 0 would read as "no inserts"    |
//! | a replica behind its log, before or after the count     | an error: rows that it does not show may be there     |
//! | no count                                                | an error: it would read as "no rows"                  |
//! | rows, and a replica with parts to verify                | an error: it may drop them, with the part that they are in |
//! | another server, and a table that is not replicated      | an error: that server has rows and tokens of its own  |
//! | another value of the setting [`ECHO`] than was sent     | an error: settings are lost, or the answer is old     |
//!
//! A server evaluates the parts of a statement one after the other, and which comes first is its own affair. So the replica's lag is read
//! on both sides of the count: one of the two was read before it, and what arrives afterwards only adds to the count.
//!
//! A log without an entry and one whose first entry a replica has not read look the same: number 0, read up to 0. So until an insert of ours was
//! answered it counts as one without an entry ([`Sight::lag`]): a table that nobody has written to would be waited for without end. Afterwards
//! it has an entry for certain.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::Place;
use super::read::ASYNC_COUNT;
use crate::types::quote;

/// The setting by which a look makes sure that the settings of a request reach the server, and that its answer is no earlier one from a cache: the token of
/// inserts, which says nothing in a question.
pub const ECHO: &str = "insert_deduplication_token";

/// What a statement asks for.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The table, then the targets of its views.
    pub places: &'a [Place],
    /// Database and name of each view.
    pub views: &'a [(String, String)],
    /// What the request's setting [`ECHO`] is, which comes back in the answer; it stands in the statement too, so that no cache has its answer.
    pub nonce: &'a str,
    /// A statement that counts a frame's rows.
    pub count: Option<&'a str>,
    /// A statement that says whether rows may have lost what they are found by.
    pub unnamed: Option<&'a str>,
    /// True if the server says how many asynchronous inserts it took.
    pub counts_async: bool,
}

/// The row of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Sight {
    /// The server's clock, Unix milliseconds.
    pub now_ms: i64,
    /// Seconds since its start.
    pub uptime_s: i64,
    /// Its identity; empty or zeros if it has none.
    pub server_uuid: String,
    /// The table: its identity, and where its data lies. None if there is no such table.
    pub table: Vec<(String, String)>,
    /// The replicas of replicated places, as they were on one side of the count.
    pub before: Vec<Replica>,
    /// The frame's rows.
    pub count: Option<u64>,
    /// The replicas as they were on the other side.
    pub after: Vec<Replica>,
    /// Database, table, the greatest block number over all partitions, and the sum of each partition's greatest.
    pub parts: Vec<(String, String, u64, u64)>,
    /// Asynchronous inserts of the server since its start.
    pub asyncs: u64,
    /// When metadata of the places were written last, Unix seconds, and hashes of what they declare: all of it, and the engines.
    pub altered: (i64, u64, u64),
    /// A hash of the views, of the targets' identities, and of what is computed for keys of partitions.
    pub routes: u64,
    /// True if a row of the table has no name of its insert, or no key; asked for beside the count of a frame.
    pub unnamed: Option<u8>,
    /// The value that the request's setting [`ECHO`] had on the server.
    pub echo: String,
    /// When it was asked, by our own clock without steps ([`Client::steady_ms`](crate::Client::steady_ms)); no part of the answer.
    #[serde(skip)]
    pub asked_ms: i64,
    /// When the answer was there, by the same clock.
    #[serde(skip)]
    pub answered_ms: i64,
}

/// The state of a replica on the node that answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Replica {
    /// On which side it was read: two readings that are alike would be made once.
    pub side: u8,
    /// The database.
    pub database: String,
    /// The table.
    pub table: String,
    /// 1 if it takes no inserts.
    pub readonly: u8,
    /// 1 if it has lost its keeper session, or the keeper does not answer.
    pub expired: u8,
    /// Entries of the log, or queued inserts, that it has not made.
    pub behind: u64,
    /// The newest entry of the log.
    pub log_max: u64,
    /// 1 if the log shows no entry beyond number 0, and none was read: `behind` is 1 then, though there may be no entry at all.
    #[serde(default)]
    pub is_unread: u8,
    /// Parts that it is to verify.
    #[serde(default)]
    pub to_verify: u64,
}

impl Question<'_> {
    /// The statement. Its answer is one row, whatever is there.
    pub fn sql(&self) -> String {
        let [table, ..] = self.places else { return String::new() };
        let replicated = self.list(|place| place.replicated);
        let replicas = |side: u8| replicated.as_ref().map_or("[]".to_owned(), |list| replicas_of(side, list));
        // Shared tables need not show replicas, so that their parts are read as well.
        let parts = match self.list(|place| !place.replicated || place.shared) {
            None => "[]".to_owned(),
            Some(list) => format!(
                "(SELECT groupArray((database, table, newest, total)) FROM \
                 (SELECT database, table, max(block) AS newest, sum(block) AS total FROM \
                 (SELECT database, table, partition_id, toUInt64(greatest(max(max_block_number), 0)) AS block FROM system.parts \
                 WHERE (database, table) IN ({list}) GROUP BY database, table, partition_id) GROUP BY database, table))"
            ),
        };
        let count = self.count.map_or("NULL".to_owned(), |count| format!("({count})"));
        let unnamed = self.unnamed.map_or("NULL".to_owned(), |unnamed| format!("({unnamed})"));
        let asyncs = if self.counts_async { ASYNC_COUNT } else { "0" };
        let places: Vec<_> = self.places.iter().map(|place| (&place.database, &place.table)).collect();
        // A view that is declared anew as it was has other tokens for its target too.
        let views: Vec<_> = self.views.iter().map(|(database, view)| (database, view)).collect();
        let views_altered = among("name", &views).map_or("0".to_owned(), |among| {
            format!("(SELECT toInt64(max(toUnixTimestamp(metadata_modification_time))) FROM system.tables WHERE {among})")
        });
        let altered = format!(
            "(SELECT (greatest(toInt64(max(toUnixTimestamp(metadata_modification_time))), {views_altered}), \
             groupBitXor(cityHash64(database, name, create_table_query)), groupBitXor(cityHash64(database, name, engine_full))) \
             FROM system.tables WHERE {})",
            among("name", &places).unwrap_or_default(),
        );
        format!(
            "SELECT toUnixTimestamp64Milli(now64(3)), toInt64(uptime()), toString(serverUUID()), \
             (SELECT groupArray((toString(uuid), toString(data_paths))) FROM system.tables WHERE database = {} AND name = {}), \
             {}, {count}, {}, {parts}, {asyncs}, {altered}, {}, {unnamed}, getSetting({}) /* {} */",
            quote(&table.database),
            quote(&table.table),
            replicas(1),
            if self.count.is_some() { replicas(2) } else { "[]".to_owned() },
            self.routes(),
            quote(ECHO),
            self.nonce,
        )
    }

    /// What decides where rows go beside the table itself. A view that is altered, renamed or made again gives its target another token for the same rows; and
    /// a key of partitions over a computed column puts them into another partition once what computes it is altered.
    fn routes(&self) -> String {
        let targets = self.places.iter().skip(1).map(|place| (&place.database, &place.table));
        let targets: Vec<_> = targets.collect();
        let views: Vec<_> = self.views.iter().map(|(database, view)| (database, view)).collect();
        let of_tables = |hashed: &str, names: &[(&String, &String)]| match among("name", names) {
            None => "0".to_owned(),
            Some(among) => {
                format!("(SELECT groupBitXor(cityHash64({hashed})) FROM system.tables WHERE {among})")
            }
        };
        let places: Vec<_> = self.places.iter().map(|place| (&place.database, &place.table)).collect();
        let computed = format!(
            "(SELECT groupBitXor(hash) FROM (SELECT if(max(is_in_partition_key) = 1, groupBitXor(cityHash64(database, table, name, default_kind, \
             default_expression)), 0) AS hash FROM system.columns WHERE default_kind != '' AND {} GROUP BY database, table))",
            among("table", &places).unwrap_or_default(),
        );
        format!(
            "cityHash64({}, {}, {computed})",
            of_tables("database, name, toString(uuid), toString(data_paths)", &targets),
            of_tables("database, name, toString(uuid), create_table_query", &views),
        )
    }

    /// Database and table of the places that are meant, for `IN`; `None` if there are none.
    fn list(&self, is_meant: impl Fn(&Place) -> bool) -> Option<String> {
        let meant = self.places.iter().filter(|place| is_meant(place));
        pairs(meant.map(|place| (&place.database, &place.table)))
    }
}

/// The state of these replicas, as a part of a statement.
fn replicas_of(side: u8, list: &str) -> String {
    // Merges in the queue hide no rows; inserts that were not fetched do. Where the keeper did not answer, though the session stands, all of its numbers are
    // 0, and that of the replicas is at no other time.
    format!(
        "(SELECT groupArray((toUInt8({side}), database, table, toUInt8(is_readonly), \
         toUInt8(is_session_expired OR total_replicas = 0), \
         toUInt64(inserts_in_queue + greatest(toInt64(log_max_index) - toInt64(log_pointer) + 1, 0)), \
         toUInt64(log_max_index), toUInt8(log_max_index = 0 AND log_pointer = 0 AND inserts_in_queue = 0), \
         toUInt64(parts_to_check))) \
         FROM system.replicas WHERE (database, table) IN ({list}))"
    )
}

/// What `question` finds in a table, between two readings of its replica: one statement, whose answer is one row. What was found comes as an array of
/// tuples, in their order.
pub fn beside_replica(place: &Place, question: &str) -> String {
    let list = pairs(std::iter::once((&place.database, &place.table))).unwrap_or_default();
    let (before, after) = (replicas_of(1, &list), replicas_of(2, &list));
    format!("SELECT {before}, (SELECT arraySort(groupArray(tuple(*))) FROM ({question})), {after}")
}

/// Why a server whose replica was `before` and `after` what it answered cannot say that rows are not there; `None` if it can.
pub fn lag_of(place: &Place, before: &[Replica], after: &[Replica]) -> Option<String> {
    lag(replica(before, place)).or_else(|| lag(replica(after, place)))
}

/// True if no entry of the log is shown on either side, so that [`lag_of`] may speak of one that does not exist.
pub fn is_unread(place: &Place, before: &[Replica], after: &[Replica]) -> bool {
    let is_unread = |found: &Replica| found.is_unread != 0 && found.readonly == 0 && found.expired == 0;
    [before, after].into_iter().all(|side| replica(side, place).is_some_and(is_unread))
}

/// Database and name of each, for `IN`; `None` if there are none.
fn pairs<'a>(names: impl Iterator<Item = (&'a String, &'a String)>) -> Option<String> {
    let pairs: Vec<String> =
        names.map(|(database, name)| format!("({}, {})", quote(database), quote(name))).collect();
    (!pairs.is_empty()).then(|| pairs.join(", "))
}

/// A condition for these names; `None` if there are none. A server looks for both columns alone before it writes down what a table declares; by the pair it
/// would do so for every table that it has.
fn among(column: &str, names: &[(&String, &String)]) -> Option<String> {
    let each = |names: BTreeSet<String>| names.into_iter().collect::<Vec<String>>().join(", ");
    let databases = each(names.iter().map(|(database, _)| quote(database)).collect());
    let tables = each(names.iter().map(|(_, name)| quote(name)).collect());
    let pairs = pairs(names.iter().copied())?;
    Some(format!(
        "(database, {column}) IN ({pairs}) AND database IN ({databases}) AND {column} IN ({tables})"
    ))
}

impl Sight {
    /// A number for each place that moves with every insert by anyone.
    ///
    /// Plain tables number their blocks over all partitions. One part of theirs may hold the asynchronous inserts of many clients, a token
    /// each, so that the server's count of those is added. Replicated tables number blocks inside of each partition, and their log has
    /// one entry or more for every insert on any replica, so that its newest number stands in. A shared table that shows no log has
    /// the sum over its partitions.
    ///
    /// # Errors
    /// When a replicated table is not shown, in words.
    pub fn blocks(&self, places: &[Place]) -> Result<Vec<u64>, String> {
        let parts: BTreeMap<(&str, &str), (u64, u64)> = self
            .parts
            .iter()
            .map(|(d, t, newest, sum)| ((d.as_str(), t.as_str()), (*newest, *sum)))
            .collect();
        let block = |place: &Place| {
            // A table without parts has no row, and its first insert moves it from 0 on.
            let (newest, sum) =
                parts.get(&(place.database.as_str(), place.table.as_str())).copied().unwrap_or_default();
            if !place.replicated {
                return Ok(newest.saturating_add(self.asyncs));
            }
            match (replica(&self.before, place), place.shared) {
                // It has no log of this kind, although it may be listed.
                (Some(Replica { log_max: 0, .. }) | None, true) => Ok(sum),
                (Some(replica), _) => Ok(replica.log_max),
                (None, false) => Err(format!(
                    "the server shows no replica of table `{}.{}` in `system.replicas`, so whether an insert has arrived cannot be checked",
                    place.database, place.table
                )),
            }
        };
        places.iter().map(block).collect()
    }

    /// Which place has no [number](Self::blocks) because its replica has lost its keeper, in words; `None` if all have. The number reads as 0 then, which is less
    /// than any before it, and as many less than any after it as the log has entries.
    pub fn without_keeper(&self, places: &[Place]) -> Option<String> {
        let is_lost = |place: &&Place| {
            place.replicated && !place.shared && replica(&self.before, place).is_some_and(|r| r.expired != 0)
        };
        places.iter().find(is_lost).map(|place| {
            let name = format!("{}.{}", place.database, place.table);
            format!("the replica of table `{name}` has lost its keeper, so that it takes no inserts and does not know of those of others")
        })
    }

    /// Why this server cannot say that rows of the first place are not there; `None` if it can. `has_written` says that an insert of this process was
    /// answered, so that the table's log has an entry.
    pub fn lag(&self, places: &[Place], has_written: bool) -> Option<String> {
        let table = places.first().filter(|place| place.replicated && !place.shared)?;
        lag_of(table, &self.before, &self.after)
            .filter(|_| has_written || !is_unread(table, &self.before, &self.after))
    }

    /// Why rows of the first place that this server shows may be gone in a while; `None` if they stay. A server that loses its keeper while it commits a part
    /// shows it, and minutes later keeps or drops it, by what the keeper knows then.
    pub fn unverified(&self, places: &[Place]) -> Option<String> {
        let table = places.first().filter(|place| place.replicated && !place.shared)?;
        let sides = [&self.before, &self.after].into_iter().filter_map(|side| replica(side, table));
        let parts = sides.map(|replica| replica.to_verify).max().filter(|parts| *parts > 0)?;
        Some(format!(
            "the table's replica has {parts} parts to verify, and drops those that its keeper does not know"
        ))
    }

    /// What tells the table from one of the same name made later; `None` if there is none.
    pub fn table_identity(&self) -> Option<&str> {
        self.table.first().map(|(uuid, paths)| if is_nil(uuid) { paths.as_str() } else { uuid.as_str() })
    }

    /// The server's identity; empty if it has none.
    pub fn server_identity(&self) -> &str {
        identity(&self.server_uuid)
    }

    /// When the server started, Unix milliseconds by its own clock.
    pub fn start_ms(&self) -> i64 {
        self.now_ms - self.uptime_s * 1_000
    }
}

/// Without its session a replica does not know how far the log has gone, and shows no lag.
fn lag(replica: Option<&Replica>) -> Option<String> {
    match replica {
        None => Some("the server does not show the table's replica".into()),
        Some(Replica { readonly, expired, .. }) if *readonly != 0 || *expired != 0 => {
            Some("the table's replica has lost its keeper".into())
        }
        Some(Replica { behind: 0, .. }) => None,
        Some(Replica { behind, .. }) => Some(format!("the table's replica is {behind} log entries behind")),
    }
}

fn replica<'a>(replicas: &'a [Replica], place: &Place) -> Option<&'a Replica> {
    replicas.iter().find(|r| r.database == place.database && r.table == place.table)
}

/// A server's identity; empty if `uuid` is that of one that has none.
pub fn identity(uuid: &str) -> &str {
    if is_nil(uuid) { "" } else { uuid }
}

/// Zeros, as a server or a database without identities writes them.
fn is_nil(uuid: &str) -> bool {
    uuid.chars().all(|c| matches!(c, '0' | '-'))
}

#[cfg(test)]
mod tests;
