//! Reads just enough of a statement to know what to do with it: where an insert's data begins, which format the
//! answer has, what must be refused. Pure.
//!
//! Owns a lexer for ClickHouse's words, strings and comments, and the few statements that are taken apart. Does not own the grammar: the
//! engine parses, and its errors are the ones that clients see. Nor does it own what else is refused (`crate::gate`), or what is done with
//! a statement (`crate::work`).

/// What a token is. Comments and white space are no tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A bare word: keyword or identifier.
    Word,
    /// An identifier in backticks or double quotes.
    Quoted,
    /// A string literal.
    Text,
    /// One byte of anything else.
    Mark(u8),
}

/// A token and its place in the statement, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Its first byte.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
}

/// The tokens of a statement, read as they are asked for.
pub struct Lexer<'a> {
    sql: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    /// A lexer at the beginning of `sql`.
    pub fn new(sql: &'a [u8]) -> Lexer<'a> {
        Lexer { sql, at: 0 }
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = &self.sql[self.at..];
            match blank_length(rest) + comment_length(rest) {
                0 => return,
                skipped => self.at += skipped,
            }
        }
    }
}

/// The length of the blank at the beginning of `rest`, 0 if there is none. Beside ASCII's blanks the engine passes over those that
/// come with text from word processors.
fn blank_length(rest: &[u8]) -> usize {
    match rest {
        [b' ' | b'\t'..=b'\r', ..] => 1,
        [0xC2, 0x85 | 0xA0, ..] => 2,
        [0xE1, 0xA0, 0x8E, ..] | [0xE3, 0x80, 0x80, ..] | [0xEF, 0xBB, 0xBF, ..] => 3,
        [0xE2, 0x80, 0x80..=0x8D | 0xA8 | 0xA9 | 0xAF, ..] | [0xE2, 0x81, 0x9F | 0xA0, ..] => 3,
        _ => 0,
    }
}

/// The length of the comment at the beginning of `rest`, 0 if there is none.
fn comment_length(rest: &[u8]) -> usize {
    match rest {
        [b'-', b'-', ..] | [b'/', b'/', ..] | [b'#', b'!' | b' ', ..] => until(rest, b"\n"),
        [b'/', b'*', ..] => nested_comment_length(rest),
        _ => 0,
    }
}

/// `/* a /* b */ c */` is one comment.
fn nested_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while let Some(pair) = rest.get(at..at + 2) {
        (depth, at) = match pair {
            b"/*" => (depth + 1, at + 2),
            b"*/" => (depth - 1, at + 2),
            _ => (depth, at + 1),
        };
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The first blank between the tokens of `sql` that nobody types on purpose: no space, tab or line end.
pub fn odd_blank(sql: &[u8]) -> Option<&[u8]> {
    let ends = std::iter::once(0).chain(Lexer::new(sql).map(|token| token.end));
    ends.into_iter().find_map(|end| {
        let mut rest = &sql[end..];
        loop {
            let (blank, comment) = (blank_length(rest), comment_length(rest));
            match (blank, comment) {
                (0, 0) => return None,
                (1, _) if matches!(rest[0], b' ' | b'\t' | b'\n' | b'\r') => {}
                (0, _) => {}
                _ => return Some(&rest[..blank]),
            }
            rest = &rest[blank + comment..];
        }
    })
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        self.skip_blanks();
        let rest = &self.sql[self.at..];
        let (kind, length) = match *rest.first()? {
            b'\'' => (Kind::Text, quoted_length(rest)),
            b'`' | b'"' => (Kind::Quoted, quoted_length(rest)),
            byte if is_word_byte(byte) => (Kind::Word, word_length(rest)),
            0x80.. => foreign(rest),
            b'$' => match here_document_length(rest) {
                Some(length) => (Kind::Text, length),
                None if rest.get(1).is_some_and(|byte| is_word_byte(*byte)) => {
                    (Kind::Word, word_length(rest))
                }
                None => (Kind::Mark(b'$'), 1),
            },
            byte => (Kind::Mark(byte), 1),
        };
        let start = self.at;
        self.at += length;
        Some(Token { kind, start, end: self.at })
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Beyond ASCII stand ClickHouse's other quotes, ‘a string’ and “a name”, in which nothing is escaped. Any other letters are a word of
/// their own: the engine takes none of them in a word.
fn foreign(rest: &[u8]) -> (Kind, usize) {
    match rest {
        [0xE2, 0x80, 0x98, inner @ ..] => (Kind::Text, 3 + until(inner, "\u{2019}".as_bytes())),
        [0xE2, 0x80, 0x9C, inner @ ..] => (Kind::Quoted, 3 + until(inner, "\u{201d}".as_bytes())),
        _ => {
            let ends = |at: &usize| {
                rest[*at] < 0x80 || blank_length(&rest[*at..]) > 0 || rest[*at..].starts_with(b"\xE2\x80")
            };
            (Kind::Word, (1..rest.len()).find(ends).unwrap_or(rest.len()))
        }
    }
}

/// A word goes on over `$`, as in ClickHouse: `a$b$` begins no here-document.
fn word_length(rest: &[u8]) -> usize {
    rest.iter().position(|byte| !is_word_byte(*byte) && *byte != b'$').unwrap_or(rest.len())
}

/// Bytes up to and with `end`, or all that is left.
fn until(rest: &[u8], end: &[u8]) -> usize {
    rest.windows(end.len()).position(|window| window == end).map_or(rest.len(), |found| found + end.len())
}

/// The length of the quoted thing at the beginning of `rest`; a backslash and a doubled quote escape.
fn quoted_length(rest: &[u8]) -> usize {
    let quote = rest[0];
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote && rest.get(at + 1) == Some(&quote) => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `$tag$ … $tag$`, if that is what `rest` begins with.
fn here_document_length(rest: &[u8]) -> Option<usize> {
    let tag = 1 + rest[1..].iter().position(|byte| !is_word_byte(*byte))?;
    if rest[tag] != b'$' {
        return None;
    }
    let (mark, body) = rest.split_at(tag + 1);
    body.windows(mark.len()).position(|window| window == mark).map(|found| found + 2 * mark.len())
}

/// A statement, as far as the server must understand it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// An insert whose data follow its text.
    Insert(Insert),
    /// `KILL QUERY …`; the range is what stands between `WHERE` and the end or `SYNC`, `ASYNC`, `TEST`, `FORMAT`.
    Kill(Kill),
    /// Anything else, to be handed over as it is.
    Other(Other),
}

/// `head FROM INFILE '…' settings FORMAT format`, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insert {
    /// End of `INSERT INTO t (columns)`.
    pub head_end: usize,
    /// The `SETTINGS …` clause, if there is one.
    pub settings: Option<(usize, usize)>,
    /// The data's format.
    pub format: String,
    /// Where the data begin in the text.
    pub data_start: usize,
    /// `INSERT … SELECT … FROM input('structure')`: the word `input`, to be replaced by a file.
    pub input: Option<Token>,
}

/// A `KILL QUERY` statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    /// The condition's range.
    pub condition: (usize, usize),
    /// Whether to wait until the queries have ended.
    pub sync: bool,
    /// Whether only to say what would be killed.
    pub test: bool,
    /// The answer's format, if named.
    pub format: Option<String>,
}

