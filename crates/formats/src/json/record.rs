//! One record after the other into the columns of a batch.
//!
//! Owns the walk over a record's object: which key comes next, which column it fills, what a record may leave out, and
//! that a record that is turned down leaves nothing behind. Does not own blocks and rejects ([`super`]).

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;
use dataflow::{Reason, Schema};

use super::builders::Builder;
use super::fail::{Fail, Step};
use super::joints::{Joint, Leads, SEVERAL};
use super::plan::{Key, Node, Place, Plan};
use super::scan::Cursor;
use crate::shown::shown_byte;

/// The columns of a batch while it is decoded.
pub(super) struct Rows<'p> {
    plan: &'p Plan,
    schema: &'p Schema,
    columns: Vec<Growing>,
    /// The rows that are complete.
    rows: usize,
    /// The number of the record at work, from 1: what is marked with it was seen in this record.
    record: u32,
    /// For each key of the plan that is not alone with its column, the last record that had it.
    seen: Vec<u32>,
    /// The number of columns that the record at work has filled.
    filled_count: usize,
    /// For each state of a walk, what is expected to follow; learnt from the records before.
    joints: Vec<Joint>,
    /// Nested values that do not fit, in the record at work: a fault only if no flat key fills the column.
    deferred: Vec<Fail>,
    /// Keys with escapes.
    scratch: Vec<u8>,
}

/// A column while it grows.
struct Growing {
    builder: Box<dyn Builder>,
    /// The last record that filled it.
    filled: u32,
    /// The last record that filled it by its flat key.
    flat: u32,
}

/// What follows in an object.
enum Next {
    /// The value of a key.
    Key(Leads),
    /// The value of a key that the plan does not know.
    Unknown,
    /// Its closing brace.
    End,
}

