//! The reference pages of the pipeline file and of the gateway's, from their schemas.
//!
//! Owns the page's form. Does not own its words: each comes from `config::model`, so the page cannot go stale without its test noticing.
//! The page of SQL functions is made by `sql::reference`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value as Json;

use super::schema::{View, gateway_schema, pipeline_schema};
use super::schema_walk::form;
use super::values::{self, Kind};

/// The page, in Markdown.
pub fn page() -> String {
    let head = String::from(
        "# Pipeline file: reference\n\n\
         This page is generated from the program's own types by `forebay reference`; edit those, not this page.\n\
         [Pipeline files](../pipeline-files.md) explains the ideas, and the same schema for editors is\n\
         [pipeline.schema.json](../schema/pipeline.schema.json).\n\n\
         Every value may hold `${NAME}` or `${NAME:-default}` for an environment variable. A secret may also be\n\
         `file:/path`. Unknown keys are errors.\n\n",
    );
    of(head, &pipeline_schema())
}

/// The page of the gateway's file.
pub fn gateway_page() -> String {
    let head = String::from(
        "# Gateway file: reference\n\n\
         This page is generated from the program's own types by `forebay reference --gateway`; edit those, not this page.\n\
         [The gateway](../gateway.md) explains the ideas, and the same schema for editors is\n\
         [gateway.schema.json](../schema/gateway.schema.json).\n\n\
         Every value may hold `${NAME}` or `${NAME:-default}` for an environment variable. Unknown keys are errors.\n\n",
    );
    of(head, &gateway_schema())
}

fn of(head: String, schema: &Json) -> String {
    let mut out = head;
    section(&mut out, View::root(schema), "", &mut BTreeMap::new());
    kinds(&mut out);
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

/// One mapping: its description, a table of its keys, and then the mappings inside. `shown` has those that were shown already, by their
/// definitions: the second one says where.
fn section<'s>(out: &mut String, schema: View<'s>, path: &str, shown: &mut BTreeMap<&'s str, String>) {
    let title = if path.is_empty() { "The file".to_owned() } else { format!("`{path}`") };
    line(out, &format!("## {title}\n"));
    if let Some(description) = schema.text("description") {
        line(out, &format!("{}\n", one_line(description)));
    }
    if let Some(definition) = schema.refers_to() {
        if let Some(before) = shown.get(definition) {
            line(out, &format!("It has the keys of [`{before}`](#{}).\n", anchor(before)));
            return;
        }
        shown.insert(definition, path.to_owned());
    }
    let choice = schema.exactly_one();
    if choice.len() > 1 {
        let names: Vec<String> = choice.iter().map(|name| format!("`{name}`")).collect();
        line(out, &format!("Exactly one of {} must be there.\n", names.join(", ")));
    }
    line(out, "| key | value | default | what it is |");
    line(out, "| --- | --- | --- | --- |");
    let required = schema.texts("required");
    let mut inner = Vec::new();
    for (name, property) in schema.properties().into_iter().flatten() {
        let property = schema.of(property);
        row(out, name, property, required.contains(&name.as_str()) || choice == [name.as_str()]);
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        mappings(property, path, &mut inner);
    }
    line(out, "");
    for (property, path) in inner {
        section(out, property, &path, shown);
    }
}

/// The mappings with known keys that a value may be.
fn mappings<'s>(schema: View<'s>, path: String, found: &mut Vec<(View<'s>, String)>) {
    if schema.properties().is_some() {
        found.push((schema, path));
        return;
    }
    for branch in schema.branches() {
        mappings(branch, path.clone(), found);
    }
    if let Some(items) = schema.items() {
        mappings(items, format!("{path}[]"), found);
    }
    if let Some(any) = schema.any_property() {
        mappings(any, format!("{path}.NAME"), found);
    }
}

/// What readers of Markdown make of a heading.
fn anchor(heading: &str) -> String {
    heading.chars().filter(|c| c.is_alphanumeric() || *c == '_').collect::<String>().to_lowercase()
}

