//! What an answer to a statement that makes something means.
//!
//! Owns the codes that pass by themselves. Does not own answers to inserts, whose rows count there ([`super`]): a statement either is refused, or it may be
//! given again, for it makes only what is not there.
//!
//! | what came back                            | remedy |
//! |-------------------------------------------|--------|
//! | a code of the table below                 | resend |
//! | the user may not, the database is missing | stop   |
//! | every other code                          | stop: it would be refused again |
//! | no code                                   | as for an insert |

use dataflow::{Effect, InsertError, Remedy, TableFault};

use super::{Answer, MESSAGE_CHARS_MAX, Meaning, classify_answer, code_in, error, meaning};
use crate::types::shorten;

/// Codes of a server that is busy, starting, stopping, or without something that it needs.
pub(super) const TEMPORARY: [i32; 32] = [
    32,  // read after the end: the request was damaged
    33,  // not all data could be read
    57,  // another process makes it at this moment
    159, // time limit
    160, // it would take too long at this load
    201, // the user's quota is used up
    202, // too many simultaneous queries
    203, // no free connection
    209, // a socket's time limit inside the server
    210, // a network error inside the server
    216, // a query with this id is running
    225, // no keeper
    236, // the server is stopping
    241, // memory limit
    242, // the table or database is read-only
    243, // no space on the disk
    279, // no replica of a cluster could be reached
    285, // too few live replicas
    286, // the quorum before is open
    319, // the server does not know what became of it
    341, // not finished in time on all hosts
    373, // the session is locked
    394, // the query was cancelled
    425, // a system call failed
    439, // no thread
    473, // a deadlock was avoided
    499, // the object store failed
    529, // another host is the leader
    571, // the replication of a database failed
    649, // a transaction in the keeper failed
    722, // a table that it waits for is not loaded yet
    999, // the keeper failed
];

/// Success, or why nothing was made.
pub fn classify_making(answer: Answer<'_>) -> Result<(), InsertError> {
    let Some(code) = answer.exception_code.filter(|c| *c != 0).or_else(|| code_in(answer.body)) else {
        return classify_answer(answer, false);
    };
    let text = shorten(answer.body.trim(), MESSAGE_CHARS_MAX);
    let (remedy, kind, advice) = match meaning(code) {
        _ if TEMPORARY.contains(&code) => {
            (Remedy::Resend, TableFault::Overloaded, "the server cannot do it now")
        }
        Meaning::Access if code == 164 => (Remedy::Stop, TableFault::Access, "this user is read-only"),
        Meaning::Access => (
            Remedy::Stop,
            TableFault::Access,
            "the server refuses this user; fix the user's password or grants",
        ),
        Meaning::Forbidden => (
            Remedy::Stop,
            TableFault::Access,
            "a profile of this user forbids a setting that the statement must name",
        ),
        Meaning::TableMissing => (Remedy::Stop, TableFault::TableMissing, "the server refuses it"),
        _ => (Remedy::Stop, TableFault::Request, "the server refuses it"),
    };
    Err(error(Effect::None, remedy, code, kind, format!("{advice}: code {code}: {text}")))
}

#[cfg(test)]
mod tests;
