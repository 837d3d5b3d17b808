//! From a byte of a scalar's value to its place in the file.
//!
//! Owns the walk along both. YAML changes blanks alone, where it joins lines, and quotes: every other character of the value stands in the
//! file in the same order. So the characters that are no blanks are counted. Does not own which byte is concerned.

use std::iter::Peekable;

use super::{Node, Value};
use crate::config::faults::Position;

/// Where byte `at` of a text's value stands in the file. `None` where the value is not in the file as it is: a reference, or an escape for
/// anything but a quote or a backslash before it.
pub fn place_in(node: &Node, file: &str, at: usize) -> Option<Position> {
    let Value::Scalar(scalar) = &node.value else { return None };
    let before = scalar.text.get(..at).filter(|_| !scalar.referenced)?;
    let mut written = Written::at(file, node.at);
    let quote = written.open();
    let mut end = written.place;
    for wanted in before.chars().filter(|one| !one.is_whitespace()) {
        end = written.next_of(wanted, quote)?.1;
    }
    match scalar.text[at..].chars().next().filter(|next| !next.is_whitespace()) {
        Some(next) => Some(written.next_of(next, quote)?.0),
        // The end of the text, or a blank, of which there may be another number in the file.
        None => Some(end),
    }
}

/// The rest of a file, by characters, with the place of the next.
struct Written<'a> {
    rest: Peekable<std::str::Chars<'a>>,
    place: Position,
}

impl<'a> Written<'a> {
    /// The file from `place` on.
    fn at(file: &'a str, place: Position) -> Self {
        let begin: usize = file.split_inclusive('\n').take(place.line - 1).map(str::len).sum();
        let line = &file[begin..];
        let within = line.char_indices().nth(place.column - 1).map_or(line.len(), |(byte, _)| byte);
        Self { rest: line[within..].chars().peekable(), place }
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        self.place = match next {
            '\n' => Position { line: self.place.line + 1, column: 1 },
            _ => Position { column: self.place.column + 1, ..self.place },
        };
        Some(next)
    }

    /// Steps over what stands before the text: a quote, which is returned, or the first line of a block.
    fn open(&mut self) -> Option<char> {
        match self.rest.peek()? {
            '"' | '\'' => self.next(),
            '|' | '>' => {
                while self.next().is_some_and(|next| next != '\n') {}
                None
            }
            _ => None,
        }
    }

    /// Where the next character that is no blank begins and ends; `None` if it is not the one that is wanted.
    fn next_of(&mut self, wanted: char, quote: Option<char>) -> Option<(Position, Position)> {
        while self.rest.peek().is_some_and(|next| next.is_whitespace()) {
            self.next();
        }
        let begin = self.place;
        let mut next = self.next()?;
        // A quote is doubled within single ones, and has a backslash before it within double ones, as has a backslash.
        if (quote, next) == (Some('\''), '\'') || (quote == Some('"') && next == '\\') {
            next = self.next()?;
            if !matches!(next, '"' | '\'' | '\\' | '/') {
                return None;
            }
        }
        (next == wanted).then_some((begin, self.place))
    }
}
