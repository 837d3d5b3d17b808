//! Parts of URLs.
//!
//! Owns the split of a text into the parts that RFC 3986 names. Does not own hosts, which the crate `url` checks and normalizes. Path,
//! query and parameters are also read from a text that begins with the path, as a web server logs it. A part that is not there is NULL.

use std::borrow::Cow;

use url::Url;

use super::{Answer, Arguments, Body, Definition};

/// Reads URLs.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "url_scheme",
        call: "url_scheme(url)",
        about: "The scheme in lower case, such as `https`.",
        arguments: (1, 1),
        total: false,
        body: Body::Text(scheme),
    },
    Definition {
        name: "url_host",
        call: "url_host(url)",
        about: "The host in lower case; an international domain name in its ASCII form (`xn--…`).",
        arguments: (1, 1),
        total: false,
        body: Body::Text(host),
    },
    Definition {
        name: "url_port",
        call: "url_port(url)",
        about: "The port, or the default port of the scheme.",
        arguments: (1, 1),
        total: false,
        body: Body::Int(port),
    },
    Definition {
        name: "url_path",
        call: "url_path(url)",
        about: "The path without decoding, up to the `?` or `#`.",
        arguments: (1, 1),
        total: false,
        body: Body::Text(path),
    },
    Definition {
        name: "url_query",
        call: "url_query(url)",
        about: "The query string between `?` and `#`, without decoding.",
        arguments: (1, 1),
        total: false,
        body: Body::Text(query),
    },
    Definition {
        name: "url_fragment",
        call: "url_fragment(url)",
        about: "The fragment after `#`, without decoding.",
        arguments: (1, 1),
        total: false,
        body: Body::Text(fragment),
    },
    Definition {
        name: "url_parameter",
        call: "url_parameter(url, name)",
        about: "The decoded value of the first query parameter with that name.",
        arguments: (2, 2),
        total: false,
        body: Body::Text(parameter),
    },
    Definition {
        name: "url_decode",
        call: "url_decode(text)",
        about: "The text with percent-encoding such as `%20` decoded, and `+` as a space.",
        arguments: (1, 1),
        total: true,
        body: Body::Text(decode),
    },
];

/// The URL with a host, if the text is one.
fn parsed(text: &str) -> Option<Url> {
    Url::parse(text.trim()).ok()
}

fn scheme<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    Ok(parsed(arguments[0]).map(|url| Cow::Owned(url.scheme().to_owned())))
}

fn host<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    Ok(parsed(arguments[0]).and_then(|url| url.host_str().map(|host| Cow::Owned(host.to_owned()))))
}

fn port(arguments: Arguments) -> Answer<i64> {
    Ok(parsed(arguments[0]).and_then(|url| url.port_or_known_default()).map(i64::from))
}

/// What follows the host, up to the fragment.
fn target(text: &str) -> &str {
    let text = text.split_once('#').map_or(text, |(before, _)| before);
    let before_query = text.split_once('?').map_or(text, |(before, _)| before);
    // A path may hold `://` too: what stands before it is a scheme only without a `/`.
    let scheme = before_query.find("://").filter(|at| !before_query[..*at].contains('/'));
    match scheme {
        Some(at) => {
            let rest = &text[at + 3..];
            rest.find(['/', '?']).map_or("", |from| &rest[from..])
        }
        None => text,
    }
}

fn path<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    let target = target(arguments[0]);
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    Ok(Some(Cow::Borrowed(path)).filter(|path| !path.is_empty()))
}

fn query_of(text: &str) -> Option<&str> {
    target(text).split_once('?').map(|(_, query)| query)
}

fn query<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    Ok(query_of(arguments[0]).map(Cow::Borrowed))
}

fn fragment<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    Ok(arguments[0].split_once('#').map(|(_, fragment)| Cow::Borrowed(fragment)))
}

fn parameter<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    let Some(query) = query_of(arguments[0]) else { return Ok(None) };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let found = pairs.find(|(name, _)| *bytes(name) == *arguments[1].as_bytes());
    found.map(|(_, value)| text(bytes(value), "url_parameter")).transpose()
}

fn decode<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    text(bytes(arguments[0]), "url_decode").map(Some)
}

/// The bytes that an encoded text stands for. A `%` without two digits behind it stands for itself.
fn bytes(encoded: &str) -> Cow<'_, [u8]> {
    let mut rest = encoded.as_bytes();
    if !encoded.contains(['%', '+']) {
        return Cow::Borrowed(rest);
    }
    let mut decoded = Vec::with_capacity(rest.len());
    while let Some((&first, behind)) = rest.split_first() {
        let digit = |at: usize| char::from(*behind.get(at)?).to_digit(16);
        let escaped = if first == b'%' { digit(0).zip(digit(1)) } else { None };
        match escaped {
            Some((high, low)) => {
                decoded.push((high << 4 | low) as u8);
                rest = &behind[2..];
            }
            None => {
                decoded.push(if first == b'+' { b' ' } else { first });
                rest = behind;
            }
        }
    }
    Cow::Owned(decoded)
}

/// What the function decoded, as a text. Other bytes are not replaced: two texts would become one.
fn text<'a>(decoded: Cow<'a, [u8]>, function: &str) -> Result<Cow<'a, str>, String> {
    let fault = |_: std::str::Utf8Error| format!("what `{function}` decodes is not UTF-8");
    match decoded {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(fault),
        Cow::Owned(bytes) => {
            String::from_utf8(bytes).map(Cow::Owned).map_err(|error| fault(error.utf8_error()))
        }
    }
}
