//! YAML text to a tree whose every node knows its place.
//!
//! Owns the part of YAML that a pipeline file may use, and its bounds. Does not own meaning: kinds and keys are for the
//! schema walk. References (`${NAME}`) are put in place here, once, so that no later step sees a half-resolved value.
//!
//! | in the file                   | here                                                           |
//! |-------------------------------|----------------------------------------------------------------|
//! | mappings, lists, scalars      | nodes with line and column                                     |
//! | a key twice                   | a fault at the second, naming the first                        |
//! | anchors, aliases, `<<`, tags  | faults: a file of this size needs none, and aliases can explode |
//! | a second document             | a fault                                                        |
//! | not YAML                      | one fault; what comes after it has no reliable place           |
//! | JSON                          | the same, and pairs of `\u` escapes, which YAML refuses        |

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput};

use super::faults::{Faults, Position};
use super::values::reference::{self, Surroundings};
pub use place::place_in;
use surrogates::{Joined, Places};

mod place;
mod surrogates;

/// Bytes of a pipeline file at the most: a thousand times what people write.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Levels of nesting at the most: four times what the schema has.
const DEPTH_MAX: usize = 32;

/// The way out where an escape stands for no character.
const ESCAPES: &str =
    "; write the character itself, or `\\U` with eight digits where JSON has two escapes for one character";

/// The way out where a pattern of files, or all columns of a `select`, is read as an alias.
const STARS: &str = "; write a text that begins with `*` or `&` in quotes";

/// The way out where a reference is not quoted and must be.
const REFERENCES: &str = "; within `{ … }` and `[ … ]` write a reference in quotes: `\"${NAME}\"`";

/// A value with its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it begins.
    pub at: Position,
    /// What it is.
    pub value: Value,
}

/// The three shapes of YAML, and two that are none.
#[derive(Clone, Debug)]
pub enum Value {
    /// `key:` with nothing after it, `~` or `null`.
    Null,
    /// Something that cannot be read; a fault says so already.
    Broken,
    /// A text, number or truth value; which one depends on what is asked for.
    Scalar(Scalar),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<Entry>),
}

/// A scalar.
#[derive(Clone)]
pub struct Scalar {
    /// The text after references were put in place. May be secret.
    pub text: String,
    /// The text as it stands in the file.
    pub written: String,
    /// Whether it stands there without quotes.
    pub plain: bool,
    /// Whether all or a part of `text` came from a reference.
    pub referenced: bool,
}

impl std::fmt::Debug for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Whether it is a secret is known by the schema alone.
        f.write_str("Scalar(..)")
    }
}

/// A key with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub at: Position,
    /// The value.
    pub value: Node,
}

/// Reads one document. `None` when there is no tree at all; the faults then say why.
pub fn parse(text: &str, around: &Surroundings, faults: &mut Faults) -> Option<Node> {
    if text.len() > FILE_BYTES_MAX {
        let message =
            format!("the file has {} bytes; a pipeline file has at most {FILE_BYTES_MAX}", text.len());
        faults.fault(Position::START, "", message);
        return None;
    }
    let joined = Joined::of(text);
    let (read, places) = joined.parts();
    let mut builder = Builder { parser: Parser::new_from_str(read), places, around, faults };
    match builder.document() {
        Ok(node) => node,
        Err(Broken { at, message }) => {
            let way_out = if is_reference(text, at) { REFERENCES } else { "" };
            builder.faults.fault(at, "", format!("{message}{way_out}"));
            None
        }
    }
}

/// Whether the place is the brace of a reference: within `{ … }` and `[ … ]` YAML takes it for the beginning of a mapping.
fn is_reference(text: &str, at: Position) -> bool {
    let line = text.lines().nth(at.line.saturating_sub(1)).unwrap_or_default();
    let mut before_and_here = line.chars().skip(at.column.saturating_sub(2));
    before_and_here.next() == Some('$') && before_and_here.next() == Some('{')
}

/// The text cannot be read on from here.
struct Broken {
    at: Position,
    message: String,
}

struct Builder<'i, 'a, 'f> {
    parser: Parser<'i, StrInput<'i>>,
    places: &'i Places,
    around: &'a Surroundings<'a>,
    faults: &'f mut Faults,
}

