//! The decoder of an input.
//!
//! Owns how the options of a format become those of its decoder, and the schemas that are fetched before the first record. Does not own what a value becomes
//! (`formats`).

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use dataflow::{Decoder, RecordBlock, Runtime, Schema, Source, SourceError};
use formats::avro::{AvroDecoder, AvroOptions, SCHEMA_BYTES_MAX};
use formats::csv::{CsvDecoder, CsvOptions};
use formats::json::{JsonDecoder, JsonOptions};
use formats::otlp::{OtlpDecoder, OtlpOptions};
use formats::protobuf::{ProtobufDecoder, ProtobufOptions};
use formats::schemas::Schemas;
use formats::tombstones::{Keys, WithTombstones, key_columns};
use registry::{Client, Kind, WithSchemas};
use sources::file::Csv;
use sources::pulsar::{PulsarOptions, SchemaClient};

use super::brokers::{Brokers, Reads};
use super::file_csv;
use super::options::pulsar_connection;
use super::protobuf::types;
use crate::config::model::Input;
use crate::config::model::source::{
    self as model, AvroFormat, CsvFormat, EpochUnit, Format, KeyFormat, ProtobufFormat, Tombstones,
};
use crate::config::values::{Field, Secret};
use crate::lookups::source::{Looks, WithLookups};
use crate::wiring::WiringError;

/// A decoder, and what has to be fetched before it decodes.
pub struct Decoding {
    /// The decoder.
    pub decoder: Arc<dyn Decoder>,
    schemas: Fetched,
    /// What the records look up; `None` if no step of the pipeline does.
    pub(in crate::wiring) looks: Option<Looks>,
}

/// The schemas that are fetched, and from where.
enum Fetched {
    /// None.
    Nothing,
    /// By the number in front of each record.
    Registry(Box<Client>, Arc<Schemas>),
    /// By the name that the source gives each block.
    Brokers(Box<PulsarOptions>, Reads, Arc<Schemas<Arc<str>>>),
}

impl Decoding {
    fn of(decoder: Arc<dyn Decoder>) -> Self {
        Self { decoder, schemas: Fetched::Nothing, looks: None }
    }

    /// The decoder of a format without schemas, for records of `pulsar` if that is the source: a topic whose schema is of another format is refused.
    fn of_text(decoder: Arc<dyn Decoder>, name: &'static str, pulsar: Option<&model::Pulsar>) -> Self {
        // What is wrong with the connection is said by the source.
        let asked = pulsar.and_then(|pulsar| pulsar_connection(pulsar, String::new()).ok());
        match asked {
            Some(asked) => {
                let schemas = Fetched::Brokers(Box::new(asked), Reads::Text(name), Arc::default());
                Self { decoder, schemas, looks: None }
            }
            None => Self::of(decoder),
        }
    }

    /// A block that does not come from a source, with what its records look up ([`RecordBlock::found`]), as [`Decoding::ready`] hands out blocks that do.
    ///
    /// # Errors
    /// When that cannot be read.
    pub async fn look_up(
        &self,
        block: RecordBlock,
        runtime: &Arc<dyn Runtime>,
    ) -> Result<RecordBlock, SourceError> {
        match &self.looks {
            Some(looks) => looks.found(block, runtime).await,
            None => Ok(block),
        }
    }

    /// `source`, whose blocks can be prepared: those that name schemas of a registry wait until these are there, and with lookups all of them until the other sides are.
    pub fn ready(&self, source: Arc<dyn Source>, runtime: &Arc<dyn Runtime>) -> Arc<dyn Source> {
        let source = match &self.schemas {
            Fetched::Nothing => source,
            Fetched::Registry(client, schemas) => {
                Arc::new(WithSchemas::new(source, (**client).clone(), schemas.clone(), runtime.clone()))
            }
            Fetched::Brokers(options, reads, schemas) => {
                let client = SchemaClient::new((**options).clone(), runtime.clone());
                let brokers = Brokers { client, reads: *reads };
                Arc::new(WithSchemas::new(source, brokers, schemas.clone(), runtime.clone()))
            }
        };
        match &self.looks {
            None => source,
            Some(looks) => Arc::new(WithLookups::new(source, looks.clone(), runtime.clone())),
        }
    }
}

