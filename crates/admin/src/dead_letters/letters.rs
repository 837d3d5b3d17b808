//! Reading dead letters from their table.
//!
//! Owns the statements and the pages: no answer is larger than the client takes, however large the letters are. Whatever may not be text
//! travels in hexadecimal. Only reads, and tells the server so. Does not own which letters are asked for (the caller gives the condition),
//! nor the table's columns (`clickhouse::dead_letters`).

use anyhow::{Context, bail};
use clickhouse::client::QueryError;
use pipeline::replays::STREAM;
use pipeline::replays::object::Letter;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Table;

/// Letters in one answer: some hundred bytes each.
const PAGE_LETTERS: usize = 5_000;

/// Bytes of bodies in one answer; twice as many in hexadecimal, which is half of what the client takes.
const PAGE_BYTES: u64 = 4 << 20;

/// Letters whose bodies are asked for at once; their names stand in the statement.
const BODIES_MAX: usize = 500;

/// A letter without its body.
#[derive(Clone, Debug)]
pub struct Head {
    /// Which one.
    pub letter: Letter,
    /// When it was sealed, Unix milliseconds.
    pub time_ms: i64,
    /// Why.
    pub reason: String,
    /// The column, or empty.
    pub column: String,
    /// Bytes of the body.
    pub raw_bytes: u64,
    /// The first place of a replayed record, `stream/partition/position`; empty for all others.
    pub origin: String,
}

/// A letter with its record: key, headers and body.
#[derive(Clone, Debug)]
pub struct Whole {
    /// What lists show of it.
    pub head: Head,
    /// The record's time from its source, Unix milliseconds.
    pub record_time_ms: Option<i64>,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// Its headers; a null value has become an empty one.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// The whole sentence.
    pub message: String,
    /// The record's body.
    pub raw: Vec<u8>,
}

impl Head {
    /// The item, and one, if the letter is of the row of one item of its record's array; otherwise 0.
    pub fn item(&self) -> u64 {
        if is_placeless(&self.letter.source) { 0 } else { self.letter.print }
    }

    /// Whether the letter is of such a row, and leaves its record to another letter of the same record.
    pub fn is_bare(&self) -> bool {
        self.item() > 0 && self.raw_bytes == 0
    }
}

/// Where a page ends: time, source, partition, which of the streams of that name, era, position, print.
type Place = (i64, String, u32, u32, u64, u64, u64);

/// A place, reason, column, the bytes of the body, and the first place of a replayed record.
type HeadRow = (i64, String, u32, u32, u64, u64, u64, String, String, u64, String);

/// The letters that a condition names, page after page, oldest first.
pub struct Pages<'a> {
    table: &'a Table,
    condition: String,
    after: Option<Place>,
    /// How letters are told apart whose place is not enough; a constant where there are none, so that no body is read for it.
    print: &'static str,
    is_over: bool,
}

/// Letters whose places name no one record: rows that steps made of several have the number that they had in their batch.
const PLACELESS: &str = "(source = '' OR (startsWith(source, '@') AND source != '@replays'))";
const PRINT: &str = "if(source = '' OR (startsWith(source, '@') AND source != '@replays'), \
                     sipHash64(toUnixTimestamp64Milli(time), message, raw), \
                     if(mapContains(headers, 'forebay.item'), toUInt64OrZero(headers['forebay.item']) + 1, toUInt64(0)))";
/// Letters that are rows of items: their records have others.
const OF_ITEMS: &str = "mapContains(headers, 'forebay.item')";
const NO_PRINT: &str = "toUInt64(0)";
/// Which of the streams that had the letter's name its record is of ([`dataflow::block::STREAM_HEADER`]).
pub(super) const NTH: &str = "toUInt32OrZero(headers['forebay.stream'])";
/// The era of the letter's position ([`dataflow::block::ERA_HEADER`]). Earlier programs have left that of the first letter on records of the replay log.
const ERA: &str = "if(source = '@replays', toUInt64(0), toUInt64OrZero(headers['forebay.era']))";

/// The first place of a replayed record: the last header of that name is the replay's own ([`pipeline::replays::source::ORIGIN_HEADER`]).
const ORIGIN: &str = "if(source = '@replays', \
                      arrayElement(arrayFilter((v, k) -> k = 'forebay_origin', mapValues(headers), mapKeys(headers)), -1), '')";

