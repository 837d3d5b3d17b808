//! Refuses what reaches files or the network. Pure.
//!
//! Owns what is refused before the engine sees it, with the words that say so, and the grants of the engine's one user. Does not own the
//! lexer (`sql`), text that no lexer has cut (`gate::text`) or the kernel's refusals (`wall`).
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
//! | SQL in strings, which the engine may read  | `additional_result_filter = 'file(…)'`               |
//! | text that the engine may read otherwise    | a no-break space between `file` and `(`              |
//!
//! It knows names, and a reader of text can be deceived; where the kernel can hold the engine back, [`wall`](crate::wall) stands
//! behind it. The gate is what gives a clear answer, and what keeps statements from this server's own files.

use crate::sql::{Kind, Lexer, Token, is, name};

mod names;
mod text;

use names::{DATABASES, ENGINES, ENGINES_GRANTED, FUNCTIONS, SETTINGS, SOURCE_KEYS, STRUCTURED};

/// What is refused, as it is told to the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Gated {
    /// It reaches files or the network.
    #[error(
        "`{0}` reaches files or the network, which this server allows only when it is started with --allow-files-and-network"
    )]
    Reaches(String),
    /// A string that would do so if the engine read it as SQL, as it does in some places.
    #[error(
        "a string of this statement holds a call of `{0}`, and some functions and settings read strings as SQL; send it as the data of \
         an INSERT, or start the server with --allow-files-and-network"
    )]
    InString(&'static str),
    /// Columns as text that this server cannot see before the engine does.
    #[error(
        "`{0}()` takes only literals here, since the columns that it names may hold any SQL; write them out, or start the server \
         with --allow-files-and-network"
    )]
    NotLiteral(String),
    /// The engine may read it otherwise than this server does.
    #[error(
        "the statement has {0} outside of its strings and comments, which may hide what it does; leave that out, or start the server \
         with --allow-files-and-network"
    )]
    Unclear(String),
}

/// Something by the name `what` reaches beyond the server's folder.
fn reaches<T>(what: impl Into<String>) -> Result<T, Gated> {
    Err(Gated::Reaches(what.into()))
}

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
    let refused = |(name, value): &&(String, String)| {
        SETTINGS.contains(&name.as_str()) && !says_nothing(value.as_bytes())
    };
    match settings.iter().find(refused) {
        Some((name, _)) => reaches(name.as_str()),
        None => Ok(()),
    }
}

/// A client may well say that such a setting is not used: an empty text, or an empty map.
fn says_nothing(value: &[u8]) -> bool {
    matches!(value.trim_ascii(), b"" | b"{}")
}

/// Checks the substitutions `{name:Type}` of a request. One of the type `Identifier` can stand where a function is named.
///
/// # Errors
/// Names the first that is the name of a function that reaches beyond the server's folder.
pub fn parameters(sql: &[u8], parameters: &[(String, String)]) -> Result<(), Gated> {
    if !text::contains(sql, b"identifier") {
        return Ok(());
    }
    let found = parameters.iter().find_map(|(_, value)| text::function_named(value.as_bytes()));
    found.map_or(Ok(()), reaches)
}

/// Checks a statement, without the data of an insert.
///
/// # Errors
/// Names the first thing that reaches beyond the server's folder.
pub fn statement(sql: &[u8]) -> Result<(), Gated> {
    let tokens: Vec<Token> = Lexer::new(sql).collect();
    clear(sql, &tokens)?;
    functions(sql, &tokens)?;
    structures(sql, &tokens)?;
    strings(sql, &tokens)?;
    settings_in(sql, &tokens)?;
    definitions(sql, &tokens)?;
    // The engine runs the statements behind it without asking what its user may do.
    if tokens.windows(2).any(|pair| is(sql, pair[0], "PARALLEL") && is(sql, pair[1], "WITH")) {
        return reaches("PARALLEL WITH");
    }
    let foreign = starts_with(sql, &tokens, &["ATTACH"])
        && tokens.windows(2).any(|pair| is(sql, pair[0], "FROM") && pair[1].kind == Kind::Text);
    if foreign {
        return reaches("ATTACH … FROM");
    }
    if starts_with(sql, &tokens, &["BACKUP", "RESTORE"]) {
        return reaches(shown(sql, tokens[0]));
    }
    // Should the engine see another token here than this lexer does, the bare text decides.
    match is_ambiguous(sql).then(|| text::called(sql)).flatten() {
        Some(name) => reaches(name),
        None => Ok(()),
    }
}