/// The decoder of an input's format for the columns of `schema`.
///
/// # Errors
/// When a column cannot be filled from that format, a zone is not known, a schema's file cannot be read, or a registry's settings do not do.
pub fn decoder(input: &Input<'_>, schema: Schema) -> Result<Decoding, WiringError> {
    let decoding = of_format(input, schema)?;
    match &input.source.tombstones {
        None => Ok(decoding),
        Some(tombstones) => with_tombstones(input, tombstones, decoding),
    }
}

/// The same, with the tombstones of the input as rows.
fn with_tombstones(
    input: &Input<'_>,
    tombstones: &Tombstones,
    decoding: Decoding,
) -> Result<Decoding, WiringError> {
    let path = format!("{}.tombstones", input.path);
    let settings = |error: &dyn std::fmt::Display| WiringError::Settings(format!("`{path}`: {error}"));
    let names = |of: &[Field]| of.iter().map(|name| name.as_str().to_owned()).collect::<Vec<_>>();
    let (fields, format) = (names(&tombstones.key), &input.source.format);
    let schema = key_columns(decoding.decoder.schema(), &fields);
    if schema.columns().is_empty() {
        let message = format!(
            "no column of the table, and no step, reads a field of the key (`{}`)",
            fields.join("`, `")
        );
        return Err(settings(&message));
    }
    let Decoding { decoder, mut schemas, looks } = decoding;
    let keys = match (tombstones.format, &mut schemas) {
        (KeyFormat::Text, _) => Keys::Text(fields[0].clone()),
        (KeyFormat::Json, _) => Keys::Records(json_decoder((format, &path), schema)?),
        (KeyFormat::Avro, Fetched::Registry(client, schemas)) => {
            client.and_keys();
            let avro = format.avro().unwrap_or_default();
            let decoder =
                AvroDecoder::framed(schema, schemas.clone(), avro_options(&avro, record_bytes(format)));
            Keys::Records(Arc::new(decoder.map_err(|error| settings(&error))?))
        }
        (KeyFormat::Avro, Fetched::Nothing | Fetched::Brokers(..)) => {
            return Err(settings(&"keys in Avro need the registry of `format`"));
        }
    };
    let (timezone, epoch) = times_of(format);
    let decoder = WithTombstones::new(decoder, keys, &names(&tombstones.timestamp), (&timezone, epoch));
    let decoder = Arc::new(decoder.map_err(|error| settings(&error))?);
    Ok(Decoding { decoder, schemas, looks })
}

/// The decoder of records with a body.
fn of_format(input: &Input<'_>, schema: Schema) -> Result<Decoding, WiringError> {
    let (format, path) = (&input.source.format, format!("{}.format", input.path));
    let pulsar = input.source.pulsar.as_ref();
    if let Some((signal, _)) = format.otlp() {
        let options = OtlpOptions { record_bytes_max: record_bytes(format) };
        let decoder = OtlpDecoder::new(signal, schema, options);
        let decoder = decoder.map_err(|error| WiringError::Settings(format!("`{path}`: {error}")))?;
        return Ok(Decoding::of(Arc::new(decoder)));
    }
    if let Some(protobuf) = format.protobuf() {
        return protobuf_decoder(&protobuf, pulsar, (record_bytes(format), &path), schema);
    }
    match (format.avro(), format.csv()) {
        (Some(avro), _) => avro_decoder(&avro, pulsar, (record_bytes(format), &path), schema),
        (None, Some(csv)) => {
            let decoder = csv_decoder(csv, (record_bytes(format), &path), schema)?;
            Ok(Decoding::of_text(decoder, "CSV", pulsar))
        }
        (None, None) => Ok(Decoding::of_text(json_decoder((format, &path), schema)?, "JSON", pulsar)),
    }
}

