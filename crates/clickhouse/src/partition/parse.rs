//! The small part of ClickHouse's expressions that partition keys and constant defaults are written in.
//!
//! Owns the grammar: names, numbers, texts, calls, tuples, `%`, a sign. Does not own what is supported (`eval`).

/// Nesting of expressions.
const DEPTH_MAX: usize = 16;
/// Bytes of an expression.
const BYTES_MAX: usize = 16 << 10;

/// Functions whose value depends on their arguments only, as they appear in constant defaults.
const PURE: &[&str] = &[
    "array",
    "map",
    "tuple",
    "negate",
    "plus",
    "minus",
    "multiply",
    "cast",
    "_cast",
    "tostring",
    "tofixedstring",
    "touuid",
    "todate",
    "todate32",
    "todatetime",
    "todatetime64",
    "todecimal32",
    "todecimal64",
    "todecimal128",
    "toint8",
    "toint16",
    "toint32",
    "toint64",
    "touint8",
    "touint16",
    "touint32",
    "touint64",
    "tofloat32",
    "tofloat64",
    "tobool",
    "toipv4",
    "toipv6",
    "upper",
    "lower",
    "concat",
    "emptyarraystring",
];

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Name(String),
    Int(i64),
    /// A number that is not a 64-bit integer; only its constancy matters.
    Number,
    Text(String),
    Call(String, Vec<Expr>),
}

impl Expr {
    pub(super) fn is_constant(&self) -> bool {
        match self {
            Self::Name(name) => matches!(name.to_lowercase().as_str(), "null" | "true" | "false"),
            Self::Int(_) | Self::Number | Self::Text(_) => true,
            Self::Call(name, arguments) => {
                PURE.contains(&name.to_lowercase().as_str()) && arguments.iter().all(Expr::is_constant)
            }
        }
    }
}

/// The parts of a partition key: those of a tuple, or the expression itself.
pub(super) fn key(text: &str) -> Result<Vec<Expr>, String> {
    Ok(match expression(text)? {
        Expr::Call(name, parts) if name == "tuple" => parts,
        // The server writes the parts of a key without the parentheses around them.
        other => vec![other],
    })
}

/// One expression; several with commas between them are a tuple.
pub(super) fn expression(text: &str) -> Result<Expr, String> {
    if text.len() > BYTES_MAX {
        return Err(format!("an expression may have {BYTES_MAX} bytes at the most"));
    }
    let mut parser = Parser { rest: text, depth: 0 };
    let mut parts = vec![parser.sum()?];
    while parser.take(",") {
        parts.push(parser.sum()?);
    }
    if !parser.skip().is_empty() {
        return Err(format!("`{}` is not understood", parser.rest));
    }
    Ok(if parts.len() == 1 { parts.remove(0) } else { Expr::Call("tuple".into(), parts) })
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn skip(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        self.rest
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.skip().starts_with(token);
        if found {
            self.rest = &self.rest[token.len()..];
        }
        found
    }

    fn sum(&mut self) -> Result<Expr, String> {
        let mut left = self.product()?;
        loop {
            let name = if self.take("+") {
                "plus"
            } else if self.take("-") {
                "minus"
            } else {
                return Ok(left);
            };
            left = Expr::Call(name.into(), vec![left, self.product()?]);
        }
    }

    fn product(&mut self) -> Result<Expr, String> {
        let mut left = self.unary()?;
        loop {
            let name = if self.take("%") {
                "modulo"
            } else if self.take("*") {
                "multiply"
            } else if self.take("/") {
                "divide"
            } else {
                return Ok(left);
            };
            left = Expr::Call(name.into(), vec![left, self.unary()?]);
        }
    }

    fn unary(&mut self) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("expressions may nest {DEPTH_MAX} deep at the most"));
        }
        let result = if self.take("-") {
            match self.unary()? {
                Expr::Int(n) => Ok(Expr::Int(-n)),
                other => Ok(Expr::Call("negate".into(), vec![other])),
            }
        } else {
            self.atom()
        };
        self.depth -= 1;
        result
    }

    fn atom(&mut self) -> Result<Expr, String> {
        let rest = self.skip();
        match rest.chars().next() {
            None => Err("it ends too early".into()),
            Some('(') => {
                self.take("(");
                let mut parts = self.list(")")?;
                Ok(if parts.len() == 1 { parts.remove(0) } else { Expr::Call("tuple".into(), parts) })
            }
            Some('[') => {
                self.take("[");
                Ok(Expr::Call("array".into(), self.list("]")?))
            }
            Some('\'') => self.quoted('\'').map(Expr::Text),
            Some(quote @ ('`' | '"')) => self.quoted(quote).map(Expr::Name),
            Some(c) if c.is_ascii_digit() => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => self.word(),
            Some(c) => Err(format!("`{c}` is not understood")),
        }
    }

    fn list(&mut self, end: &str) -> Result<Vec<Expr>, String> {
        let mut parts = Vec::new();
        while !self.take(end) {
            parts.push(self.sum()?);
            if !self.take(",") && !self.skip().starts_with(end) {
                return Err(format!("`{end}` is missing"));
            }
        }
        Ok(parts)
    }

    fn number(&mut self) -> Result<Expr, String> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(text.parse().map_or(Expr::Number, Expr::Int))
    }

    fn word(&mut self) -> Result<Expr, String> {
        let end =
            self.rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if self.take("(") {
            Ok(Expr::Call(word.into(), self.list(")")?))
        } else {
            Ok(Expr::Name(word.into()))
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => text.extend(chars.next().map(|(_, c)| c)),
                c if c == quote => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        Err("a quote is not closed".into())
    }
}
