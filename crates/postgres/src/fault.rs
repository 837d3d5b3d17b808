//! What went wrong, with the way out.
//!
//! Owns the sentence. Does not own when rows are asked for again: all of it is waited for, as for a server that is away, since the operator
//! may correct each without a restart (`pipeline::lookups`).

use std::error::Error as _;

use crate::connect::Error;
use crate::{Rows, Server, Side, types};

/// Why rows were not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// They take more bytes than they may.
    TooLong,
    /// Anything else, as a whole sentence; no secrets.
    Failed(String),
}

impl Server {
    /// Which one it is, for messages.
    pub(crate) fn place(&self) -> String {
        format!("PostgreSQL at `{}:{}`", self.host, self.port)
    }
}

impl Side {
    pub(crate) fn explain(&self, error: Error) -> Fault {
        let server = &self.server;
        let why = match error {
            Error::TooLong => return Fault::TooLong,
            Error::Connect(error) => format!("no connection: {error}"),
            Error::Slow => "no connection in time; it may be too busy, or a firewall may swallow what is sent".to_owned(),
            Error::Clear => {
                "it does not encrypt; switch its `ssl` on, or, for a server on this machine or in a network that you trust, write `sslmode: disable`".to_owned()
            }
            Error::Tls(why) => format!("TLS: {why}"),
            Error::Types(why) => why,
            Error::Postgres(error) => self.of_server(&error),
        };
        Fault::Failed(format!("{}: {why}", server.place()))
    }

    /// Not all rows have come in time.
    pub(crate) fn too_slow(&self) -> Fault {
        let Server { timeout, .. } = &self.server;
        Fault::Failed(format!(
            "{}: not all rows came within `{}` s; raise `timeout`, or ask for less",
            self.server.place(),
            timeout.as_secs_f64()
        ))
    }

    fn of_server(&self, error: &tokio_postgres::Error) -> String {
        let Some(said) = error.as_db_error() else {
            let why = chain(error);
            return match self.server.password {
                None if why.contains("password missing") => {
                    "it asks for a password; write `password: ${NAME}`, with the name of an environment variable".to_owned()
                }
                _ => why,
            };
        };
        let code = said.code().code();
        let detail = said.detail().map_or_else(String::new, |detail| format!(" ({detail})"));
        let way = self.way_out(code).map_or_else(String::new, |way| format!("; {way}"));
        format!("{}{detail} (SQLSTATE {code}){way}", said.message())
    }

    /// What to do about a refusal, by its SQLSTATE.
    fn way_out(&self, code: &str) -> Option<String> {
        let Server { user, database, .. } = &self.server;
        let is_query = matches!(self.rows, Rows::Query(_));
        Some(match code {
            "28P01" => format!("correct `user` and `password`: `{user}` does not log in with it"),
            "28000" => format!("correct `user`, or let `{user}` in by the server's `pg_hba.conf`"),
            "3D000" => format!("correct the database in `url`: there is no `{database}`"),
            "42P01" | "3F000" if is_query => "correct `query`, or create what it reads".to_owned(),
            "42P01" | "3F000" => {
                "correct `table`, with its schema as in `schema.table`, or create it".to_owned()
            }
            "42703" => "name under `fields` columns that the other side has".to_owned(),
            "42501" => match types::quoted_table(&self.rows) {
                Some(table) => {
                    format!("as its owner: GRANT SELECT ON {table} TO {}", types::quoted(user))
                }
                None => format!("grant `{user}` what `query` reads"),
            },
            "57014" => "raise `timeout`, or ask for less".to_owned(),
            _ if code.starts_with("42") && is_query => "correct `query`".to_owned(),
            _ => return None,
        })
    }
}

/// An error with its causes.
fn chain(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let own = error.to_string();
        if !text.ends_with(&own) {
            text = format!("{text}: {own}");
        }
        cause = error.source();
    }
    text
}
