//! `lookup:` of `steps:` to the rows that records look up.
//!
//! Owns which server is asked, by which settings, and how much memory the rows get. Does not own when they are read (`crate::lookups`), the
//! statements (`lookups::asked`) or the step (`plan::lookups`).

use std::sync::{Arc, Mutex};

use dataflow::Schema;
use operators::lookup::LookupKeyer;

use super::steps::InputChain;
use super::{WiringError, bounds, sink, source};
use crate::config::model::Pipeline;
use crate::config::model::lookup::{LookupCache, LookupClickHouse, LookupStep};
#[cfg(feature = "postgres")]
use crate::config::model::lookup::{LookupPostgres, SslMode};
use crate::config::model::source::Format;
#[cfg(feature = "postgres")]
use crate::config::values::TableName;
use crate::lookups::asked::Place;
use crate::lookups::keyed::{AHEAD, Keyed, Server};
use crate::lookups::source::Looks;
use crate::lookups::walk::{Walk, Walks};
use crate::lookups::{From, Load, Lookups, Rules};
use crate::plan::lookups::side;

/// The other sides of all lookups of a pipeline; `None` if it has none.
///
/// # Errors
/// When the settings of one cannot be used.
pub fn lookups(pipeline: &Pipeline) -> Result<Option<Arc<Lookups>>, WiringError> {
    let memory = bounds::open_keys(pipeline);
    let (mut whole, mut keyed) = (Vec::new(), Vec::new());
    for (at, lookup) in
        pipeline.steps.iter().enumerate().filter_map(|(at, step)| Some((at, step.lookup.as_ref()?)))
    {
        let bytes_max = memory.get(&at).copied().unwrap_or(lookup.memory.bytes);
        let (path, refresh) = (pipeline.step_in_file(at), lookup.refresh.duration());
        match lookup.cache {
            LookupCache::Full => {
                whole.push((at as u32, refresh, load(pipeline, lookup, &path, bytes_max)?));
            }
            LookupCache::Partial => {
                let (server, rules) = asked(pipeline, lookup, &path, bytes_max)?;
                keyed.push(Arc::new(Keyed::new(at as u32, refresh, server, rules)));
            }
        }
    }
    let is_none = whole.is_empty() && keyed.is_empty();
    Ok((!is_none).then(|| Arc::new(Lookups::new(whole, keyed))))
}

/// What the records of each input of `chains` look up, in the order of the file; `None` if they look nothing up.
///
/// # Errors
/// When the settings of a lookup cannot be used.
pub(super) fn looks(pipeline: &Pipeline, chains: &[InputChain]) -> Result<Option<Vec<Looks>>, WiringError> {
    let Some(lookups) = lookups(pipeline)? else { return Ok(None) };
    let names = |number: u32| -> Vec<String> {
        let lookup = pipeline.steps[number as usize].lookup.as_ref();
        lookup.map_or_else(Vec::new, |lookup| lookup.pairs().into_iter().map(|(own, _)| own).collect())
    };
    let walk = |chain: &InputChain| {
        let walk = Walk::new(&chain.intake, lookups.keyed(), names);
        let walk = walk.map_err(|error| WiringError::Settings(error.to_string()))?;
        Ok((chain.name.clone(), walk))
    };
    let walks = chains.iter().map(walk).collect::<Result<Vec<_>, WiringError>>()?;
    let walks = Arc::new(Walks::new(walks));
    let ahead = (AHEAD / chains.len().max(1)).max(1);
    let of = |own| Looks { lookups: lookups.clone(), walks: walks.clone(), own, ahead };
    Ok(Some((0..chains.len()).map(of).collect()))
}

/// What becomes of the rows of a side with these columns, which are JSON.
fn rules(
    pipeline: &Pipeline,
    lookup: &LookupStep,
    path: &str,
    schema: &Schema,
    bytes_max: u64,
) -> Result<Rules, WiringError> {
    let settings = |error: &dyn std::fmt::Display| WiringError::Settings(format!("`{path}`: {error}"));
    let keys: Vec<String> = lookup.pairs().into_iter().map(|(_, theirs)| theirs).collect();
    let keyer = LookupKeyer::new(schema, &keys).map_err(|error| settings(&error))?;
    let (decoder, _) = source::of_file(&Format::default(), &format!("{path}.fields"), schema.clone())?;
    Ok(Rules { step: path.to_owned(), side: shown(pipeline, lookup), decoder, keyer, bytes_max })
}

/// The other side for people.
fn shown(pipeline: &Pipeline, lookup: &LookupStep) -> String {
    match lookup {
        LookupStep { file: Some(file), .. } => format!("file `{}`", file.path),
        LookupStep { clickhouse: Some(of), .. } => {
            let place = place(pipeline, lookup, of, Schema::new(Vec::new()));
            let what = if place.is_dictionary { "dictionary" } else { "table" };
            format!("{what} `{}.{}` in ClickHouse", place.database, place.name)
        }
        LookupStep { postgres: Some(of), .. } => match &of.table {
            Some(table) => format!("table `{}` in PostgreSQL", table.as_str()),
            None => "query of PostgreSQL".to_owned(),
        },
        _ => "the other side".to_owned(),
    }
}

