//! ClickHouse's own engine (libchdb) behind ClickHouse's HTTP interface: the embedded default, demos and tests.
//!
//! To run it alone:
//!
//! ```text
//! cargo run -p chdb-server -- --http 127.0.0.1:8123 --path ./clickhouse-data
//! curl 'http://127.0.0.1:8123/?password=TOKEN&query=SELECT+version()'
//! ```
//!
//! With port 0 the system chooses one; either way the line `listening on 127.0.0.1:PORT` on standard output says
//! that the server is ready. The line before it holds the token that clients must know.
//!
//! Owns the HTTP interface, the bounds on requests, and the process's one engine. Does not own table semantics: those
//! are ClickHouse's. [`ABOUT`] lists what differs from a real server.
//!
//! | module        | what it does                                              |
//! |---------------|-----------------------------------------------------------|
//! | `serve`       | start, listen, stop: the server as a whole                |
//! | `http`        | paths, bounds, and the reading of a body                  |
//! | `shared`      | what all requests share                                   |
//! | `auth`        | the token that clients must know                          |
//! | `gate`        | refuses what reaches files or the network                 |
//! | `wall`        | has the kernel refuse it too                              |
//! | `request`     | query string and headers to one value                     |
//! | `sql`         | where data begin, which format, what is refused           |
//! | `compression` | ClickHouse's blocks and HTTP's encodings                  |
//! | `room`        | the memory that bodies may take                           |
//! | `settings`    | which settings exist                                      |
//! | `insert`      | data to a file in memory                                  |
//! | `running`     | the requests on their way                                 |
//! | `processes`   | query ids in system.processes, KILL QUERY                  |
//! | `work`        | one request from body to answer                           |
//! | `session`     | connections that outlive a request                        |
//! | `engine`      | data folder, lock, connections                            |
//! | `response`    | headers, error codes, statuses                            |
//! | `ffi`         | libchdb's functions                                       |
//! | `locate`      | libchdb's file                                            |
// A server at the edge of the system and not on the data's path: it lives in wall time.
#![allow(clippy::disallowed_methods)]

mod auth;
mod compression;
mod engine;
mod ffi;
mod gate;
mod http;
mod insert;
mod locate;
mod processes;
mod request;
mod response;
mod room;
mod running;
mod serve;
mod session;
mod settings;
mod shared;
mod sql;
mod wall;
mod work;

pub use auth::Token;
pub use engine::StartError;
pub use locate::VARIABLE as LIBRARY_VARIABLE;
pub use serve::{Config, ServeError, Server, serve, termination};

/// What the server is, for `--help`.
pub const ABOUT: &str = "\
ClickHouse's own engine (libchdb) behind ClickHouse's HTTP interface, for development, demos and tests. \
Tables, types, functions, merges, materialized views and insert deduplication are ClickHouse's; the data stay in --path.

What differs from a real server:
  - One token is the password of every user; each start draws another, unless --token gives one. User names are not
    looked at. It listens on loopback addresses only, unless --listen-anywhere is given.
  - Requests that a web page sends are refused: those under a foreign host name, and those of another origin.
  - HTTP only: no native protocol, no TLS, no cluster, no Keeper, so no Replicated tables.
  - Request bodies and answers are held in memory as a whole (see --max-body).
  - Asynchronous inserts are done synchronously: `async_insert` has no effect.
  - serverUUID() is all zeros.
  - Query ids are this server's: they are shown in system.processes and obeyed by KILL QUERY, but the function
    queryID() returns the engine's own.
  - What reaches files or the network is refused (file(), url(), s3(), remote(), engines and dictionaries of other
    servers, BACKUP), unless --allow-files-and-network is given: then whoever has the token reaches every file that
    this process may read or write. FROM INFILE and INTO OUTFILE are always refused. With the check on, strings that
    call such functions, expressions as values of settings, queries of dictionaries, and letters beyond ASCII outside
    of strings are refused too; and where Linux has Landlock (since 5.19), it keeps the engine from files outside of
    --path, from sockets and from programs.";
