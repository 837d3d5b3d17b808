//! What an answer to an insert, or the lack of one, means.
//!
//! Owns the classification: from a status, an exception code and a text, or from a broken connection, to the effect and the
//! remedy. Pure. Does not own the request ([`crate::client`]) or what is done about it (`engine::deliver`).
//!
//! | what came back                               | effect  | remedy |
//! |----------------------------------------------|---------|--------|
//! | 200, no exception, an empty body, a header of ClickHouse | success | -  |
//! | 200 with an exception in a header or the body | by its code | by its code |
//! | 200 without any header of ClickHouse         | unknown | resend |
//! | 200 before the last bytes left ([`crate::client`]) | unknown | resend |
//! | a failure with an exception code             | by its code | by its code |
//! | the same while a materialized view was fed   | unknown | by its code |
//! | 401, 403, 404, 413, 414, 431, a redirect, no code | none | stop   |
//! | 429, no code                                 | none    | resend |
//! | 408, 5xx, everything else, no code           | unknown | resend |
//! | no connection                                | none    | resend |
//! | broken or too slow before the last bytes left | none   | resend |
//! | broken or too slow after that                | unknown | resend |
//! | the owner changed before the last bytes left | none    | stop   |
//!
//! A code that is not in the table is unknown and resent: a resend under the same token is always safe.

mod asking;
pub mod limits;
mod making;

use dataflow::{Effect, InsertError, Remedy, TableFault};

use crate::types::shorten;

pub use asking::classify_asking;
pub use making::classify_making;

/// Characters of the server's words in an error: enough for the sentence, too few for a body.
pub const MESSAGE_CHARS_MAX: usize = 500;

/// Characters of a view's name in an error: database and name of the usual length.
const VIEW_CHARS_MAX: usize = 200;

/// An answer, as far as it matters.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The header `X-ClickHouse-Exception-Code`.
    pub exception_code: Option<i32>,
    /// True if any header begins with `X-ClickHouse-`.
    pub from_clickhouse: bool,
    /// The body, or its beginning.
    pub body: &'a str,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The connection could not be opened (refused, no route, name, TLS).
    Connect,
    /// The time for the request is over.
    Timeout,
    /// The connection broke.
    Broken,
    /// The lane has another owner: the request was given up before its last bytes.
    Fenced,
}

/// What a code means for an insert. One word for each way on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Overloaded,
    NoSpace,
    ReadOnly,
    NoQuorum,
    Damaged,
    AlreadyRunning,
    SessionLocked,
    BadContent,
    TableMissing,
    Table,
    Expression,
    Access,
    Forbidden,
    Request,
    Limit,
    Uncertain,
}

/// Success, or what went wrong. `views` says that materialized views hang on the table.
pub fn classify_answer(answer: Answer<'_>, views: bool) -> Result<(), InsertError> {
    let code = answer.exception_code.filter(|c| *c != 0).or_else(|| code_in(answer.body));
    let text = shorten(answer.body.trim(), MESSAGE_CHARS_MAX);
    if let Some(code) = code {
        return Err(match failed_view(answer.body, views) {
            Some(view) => of_view(code, view, &text),
            None => of_code(code, &text, views),
        });
    }
    match answer.status {
        200 if answer.body.contains("__exception__") => {
            let message = format!("the server answered 200 with a failure in the body: {text}");
            Err(error(Effect::Unknown, Remedy::Resend, 0, TableFault::ExceptionInBody, message))
        }
        200 if answer.from_clickhouse && text.is_empty() => Ok(()),
        200 => {
            let way = match answer.from_clickhouse {
                true => "",
                false => {
                    "; something in front of the server answers in its place, or takes the headers `X-ClickHouse-…` off its answers: let them pass"
                }
            };
            let message =
                format!("the answer is not one of ClickHouse to an insert: status 200, `{text}`{way}");
            Err(error(Effect::Unknown, Remedy::Resend, 0, TableFault::NotTheServer, message))
        }
        status => Err(of_status(status, &text)),
    }
}

