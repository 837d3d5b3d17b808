//! Rules that span several keys of a pipeline file.
//!
//! Owns what the schema cannot say; the modules below have the rules of one part of the file each. Runs on files whose single values may still have faults, so a rule only speaks when
//! all that it compares is there. Does not own anything that needs a server (`wiring`).

mod csv;
mod inputs;
mod joins;
mod listen;
mod lookups;
mod protobuf;
mod sides;
mod sinks;
mod steps;
mod tombstones;
mod upsert;

use super::faults::{Faults, Position};
use super::model::step::Step;
use super::model::{Delivery, Http, ObjectStorage, Pipeline};
use super::spans::{Node, Value};
use super::values::{Listen, Size};

/// The least `memory` of a pipeline with keys that a full load was seen to stay within, and a fifth.
const MEMORY_WITH_KEYS_MIN: Size = Size::mib(256);

/// Checks all rules; `file` is the text of the file.
pub fn check(pipeline: &Pipeline, tree: &Node, file: &str, faults: &mut Faults) {
    let mut rules = Rules { pipeline, tree, file, faults };
    rules.delivery();
    rules.followed();
    rules.store();
    rules.memory();
    rules.batches();
    rules.http();
    rules.inputs();
    rules.listen();
    rules.steps();
    rules.dedup();
    rules.lookups();
    rules.sinks();
    rules.table();
    rules.upserts();
    rules.dead_letters();
}

struct Rules<'a> {
    pipeline: &'a Pipeline,
    tree: &'a Node,
    file: &'a str,
    faults: &'a mut Faults,
}

impl Rules<'_> {
    fn fault(&mut self, path: &str, message: impl Into<String>) {
        let (path, at) = self.pipeline.in_file(path, None);
        let place = place_in(self.tree, self.file, &path, at.map(|at| at.start));
        self.faults.fault(place, path, message);
    }

    fn hint(&mut self, path: &str, message: impl Into<String>) {
        let (path, _) = self.pipeline.in_file(path, None);
        self.faults.hint(place(self.tree, &path), path, message);
    }

    fn delivery(&mut self) {
        match self.pipeline.delivery {
            Delivery::AtLeastOnce => {
                self.hint("delivery", "`at_least_once`: after a crash some rows may be in the table twice");
            }
            Delivery::ExactlyOnce if self.pipeline.store.is_memory() => self.fault(
                "store",
                "`memory://` forgets the journal when the process ends, so `exactly_once` cannot be held; \
                 give a path, or write `delivery: at_least_once`",
            ),
            Delivery::ExactlyOnce => {
                for input in self.pipeline.inputs() {
                    let files = input.source.file.as_ref();
                    if !files.is_some_and(|files| files.paths.as_slice().iter().any(|path| path == "-")) {
                        continue;
                    }
                    self.fault(
                        &format!("{}.file.paths", input.path),
                        "standard input (`-`) cannot be read again after a crash, so `exactly_once` cannot be held; \
                         name a file, or write `delivery: at_least_once`",
                    );
                }
            }
        }
    }

    /// What is followed can be opened again, and grows.
    fn followed(&mut self) {
        for input in self.pipeline.inputs() {
            let Some(files) = input.source.file.as_ref().filter(|files| files.follow) else { continue };
            if files.paths.as_slice().iter().any(|path| path == "-") {
                self.fault(
                    &format!("{}.file.follow", input.path),
                    "standard input (`-`) ends where its writer ends it; leave `follow` out, or name a file",
                );
            }
        }
    }

    /// Settings of object storage that would not be used are a mistake about where the journal goes.
    fn store(&mut self) {
        if self.pipeline.store.as_str().starts_with("~/") {
            self.hint("store", "`~` is a folder of that name here, not the home folder; write `${HOME}/…`, or `./~/…` for the folder");
        }
        let Some(storage) = &self.pipeline.object_storage else { return };
        let Some(scheme) = self.pipeline.store.remote_scheme() else {
            let message = format!("`store` is `{}`, which is not on object storage", self.pipeline.store);
            return self.fault("object_storage", message);
        };
        let of_one = [
            ("region", storage.region.is_some(), "s3"),
            ("access_key", storage.access_key.is_some(), "s3"),
            ("session_token", storage.session_token.is_some(), "s3"),
            ("account", storage.account.is_some(), "az"),
            ("service_account", storage.service_account.is_some(), "gs"),
        ];
        for (key, is_set, only) in of_one {
            if is_set && scheme != only {
                let path = format!("object_storage.{key}");
                self.fault(
                    &path,
                    format!("`object_storage.{key}` is for `{only}://`, and `store` is on `{scheme}://`"),
                );
            }
        }
        if scheme == "gs" && storage.secret_key.is_some() {
            self.fault(
                "object_storage.secret_key",
                "`object_storage.secret_key` is for `s3://` and `az://`; `gs://` takes `service_account`",
            );
        }
        if scheme == "s3" && storage.access_key.is_some() != storage.secret_key.is_some() {
            self.fault(
                "object_storage",
                "`object_storage` needs both of `access_key` and `secret_key`, or none",
            );
        }
        if let Some(why) = of_endpoint(storage) {
            self.fault("object_storage.endpoint", why);
        }
    }

    fn memory(&mut self) {
        let Pipeline { steps, memory, .. } = self.pipeline;
        let keeps_state = steps.iter().any(Step::is_stateful) || self.pipeline.takes_rows_back();
        if keeps_state && *memory < MEMORY_WITH_KEYS_MIN {
            let message = format!(
                "`memory` ({memory}) must be at least {MEMORY_WITH_KEYS_MIN} with `dedup`, `window`, `join` or `upsert.sign`: the program, a bucket of keys on its \
                 way to a file and the batches do not fit into less"
            );
            self.fault("memory", message);
        }
    }

    fn http(&mut self) {
        if let Some(why) = of_http(&self.pipeline.http) {
            self.fault("http.listen", why);
        }
    }
}

