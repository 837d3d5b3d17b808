//! Walks a tree along the schema: finds every fault at once, and turns texts into the types that are asked for.
//!
//! Owns unknown keys (with the nearest known one), missing keys, wrong kinds, bounds, and "exactly one of". Does not own
//! the rules that span several keys (`rules`). The result has what is good and leaves out what is not, so that later
//! rules can be tried on the rest.
//!
//! A scalar has no type of its own here: `topic: 2024` is a text and `rows: 2024` a number, because the schema says so.

mod shown;

use serde_json::{Map, Number, Value as Json};

use super::faults::{Faults, Position};
use super::nearest::nearest;
use super::schema::View;
use super::spans::{Entry, Node, Scalar, Value};
use super::values;
use super::values::reference::Surroundings;
use super::values::{Identifier, Kind, Secret, reference};
pub use shown::form;
use shown::{forms, listed, looks_secret, quoted, quoted_scalar, shown, why, why_not_more};

/// Turns `node` into JSON of the form of `schema`; `None` if nothing of it can be used.
pub fn walk(node: &Node, schema: View, around: &Surroundings, faults: &mut Faults) -> Option<Json> {
    let root = schema;
    Walk { root, around, faults }.value(node, schema, "")
}

struct Walk<'s, 'a, 'f> {
    root: View<'s>,
    around: &'a Surroundings<'a>,
    faults: &'f mut Faults,
}

impl<'s> Walk<'s, '_, '_> {
    fn value(&mut self, node: &Node, schema: View<'s>, path: &str) -> Option<Json> {
        if matches!(node.value, Value::Broken) {
            return None;
        }
        let branches = schema.branches();
        if !branches.is_empty() {
            let fitting = branches.iter().find(|branch| fits(&node.value, **branch));
            // With no fitting form the first one complains, in the name of all of them.
            return match fitting {
                Some(branch) => self.value(node, *branch, path),
                None => self.wrong(node, path, &forms(&branches)),
            };
        }
        match (schema.text("type"), &node.value) {
            (Some("object"), Value::Map(entries)) => self.object(node.at, entries, schema, path),
            (Some("array"), Value::List(items)) => self.list(node.at, items, schema, path),
            (Some("integer"), Value::Scalar(scalar)) => self.integer(node.at, scalar, schema, path),
            (Some("boolean"), Value::Scalar(scalar)) => match (scalar.text.as_str(), takes_types(scalar)) {
                ("true", true) => Some(Json::Bool(true)),
                ("false", true) => Some(Json::Bool(false)),
                _ => self.wrong(node, path, "`true` or `false`"),
            },
            (_, Value::Scalar(scalar)) if is_text(schema) => self.text(node.at, scalar, schema, path),
            _ => self.wrong(node, path, &form(schema)),
        }
    }

    fn object(&mut self, at: Position, entries: &[Entry], schema: View<'s>, path: &str) -> Option<Json> {
        let mut out = Map::new();
        for entry in entries {
            let inner = join(path, &entry.key);
            let known = schema.properties().and_then(|known| known.get(&entry.key));
            let of_entry = known.map(|known| schema.of(known)).or_else(|| schema.any_property());
            match of_entry {
                None => self.unknown_key(entry, schema, &inner),
                Some(_) if known.is_none() && !self.is_name(entry, &inner) => {}
                Some(_) if matches!(entry.value.value, Value::Null) => {
                    let message = format!("`{}` has no value; give it one or leave the key out", entry.key);
                    self.faults.fault(entry.at, inner, message);
                }
                Some(of_entry) => {
                    if let Some(value) = self.value(&entry.value, of_entry, &inner) {
                        out.insert(entry.key.clone(), value);
                    }
                }
            }
        }
        self.present_keys(at, entries, schema, path);
        self.length(at, entries.len(), "entries", ("minProperties", "maxProperties"), schema, path);
        Some(Json::Object(out))
    }

    /// Free keys are names of columns or properties.
    fn is_name(&mut self, entry: &Entry, path: &str) -> bool {
        let checked = values::read(Identifier::KIND, &entry.key);
        if let Err(why) = &checked {
            self.faults.fault(entry.at, path, format!("the key `{}` {why}", shown(&entry.key)));
        }
        checked.is_ok()
    }

