//! What an answer to a question means: a poll of a table, a probe, a read of the server's catalog.
//!
//! Owns which codes end with a person and which pass by themselves. Does not own answers to inserts, whose rows count there ([`super`]), nor those
//! to statements that make something ([`super::making`]): a question has no effect, and may always be asked again.
//!
//! | what came back                                       | remedy | shown as          |
//! |------------------------------------------------------|--------|-------------------|
//! | a setting of the profile refuses ([`super::limits`]) | stop   | `request`, or `access` for a user that only reads and for constraints |
//! | the server is busy, starting, stopping               | resend | `overloaded`, or as for an insert |
//! | the statement is not understood, or not answerable   | stop   | `request`         |
//! | a code that is not known                             | resend | `unclear`         |
//! | every other code, and no code                        | as for an insert |       |

use dataflow::{Effect, InsertError, Remedy, TableFault};

use super::making::TEMPORARY;
use super::{Answer, MESSAGE_CHARS_MAX, Meaning, classify_answer, code_in, error, limits, meaning_of};
use crate::types::shorten;

/// Codes of questions that a server of this version, or for this user, never answers.
const HOPELESS: [i32; 16] = [
    42,  // the number of arguments is wrong
    43,  // the type of an argument is wrong
    46,  // no such function
    63,  // no such aggregate function
    180, // no such profile
    184, // an aggregate function within another
    215, // a column outside of an aggregate
    344, // support for it is disabled
    386, // no common type
    392, // the query is prohibited
    446, // the function is not allowed
    456, // no such parameter of the query
    457, // a parameter of the query cannot be read
    511, // no such role
    620, // the query is not allowed
    732, // the query cache cannot be used for it
];

/// Success, or why there is no answer.
pub fn classify_asking(answer: Answer<'_>) -> Result<(), InsertError> {
    let Some(code) = answer.exception_code.filter(|c| *c != 0).or_else(|| code_in(answer.body)) else {
        return classify_answer(answer, false);
    };
    let (remedy, kind, advice) = match meaning_of(code, answer.body) {
        Meaning::Forbidden => (
            Remedy::Stop,
            TableFault::Access,
            "a profile of this user forbids a setting that a request must name",
        ),
        _ if code == 164 => (Remedy::Stop, TableFault::Access, "this user is read-only"),
        _ if limits::limit(code, answer.body).is_some() => (
            Remedy::Stop,
            TableFault::Request,
            "a profile of this user refuses a question that Forebay must ask",
        ),
        Meaning::Uncertain if TEMPORARY.contains(&code) => {
            (Remedy::Resend, TableFault::Overloaded, "the server cannot answer a question now")
        }
        Meaning::BadContent => (Remedy::Stop, TableFault::Request, "the server refuses a question"),
        _ if HOPELESS.contains(&code) => (Remedy::Stop, TableFault::Request, "the server refuses a question"),
        Meaning::Uncertain => (
            Remedy::Resend,
            TableFault::Uncertain,
            "the server answers a question with an error that may pass",
        ),
        Meaning::Overloaded
        | Meaning::NoSpace
        | Meaning::ReadOnly
        | Meaning::NoQuorum
        | Meaning::Damaged
        | Meaning::AlreadyRunning
        | Meaning::SessionLocked
        | Meaning::TableMissing
        | Meaning::Table
        | Meaning::Expression
        | Meaning::Access
        | Meaning::Limit
        // Whatever it would say of an insert: a question has no effect.
        | Meaning::Request => {
            return classify_answer(answer, false).map_err(|error| InsertError { effect: Effect::None, ..error });
        }
    };
    let text = shorten(answer.body.trim(), MESSAGE_CHARS_MAX);
    Err(error(Effect::None, remedy, code, kind, format!("{advice}: code {code}: {text}")))
}

#[cfg(test)]
mod tests;