/// What went wrong when no answer came. `complete` says that the last bytes of the request had been released.
pub fn classify_no_answer(fault: NoAnswer, complete: bool, detail: &str) -> InsertError {
    let detail = shorten(detail, MESSAGE_CHARS_MAX);
    // The length was announced, so that a server cannot take a request for whole whose last bytes were never sent.
    let effect = if complete { Effect::Unknown } else { Effect::None };
    let after = if complete { "after" } else { "before" };
    match fault {
        NoAnswer::Connect => {
            error(Effect::None, Remedy::Resend, 0, TableFault::Connection, format!("no connection: {detail}"))
        }
        NoAnswer::Timeout => {
            let message = format!("no answer in time, {after} the last bytes were sent: {detail}");
            error(effect, Remedy::Resend, 0, TableFault::Timeout, message)
        }
        NoAnswer::Broken => {
            let message = format!("the connection broke {after} the last bytes were sent: {detail}");
            error(effect, Remedy::Resend, 0, TableFault::Broken, message)
        }
        NoAnswer::Fenced => {
            let message = "the insert was given up before its last bytes: the lane has another owner".into();
            error(Effect::None, Remedy::Stop, 0, TableFault::Fenced, message)
        }
    }
}

/// The code in a text such as `Code: 60. DB::Exception: …`.
pub fn code_in(text: &str) -> Option<i32> {
    let (_, after) = text.split_once("Code: ")?;
    let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = after.split_at(digits);
    rest.starts_with(". DB::").then(|| number.parse().ok()).flatten()
}

/// The materialized view that has failed on the rows, by the whole text of an exception; `views` says that views are known to hang on the table.
///
/// The server names it at the end, behind the constraint, the values or the expression. A view may be younger than the last look, so the words are
/// enough. A record may hold the same words, and the server quotes its values: then a quote follows, and they count only where there are views.
fn failed_view(body: &str, views: bool) -> Option<&str> {
    let (_, end) = body.rsplit_once("while pushing to view ")?;
    let name = end.split(" (").next().unwrap_or(end).trim().trim_end_matches('.');
    (views || !end.contains('\'')).then_some(name)
}

/// A view is fed after or beside the table, whose part may be there already.
fn of_view(code: i32, view: &str, text: &str) -> InsertError {
    let view = shorten(view, VIEW_CHARS_MAX);
    let way = match code {
        252 if is_of_one_insert(text) => {
            "the rows of one insert are in more than 100 partitions of its target; give the target a coarser PARTITION BY"
        }
        252 => "its target has too many parts; merges must catch up",
        _ if limits::limit(code, text).is_some() => {
            "a setting refuses its query, which runs with the settings of the user that inserts, or of the view's definer"
        }
        _ => match meaning_of(code, text) {
            Meaning::Overloaded
            | Meaning::NoSpace
            | Meaning::ReadOnly
            | Meaning::NoQuorum
            | Meaning::Uncertain => {
                "this may pass, and the insert is sent again; if it does not pass, fix what the server names, or the view"
            }
            Meaning::Access => {
                "its query or its target needs a right that is missing; grant it to the user that inserts, or to the view's definer"
            }
            Meaning::TableMissing => "a table that it reads or writes is not there; bring it back",
            _ => "fix the view",
        },
    };
    let message = format!(
        "the materialized view {view} failed on the rows: {way}. If the view is dropped instead, the rows that wait are missing from its target. \
         Code {code}: {text}"
    );
    let remedy = if meaning_of(code, text) == Meaning::BadContent { Remedy::Stop } else { Remedy::Resend };
    error(Effect::Unknown, remedy, code, TableFault::View, message)
}

/// Whether code 252 is about the partitions that one insert touches. A table may also have too many parts "in all partitions in total", or be called so.
fn is_of_one_insert(text: &str) -> bool {
    text.contains("Too many partitions")
}

/// Whether code 241 is about the memory of one query, which the same insert meets again, and not about that of all queries of the user or the server.
fn is_of_one_query(text: &str) -> bool {
    text.contains("(for query)") || text.contains("Query memory limit")
}

