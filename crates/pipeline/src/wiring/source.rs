//! An input of the file to a source and a decoder.
//!
//! Owns which source an input has, and the records of a generator and a file. Does not own the options of the others ([`options`]), nor the decoder
//! ([`decoding`]) or whom schemas are asked of ([`brokers`]).

mod brokers;
mod decoding;
mod options;
mod protobuf;

use std::sync::Arc;

use dataflow::{Decoder, RecordBlock, Runtime, Schema, Source};
use gateway::direct::DirectSource;
use sources::file::{Claims, Csv, FileOptions, FileSource};
use sources::generator::GeneratorSource;
use sources::kafka::KafkaSource;
use sources::log::LogSource;
use sources::pulsar::PulsarSource;
use workloads::glassflow;

use super::{WiringError, bounds};
use crate::config::model::listen::stream_of;
use crate::config::model::source::{self as model, CsvFormat, Format, Generator, NO_QUOTE, Workload};
use crate::config::model::{Input, Pipeline};
pub(super) use decoding::schema_text;
pub use decoding::{Decoding, decoder};
use decoding::{csv_decoder, json_decoder, record_bytes};
#[cfg(test)]
pub(super) use options::security;
use options::{kafka_options, log_options, pulsar_options};

/// The source of an input, for those who only look at it: files end, whether they are followed or not. Nothing is connected yet.
///
/// # Errors
/// When its settings contradict each other in a way that only the source knows.
pub fn source(
    pipeline: &Pipeline,
    input: &Input<'_>,
    runtime: &Arc<dyn Runtime>,
) -> Result<Arc<dyn Source>, WiringError> {
    source_beside(pipeline, input, runtime, &Arc::default(), true)
}

/// The same beside those of other inputs that share `claims`: a file that two of them match is refused. Files that are
/// followed end as well if `ends` says so, and partitions without a leader are waited for: for a drain.
///
/// # Errors
/// As [`source`].
pub fn source_beside(
    pipeline: &Pipeline,
    input: &Input<'_>,
    runtime: &Arc<dyn Runtime>,
    claims: &Arc<Claims>,
    ends: bool,
) -> Result<Arc<dyn Source>, WiringError> {
    let (path, format) = (&input.path, &input.source.format);
    let settings = |error: dataflow::SourceError| WiringError::Settings(format!("`{path}`: {error}"));
    let of_input = |error: WiringError| WiringError::Settings(format!("`{path}`: {error}"));
    match input.source {
        model::Source { kafka: Some(kafka), .. } => {
            let mut options = kafka_options(kafka, &input.source.format, pipeline).map_err(of_input)?;
            options.waits_for_leaders = ends;
            Ok(Arc::new(KafkaSource::new(options, runtime.clone()).map_err(settings)?))
        }
        model::Source { pulsar: Some(pulsar), .. } => {
            let options = pulsar_options(pulsar, &input.source.format, pipeline).map_err(of_input)?;
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
                line_bytes_max: bounds::handed_out_bytes(pipeline, record_bytes(&input.source.format)),
                ahead_bytes_max: bounds::ahead_bytes(pipeline),
                follow: files.follow,
                ends,
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

/// Files that the inputs of a pipeline would read twice, of those that are there now: the key in the file and the message.
pub fn shared_files(pipeline: &Pipeline) -> Vec<(String, String)> {
    let inputs = pipeline.inputs();
    let of_files = inputs.iter().filter_map(|input| Some((input, input.source.file.as_ref()?)));
    let of_files: Vec<_> = of_files.collect();
    let named: Vec<(&str, &[String])> =
        of_files.iter().map(|(input, files)| (input.name, files.paths.as_slice())).collect();
    let shared = sources::file::shared(&named).into_iter();
    shared.map(|(at, why)| (format!("{}.file.paths", of_files[at].0.path), why)).collect()
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
