//! An input of the file to a source and a decoder.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dataflow::{Decoder, RecordBlock, Runtime, Schema, Source, SourceError};
use formats::avro::{AvroDecoder, AvroOptions, SCHEMA_BYTES_MAX, Schemas};
use formats::csv::{CsvDecoder, CsvOptions};
use formats::json::{JsonDecoder, JsonOptions};
use formats::otlp::{OtlpDecoder, OtlpOptions};
use gateway::direct::DirectSource;
use registry::{Client, WithSchemas};
use sources::file::{Claims, Csv, FileOptions, FileSource};
use sources::generator::GeneratorSource;
use sources::kafka::{FetchBy, KafkaOptions, KafkaSource, TokenSource};
use sources::log::{Access, LogOptions, LogSource};
use sources::pulsar::{PulsarOptions, PulsarSource, Token};
use workloads::glassflow;

use super::{WiringError, bounds, storage};
use crate::config::model::listen::stream_of;
use crate::config::model::source::{
    self as model, AvroFormat, CsvFormat, EpochUnit, Fetch, Format, Generator, Kafka, LogStart, Mechanism,
    NO_QUOTE, OAuth, Pulsar, Security, Workload,
};
use crate::config::model::{Input, Pipeline};
use crate::config::values::{Secret, Start};
use crate::lookups::source::{Looks, WithLookups};

/// The source of an input. Nothing is connected yet.
///
/// # Errors
/// When its settings contradict each other in a way that only the source knows.
pub fn source(
    pipeline: &Pipeline,
    input: &Input<'_>,
    runtime: &Arc<dyn Runtime>,
) -> Result<Arc<dyn Source>, WiringError> {
    source_beside(pipeline, input, runtime, &Arc::default())
}

/// The same beside those of other inputs that share `claims`: a file that two of them match is refused.
///
/// # Errors
/// As [`source`].
pub fn source_beside(
    pipeline: &Pipeline,
    input: &Input<'_>,
    runtime: &Arc<dyn Runtime>,
    claims: &Arc<Claims>,
) -> Result<Arc<dyn Source>, WiringError> {
    let (path, format) = (&input.path, &input.source.format);
    let settings = |error: dataflow::SourceError| WiringError::Settings(format!("`{path}`: {error}"));
    match input.source {
        model::Source { kafka: Some(kafka), .. } => {
            let options = kafka_options(kafka, &input.source.format, pipeline);
            Ok(Arc::new(KafkaSource::new(options, runtime.clone()).map_err(settings)?))
        }
        model::Source { pulsar: Some(pulsar), .. } => {
            let options = pulsar_options(pulsar, &input.source.format, pipeline).map_err(settings)?;
            Ok(Arc::new(PulsarSource::new(options, runtime.clone())))
        }
        model::Source { log: Some(log), .. } => {
            Ok(Arc::new(LogSource::new(log_options(log, pipeline)?, runtime.clone())))
        }
        // For those who only look.
        model::Source { listen: Some(_), .. } => {
            let stream = stream_of(pipeline, input.source);
            Ok(Arc::new(DirectSource::silent(stream.as_ref().map_or("", |stream| stream.as_str()))))
        }
        model::Source { file: Some(files), .. } => {
            let options = FileOptions {
                csv: format.csv().map(|csv| file_csv(csv, &format!("{path}.format"))).transpose()?,
                // One byte more than a record may have: the decoder then sees that it is too long, and says so.
                // What a dead letter can hold is handed out, so that it holds all of a record that is merely too long.
                line_bytes_max: record_bytes(&input.source.format).max(dataflow::reject::RAW_BYTES_MAX) + 1,
                ahead_bytes_max: bounds::ahead_bytes(pipeline),
                ..FileOptions::new(files.paths.as_slice().to_vec())
            };
            let source = FileSource::new(options).map_err(settings)?;
            Ok(Arc::new(source.beside(claims.clone(), input.name)))
        }
        model::Source { generator: Some(generator), .. } => {
            let workload = Arc::new(workload(generator, path)?);
            let source = GeneratorSource::new(workload, runtime.clone());
            match generator.rate {
                Some(rate) => Ok(Arc::new(source.at_pace(rate as f64).map_err(settings)?)),
                None => Ok(Arc::new(source)),
            }
        }
        _ => Err(WiringError::Settings(format!("`{path}` names no source"))),
    }
}

