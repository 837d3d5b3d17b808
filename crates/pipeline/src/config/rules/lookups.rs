//! Rules for lookups: what the file says of the other side.
//!
//! Owns its types, key and columns as far as they stand in the file, and what goes with `cache`, `file` and `postgres`. Does not own the columns of the
//! rows and the place of the step, which the planner knows (`plan::lookups`).

use operators::lookup::keys::Values;

use super::Rules;
use crate::config::model::lookup::{LookupCache, LookupPostgres, LookupStep, SslMode};
use crate::config::model::source::{Format, FormatWord};

impl Rules<'_> {
    /// Every `lookup`.
    pub(super) fn lookups(&mut self) {
        for (at, step) in self.pipeline.steps.iter().enumerate() {
            let Some(lookup) = &step.lookup else { continue };
            let path = format!("steps[{at}].lookup");
            for (name, type_name) in &lookup.fields.0 {
                if let Err(error) = clickhouse::types::parse(name.as_str(), type_name) {
                    self.fault(&format!("{path}.fields.{name}"), format!("no type: {}", error.reason));
                }
            }
            for (nth, (own, theirs)) in lookup.pairs().iter().enumerate() {
                let of_key = format!("{path}.on[{nth}]");
                if own.is_empty() || theirs.is_empty() || theirs.contains('=') {
                    self.fault(&of_key, "write a column that both have, or `own_name = other_name`");
                } else if !lookup.fields.has(theirs) {
                    let message = format!(
                        "`{theirs}` has no type; write `{theirs}: String` under `fields`, with its type"
                    );
                    self.fault(&of_key, message);
                }
            }
            if lookup.gives().is_empty() {
                let message = "rows get no column: `fields` names those of the key alone; add what they shall get to `fields`, with its type";
                self.fault(&format!("{path}.fields"), message);
            }
            if lookup.cache == LookupCache::Partial {
                self.partial(lookup, &path);
            }
            for (name, from) in &lookup.columns.0 {
                if !lookup.fields.has(from) {
                    let message =
                        format!("`{from}` has no type; write `{from}: String` under `fields`, with its type");
                    self.fault(&format!("{path}.columns.{name}"), message);
                }
            }
            if let Some(postgres) = &lookup.postgres {
                self.postgres(postgres, &format!("{path}.postgres"));
            }
            let Some(file) = &lookup.file else { continue };
            let of_format = format!("{path}.file.format");
            match &file.format {
                Format::Word(FormatWord::Json | FormatWord::Csv) => {
                    self.csv_of(&file.format, &of_format, true)
                }
                Format::Options(options) if options.json.is_some() || options.csv.is_some() => {
                    self.csv_of(&file.format, &of_format, true);
                }
                _ => self.fault(&of_format, "a lookup reads JSON, one object a line, or CSV"),
            }
        }
    }

    /// A side that is asked for keys.
    fn partial(&mut self, lookup: &LookupStep, path: &str) {
        if lookup.file.is_some() {
            self.fault(&format!("{path}.cache"), "a file is read as a whole; leave `cache` out");
        }
        for (nth, (_, theirs)) in lookup.pairs().iter().enumerate() {
            let of_type = lookup.fields.0.iter().find(|(name, _)| name.as_str() == theirs);
            let Some((_, of_type)) = of_type else { continue };
            let Ok(parsed) = clickhouse::types::parse(theirs, of_type) else { continue };
            if Values::of(&parsed).is_none() {
                let message = format!(
                    "`{theirs}` is of type `{of_type}`, and with `cache: partial` a key is a whole number, String, UUID, Date or Bool; leave `cache` out"
                );
                self.fault(&format!("{path}.on[{nth}]"), message);
            }
        }
    }

    fn postgres(&mut self, postgres: &LookupPostgres, path: &str) {
        let LookupPostgres { url, password, sslmode, ca, cert, key, .. } = postgres;
        let is_clear = *sslmode == SslMode::Disable;
        if is_clear && password.is_some() && !url.is_loopback() && !postgres.allow_plaintext_password {
            self.fault(
                &format!("{path}.sslmode"),
                "the password is sent in clear to another machine; leave `sslmode` out, or write `allow_plaintext_password: true`",
            );
        }
        for (name, file) in [("ca", ca), ("cert", cert), ("key", key)] {
            if is_clear && file.is_some() {
                self.fault(
                    &format!("{path}.{name}"),
                    format!("`{name}` has no effect with `sslmode: disable`"),
                );
            }
        }
        if cert.is_some() != key.is_some() {
            self.fault(path, "`cert` and `key` go together");
        }
        if cfg!(not(feature = "postgres")) {
            self.fault(path, "this program was built without PostgreSQL; build it with the feature `postgres`, as it is by default");
        }
    }
}
