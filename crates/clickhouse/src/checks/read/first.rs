//! The first questions to a server, asked before it is known which settings it has and this user may set.
//!
//! Owns the settings that such a question names ([`crate::settings::first`]), and the next try without those that the server refuses to set: a
//! profile with `offset`, a filter or a query cache would otherwise change the answer by which all others are asked. Does not own the
//! questions ([`super`]).

use crate::client::{Client, QueryError};
use crate::response::limits::words;
use crate::settings;

/// A setting that the server does not know.
const UNKNOWN_SETTING: i32 = 115;
/// The user may set nothing.
const READONLY: i32 = 164;
/// A constraint forbids the value.
const FORBIDDEN: i32 = 452;

/// What the next try of a first question names.
pub(super) fn settings(client: &Client) -> Vec<(&'static str, String)> {
    let unsettable = client.unsettable();
    let mut settings = settings::first(client.question_seconds());
    settings.retain(|(name, _)| !unsettable.contains(name));
    settings
}

/// Whether a question that named `settings` is to be tried again, because the server refuses to set one of them. Each try names one less, or none, so that
/// there are as many as settings, and one more.
pub(super) fn should_retry(client: &Client, settings: &[(&'static str, String)], error: &QueryError) -> bool {
    let is_about_a_setting = matches!(error.code, UNKNOWN_SETTING | READONLY | FORBIDDEN);
    if settings.is_empty() || !is_about_a_setting {
        return false;
    }
    let mut names = settings.iter().map(|(name, _)| *name);
    let named = names.clone().find(|name| words(&error.message).any(|word| word == *name));
    match (error.code, named) {
        (UNKNOWN_SETTING | FORBIDDEN, Some(name)) => client.leave_unset([name]),
        _ => client.leave_unset(names.by_ref()),
    }
    true
}