fn of_code(code: i32, text: &str, views: bool) -> InsertError {
    use {Effect as E, Remedy as R, TableFault as F};
    // 252 stands for two things. Too many partitions in one block is our mistake, and waiting does not help.
    if code == 252 && is_of_one_insert(text) {
        let message = format!(
            "the frame touches several partitions of the table, against the cut made here. If the table was exchanged for one with another PARTITION BY, or an \
             expression behind it was altered, exchange or alter it back until these rows are written: {text}"
        );
        let effect = if views { E::Unknown } else { E::None };
        return error(effect, R::Stop, code, TableFault::TooManyPartitions, message);
    }
    let (effect, remedy, kind, advice) = match meaning_of(code, text) {
        Meaning::Overloaded if code == 252 => {
            (E::None, R::Resend, F::TooManyParts, "the table has too many parts; merges must catch up")
        }
        Meaning::Overloaded => (E::None, R::Resend, F::Overloaded, "the server takes no more work now"),
        Meaning::NoSpace => (E::None, R::Resend, F::NoSpace, "the server's disk is full"),
        // A replica that lost its keeper while it committed the part may say so behind the commit.
        Meaning::ReadOnly => (
            if code == 242 { E::Unknown } else { E::None },
            R::Resend,
            F::ReadOnly,
            "the table is read-only (its keeper is unavailable, or its setting `table_readonly` is on)",
        ),
        Meaning::NoQuorum => (E::None, R::Resend, F::NoQuorum, "too few replicas are there for the quorum"),
        Meaning::Damaged => (E::None, R::Resend, F::Damaged, "the request was damaged on its way"),
        // Every attempt has an id of its own, so the query that runs is a copy of this very request, which a proxy has sent twice.
        Meaning::AlreadyRunning => (
            E::Unknown,
            R::Resend,
            F::AlreadyRunning,
            "this insert is still running; a proxy that repeats requests has sent it twice",
        ),
        Meaning::SessionLocked => {
            (E::None, R::Resend, F::AlreadyRunning, "the session is locked by another request")
        }
        Meaning::BadContent => (E::None, R::Divert, F::BadContent, "the server refused the rows"),
        Meaning::TableMissing => (E::None, R::Stop, F::TableMissing, "the table is not there; bring it back"),
        Meaning::Table => (E::None, R::Stop, F::Differs, "the table is not the one that was checked; fix it"),
        Meaning::Expression => (
            E::None,
            R::Stop,
            F::Differs,
            "a DEFAULT or constraint of the table, or one of its views, reads a column that the insert does not have; fix the one that the \
             server names",
        ),
        Meaning::Access if code == 164 => (E::None, R::Stop, F::Access, "this user is read-only"),
        Meaning::Access => {
            (E::None, R::Stop, F::Access, "the server refuses this user; fix the user's password or grants")
        }
        Meaning::Request => (E::None, R::Stop, F::Request, "the server does not understand the request"),
        // Most of them are met before the part, but a view's query may have met one behind it.
        Meaning::Limit => {
            (E::Unknown, R::Stop, F::Request, "a setting of this user's profile refuses the insert")
        }
        Meaning::Forbidden => (
            E::None,
            R::Stop,
            F::Access,
            "a profile of this user forbids a setting that every insert must name; allow the user to change it",
        ),
        Meaning::Uncertain if code == 241 && is_of_one_query(text) => (
            E::Unknown,
            R::Resend,
            F::Uncertain,
            "a query of this user may not take the memory that the insert needs; raise the user's `max_memory_usage`. A lower `batch.bytes` makes later inserts \
             smaller, and not those that wait",
        ),
        Meaning::Uncertain => {
            (E::Unknown, R::Resend, F::Uncertain, "the server does not say whether rows were written")
        }
    };
    error(effect, remedy, code, kind, format!("{advice}: code {code}: {text}"))
}

