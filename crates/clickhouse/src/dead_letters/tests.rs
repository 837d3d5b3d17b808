use super::*;
use crate::checks::create_statement;

#[test]
fn the_declaration_has_every_column_a_window_and_a_provenance_column() {
    let config = config("default", "rejects");
    let statement = create_statement(&config, config.create.as_ref().unwrap());
    assert_eq!(
        statement,
        "CREATE TABLE IF NOT EXISTS `default`.`rejects` (`time` DateTime64(3, 'UTC'), \
         `pipeline` LowCardinality(String), `source` LowCardinality(String), `partition` UInt32, \
         `position` UInt64, `record_time` Nullable(DateTime64(3, 'UTC')), `key` Nullable(String), \
         `headers` Map(String, String), `reason` LowCardinality(String), `column` LowCardinality(String), \
         `message` String, `raw` String, `_forebay` UUID) ENGINE = MergeTree ORDER BY (pipeline, time) \
         SETTINGS non_replicated_deduplication_window = 10000"
    );
}
