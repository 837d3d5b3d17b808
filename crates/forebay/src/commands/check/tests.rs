use super::*;

/// The report of a file without a fault, which is in a folder of its own.
fn report(file: &str, text: &str) -> Report {
    let checked = config::check(text, &Surroundings::of_process());
    assert!(checked.pipeline.is_some(), "{}", checked.faults.render(file));
    Report {
        file: file.to_owned(),
        checked: Some(checked),
        exit: Exit::Done,
        text: String::new(),
        notes: String::new(),
        json: json!({}),
    }
}

#[test]
fn two_files_of_one_pipeline_are_told_of_each_other() {
    let text = |name: &str, store: &str| {
        format!(
            "store: {store}\npipeline: {name}\nsource: {{ kafka: {{ brokers: b, topic: t }} }}\n\
             sink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\n"
        )
    };
    let (orders, returns) = (text("orders", "s3://b/one"), text("returns", "s3://b/one"));
    let elsewhere = text("orders", "s3://b/two");
    let mut reports = [
        report("/orders.yaml", &orders),
        report("/returns.yaml", &returns),
        report("/elsewhere.yaml", &elsewhere),
        // Named twice on the command line.
        report("/orders.yaml", &orders),
        report("/copy.yaml", &orders),
    ];
    named_alike(&mut reports);
    let (copy, others) = reports.split_last().expect("there are some");
    for other in others {
        assert_eq!(other.text, "", "{}", other.file);
    }
    assert!(
        copy.text.starts_with("/copy.yaml:2:1: hint: `/orders.yaml` has this name too, and the same store"),
        "{}",
        copy.text
    );
    assert_eq!(copy.exit, Exit::Done);
    assert_eq!(copy.json["findings"][0]["path"], "pipeline", "{}", copy.json);
    assert_eq!(copy.json["ok"], true);
}
