//! The rows of some keys of a table or query.
//!
//! Owns the question for them, and the connections that are kept between questions. Does not own which keys are asked for, nor what is remembered of the answers.
//!
//! Every question is a transaction of its own, so it may go through a pooler that deals transactions out to its connections.
//!
//! | a key that …                                             | is                                                  |
//! |----------------------------------------------------------|-----------------------------------------------------|
//! | no value of the column's type can be (a number beyond 64 bits, a text that is not UTF-8 or has a zero byte in it, a day that the server would not read as it is written) | not asked for: there is no row of it |
//! | the server takes for equal to another one (`citext`, padded `char(n)`) | answered with rows of both; whoever asks compares them |

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dataflow::Runtime;
use futures::TryStreamExt;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use crate::connect::{Error, Session};
use crate::{Fault, Side, begin, types};

/// A connection is used for so long at the most: then a renewed certificate counts, and whoever balances connections can move it.
const SESSION_TIME_MAX: Duration = Duration::from_secs(600);
/// One that has rested for longer is not used again: firewalls and balancers forget connections at rest, some after four minutes and without a word to either
/// side, and a question over one would be waited for as long as any may take.
const REST_MAX: Duration = Duration::from_secs(60);
/// Connections that are kept at the most: as many questions are on their way at once.
const SESSIONS_MAX: usize = 4;

/// A side that is asked for the rows of keys.
pub struct Keyed {
    side: Side,
    /// The columns of the key, of those of the side.
    keys: Vec<String>,
    kept: Mutex<Vec<Kept>>,
}

/// A connection, and what was learned over it.
struct Kept {
    client: Client,
    session: Session,
    asked: Asked,
    opened_at: Duration,
    /// When it was used last.
    used_at: Duration,
}

/// The question, for the types that the columns have.
struct Asked {
    question: String,
    /// How the values of each column of the key are asked for.
    keys: Vec<types::AskedAs>,
}

impl Keyed {
    /// `side`, of whose columns these are the key; at least one.
    pub fn new(side: Side, keys: Vec<String>) -> Self {
        Self { side, keys, kept: Mutex::default() }
    }

    /// Whether it could be asked: connects, and compares the types.
    ///
    /// # Errors
    /// As [`rows_of`](Self::rows_of).
    pub async fn check(&self, runtime: &Arc<dyn Runtime>, bytes_max: usize) -> Result<(), Fault> {
        let opened = async {
            let kept = self.open(runtime, bytes_max).await?;
            self.keep(kept, runtime.elapsed());
            Ok(())
        };
        self.bounded(runtime, opened).await
    }

    /// The rows of the keys, as [`Side::read`] gives them: each key has the text of each of its columns' values. There may be rows of further keys among them.
    ///
    /// # Errors
    /// When the server cannot be asked, does not answer in time, refuses, or has a column of a type that does not serve; or when the rows take more memory.
    pub async fn rows_of(
        &self,
        runtime: &Arc<dyn Runtime>,
        keys: &[&[Vec<u8>]],
        bytes_max: usize,
    ) -> Result<Vec<u8>, Fault> {
        let asked = async {
            if let Some(mut kept) = self.take(runtime.elapsed()) {
                match kept.rows_of(&self.side, keys, bytes_max).await {
                    Ok(rows) => {
                        self.keep(kept, runtime.elapsed());
                        return Ok(rows);
                    }
                    Err(Error::TooLong) => return Err(Error::TooLong),
                    // The server, or a pooler, may have closed it since, or a type may be another one now: a new one says what is so.
                    Err(_) => {}
                }
            }
            let mut kept = self.open(runtime, bytes_max).await?;
            let rows = kept.rows_of(&self.side, keys, bytes_max).await?;
            self.keep(kept, runtime.elapsed());
            Ok(rows)
        };
        self.bounded(runtime, asked).await
    }