/// [`Place`] as a tuple.
fn place(print: &str) -> String {
    format!("(toUnixTimestamp64Milli(time), source, partition, {NTH}, {ERA}, position, {print})")
}

/// A place in a statement.
fn place_text(place: &Place) -> String {
    let (time_ms, source, partition, nth, era, position, print) = place;
    let source = clickhouse::types::quote(source);
    format!(
        "(toInt64({time_ms}), {source}, toUInt32({partition}), toUInt32({nth}), toUInt64({era}), toUInt64({position}), toUInt64({print}))"
    )
}

/// Whether letters of this stream are told apart by what is in them.
fn is_placeless(source: &str) -> bool {
    source.is_empty() || is_of_step(source)
}

/// Whether the stream is a step that made rows of several records, as `@window` is.
pub fn is_of_step(source: &str) -> bool {
    source.starts_with('@') && source != STREAM
}

/// The condition for one letter: of those at its place the one of this era, stream and print, if the letter names them.
pub fn is_letter(letter: &Letter) -> String {
    let Letter { source, partition, position, print, era, nth, since_ms: _ } = letter;
    // That of a letter without a stream is its number among equal ones.
    let position = if source.is_empty() { &0 } else { position };
    let source = clickhouse::types::quote(source);
    let mut all = format!("source = {source} AND partition = {partition} AND position = {position}");
    let named = [(NTH, u64::from(*nth)), (ERA, *era), (PRINT, *print)];
    for (expression, value) in named.iter().filter(|(_, value)| *value > 0) {
        all += &format!(" AND {expression} = {value}");
    }
    all
}

impl Table {
    /// Asks; the request can read tables alone, whatever a condition or a view says.
    pub async fn ask<T: DeserializeOwned>(&self, sql: &str) -> anyhow::Result<Vec<T>> {
        self.reader.rows_of_tables(sql).await.map_err(|error| self.explain(error))
    }

    /// The error with the table's name, and what to do about the most common ones.
    pub fn explain(&self, error: QueryError) -> anyhow::Error {
        let hint = match error.code {
            60 | 81 => "; the table appears with the pipeline's first start",
            47 => {
                "; `--where` may name the columns time, source, partition, position, record_time, key, headers, reason, column, message and raw"
            }
            _ => "",
        };
        anyhow::anyhow!("table `{}`: {error}{hint}", self.name)
    }

    /// Letters that the condition names.
    pub async fn count(&self, condition: &str) -> anyhow::Result<u64> {
        let sql = format!("SELECT count() FROM {} WHERE {condition}", self.quoted);
        let rows: Vec<(u64,)> = self.ask(&sql).await?;
        Ok(rows.first().map_or(0, |(count,)| *count))
    }

