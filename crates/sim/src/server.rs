//! The simulated ClickHouse: tables and the target of a view, with a token log each, running queries, restarts.
//!
//! Owns the behaviour that was measured on the real one: a known token makes an insert a no-op whatever its content; the token is
//! written before the rows, and a crash in between leaves a token without rows; the log holds a bounded number of tokens for a
//! bounded time, and others write into it; an insert is all or nothing in each table, and the view is fed after the table, also with
//! rows whose token the table knows; an answer may be lost at any point. The log of tokens is in [`tokens`], the way of an insert in [`insert`].
//! Does not own what is right (`oracle`).
//!
//! With several replicas each request goes to one of them, as a balancer chooses: they share tokens and rows, a query is known to one of
//! them only, and one may lag behind what is there.
//!
//! What is assumed of the world around it, beside the facts, stands in docs/design/simulation.md; here it is [`TAIL_US_MAX`],
//! [`State::is_beyond_reach`](crate::world::State) and [`Server::room_for_others`].

mod insert;
mod tokens;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::take;

use crate::executor::WALL_BEGIN_MS;
use crate::plan::{Change, Plan};
use crate::random::Random;
use crate::records::Row;
pub use insert::{Insert, Step};
use tokens::Token;

/// The place of the dead letters; the first table for rows is 0.
pub const DEAD: usize = 1;

/// The place of the view's target.
pub const VIEW: usize = 2;

/// The places of further tables for rows.
pub const MORE: [usize; 2] = [3, 4];

/// All places.
pub const PLACES: usize = 7;

/// Places of the tables for rows of a join without a match: those of its left side, and of its right side.
pub const BESIDE: [usize; 2] = [5, 6];

/// Tables that turn poisoned rows down.
const CHECKED: [usize; 2] = [0, MORE[0]];

/// How long a server waits for the rest of a request, microseconds.
pub const TAIL_US_MAX: u64 = 30_000_000;

/// A table of the simulated server: its rows, and the tokens that it remembers.
#[derive(Debug, Default)]
pub struct Table {
    /// Every insert that was committed: the frame and its rows.
    pub parts: Vec<(u128, Vec<Row>)>,
    /// Frames whose rows a person has taken away.
    pub wiped: BTreeSet<u128>,
    /// It has no column `time` now.
    pub lacks_time: bool,
    /// It takes nothing and says nothing until then.
    pub away_until_us: u64,
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
    /// Its owner looks, for the last time, whether its tail may leave.
    is_at_gate: bool,
    is_whole: bool,
    is_killed: bool,
    /// Its token is written, its rows are about to be: it cannot be killed any more.
    is_writing: bool,
    /// The replica that works on it.
    node: u64,
    place: usize,
    token: String,
}

/// The simulated ClickHouse: tables, running inserts, a clock of its own.
pub struct Server {
    /// All tables, by place.
    pub tables: [Table; PLACES],
    /// Counts the server's incarnations.
    pub run: u64,
    is_up: bool,
    away_until_us: u64,
    /// When its tables were altered last, by its clock at that time, to the second; 0 if they never were.
    pub altered_ms: i64,
    started_us: u64,
    clock_ms: i64,
    running: BTreeMap<String, Running>,
    poison: Vec<(u64, u64)>,
    token_window: u64,
    token_age_us: u64,
    tokens_per_block: u64,
    /// Tokens of our own that may come between the gate of an insert and its rows at the most.
    own_tokens_max: u64,
    has_view: bool,
    replicas: u64,
    /// The replica that the balancer chose last.
    node: u64,
    /// Replicas that lag: until when, and how many parts of each table they show.
    lags: BTreeMap<u64, (u64, [usize; PLACES])>,
    /// A broken reading: the lag is that of another replica than the rows.
    pub is_lag_anothers: bool,
    /// A broken table: inserts are answered from memory and written later.
    pub is_asynchronous: bool,
    /// A broken profile: the server knows no token, whatever a request says.
    pub knows_no_token: bool,
}