pub(super) fn json_decoder(
    (format, path): (&Format, &str),
    schema: Schema,
) -> Result<Arc<dyn Decoder>, WiringError> {
    let (assume_timezone, epoch_unit) = times_of(format);
    let options = JsonOptions {
        assume_timezone,
        epoch_unit,
        record_bytes_max: record_bytes(format),
        ..JsonOptions::default()
    };
    let decoder = JsonDecoder::new(schema, options);
    Ok(Arc::new(decoder.map_err(|error| WiringError::Settings(format!("`{path}`: {error}")))?))
}

pub(super) fn csv_decoder(
    csv: &CsvFormat,
    (record_bytes_max, path): (usize, &str),
    schema: Schema,
) -> Result<Arc<dyn Decoder>, WiringError> {
    let Csv { delimiter, quote, has_head } = file_csv(csv, path)?;
    let options = CsvOptions {
        columns: if has_head { Vec::new() } else { csv.columns.clone() },
        delimiter,
        quote,
        null: csv.null.clone(),
        assume_timezone: csv.timezone.clone(),
        epoch_unit: epoch_unit(csv.epoch_unit),
        record_bytes_max,
    };
    let decoder = CsvDecoder::new(schema, options);
    Ok(Arc::new(decoder.map_err(|error| WiringError::Settings(format!("`{path}.csv`: {error}")))?))
}

fn avro_decoder(
    avro: &AvroFormat,
    pulsar: Option<&model::Pulsar>,
    (record_bytes_max, path): (usize, &str),
    schema: Schema,
) -> Result<Decoding, WiringError> {
    let settings = |error: &dyn std::fmt::Display| WiringError::Settings(format!("`{path}.avro`: {error}"));
    let options = avro_options(avro, record_bytes_max);
    match (&avro.schema_file, &avro.registry, pulsar) {
        (Some(file), None, _) => {
            let of_file = |error: &dyn std::fmt::Display| settings(&format!("schema_file `{file}`: {error}"));
            let writer = schema_text(Path::new(file)).map_err(|error| of_file(&error))?;
            let decoder = AvroDecoder::new(schema, &writer, options);
            Ok(Decoding::of(Arc::new(decoder.map_err(|error| of_file(&error))?)))
        }
        (None, Some(registry), _) => {
            let client = registry_client(registry, Kind::Avro, &format!("{path}.avro.registry"))?;
            let schemas = Arc::<Schemas>::default();
            let decoder = AvroDecoder::framed(schema, schemas.clone(), options);
            let decoder = Arc::new(decoder.map_err(|error| settings(&error))?);
            Ok(Decoding { decoder, schemas: Fetched::Registry(Box::new(client), schemas), looks: None })
        }
        (None, None, Some(pulsar)) => {
            let asked = pulsar_connection(pulsar, String::new())?;
            let schemas = Arc::<Schemas<Arc<str>>>::default();
            let decoder = AvroDecoder::of_blocks(schema, schemas.clone(), options);
            let decoder = Arc::new(decoder.map_err(|error| settings(&error))?);
            let schemas = Fetched::Brokers(Box::new(asked), Reads::Avro, schemas);
            Ok(Decoding { decoder, schemas, looks: None })
        }
        _ => Err(settings(&"write either `schema_file` or `registry`")),
    }
}

fn avro_options(avro: &AvroFormat, record_bytes_max: usize) -> AvroOptions {
    AvroOptions {
        assume_timezone: avro.timezone.clone(),
        epoch_unit: epoch_unit(avro.epoch_unit),
        record_bytes_max,
    }
}