    async fn bounded<T>(
        &self,
        runtime: &Arc<dyn Runtime>,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Fault> {
        match runtime.timeout(self.side.server.timeout, asked).await {
            Some(result) => result.map_err(|error| self.side.explain(error)),
            None => Err(self.side.too_slow()),
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, now: Duration) -> Option<Kept> {
        let mut kept = self.kept();
        kept.retain(|kept| is_of_use(kept.opened_at, kept.used_at, now));
        kept.pop()
    }

    fn keep(&self, one: Kept, now: Duration) {
        let mut kept = self.kept();
        if kept.len() < SESSIONS_MAX {
            kept.push(Kept { used_at: now, ..one });
        }
    }

    async fn open(&self, runtime: &Arc<dyn Runtime>, bytes_max: usize) -> Result<Kept, Error> {
        let opened_at = runtime.elapsed();
        let (client, mut session) = Session::open(&self.side.server, runtime, bytes_max).await?;
        let Side { rows, columns, .. } = &self.side;
        let described = session.beside(async {
            client.batch_execute(&begin(self.side.server.timeout)).await?;
            let described = client.prepare(&types::columns(rows, columns)).await?;
            client.batch_execute("COMMIT").await?;
            Ok(described)
        });
        let described = described.await?;
        let found: Vec<_> =
            described.columns().iter().map(|column| (column.name(), column.type_())).collect();
        let encoding = session.parameter("server_encoding").unwrap_or_default().to_owned();
        let asked = self.asked(&found, &encoding).map_err(Error::Types)?;
        Ok(Kept { client, session, asked, opened_at, used_at: opened_at })
    }

    fn asked(&self, found: &[(&str, &Type)], encoding: &str) -> Result<Asked, String> {
        let Side { rows, columns, .. } = &self.side;
        let asked_as: Vec<types::AskedAs> =
            self.keys.iter().map(|key| types::asked_as(columns, key, found)).collect::<Result<_, _>>()?;
        let has_text = asked_as.iter().any(|key| key.values == types::Values::Texts);
        if has_text && !encoding.eq_ignore_ascii_case("UTF8") {
            return Err(format!(
                "the database has the encoding `{encoding}`, in which not every text can be asked for; with keys that are texts `cache: partial` takes a database with \
                 UTF8, so leave `cache` out"
            ));
        }
        let keys: Vec<String> = self.keys.iter().map(|key| types::quoted(key)).collect();
        let lists: Vec<String> = asked_as
            .iter()
            .zip(1..)
            .map(|(key, nth)| match key.cast.as_str() {
                "text[]" => format!("${nth}"),
                cast => format!("${nth}::{cast}"),
            })
            .collect();
        let condition = match (keys.as_slice(), lists.as_slice()) {
            ([key], [list]) => format!("{key} = ANY({list})"),
            _ => {
                let names: Vec<String> = (1..=keys.len()).map(|nth| format!("k{nth}")).collect();
                format!(
                    "({}) IN (SELECT {names} FROM unnest({}) AS \"asked\"({names}))",
                    keys.join(", "),
                    lists.join(", "),
                    names = names.join(", ")
                )
            }
        };
        Ok(Asked { question: types::question(rows, columns, found, Some(&condition))?, keys: asked_as })
    }
}

impl Kept {
    async fn rows_of(
        &mut self,
        side: &Side,
        keys: &[&[Vec<u8>]],
        bytes_max: usize,
    ) -> Result<Vec<u8>, Error> {
        let mut lists: Vec<Vec<&str>> = vec![Vec::with_capacity(keys.len()); self.asked.keys.len()];
        for key in keys {
            let values = key.iter().zip(&self.asked.keys);
            let values: Option<Vec<&str>> = values.map(|(text, asked_as)| value(text, asked_as)).collect();
            for (list, value) in lists.iter_mut().zip(values.into_iter().flatten()) {
                list.push(value);
            }
        }
        if lists.iter().all(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let (client, question) = (&self.client, self.asked.question.as_str());
        let asked = async {
            client.batch_execute(&begin(side.server.timeout)).await?;
            let lists = lists.iter().map(|list| (list, Type::TEXT_ARRAY));
            let mut text = Vec::new();
            let mut rows = pin!(client.query_typed_raw(question, lists).await?);
            while let Some(row) = rows.try_next().await? {
                push(&mut text, &row, bytes_max)?;
            }
            client.batch_execute("COMMIT").await?;
            Ok(text)
        };
        self.session.beside(asked).await
    }
}

/// Whether a connection that was opened and used last at these times is used once more.
fn is_of_use(opened_at: Duration, used_at: Duration, now: Duration) -> bool {
    now.saturating_sub(opened_at) < SESSION_TIME_MAX && now.saturating_sub(used_at) < REST_MAX
}

/// The value, if the column can have it. One that the server cannot read would be refused with all others of the question, each time that it is asked.
fn value<'a>(text: &'a [u8], asked_as: &types::AskedAs) -> Option<&'a str> {
    let text = std::str::from_utf8(text).ok().filter(|text| !text.contains('\0'))?;
    let is_asked = match asked_as.values {
        types::Values::Integers => text.parse::<i64>().is_ok(),
        types::Values::Days => is_day(text),
        types::Values::Texts | types::Values::Others => true,
    };
    is_asked.then_some(text)
}

/// Whether a text is a day as the server reads it. Years of other than four digits have a sign before them, and the year 0 is none there.
fn is_day(text: &str) -> bool {
    text.len() == "2026-11-25".len()
        && text.starts_with(|first: char| first.is_ascii_digit())
        && !text.starts_with("0000")
}

/// Appends the line of a row.
///
/// # Errors
/// When the text becomes longer than `bytes_max`.
pub(crate) fn push(text: &mut Vec<u8>, row: &Row, bytes_max: usize) -> Result<(), Error> {
    let types::Line(line) = row.try_get(0)?;
    if text.len() + line.len() + 1 > bytes_max {
        return Err(Error::TooLong);
    }
    text.extend_from_slice(line);
    text.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests;