impl<'i> Builder<'i, '_, '_> {
    fn next(&mut self) -> Result<(Event<'i>, Position), Broken> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, self.places.in_file(position(&span.start)))),
            Some(Err(error)) => {
                let at = self.places.in_file(position(error.marker()));
                let info = error.info();
                let way_out = match info {
                    info if info.contains("Unicode character escape") => ESCAPES,
                    info if info.contains("unknown anchor") || info.contains("an anchor or alias") => STARS,
                    _ => "",
                };
                Err(Broken { at, message: format!("this is not YAML: {info}{way_out}") })
            }
            None => Err(Broken { at: Position::START, message: "the file ends in the middle".into() }),
        }
    }

    fn document(&mut self) -> Result<Option<Node>, Broken> {
        let mut root = None;
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::DocumentStart(_) if root.is_some() => {
                    let message = "a second document begins here; a pipeline file has one";
                    self.faults.fault(at, "", message);
                    break;
                }
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd => {}
                event => root = Some(self.node(event, at, 0)?),
            }
        }
        if root.is_none() {
            self.faults.fault(
                Position::START,
                "",
                "the file is empty; see `forebay check --help` for an example",
            );
        }
        Ok(root)
    }

    fn node(&mut self, event: Event<'i>, at: Position, depth: usize) -> Result<Node, Broken> {
        if depth > DEPTH_MAX {
            return Err(Broken { at, message: format!("more than {DEPTH_MAX} levels of nesting") });
        }
        let value = match event {
            Event::Alias(_) => {
                self.faults.fault(at, "", "aliases (`*name`) are not read here; write the value out");
                Value::Broken
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.decoration(anchor, tag.is_some(), at);
                self.scalar(text.into_owned(), style, at)
            }
            Event::SequenceStart(anchor, tag) => {
                self.decoration(anchor, tag.is_some(), at);
                self.list(depth)?
            }
            Event::MappingStart(anchor, tag) => {
                self.decoration(anchor, tag.is_some(), at);
                self.map(depth)?
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => return Err(Broken { at, message: "a value is missing here".into() }),
        };
        Ok(Node { at, value })
    }

    fn decoration(&mut self, anchor: usize, tagged: bool, at: Position) {
        if anchor != 0 {
            self.faults.fault(at, "", "anchors (`&name`) are not read here; write the value in place");
        }
        if tagged {
            self.faults.fault(at, "", "tags (`!name`) are not read here; the key decides what its value is");
        }
    }

    fn scalar(&mut self, written: String, style: ScalarStyle, at: Position) -> Value {
        let plain = style == ScalarStyle::Plain;
        if plain && matches!(written.as_str(), "" | "~" | "null" | "Null" | "NULL") {
            return Value::Null;
        }
        match reference::expand(&written, self.around) {
            Ok(Some(text)) => Value::Scalar(Scalar { text, written, plain, referenced: true }),
            Ok(None) => Value::Scalar(Scalar { text: written.clone(), written, plain, referenced: false }),
            Err(why) => {
                self.faults.fault(at, "", format!("this value {why}"));
                Value::Broken
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, Broken> {
        let mut items = Vec::new();
        loop {
            let (event, at) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Value::List(items));
            }
            items.push(self.node(event, at, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, Broken> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen: BTreeMap<String, Position> = BTreeMap::new();
        loop {
            let (event, at) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(Value::Map(entries)),
                Event::Scalar(text, _, anchor, tag) => {
                    self.decoration(anchor, tag.is_some(), at);
                    Some(text.into_owned())
                }
                event => {
                    self.faults.fault(at, "", "a key is a single word, not a list or mapping");
                    self.node(event, at, depth + 1)?;
                    None
                }
            };
            let (event, value_at) = self.next()?;
            let value = self.node(event, value_at, depth + 1)?;
            let Some(key) = key else { continue };
            if key == "<<" {
                self.faults.fault(at, "", "merge keys (`<<`) are not read here; write the keys out");
            } else if let Some(first) = seen.get(&key) {
                let message = format!("`{key}` appears here again, first at {}:{}", first.line, first.column);
                self.faults.fault(at, "", message);
            } else {
                seen.insert(key.clone(), at);
                entries.push(Entry { key, at, value });
            }
        }
    }
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

#[cfg(test)]
mod tests;
