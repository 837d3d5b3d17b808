//! Names of requests, by which a client's retry is recognised. Pure.
//!
//! Owns what is known of each name and for how long. Does not own where it survives a restart: in the log, as a label of the append
//! (`object_log::labels`), from which the table is filled at a start.
//!
//! | a request under a name that is      | meets                                                          |
//! |-------------------------------------|----------------------------------------------------------------|
//! | new                                 | [`Begin::New`]: it is appended                                 |
//! | on its way                          | [`Begin::OnItsWay`]: both are answered together                |
//! | known, with the same records        | [`Begin::Known`]: the first answer again                       |
//! | known or on its way, other records  | [`Begin::Differs`]: two requests share a name by mistake       |
//! | new, with as many as may be known   | [`Begin::Full`]: to be sent again later, when older ones expire |
//!
//! A name is known for `window` after its answer, and never longer than the log holds its records. A retry that comes later is a new request.
//!
//! A request without a name may be named after its bytes ([`Key::of_bytes`]). Nobody was promised anything for those: with as many names as may be
//! known, the oldest of them goes for a new one of either kind.

use std::collections::{BTreeMap, VecDeque};

use ring::digest::{Context, SHA256};
use tokio::sync::watch;

use crate::refusal::Refusal;

/// The name of a request, and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// What the client called it, and who the client is, as one number.
    pub id: u128,
    /// A fingerprint of the records, below 2^63; [`OF_BYTES`] if the name is one itself.
    pub tag: u64,
}

/// The tag of names that were made of a request's bytes. A client's name meets it by chance once in 2^63 requests, and is then forgotten
/// earlier than others at the worst.
const OF_BYTES: u64 = 0;

impl Key {
    /// What the client `client` calls a request with a fingerprint `tag` of its records.
    pub fn named(client: &str, name: &[u8], tag: u64) -> Self {
        Self { id: hash(client, &[b"\0", name]), tag }
    }

    /// The name of a request of `client` with these bytes, which end at `ends`.
    pub fn of_bytes(client: &str, bytes: &[u8], ends: &[u32]) -> Self {
        let ends: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        // What clients call a request has another byte behind the client.
        Self { id: hash(client, &[b"\x01", &ends, bytes]), tag: OF_BYTES }
    }

    /// Whether it was made of the request's bytes.
    pub fn is_of_bytes(&self) -> bool {
        self.tag == OF_BYTES
    }
}

/// One number for what a client says; clients that say the same do not meet. 0 stands for no name, and nobody meets it.
fn hash(client: &str, parts: &[&[u8]]) -> u128 {
    let mut hash = Context::new(&SHA256);
    hash.update(format!("{}\0{client}", client.len()).as_bytes());
    parts.iter().for_each(|part| hash.update(part));
    let hash: [u8; 16] = hash.finish().as_ref()[..16].try_into().expect("sixteen bytes");
    u128::from_le_bytes(hash).max(1)
}

/// What an append has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The position of its first record; `None` if it is in the log, and where is not known any more.
    pub first: Option<u64>,
    /// Records.
    pub rows: u64,
    /// It was in the log before this request came.
    pub is_repeat: bool,
}

/// What became of a request; `None` while it is on its way.
pub type Fate = watch::Receiver<Option<Result<Stored, Refusal>>>;

#[derive(Debug)]
enum State {
    OnItsWay(Fate),
    Known { first: Option<u64>, rows: u64 },
}

#[derive(Debug)]
struct Entry {
    tag: u64,
    state: State,
}

/// What is done with a request.
#[derive(Debug)]
pub enum Begin {
    /// Append it, and tell what became of it.
    New(watch::Sender<Option<Result<Stored, Refusal>>>, Fate),
    /// Wait for the first one.
    OnItsWay(Fate),
    /// It is in the log.
    Known(Stored),
    /// The name stands for other records.
    Differs,
    /// As many names as may be are known.
    Full,
}

