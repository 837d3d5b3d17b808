//! User agents, read by the crate `woothee`.
//!
//! Owns the names of what it finds. Does not own the patterns, which are the crate's. What it does not know is NULL.

use std::borrow::Cow;

use woothee::parser::{Parser, WootheeResult};

use super::{Answer, Arguments, Body, Definition};

/// The word of `woothee` for what it does not know.
const UNKNOWN: &str = "UNKNOWN";

/// Reads user agents.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "ua_name",
        call: "ua_name(user_agent)",
        about: "The browser or crawler, such as `Firefox` or `Googlebot`.",
        arguments: (1, 1),
        total: false,
        body: Body::Text(name),
    },
    Definition {
        name: "ua_version",
        call: "ua_version(user_agent)",
        about: "The version of the browser.",
        arguments: (1, 1),
        total: false,
        body: Body::Text(version),
    },
    Definition {
        name: "ua_category",
        call: "ua_category(user_agent)",
        about: "`pc`, `smartphone`, `mobilephone`, `appliance`, `crawler` or `misc`.",
        arguments: (1, 1),
        total: false,
        body: Body::Text(category),
    },
    Definition {
        name: "ua_os",
        call: "ua_os(user_agent)",
        about: "The operating system, such as `Windows 10` or `Android`.",
        arguments: (1, 1),
        total: false,
        body: Body::Text(os),
    },
    Definition {
        name: "ua_os_version",
        call: "ua_os_version(user_agent)",
        about: "The version of the operating system.",
        arguments: (1, 1),
        total: false,
        body: Body::Text(os_version),
    },
    Definition {
        name: "ua_vendor",
        call: "ua_vendor(user_agent)",
        about: "Who makes the browser.",
        arguments: (1, 1),
        total: false,
        body: Body::Text(vendor),
    },
    Definition {
        name: "ua_is_bot",
        call: "ua_is_bot(user_agent)",
        about: "Whether it is a known crawler; false for a browser and for what is not known.",
        arguments: (1, 1),
        total: true,
        body: Body::Bool(is_bot),
    },
];

fn parsed<'a>(text: &'a str) -> Option<WootheeResult<'a>> {
    Parser::new().parse(text)
}

fn known<'a>(word: &str) -> Option<Cow<'a, str>> {
    (word != UNKNOWN && !word.is_empty()).then(|| Cow::Owned(word.to_owned()))
}

fn name<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    Ok(parsed(arguments[0]).and_then(|agent| known(agent.name)))
}

fn version<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    // Of a tool the parser gives its name once more.
    let is_version = |version: &Cow<'a, str>| version.contains(|one: char| one.is_ascii_digit());
    Ok(parsed(arguments[0]).and_then(|agent| known(agent.version)).filter(is_version))
}

fn category<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    Ok(parsed(arguments[0]).and_then(|agent| known(agent.category)))
}

fn os<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    Ok(parsed(arguments[0]).and_then(|agent| known(agent.os)))
}

fn os_version<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    Ok(parsed(arguments[0]).and_then(|agent| known(&agent.os_version)))
}

fn vendor<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    Ok(parsed(arguments[0]).and_then(|agent| known(agent.vendor)))
}

fn is_bot(arguments: Arguments) -> Answer<bool> {
    Ok(Some(parsed(arguments[0]).is_some_and(|agent| agent.category == "crawler")))
}
