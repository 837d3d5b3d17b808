//! One record after the other into the columns of a batch.
//!
//! Owns the walk over a record's object: which key comes next, which column it fills, what a record may leave out, and
//! that a record that is turned down leaves nothing behind. Does not own blocks and rejects ([`super`]).

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;
use dataflow::{Reason, Schema};

use super::columns::Builder;
use super::fail::{Fail, Step, shown_byte};
use super::plan::{Fill, Key, Place, Plan};
use super::scan::Cursor;

/// The columns of a batch while it is decoded.
pub(super) struct Rows<'p> {
    plan: &'p Plan,
    schema: &'p Schema,
    columns: Vec<Box<dyn Builder>>,
    /// The rows that are complete.
    rows: usize,
    /// The number of the record at work, from 1: what is marked with it was seen in this record.
    record: u32,
    /// For each key of the plan, the last record that had it.
    seen: Vec<u32>,
    /// For each column, the last record that filled it.
    filled: Vec<u32>,
    /// For each column, the last record that filled it by its flat key.
    flat: Vec<u32>,
    /// The number of columns that the record at work has filled.
    filled_count: usize,
    /// For each node, the key expected after each key (shifted by one: the first entry is for the object's start).
    /// Learnt from the records before; it steers only where to look first.
    next: Vec<Vec<u32>>,
    /// Nested values that do not fit, in the record at work: a fault only if no flat key fills the column.
    deferred: Vec<Fail>,
    /// Keys with escapes.
    scratch: Vec<u8>,
}

