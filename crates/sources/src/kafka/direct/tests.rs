use super::*;

fn options(properties: &[(&str, &str)]) -> KafkaOptions {
    let mut options = KafkaOptions::new(vec!["127.0.0.1:9".into()], vec!["t".into()], "g");
    options.properties = properties.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    options
}

#[test]
fn properties_that_only_librdkafka_knows_leave_the_reading_to_it() {
    let why = |properties: &[(&str, &str)]| plan(&options(properties)).expect_err("not directly");
    assert!(plan(&options(&[])).is_ok());
    assert!(plan(&options(&[("security.protocol", "PLAINTEXT"), ("queued.min.messages", "5")])).is_ok());
    assert!(plan(&options(&[("security.protocol", "ssl")])).is_ok());
    assert!(why(&[("security.protocol", "sasl_ssl")]).contains("`GSSAPI`"));
    assert!(why(&[("security.protocol", "ssl"), ("ssl.key.password", "p")]).contains("`ssl.key.password`"));
    assert!(why(&[("client.rack", "a")]).contains("`client.rack`"));
    assert!(why(&[("check.crcs", "false")]).contains("check.crcs"));
}

#[test]
fn bounds_are_taken_from_the_properties() {
    let set = [("fetch.wait.max.ms", "50"), ("max.partition.fetch.bytes", "1000"), ("client.id", "me")];
    let plan = plan(&options(&set)).expect("directly");
    assert_eq!((plan.bounds.wait_ms, plan.bounds.partition_bytes_max), (50, 1_000));
    assert_eq!((plan.bounds.bytes_max, plan.client.as_str()), (BYTES_MAX, "me"));
    assert_eq!(plan.answer_bytes_max, 512 << 20);
}

#[test]
fn ids_are_read_in_both_alphabets() {
    let id = topic_id("-_____8AAAAAAAAAAAAAAA").expect("an id");
    assert_eq!(id[..4], [0xfb, 0xff, 0xff, 0xff]);
    assert_eq!(topic_id("+/////8AAAAAAAAAAAAAAA=="), Some(id));
    assert_eq!(topic_id(""), None);
    assert_eq!(topic_id("AAAA"), None);
}
