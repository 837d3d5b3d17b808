//! The names that `gate` knows: what is refused, and what may be made.
//!
//! Owns the lists alone; what a newer engine brings is entered here. Does not own where in a statement each name counts (`gate`,
//! `gate::text`).

/// Functions by their lower-case names.
pub const FUNCTIONS: [&str; 14] = [
    "aiclassify",
    "aiembed",
    "aiextract",
    "aigenerate",
    "aitranslate",
    "arrowstream",
    "catboostevaluate",
    "disk",
    "eval",
    "executable",
    "file",
    "prometheusquery",
    "prometheusqueryrange",
    "reversednsquery",
];

/// Engines whose tables or databases are files elsewhere, programs or other servers, in lower case. The engine's grants
/// refuse most of them too.
pub const ENGINES: [&str; 54] = [
    "arrowflight",
    "arrowstream",
    "azureblobstorage",
    "azurequeue",
    "backup",
    "cosn",
    "datalakecatalog",
    "deltalake",
    "deltalakeazure",
    "deltalakelocal",
    "deltalakes3",
    "distributed",
    "embeddedrocksdb",
    "executable",
    "executablepool",
    "file",
    "filelog",
    "filesystem",
    "gcs",
    "hdfs",
    "hive",
    "hudi",
    "iceberg",
    "icebergazure",
    "iceberghdfs",
    "iceberglocal",
    "icebergs3",
    "jdbc",
    "kafka",
    "keepermap",
    "logfile",
    "materializedmysql",
    "materializedpostgresql",
    "mongodb",
    "mysql",
    "nats",
    "odbc",
    "oss",
    "paimon",
    "paimonazure",
    "paimonhdfs",
    "paimonlocal",
    "paimons3",
    "postgresql",
    "queryrunner",
    "rabbitmq",
    "redis",
    "remote",
    "remotesecure",
    "s3",
    "s3queue",
    "sqlite",
    "url",
    "ytsaurus",
];

/// Settings that make a format read or write a file or ask a server, and those whose value the engine reads as SQL or that say in
/// which language it reads a statement.
pub const SETTINGS: [&str; 17] = [
    "additional_result_filter",
    "additional_table_filters",
    "ai_function_embedding_default_credentials",
    "ai_function_text_default_credentials",
    "dialect",
    "format_avro_schema_registry_url",
    "format_schema",
    "format_schema_source",
    "format_template_resultset",
    "format_template_row",
    "input_format_record_errors_file_path",
    "output_format_schema",
    "parallel_replicas_custom_key",
    "polyglot_dialect",
    "rename_files_after_processing",
    "schema_inference_hints",
    "url_base",
];

/// Engines that may be made. Each keeps its data in the server's own folder, or has none.
pub const ENGINES_GRANTED: [&str; 24] = [
    "AggregatingMergeTree",
    "Alias",
    "Buffer",
    "CoalescingMergeTree",
    "CollapsingMergeTree",
    "Dictionary",
    "FuzzJSON",
    "GenerateRandom",
    "GraphiteMergeTree",
    "Join",
    "Log",
    "MaterializedView",
    "Memory",
    "Merge",
    "MergeTree",
    "Null",
    "ReplacingMergeTree",
    "Set",
    "StripeLog",
    "SummingMergeTree",
    "TimeSeries",
    "TinyLog",
    "VersionedCollapsingMergeTree",
    "View",
];

/// Engines of databases that may be made, in lower case. The engine's grants do not know them.
pub const DATABASES: [&str; 4] = ["atomic", "lazy", "memory", "ordinary"];

/// Functions that take the columns of a table as text, which may hold expressions, in lower case. `format` is also the name of a
/// function that fills a pattern.
pub const STRUCTURED: [&str; 6] =
    ["format", "generaterandom", "input", "null", "structuretocapnprotoschema", "structuretoprotobufschema"];

/// What a dictionary's source on this server may say: where its rows are, and nothing that is SQL.
pub const SOURCE_KEYS: [&str; 6] = ["db", "password", "table", "update_field", "update_lag", "user"];