fn protobuf_decoder(
    protobuf: &ProtobufFormat,
    pulsar: Option<&model::Pulsar>,
    (record_bytes_max, path): (usize, &str),
    schema: Schema,
) -> Result<Decoding, WiringError> {
    let settings =
        |error: &dyn std::fmt::Display| WiringError::Settings(format!("`{path}.protobuf`: {error}"));
    let options = ProtobufOptions {
        assume_timezone: protobuf.timezone.clone(),
        epoch_unit: epoch_unit(protobuf.epoch_unit),
        record_bytes_max,
    };
    let message = protobuf.message.as_deref();
    match (&protobuf.schema_file, &protobuf.registry, pulsar) {
        (Some(file), None, _) => {
            let of_file = |error: &dyn std::fmt::Display| settings(&format!("schema_file `{file}`: {error}"));
            let message = message.ok_or_else(|| settings(&"`message` is missing"))?;
            let types = types(Path::new(file), &protobuf.import_paths).map_err(|error| of_file(&error))?;
            let decoder = ProtobufDecoder::new(schema, &types, message, options);
            Ok(Decoding::of(Arc::new(decoder.map_err(|error| of_file(&error))?)))
        }
        (None, Some(registry), _) => {
            let client = registry_client(registry, Kind::Protobuf, &format!("{path}.protobuf.registry"))?;
            let schemas = Arc::<Schemas>::default();
            let decoder = ProtobufDecoder::framed(schema, schemas.clone(), message, options);
            let decoder = Arc::new(decoder.map_err(|error| settings(&error))?);
            Ok(Decoding { decoder, schemas: Fetched::Registry(Box::new(client), schemas), looks: None })
        }
        (None, None, Some(pulsar)) => {
            let asked = pulsar_connection(pulsar, String::new())?;
            let schemas = Arc::<Schemas<Arc<str>>>::default();
            let decoder = ProtobufDecoder::of_blocks(schema, schemas.clone(), message, options);
            let decoder = Arc::new(decoder.map_err(|error| settings(&error))?);
            let schemas = Fetched::Brokers(Box::new(asked), Reads::Protobuf, schemas);
            Ok(Decoding { decoder, schemas, looks: None })
        }
        _ => Err(settings(&"write either `schema_file` or `registry`")),
    }
}

fn registry_client(registry: &model::Registry, kind: Kind, path: &str) -> Result<Client, WiringError> {
    let secret =
        |secret: &Option<Secret>| secret.as_ref().map(|text| text.reveal().to_owned()).unwrap_or_default();
    let ca = registry
        .ca
        .as_deref()
        .map(|ca| crate::wiring::pem(Path::new(ca), &format!("{path}.ca")))
        .transpose()?;
    let config = registry::Config {
        url: registry.url.to_string(),
        user: registry.user.clone().unwrap_or_default(),
        password: secret(&registry.password),
        token: secret(&registry.token),
        kind,
        ca_pem: ca,
    };
    Client::new(&config).map_err(|error| WiringError::Settings(format!("`{path}`: {error}")))
}

/// The text of a schema's file, which is not read beyond what a schema may have.
pub(in crate::wiring) fn schema_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(SCHEMA_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// The zone and the unit of times that say neither, by the options of whichever format it is: keys in JSON or text have those of the bodies.
fn times_of(format: &Format) -> (String, formats::json::EpochUnit) {
    let (timezone, unit) = match (format.avro(), format.protobuf(), format.csv()) {
        (Some(avro), ..) => (avro.timezone, avro.epoch_unit),
        (_, Some(protobuf), _) => (protobuf.timezone, protobuf.epoch_unit),
        (.., Some(csv)) => (csv.timezone.clone(), csv.epoch_unit),
        (None, None, None) => {
            let json = format.json();
            (json.timezone, json.epoch_unit)
        }
    };
    (timezone, epoch_unit(unit))
}

fn epoch_unit(unit: EpochUnit) -> formats::json::EpochUnit {
    match unit {
        EpochUnit::Auto => formats::json::EpochUnit::ByMagnitude,
        EpochUnit::S => formats::json::EpochUnit::Seconds,
        EpochUnit::Ms => formats::json::EpochUnit::Milliseconds,
        EpochUnit::Us => formats::json::EpochUnit::Microseconds,
        EpochUnit::Ns => formats::json::EpochUnit::Nanoseconds,
    }
}

pub(super) fn record_bytes(format: &Format) -> usize {
    usize::try_from(format.record_bytes_max()).expect("the schema bounds it far below 4 GiB")
}

#[cfg(test)]
mod tests;
