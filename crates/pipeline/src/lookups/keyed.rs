//! The other side of a lookup, asked for the keys that records need.
//!
//! Owns what of the memory an answer, a block's rows and the cache may take, in how many questions keys are asked for, and what an answer must be. Does not own which keys a
//! block has ([`super::walk`]), which of them are forgotten first ([`super::cache`]), nor the servers' languages ([`super::asked`], [`postgres::Keyed`]).
//!
//! | of `memory`, which a step takes twice | is for                                                                       |
//! |---------------------------------------|------------------------------------------------------------------------------|
//! | all of it                             | the cache                                                                    |
//! | 1/16                                  | an answer as text; there is one for each of the [`AHEAD`] blocks              |
//! | 1/8                                   | the rows of one of these blocks; one that needs more is split ([`Why::TooMuch`]) |
//! | 1/4                                   | the rows of all blocks that were handed out and are on their way ([`Handed`]) |
//!
//! A key with two rows, a row that does not fit its types, or rows that take more than their part are waited for, as a server that is away.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use clickhouse::ServerConfig;
use clickhouse::client::Client;
use dataflow::printing::escaped;
use dataflow::{Batch, BlockBuilder, Decoded, Partition, RecordBlock, Runtime, TableFault};
use metrics::{counter, gauge};
use operators::LookupTable;
use operators::lookup::keys::Key;

use super::age::Moment;
use super::asked::{Asked, Place};
use super::cache::{Cache, Line};
use super::load::{EXACT, Rules, records};

/// Blocks of an input whose keys are asked for at the same time, if it is the only input.
pub const AHEAD: usize = 4;
/// Keys of a question at the most: a server's bounds on constants are ten times as many.
const KEYS_MAX: usize = 2_048;
/// Bytes of their texts at the most: with quotes, half of what a statement may have.
const TEXT_BYTES_MAX: usize = 100 << 10;

/// Where the rows are.
pub enum Server {
    /// In ClickHouse.
    ClickHouse {
        /// The server.
        server: Box<ServerConfig>,
        /// The table.
        place: Place,
        /// The client, whose connections are kept, and how the table was asked last.
        known: Mutex<Known>,
    },
    /// In PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(postgres::Keyed),
}

/// What is known of a server.
#[derive(Clone, Default)]
pub struct Known {
    client: Option<Client>,
    /// How it is asked, and since when that is known.
    asked: Option<(Moment, Arc<Asked>)>,
}

/// The other side of one lookup, asked for the keys that records need.
pub struct Keyed {
    /// The step, for people.
    name: String,
    /// The number of the step.
    pub number: u32,
    /// How old an answer may be.
    refresh: Duration,
    server: Server,
    /// Decodes rows and knows their keys.
    load: Rules,
    cache: Mutex<Cache>,
    handed: Handed,
}

/// Why a block cannot have its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// They take more memory than there is for one block: with fewer records there is less to hold. The sentence is for a block of one.
    TooMuch(String),
    /// The other side cannot be asked, or what it answers not be used: as a whole sentence.
    Away(String),
}

impl From<String> for Why {
    fn from(why: String) -> Self {
        Self::Away(why)
    }
}

/// What a block needs, as far as it is known.
pub struct Needs {
    /// The lines of keys that have a row.
    lines: Vec<Arc<[u8]>>,
    /// Keys that have none.
    absent: Vec<u128>,
    /// Keys that have to be asked for.
    missing: Vec<(u128, usize)>,
}

impl Needs {
    /// The keys that have to be asked for, each with a row that has it.
    pub fn missing(&self) -> &[(u128, usize)] {
        &self.missing
    }
}

impl Keyed {
    /// The side of the step of this number, whose answers may be `refresh` old.
    pub fn new(number: u32, refresh: Duration, server: Server, load: Rules) -> Self {
        let cache = Mutex::new(Cache::new(load.bytes_max));
        Self { name: load.step.clone(), number, refresh, server, load, cache, handed: Handed::default() }
    }

