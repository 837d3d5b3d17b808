//! The simulated ClickHouse: two tables and the target of a view, with a token log each, running queries, restarts.
//!
//! Owns the behaviour that was measured on the real one: a known token makes an insert a no-op whatever its content; the token is
//! written before the rows, and a crash in between leaves a token without rows; the log holds a bounded number of tokens for a
//! bounded time, and others write into it; an insert is all or nothing in each table, and the view is fed after the table, also with
//! rows whose token the table knows; an answer may be lost at any point. Does not own what is right (`oracle`).
//!
//! What is assumed of the world around it, beside the facts: a request whose head is there and whose tail does not come is dropped
//! after [`TAIL_US_MAX`], and an insert that is under way for so long that its token was written and pushed out meanwhile is ended by
//! `max_execution_time`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::take;

use bytes::Bytes;

use crate::executor::{Pid, WALL_BEGIN_MS};
use crate::oracle::Sent;
use crate::plan::{Change, Plan};
use crate::records::{Row, from_body};
use crate::world::State;

/// How long the engine's decision to send a frame again holds, microseconds: nobody pushes half of a real memory of tokens out in that time.
const DECIDED_US_MAX: u64 = 1_000_000;

/// The place of the view's target.
pub const VIEW: usize = 2;

/// Tokens that one insert costs in the view's target, which is partitioned otherwise than the table.
const VIEW_TOKENS: u64 = 2;

/// How long a server waits for the rest of a request, microseconds.
pub const TAIL_US_MAX: u64 = 30_000_000;

/// What is written of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// The line, and not the rows yet; by this run of the server.
    Writing,
    /// The line stands.
    Stands,
}

/// One table.
#[derive(Debug, Default)]
pub struct Table {
    /// Every insert that was committed: the frame and its rows.
    pub parts: Vec<(u128, Vec<Row>)>,
    /// Frames whose rows a person has taken away.
    pub wiped: BTreeSet<u128>,
    /// Counts the tables of this name.
    pub incarnation: u32,
    /// Counts the tables whose rows were carried over from the one before.
    carried: u32,
    tokens: BTreeMap<String, Token>,
    order: VecDeque<(String, u64)>,
    /// When a token that is not remembered any more was pushed out.
    pushed_out: BTreeMap<String, u64>,
    block: u64,
}

/// A query that the server knows of.
#[derive(Debug)]
struct Running {
    since_us: u64,
    is_whole: bool,
    is_killed: bool,
    /// Its token is written, its rows are about to be: it cannot be killed any more.
    is_writing: bool,
}

/// The server.
pub struct Server {
    /// The target, the dead letters, and what the target's view feeds.
    pub tables: [Table; 3],
    /// Counts the server's incarnations.
    pub run: u64,
    is_up: bool,
    away_until_us: u64,
    started_us: u64,
    clock_ms: i64,
    running: BTreeMap<String, Running>,
    poison: Vec<(u64, u64)>,
    token_window: u64,
    token_age_us: u64,
    has_view: bool,
}

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
    /// The content is turned down.
    Poison,
    /// The token's line is written; the rows come next.
    Written,
}

impl Server {
    /// A server that has been up for a while.
    pub fn new(plan: &Plan) -> Self {
        Self {
            tables: Default::default(),
            run: 0,
            is_up: true,
            away_until_us: 0,
            started_us: 0,
            clock_ms: 0,
            running: BTreeMap::new(),
            poison: plan.poison.clone(),
            token_window: plan.token_window,
            token_age_us: plan.token_age_ms.map_or(u64::MAX, |ms| ms * 1_000),
            has_view: plan.has_view,
        }
    }

    /// It cannot be reached until then.
    pub fn away(&mut self, until_us: u64) {
        self.away_until_us = until_us;
    }

    /// True if a new connection finds it.
    pub fn is_reachable(&self, now_us: u64) -> bool {
        self.is_up && now_us >= self.away_until_us
    }

    /// True if a connection of that incarnation stands.
    pub fn is_connected(&self, run: u64) -> bool {
        self.is_up && self.run == run
    }