/// A statement that goes to the engine unchanged, but for the listing of running queries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Other {
    /// The format named at the statement's end.
    pub format: Option<String>,
    /// Ranges of the text that name the table of running queries.
    pub processes: Vec<(usize, usize)>,
}

/// Why a statement is not handed to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nothing but blanks and comments.
    #[error("the query is empty")]
    Empty,
    /// The embedded engine would run them all; ClickHouse's HTTP interface does not.
    #[error("more than one statement in a request; send them one by one")]
    Several,
    /// Would read or write files of the server, which a real server leaves to its command line client.
    #[error("`{0}` works only in the command line client; send the data in the body, or read the answer")]
    ClientOnly(&'static str),
}

/// Takes `sql` apart. Bytes after an insert's `FORMAT x` or `VALUES` are not inspected.
pub fn analyse(sql: &[u8]) -> Result<Statement, Refused> {
    let mut tokens = Lexer::new(sql);
    let first = tokens.next().ok_or(Refused::Empty)?;
    if is(sql, first, "INSERT") {
        return insert(sql);
    }
    let tokens: Vec<Token> = Lexer::new(sql).collect();
    one_statement(&tokens)?;
    if let [kill, query, ..] = tokens.as_slice()
        && is(sql, *kill, "KILL")
        && is(sql, *query, "QUERY")
        && let Some(kill) = kill_query(sql, &tokens)
    {
        return Ok(Statement::Kill(kill));
    }
    other(sql, &tokens)
}

/// Whether `token` is the word `keyword`, in any case.
pub fn is(sql: &[u8], token: Token, keyword: &str) -> bool {
    token.kind == Kind::Word && sql[token.start..token.end].eq_ignore_ascii_case(keyword.as_bytes())
}

fn text_of(sql: &[u8], token: Token) -> String {
    String::from_utf8_lossy(&sql[token.start..token.end]).into_owned()
}

/// The text of an identifier without its quotes; escapes inside do not occur in the names looked for here.
pub fn name(sql: &[u8], token: Token) -> &[u8] {
    match token.kind {
        Kind::Quoted if token.end - token.start >= 2 => &sql[token.start + 1..token.end - 1],
        _ => &sql[token.start..token.end],
    }
}

fn one_statement(tokens: &[Token]) -> Result<(), Refused> {
    let end = tokens.iter().position(|token| token.kind == Kind::Mark(b';')).unwrap_or(tokens.len());
    match tokens[end..].iter().any(|token| token.kind != Kind::Mark(b';')) {
        true => Err(Refused::Several),
        false => Ok(()),
    }
}

