//! The pipeline file, and the gateway's file: from text to checked settings.
//!
//! Owns reading, checking and describing them. Does not own what the settings do (`wiring`), and never looks
//! at a server, a store or a topic.
//!
//! | module          | what it does                                                          |
//! |-----------------|-----------------------------------------------------------------------|
//! | [`model`]       | the settings as types: keys, defaults, bounds                         |
//! | [`values`]      | the kinds of text: durations, sizes, names, secrets, references       |
//! | [`spans`]       | YAML to a tree with places                                            |
//! | [`schema`]      | the JSON Schema of the model                                          |
//! | [`schema_walk`] | the tree along the schema: every fault at once                        |
//! | `queries`       | `sql` steps that are windows or joins, as `window` and `join` steps   |
//! | `keep_last`     | `dedup` steps that keep the last record, as `upsert` of the tables    |
//! | `windows`       | the meaning of the settings of `window`                               |
//! | `nearest`       | the known word that a misspelt one was meant to be                    |
//! | [`rules`]       | rules that span several keys                                          |
//! | [`gateway`]     | the gateway's settings as types, and their rules                      |
//! | [`faults`]      | faults with line and column                                           |
//! | [`reference_doc`] | the reference page                                                  |

pub mod created;
pub mod faults;
pub mod gateway;
mod keep_last;
pub mod model;
pub mod nearest;
mod queries;
pub mod reference_doc;
mod rules;
pub mod schema;
mod schema_walk;
mod spans;
pub mod values;
pub mod windows;

use std::path::Path;

use self::faults::{Faults, Position};
use self::model::Pipeline;
use self::schema::View;
use self::values::reference::Surroundings;

/// What became of a pipeline file.
#[derive(Debug)]
pub struct Checked {
    /// The settings, if there is no fault.
    pub pipeline: Option<Pipeline>,
    /// Faults and hints.
    pub faults: Faults,
    tree: Option<spans::Node>,
    text: String,
}

impl Checked {
    /// Where the value of a key stands, as in `sink.clickhouse.table` or `steps[0].dedup`; if it is left out, what it would stand in.
    pub fn place(&self, path: &str) -> Position {
        self.tree.as_ref().map_or(Position::START, |tree| rules::place(tree, path))
    }

    /// Where byte `at` of the text of a key stands; where the key stands if that is not known.
    pub fn place_in(&self, path: &str, at: Option<usize>) -> Position {
        self.tree.as_ref().map_or(Position::START, |tree| rules::place_in(tree, &self.text, path, at))
    }
}

/// Reads and checks the text of a pipeline file.
pub fn check(text: &str, around: &Surroundings) -> Checked {
    let mut faults = Faults::default();
    let tree = spans::parse(text, around, &mut faults);
    let pipeline = tree.as_ref().and_then(|tree| read(tree, text, around, &mut faults));
    Checked { pipeline: pipeline.filter(|_| !faults.is_fatal()), faults, tree, text: text.to_owned() }
}

/// Reads the file at `path`; `-` is standard input.
///
/// # Errors
/// When there is no such file, it is too large, or it is not UTF-8.
pub fn load(path: &Path) -> anyhow::Result<String> {
    use anyhow::Context;
    use std::io::Read;
    let bound = spans::FILE_BYTES_MAX as u64 + 1;
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().take(bound).read_to_end(&mut bytes).context("cannot read standard input")?;
    } else {
        let file = std::fs::File::open(path).with_context(|| format!("cannot open `{}`", path.display()))?;
        file.take(bound)
            .read_to_end(&mut bytes)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
    }
    String::from_utf8(bytes).with_context(|| format!("`{}` is not UTF-8", path.display()))
}

/// What became of a gateway's file.
#[derive(Debug)]
pub struct CheckedGateway {
    /// The settings, if there is no fault.
    pub gateway: Option<gateway::Gateway>,
    /// Faults and hints.
    pub faults: Faults,
}

/// Whether a text is meant to be a gateway file: it has the key that names a gateway, and not the one that names a pipeline.
pub fn is_gateway(text: &str) -> bool {
    has_key(text, "gateway") && !has_key(text, "pipeline")
}

/// Whether a text is meant to be a pipeline file, by the same keys.
pub fn is_pipeline(text: &str) -> bool {
    has_key(text, "pipeline") && !has_key(text, "gateway")
}

/// Whether a file has this key at its top, in whichever form of YAML or JSON. The lines of a text that cannot be read as either are compared instead.
fn has_key(text: &str, key: &str) -> bool {
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Ok(String::new()) };
    match spans::parse(text, &around, &mut Faults::default()).map(|tree| tree.value) {
        Some(spans::Value::Map(entries)) => entries.iter().any(|entry| entry.key == key),
        Some(_) => false,
        None => text.lines().any(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'))),
    }
}

/// Reads and checks the text of a gateway's file.
pub fn check_gateway(text: &str, around: &Surroundings) -> CheckedGateway {
    let mut faults = Faults::default();
    let tree = spans::parse(text, around, &mut faults);
    let gateway = tree.as_ref().and_then(|tree| {
        let schema = schema::gateway_schema();
        let json = schema_walk::walk(tree, View::root(&schema), around, &mut faults)?;
        let gateway: gateway::Gateway = typed(json, &mut faults)?;
        gateway::rules(&gateway, &mut |path, message| faults.fault(rules::place(tree, path), path, message));
        let shared = [
            ("object_storage.endpoint", gateway.object_storage.as_ref().and_then(rules::of_endpoint)),
            ("http.listen", rules::of_http(&gateway.http)),
        ];
        for (path, why) in shared {
            if let Some(why) = why {
                faults.fault(rules::place(tree, path), path, why);
            }
        }
        Some(gateway)
    });
    CheckedGateway { gateway: gateway.filter(|_| !faults.is_fatal()), faults }
}

fn read(tree: &spans::Node, text: &str, around: &Surroundings, faults: &mut Faults) -> Option<Pipeline> {
    let schema = schema::pipeline_schema();
    let json = schema_walk::walk(tree, View::root(&schema), around, faults)?;
    let mut pipeline: Pipeline = typed(json, faults)?;
    queries::lowered(&mut pipeline, tree, text, faults);
    keep_last::lowered(&mut pipeline, tree, faults);
    rules::check(&pipeline, tree, text, faults);
    Some(pipeline)
}

fn typed<T: serde::de::DeserializeOwned>(json: serde_json::Value, faults: &mut Faults) -> Option<T> {
    match serde_json::from_value::<T>(json) {
        Ok(file) => Some(file),
        // The walk knows all that serde demands, so with faults found this is their echo, and without any it is a gap
        // between schema and types. Serde's own words may repeat a value, hence a secret, and stay out.
        Err(_) if faults.is_fatal() => None,
        Err(error) => {
            let place = format!("{:?}", error.classify());
            faults.fault(
                Position::START,
                "",
                format!("the file fits the schema but not the program ({place})"),
            );
            None
        }
    }
}

#[cfg(test)]
mod tests;