    /// Required keys, and those of which exactly one must be there.
    fn present_keys(&mut self, at: Position, entries: &[Entry], schema: View<'s>, path: &str) {
        let whole = || self.root.text("x-called").unwrap_or("the pipeline").to_owned();
        let of = if path.is_empty() { whole() } else { format!("`{path}`") };
        let meant = meant_keys(entries, schema);
        for key in schema.texts("required") {
            if !meant.contains(&key) {
                self.faults.fault(at, join(path, key), format!("{of} needs the key `{key}`"));
            }
        }
        let choice = schema.exactly_one();
        if choice.is_empty() {
            return;
        }
        let mut chosen = entries.iter().filter(|entry| choice.contains(&entry.key.as_str()));
        let first = chosen.next();
        let way_out = schema.text("x-both").map_or(String::new(), |way_out| format!("; {way_out}"));
        for further in chosen {
            let message = format!(
                "{of} has `{}` already; it takes exactly one of {}{way_out}",
                first.map_or("", |entry| &entry.key),
                listed(&choice)
            );
            self.faults.fault(further.at, join(path, &further.key), message);
        }
        // A word of a later version was a choice too, and has its own fault.
        let later = schema.texts("x-later");
        let chosen = |key: &&str| choice.contains(key) || later.contains(key);
        if !meant.iter().any(chosen) {
            let message = match choice.as_slice() {
                [one] => format!("{of} needs the key `{one}`"),
                many => format!("{of} needs exactly one of {}", listed(many)),
            };
            self.faults.fault(at, path, message);
        }
    }

    fn unknown_key(&mut self, entry: &Entry, schema: View<'s>, path: &str) {
        let key = entry.key.as_str();
        let known: Vec<&str> =
            schema.properties().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        let message = if schema.texts("x-later").contains(&key) {
            format!("`{key}` is not supported yet in this version; known here: {}", listed(&known))
        } else if let Some(why) = schema.get("x-never").and_then(|never| never.get(key)?.as_str()) {
            format!("`{key}` {why}")
        } else if let Some(near) = nearest(key, &known) {
            format!("unknown key `{}`, did you mean `{near}`?", shown(key))
        } else {
            let places = places_of(key, self.root, "");
            match places.as_slice() {
                [one] => format!("unknown key `{key}` here, it belongs to `{one}`"),
                [one, two] => format!("unknown key `{key}` here, it belongs to `{one}` or `{two}`"),
                _ => format!("unknown key `{}`; known here: {}", shown(key), listed(&known)),
            }
        };
        self.faults.fault(entry.at, path, message);
    }

    fn list(&mut self, at: Position, items: &[Node], schema: View<'s>, path: &str) -> Option<Json> {
        let mut out = Vec::with_capacity(items.len());
        let of_item = schema.items()?;
        let unique = schema.get("uniqueItems") == Some(&Json::Bool(true));
        for (index, item) in items.iter().enumerate() {
            let inner = format!("{path}[{index}]");
            let Some(value) = self.value(item, of_item, &inner) else { continue };
            if unique && out.contains(&value) {
                self.faults.fault(
                    item.at,
                    inner,
                    format!("{} appears in `{path}` twice", quoted(&item.value)),
                );
            }
            // Kept all the same, so that the places of those after it stay what they are in the file.
            out.push(value);
        }
        self.length(at, items.len(), "items", ("minItems", "maxItems"), schema, path);
        Some(Json::Array(out))
    }

