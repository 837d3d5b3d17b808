
ALTER TABLE {database}.otel_metrics_gauge
    ADD COLUMN IF NOT EXISTS `MetricMetadata` {map} CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `ResourceDroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `_forebay` UUID CODEC(ZSTD(1));

ALTER TABLE {database}.otel_metrics_sum
    ADD COLUMN IF NOT EXISTS `MetricMetadata` {map} CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `ResourceDroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `_forebay` UUID CODEC(ZSTD(1));

ALTER TABLE {database}.otel_metrics_histogram
    ADD COLUMN IF NOT EXISTS `MetricMetadata` {map} CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `ResourceDroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `_forebay` UUID CODEC(ZSTD(1));

ALTER TABLE {database}.otel_metrics_exponential_histogram
    ADD COLUMN IF NOT EXISTS `MetricMetadata` {map} CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `ResourceDroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `ZeroThreshold` Float64 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `_forebay` UUID CODEC(ZSTD(1));

ALTER TABLE {database}.otel_metrics_summary
    ADD COLUMN IF NOT EXISTS `MetricMetadata` {map} CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `ResourceDroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `_forebay` UUID CODEC(ZSTD(1));
