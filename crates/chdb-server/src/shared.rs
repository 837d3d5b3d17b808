//! What all requests share, and what one holds while it is here.
//!
//! Owns both lists. Does not own who is admitted (`http`), nor the bounds of each part, which its own module has.

use std::sync::Arc;

use listener::Names;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::Guard;
use crate::engine::Engine;
use crate::room::Budget;
use crate::running::{Running, Ticket};
use crate::session::{Held, Sessions};

/// What all requests share.
pub struct Server {
    /// The database.
    pub engine: Engine,
    /// Sessions by name.
    pub sessions: Sessions,
    /// Requests that are on their way.
    pub running: Arc<Running>,
    /// Memory for bodies.
    pub budget: Budget,
    /// The token that clients must know.
    pub guard: Guard,
    /// The names that the server may be asked under.
    pub names: Names,
    /// One permit for every request that may be here, running or waiting.
    pub places: Arc<Semaphore>,
    /// One permit for every statement that may run.
    pub turns: Arc<Semaphore>,
}

/// What a request holds from its admission to its end. It travels into the blocking thread, so that a client
/// that goes away frees nothing before the engine is done.
pub struct Admitted {
    /// Its line among the running.
    pub ticket: Ticket,
    /// Its session, if it asked for one.
    pub session: Option<Held>,
    pub(crate) _place: OwnedSemaphorePermit,
}