/// Outside of strings, quoted names and comments a statement is ASCII: the engine takes some other letters for blanks, quotes or
/// signs. `$` begins a string or stands in a word.
fn clear(sql: &[u8], tokens: &[Token]) -> Result<(), Gated> {
    let unclear = |what: String| Err(Gated::Unclear(what));
    for token in tokens {
        let text = &sql[token.start..token.end];
        match token.kind {
            Kind::Word if !text.is_ascii() => {
                return unclear(format!("`{}`", String::from_utf8_lossy(text).escape_default()));
            }
            Kind::Text | Kind::Quoted if text[0] >= 0x80 => return unclear("curly quotes".to_owned()),
            Kind::Word if text.starts_with(b"$") => return unclear("a word that begins with `$`".to_owned()),
            Kind::Mark(b'$') => return unclear("a single `$`".to_owned()),
            Kind::Mark(byte) if byte.is_ascii_control() => return unclear(format!("the byte 0x{byte:02X}")),
            Kind::Word | Kind::Quoted | Kind::Text | Kind::Mark(_) => {}
        }
    }
    match crate::sql::odd_blank(sql) {
        Some(blank) => unclear(format!("the blank `{}`", String::from_utf8_lossy(blank).escape_default())),
        None => Ok(()),
    }
}

/// Names of settings: those refused, and those written with escapes, which could be any.
fn settings_in(sql: &[u8], tokens: &[Token]) -> Result<(), Gated> {
    let sets = tokens.iter().any(|token| is(sql, *token, "SET") || is(sql, *token, "SETTINGS"));
    for (index, token) in tokens.iter().enumerate() {
        let text = lower(sql, *token);
        let given = sets && kind_at(tokens, index + 1) == Some(Kind::Mark(b'='));
        // A column may well have this name.
        let value = |token: &Token| text::content(sql, *token);
        let empty = given
            && tokens
                .get(index + 2)
                .is_some_and(|token| token.kind == Kind::Text && says_nothing(&value(token)));
        let refused = SETTINGS.contains(&text.as_str()) && (given || text != "dialect") && !empty;
        if refused || given && is_escaped(sql, *token) {
            return reaches(shown(sql, *token));
        }
        // `SET param_f = 'file'` gives a name to a later statement's `{f:Identifier}`.
        if given
            && text.starts_with("param_")
            && let Some(function) =
                tokens.get(index + 2).and_then(|value| text::function_named(&text::content(sql, *value)))
        {
            return reaches(function);
        }
    }
    Ok(())
}

/// Engines, and what dictionaries are made of.
fn definitions(sql: &[u8], tokens: &[Token]) -> Result<(), Gated> {
    if !starts_with(sql, tokens, &["CREATE", "ATTACH", "REPLACE"]) {
        return Ok(());
    }
    for (index, token) in tokens.iter().enumerate() {
        let opened = kind_at(tokens, index + 1) == Some(Kind::Mark(b'('));
        if is(sql, *token, "ENGINE") {
            engine(sql, &tokens[index + 1..])?;
        } else if opened && is(sql, *token, "LAYOUT") {
            let refused =
                |layout: &&Token| is_escaped(sql, **layout) || lower(sql, **layout).ends_with("ssd_cache");
            if let Some(layout) = tokens.get(index + 2).filter(refused) {
                return reaches(format!("LAYOUT({})", shown(sql, *layout)));
            }
        } else if opened && is(sql, *token, "SOURCE") {
            dictionary_source(sql, &tokens[index + 2..])?;
        }
    }
    Ok(())
}

/// What follows `ENGINE`. Behind `=` only engines that are known to stay in the folder may stand. Without it the word may be a
/// column of a view's query, so there only what is known to go beyond is refused.
fn engine(sql: &[u8], after: &[Token]) -> Result<(), Gated> {
    let equals = kind_at(after, 0) == Some(Kind::Mark(b'='));
    let Some(engine) = after.get(usize::from(equals)).filter(|engine| is_name(**engine)) else {
        return Ok(());
    };
    let text = lower(sql, *engine);
    let granted = ENGINES_GRANTED.iter().any(|known| known.eq_ignore_ascii_case(&text));
    let may = if equals {
        granted || DATABASES.contains(&text.as_str())
    } else {
        !ENGINES.contains(&text.as_str())
    };
    match may && !is_escaped(sql, *engine) {
        true => Ok(()),
        false => reaches(format!("ENGINE = {}", shown(sql, *engine))),
    }
}

/// A string may be read as SQL where this module does not know it, so none may call what is refused.
fn strings(sql: &[u8], tokens: &[Token]) -> Result<(), Gated> {
    let mut before: Option<Token> = None;
    for token in tokens {
        if token.kind == Kind::Text {
            let hex = before.filter(|word| word.end == token.start && word.kind == Kind::Word);
            let content = match hex.map(|word| lower(sql, word)) {
                Some(kind) if kind == "x" || kind == "b" => {
                    text::digits(&text::content(sql, *token), kind == "x")
                }
                _ => text::content(sql, *token),
            };
            if let Some(name) = text::called_at_any_depth(content) {
                return Err(Gated::InString(name));
            }
        }
        before = Some(*token);
    }
    Ok(())
}