    fn integer(&mut self, at: Position, scalar: &Scalar, schema: View<'s>, path: &str) -> Option<Json> {
        let digits = scalar.text.strip_prefix('-').unwrap_or(&scalar.text);
        let is_whole =
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) && takes_types(scalar);
        let number = scalar.text.parse::<i128>().ok().filter(|_| is_whole);
        let Some(number) = number else {
            let message = format!("`{path}` must be a whole number, found {}", quoted_scalar(scalar));
            self.faults.fault(at, path, message);
            return None;
        };
        let bound = |keyword| schema.get(keyword).and_then(Json::as_number).and_then(Number::as_i128);
        let (least, most) = (bound("minimum").unwrap_or(0), bound("maximum").unwrap_or(i128::from(u64::MAX)));
        if !(least..=most).contains(&number) {
            let why = why(schema);
            let message =
                format!("`{path}` must be from {least} to {most}, found {}{why}", quoted_scalar(scalar));
            self.faults.fault(at, path, message);
            return None;
        }
        u64::try_from(number).ok().map(|number| Json::Number(number.into()))
    }

    fn text(&mut self, at: Position, scalar: &Scalar, schema: View<'s>, path: &str) -> Option<Json> {
        let words = schema.words();
        if !words.is_empty() {
            return self.word(at, scalar, &words, schema, path);
        }
        let kind = schema.text(values::KIND);
        if kind == Some(Secret::KIND) {
            return self.secret(at, scalar, path);
        }
        let checked = match kind {
            Some(kind) => values::read(kind, &scalar.text),
            None if scalar.text.is_empty() => Err("is empty".to_owned()),
            None => Ok(None),
        };
        match checked {
            Ok(magnitude) => {
                self.bounds(at, scalar, magnitude, schema, path)?;
                // What the file itself has there, as at the end of a query of several lines, is meant.
                if scalar.referenced && !scalar.written.ends_with('\n') {
                    self.line_break(at, &scalar.text, path);
                }
                Some(Json::String(scalar.text.clone()))
            }
            Err(why) => {
                self.faults.fault(at, path, format!("`{path}` {why}; found {}", quoted_scalar(scalar)));
                None
            }
        }
    }

    fn word(
        &mut self,
        at: Position,
        scalar: &Scalar,
        words: &[(&str, &str)],
        schema: View<'s>,
        path: &str,
    ) -> Option<Json> {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        if words.contains(&scalar.text.as_str()) {
            return Some(Json::String(scalar.text.clone()));
        }
        let found = quoted_scalar(scalar);
        let message = if schema.texts("x-later").contains(&scalar.text.as_str()) && !scalar.referenced {
            format!("{found} is not supported yet in this version; `{path}` takes {}", listed(&words))
        } else {
            let near = nearest(&scalar.text, &words).filter(|_| !scalar.referenced);
            let near = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
            format!("`{path}` takes {}, found {found}{near}", listed(&words))
        };
        self.faults.fault(at, path, message);
        None
    }

    fn secret(&mut self, at: Position, scalar: &Scalar, path: &str) -> Option<Json> {
        const UNNAMED: &str = "holds a reference whose value begins with `file:`, and there is no such file, or it holds \
                               no secret";
        // A password may begin so by chance, and then the name of the file is the password.
        let is_named_elsewhere = scalar.referenced && !scalar.written.starts_with("file:");
        let without_name = |why: String| if is_named_elsewhere { UNNAMED.to_owned() } else { why };
        let resolved = reference::from_file(&scalar.text, self.around)
            .map_err(without_name)
            .and_then(|from_file| from_file.map_or_else(|| Ok(None), |text| Ok(Some(text))))
            .and_then(|from_file| {
                let text = from_file.clone().unwrap_or_else(|| scalar.text.clone());
                values::read(Secret::KIND, &text).map(|_| (text, from_file.is_some()))
            });
        match resolved {
            Ok((text, from_file)) => {
                let clear = !from_file && !scalar.referenced && !text.is_empty();
                // Properties of librdkafka are all kept as secrets, but few are some.
                if clear && (!path.contains(".properties.") || looks_secret(path)) {
                    let message = format!(
                        "`{path}` is plain text here; `${{NAME}}` or `file:/path` keeps it out of the file"
                    );
                    self.faults.hint(at, path, message);
                }
                self.line_break(at, &text, path);
                Some(Json::String(text))
            }
            Err(why) => {
                self.faults.fault(at, path, format!("`{path}` {why}"));
                None
            }
        }
    }

    /// A line break at the end that hardly anybody means. Of a key in PEM it is the end of the last line.
    fn line_break(&mut self, at: Position, text: &str, path: &str) {
        if text.ends_with(['\n', '\r']) && text.lines().count() == 1 {
            let message = format!(
                "`{path}` ends with a line break, which counts as a part of it; `echo` ends a value so, `printf` does not"
            );
            self.faults.hint(at, path, message);
        }
    }

    fn bounds(
        &mut self,
        at: Position,
        scalar: &Scalar,
        magnitude: Option<u128>,
        schema: View<'s>,
        path: &str,
    ) -> Option<()> {
        let Some(magnitude) = magnitude else { return Some(()) };
        let kind = schema.text(values::KIND).unwrap_or_default();
        let bound = |keyword| {
            let text = schema.text(keyword)?;
            Some((text, values::read(kind, text).ok().flatten()?))
        };
        let (least, most) = (bound("x-least"), bound("x-most"));
        let low = least.filter(|(_, least)| magnitude < *least);
        let high = most.filter(|(_, most)| magnitude > *most);
        let (word, (text, _), why) = match (low, high) {
            (Some(low), _) => ("at least", low, why(schema)),
            (None, Some(high)) => ("at most", high, why_not_more(schema)),
            (None, None) => return Some(()),
        };
        let message = format!("`{path}` must be {word} {text}, found {}{why}", quoted_scalar(scalar));
        self.faults.fault(at, path, message);
        None
    }

    fn length(
        &mut self,
        at: Position,
        found: usize,
        what: &str,
        (least, most): (&str, &str),
        schema: View<'s>,
        path: &str,
    ) {
        let bound = |keyword| schema.get(keyword).and_then(Json::as_u64).map(|bound| bound as usize);
        if bound(least).is_some_and(|least| found < least) {
            self.faults.fault(at, path, format!("`{path}` is empty; it needs at least one of its {what}"));
        }
        if let Some(most) = bound(most).filter(|most| found > *most) {
            let message = format!("`{path}` has {found} {what}, at most {most} are allowed{}", why(schema));
            self.faults.fault(at, path, message);
        }
    }

    fn wrong(&mut self, node: &Node, path: &str, wanted: &str) -> Option<Json> {
        let of = if path.is_empty() { "the file".to_owned() } else { format!("`{path}`") };
        self.faults.fault(node.at, path, format!("{of} must be {wanted}, found {}", quoted(&node.value)));
        None
    }
}