/// As [`meaning`], where the server's words tell apart what has one code: a number of an empty text, which an expression of the table asks for, ends as
/// early as a request that was cut off.
fn meaning_of(code: i32, text: &str) -> Meaning {
    match meaning(code) {
        Meaning::Damaged if code == 32 && text.contains("because value is too short") => Meaning::BadContent,
        meaning => meaning,
    }
}

/// ClickHouse's code, read as what it says about an insert. `Uncertain` where rows may be there.
fn meaning(code: i32) -> Meaning {
    match code {
        // Refused before the block reached the table.
        252 => Meaning::Overloaded, // too many parts: checked before the part is written
        202 => Meaning::Overloaded, // too many simultaneous queries: refused at the door
        201 => Meaning::Overloaded, // the user's quota is used up: checked at the door
        243 => Meaning::NoSpace,    // the reservation of disk space comes before the part
        242 => Meaning::ReadOnly, // a replicated table without its keeper session: before the part, or behind its commit
        774 => Meaning::ReadOnly, // the table's setting `table_readonly`: asked before the part
        225 => Meaning::ReadOnly, // no keeper is configured or it is gone: asked before the part
        285 => Meaning::NoQuorum, // too few live replicas: checked before the part is written
        286 => Meaning::NoQuorum, // the quorum of the write before is open: checked before the part
        216 => Meaning::AlreadyRunning, // a query with this id is running: a copy of this one
        373 => Meaning::SessionLocked, // the session is locked by another request: refused at the door

        // The bytes are not what was sent: the block was never whole.
        33 => Meaning::Damaged,  // not all data could be read
        32 => Meaning::Damaged,  // read after the end
        40 => Meaning::Damaged,  // a chunk's checksum is wrong
        271 => Meaning::Damaged, // a chunk cannot be decompressed

        // The rows themselves are turned down, before any part.
        6 => Meaning::BadContent,   // text cannot be parsed
        26 => Meaning::BadContent,  // a quoted string cannot be parsed
        27 => Meaning::BadContent,  // input does not read as expected
        38 => Meaning::BadContent,  // a date cannot be parsed
        41 => Meaning::BadContent,  // a time cannot be parsed
        53 => Meaning::BadContent,  // a value's type does not fit its column
        69 => Meaning::BadContent,  // an argument is out of bounds
        70 => Meaning::BadContent,  // a type cannot be converted
        72 => Meaning::BadContent,  // a number cannot be parsed
        117 => Meaning::BadContent, // incorrect data
        128 => Meaning::BadContent, // an array is too large
        130 => Meaning::BadContent, // an array cannot be parsed
        131 => Meaning::BadContent, // a string is too large
        135 => Meaning::BadContent, // an array's item of the number 0 in an expression of the table
        153 => Meaning::BadContent, // a division by zero in an expression of the table
        190 => Meaning::BadContent, // the arrays of a row have different sizes
        321 => Meaning::BadContent, // a value is out of its type's range
        349 => Meaning::BadContent, // a null into a column without NULL
        376 => Meaning::BadContent, // a UUID cannot be parsed
        395 => Meaning::BadContent, // throwIf in a constraint or a default
        407 => Meaning::BadContent, // a decimal overflows
        427 => Meaning::BadContent, // a text is no regular expression
        441 => Meaning::BadContent, // an address cannot be parsed
        467 => Meaning::BadContent, // a Bool cannot be parsed
        469 => Meaning::BadContent, // a CHECK constraint is violated
        675 => Meaning::BadContent, // an IPv4 cannot be parsed
        676 => Meaning::BadContent, // an IPv6 cannot be parsed
        691 => Meaning::BadContent, // a number or name is not in the enum

        // The table is gone.
        60 => Meaning::TableMissing,  // no such table
        81 => Meaning::TableMissing,  // no such database
        218 => Meaning::TableMissing, // the table was dropped

        // It has other columns.
        16 => Meaning::Table, // no such column in the table
        8 => Meaning::Table,  // there is no such column
        10 => Meaning::Table, // a column is not in the block
        20 => Meaning::Table, // the numbers of columns differ
        44 => Meaning::Table, // a column cannot be inserted into
        48 => Meaning::Table, // the engine does not take inserts

        // Something that it computes at an insert reads what is not there.
        47 => Meaning::Expression, // an identifier is not known

        // The user may not.
        164 => Meaning::Access, // the user or the query is read-only
        192 => Meaning::Access, // no such user
        193 => Meaning::Access, // wrong password (old servers)
        194 => Meaning::Access, // a password is required
        195 => Meaning::Access, // this address is not allowed
        497 => Meaning::Access, // a grant is missing
        516 => Meaning::Access, // authentication failed

        // The statement is not understood, always before it runs.
        36 => Meaning::Request,    // bad arguments
        50 => Meaning::Request,    // a type is not known
        62 => Meaning::Request,    // syntax error
        73 => Meaning::Request,    // the format is not known
        115 => Meaning::Request,   // a setting is not known: the server is too old or too new
        452 => Meaning::Forbidden, // a setting is fixed for this user

        // A limit of the profile, which does not pass.
        158 | 161 | 165 | 166 | 167 | 168 | 191 | 277 | 306 | 307 | 392 | 396 | 584 | 704 | 719 => {
            Meaning::Limit // each with its setting in `limits`
        }

        // Everything else may stand after the part. By name, because people look for them here:
        241 => Meaning::Uncertain, // memory limit: it can be hit while the part is committed or a view is fed
        159 => Meaning::Uncertain, // time limit
        209 => Meaning::Uncertain, // a socket's time limit inside the server
        210 => Meaning::Uncertain, // a network error inside the server
        236 => Meaning::Uncertain, // aborted: the server is stopping
        319 => Meaning::Uncertain, // the server itself does not know the insert's status
        394 => Meaning::Uncertain, // the query was cancelled
        425 => Meaning::Uncertain, // a system call failed
        499 => Meaning::Uncertain, // the object store failed
        999 => Meaning::Uncertain, // the keeper failed, perhaps in the middle of the commit
        49 => Meaning::Uncertain,  // a bug of the server
        _ => Meaning::Uncertain,   // codes that came after this was written
    }
}