fn load(pipeline: &Pipeline, lookup: &LookupStep, path: &str, bytes_max: u64) -> Result<Load, WiringError> {
    let schema = side(lookup);
    let mut rules = rules(pipeline, lookup, path, &schema, bytes_max)?;
    let from = match lookup {
        LookupStep { file: Some(file), .. } => {
            let (decoder, csv) = source::of_file(&file.format, &format!("{path}.file.format"), schema)?;
            rules.decoder = decoder;
            From::File { path: file.path.clone().into(), csv }
        }
        LookupStep { clickhouse: Some(table), .. } => {
            let server = sink::server(&pipeline.sink.clickhouse)?;
            From::ClickHouse { server, place: place(pipeline, lookup, table, schema) }
        }
        #[cfg(feature = "postgres")]
        LookupStep { postgres: Some(postgres), .. } => From::Postgres(postgres_side(postgres, schema)),
        _ => return Err(nowhere(path)),
    };
    Ok(Load { from: Arc::new(from), rules })
}

/// A side that is asked for keys.
fn asked(
    pipeline: &Pipeline,
    lookup: &LookupStep,
    path: &str,
    bytes_max: u64,
) -> Result<(Server, Rules), WiringError> {
    let schema = side(lookup);
    let rules = rules(pipeline, lookup, path, &schema, bytes_max)?;
    let server = match lookup {
        LookupStep { clickhouse: Some(table), .. } => Server::ClickHouse {
            server: Box::new(sink::server(&pipeline.sink.clickhouse)?),
            place: place(pipeline, lookup, table, schema),
            known: Mutex::default(),
        },
        #[cfg(feature = "postgres")]
        LookupStep { postgres: Some(postgres), .. } => {
            let keys = lookup.pairs().into_iter().map(|(_, theirs)| theirs).collect();
            Server::Postgres(postgres::Keyed::new(postgres_side(postgres, schema), keys))
        }
        _ => return Err(nowhere(path)),
    };
    Ok((server, rules))
}

fn nowhere(path: &str) -> WiringError {
    WiringError::Settings(format!("`{path}`: write either `file`, `clickhouse` or `postgres`"))
}

#[cfg(feature = "postgres")]
fn postgres_side(of: &LookupPostgres, columns: Schema) -> postgres::Side {
    let (host, port, database) = of.url.parts();
    let tls = sources::tls::Tls {
        ca: of.ca.as_ref().map(Into::into),
        identity: of.cert.as_ref().zip(of.key.as_ref()).map(|(cert, key)| (cert.into(), key.into())),
        verify_host: of.sslmode == SslMode::VerifyFull,
    };
    let trust: postgres::Trust = Arc::new(move || sources::tls::client_config(&tls));
    let server = postgres::Server {
        host: host.to_owned(),
        port,
        database: database.to_owned(),
        user: of.user.clone(),
        password: of.password.as_ref().map(|password| password.reveal().to_owned()),
        tls: (of.sslmode != SslMode::Disable).then_some(trust),
        timeout: of.timeout.duration(),
    };
    let rows = match &of.query {
        Some(query) => postgres::Rows::Query(query.clone()),
        None => {
            let name = of.table.as_ref().map(TableName::as_str).unwrap_or_default();
            let (schema, table) = match name.split_once('.') {
                Some((schema, table)) => (Some(schema), table),
                None => (None, name),
            };
            postgres::Rows::Table { schema: schema.map(str::to_owned), table: table.to_owned() }
        }
    };
    postgres::Side { server, rows, columns }
}

fn place(pipeline: &Pipeline, lookup: &LookupStep, of: &LookupClickHouse, columns: Schema) -> Place {
    let name = of.table.as_ref().or(of.dictionary.as_ref());
    Place {
        database: of.database.as_ref().unwrap_or(&pipeline.sink.clickhouse.database).to_string(),
        name: name.map_or_else(String::new, ToString::to_string),
        is_dictionary: of.table.is_none(),
        columns,
        keys: lookup.pairs().into_iter().map(|(_, theirs)| theirs).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::config::values::reference::Surroundings;

    #[test]
    fn names_are_quoted_in_the_question() {
        let text = "pipeline: p\nsource: { kafka: { brokers: b, topic: t } }\nsink: { clickhouse: { url: \"http://localhost:8123\", database: shop, table: t } }\nsteps:\n  \
                    - lookup: { clickhouse: { table: products }, fields: { \"i`d\": Int64, \"a\\\\b\": String }, on: [\"id = i`d\"], columns: { name: \"a\\\\b\" } }\n  \
                    - lookup: { clickhouse: { dictionary: \"it's\", database: other }, fields: { id: Int64 }, on: [id], columns: { again: id } }\n";
        let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
        let checked = config::check(text, &around);
        let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
        let asked = |at: usize| {
            let lookup = pipeline.steps[at].lookup.as_ref().expect("a lookup");
            let table = lookup.clickhouse.as_ref().expect("a table");
            place(&pipeline, lookup, table, side(lookup)).question()
        };
        assert_eq!(asked(0), "SELECT `i\\`d`, `a\\\\b` FROM `shop`.`products` FORMAT JSONEachRow");
        assert_eq!(asked(1), "SELECT `id` FROM dictionary('other.it\\'s') FORMAT JSONEachRow");
    }
}
