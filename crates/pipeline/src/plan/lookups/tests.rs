use dataflow::{Column, ColumnType, Schema};

use super::super::steps::Planned;
use crate::config;
use crate::config::model::Pipeline;
use crate::config::values::reference::Surroundings;
use crate::wiring::steps;

const LOOKUP: &str = "{ lookup: { file: { path: shops.json }, fields: { number: Int64, name: String }, on: [\"shop = number\"], columns: { shop_name: name }";

fn pipeline(steps: &str) -> Pipeline {
    let text = format!(
        "pipeline: p\nsource: {{ kafka: {{ brokers: b, topic: t }}, fields: {{ shop: Int32, at: DateTime64(3) }}, time: at }}\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\n\
         steps: [{steps}]"
    );
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = config::check(&text, &around);
    checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")))
}

/// What is decoded and where each step runs, or the faults.
fn planned(steps: &str) -> String {
    let pipeline = pipeline(steps);
    let column = |name: &str, of_type| Column::new(name, of_type);
    let table = Schema::new(vec![column("id", ColumnType::Int64), column("shop_name", ColumnType::String)]);
    let plans = match steps::plan(&pipeline, &[table]) {
        Err(faults) => return faults.iter().map(|fault| format!("{fault}\n")).collect(),
        Ok(plans) => plans,
    };
    let plan = &plans.common();
    let named = |schema: &Schema| -> Vec<String> {
        let named = |c: &Column| format!("{} {}", c.name, clickhouse::types::name(&c.column_type));
        schema.columns().iter().map(named).collect()
    };
    let mut told = format!("decoded {}\n", named(&plan.input).join(", "));
    for stage in &plan.stages {
        told += &format!(
            "{} in {:?} reads {}: {}\n",
            stage.path,
            stage.place,
            stage.reads.join(", "),
            named(&stage.output).join(", ")
        );
    }
    told
}

#[test]
fn its_key_is_decoded_and_its_columns_are_there_for_the_steps_behind_it() {
    let told = planned(&format!(
        "{LOOKUP} }} }}, {{ filter: \"shop_name <> 'x'\" }}, {{ dedup: {{ key: [id], window: 1h }} }}"
    ));
    assert!(told.starts_with("decoded id Int64, shop Int32, at DateTime64(3)\n"), "{told}");
    assert!(told.contains("steps[0].lookup in DecodeJob reads shop: "), "{told}");
    assert!(told.contains("shop_name String"), "{told}");
    assert!(told.contains("steps[1].filter in DecodeJob reads shop_name: "), "{told}");
    let told = planned(&format!("{LOOKUP}, kind: left }} }}"));
    assert!(told.contains("shop_name Nullable(String)"), "{told}");
}

#[test]
fn without_columns_rows_get_all_of_the_other_side_but_its_key() {
    let step = LOOKUP
        .replace(", columns: { shop_name: name }", "")
        .replace("name: String", "city: String, shop_name: String");
    let told = planned(&format!("{step} }} }}, {{ filter: \"city <> 'x'\" }}"));
    assert!(told.contains("city String, shop_name String") && !told.contains("number"), "{told}");
}

#[test]
fn a_key_without_a_type_is_a_fault_with_the_line_to_add() {
    let told = planned(&format!("{} }} }}", LOOKUP.replace("shop =", "store =")));
    assert!(told.contains("steps[0].lookup") && told.contains("fields: { store:"), "{told}");
}

#[test]
fn it_stands_before_the_first_step_with_state() {
    let told = planned(&format!("{{ dedup: {{ key: [id], window: 1h }} }}, {LOOKUP} }} }}"));
    assert!(told.contains("steps[1].lookup") && told.contains("before the first step with state"), "{told}");
}

#[test]
fn no_key_of_dedup_comes_from_it() {
    let dedup = "{ dedup: { key: [shop_name], window: 1h } }";
    let told = planned(&format!("{LOOKUP} }} }}, {dedup}"));
    assert!(told.contains("steps[1].dedup.key[0]") && told.contains("at or behind a lookup"), "{told}");
    let told = planned(&format!(
        "{LOOKUP} }} }}, {{ select: {{ \"*\": \"*\", twice: \"upper(shop_name)\" }} }}, {}",
        dedup.replace("shop_name", "twice")
    ));
    assert!(told.contains("steps[2].dedup.key[0]"), "{told}");
}

#[test]
fn metrics_name_a_lookup_behind_a_query_of_several_steps_as_the_file_does() {
    let query = "{ sql: \"SELECT * FROM (SELECT * FROM input WHERE shop > 1) WHERE shop < 9\" }";
    let pipeline = pipeline(&format!("{query}, {LOOKUP} }} }}"));
    let places = pipeline.steps.iter().enumerate().map(|step| Planned::new(step).in_file);
    assert_eq!(places.collect::<Vec<_>>(), [0, 0, 1]);
}