fn depth_after(depth: usize, kind: Kind) -> usize {
    match kind {
        Kind::Mark(b'(' | b'[' | b'{') => depth + 1,
        Kind::Mark(b')' | b']' | b'}') => depth.saturating_sub(1),
        _ => depth,
    }
}

fn insert(sql: &[u8]) -> Result<Statement, Refused> {
    let (mut depth, mut settings, mut select, mut input) = (0, None, false, None);
    let mut tokens = Lexer::new(sql).peekable();
    let mut previous: Option<Token> = None;
    while let Some(token) = tokens.next() {
        depth = depth_after(depth, token.kind);
        let follows_dot = previous.is_some_and(|token| token.kind == Kind::Mark(b'.'));
        let word = depth == 0 && token.kind == Kind::Word && !follows_dot;
        if token.kind == Kind::Mark(b';') {
            break;
        } else if select
            && is(sql, token, "input")
            && tokens.peek().is_some_and(|next| next.kind == Kind::Mark(b'('))
        {
            input = Some(token);
        } else if !word {
        } else if is(sql, token, "INFILE") {
            return Err(Refused::ClientOnly("FROM INFILE"));
        } else if is(sql, token, "SELECT") || is(sql, token, "WITH") {
            select = true;
        } else if is(sql, token, "SETTINGS") && !select {
            settings = Some(token.start);
        } else if is(sql, token, "VALUES") && !select {
            return Ok(insert_at(token, settings, "Values".to_owned(), token.end, None));
        } else if is(sql, token, "FORMAT")
            && (!select || input.is_some())
            && let Some(format) = tokens.next().filter(|next| next.kind == Kind::Word)
        {
            let text = text_of(sql, format);
            return Ok(insert_at(token, settings, text, data_start(sql, format.end), input));
        }
        previous = Some(token);
    }
    let tokens: Vec<Token> = Lexer::new(sql).collect();
    one_statement(&tokens)?;
    other(sql, &tokens)
}

fn insert_at(
    end: Token,
    settings: Option<usize>,
    format: String,
    data_start: usize,
    input: Option<Token>,
) -> Statement {
    Statement::Insert(Insert {
        head_end: settings.unwrap_or(end.start),
        settings: settings.map(|start| (start, end.start)),
        format,
        data_start,
        input,
    })
}

/// Data begin after the format's name, blanks and one line end, as in ClickHouse. A semicolon ends the text too.
fn data_start(sql: &[u8], after_format: usize) -> usize {
    let mut at = after_format;
    let byte = |at: usize| sql.get(at).copied();
    while matches!(byte(at), Some(b' ' | b'\t' | 0x0c)) {
        at += 1;
    }
    at += usize::from(byte(at) == Some(b';'));
    at += usize::from(byte(at) == Some(b'\r'));
    at += usize::from(byte(at) == Some(b'\n'));
    at
}

fn kill_query(sql: &[u8], tokens: &[Token]) -> Option<Kill> {
    let from = tokens.iter().position(|token| is(sql, *token, "WHERE"))?;
    let ends = |token: &Token| {
        token.kind == Kind::Mark(b';')
            || ["SYNC", "ASYNC", "TEST", "FORMAT"].iter().any(|word| is(sql, *token, word))
    };
    let tail = tokens[from + 1..].iter().position(ends).map_or(tokens.len(), |found| from + 1 + found);
    let has = |word: &str| tokens[tail..].iter().any(|token| is(sql, *token, word));
    let end = tokens.get(tail).map_or(sql.len(), |token| token.start);
    let format = tokens[tail..].iter().position(|token| is(sql, *token, "FORMAT"));
    let format = format.and_then(|found| tokens.get(tail + found + 1)).map(|token| text_of(sql, *token));
    Some(Kill { condition: (tokens[from].end, end), sync: has("SYNC"), test: has("TEST"), format })
}

fn other(sql: &[u8], tokens: &[Token]) -> Result<Statement, Refused> {
    let mut found = Other::default();
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate() {
        depth = depth_after(depth, token.kind);
        let next = |ahead: usize| tokens.get(index + ahead).copied();
        if is(sql, *token, "INTO") && next(1).is_some_and(|next| is(sql, next, "OUTFILE")) {
            return Err(Refused::ClientOnly("INTO OUTFILE"));
        }
        if depth == 0
            && is(sql, *token, "FORMAT")
            && let Some(format) = next(1)
            && format.kind == Kind::Word
        {
            found.format = Some(text_of(sql, format));
        }
        let read = index > 0 && ["FROM", "JOIN"].iter().any(|word| is(sql, tokens[index - 1], word));
        if read
            && name(sql, *token) == b"system"
            && next(1).is_some_and(|dot| dot.kind == Kind::Mark(b'.'))
            && let Some(table) = next(2)
            && name(sql, table) == b"processes"
        {
            found.processes.push((token.start, table.end));
        }
    }
    Ok(Statement::Other(found))
}

#[cfg(test)]
mod tests;