impl<'p> Rows<'p> {
    /// No rows yet; `patterns` are the builders of `schema`'s columns.
    pub fn new(
        plan: &'p Plan,
        schema: &'p Schema,
        patterns: &[Box<dyn Builder>],
        rows_expected: usize,
    ) -> Self {
        let columns = patterns.iter().map(|pattern| pattern.fresh(rows_expected)).collect();
        let next = plan.nodes.iter().map(|node| (0..=node.keys.len() as u32).collect()).collect();
        Self {
            plan,
            schema,
            columns,
            rows: 0,
            record: 0,
            seen: vec![0; plan.slots],
            filled: vec![0; patterns.len()],
            flat: vec![0; patterns.len()],
            filled_count: 0,
            next,
            deferred: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Appends a record as one row. After an error all columns are as they were before.
    pub fn push(&mut self, bytes: &[u8]) -> Step<()> {
        self.record += 1;
        self.filled_count = 0;
        self.deferred.clear();
        match self.record(bytes) {
            Ok(()) => {
                self.rows += 1;
                Ok(())
            }
            Err(fail) => {
                self.columns.iter_mut().for_each(|column| column.truncate(self.rows));
                Err(fail)
            }
        }
    }

    /// The columns as Arrow arrays, in the order of the schema.
    pub fn finish(self) -> Result<Vec<ArrayRef>, ArrowError> {
        self.columns.into_iter().map(|column| column.finish()).collect()
    }

    fn record(&mut self, bytes: &[u8]) -> Step<()> {
        check_utf8(bytes)?;
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
        if let Some(at) = self.deferred.iter().position(|f| self.filled[f.column.unwrap_or(0)] != self.record)
        {
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
            if self.filled[column] == self.record {
                continue;
            }
            if !definition.is_optional() {
                return Err(Fail::absent(column));
            }
            self.columns[column].null();
        }
        Ok(())
    }

    /// Steps over the object of `node`. The recursion is as deep as the plan, which is bounded.
    fn object(&mut self, node: usize, cursor: &mut Cursor<'_>) -> Step<()> {
        cursor.enter()?;
        cursor.space();
        if cursor.peek() != b'}' {
            let plan = self.plan;
            let keys = &plan.nodes[node].keys;
            let mut before = 0;
            loop {
                let expected = keys.get(self.next[node][before] as usize);
                match expected.and_then(|key| Some((key, key.matches(cursor.rest())?))) {
                    Some((key, length)) => {
                        cursor.advance(length);
                        cursor.colon()?;
                        before = self.next[node][before] as usize + 1;
                        self.field(key, cursor)?;
                    }
                    None => match self.find(node, cursor)? {
                        Some(place) => {
                            self.next[node][before] = place as u32;
                            before = place + 1;
                            self.field(&keys[place], cursor)?;
                        }
                        None => cursor.skip_value()?,
                    },
                }
                if !cursor.another(b'}')? {
                    break;
                }
            }
        }
        cursor.leave();
        Ok(())
    }

    /// Steps over a key that was not expected here; `None` if the plan does not know it.
    fn find(&mut self, node: usize, cursor: &mut Cursor<'_>) -> Step<Option<usize>> {
        if cursor.peek() != b'"' {
            return Err(cursor.unexpected("a key"));
        }
        let place = self.plan.nodes[node].find(cursor.string(&mut self.scratch)?);
        cursor.colon()?;
        Ok(place)
    }

    /// Steps over the value of a key that the plan knows.
    #[inline]
    fn field(&mut self, key: &'p Key, cursor: &mut Cursor<'_>) -> Step<()> {
        if self.seen[key.slot] == self.record {
            return Err(self.twice(key, cursor));
        }
        self.seen[key.slot] = self.record;
        match (&key.fills[..], key.child) {
            ([Fill { column, place: Place::Only }], None) => self.fill(*column, cursor),
            _ => self.fields(key, cursor),
        }
    }

    /// The error for a key that the record has given before. ClickHouse turns such records down as well.
    #[cold]
    fn twice(&self, key: &Key, cursor: &Cursor<'_>) -> Box<Fail> {
        let rule = format!("the key {} stands twice in one object", key.shown());
        let fail = Fail::bytes(cursor.position(), rule);
        match key.fills.first() {
            Some(fill) => fail.in_column(fill.column),
            None => fail,
        }
    }

    /// The same for a key that fills several columns, or one of two places, or is an object with columns inside.
    fn fields(&mut self, key: &'p Key, cursor: &mut Cursor<'_>) -> Step<()> {
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
    #[inline]
    fn fill(&mut self, column: usize, cursor: &mut Cursor<'_>) -> Step<()> {
        let filled = match cursor.peek() {
            b'n' => self.fill_null(column, cursor),
            _ => self.columns[column].read(cursor),
        };
        filled.map_err(|fail| fail.in_column(column))?;
        self.filled[column] = self.record;
        self.filled_count += 1;
        Ok(())
    }

    fn fill_null(&mut self, column: usize, cursor: &mut Cursor<'_>) -> Step<()> {
        let at = cursor.position();
        cursor.word("null")?;
        if !self.schema.columns()[column].is_optional() {
            let rule = "is refused, for its column has neither NULL nor a DEFAULT";
            return Err(Fail::value(at, Reason::Missing, rule));
        }
        self.columns[column].null();
        Ok(())
    }

    fn fill_flat(&mut self, column: usize, cursor: &mut Cursor<'_>) -> Step<()> {
        if self.filled[column] == self.record {
            // The nested value came first and gives way.
            self.columns[column].truncate(self.rows);
            self.filled_count -= 1;
        }
        self.flat[column] = self.record;
        self.fill(column, cursor)
    }

    fn fill_nested(&mut self, column: usize, cursor: &mut Cursor<'_>) -> Step<()> {
        if self.flat[column] == self.record {
            return cursor.skip_value();
        }
        let start = cursor.mark();
        match self.fill(column, cursor) {
            Err(fail) if !fail.is_bytes() => {
                // The flat key may still come.
                self.columns[column].truncate(self.rows);
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
        [b'[', ..] => "an array",
        [b'"', ..] => "a string",
        [b'-' | b'0'..=b'9', ..] => "a number",
        _ => return cursor.unexpected("`{`"),
    };
    Fail::bytes(at, format!("found {found}; a record is one JSON object"))
}
