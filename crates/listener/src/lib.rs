//! What every HTTP listener of this project does before it inspects a request: it bounds connections, and it refuses
//! requests that a web page sends to this machine behind its user's back.
//!
//! Owns accepting, TLS, the bounds on connections, and the order of a stop. Does not own paths, answers or passwords: those belong to the
//! service behind it.
//!
//! | module     | what it does                                                         |
//! |------------|----------------------------------------------------------------------|
//! | `serve`    | accepts connections; bounds their number and every wait for a client |
//! | `requests` | counts the requests of a connection of HTTP/2                        |
//! | `stall`    | ends a connection whose client no longer takes its answer            |
//! | `stopping` | how the parts of a connection learn that the server stops             |
//! | `unread`   | throws away what comes of a request that was answered before it was read |
//! | `windows`  | how much all connections of HTTP/2 may send ahead of their reader    |
//! | `tls`      | certificates from files, read again when they change                 |
//! | `admit`    | refuses foreign host names and cross-site requests                   |
// Listeners stand at the edge of the system and not on the data's path: they live in wall time.
#![allow(clippy::disallowed_methods)]

mod admit;
mod requests;
mod serve;
mod stall;
mod stopping;
mod tls;
mod unread;
mod windows;

pub use admit::{Names, Refusal};
pub use serve::{Bounds, Edge, serve, serve_with};
pub use tls::{Tls, TlsError, TlsFiles};
pub use windows::Windows;