impl Server {
    /// A server that has been up for a while.
    pub fn new(plan: &Plan) -> Self {
        Self {
            tables: Default::default(),
            run: 0,
            is_up: true,
            away_until_us: 0,
            altered_ms: 0,
            started_us: 0,
            clock_ms: 0,
            running: BTreeMap::new(),
            poison: plan.poison.clone(),
            token_window: plan.token_window,
            token_age_us: plan.token_age_ms.map_or(u64::MAX, |ms| ms * 1_000),
            tokens_per_block: plan.tokens_per_block,
            own_tokens_max: plan.own_tokens_max(),
            has_view: plan.has_view,
            replicas: plan.replicas,
            node: 0,
            lags: BTreeMap::new(),
            is_lag_anothers: false,
            is_asynchronous: false,
            knows_no_token: false,
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

    /// True if a table answers that is reached.
    pub fn is_there_at(&self, place: usize, now_us: u64) -> bool {
        self.is_reachable(now_us) && now_us >= self.tables[place].away_until_us
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
        for table in &mut self.tables {
            if self.replicas > 1 || self.token_age_us != u64::MAX {
                // A Keeper takes token and part together, and forgets by age.
                table.tokens.retain(|_, token| *token == Token::Stands);
                table.order.retain(|(name, _)| {
                    let name = name.split_once('/').map_or(name.as_str(), |(name, _)| name);
                    table.tokens.contains_key(name) || name.starts_with("other-")
                });
            }
            table.tokens.values_mut().for_each(|token| *token = Token::Stands);
        }
    }

    /// It is back, with its tokens and rows.
    pub fn restart(&mut self, now_us: u64) {
        self.is_up = true;
        self.started_us = now_us;
    }

    /// The replica that the balancer chooses for a request: mostly the one before.
    pub fn choose_node(&mut self, random: &mut Random) -> u64 {
        if self.replicas > 1 && random.percent(20) {
            self.node = random.below(self.replicas);
        }
        self.node
    }

    /// The identity of a replica.
    pub fn server_uuid(&self, node: u64) -> String {
        if self.replicas > 1 { format!("server-{node}") } else { "server".into() }
    }

    /// A replica shows no more parts than it has now until then.
    pub fn lag(&mut self, node: u64, until_us: u64) {
        let shown = std::array::from_fn(|place| self.tables[place].parts.len());
        self.lags.insert(node, (until_us, shown));
    }

    /// How many of a table's parts a replica shows; `None` if all.
    pub fn shown(&self, node: u64, place: usize, now_us: u64) -> Option<usize> {
        let (until_us, shown) = self.lags.get(&node)?;
        (now_us < *until_us && shown[place] < self.tables[place].parts.len()).then_some(shown[place])
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
        let [target, _, view, ..] = &mut self.tables;
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
    pub fn begin(&mut self, insert: &Insert, since_us: u64, is_whole: bool, now_us: u64) -> bool {
        self.give_up_halves(now_us);
        if self.running.contains_key(&insert.query_id) {
            return false;
        }
        let (node, place, token) = (insert.node, insert.place, insert.token.clone());
        let running = Running {
            since_us,
            is_at_gate: is_whole,
            is_whole,
            is_killed: false,
            is_writing: false,
            node,
            place,
            token,
        };
        self.running.insert(insert.query_id.clone(), running);
        true
    }

    /// Drops the requests whose rest has not come in time.
    fn give_up_halves(&mut self, now_us: u64) {
        self.running.retain(|_, r| r.is_whole || now_us - r.since_us < TAIL_US_MAX);
    }

    /// The gate of a request is asked.
    pub fn at_gate(&mut self, query_id: &str) {
        if let Some(running) = self.running.get_mut(query_id) {
            running.is_at_gate = true;
        }
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
    pub fn kill(&mut self, node: u64, prefix: &str, now_us: u64) -> u64 {
        self.give_up_halves(now_us);
        self.running.retain(|id, r| {
            let is_meant = r.node == node && id.starts_with(prefix);
            let has_noticed = is_meant && !r.is_writing && (r.is_killed || !r.is_whole);
            !has_noticed
        });
        let mut running = self.running.iter_mut();
        let meant = running.by_ref().filter(|(id, r)| r.node == node && id.starts_with(prefix));
        meant.map(|(_, running)| running.is_killed = true).count() as u64
    }

    /// The oldest attempt of a frame that still runs and that the server knew before `us`.
    /// One on a replica that was not asked is covered by the confirmation before a new token.
    pub fn runs_since_before(&self, prefix: &str, us: u64) -> Option<&str> {
        if self.replicas > 1 {
            return None;
        }
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

#[cfg(test)]
mod tests;