    /// Begins to read the letters that the condition names.
    pub async fn pages(&self, condition: &str) -> anyhow::Result<Pages<'_>> {
        let alike = self.count(&format!("{condition} AND ({PLACELESS} OR {OF_ITEMS})")).await?;
        let print = if alike > 0 { PRINT } else { NO_PRINT };
        Ok(Pages { table: self, condition: condition.to_owned(), after: None, print, is_over: false })
    }

    /// The bodies and all else of some letters, in the order of `heads`. The caller keeps `heads` within [`batches`].
    pub async fn whole(&self, condition: &str, heads: &[Head]) -> anyhow::Result<Vec<Whole>> {
        let (Some(first), Some(last)) = (heads.first(), heads.last()) else { return Ok(Vec::new()) };
        let is_large = heads.iter().any(|head| head.raw_bytes > PAGE_BYTES);
        let print = if heads.iter().any(is_told_by_print) { PRINT } else { NO_PRINT };
        let names: Vec<String> = heads.iter().map(name).collect();
        let raw = if is_large { "''" } else { "hex(raw)" };
        let sql = format!(
            "SELECT toUnixTimestamp64Milli(time), source, partition, {NTH} AS nth, {ERA} AS era, position, {print} AS print, \
             toUnixTimestamp64Milli(record_time), hex(key), arrayMap(x -> hex(x), mapKeys(headers)), \
             arrayMap(x -> hex(x), mapValues(headers)), message, {raw} FROM {} \
             WHERE {condition} AND time >= {} AND time <= {} AND {} IN ({}) \
             LIMIT 1 BY time, source, partition, nth, era, position, print",
            self.quoted,
            time(first.time_ms),
            time(last.time_ms),
            place(print),
            names.join(", ")
        );
        let rows: Vec<Row> = self.ask(&sql).await?;
        let mut all: Vec<Whole> = Vec::with_capacity(heads.len());
        for head in heads {
            let Some(row) = rows.iter().find(|row| row.is(head)) else {
                bail!("the dead letter `{}` was deleted while it was read; try again", head.letter);
            };
            let mut whole = row.whole(head)?;
            if is_large {
                whole.raw = self.raw(condition, head).await?;
            }
            if head.is_bare() {
                self.borrow(&mut whole, all.last()).await?;
            }
            all.push(whole);
        }
        Ok(all)
    }

    /// The record of a letter that leaves it to another one of the same record; `before` may have it already.
    async fn borrow(&self, bare: &mut Whole, before: Option<&Whole>) -> anyhow::Result<()> {
        let of_all = |letter: &Letter| Letter { print: 0, ..letter.clone() };
        if let Some(before) = before.filter(|one| of_all(&one.head.letter) == of_all(&bare.head.letter)) {
            (bare.raw, bare.key, bare.headers) =
                (before.raw.clone(), before.key.clone(), before.headers.clone());
            return Ok(());
        }
        let Letter { nth, era, .. } = bare.head.letter;
        let record = is_letter(&of_all(&bare.head.letter));
        let of_record =
            format!("{} AND {record} AND {NTH} = {nth} AND {ERA} = {era} AND {OF_ITEMS}", self.of);
        let sql = format!(
            "SELECT toUnixTimestamp64Milli(time), toUInt64OrZero(headers['forebay.item']) + 1, length(raw) FROM {} \
             WHERE {of_record} AND raw != '' ORDER BY length(raw) LIMIT 1",
            self.quoted
        );
        let rows: Vec<(i64, u64, u64)> = self.ask(&sql).await?;
        let Some((time_ms, print, raw_bytes)) = rows.first().copied() else {
            bail!(
                "the record of the dead letter `{}` was with another letter of the same record, which is not in the table any more; choose other \
                 letters, or publish the record again",
                bare.head.letter
            );
        };
        let letter = Letter { print, ..bare.head.letter.clone() };
        let head = Head { letter, time_ms, raw_bytes, ..bare.head.clone() };
        let found = Box::pin(self.whole(&of_record, std::slice::from_ref(&head))).await?;
        if let Some(found) = found.into_iter().next() {
            (bare.raw, bare.key, bare.headers) = (found.raw, found.key, found.headers);
        }
        Ok(())
    }

    /// A large body, in pieces.
    async fn raw(&self, condition: &str, head: &Head) -> anyhow::Result<Vec<u8>> {
        let print = if is_told_by_print(head) { PRINT } else { NO_PRINT };
        let mut raw = Vec::new();
        while (raw.len() as u64) < head.raw_bytes {
            let sql = format!(
                "SELECT hex(substring(raw, {}, {PAGE_BYTES})) FROM {} WHERE {condition} AND time = {} AND {} IN ({}) LIMIT 1",
                raw.len() + 1,
                self.quoted,
                time(head.time_ms),
                place(print),
                name(head)
            );
            let rows: Vec<(String,)> = self.ask(&sql).await?;
            let piece = rows.first().map(|(piece,)| unhex(piece)).transpose()?.unwrap_or_default();
            if piece.is_empty() {
                bail!("the dead letter `{}` was deleted while it was read; try again", head.letter);
            }
            raw.extend_from_slice(&piece);
        }
        Ok(raw)
    }
}