    /// Its clock jumps.
    pub fn jump(&mut self, by_ms: i64) {
        self.clock_ms += by_ms;
    }

    /// Its clock, and by it the time of its start, to the second.
    pub fn times_ms(&self, now_us: u64) -> (i64, i64) {
        let now_ms = WALL_BEGIN_MS + (now_us / 1_000) as i64 + self.clock_ms;
        // The first incarnation has been up for an hour.
        let up_us = now_us - self.started_us + if self.run == 0 { 3_600_000_000 } else { 0 };
        let up_s = (up_us / 1_000_000) as i64;
        (now_ms / 1_000 * 1_000 - up_s * 1_000, now_ms)
    }

    /// The newest block number of a table.
    pub fn block(&self, place: usize) -> u64 {
        self.tables[place].block
    }

    /// It is dead.
    pub fn crash(&mut self) {
        self.is_up = false;
        self.run += 1;
        self.running.clear();
        for token in self.tables.iter_mut().flat_map(|t| t.tokens.values_mut()) {
            *token = Token::Stands;
        }
    }

    /// It is back, with its tokens and rows.
    pub fn restart(&mut self, now_us: u64) {
        self.is_up = true;
        self.started_us = now_us;
    }

    /// Others insert into a table.
    pub fn others_insert(&mut self, place: usize, inserts: u64, now_us: u64) {
        for n in 0..inserts {
            self.remember(place, format!("other-{now_us}-{n}"), now_us);
        }
    }

    fn remember(&mut self, place: usize, token: String, now_us: u64) {
        let table = &mut self.tables[place];
        table.block += 1;
        for n in 1..if place == VIEW { VIEW_TOKENS } else { 1 } {
            table.order.push_back((format!("{token}/{n}"), now_us));
        }
        table.pushed_out.remove(&token);
        table.tokens.insert(token.clone(), Token::Stands);
        table.order.push_back((token, now_us));
        self.forget_tokens(place, now_us);
    }

    /// Drops the tokens that are too many or too old.
    fn forget_tokens(&mut self, place: usize, now_us: u64) {
        let table = &mut self.tables[place];
        let is_old = |(_, us): &(String, u64)| now_us - us > self.token_age_us;
        while table.order.len() as u64 > self.token_window || table.order.front().is_some_and(is_old) {
            let Some((old, _)) = table.order.pop_front() else { break };
            if table.tokens.remove(&old).is_some() {
                table.pushed_out.insert(old, now_us);
            }
        }
    }

    /// True if the table of this place feeds a view.
    pub fn feeds_view(&self, place: usize) -> bool {
        self.has_view && place == 0
    }

    /// The identity of a table.
    pub fn uuid(&self, place: usize) -> String {
        format!("table-{place}-{}", self.tables[place].incarnation)
    }

    /// Counts the tables of a place whose rows were carried over from the one before.
    pub fn carried(&self, place: usize) -> u32 {
        self.tables[place].carried
    }

    /// A person changes the target.
    pub fn change(&mut self, change: Change) {
        let table = &mut self.tables[0];
        table.tokens.clear();
        table.order.clear();
        match change {
            Change::Truncated | Change::Recreated => {
                table.wiped.extend(take(&mut table.parts).into_iter().map(|(id, _)| id));
                table.block = 0;
            }
            Change::Exchanged => {
                table.block = table.parts.len() as u64;
                table.carried += 1;
            }
        }
        if change != Change::Truncated {
            table.incarnation += 1;
        }
    }

    /// A person brings the view's target to what the table holds of a frame, and says whether that is all of its rows.
    pub fn mend(&mut self, place: usize, frame: u128) -> bool {
        let [target, _, view] = &mut self.tables;
        if place == 0 {
            let found = target.parts.iter().find(|(id, _)| *id == frame);
            if self.has_view {
                view.parts.retain(|(id, _)| *id != frame);
                view.parts.extend(found.cloned());
            }
            found.is_some()
        } else {
            self.committed(place, frame) > 0
        }
    }

