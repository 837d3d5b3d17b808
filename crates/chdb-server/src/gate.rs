//! Refuses what reaches files or the network. Pure.
//!
//! Where the engine has means of its own, they do it: the user `default` has no grant on any source and on no engine that
//! reads one ([`users_config`]), which closes `file()`, `url()`, `s3()`, `remote()`, `FROM '/etc/passwd'` and their like at
//! every depth and by whatever name. This module refuses what those grants do not see:
//!
//! | what                                       | example                                              |
//! |--------------------------------------------|------------------------------------------------------|
//! | functions that read files, run or call out | `SELECT file('/etc/passwd')`, `arrayMap(file, […])`   |
//! | engines that take a path                   | `ENGINE = EmbeddedRocksDB(0, '/path')`               |
//! | sources of dictionaries                    | `SOURCE(HTTP(url '…'))`                              |
//! | foreign data                               | `ATTACH TABLE t FROM '/path'`, `BACKUP`, `RESTORE`   |
//! | settings that name a file or a server      | `format_template_row = '/etc/passwd'`                |
//! | caches of dictionaries on a disk           | `LAYOUT(SSD_CACHE(PATH '/path'))`                    |
//! | statements that run others unchecked       | `DROP TABLE t PARALLEL WITH CREATE TABLE …`          |

use crate::sql::{Kind, Lexer, Token, is, name};

