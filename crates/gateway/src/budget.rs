//! Bytes in memory for requests that were not answered: of all of them together, and of each stream.
//!
//! Owns the counting. Does not own how large the room is (`gateway::options`), nor when something is held (`gateway::body`,
//! `gateway::stream`). What is held goes back when [`Held`] is dropped, whatever became of the request.
//!
//! Nobody waits here: a request that finds no room is told to come again. One that waited would hold a connection and what it has sent so far, and
//! the senders behind it would not learn that they are too fast. A request that needs more than a whole budget is told so instead: it would be
//! sent again for ever.
//!
//! | what asks for bytes                                         | and finds                | meets              |
//! |-------------------------------------------------------------|--------------------------|--------------------|
//! | a request ([`Held::of_request`]) that has and needs more than there is | whatever      | [`Kind::TooLarge`] |
//! | any other                                                   | no room beside the others | [`Kind::Busy`]    |

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::{Kind, Refusal};

/// Bytes that one permit stands for.
const PERMIT_BYTES: usize = 1 << 10;

/// A bound on bytes in memory, of which requests hold parts.
#[derive(Clone, Debug)]
pub struct Budget {
    room: Arc<Semaphore>,
    bytes: usize,
    /// What the room is for, in messages.
    of: Arc<str>,
    /// The setting that makes it larger, if there is one.
    setting: Option<Arc<str>>,
    /// It is no part of the memory for requests.
    is_apart: bool,
}

/// Bytes that are held, of two budgets at once.
#[derive(Debug)]
pub struct Held {
    all: (Budget, OwnedSemaphorePermit),
    own: (Budget, OwnedSemaphorePermit),
    /// What the whole request holds of each, if a request holds it.
    request: Option<Request>,
}

/// Permits of a request, which holds its body and its records apart.
#[derive(Clone, Debug, Default)]
struct Request {
    all: Arc<AtomicUsize>,
    own: Arc<AtomicUsize>,
}

impl Budget {
    /// A budget of `bytes`; `of` names what it is for in messages.
    pub fn new(of: &str, bytes: usize) -> Self {
        let room = Arc::new(Semaphore::new(permits_of(bytes).min(Semaphore::MAX_PERMITS)));
        Self { room, bytes, of: of.into(), setting: None, is_apart: false }
    }

    /// The same; `setting` makes it larger, in messages.
    pub fn raised_by(self, setting: &str) -> Self {
        Self { setting: Some(setting.into()), ..self }
    }

    /// Bytes that it has in all.
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// Bytes that are held.
    pub fn held_bytes(&self) -> usize {
        self.bytes.saturating_sub(self.room.available_permits() * PERMIT_BYTES)
    }

    /// Room beside the memory for requests, for something small that has to be answered also when they hold all of that.
    pub(crate) fn apart(of: &str, bytes: usize) -> Self {
        Self { is_apart: true, ..Self::new(of, bytes) }
    }

    fn tell(&self, bytes: usize) {
        if !self.is_apart {
            gauge!("forebay_gateway_memory_bytes").set(bytes as f64);
        }
    }

    fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
        let permits = u32::try_from(permits_of(bytes)).unwrap_or(u32::MAX);
        self.room.clone().try_acquire_many_owned(permits).map_err(|_| {
            Refusal::new(
                Kind::Busy,
                format!(
                    "requests hold as many bytes as {} may have ({}); send again later",
                    self.of, self.bytes
                ),
            )
        })
    }

    /// Checks that a request that holds so many permits would find room for `bytes` more if it were alone.
    fn check(&self, held: &AtomicUsize, bytes: usize) -> Result<(), Refusal> {
        let needed = held.load(Ordering::Relaxed).saturating_add(permits_of(bytes));
        if needed <= permits_of(self.bytes) {
            return Ok(());
        }
        let raise = self.setting.as_ref().map_or_else(String::new, |setting| format!(", or raise {setting}"));
        let message = format!(
            "the request needs more memory than {} may have ({} bytes), whatever others hold; send less at a time{raise}",
            self.of, self.bytes
        );
        Err(Refusal::new(Kind::TooLarge, message))
    }
}