    /// The head of a request is there; false if its query id runs already.
    pub fn begin(&mut self, query_id: &str, since_us: u64, is_whole: bool, now_us: u64) -> bool {
        self.running.retain(|_, r| r.is_whole || now_us - r.since_us < TAIL_US_MAX);
        if self.running.contains_key(query_id) {
            return false;
        }
        self.running
            .insert(query_id.to_owned(), Running { since_us, is_whole, is_killed: false, is_writing: false });
        true
    }

    /// The tail of a request is there; false if the server has given it up.
    pub fn complete(&mut self, query_id: &str, now_us: u64) -> bool {
        let Some(running) = self.running.get_mut(query_id) else { return false };
        running.is_whole = true;
        !running.is_killed && now_us - running.since_us < TAIL_US_MAX
    }

    /// A request has ended.
    pub fn end(&mut self, query_id: &str) {
        self.running.remove(query_id);
    }

    /// Kills queries by the beginning of their id, and says how many still run: one notices after a while that it was killed, and
    /// one that is being written ends by itself.
    pub fn kill(&mut self, prefix: &str, now_us: u64) -> u64 {
        self.running.retain(|id, r| {
            let is_given_up = !r.is_whole && now_us - r.since_us >= TAIL_US_MAX;
            let has_noticed = id.starts_with(prefix) && !r.is_writing && (r.is_killed || !r.is_whole);
            !is_given_up && !has_noticed
        });
        let meant = self.running.iter_mut().filter(|(id, _)| id.starts_with(prefix));
        meant.map(|(_, running)| running.is_killed = true).count() as u64
    }

    /// The oldest attempt of a frame that still runs and that the server knew before `us`.
    pub fn runs_since_before(&self, prefix: &str, us: u64) -> Option<&str> {
        let mut of_frame = self.running.iter().filter(|(id, r)| id.starts_with(prefix) && r.since_us < us);
        of_frame.next().map(|(id, _)| id.as_str())
    }

    /// The token's line of an insert is written, and no longer the rows are next: it can be killed again.
    pub fn written(&mut self, query_id: &str) {
        if let Some(running) = self.running.get_mut(query_id) {
            running.is_writing = false;
        }
    }

    /// True if a frame's rows are in a table as often as they should be: once, unless a person took them away.
    pub fn is_there(&self, place: usize, frame: u128) -> bool {
        match self.committed(place, frame) {
            0 => self.tables[place].wiped.contains(&frame),
            times => times == 1,
        }
    }

    /// How many times a frame is in a table.
    pub fn committed(&self, place: usize, frame: u128) -> usize {
        self.tables[place].parts.iter().filter(|(id, _)| *id == frame).count()
    }
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
        self.server.forget_tokens(insert.place, now_us);
        let table = &self.server.tables[insert.place];
        match table.tokens.get(&insert.token) {
            Some(Token::Writing) => return Step::Wait,
            Some(Token::Stands) => return Step::Known,
            None => {}
        }
        let decided_us = insert.since_us.saturating_sub(DECIDED_US_MAX);
        if table.pushed_out.get(&insert.token).is_some_and(|us| *us >= decided_us) {
            self.note("ended", 0, || {
                format!("`{}` took longer than its token was remembered", insert.query_id)
            });
            return Step::Gone;
        }
        let rows = from_body(&insert.body).map(|(_, rows)| rows).unwrap_or_default();
        let is_poison =
            |id: u64| self.server.poison.iter().any(|(poison, from_us)| *poison == id && *from_us <= now_us);
        if insert.place == 0 && rows.iter().any(|row| is_poison(row[0])) {
            return Step::Poison;
        }
        self.server.remember(insert.place, insert.token.clone(), now_us);
        self.server.tables[insert.place].tokens.insert(insert.token.clone(), Token::Writing);
        if let Some(running) = self.server.running.get_mut(&insert.query_id) {
            running.is_writing = true;
        }
        Step::Written
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