/// The names that are known.
#[derive(Debug)]
pub struct Keys {
    window_ms: i64,
    keys_max: usize,
    entries: BTreeMap<u128, Entry>,
    /// Known ones in the order in which they expire, with the time of their answer: those that clients gave, and those made of bytes.
    answered: VecDeque<(i64, u128)>,
    answered_of_bytes: VecDeque<(i64, u128)>,
}

impl Keys {
    /// None, with room for `keys_max`, each for `window_ms`.
    pub fn new(window_ms: i64, keys_max: usize) -> Self {
        let (answered, answered_of_bytes) = (VecDeque::new(), VecDeque::new());
        Self { window_ms, keys_max, entries: BTreeMap::new(), answered, answered_of_bytes }
    }

    /// Fills in a name that was answered at `at_ms`, as the log says; in the order of the answers, before any request begins. The first append under a name
    /// is the one that counts. With as many names as may be known, the oldest that was made of bytes goes, as in [`begin`](Self::begin); a client's name
    /// goes only for a newer one of a client, which needs a log that was filled while more were allowed.
    pub fn restore(&mut self, key: Key, first: u64, rows: u64, at_ms: i64) {
        if self.entries.contains_key(&key.id) {
            return;
        }
        if self.entries.len() >= self.keys_max {
            let oldest = match self.answered_of_bytes.pop_front() {
                None if !key.is_of_bytes() => self.answered.pop_front(),
                oldest => oldest,
            };
            let Some((_, oldest)) = oldest else { return };
            self.entries.remove(&oldest);
        }
        let state = State::Known { first: Some(first), rows };
        self.entries.insert(key.id, Entry { tag: key.tag, state });
        self.answered_like(key).push_back((at_ms, key.id));
    }

    /// Names that are known or on their way.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is done with a request under this name at `now_ms`.
    pub fn begin(&mut self, key: Key, now_ms: i64) -> Begin {
        self.expire(now_ms);
        if let Some(entry) = self.entries.get(&key.id) {
            return match &entry.state {
                _ if entry.tag != key.tag => Begin::Differs,
                State::OnItsWay(fate) => Begin::OnItsWay(fate.clone()),
                State::Known { first, rows } => {
                    Begin::Known(Stored { first: *first, rows: *rows, is_repeat: true })
                }
            };
        }
        if self.entries.len() >= self.keys_max {
            match self.answered_of_bytes.pop_front() {
                Some((_, oldest)) => drop(self.entries.remove(&oldest)),
                None => return Begin::Full,
            }
        }
        let (tell, fate) = watch::channel(None);
        self.entries.insert(key.id, Entry { tag: key.tag, state: State::OnItsWay(fate.clone()) });
        Begin::New(tell, fate)
    }

    /// Says what became of a request that was new. One that is not in the log is forgotten: a retry of it is new.
    pub fn end(&mut self, key: Key, outcome: &Result<Stored, Refusal>, now_ms: i64) {
        match outcome {
            Ok(stored) => {
                let state = State::Known { first: stored.first, rows: stored.rows };
                self.entries.insert(key.id, Entry { tag: key.tag, state });
                // A clock that went back must not put a name before those that expire earlier.
                let answered = self.answered_like(key);
                let at_ms = answered.back().map_or(now_ms, |(at_ms, _)| now_ms.max(*at_ms));
                answered.push_back((at_ms, key.id));
            }
            Err(_) => drop(self.entries.remove(&key.id)),
        }
    }

    fn answered_like(&mut self, key: Key) -> &mut VecDeque<(i64, u128)> {
        if key.is_of_bytes() { &mut self.answered_of_bytes } else { &mut self.answered }
    }

    fn expire(&mut self, now_ms: i64) {
        for answered in [&mut self.answered, &mut self.answered_of_bytes] {
            while let Some((at_ms, id)) = answered.front()
                && now_ms.saturating_sub(*at_ms) > self.window_ms
            {
                self.entries.remove(id);
                answered.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests;
