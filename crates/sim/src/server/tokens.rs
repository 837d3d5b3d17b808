//! What a table remembers of tokens.
//!
//! Owns when a token is forgotten, by number and by age, and the room that others leave ([`Server::room_for_others`]). Does not own what a known token does to
//! an insert ([`super::insert`]).

use super::{Running, Server, VIEW};
use crate::plan::VIEW_TOKENS;

/// What is written of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// The line, and not the rows yet; by this run of the server.
    Writing,
    /// The line stands.
    Stands,
}

impl Server {
    /// Others insert into a table, each by itself or all of them as one block; says how many have found room.
    pub fn others_insert(&mut self, place: usize, inserts: u64, is_one_block: bool, now_us: u64) -> u64 {
        // Nothing else may ever come to this server, and they must not wait for a request whose client died at its gate.
        self.give_up_halves(now_us);
        let per_insert = self.tokens_per_block;
        let room = self.room_for_others(place) / per_insert;
        if is_one_block && room < inserts {
            return 0;
        }
        let inserts = inserts.min(room);
        for n in 0..inserts {
            self.remember(place, format!("other-{now_us}-{n}"), now_us);
        }
        if is_one_block && inserts > 0 {
            self.tables[place].block -= inserts - 1;
        }
        inserts
    }

    /// Tokens that others may use now without pushing one out whose insert is judged at its gate, or has passed it and is still worked
    /// on: it was judged with half of a memory to spare, and a real half is thousands.
    fn room_for_others(&self, place: usize) -> u64 {
        let table = &self.tables[place];
        let open = self.running.values().filter(|r| r.is_at_gate && !r.is_killed && r.place == place);
        let slack = |r: &Running| {
            let at = table.order.iter().position(|(token, _)| *token == r.token)?;
            let newer = (table.order.len() - at) as u64;
            Some(self.token_window.saturating_sub(newer).saturating_sub(self.own_tokens_max))
        };
        open.filter_map(slack).min().unwrap_or(u64::MAX)
    }

    /// The memory of every table is made small and large again; false while an insert is judged at its gate, or has passed it and is still worked on.
    pub fn forget_all(&mut self, now_us: u64) -> bool {
        self.give_up_halves(now_us);
        if self.running.values().any(|running| running.is_at_gate && !running.is_killed) {
            return false;
        }
        for table in &mut self.tables {
            let tokens = std::mem::take(&mut table.tokens);
            // A token without its rows is none that an insert meets again.
            table.pushed_out.extend(tokens.into_keys().map(|token| (token, now_us)));
            table.order.clear();
        }
        let (_, now_ms) = self.times_ms(now_us);
        self.altered_ms = now_ms / 1_000 * 1_000;
        true
    }

    pub(super) fn remember(&mut self, place: usize, token: String, now_us: u64) {
        let parts = if place == VIEW { VIEW_TOKENS } else { 1 };
        let table = &mut self.tables[place];
        table.block += parts;
        for n in 1..parts * self.tokens_per_block {
            table.order.push_back((format!("{token}/{n}"), now_us));
        }
        table.pushed_out.remove(&token);
        table.tokens.insert(token.clone(), Token::Stands);
        table.order.push_back((token, now_us));
        self.forget_tokens(place, now_us);
    }

    /// Drops the tokens that are too many or too old.
    pub(super) fn forget_tokens(&mut self, place: usize, now_us: u64) {
        let table = &mut self.tables[place];
        let is_old = |(_, us): &(String, u64)| now_us - us > self.token_age_us;
        while table.order.len() as u64 > self.token_window || table.order.front().is_some_and(is_old) {
            let Some((old, _)) = table.order.pop_front() else { break };
            if table.tokens.remove(&old).is_some() {
                table.pushed_out.insert(old, now_us);
            }
        }
    }
}