/// The keys of a mapping, misspelt ones as what they were meant to be: those have a fault already, and a second one that
/// says "missing" would only confuse.
fn meant_keys<'e>(entries: &'e [Entry], schema: View<'e>) -> Vec<&'e str> {
    let known: Vec<&str> = schema.properties().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    let meant = entries.iter().map(|entry| match entry.key.as_str() {
        key if known.contains(&key) => key,
        key => nearest(key, &known).unwrap_or(key),
    });
    meant.collect()
}

/// Whether a value has the shape that a form asks for.
fn fits(value: &Value, form: View) -> bool {
    match (form.text("type"), value) {
        (Some("object"), Value::Map(_)) | (Some("array"), Value::List(_)) => true,
        (Some("boolean"), Value::Scalar(scalar)) => {
            takes_types(scalar) && matches!(scalar.text.as_str(), "true" | "false")
        }
        (Some("integer"), Value::Scalar(scalar)) => scalar.text.parse::<i128>().is_ok(),
        (_, Value::Scalar(_)) => is_text(form),
        _ => false,
    }
}

fn is_text(form: View) -> bool {
    form.text("type") == Some("string") || !form.words().is_empty()
}

/// A quoted scalar is a text; a reference may stand for anything.
fn takes_types(scalar: &Scalar) -> bool {
    scalar.plain || scalar.referenced
}

/// Where else in the schema a key of that name stands; two places are as good as many.
fn places_of(key: &str, schema: View, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inner = schema.branches();
    inner.extend(schema.items());
    for branch in inner {
        found.extend(places_of(key, branch, path));
    }
    for (name, property) in schema.properties().into_iter().flatten() {
        if name == key {
            found.push(if path.is_empty() { "the top of the file".into() } else { path.to_owned() });
        }
        found.extend(places_of(key, schema.of(property), &join(path, name)));
    }
    found.truncate(2);
    found
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