/// Columns as text are looked at as a string; a text that is put together only by the engine cannot be.
fn structures(sql: &[u8], tokens: &[Token]) -> Result<(), Gated> {
    for (index, token) in tokens.iter().enumerate() {
        let text = lower(sql, *token);
        let called = is_name(*token)
            && STRUCTURED.contains(&text.as_str())
            && kind_at(tokens, index + 1) == Some(Kind::Mark(b'('));
        if !called
            || text == "format" && is_pattern(sql, tokens.get(index + 2))
            || is_source_null(sql, tokens, index)
        {
            continue;
        }
        let arguments = tokens[index + 2..].iter().take_while(|token| token.kind != Kind::Mark(b')'));
        let literal = arguments.enumerate().all(|(place, argument)| match argument.kind {
            Kind::Text | Kind::Mark(b',') => true,
            // A format's name, or a number; a call would have a bracket behind it.
            Kind::Word => place == 0 && text == "format" || sql[argument.start].is_ascii_digit(),
            Kind::Quoted | Kind::Mark(_) => false,
        });
        if !literal {
            return Err(Gated::NotLiteral(shown(sql, *token)));
        }
    }
    Ok(())
}

/// `format('{} of {}', …)` fills a pattern; no format's name has braces.
fn is_pattern(sql: &[u8], first: Option<&Token>) -> bool {
    first.is_some_and(|first| first.kind == Kind::Text && text::content(sql, *first).contains(&b'{'))
}

/// `SOURCE(NULL())` of a dictionary.
fn is_source_null(sql: &[u8], tokens: &[Token], index: usize) -> bool {
    index >= 2 && kind_at(tokens, index - 1) == Some(Kind::Mark(b'(')) && is(sql, tokens[index - 2], "SOURCE")
}

/// Checks the data of an insert in the format `Values`, which may hold expressions.
///
/// # Errors
/// Names the first function that reaches beyond the server's folder.
pub fn values(data: &[u8]) -> Result<(), Gated> {
    let tokens: Vec<Token> = Lexer::new(data).collect();
    functions(data, &tokens)?;
    // A query among the values may do all that a statement does; else their strings are nothing but data.
    if tokens.iter().any(|token| is(data, *token, "SELECT")) {
        structures(data, &tokens)?;
        strings(data, &tokens)?;
        settings_in(data, &tokens)?;
    }
    Ok(())
}

/// Whether data may hold a call at all; a cheap look before they are taken apart.
pub fn may_call(data: &[u8]) -> bool {
    data.iter().any(|byte| matches!(byte, b'`' | b'"'))
        || text::contains(data, b"select")
        || FUNCTIONS.iter().any(|name| text::contains(data, name.as_bytes()))
}

fn functions(sql: &[u8], tokens: &[Token]) -> Result<(), Gated> {
    for (index, token) in tokens.iter().enumerate() {
        if !is_name(*token) || !(FUNCTIONS.contains(&lower(sql, *token).as_str()) || is_escaped(sql, *token))
        {
            continue;
        }
        let called = kind_at(tokens, index + 1) == Some(Kind::Mark(b'(')) && !is_target(sql, tokens, index);
        if called || is_function_argument(sql, tokens, index) {
            return reaches(format!("{}()", shown(sql, *token)));
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

/// `NULL()` and `CLICKHOUSE(TABLE 't')` stay on this server. A `HOST` is another server, and `QUERY`, `WHERE` and `INVALIDATE_QUERY`
/// are SQL that the engine runs later, for no user.
fn dictionary_source(sql: &[u8], tokens: &[Token]) -> Result<(), Gated> {
    let Some(kind) = tokens.first() else { return Ok(()) };
    match lower(sql, *kind).as_str() {
        "null" => Ok(()),
        "clickhouse" => match unknown_key(sql, tokens.get(2..).unwrap_or_default()) {
            Some(key) => reaches(format!("SOURCE({}({} …))", shown(sql, *kind), shown(sql, key))),
            None => Ok(()),
        },
        _ => reaches(format!("SOURCE({})", shown(sql, *kind))),
    }
}

/// The first thing in `TABLE 't' DB currentDatabase())` that is neither a known key nor its value.
fn unknown_key(sql: &[u8], tokens: &[Token]) -> Option<Token> {
    let mut at = 0;
    loop {
        let key = tokens.get(at).filter(|key| key.kind != Kind::Mark(b')'))?;
        if !SOURCE_KEYS.contains(&lower(sql, *key).as_str()) {
            return Some(*key);
        }
        at += 2;
        // A call without arguments.
        let called = [b'(', b')']
            .iter()
            .enumerate()
            .all(|(next, mark)| kind_at(tokens, at + next) == Some(Kind::Mark(*mark)));
        at += if called { 2 } else { 0 };
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

#[cfg(test)]
mod tests;
