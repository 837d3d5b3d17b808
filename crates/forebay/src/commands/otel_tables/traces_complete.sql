
ALTER TABLE {database}.otel_traces
    ADD COLUMN IF NOT EXISTS `EndTimestamp` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `Flags` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `ResourceSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `ResourceDroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `ScopeAttributes` {map} CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `ScopeSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `ScopeDroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `DroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `DroppedEventsCount` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `DroppedLinksCount` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `Events.DroppedAttrCount` Array(UInt32) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `Links.DroppedAttrCount` Array(UInt32) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `Links.Flags` Array(UInt32) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `_forebay` UUID CODEC(ZSTD(1));
