//! The structured data of a message of RFC 5424, into one JSON object. Pure.
//!
//! Owns where the elements end, and the names of their parameters in the record. Does not own the rest of a message (`syslog::parse`).
//!
//! ```text
//! [origin ip="192.0.2.1" ip="192.0.2.129"][meta seq="1"]
//! {"origin":{"ip":"192.0.2.1","ip[2]":"192.0.2.129"},"meta":{"seq":"1"}}
//! ```
//!
//! RFC 5424 lets a parameter be repeated within its element. JSON has each name once, and a column `Map(String, Map(String, String))` takes texts alone,
//! so that a list would not do: later values get the number of their place behind the name. No name has a bracket, so no other one is met. Elements of
//! one name, which the RFC forbids and senders write, are one object.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::quoting::quote;

/// The elements at the beginning, and the text behind them; `None` if they are not well formed.
pub(super) fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = bytes;
    while rest.first() == Some(&b'[') {
        rest = element(rest, &mut |_| ())?;
    }
    let end = bytes.len() - rest.len();
    let text = match rest {
        b"" => rest,
        _ => rest.strip_prefix(b" ")?,
    };
    (end > 0).then_some((&bytes[..end], text))
}

/// A part of an element.
enum Part<'m> {
    /// Its name.
    Id(&'m [u8]),
    /// A parameter, and its value with escapes.
    Parameter(&'m [u8], &'m [u8]),
}

/// Reads an element and gives what is behind it; `None` if it is not well formed.
fn element<'m>(bytes: &'m [u8], each: &mut impl FnMut(Part<'m>)) -> Option<&'m [u8]> {
    let rest = bytes.strip_prefix(b"[")?;
    let (id, mut rest) = name(rest)?;
    each(Part::Id(id));
    loop {
        match rest {
            [b']', behind @ ..] => return Some(behind),
            [b' ', behind @ ..] => {
                let (parameter, behind) = name(behind)?;
                let value = behind.strip_prefix(b"=\"")?;
                let mut end = 0;
                while *value.get(end)? != b'"' {
                    end += 1 + usize::from(value[end] == b'\\');
                }
                each(Part::Parameter(parameter, &value[..end]));
                rest = &value[end + 1..];
            }
            _ => return None,
        }
    }
}

/// A name of an element or of a parameter, and what is behind it.
fn name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| matches!(*byte, b'=' | b' ' | b']' | b'"' | 0..0x20))?;
    (end > 0).then(|| bytes.split_at(end))
}

/// Parameters of the elements of one name: each name, and the value with escapes.
struct Element<'m> {
    id: Cow<'m, str>,
    parameters: Vec<(&'m [u8], &'m [u8])>,
}

/// Appends the members of the object: an object for each name of an element, in the order in which they come.
pub(super) fn write(out: &mut Vec<u8>, elements: &[u8]) {
    let mut unescaped = Vec::new();
    for (at, Element { id, parameters }) in by_name(elements).into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        quote(out, id.as_bytes());
        out.extend_from_slice(b":{");
        let mut met: BTreeMap<Cow<'_, str>, u32> = BTreeMap::new();
        for (at, (name, value)) in parameters.into_iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            let name = String::from_utf8_lossy(name);
            let count = met.entry(name.clone()).or_default();
            *count += 1;
            match *count {
                1 => quote(out, name.as_bytes()),
                count => quote(out, format!("{name}[{count}]").as_bytes()),
            }
            out.push(b':');
            unescape(value, &mut unescaped);
            quote(out, &unescaped);
        }
        out.push(b'}');
    }
}

/// The elements of each name together. Names are compared as they are written, with what is not UTF-8 replaced.
fn by_name(elements: &[u8]) -> Vec<Element<'_>> {
    let (mut found, mut places) = (Vec::<Element<'_>>::new(), BTreeMap::new());
    let (mut rest, mut place) = (elements, 0);
    while !rest.is_empty() {
        let read = element(rest, &mut |part| match part {
            Part::Id(id) => {
                let id = String::from_utf8_lossy(id);
                place = *places.entry(id.clone()).or_insert(found.len());
                if place == found.len() {
                    found.push(Element { id, parameters: Vec::new() });
                }
            }
            Part::Parameter(name, value) => found[place].parameters.push((name, value)),
        });
        // They were well formed when they were found.
        rest = read.unwrap_or_default();
    }
    found
}

/// `\"`, `\\` and `\]` stand for what is behind the backslash; before anything else it is itself.
fn unescape(value: &[u8], into: &mut Vec<u8>) {
    into.clear();
    let mut rest = value;
    while let [byte, behind @ ..] = rest {
        rest = match (byte, behind) {
            (b'\\', [escaped @ (b'"' | b'\\' | b']'), behind @ ..]) => {
                into.push(*escaped);
                behind
            }
            _ => {
                into.push(*byte);
                behind
            }
        };
    }
}

#[cfg(test)]
mod tests;
