//! The JSON Schemas of a pipeline file and of a gateway's file, and a reading view of it.
//!
//! Owns the schema as it is published and as the walk and the reference page read it. Does not own its content, which
//! comes from `model`.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Map, Value};

use super::gateway::Gateway;
use super::model::Pipeline;

/// The schema, in the dialect of 2020-12.
pub fn pipeline_schema() -> Value {
    of::<Pipeline>()
}

/// The schema of a gateway's file.
pub fn gateway_schema() -> Value {
    of::<Gateway>()
}

fn of<T: schemars::JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().with_transform(LeaveOut).into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

/// A setting that may be left out is not written as null; serde's `Option` says otherwise by default.
#[derive(Clone)]
struct LeaveOut;

impl Transform for LeaveOut {
    fn transform(&mut self, schema: &mut schemars::Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        let null = Value::from("null");
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|one| *one != null);
            if let [one] = types.as_slice() {
                let one = one.clone();
                object.insert("type".into(), one);
            }
        }
        if let Some(Value::Array(branches)) = object.get_mut("anyOf") {
            branches.retain(|branch| branch.get("type") != Some(&null));
            if let [Value::Object(one)] = branches.as_slice() {
                let one = one.clone();
                object.shift_remove("anyOf");
                for (keyword, value) in one {
                    object.entry(keyword).or_insert(value);
                }
            }
        }
        if object.get("default") == Some(&Value::Null) {
            object.shift_remove("default");
        }
        // Widths of Rust's integers say nothing to an editor.
        if object.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
            object.shift_remove("format");
        }
    }
}

/// A schema with what it refers to laid under it: a keyword is looked for in the place itself first.
#[derive(Clone, Copy)]
pub struct View<'s> {
    root: &'s Value,
    own: &'s Value,
    referred: Option<&'s Value>,
}

impl<'s> View<'s> {
    /// The schema of a whole file.
    pub fn root(root: &'s Value) -> Self {
        Self { root, own: root, referred: None }
    }

    /// A part of the same schema.
    pub fn of(&self, own: &'s Value) -> View<'s> {
        let referred = own
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|target| target.strip_prefix('#'))
            .and_then(|pointer| self.root.pointer(pointer));
        View { root: self.root, own, referred }
    }

    /// The place of the definition that this part stands for; `None` if it is its own.
    pub fn refers_to(&self) -> Option<&'s str> {
        self.own.get("$ref").and_then(Value::as_str)
    }

    /// The value of a keyword.
    pub fn get(&self, keyword: &str) -> Option<&'s Value> {
        self.own.get(keyword).or_else(|| self.referred?.get(keyword))
    }

    /// The value of a keyword that is a text.
    pub fn text(&self, keyword: &str) -> Option<&'s str> {
        self.get(keyword)?.as_str()
    }

    /// The value of a keyword that is a list of texts; empty without it.
    pub fn texts(&self, keyword: &str) -> Vec<&'s str> {
        let list = self.get(keyword).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Key to schema, of an object with known keys.
    pub fn properties(&self) -> Option<&'s Map<String, Value>> {
        self.get("properties")?.as_object()
    }

    /// The schema of every value, of an object with free keys.
    pub fn any_property(&self) -> Option<View<'s>> {
        let schema = self.get("additionalProperties")?;
        schema.is_object().then(|| self.of(schema))
    }

    /// The schema of a list's items.
    pub fn items(&self) -> Option<View<'s>> {
        Some(self.of(self.get("items")?))
    }

    /// The forms among which a value may choose; empty if there is only this one.
    pub fn branches(&self) -> Vec<View<'s>> {
        let branches = self.get("anyOf").and_then(Value::as_array);
        branches.into_iter().flatten().map(|branch| self.of(branch)).collect()
    }

    /// The words that the value may be, each with its description; empty if it is no such value.
    pub fn words(&self) -> Vec<(&'s str, &'s str)> {
        let plain = self.texts("enum").into_iter().map(|word| (word, ""));
        let described =
            self.get("oneOf").and_then(Value::as_array).into_iter().flatten().filter_map(|branch| {
                let description = branch.get("description").and_then(Value::as_str).unwrap_or_default();
                Some((branch.get("const")?.as_str()?, description))
            });
        // An enumeration of words with and words without a description comes as a `oneOf` that holds an `enum`.
        let mixed = self.get("oneOf").and_then(Value::as_array).into_iter().flatten();
        let mixed = mixed.flat_map(|branch| self.of(branch).texts("enum")).map(|word| (word, ""));
        let constant = self.text("const").into_iter().map(|word| (word, ""));
        plain.chain(described).chain(mixed).chain(constant).collect()
    }

    /// The keys of which exactly one must be there; empty if there is no such rule.
    pub fn exactly_one(&self) -> Vec<&'s str> {
        let branches = self.get("oneOf").and_then(Value::as_array).into_iter().flatten();
        branches.filter_map(|branch| branch.pointer("/required/0")?.as_str()).collect()
    }
}