fn permits_of(bytes: usize) -> usize {
    bytes.div_ceil(PERMIT_BYTES)
}

impl Request {
    fn add(&self, permits: usize) {
        self.all.fetch_add(permits, Ordering::Relaxed);
        self.own.fetch_add(permits, Ordering::Relaxed);
    }

    fn remove(&self, permits: usize) {
        self.all.fetch_sub(permits, Ordering::Relaxed);
        self.own.fetch_sub(permits, Ordering::Relaxed);
    }
}

impl Held {
    /// Holds nothing yet, of both; for what waits until others are done.
    pub fn none(all: &Budget, own: &Budget) -> Self {
        let nothing = |budget: &Budget| budget.take(0).expect("no permit is always there");
        Self { all: (all.clone(), nothing(all)), own: (own.clone(), nothing(own)), request: None }
    }

    /// The same of a request, whose sender has to know whether it may ever be taken.
    pub fn of_request(all: &Budget, own: &Budget) -> Self {
        let mut held = Self::none(all, own);
        held.request = Some(Request::default());
        held
    }

    /// Nothing of the same budgets, for the same request.
    pub fn another(&self) -> Self {
        let mut another = Self::none(&self.all.0, &self.own.0);
        another.request.clone_from(&self.request);
        another
    }

    /// Nothing for the same request, of this budget of its own: another one, or the same.
    pub fn beside(&self, own: &Budget) -> Self {
        let is_same = Arc::ptr_eq(&own.room, &self.own.0.room);
        let beside = |request: &Request| match is_same {
            true => request.clone(),
            false => Request { all: request.all.clone(), ..Request::default() },
        };
        let mut held = Self::none(&self.all.0, own);
        held.request = self.request.as_ref().map(beside);
        held
    }

    /// Holds `bytes` more, of both budgets.
    ///
    /// # Errors
    /// [`Kind::Busy`] when one of the two has no room, [`Kind::TooLarge`] when it can never have enough for this request; what was held stays so.
    pub fn take(&mut self, bytes: usize) -> Result<(), Refusal> {
        if let Some(request) = &self.request {
            self.own.0.check(&request.own, bytes)?;
            self.all.0.check(&request.all, bytes)?;
        }
        let own = self.own.0.take(bytes)?;
        let all = self.all.0.take(bytes)?;
        if let Some(request) = &self.request {
            request.add(all.num_permits());
        }
        self.own.1.merge(own);
        self.all.1.merge(all);
        self.all.0.tell(self.all.0.held_bytes());
        Ok(())
    }

    /// Holds also what another one holds, of the same budgets.
    pub fn merge(&mut self, mut other: Self) {
        let moved = other.all.1.num_permits();
        if let Some(request) = &other.request {
            request.remove(moved);
        }
        if let Some(request) = &self.request {
            request.add(moved);
        }
        let of = |permit: &mut OwnedSemaphorePermit| permit.split(permit.num_permits());
        if let (Some(own), Some(all)) = (of(&mut other.own.1), of(&mut other.all.1)) {
            self.own.1.merge(own);
            self.all.1.merge(all);
        }
    }

    /// Gives back what it holds beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let beyond = self.all.1.num_permits().saturating_sub(permits_of(bytes));
        let given = (self.all.1.split(beyond), self.own.1.split(beyond));
        if let (Some(_), Some(_), Some(request)) = (&given.0, &given.1, &self.request) {
            request.remove(beyond);
        }
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.all.1.num_permits() * PERMIT_BYTES
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(request) = &self.request {
            request.remove(self.all.1.num_permits());
        }
        // What this one holds comes back right after.
        let left = self.all.0.held_bytes().saturating_sub(self.bytes());
        self.all.0.tell(left);
    }
}

#[cfg(test)]
mod tests;