/// Why object storage is not asked at this endpoint; `None` if it is. A gateway's file has the same key.
pub(super) fn of_endpoint(storage: &ObjectStorage) -> Option<String> {
    let endpoint = storage.endpoint.as_ref()?;
    let is_clear = !endpoint.is_tls() && !endpoint.is_loopback() && !storage.allow_http;
    is_clear.then(|| {
        "`object_storage.endpoint` is not encrypted and on another machine; write `https://`, or `allow_http: true`"
            .to_owned()
    })
}

/// Why metrics and status are not told at `http.listen`; `None` if they are. A gateway's file has the same key.
pub(super) fn of_http(http: &Http) -> Option<String> {
    let Listen::At(address) = http.listen else { return None };
    let is_open = !address.ip().is_loopback() && !http.allow_remote;
    is_open.then(|| {
        format!(
            "`{address}` can be reached by other machines and there is no authentication; listen at `127.0.0.1` or \
             write `allow_remote: true`"
        )
    })
}

/// Where the value at `path` stands; the nearest thing above it if it is not written.
pub(super) fn place(tree: &Node, path: &str) -> Position {
    walk(tree, path).1
}

/// Where byte `at` of the text at `path` stands; where the text stands if that is not known.
pub(super) fn place_in(tree: &Node, file: &str, path: &str, at: Option<usize>) -> Position {
    let inner = at.and_then(|at| super::spans::place_in(node(tree, path)?, file, at));
    inner.unwrap_or_else(|| place(tree, path))
}

/// The value at `path`, if it is written.
pub(super) fn node<'t>(tree: &'t Node, path: &str) -> Option<&'t Node> {
    let (node, _, rest) = walk(tree, path);
    rest.is_empty().then_some(node)
}

/// The value that is nearest to `path`, where its key stands, and what of the path is left.
fn walk<'t, 'p>(tree: &'t Node, path: &'p str) -> (&'t Node, Position, &'p str) {
    let mut at = tree.at;
    let mut node = tree;
    let mut rest = path;
    while !rest.is_empty() {
        let step = match (&node.value, rest.strip_prefix('[')) {
            (Value::List(items), Some(tail)) => tail.split_once(']').and_then(|(index, tail)| {
                let item = items.get(index.parse::<usize>().ok()?)?;
                Some((item, item.at, tail))
            }),
            (Value::Map(entries), None) => {
                // A key may have dots of its own (`ssl.key.password`), so the longest one that fits is meant.
                let fits = |key: &str| {
                    let tail = rest.strip_prefix(key)?;
                    (tail.is_empty() || tail.starts_with(['.', '['])).then_some(tail)
                };
                let fitting = entries.iter().filter_map(|entry| Some((entry, fits(&entry.key)?)));
                let longest = fitting.max_by_key(|(entry, _)| entry.key.len());
                longest.map(|(entry, tail)| (&entry.value, entry.at, tail))
            }
            _ => None,
        };
        let Some((inner, inner_at, tail)) = step else { break };
        (node, at, rest) = (inner, inner_at, tail.strip_prefix('.').unwrap_or(tail));
    }
    (node, at, rest)
}
