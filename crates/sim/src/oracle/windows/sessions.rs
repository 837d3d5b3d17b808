//! Sessions: which are open, and what they hold.
//!
//! Owns the rule: which records are of one session, when it ends, and which records are late. Records are taken in the order of their partition, which is that
//! of each key's (`plan::windows`). Does not own what a seal must hold of these (`oracle::windows`).

use crate::records::Record;
use crate::results::Result as Of;

/// An open session.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Session {
    key: u64,
    first_ms: i64,
    last_ms: i64,
    of: Of,
}

/// Those that are open.
#[derive(Clone, Debug, PartialEq)]
pub struct Sessions {
    gap_ms: i64,
    max_ms: i64,
    lateness_ms: i64,
    open: Vec<Session>,
}

impl Sessions {
    /// None.
    pub fn new(gap_ms: i64, max_ms: i64, lateness_ms: i64) -> Self {
        Self { gap_ms, max_ms, lateness_ms, open: Vec::new() }
    }

    /// When a session ends whose last record has this time.
    fn end_ms(&self, last_ms: i64) -> i64 {
        let bound_ms = last_ms - last_ms.rem_euclid(self.max_ms) + self.max_ms;
        bound_ms.min(last_ms + self.gap_ms)
    }

    /// Whether a time is one of a session, or would be if it lasted longer.
    fn is_near(&self, session: &Session, time_ms: i64) -> bool {
        let of_one_span = time_ms.div_euclid(self.max_ms) == session.first_ms.div_euclid(self.max_ms);
        of_one_span && time_ms > session.first_ms - self.gap_ms && time_ms < session.last_ms + self.gap_ms
    }

    /// Takes a record into the sessions of its key that are near, which become one; or into a new one, unless that would be closed. Whether it did.
    pub fn take(&mut self, record: &Record, watermark_ms: i64) -> bool {
        let Record { id, key, time_ms, .. } = *record;
        let all = std::mem::take(&mut self.open);
        let (near, others): (Vec<Session>, Vec<Session>) =
            all.into_iter().partition(|session| session.key == key && self.is_near(session, time_ms));
        self.open = others;
        if near.is_empty() && self.end_ms(time_ms) + self.lateness_ms <= watermark_ms {
            return false;
        }
        let mut one = Session { key, first_ms: time_ms, last_ms: time_ms, of: Of::none(0, 0, key) };
        one.of.add(id, true);
        for session in near {
            one.first_ms = one.first_ms.min(session.first_ms);
            one.last_ms = one.last_ms.max(session.last_ms);
            let ([sum, least, greatest], others) = (one.of.ids, session.of.ids);
            one.of.ids = [sum + others[0], least.min(others[1]), greatest.max(others[2])];
            (one.of.count, one.of.last) = (one.of.count + session.of.count, one.of.last + session.of.last);
        }
        self.open.push(one);
        true
    }

    /// The least watermark that closes all; `None` if none is open.
    pub fn closing_ms(&self) -> Option<i64> {
        self.open.iter().map(|session| self.end_ms(session.last_ms) + self.lateness_ms).max()
    }

    /// Takes those away that a watermark closes.
    pub fn close(&mut self, watermark_ms: i64) -> Vec<(Of, bool)> {
        let all = std::mem::take(&mut self.open);
        let (closed, open) = all
            .into_iter()
            .partition(|session| self.end_ms(session.last_ms) + self.lateness_ms <= watermark_ms);
        self.open = open;
        let result = |session: Session| {
            let (start_ms, end_ms) = (session.first_ms, self.end_ms(session.last_ms));
            (Of { start_ms, end_ms, ..session.of }, true)
        };
        Vec::into_iter(closed).map(result).collect()
    }

    /// Records that are held.
    pub fn held(&self) -> u64 {
        self.open.iter().map(|session| session.of.count).sum()
    }
}