    /// The step, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What becomes of its rows.
    pub fn rules(&self) -> &Rules {
        &self.load
    }

    /// Whether twice as many bytes of rows would be far from too many for a block.
    pub fn is_few(&self, bytes: u64) -> bool {
        bytes < self.load.bytes_max / 32
    }

    /// Whether so many bytes of rows may be handed out beside those that are on their way.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.handed.has_room(bytes, self.load.bytes_max / 4)
    }

    /// Counts rows of `bytes` as handed out until `table` is dropped.
    pub fn hands_out(&self, table: &Arc<dyn Any + Send + Sync>, bytes: u64) {
        self.handed.put(table, bytes);
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of these keys: answers that are no older than `refresh`, or `any_age`.
    pub fn needs(&self, keys: &[(u128, usize)], now: Moment, any_age: bool) -> Needs {
        let age_max = if any_age { Duration::MAX } else { self.refresh };
        let mut needs =
            Needs { lines: Vec::with_capacity(keys.len()), absent: Vec::new(), missing: Vec::new() };
        let mut cache = self.cache();
        for (key, row) in keys {
            match cache.get(*key, now, age_max) {
                Some(Some(line)) => needs.lines.push(line),
                Some(None) => needs.absent.push(*key),
                None => needs.missing.push((*key, *row)),
            }
        }
        drop(cache);
        let (hits, misses) = ((keys.len() - needs.missing.len()) as u64, needs.missing.len() as u64);
        counter!("forebay_lookup_cache_hits_total", "step" => self.name.clone()).increment(hits);
        counter!("forebay_lookup_cache_misses_total", "step" => self.name.clone()).increment(misses);
        needs
    }

    /// The rows of what the records of a block need; `keys` are those that are missing, with their texts.
    ///
    /// # Errors
    /// When the other side cannot be asked, or the answer not be used; or when they take too much memory.
    pub async fn table(
        self: &Arc<Self>,
        runtime: &Arc<dyn Runtime>,
        mut needs: Needs,
        keys: Vec<Key>,
    ) -> Result<LookupTable, Why> {
        let rows_max = self.load.bytes_max / 8;
        let mut bytes: u64 = needs.lines.iter().map(|line| line.len() as u64).sum();
        let mut open: Vec<Vec<Key>> = portions(keys);
        open.reverse();
        while let Some(mut keys) = open.pop() {
            let asked_at = Moment::now(&**runtime);
            let text = match self.ask(runtime, &keys).await? {
                Some(text) => text,
                // Half as many have an answer of half the size.
                None if keys.len() > 1 => {
                    let rest = keys.split_off(keys.len() / 2);
                    open.extend([rest, keys]);
                    continue;
                }
                None => {
                    let most = self.load.bytes_max / 16;
                    return Err(Why::Away(format!(
                        "a row takes more than `{most}` bytes, a sixteenth of `memory` of the step; raise it"
                    )));
                }
            };
            let own = self.clone();
            let read = runtime.run(move || own.answers(keys, text, asked_at)).await;
            let answers = read.unwrap_or_else(|| Err(FAULT.to_owned()))?;
            for (key, line) in answers {
                match line {
                    Some(line) => {
                        bytes += line.len() as u64;
                        needs.lines.push(line);
                    }
                    None => needs.absent.push(key),
                }
            }
            if bytes > rows_max {
                return Err(Why::TooMuch(self.too_much(rows_max)));
            }
        }
        let own = self.clone();
        let made = runtime.run(move || own.made(&needs)).await;
        let table = made.unwrap_or_else(|| Err(FAULT.to_owned()))?;
        match table.memory_bytes() > rows_max {
            true => Err(Why::TooMuch(self.too_much(rows_max))),
            false => Ok(table),
        }
    }

    fn too_much(&self, rows_max: u64) -> String {
        format!(
            "the row that a record needs takes more than `{rows_max}` bytes, an eighth of `memory` of the step; raise it (and `memory` of the pipeline, of which it is at most a \
             quarter), or leave out columns"
        )
    }

    /// Whether it could be asked.
    ///
    /// # Errors
    /// Why not, and the way out.
    pub async fn check(&self, runtime: &Arc<dyn Runtime>) -> Result<(), String> {
        match &self.server {
            Server::ClickHouse { server, place, known } => {
                place.asked(&client(server, known, runtime)?).await.map(drop)
            }
            #[cfg(feature = "postgres")]
            Server::Postgres(side) => {
                side.check(runtime, self.answer_bytes_max()).await.map_err(|fault| match fault {
                    postgres::Fault::TooLong => "its types take more memory than the step has".to_owned(),
                    postgres::Fault::Failed(why) => why,
                })
            }
        }
    }

    fn answer_bytes_max(&self) -> usize {
        usize::try_from(self.load.bytes_max / 16).unwrap_or(usize::MAX)
    }

    /// The rows of keys as text, with perhaps others among them; `None` if they take more than an answer may.
    async fn ask(&self, runtime: &Arc<dyn Runtime>, keys: &[Key]) -> Result<Option<Vec<u8>>, String> {
        counter!("forebay_lookup_reads_total", "step" => self.name.clone()).increment(1);
        let bytes_max = self.answer_bytes_max();
        match &self.server {
            Server::ClickHouse { server, place, known } => {
                let client = client(server, known, runtime)?;
                let now = Moment::now(&**runtime);
                let since = locked(known).asked.clone();
                let asked = match since.filter(|(at, _)| at.age(now) < self.refresh) {
                    Some((_, asked)) => asked,
                    None => {
                        let asked = Arc::new(place.asked(&client).await?);
                        locked(known).asked = Some((now, asked.clone()));
                        asked
                    }
                };
                let Some((sql, long)) = asked.statement(keys) else { return Ok(Some(Vec::new())) };
                let mut settings = EXACT.to_vec();
                settings.extend(long.as_deref().map(|bytes| ("max_query_size", bytes)));
                match client.query_bytes(&sql, &settings, bytes_max).await {
                    Ok(text) => Ok(Some(text)),
                    Err(error) if error.kind == TableFault::TooLong => Ok(None),
                    Err(error) => {
                        // The table may have other types now.
                        locked(known).asked = None;
                        Err(error.to_string())
                    }
                }
            }
            #[cfg(feature = "postgres")]
            Server::Postgres(side) => {
                let keys: Vec<&[Vec<u8>]> = keys.iter().map(|key| &key.texts[..]).collect();
                match side.rows_of(runtime, &keys, bytes_max).await {
                    Ok(text) => Ok(Some(text)),
                    Err(postgres::Fault::TooLong) => Ok(None),
                    Err(postgres::Fault::Failed(why)) => Err(why),
                }
            }
        }
    }

    /// What a text says of the keys that were asked for, which is remembered.
    fn answers(&self, keys: Vec<Key>, text: Vec<u8>, asked_at: Moment) -> Result<Vec<(u128, Line)>, String> {
        let block = records(&text, None);
        drop(text);
        let batch = self.batch(&block)?;
        let hashes = self.load.keyer.hashes(&batch.rows).map_err(|error| error.to_string())?;
        let mut lines: std::collections::HashMap<u128, Line> =
            keys.iter().map(|key| (key.hash, None)).collect();
        for (row, hash) in hashes.into_iter().enumerate() {
            // The server may take more keys for equal than we do.
            let Some(line) = hash.and_then(|hash| lines.get_mut(&hash)) else { continue };
            if line.replace(Arc::from(block.payloads.get(row))).is_some() {
                let key = keys.iter().find(|key| Some(key.hash) == hash);
                let texts: Vec<_> = key
                    .iter()
                    .flat_map(|key| &key.texts[..])
                    .map(|text| String::from_utf8_lossy(text))
                    .collect();
                let shown = escaped(&texts.join("`, `"), 200).into_owned();
                return Err(format!(
                    "there are two rows with the key `{shown}`, so the match would be ambiguous; keep one row per key, as a view with `FINAL` or `GROUP BY` does"
                ));
            }
        }
        let mut cache = self.cache();
        for (key, line) in &lines {
            cache.put(*key, line.clone(), asked_at);
        }
        gauge!("forebay_lookup_rows", "step" => self.name.clone()).set(cache.len() as f64);
        gauge!("forebay_lookup_cache_bytes", "step" => self.name.clone()).set(cache.bytes() as f64);
        drop(cache);
        Ok(lines.into_iter().collect())
    }

    /// The rows of lines, each with its own place.
    fn batch(&self, lines: &RecordBlock) -> Result<Batch, String> {
        let Decoded { batch, rejects, several: _ } = self.load.decoder.decode(lines);
        let Some(reject) = rejects.first() else { return Ok(batch) };
        let line = lines.row_of(reject.position).map_or(&[][..], |row| lines.payloads.get(row));
        let column = if reject.column.is_empty() { String::new() } else { format!("`{}`: ", reject.column) };
        Err(format!(
            "the row `{}` does not fit `fields`: {column}{}; correct it, or the types",
            escaped(&String::from_utf8_lossy(line), 300),
            reject.message
        ))
    }

    fn made(&self, needs: &Needs) -> Result<LookupTable, String> {
        let mut lines = BlockBuilder::new(Partition::new("lookup", 0), 0);
        for (nth, line) in needs.lines.iter().enumerate() {
            lines.push(nth as u64, 0, Some(line));
        }
        let batch = self.batch(&lines.take())?;
        let table = self.load.keyer.table_of_some(batch.rows, needs.absent.iter().copied());
        table.map_err(|repeated| format!("{repeated}; this is a fault of the program"))
    }
}

