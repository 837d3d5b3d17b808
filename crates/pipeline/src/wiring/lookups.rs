//! `lookup:` of `steps:` to what their records look up.

use std::sync::Arc;

use dataflow::Schema;
use operators::lookup::LookupKeyer;

use super::{WiringError, bounds, sink, source};
use crate::config::model::Pipeline;
use crate::config::model::lookup::{LookupClickHouse, LookupStep};
#[cfg(feature = "postgres")]
use crate::config::model::lookup::{LookupPostgres, SslMode};
use crate::config::model::source::Format;
#[cfg(feature = "postgres")]
use crate::config::values::TableName;
use crate::lookups::{From, Load, Lookups};
use crate::plan::lookups::side;

/// The other sides of all lookups of a pipeline; `None` if it has none.
///
/// # Errors
/// When the settings of one cannot be used.
pub fn lookups(pipeline: &Pipeline) -> Result<Option<Arc<Lookups>>, WiringError> {
    let memory = bounds::open_keys(pipeline);
    let mut sides = Vec::new();
    for (at, lookup) in
        pipeline.steps.iter().enumerate().filter_map(|(at, step)| Some((at, step.lookup.as_ref()?)))
    {
        let bytes_max = memory.get(&at).copied().unwrap_or(lookup.memory.bytes);
        let load = load(pipeline, lookup, &format!("steps[{at}].lookup"), bytes_max)?;
        sides.push((at as u32, lookup.refresh.duration(), load));
    }
    Ok((!sides.is_empty()).then(|| Arc::new(Lookups::new(sides))))
}

fn load(pipeline: &Pipeline, lookup: &LookupStep, path: &str, bytes_max: u64) -> Result<Load, WiringError> {
    let schema = side(lookup);
    let settings = |error: &dyn std::fmt::Display| WiringError::Settings(format!("`{path}`: {error}"));
    let keys: Vec<String> = lookup.pairs().into_iter().map(|(_, theirs)| theirs).collect();
    let keyer = LookupKeyer::new(&schema, &keys).map_err(|error| settings(&error))?;
    let json = || source::of_file(&Format::default(), &format!("{path}.fields"), schema.clone());
    let (from, decoder) = match lookup {
        LookupStep { file: Some(file), .. } => {
            let (decoder, csv) =
                source::of_file(&file.format, &format!("{path}.file.format"), schema.clone())?;
            (From::File { path: file.path.clone().into(), csv }, decoder)
        }
        LookupStep { clickhouse: Some(table), .. } => {
            let server = sink::server(&pipeline.sink.clickhouse)?;
            (From::ClickHouse { server, sql: question(pipeline, table, &schema) }, json()?.0)
        }
        #[cfg(feature = "postgres")]
        LookupStep { postgres: Some(postgres), .. } => {
            (From::Postgres(postgres_side(postgres, schema.clone())), json()?.0)
        }
        _ => return Err(settings(&"write either `file`, `clickhouse` or `postgres`")),
    };
    Ok(Load { from: Arc::new(from), decoder, keyer, bytes_max })
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

/// What is asked of the server: all rows, of the columns that are read.
fn question(pipeline: &Pipeline, of: &LookupClickHouse, schema: &Schema) -> String {
    let quoted = |name: &str| format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"));
    let text = |name: &str| format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'"));
    let columns: Vec<String> = schema.columns().iter().map(|column| quoted(&column.name)).collect();
    let database = of.database.as_ref().unwrap_or(&pipeline.sink.clickhouse.database).as_str();
    let from = match (&of.table, &of.dictionary) {
        (Some(table), _) => format!("{}.{}", quoted(database), quoted(table.as_str())),
        (None, dictionary) => {
            let name = dictionary.as_ref().map_or("", |name| name.as_str());
            format!("dictionary({})", text(&format!("{database}.{name}")))
        }
    };
    format!("SELECT {} FROM {from} FORMAT JSONEachRow", columns.join(", "))
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
            question(&pipeline, lookup.clickhouse.as_ref().expect("a table"), &side(lookup))
        };
        assert_eq!(asked(0), "SELECT `i\\`d`, `a\\\\b` FROM `shop`.`products` FORMAT JSONEachRow");
        assert_eq!(asked(1), "SELECT `id` FROM dictionary('other.it\\'s') FORMAT JSONEachRow");
    }
}
