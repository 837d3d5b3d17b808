//! What ClickHouse is asked for the rows of some keys.
//!
//! Owns the statement, and whether keys can be asked for in the types that the columns have there. Does not own the connection ([`clickhouse::client`]), nor what the answer means.
//!
//! | the other side | is asked                                                                                                   |
//! |----------------|------------------------------------------------------------------------------------------------------------|
//! | table, view    | `SELECT … WHERE id IN (1, 2)`, or `(a, b) IN ((1, 'x'))`: constants, so that the server reads by its index |
//! | dictionary     | `dictGet` for each of the keys that it has: a `SELECT` from it would read all of it                        |
//!
//! A server gives rows of all keys that it takes for equal to those that were asked for. It must not give fewer, so a column has to have a type there in which the text of a value
//! is that value.

use std::fmt::Write as _;

use clickhouse::client::{Client, QueryError};
use dataflow::Schema;
use operators::lookup::keys::{Key, Values};

use super::load::WHOLE;

/// A statement may be this long without a setting: ClickHouse's default of `max_query_size`.
const STATEMENT_BYTES_MAX: usize = 262_144;

/// A table, view or dictionary, and the columns of it that are read.
#[derive(Clone, Debug)]
pub struct Place {
    /// The database.
    pub database: String,
    /// The table, view or dictionary.
    pub name: String,
    /// Whether it is a dictionary.
    pub is_dictionary: bool,
    /// The columns that are read.
    pub columns: Schema,
    /// Those of the key, in order; at least one.
    pub keys: Vec<String>,
}

/// How a [`Place`] is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The statement before its keys, and behind them.
    before: String,
    behind: String,
    /// The columns of the key in the order in which the statement has them.
    order: Vec<usize>,
    /// What the values of each are, and the least and greatest number that the type there has; in the order of the key.
    values: Vec<(Values, Option<(i128, i128)>)>,
}

impl Place {
    /// What is asked for all rows.
    pub fn question(&self) -> String {
        format!("SELECT {} FROM {} FORMAT JSONEachRow", self.names(), self.from())
    }

    /// How it is asked for keys, by the types that its columns have now.
    ///
    /// # Errors
    /// When the server cannot be asked, or keys cannot be asked for in these types: why, and the way out.
    pub async fn asked(&self, client: &Client) -> Result<Asked, String> {
        let said = |error: QueryError| error.to_string();
        let keys: Vec<String> = self.keys.iter().map(|key| name(key)).collect();
        let described = format!("DESCRIBE (SELECT {} FROM {})", keys.join(", "), self.from());
        let described: Vec<(String, String)> = client
            .rows_with::<(String, String, String, String, String, String, String)>(&described, &WHOLE, &[])
            .await
            .map_err(said)?
            .into_iter()
            .map(|(name, of, ..)| (name, of))
            .collect();
        let mut values = Vec::with_capacity(keys.len());
        for key in &self.keys {
            let of = described.iter().find(|(name, _)| name == key).map_or("", |(_, of)| of.as_str());
            values.push(self.values(key, of)?);
        }
        if !self.is_dictionary {
            return Ok(self.of_table(values));
        }
        let asked = "SELECT type, key.names, key.types FROM system.dictionaries WHERE database = {database:String} AND name = {name:String}";
        let params = [("database", self.database.as_str()), ("name", self.name.as_str())];
        let found: Vec<(String, Vec<String>, Vec<String>)> =
            client.rows_with(asked, &WHOLE, &params).await.map_err(said)?;
        let [(layout, names, types)] = found.as_slice() else {
            return Err(format!(
                "`system.dictionaries` does not show the dictionary `{}`; as an administrator: GRANT SHOW DICTIONARIES ON *.* to this user",
                self.name
            ));
        };
        self.of_dictionary(layout, names, types, values)
    }

    /// What values of a key's column are, whose type there is `of`.
    fn values(&self, key: &str, of: &str) -> Result<(Values, Option<(i128, i128)>), String> {
        let ours = self.columns.columns().iter().find(|column| column.name == key);
        let ours = ours.and_then(|column| Values::of(&column.column_type));
        let theirs = clickhouse::types::parse(key, of).ok();
        match (ours, theirs.as_ref().and_then(Values::of), &theirs) {
            (Some(ours), Some(theirs), Some(of)) if ours == theirs => Ok((ours, of.bare().integer_range())),
            _ => Err(format!(
                "`{key}` is of type `{of}` there, and keys of that cannot be asked for as what it is under `fields`; give it there the type that it has, or read a view that casts it, \
                 or leave `cache` out"
            )),
        }
    }

    fn of_table(&self, values: Vec<(Values, Option<(i128, i128)>)>) -> Asked {
        let keys: Vec<String> = self.keys.iter().map(|key| name(key)).collect();
        let key = if keys.len() == 1 { keys[0].clone() } else { format!("({})", keys.join(", ")) };
        Asked {
            before: format!("SELECT {} FROM {} WHERE {key} IN (", self.names(), self.from()),
            behind: ") FORMAT JSONEachRow".to_owned(),
            order: (0..keys.len()).collect(),
            values,
        }
    }

