//! An insert on its way, from its first byte to its rows.
//!
//! Owns what becomes of it at each step, and what is beyond its reach ([`State::is_beyond_reach`]). Does not own who sends it (`table`), nor the queries that the server
//! knows of.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::CHECKED;
use super::tokens::Token;
use crate::executor::Pid;
use crate::oracle::Sent;
use crate::records::from_body;
use crate::world::State;

/// An insert on its way.
#[derive(Clone, Debug)]
pub struct Insert {
    /// Which table.
    pub place: usize,
    /// Whose it is.
    pub pid: Pid,
    /// Its token.
    pub token: String,
    /// Its query id.
    pub query_id: String,
    /// Its bytes.
    pub body: Bytes,
    /// When it began.
    pub since_us: u64,
    /// The server's incarnation that it is connected to.
    pub run: u64,
    /// The table that it was meant for, counted by those whose rows were carried over.
    pub carried: u32,
    /// The replica that it went to.
    pub node: u64,
    /// True if it names the column that a person may drop.
    pub has_time: bool,
    /// True for a copy that stayed in the network.
    pub is_late: bool,
    /// When the server gives it up, microseconds.
    pub ends_us: u64,
}

/// How far an insert came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The connection is gone.
    Gone,
    /// Another insert of this token is being written.
    Wait,
    /// The token is known: nothing is done, and that is a success.
    Known,
    /// The content is turned down, because of the row at this place.
    Poison(usize),
    /// It names a column that the table has not.
    Misfit,
    /// The token's line is written; the rows come next.
    Written,
}

impl State {
    /// The server begins with a whole request: looks at the token, and writes its line.
    pub fn insert_begins(&mut self, insert: &Insert) -> Step {
        let now_us = self.now_us();
        let is_killed = self.server.running.get(&insert.query_id).is_none_or(|r| r.is_killed);
        if is_killed || !self.server.is_connected(insert.run) {
            self.server.end(&insert.query_id);
            return Step::Gone;
        }
        let is_for_another = insert.place == 0 && insert.carried != self.server.carried(0);
        if is_for_another {
            return Step::Gone;
        }
        if now_us > insert.ends_us {
            self.note("ended", 0, || format!("`{}` took too long", insert.query_id));
            self.server.end(&insert.query_id);
            return Step::Gone;
        }
        // The columns are looked at before the token.
        if insert.has_time && self.server.tables[insert.place].lacks_time {
            return Step::Misfit;
        }
        self.server.forget_tokens(insert.place, now_us);
        if self.server.knows_no_token {
            let tokens = &mut self.server.tables[insert.place].tokens;
            tokens.retain(|token, state| *token != insert.token || *state == Token::Writing);
        }
        let table = &self.server.tables[insert.place];
        match table.tokens.get(&insert.token) {
            Some(Token::Writing) => return Step::Wait,
            Some(Token::Stands) => return Step::Known,
            None => {}
        }
        if self.is_beyond_reach(insert) {
            self.note("ended", 0, || {
                format!("`{}` took longer than its token was remembered", insert.query_id)
            });
            self.server.end(&insert.query_id);
            return Step::Gone;
        }
        let table = &self.server.tables[insert.place];
        debug_assert!(!table.tokens.contains_key(&insert.token), "just looked at");
        let rows = from_body(&insert.body).map(|(_, rows)| rows).unwrap_or_default();
        let is_poison =
            |id: u64| self.server.poison.iter().any(|(poison, from_us)| *poison == id && *from_us <= now_us);
        if CHECKED.contains(&insert.place)
            && let Some(at) = rows.iter().position(|row| is_poison(row[0]))
        {
            return Step::Poison(at);
        }
        self.server.remember(insert.place, insert.token.clone(), now_us);
        self.server.tables[insert.place].tokens.insert(insert.token.clone(), Token::Writing);
        if let Some(running) = self.server.running.get_mut(&insert.query_id) {
            running.is_writing = true;
        }
        Step::Written
    }

    /// True for an insert whose token was written and pushed out meanwhile, and which nobody can end: a copy in the network, and one on
    /// a replica that the process cannot ask any more.
    fn is_beyond_reach(&self, insert: &Insert) -> bool {
        let table = &self.server.tables[insert.place];
        let is_pushed_out = table.pushed_out.get(&insert.token).is_some_and(|us| *us >= insert.since_us);
        is_pushed_out && (insert.is_late || self.server.replicas > 1)
    }

    /// The rows follow the token; false if the server died in between.
    pub fn insert_commits(&mut self, insert: &Insert) -> bool {
        let is_for_another = insert.place == 0 && insert.carried != self.server.carried(0);
        if !self.server.is_connected(insert.run) || is_for_another {
            return false;
        }
        let table = &self.server.tables[insert.place];
        if !table.tokens.contains_key(&insert.token) && !table.pushed_out.contains_key(&insert.token) {
            // A person has emptied the table in between.
            return false;
        }
        let Some((frame, rows)) = from_body(&insert.body) else { return false };
        self.note("rows", rows.len() as u64, || {
            format!("{} of frame {frame:032x} into table {} ({})", rows.len(), insert.place, insert.query_id)
        });
        let table = &mut self.server.tables[insert.place];
        if let Some(token) = table.tokens.get_mut(&insert.token) {
            *token = Token::Stands;
        }
        table.parts.push((frame, rows));
        self.was_committed(&Sent::of(insert), frame);
        true
    }

    /// Every id in the table with the number of times that it is there.
    pub fn ids(&self, place: usize) -> BTreeMap<u64, u64> {
        let mut ids = BTreeMap::new();
        let rows = self.server.tables[place].parts.iter().flat_map(|(_, rows)| rows);
        rows.for_each(|row| *ids.entry(row[0]).or_default() += 1);
        ids
    }

    /// Ids that the server turns down at this moment.
    pub fn poisoned(&self) -> BTreeSet<u64> {
        self.server.poison.iter().map(|(id, _)| *id).collect()
    }
}
