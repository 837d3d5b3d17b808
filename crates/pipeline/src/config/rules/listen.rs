//! Rules of inputs that listen, and of `listen` beside `pipeline`.
//!
//! Owns what is different from a gateway: the names of streams, and how long an answer takes. Does not own the other rules: they are a
//! gateway's (`gateway::rules`), reported at the key where a pipeline has it.

use std::collections::BTreeMap;

use super::Rules;
use crate::config::gateway;
use crate::config::model::Input;

impl Rules<'_> {
    /// Everything about what is sent to the pipeline.
    pub(super) fn listen(&mut self) {
        let pipeline = self.pipeline;
        let Some(file) = pipeline.gateway() else {
            if pipeline.listen.is_some() {
                let message = "no input listens, so nothing would be done with what is sent: write `source: { listen: {} }`, or take `listen` out";
                self.fault("listen", message);
            }
            return;
        };
        let inputs = pipeline.listening_inputs();
        let mut streams: BTreeMap<&str, &Input<'_>> = BTreeMap::new();
        for (input, stream) in &inputs {
            if let Some(other) = streams.insert(stream.as_str(), input) {
                let message = format!(
                    "stream `{stream}` is the one of input `{}` already: give each a name of its own with `listen: {{ stream: … }}`",
                    other.name
                );
                self.fault(&format!("{}.listen", input.path), message);
            }
        }
        gateway::rules(&file, &mut |path, message| {
            let path = place(
                path,
                &inputs.iter().map(|(input, stream)| (stream.as_str(), &*input.path)).collect::<Vec<_>>(),
            );
            // The format has rules of its own, which have spoken.
            if !path.ends_with(".listen.columns") {
                self.fault(&path, message);
            }
        });
        let (answer, age) = (file.limits.answer_time, pipeline.sink.batch.age);
        if answer <= age {
            let message = format!(
                "`limits.answer_time` ({answer}) must be longer than `sink.batch.age` ({age}): a request is answered once its batch is sealed"
            );
            self.fault("listen.limits.answer_time", message);
        }
        if pipeline.store.is_memory() {
            self.fault("store", "`memory://` forgets what was answered when the process ends; give a path");
        }
    }
}

/// The key of a pipeline file for one of a gateway's.
fn place(path: &str, inputs: &[(&str, &str)]) -> String {
    for (stream, input) in inputs {
        let Some(key) = path.strip_prefix("streams.").and_then(|path| path.strip_prefix(stream)) else {
            continue;
        };
        match key {
            "" => return format!("{input}.listen"),
            ".format" => return format!("{input}.format"),
            _ if key.starts_with('.') => return format!("{input}.listen{key}"),
            _ => {}
        }
    }
    match path.strip_prefix("also_listen") {
        Some(at) => format!("listen.also{at}"),
        None if path == "listen" => "listen.address".to_owned(),
        None => format!("listen.{path}"),
    }
}
