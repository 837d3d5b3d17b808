
ALTER TABLE {database}.otel_logs
    ADD COLUMN IF NOT EXISTS `ObservedTimestamp` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `Flags` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `DroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `ResourceDroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `ScopeDroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `_forebay` UUID CODEC(ZSTD(1));