impl<'p> Rows<'p> {
    /// No rows yet; `patterns` are the builders of `schema`'s columns.
    pub fn new(
        plan: &'p Plan,
        schema: &'p Schema,
        patterns: &[Box<dyn Builder>],
        rows_expected: usize,
    ) -> Self {
        let growing = |builder| Growing { builder, filled: 0, flat: 0 };
        let columns = patterns.iter().map(|pattern| growing(pattern.fresh(rows_expected))).collect();
        Self {
            plan,
            schema,
            columns,
            rows: 0,
            record: 0,
            seen: vec![0; plan.slots],
            filled_count: 0,
            joints: vec![Joint::UNKNOWN; plan.states],
            deferred: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Appends a record as one row. `is_ascii` says that all its bytes were seen to be ASCII. After an error all columns are as
    /// they were before.
    pub fn push(&mut self, bytes: &[u8], is_ascii: bool) -> Step<()> {
        self.record += 1;
        self.filled_count = 0;
        if !self.deferred.is_empty() {
            self.deferred.clear();
        }
        match self.record(bytes, is_ascii) {
            Ok(()) => {
                self.rows += 1;
                Ok(())
            }
            Err(fail) => {
                self.columns.iter_mut().for_each(|column| column.builder.truncate(self.rows));
                Err(fail)
            }
        }
    }

    /// The columns as Arrow arrays, in the order of the schema.
    pub fn finish(self) -> Result<Vec<ArrayRef>, ArrowError> {
        self.columns.into_iter().map(|column| column.builder.finish()).collect()
    }

    #[inline]
    fn record(&mut self, bytes: &[u8], is_ascii: bool) -> Step<()> {
        if !is_ascii {
            check_utf8(bytes)?;
        }
        let mut cursor = Cursor::new(bytes);
        cursor.space();
        if cursor.peek() != b'{' {
            return Err(no_object(&mut cursor));
        }
        self.object(0, &mut cursor)?;
        cursor.space();
        if let Some(next) = cursor.rest().first() {
            let rule = format!("{} follows the record's object; a record is one object", shown_byte(*next));
            return Err(Fail::bytes(cursor.position(), rule));
        }
        let is_open = |f: &Fail| self.columns[f.column.unwrap_or(0)].filled != self.record;
        if let Some(at) = self.deferred.iter().position(is_open) {
            return Err(Box::new(self.deferred.swap_remove(at)));
        }
        if self.filled_count < self.columns.len() {
            self.fill_absent()?;
        }
        Ok(())
    }

    /// Gives the columns that no field has filled a null, where they take one.
    fn fill_absent(&mut self) -> Step<()> {
        for (column, definition) in self.schema.columns().iter().enumerate() {
            if self.columns[column].filled == self.record {
                continue;
            }
            if !definition.is_optional() {
                return Err(Fail::absent(column));
            }
            self.fill_default(column)?;
        }
        Ok(())
    }

    /// Steps over the object of `node`. The recursion is as deep as the plan, which is bounded.
    fn object(&mut self, node: usize, cursor: &mut Cursor<'_>) -> Step<()> {
        cursor.enter()?;
        let plan = self.plan;
        let node = &plan.nodes[node];
        // The object's start, or one more than the key that was met last.
        let mut state = 0;
        loop {
            let leads = match self.joints[node.states.wrapping_add(state)].pass(cursor) {
                Some(leads) => leads,
                // As it stands behind the last field of most records.
                None if state > 0 && cursor.peek() == b'}' => break,
                None => match self.next_key(node, state, cursor)? {
                    Next::Key(leads) => leads,
                    Next::Unknown => {
                        cursor.skip_value()?;
                        // No longer the start: a comma must follow now.
                        state = if state == 0 { node.unknown() } else { state };
                        continue;
                    }
                    Next::End => break,
                },
            };
            // There may be more space than when this was learnt.
            cursor.space();
            state = leads.state;
            match leads.column {
                SEVERAL => self.fields(&node.keys[state - 1], cursor)?,
                column if self.columns[column].filled == self.record => {
                    return Err(self.twice(&node.keys[state - 1], cursor));
                }
                column => self.fill(column, cursor)?,
            }
        }
        cursor.leave();
        Ok(())
    }

    /// Steps over all up to the next value of an object, or finds its end (which is left to the caller).
    #[inline(never)]
    fn next_key(&mut self, node: &Node, state: usize, cursor: &mut Cursor<'_>) -> Step<Next> {
        let from = cursor.position();
        if state == 0 {
            cursor.space();
            if cursor.peek() == b'}' {
                return Ok(Next::End);
            }
        } else if !cursor.another(b'}')? {
            return Ok(Next::End);
        }
        if cursor.peek() != b'"' {
            return Err(cursor.unexpected("a key"));
        }
        let place = node.find(cursor.string(&mut self.scratch)?);
        cursor.colon()?;
        let Some(place) = place else { return Ok(Next::Unknown) };
        let leads = Leads { state: place + 1, column: node.keys[place].only().unwrap_or(SEVERAL) };
        self.joints[node.states + state].learn(cursor.since(from), leads);
        Ok(Next::Key(leads))
    }

    /// The error for a key that the record has given before. ClickHouse turns such records down as well.
    #[cold]
    #[inline(never)]
    fn twice(&self, key: &Key, cursor: &Cursor<'_>) -> Box<Fail> {
        let rule = format!("the key {} appears twice in one object", key.shown());
        let fail = Fail::bytes(cursor.position(), rule);
        match key.fills.first() {
            Some(fill) => fail.in_column(fill.column),
            None => fail,
        }
    }

    /// Steps over the value of a key that fills several columns, or one of two places, or is an object with columns inside.
    #[inline(never)]
    fn fields(&mut self, key: &'p Key, cursor: &mut Cursor<'_>) -> Step<()> {
        if self.seen[key.slot] == self.record {
            return Err(self.twice(key, cursor));
        }
        self.seen[key.slot] = self.record;
        let start = cursor.mark();
        for fill in &key.fills {
            cursor.resume(start);
            match fill.place {
                Place::Only => self.fill(fill.column, cursor)?,
                Place::Flat => self.fill_flat(fill.column, cursor)?,
                Place::Nested => self.fill_nested(fill.column, cursor)?,
            }
        }
        let Some(child) = key.child else {
            return Ok(());
        };
        cursor.resume(start);
        if cursor.peek() == b'{' {
            return self.object(child, cursor);
        }
        let is_null = cursor.peek() == b'n';
        cursor.skip_value()?;
        // A scalar that is a column of its own is no fault; nor is null, which stands for an absent object.
        if key.fills.is_empty() && !is_null {
            let columns = &self.plan.nodes[child].columns;
            self.deferred.extend(columns.iter().map(|column| {
                let rule = "is not an object, and the column is filled from inside of it";
                *Fail::value(start.0, Reason::WrongKind, rule).in_column(*column)
            }));
        }
        Ok(())
    }

    /// Steps over a value and appends it to a column that has none in this row.
    #[inline(always)]
    fn fill(&mut self, column: usize, cursor: &mut Cursor<'_>) -> Step<()> {
        let growing = &mut self.columns[column];
        growing.filled = self.record;
        let filled = match cursor.peek() {
            b'n' => self.fill_null(column, cursor),
            _ => growing.builder.read(cursor),
        };
        if let Err(fail) = filled {
            self.columns[column].filled = 0;
            return Err(fail.in_column(column));
        }
        // At most once for each column.
        self.filled_count = self.filled_count.wrapping_add(1);
        Ok(())
    }

    #[inline(never)]
    fn fill_null(&mut self, column: usize, cursor: &mut Cursor<'_>) -> Step<()> {
        let at = cursor.position();
        cursor.word("null")?;
        if !self.schema.columns()[column].is_optional() {
            let rule = "is refused, because its column has neither NULL nor a DEFAULT";
            return Err(Fail::value(at, Reason::Missing, rule));
        }
        self.fill_default(column)
    }

    /// Appends a null, which stands for NULL or for the DEFAULT, or the DEFAULT itself where the column cannot be sent as NULL.
    fn fill_default(&mut self, column: usize) -> Step<()> {
        let builder = &mut self.columns[column].builder;
        match &self.schema.columns()[column].default_json {
            None => builder.null().map_err(|misfit| Fail::misfit(0, *misfit).in_column(column))?,
            // Only a DEFAULT that the column's own type does not take fails here; then nothing can stand for the field.
            Some(json) => {
                builder.read(&mut Cursor::new(json.as_bytes())).map_err(|_| Fail::absent(column))?
            }
        }
        Ok(())
    }

    fn fill_flat(&mut self, column: usize, cursor: &mut Cursor<'_>) -> Step<()> {
        let growing = &mut self.columns[column];
        if growing.filled == self.record {
            // The nested value came first and gives way.
            growing.builder.truncate(self.rows);
            self.filled_count -= 1;
        }
        growing.flat = self.record;
        self.fill(column, cursor)
    }

    fn fill_nested(&mut self, column: usize, cursor: &mut Cursor<'_>) -> Step<()> {
        if self.columns[column].flat == self.record {
            return cursor.skip_value();
        }
        let start = cursor.mark();
        match self.fill(column, cursor) {
            Err(fail) if !fail.is_bytes() => {
                // The flat key may still come.
                self.columns[column].builder.truncate(self.rows);
                self.deferred.push(*fail);
                cursor.resume(start);
                cursor.skip_value()
            }
            done => done,
        }
    }
}

fn check_utf8(bytes: &[u8]) -> Step<()> {
    if bytes.is_ascii() {
        return Ok(());
    }
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        // Its number need not be UTF-8.
        Err(_) if is_framed(bytes) => Err(Fail::bytes(0, FRAMED)),
        Err(error) => {
            let at = error.valid_up_to();
            Err(Fail::bytes(at, format!("{} is not UTF-8 here", shown_byte(bytes[at]))))
        }
    }
}

/// The error for a record that does not begin with an object.
#[cold]
fn no_object(cursor: &mut Cursor<'_>) -> Box<Fail> {
    let at = cursor.position();
    let found = match cursor.rest() {
        [] => return Fail::bytes(at, "the record is empty; a record is one JSON object"),
        [0xef, 0xbb, 0xbf, ..] => {
            return Fail::bytes(at, "the record starts with a byte order mark; send it without");
        }
        rest if at == 0 && is_framed(rest) => return Fail::bytes(at, FRAMED),
        [b'[', ..] => "an array",
        [b'"', ..] => "a string",
        [b'-' | b'0'..=b'9', ..] => "a number",
        _ => return cursor.unexpected("`{`"),
    };
    Fail::bytes(at, format!("found {found}; a record is one JSON object"))
}

/// What is wrong with a record that [`is_framed`].
const FRAMED: &str = "the record starts with the header of a schema registry, a zero byte and a schema's number, which the format `json` does not read; write it with a serializer of JSON that registers no schema";

/// Whether a record is an object behind the header that serializers of a schema registry write.
fn is_framed(record: &[u8]) -> bool {
    matches!(record, [0, _, _, _, _, b'{', ..])
}