fn of_status(status: u16, text: &str) -> InsertError {
    use {Effect as E, Remedy as R, TableFault as F};
    let (effect, remedy, kind, advice) = match status {
        // Something in front of the server refuses: the insert never reached it.
        401 | 403 => (
            E::None,
            R::Stop,
            F::Access,
            "a proxy in front of the server refuses the request; fix its access rules",
        ),
        404 => (E::None, R::Stop, F::Request, "nothing answers at this address; correct `url`"),
        413 => (
            E::None,
            R::Stop,
            F::TooLarge,
            "a proxy in front of the server refuses the size; raise its limit (`client_max_body_size` of nginx). A lower `batch.bytes` makes later inserts \
             smaller, and not those that wait",
        ),
        414 | 431 => (
            E::None,
            R::Stop,
            F::TooLarge,
            "a proxy in front of the server refuses the length of the request's address, which names the columns and the settings; raise its limit \
             (`large_client_header_buffers` of nginx)",
        ),
        429 => {
            (E::None, R::Resend, F::Overloaded, "a proxy in front of the server accepts no more requests now")
        }
        300..=399 => (E::None, R::Stop, F::Request, "the server redirects; put the final address into `url`"),
        // A balancer answers so when it has lost the server, before or after the insert.
        408 | 500..=599 => (E::Unknown, R::Resend, F::BadStatus, "the server or a balancer failed"),
        _ => (E::Unknown, R::Resend, F::BadStatus, "the answer is not expected"),
    };
    error(effect, remedy, 0, kind, format!("{advice}: status {status}: {text}"))
}

fn error(effect: Effect, remedy: Remedy, code: i32, kind: TableFault, message: String) -> InsertError {
    InsertError { effect, remedy, code, kind, message }
}

#[cfg(test)]
mod tests;