/// Functions by their lower-case names.
const FUNCTIONS: [&str; 14] = [
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
const ENGINES: [&str; 54] = [
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

/// Settings that make a format read or write a file, or ask a server.
const SETTINGS: [&str; 6] = [
    "format_avro_schema_registry_url",
    "format_schema",
    "format_template_resultset",
    "format_template_row",
    "input_format_record_errors_file_path",
    "output_format_schema",
];

/// Engines that may be made. Each keeps its data in the server's own folder, or has none.
const ENGINES_GRANTED: [&str; 24] = [
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

/// What is refused, as it is told to the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` reaches files or the network, which this server allows only when it is started with --allow-files-and-network"
)]
pub struct Gated(pub String);

/// The engine's configuration of its one user: everything in its own folder, and nothing beyond.
pub fn users_config() -> String {
    let engines: String = ENGINES_GRANTED
        .iter()
        .map(|engine| format!("<query>GRANT TABLE ENGINE ON {engine}</query>"))
        .collect();
    format!(
        "<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users><default><password></password>\
         <networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota><grants>\
         <query>GRANT CHECK, SHOW, SELECT, INSERT, ALTER, CREATE, DROP, UNDROP TABLE, TRUNCATE, OPTIMIZE, KILL QUERY, \
         KILL TRANSACTION, MOVE PARTITION BETWEEN SHARDS, SYSTEM, dictGet, displaySecretsInShowAndSelect, INTROSPECTION \
         ON *.*</query><query>GRANT SET DEFINER ON *</query>{engines}</grants></default></users></clickhouse>\n"
    )
}

/// Checks the settings that a request carries beside its statement.
///
/// # Errors
/// Names the first that reaches beyond the server's folder.
pub fn settings(settings: &[(String, String)]) -> Result<(), Gated> {
    match settings.iter().find(|(name, _)| SETTINGS.contains(&name.as_str())) {
        Some((name, _)) => Err(Gated(name.clone())),
        None => Ok(()),
    }
}

/// Checks a statement, without the data of an insert.
///
/// # Errors
/// Names the first thing that reaches beyond the server's folder.
pub fn statement(sql: &[u8]) -> Result<(), Gated> {
    let tokens: Vec<Token> = Lexer::new(sql).collect();
    functions(sql, &tokens)?;
    let defines = starts_with(sql, &tokens, &["CREATE", "ATTACH", "REPLACE"]);
    let sets = tokens.iter().any(|token| is(sql, *token, "SET") || is(sql, *token, "SETTINGS"));
    // The engine runs the statements behind it without asking what its user may do.
    if tokens.windows(2).any(|pair| is(sql, pair[0], "PARALLEL") && is(sql, pair[1], "WITH")) {
        return Err(Gated("PARALLEL WITH".to_owned()));
    }
    for (index, token) in tokens.iter().enumerate() {
        let text = lower(sql, *token);
        if SETTINGS.contains(&text.as_str()) {
            return Err(Gated(text));
        }
        if sets && is_escaped(sql, *token) && kind_at(&tokens, index + 1) == Some(Kind::Mark(b'=')) {
            return Err(Gated(shown(sql, *token)));
        }
        if defines && is(sql, *token, "ENGINE") {
            let after = index + 1 + usize::from(kind_at(&tokens, index + 1) == Some(Kind::Mark(b'=')));
            if let Some(engine) = tokens.get(after)
                && is_name(*engine)
                && (ENGINES.contains(&lower(sql, *engine).as_str()) || is_escaped(sql, *engine))
            {
                return Err(Gated(format!("ENGINE = {}", shown(sql, *engine))));
            }
        }
        if defines && is(sql, *token, "LAYOUT") && kind_at(&tokens, index + 1) == Some(Kind::Mark(b'(')) {
            let layout = tokens
                .get(index + 2)
                .filter(|layout| is_escaped(sql, **layout) || lower(sql, **layout).ends_with("ssd_cache"));
            if let Some(layout) = layout {
                return Err(Gated(format!("LAYOUT({})", shown(sql, *layout))));
            }
        }
        if defines && is(sql, *token, "SOURCE") && kind_at(&tokens, index + 1) == Some(Kind::Mark(b'(')) {
            dictionary_source(sql, &tokens[index + 2..])?;
        }
    }
    let foreign = starts_with(sql, &tokens, &["ATTACH"])
        && tokens.windows(2).any(|pair| is(sql, pair[0], "FROM") && pair[1].kind == Kind::Text);
    if foreign {
        return Err(Gated("ATTACH … FROM".to_owned()));
    }
    if starts_with(sql, &tokens, &["BACKUP", "RESTORE"]) {
        return Err(Gated(shown(sql, tokens[0])));
    }
    // Here the engine might see another token than this lexer does; then the bare text decides.
    match is_ambiguous(sql) {
        true => FUNCTIONS
            .iter()
            .find(|name| called_in_text(sql, name.as_bytes()))
            .map_or(Ok(()), |name| Err(Gated((*name).to_owned()))),
        false => Ok(()),
    }
}

/// Checks the data of an insert in the format `Values`, which may hold expressions.
///
/// # Errors
/// Names the first function that reaches beyond the server's folder.
pub fn values(data: &[u8]) -> Result<(), Gated> {
    let tokens: Vec<Token> = Lexer::new(data).collect();
    functions(data, &tokens)
}

/// Whether data may hold a call at all; a cheap look before they are taken apart.
pub fn may_call(data: &[u8]) -> bool {
    data.iter().any(|byte| matches!(byte, b'`' | b'"'))
        || FUNCTIONS.iter().any(|name| contains(data, name.as_bytes()))
}

fn functions(sql: &[u8], tokens: &[Token]) -> Result<(), Gated> {
    for (index, token) in tokens.iter().enumerate() {
        if !is_name(*token) || !(FUNCTIONS.contains(&lower(sql, *token).as_str()) || is_escaped(sql, *token))
        {
            continue;
        }
        let called = kind_at(tokens, index + 1) == Some(Kind::Mark(b'(')) && !is_target(sql, tokens, index);
        if called || is_function_argument(sql, tokens, index) {
            return Err(Gated(format!("{}()", shown(sql, *token))));
        }
    }
    Ok(())
}

/// Whether the name at `index` is that of a table with its columns behind it: `INSERT INTO file (a)`, `CREATE TABLE file (`.
fn is_target(sql: &[u8], tokens: &[Token], index: usize) -> bool {
    let before = |back: usize| index.checked_sub(back).and_then(|at| tokens.get(at)).copied();
    let word = |back: usize, text: &str| before(back).is_some_and(|token| is(sql, token, text));
    // A database before it: two tokens more.
    let back = if before(1).is_some_and(|token| token.kind == Kind::Mark(b'.')) { 3 } else { 1 };
    if starts_with(sql, tokens, &["INSERT"]) {
        // `INSERT INTO FUNCTION file(…)` and `INSERT INTO TABLE FUNCTION file(…)` have a word between.
        return (word(back, "INTO") && index == back + 1)
            || (word(back, "TABLE") && word(back + 1, "INTO") && index == back + 2);
    }
    let exists = word(back, "EXISTS") && word(back + 1, "NOT") && word(back + 2, "IF");
    starts_with(sql, tokens, &["CREATE"]) && index < 10 && (word(back, "TABLE") || exists)
}

/// Whether the name at `index` is handed to another function as a function: `APPLY(file)`, `arrayMap((file), …)`.
fn is_function_argument(sql: &[u8], tokens: &[Token], index: usize) -> bool {
    let outer = tokens[..index].iter().rev().find(|token| token.kind != Kind::Mark(b'('));
    outer.is_some_and(|outer| {
        let text = lower(sql, *outer);
        let directly = kind_at(tokens, index.wrapping_sub(1)) == Some(Kind::Mark(b'('));
        text == "apply" || directly && (text.starts_with("array") || text.starts_with("map"))
    })
}

/// `CLICKHOUSE(…)` without a host, and `NULL()`, stay on this server.
fn dictionary_source(sql: &[u8], tokens: &[Token]) -> Result<(), Gated> {
    let Some(kind) = tokens.first() else { return Ok(()) };
    let mut depth = 1_usize;
    let inside = tokens.iter().take_while(|token| {
        match token.kind {
            Kind::Mark(b'(') => depth += 1,
            Kind::Mark(b')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > 0
    });
    let has_host = inside.into_iter().any(|token| lower(sql, *token) == "host");
    match lower(sql, *kind).as_str() {
        "null" => Ok(()),
        "clickhouse" if !has_host => Ok(()),
        _ => Err(Gated(format!("SOURCE({})", shown(sql, *kind)))),
    }
}

fn starts_with(sql: &[u8], tokens: &[Token], words: &[&str]) -> bool {
    tokens.first().is_some_and(|first| words.iter().any(|word| is(sql, *first, word)))
}

fn kind_at(tokens: &[Token], index: usize) -> Option<Kind> {
    tokens.get(index).map(|token| token.kind)
}

fn is_name(token: Token) -> bool {
    matches!(token.kind, Kind::Word | Kind::Quoted)
}

/// A quoted name with escapes could be any.
fn is_escaped(sql: &[u8], token: Token) -> bool {
    token.kind == Kind::Quoted && sql[token.start..token.end].contains(&b'\\')
}

fn lower(sql: &[u8], token: Token) -> String {
    match token.kind {
        Kind::Word | Kind::Quoted => String::from_utf8_lossy(name(sql, token)).to_ascii_lowercase(),
        Kind::Text | Kind::Mark(_) => String::new(),
    }
}

fn shown(sql: &[u8], token: Token) -> String {
    String::from_utf8_lossy(name(sql, token)).into_owned()
}

/// Comments, here-documents and letters that may be quotes to the engine.
fn is_ambiguous(sql: &[u8]) -> bool {
    sql.iter().any(|byte| matches!(byte, b'$' | b'#') || *byte >= 0x80)
        || sql.windows(2).any(|pair| matches!(pair, b"--" | b"/*"))
}

/// Whether the bare text has the word `name` with a bracket after it, or `apply` before it.
fn called_in_text(sql: &[u8], name: &[u8]) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let ends = (0..sql.len().saturating_sub(name.len()))
        .filter(|at| sql[*at..at + name.len()].eq_ignore_ascii_case(name))
        .filter(|at| at.checked_sub(1).is_none_or(|before| !is_word(&sql[before])))
        .map(|at| at + name.len());
    ends.filter(|end| !sql.get(*end).is_some_and(is_word)).any(|end| {
        let after =
            sql[end..].iter().find(|byte| !byte.is_ascii_whitespace() && !matches!(byte, b'`' | b'"'));
        matches!(after, Some(b'(' | b'/' | b'-' | b'#'))
    })
}

/// Whether `name`, which is in lower case, occurs in any case.
fn contains(data: &[u8], name: &[u8]) -> bool {
    let first = [name[0], name[0].to_ascii_uppercase()];
    let mut rest = data;
    while let Some(at) = rest.iter().position(|byte| first.contains(byte)) {
        if rest.get(at..at + name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name)) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

#[cfg(test)]
mod tests;