/// Files that the inputs of a pipeline would read twice, of those that are there now: the key in the file and the words for people.
pub fn shared_files(pipeline: &Pipeline) -> Vec<(String, String)> {
    let inputs = pipeline.inputs();
    let of_files = inputs.iter().filter_map(|input| Some((input, input.source.file.as_ref()?)));
    let of_files: Vec<_> = of_files.collect();
    let named: Vec<(&str, &[String])> =
        of_files.iter().map(|(input, files)| (input.name, files.paths.as_slice())).collect();
    let shared = sources::file::shared(&named).into_iter();
    shared.map(|(at, why)| (format!("{}.file.paths", of_files[at].0.path), why)).collect()
}

/// A decoder, and what has to be fetched before it decodes.
pub struct Decoding {
    /// The decoder.
    pub decoder: Arc<dyn Decoder>,
    registry: Option<(Client, Arc<Schemas>)>,
    /// What the records look up; `None` if no step of the pipeline does.
    pub(super) looks: Option<Looks>,
}

impl Decoding {
    fn of(decoder: Arc<dyn Decoder>) -> Self {
        Self { decoder, registry: None, looks: None }
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
        let source = match &self.registry {
            None => source,
            Some((client, schemas)) => {
                Arc::new(WithSchemas::new(source, client.clone(), schemas.clone(), runtime.clone()))
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
    let (format, path) = (&input.source.format, format!("{}.format", input.path));
    if let Some((signal, _)) = format.otlp() {
        let options = OtlpOptions { record_bytes_max: record_bytes(format) };
        let decoder = OtlpDecoder::new(signal, schema, options);
        let decoder = decoder.map_err(|error| WiringError::Settings(format!("`{path}`: {error}")))?;
        return Ok(Decoding::of(Arc::new(decoder)));
    }
    match (format.avro(), format.csv()) {
        (Some(avro), _) => avro_decoder(avro, (record_bytes(format), &path), schema),
        (None, Some(csv)) => csv_decoder(csv, (record_bytes(format), &path), schema).map(Decoding::of),
        (None, None) => json_decoder((format, &path), schema).map(Decoding::of),
    }
}

fn json_decoder((format, path): (&Format, &str), schema: Schema) -> Result<Arc<dyn Decoder>, WiringError> {
    let json = format.json();
    let options = JsonOptions {
        assume_timezone: json.timezone.clone(),
        epoch_unit: epoch_unit(json.epoch_unit),
        record_bytes_max: record_bytes(format),
        ..JsonOptions::default()
    };
    let decoder = JsonDecoder::new(schema, options);
    Ok(Arc::new(decoder.map_err(|error| WiringError::Settings(format!("`{path}`: {error}")))?))
}

fn csv_decoder(
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

/// The records that lines of a file are in the format of an input.
///
/// # Errors
/// When the format's settings contradict each other.
pub fn records(input: &Input<'_>, lines: &RecordBlock) -> Result<RecordBlock, WiringError> {
    match input.source.format.csv() {
        Some(csv) => Ok(sources::file::joined(lines, file_csv(csv, &format!("{}.format", input.path))?)),
        None => Ok(lines.clone()),
    }
}

/// How the other side of a lookup is read from a file of this format, with these columns; `path` is the format's key.
///
/// # Errors
/// As [`decoder`].
pub(super) fn of_file(
    format: &Format,
    path: &str,
    schema: Schema,
) -> Result<(Arc<dyn Decoder>, Option<Csv>), WiringError> {
    match format.csv() {
        Some(csv) => {
            let decoder = csv_decoder(csv, (record_bytes(format), path), schema)?;
            Ok((decoder, Some(file_csv(csv, path)?)))
        }
        None => Ok((json_decoder((format, path), schema)?, None)),
    }
}

/// What tells the records of a CSV file apart.
fn file_csv(csv: &CsvFormat, path: &str) -> Result<Csv, WiringError> {
    let byte = |name: &str, text: &str| match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(WiringError::Settings(format!("`{path}.csv`: `{name}` is one ASCII character"))),
    };
    let delimiter = byte("delimiter", &csv.delimiter)?;
    let quote = if csv.quote == NO_QUOTE { None } else { Some(byte("quote", &csv.quote)?) };
    Ok(Csv { delimiter, quote, has_head: csv.header })
}

fn avro_decoder(
    avro: &AvroFormat,
    (record_bytes_max, path): (usize, &str),
    schema: Schema,
) -> Result<Decoding, WiringError> {
    let settings = |error: &dyn std::fmt::Display| WiringError::Settings(format!("`{path}.avro`: {error}"));
    let options = AvroOptions {
        assume_timezone: avro.timezone.clone(),
        epoch_unit: epoch_unit(avro.epoch_unit),
        record_bytes_max,
    };
    match (&avro.schema_file, &avro.registry) {
        (Some(file), None) => {
            let of_file = |error: &dyn std::fmt::Display| settings(&format!("schema_file `{file}`: {error}"));
            let writer = schema_text(Path::new(file)).map_err(|error| of_file(&error))?;
            let decoder = AvroDecoder::new(schema, &writer, options);
            Ok(Decoding::of(Arc::new(decoder.map_err(|error| of_file(&error))?)))
        }
        (None, Some(registry)) => {
            let client = registry_client(registry, &format!("{path}.avro.registry"))?;
            let schemas = Arc::<Schemas>::default();
            let decoder = AvroDecoder::framed(schema, schemas.clone(), options);
            let decoder = Arc::new(decoder.map_err(|error| settings(&error))?);
            Ok(Decoding { decoder, registry: Some((client, schemas)), looks: None })
        }
        _ => Err(settings(&"write either `schema_file` or `registry`")),
    }
}

fn registry_client(registry: &model::Registry, path: &str) -> Result<Client, WiringError> {
    let secret =
        |secret: &Option<Secret>| secret.as_ref().map(|text| text.reveal().to_owned()).unwrap_or_default();
    let ca = registry.ca.as_deref().map(|ca| super::pem(Path::new(ca), &format!("{path}.ca"))).transpose()?;
    let config = registry::Config {
        url: registry.url.to_string(),
        user: registry.user.clone().unwrap_or_default(),
        password: secret(&registry.password),
        token: secret(&registry.token),
        ca_pem: ca,
    };
    Client::new(&config).map_err(|error| WiringError::Settings(format!("`{path}`: {error}")))
}

/// The text of a schema's file, which is not read beyond what a schema may have.
fn schema_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(SCHEMA_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
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

/// The workload of a generator, whose input stands at `path`.
///
/// # Errors
/// When its numbers make none.
pub fn workload(generator: &Generator, path: &str) -> Result<glassflow::Workload, WiringError> {
    let Workload::Glassflow = generator.workload;
    let publishers = u64::from(generator.publishers.max(1));
    let spec = glassflow::Spec {
        seed: generator.seed,
        publishers: generator.publishers,
        uniques: generator.uniques / publishers,
        far_duplicates: generator.far_duplicates / publishers,
        cross_duplicates: generator.cross_duplicates / publishers,
        ..glassflow::Spec::default()
    };
    let workload = glassflow::Workload::new(spec);
    workload.map_err(|error| WiringError::Settings(format!("`{path}.generator`: {error}")))
}

fn record_bytes(format: &Format) -> usize {
    usize::try_from(format.record_bytes_max()).expect("the schema bounds it far below 4 GiB")
}

fn kafka_options(kafka: &Kafka, format: &Format, pipeline: &Pipeline) -> KafkaOptions {
    let brokers = kafka.brokers.as_slice().iter();
    let brokers =
        brokers.flat_map(|broker| broker.as_str().split(',')).map(|broker| broker.trim().to_owned());
    let topics =
        kafka.topic.iter().chain(kafka.topics.iter().flatten()).map(|topic| topic.as_str().to_owned());
    let group = match &kafka.group {
        Some(group) => group.to_string(),
        None => format!("forebay-{}", pipeline.pipeline),
    };
    let mut options = KafkaOptions::new(brokers.collect(), topics.collect(), group);
    options.start = match kafka.start {
        Start::Earliest => sources::kafka::Start::Earliest,
        Start::Latest => sources::kafka::Start::Latest,
        Start::At { ms } => sources::kafka::Start::Time(ms),
    };
    options.fetch = match kafka.fetch {
        Fetch::Auto => FetchBy::Auto,
        Fetch::Direct => FetchBy::Direct,
        Fetch::Librdkafka => FetchBy::Librdkafka,
    };
    options.ahead_bytes_max = bounds::ahead_bytes(pipeline);
    options.record_bytes_max = record_bytes(format).max(dataflow::reject::RAW_BYTES_MAX) + 1;
    options.properties =
        kafka.properties.iter().map(|(name, value)| (name.to_string(), value.reveal().to_owned())).collect();
    options.properties.extend(security(&kafka.security));
    options.token = token(&kafka.security);
    options
}

fn log_options(log: &model::LogSource, pipeline: &Pipeline) -> Result<LogOptions, WiringError> {
    let (url, remote) = (log.url.to_string(), storage::remote_of(pipeline, &log.url)?);
    let open = move |access| match access {
        Access::Read => store::url::open_to_read(&url, &remote),
        Access::Acknowledge => store::open(&url, &remote).map(Some),
    };
    let consumer = log.consumer.as_ref();
    Ok(LogOptions {
        open: Arc::new(open),
        name: log.url.to_string(),
        consumer: consumer.map_or_else(|| pipeline.pipeline.to_string(), ToString::to_string),
        from_latest: log.start == LogStart::Latest,
        ahead_bytes_max: bounds::ahead_bytes(pipeline) as u64,
    })
}

fn pulsar_options(
    pulsar: &Pulsar,
    format: &Format,
    pipeline: &Pipeline,
) -> Result<PulsarOptions, dataflow::SourceError> {
    let topics = pulsar.topic.iter().chain(pulsar.topics.iter().flatten());
    let topics: Vec<String> = topics.map(|topic| topic.as_str().to_owned()).collect();
    let subscription = match &pulsar.subscription {
        Some(subscription) => subscription.to_string(),
        None => format!("forebay-{}", pipeline.pipeline),
    };
    let mut options = PulsarOptions::new(pulsar.service.as_str(), &topics, subscription)?;
    options.start = match pulsar.start {
        Start::Earliest => sources::pulsar::Start::Earliest,
        Start::Latest => sources::pulsar::Start::Latest,
        Start::At { ms } => sources::pulsar::Start::Time(ms),
    };
    options.listener = pulsar.listener.as_ref().map(ToString::to_string);
    options.ahead_bytes_max = bounds::ahead_bytes(pipeline);
    options.record_bytes_max = record_bytes(format).max(dataflow::reject::RAW_BYTES_MAX) + 1;
    let security = &pulsar.security;
    if let (Some(tls), Some(asked)) = (&mut options.tls, &security.tls) {
        tls.ca = asked.ca.as_ref().map(PathBuf::from);
        tls.identity =
            asked.cert.as_ref().zip(asked.key.as_ref()).map(|(cert, key)| (cert.into(), key.into()));
        tls.verify_host = asked.verify_host;
    }
    let fixed = security.token.as_ref().map(|token| Token::Fixed(token.reveal().to_owned()));
    options.token = fixed.or_else(|| security.oauth.as_ref().and_then(token_source).map(Token::Source));
    Ok(options)
}

/// librdkafka's words for encryption and login.
pub(super) fn security(security: &Security) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    let mut set = |name: &str, value: &str| {
        properties.insert(name.to_owned(), value.to_owned());
    };
    let protocol = match (&security.tls, &security.sasl) {
        (None, None) => return properties,
        (Some(_), None) => "SSL",
        (None, Some(_)) => "SASL_PLAINTEXT",
        (Some(_), Some(_)) => "SASL_SSL",
    };
    set("security.protocol", protocol);
    if let Some(tls) = &security.tls {
        let files = [
            ("ssl.ca.location", &tls.ca),
            ("ssl.certificate.location", &tls.cert),
            ("ssl.key.location", &tls.key),
        ];
        for (name, path) in files {
            if let Some(path) = path {
                set(name, path);
            }
        }
        if let Some(password) = &tls.key_password {
            set("ssl.key.password", password.reveal());
        }
        set("ssl.endpoint.identification.algorithm", if tls.verify_host { "https" } else { "none" });
    }
    if let Some(sasl) = &security.sasl {
        set("sasl.mechanism", sasl.mechanism.as_str());
        if sasl.mechanism != Mechanism::OAuthBearer {
            if let Some(username) = &sasl.username {
                set("sasl.username", username);
            }
            if let Some(password) = &sasl.password {
                set("sasl.password", password.reveal());
            }
        }
    }
    properties
}

fn token(security: &Security) -> Option<TokenSource> {
    let sasl = security.sasl.as_ref().filter(|sasl| sasl.mechanism == Mechanism::OAuthBearer)?;
    token_source(sasl.oauth.as_ref()?)
}

fn token_source(oauth: &OAuth) -> Option<TokenSource> {
    match (&oauth.token_file, &oauth.token_command) {
        (Some(path), _) => Some(TokenSource::File(path.clone())),
        (None, Some(words)) => Some(TokenSource::Command(words.clone())),
        (None, None) => None,
    }
}