impl Pages<'_> {
    /// The next letters, at most a few thousand; none at the end. Equal letters without a stream are numbered.
    pub async fn next(&mut self) -> anyhow::Result<Vec<Head>> {
        if self.is_over {
            return Ok(Vec::new());
        }
        let print = self.print;
        let after = match &self.after {
            None => String::new(),
            Some(after) => {
                format!(" AND time >= {} AND {} > {}", time(after.0), place(print), place_text(after))
            }
        };
        let sql = format!(
            "SELECT toUnixTimestamp64Milli(time) AS at, source, partition, {NTH} AS nth, {ERA} AS era, position, {print} AS print, reason, column, \
             length(raw), {ORIGIN} FROM {} WHERE {}{after} ORDER BY at, source, partition, nth, era, position, print LIMIT {PAGE_LETTERS} WITH TIES",
            self.table.quoted, self.condition
        );
        let rows: Vec<HeadRow> = self.table.ask(&sql).await?;
        self.is_over = rows.len() < PAGE_LETTERS;
        let mut heads: Vec<Head> = Vec::with_capacity(rows.len());
        let mut same = 0;
        for (time_ms, source, partition, nth, era, position, print, reason, column, raw_bytes, origin) in rows
        {
            let place = (time_ms, source.clone(), partition, nth, era, position, print);
            same = if self.after.as_ref() == Some(&place) { same + 1 } else { 0 };
            self.after = Some(place);
            let position = if source.is_empty() { same } else { position };
            let letter = Letter { source, partition, position, print, era, nth, since_ms: 0 };
            heads.push(Head { letter, time_ms, reason, column, raw_bytes, origin });
        }
        Ok(heads)
    }
}

/// Whether the letter's place is not enough to tell it from others.
fn is_told_by_print(head: &Head) -> bool {
    head.letter.print > 0 || is_placeless(&head.letter.source)
}

/// Letters without their record in one piece: each may get one of a megabyte and more.
const BARE_MAX: usize = 16;

/// Cuts letters into pieces that [`Table::whole`] takes; a large one stands alone.
pub fn batches(heads: &[Head]) -> Vec<&[Head]> {
    let mut batches = Vec::new();
    let mut begin = 0;
    let (mut bytes, mut bare) = (0, 0);
    for (at, head) in heads.iter().enumerate() {
        let is_full = bytes + head.raw_bytes > PAGE_BYTES || at - begin >= BODIES_MAX || bare >= BARE_MAX;
        if at > begin && is_full {
            batches.push(&heads[begin..at]);
            (begin, bytes, bare) = (at, 0, 0);
        }
        bytes += head.raw_bytes;
        bare += usize::from(head.is_bare());
    }
    if begin < heads.len() {
        batches.push(&heads[begin..]);
    }
    batches
}

/// A letter in a statement. A nameless one's position in the table is always 0.
fn name(head: &Head) -> String {
    place_text(&place_of(head))
}

fn place_of(head: &Head) -> Place {
    let Letter { source, partition, position, print, era, nth, since_ms: _ } = head.letter.clone();
    let position = if source.is_empty() { 0 } else { position };
    (head.time_ms, source, partition, nth, era, position, print)
}

/// A place, then the record's time and key, names and values of its headers, the message and the body.
#[derive(Deserialize)]
struct Row(
    i64,
    String,
    u32,
    u32,
    u64,
    u64,
    u64,
    Option<i64>,
    Option<String>,
    Vec<String>,
    Vec<String>,
    String,
    String,
);

impl Row {
    fn is(&self, head: &Head) -> bool {
        let of_row = (self.0, self.1.clone(), self.2, self.3, self.4, self.5, self.6);
        of_row == place_of(head)
    }

    fn whole(&self, head: &Head) -> anyhow::Result<Whole> {
        let headers = self.9.iter().zip(&self.10).map(|(name, value)| Ok((unhex(name)?, unhex(value)?)));
        Ok(Whole {
            head: head.clone(),
            record_time_ms: self.7,
            key: self.8.as_deref().map(unhex).transpose()?,
            headers: headers.collect::<anyhow::Result<_>>()?,
            message: self.11.clone(),
            raw: unhex(&self.12)?,
        })
    }
}

/// A moment in a statement.
pub fn time(ms: i64) -> String {
    format!("fromUnixTimestamp64Milli(toInt64({ms}), 'UTC')")
}

/// Bytes from hexadecimal digits.
///
/// # Errors
/// When the text is something else.
pub fn unhex(text: &str) -> anyhow::Result<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> =
        pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect();
    bytes.context("the server's answer holds something else than hexadecimal digits")
}

/// Hexadecimal digits of bytes.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes all that is written");
        text
    })
}

#[cfg(test)]
mod tests;