    fn of_dictionary(
        &self,
        layout: &str,
        names: &[String],
        types: &[String],
        values: Vec<(Values, Option<(i128, i128)>)>,
    ) -> Result<Asked, String> {
        if ["Range", "Trie", "Polygon"].iter().any(|word| layout.contains(word)) {
            return Err(format!(
                "the dictionary has the layout `{layout}`, in which a key finds rows of other keys; a lookup compares values, so take another one"
            ));
        }
        let order: Option<Vec<usize>> =
            names.iter().map(|name| self.keys.iter().position(|key| key == name)).collect();
        let order = order.filter(|order| order.len() == self.keys.len()).ok_or_else(|| {
            format!(
                "the key of the dictionary is `{}`; name all of these columns under `on`",
                names.join("`, `")
            )
        })?;
        let typed: Vec<String> =
            names.iter().zip(types).map(|(key, of)| format!("{} {of}", name(key))).collect();
        let keys: Vec<String> = names.iter().map(|key| name(key)).collect();
        let key = match layout.starts_with("ComplexKey") {
            true => format!("tuple({})", keys.join(", ")),
            false => keys.join(", "),
        };
        let dictionary = text(format!("{}.{}", self.database, self.name).as_bytes());
        let columns = self.columns.columns().iter().map(|column| match names.contains(&column.name) {
            true => name(&column.name),
            false => format!(
                "dictGet({dictionary}, {}, {key}) AS {}",
                text(column.name.as_bytes()),
                name(&column.name)
            ),
        });
        let columns: Vec<String> = columns.collect();
        Ok(Asked {
            before: format!(
                "SELECT {} FROM values({}, ",
                columns.join(", "),
                text(typed.join(", ").as_bytes())
            ),
            behind: format!(") WHERE dictHas({dictionary}, {key}) FORMAT JSONEachRow"),
            order,
            values,
        })
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.columns.columns().iter().map(|column| name(&column.name)).collect();
        names.join(", ")
    }

    fn from(&self) -> String {
        match self.is_dictionary {
            true => format!("dictionary({})", text(format!("{}.{}", self.database, self.name).as_bytes())),
            false => format!("{}.{}", name(&self.database), name(&self.name)),
        }
    }
}

impl Asked {
    /// The statement for these keys, and the setting that it needs if it is long; `None` if no value of the columns' types is any of them.
    pub fn statement(&self, keys: &[Key]) -> Option<(String, Option<String>)> {
        let mut sql = self.before.clone();
        let mut is_empty = true;
        for key in keys {
            let written = sql.len();
            sql.push_str(if is_empty { "" } else { ", " });
            if !self.push_key(&mut sql, key) {
                sql.truncate(written);
                continue;
            }
            is_empty = false;
        }
        if is_empty {
            return None;
        }
        sql.push_str(&self.behind);
        let long =
            (sql.len() > STATEMENT_BYTES_MAX / 2).then(|| (sql.len() + STATEMENT_BYTES_MAX).to_string());
        Some((sql, long))
    }

    /// Appends a key; `false` if no values of the columns are it.
    fn push_key(&self, sql: &mut String, key: &Key) -> bool {
        let [only] = self.order.as_slice() else {
            sql.push('(');
            for (nth, at) in self.order.iter().enumerate() {
                sql.push_str(if nth == 0 { "" } else { ", " });
                if !push_value(sql, &key.texts[*at], self.values[*at]) {
                    return false;
                }
            }
            sql.push(')');
            return true;
        };
        push_value(sql, &key.texts[*only], self.values[*only])
    }
}

/// Appends a value; `false` if no value of the column is it.
fn push_value(sql: &mut String, value: &[u8], (values, range): (Values, Option<(i128, i128)>)) -> bool {
    match values {
        Values::Number => {
            let number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<i128>().ok());
            let is_in = |number: &i128| range.is_none_or(|(least, most)| (least..=most).contains(number));
            number.filter(is_in).is_some_and(|number| write!(sql, "{number}").is_ok())
        }
        Values::Bool => {
            sql.push_str(if value == b"true" { "true" } else { "false" });
            true
        }
        Values::Text | Values::Uuid | Values::Date => {
            sql.push_str(&text(value));
            true
        }
    }
}

/// A name in SQL.
fn name(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

/// A text in SQL, whatever its bytes are.
fn text(value: &[u8]) -> String {
    let mut sql = String::with_capacity(value.len() + 2);
    sql.push('\'');
    match std::str::from_utf8(value) {
        Ok(text) => {
            for c in text.chars() {
                match c {
                    '\\' | '\'' => sql.extend(['\\', c]),
                    '\0'..' ' => {
                        let _ = write!(sql, "\\x{:02x}", c as u32);
                    }
                    _ => sql.push(c),
                }
            }
        }
        Err(_) => {
            for byte in value {
                let _ = write!(sql, "\\x{byte:02x}");
            }
        }
    }
    sql.push('\'');
    sql
}

#[cfg(test)]
mod tests;