const FAULT: &str = "reading it ended in a fault of the program";

fn locked(known: &Mutex<Known>) -> std::sync::MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn client(server: &ServerConfig, known: &Mutex<Known>, runtime: &Arc<dyn Runtime>) -> Result<Client, String> {
    let mut known = locked(known);
    if let Some(client) = &known.client {
        return Ok(client.clone());
    }
    let client = Client::new(server.clone(), runtime.clone()).map_err(|error| error.to_string())?;
    known.client = Some(client.clone());
    Ok(client)
}

/// The keys in portions, one for each question.
fn portions(keys: Vec<Key>) -> Vec<Vec<Key>> {
    let (mut portions, mut bytes) = (Vec::<Vec<Key>>::new(), 0);
    for key in keys {
        // With the quotes, and what stands between two values.
        let own: usize = key.texts.iter().map(|text| text.len() + 4).sum();
        bytes += own;
        match portions.last_mut().filter(|last| last.len() < KEYS_MAX && bytes <= TEXT_BYTES_MAX) {
            Some(last) => last.push(key),
            None => {
                portions.push(vec![key]);
                bytes = own;
            }
        }
    }
    portions
}

/// The rows that blocks of a side take with them on their way.
#[derive(Default)]
pub struct Handed(Mutex<Vec<(Weak<dyn Any + Send + Sync>, u64)>>);

impl Handed {
    fn all(&self) -> std::sync::MutexGuard<'_, Vec<(Weak<dyn Any + Send + Sync>, u64)>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(table, _)| table.strong_count() > 0);
        all
    }

    /// Whether rows of so many bytes may be handed out beside those that are on their way: `bytes_max` in all, or the rows of one block.
    pub fn has_room(&self, bytes: u64, bytes_max: u64) -> bool {
        let all = self.all();
        all.is_empty() || all.iter().map(|(_, bytes)| bytes).sum::<u64>() + bytes <= bytes_max
    }

    /// Counts rows of `bytes` as handed out until `table` is dropped.
    pub fn put(&self, table: &Arc<dyn Any + Send + Sync>, bytes: u64) {
        self.all().push((Arc::downgrade(table), bytes));
    }
}

#[cfg(test)]
mod tests;