fn row(out: &mut String, name: &str, schema: View, required: bool) {
    let default = match schema.get("default") {
        _ if required => "**required**".to_owned(),
        Some(Json::String(text)) => format!("`{text}`"),
        Some(value @ (Json::Number(_) | Json::Bool(_))) => format!("`{value}`"),
        _ => String::new(),
    };
    let mut what = schema.text("description").map(one_line).unwrap_or_default();
    for (word, description) in described_words(schema) {
        what.push_str(&format!("<br>`{word}`: {}", one_line(description)));
    }
    if let Some(bounds) = bounds(schema) {
        what.push_str(&format!("<br>Bounds: {bounds}"));
        if let Some(why) = schema.text("x-why") {
            what.push_str(&format!(", because {why}"));
        }
        what.push('.');
    }
    let row = format!("| `{name}` | {} | {default} | {} |", cell(&value(schema)), cell(&what));
    line(out, &row);
}

fn described_words<'s>(schema: View<'s>) -> Vec<(&'s str, &'s str)> {
    let mut words: Vec<_> =
        schema.words().into_iter().filter(|(_, description)| !description.is_empty()).collect();
    for branch in schema.branches() {
        words.extend(described_words(branch));
    }
    words
}

fn value(schema: View) -> String {
    let branches = schema.branches();
    if !branches.is_empty() {
        return branches.iter().map(|branch| value(*branch)).collect::<Vec<_>>().join(", or ");
    }
    if let Some(kind) = schema.text(values::KIND) {
        return called(kind).to_owned();
    }
    if let Some(item) = schema.items() {
        return format!("list of: {}", value(item));
    }
    if let Some(any) = schema.any_property() {
        return format!("mapping of names to: {}", value(any));
    }
    form(schema)
}

fn bounds(schema: View) -> Option<String> {
    let pair = |least: &str, most: &str| -> Option<String> {
        let show = |keyword: &str| schema.get(keyword).map(|bound| bound.to_string().replace('"', ""));
        match (show(least), show(most)) {
            (None, None) => None,
            (Some(least), Some(most)) => Some(format!("{least} to {most}")),
            (Some(least), None) => Some(format!("at least {least}")),
            (None, Some(most)) => Some(format!("at most {most}")),
        }
    };
    pair("x-least", "x-most")
        .or_else(|| schema.text("x-why").and_then(|_| pair("minimum", "maximum")))
        .or_else(|| pair("minItems", "maxItems").map(|bounds| format!("{bounds} items")))
}

/// The kinds of text, each with its name in this page and an example.
const KINDS: [(&str, &str, &str); 19] = [
    kind::<values::Period>(),
    kind::<values::Window>(),
    kind::<values::Size>(),
    kind::<values::Share>(),
    kind::<values::Secret>(),
    kind::<values::PipelineName>(),
    kind::<values::Identifier>(),
    kind::<values::Field>(),
    kind::<values::Topic>(),
    kind::<values::TableName>(),
    kind::<values::StoreUrl>(),
    kind::<values::HttpUrl>(),
    kind::<values::Broker>(),
    kind::<values::PulsarUrl>(),
    kind::<values::PostgresUrl>(),
    kind::<values::PulsarTopic>(),
    kind::<values::Consumer>(),
    kind::<values::Listen>(),
    kind::<values::Start>(),
];

const fn kind<T: Kind>() -> (&'static str, &'static str, &'static str) {
    (T::KIND, T::CALLED, T::EXAMPLE)
}

fn called(kind: &str) -> &'static str {
    KINDS.iter().find(|(name, ..)| *name == kind).map_or("text", |(_, called, _)| called)
}

fn kinds(out: &mut String) {
    line(out, "## Kinds of text\n");
    line(out, "| called | example |");
    line(out, "| --- | --- |");
    for (_, called, example) in KINDS {
        line(out, &format!("| {called} | `{example}` |"));
    }
}

/// Doc comments are wrapped at the width of the source; a table cell is one line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("a String takes all that is written");
}
