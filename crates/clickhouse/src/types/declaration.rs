//! A column as a statement that makes a table describes it: its type, and what follows the type.
//!
//! Owns the division of such a text (`Int8 DEFAULT 5 CODEC(ZSTD)`), and the type that the server makes of it. Does not own the grammar of types
//! (`grammar`), nor what the expressions mean: only the server reads those.

use dataflow::ColumnType;

use super::{TypeError, grammar, name, shorten};

/// What stands behind a column's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The type as `system.columns` shows it, or why no pipeline writes it.
    pub column_type: Result<ColumnType, TypeError>,
    /// The type as it is written.
    pub type_name: String,
    /// Empty, `DEFAULT`, `MATERIALIZED`, `ALIAS` or `EPHEMERAL`.
    pub default_kind: &'static str,
    /// The expression behind it; may be empty.
    pub default_expression: String,
}

/// Words that begin what follows a type, and the character that must follow them, if only then they do.
const CLAUSES: [(&str, Option<char>); 12] = [
    ("DEFAULT", None),
    ("MATERIALIZED", None),
    ("ALIAS", None),
    ("EPHEMERAL", None),
    ("NOT NULL", None),
    ("NULL", None),
    ("COMMENT", Some('\'')),
    ("CODEC", Some('(')),
    ("STATISTICS", Some('(')),
    ("SETTINGS", Some('(')),
    ("TTL", None),
    ("PRIMARY KEY", None),
];

/// Divides what describes `column`.
///
/// # Errors
/// When something in it cannot be read: then nobody here knows what the server would make of it.
pub fn declaration(column: &str, text: &str) -> Result<Declaration, TypeError> {
    let fault = |reason: String| TypeError { column: column.into(), type_name: shorten(text, 200), reason };
    let mut scan = Scan { text, at: 0 };
    let type_name = scan.until_clause(false).map_err(fault)?.trim();
    if type_name.is_empty() {
        return Err(fault("no type is named: write it before the rest, as in `UInt8 DEFAULT 5`".into()));
    }
    let (mut default_kind, mut default_expression, mut may_be_null) = ("", String::new(), None);
    while let Some(clause) = scan.clause() {
        let is_expression = matches!(clause, "DEFAULT" | "MATERIALIZED" | "ALIAS" | "EPHEMERAL");
        let body = scan.until_clause(is_expression && clause != "EPHEMERAL").map_err(fault)?.trim();
        let is_twice = match clause {
            "NULL" | "NOT NULL" => may_be_null.replace(clause == "NULL").is_some(),
            _ if is_expression => !std::mem::replace(&mut default_kind, clause).is_empty(),
            _ => false,
        };
        match clause {
            _ if is_twice => return Err(fault(format!("`{clause}` contradicts what stands before it"))),
            "NULL" | "NOT NULL" if !body.is_empty() => {
                return Err(fault(format!("`{}` follows the type", shorten(body, 20))));
            }
            "DEFAULT" | "MATERIALIZED" | "ALIAS" if body.is_empty() => {
                return Err(fault(format!("`{clause}` needs an expression behind it")));
            }
            _ if is_expression => default_expression = body.to_owned(),
            _ => {}
        }
    }
    let made = grammar::parse_declared(type_name, may_be_null == Some(true));
    Ok(Declaration {
        column_type: made.map_err(fault),
        type_name: type_name.to_owned(),
        default_kind,
        default_expression,
    })
}

impl Declaration {
    /// The type as `system.columns` shows it; as it is written, if no pipeline writes it.
    pub fn shown(&self) -> String {
        self.column_type.as_ref().map_or_else(|_| self.type_name.clone(), name)
    }
}

/// A place in the text.
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    /// What stands before the next clause, quotes and brackets whole. If `has_first`, what stands first is no clause, whatever it is called.
    fn until_clause(&mut self, has_first: bool) -> Result<&'a str, String> {
        let (start, mut open, mut before) = (self.at, Vec::new(), String::new());
        let mut is_first = has_first;
        while let Some(c) = self.text[self.at..].chars().next() {
            if c.is_alphanumeric() || c == '_' {
                let is_clause = self.clause_here().is_some_and(|(word, _)| {
                    // `x IS NOT NULL` is an expression, and so is NULL itself.
                    !(has_first
                        && (word == "NULL" || word == "NOT NULL" && before.eq_ignore_ascii_case("IS")))
                });
                if open.is_empty() && !is_first && is_clause {
                    return Ok(&self.text[start..self.at]);
                }
                before = self.word().to_owned();
                is_first = false;
                continue;
            }
            match c {
                '\'' | '"' | '`' => self.skip_quoted(c)?,
                '(' | '[' | '{' => open.push(c),
                ')' | ']' | '}' => {
                    let opens = open.pop();
                    if !matches!((opens, c), (Some('('), ')') | (Some('['), ']') | (Some('{'), '}')) {
                        return Err(format!("`{c}` closes nothing"));
                    }
                }
                ',' | ';' if open.is_empty() => {
                    return Err(format!("`{c}` follows the type: give each column a line of its own"));
                }
                _ => {}
            }
            if !matches!(c, '\'' | '"' | '`') {
                self.at += c.len_utf8();
            }
            is_first &= c.is_whitespace();
        }
        if open.is_empty() { Ok(&self.text[start..]) } else { Err("a parenthesis is not closed".into()) }
    }

    /// Takes the clause that begins here.
    fn clause(&mut self) -> Option<&'static str> {
        let (clause, bytes) = self.clause_here()?;
        self.at += bytes;
        Some(clause)
    }

    /// The clause that begins here, and the bytes of its words.
    fn clause_here(&self) -> Option<(&'static str, usize)> {
        let rest = &self.text[self.at..];
        CLAUSES.iter().find_map(|(clause, needs)| {
            let mut bytes = 0;
            for word in clause.split(' ') {
                bytes += rest[bytes..].len() - rest[bytes..].trim_start().len();
                let here = rest.get(bytes..bytes + word.len())?;
                bytes += word.len();
                let ends = !rest[bytes..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
                if !here.eq_ignore_ascii_case(word) || !ends {
                    return None;
                }
            }
            let next = rest[bytes..].trim_start().chars().next();
            needs.is_none_or(|needs| next == Some(needs)).then_some((*clause, bytes))
        })
    }

    fn word(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn skip_quoted(&mut self, quote: char) -> Result<(), String> {
        let mut chars = self.text[self.at + quote.len_utf8()..].char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => drop(chars.next()),
                _ if c == quote => {
                    self.at += quote.len_utf8() + at + c.len_utf8();
                    return Ok(());
                }
                _ => {}
            }
        }
        Err("a quote is not closed".into())
    }
}

#[cfg(test)]
mod tests;
