//! Text to syntax trees, and places in a tree back to places in the text.
//!
//! Owns the dialect's surface (quotes, identifiers, lambdas) and the bounds on a text. Does not own what names mean (`names`).
//!
//! | bound                | value  | reason                                                                              |
//! |----------------------|--------|-------------------------------------------------------------------------------------|
//! | [`TEXT_BYTES_MAX`]   | 64 KiB | longer ones are made by programs, and belong into a table                           |
//! | [`OPERATORS_MAX`]    | 200    | `a + b + c …` is read as a tree as deep as it is long                               |
//! | [`DEPTH_MAX`]        | 32     | planning and evaluation walk the tree on the stack; AND and OR are balanced first   |

use std::any::TypeId;
use std::ops::{ControlFlow, Range};

use datafusion_sql::sqlparser::ast::{BinaryOperator, Expr, Query, Spanned, VisitMut, VisitorMut};
use datafusion_sql::sqlparser::dialect::{Dialect, GenericDialect};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};

use crate::Fault;
use crate::fault::lower_first;

mod places;
mod types;

/// Bytes of a text.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 10;
/// Operators in a text.
pub(crate) const OPERATORS_MAX: usize = 200;
/// Expressions within expressions.
pub(crate) const DEPTH_MAX: usize = 32;

/// Generic SQL, with `x -> f(x)` as a function without a name.
#[derive(Debug)]
struct OurDialect;

impl Dialect for OurDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '"' || ch == '`'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_'
    }

    fn supports_lambda_functions(&self) -> bool {
        true
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        true
    }

    fn supports_select_wildcard_exclude(&self) -> bool {
        true
    }

    fn supports_select_wildcard_except(&self) -> bool {
        true
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }

    fn support_map_literal_syntax(&self) -> bool {
        true
    }

    fn supports_array_typedef_with_brackets(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }
}

/// A text, and where its lines begin.
pub(crate) struct Text<'a> {
    pub(crate) text: &'a str,
    lines: Vec<usize>,
}

impl<'a> Text<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, lines }
    }

    /// The whole text without blanks around it.
    pub(crate) fn whole(&self) -> Option<Range<usize>> {
        let start = self.text.len() - self.text.trim_start().len();
        let end = self.text.trim_end().len();
        (start < end).then_some(start..end)
    }

    /// The bytes of a node, as far as the parser knows them.
    pub(crate) fn range(&self, node: &impl Spanned) -> Option<Range<usize>> {
        self.range_of(node.span())
    }

    pub(crate) fn range_of(&self, span: Span) -> Option<Range<usize>> {
        if span.start.line == 0 || span.end.line == 0 {
            return None;
        }
        let (start, end) = (self.byte(span.start), self.byte(span.end));
        (start < end).then(|| self.closed(start..end))
    }

    /// With the parentheses behind it that close those within: the parser leaves them out of a call.
    fn closed(&self, range: Range<usize>) -> Range<usize> {
        let within = &self.text[range.clone()];
        let mut open = within.matches('(').count().saturating_sub(within.matches(')').count());
        let mut end = range.end;
        for (at, c) in self.text[range.end..].char_indices() {
            match c {
                ')' if open > 0 => {
                    open -= 1;
                    end = range.end + at + 1;
                }
                c if c.is_whitespace() => {}
                _ => break,
            }
        }
        range.start..end
    }

    /// Lines and columns count from 1, columns in characters.
    fn byte(&self, at: Location) -> usize {
        let Some(&start) = self.lines.get(at.line.saturating_sub(1) as usize) else { return self.text.len() };
        let line = &self.text[start..];
        line.char_indices()
            .nth(at.column.saturating_sub(1) as usize)
            .map_or(self.text.len(), |(n, _)| start + n)
    }

    /// Reads the text as one expression.
    pub(crate) fn expression(&self) -> Result<Expr, Fault> {
        self.parse(|parser| parser.parse_expr())
    }

    /// Reads the text as one query.
    pub(crate) fn query(&self) -> Result<Box<Query>, Fault> {
        self.parse(|parser| parser.parse_query())
    }

    fn parse<T: VisitMut>(
        &self,
        parse: impl FnOnce(&mut Parser) -> Result<T, ParserError>,
    ) -> Result<T, Fault> {
        let tokens = self.tokens()?;
        let mut parser =
            Parser::new(&OurDialect).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens);
        let parsed = parse(&mut parser).map_err(|error| self.not_parsed(error))?;
        let next = parser.peek_token();
        match next.token {
            Token::EOF => self.balanced(parsed),
            Token::SemiColon => {
                Err(self.fault("expected the end, found `;`; one step is one text", next.span))
            }
            other => Err(self.fault(&format!("expected an operator or the end, found `{other}`"), next.span)),
        }
    }

    fn balanced<T: VisitMut>(&self, mut parsed: T) -> Result<T, Fault> {
        let mut balance = Balance { depth: 0 };
        match parsed.visit(&mut balance) {
            ControlFlow::Continue(()) => Ok(parsed),
            ControlFlow::Break(()) => Err(self.too_deep()),
        }
    }

    fn too_deep(&self) -> Fault {
        let message = format!("more than `{DEPTH_MAX}` expressions within each other; make two steps");
        Fault::new(message, self.whole())
    }

    fn tokens(&self) -> Result<Vec<TokenWithSpan>, Fault> {
        if self.whole().is_none() {
            return Err(Fault::new("the text is empty; write an expression over the columns", None));
        }
        if self.text.len() > TEXT_BYTES_MAX {
            let message =
                format!("the text has `{}` bytes, at most `{TEXT_BYTES_MAX}` are read", self.text.len());
            return Err(Fault::new(message, None));
        }
        let tokens = Tokenizer::new(&OurDialect, self.text).tokenize_with_location().map_err(|error| {
            let from = self.byte(error.location).min(self.text.len());
            let message = format!("{}; close the quote or the comment", lower_first(&error.message));
            Fault::new(message, Some(from..self.text.len()))
        })?;
        if let Some(surplus) = tokens.iter().filter(|t| is_operator(&t.token)).nth(OPERATORS_MAX) {
            let message = format!(
                "more than `{OPERATORS_MAX}` operators; write `x IN (…)` for many values, or make two steps"
            );
            return Err(self.fault(&message, surplus.span));
        }
        if let Some((why, span)) = not_offered(&tokens) {
            return Err(self.fault(why, span));
        }
        Ok(types::with_angles(tokens))
    }

    /// The tokens and where each stands; `None` if there are none.
    pub(crate) fn places(&self) -> Option<Vec<(Token, Range<usize>)>> {
        let tokens = Tokenizer::new(&OurDialect, self.text).tokenize_with_location().ok()?;
        let place = |token: TokenWithSpan| {
            let (start, end) = (self.byte(token.span.start), self.byte(token.span.end));
            (token.token, start..end)
        };
        Some(tokens.into_iter().map(place).collect())
    }

    fn fault(&self, message: &str, span: Span) -> Fault {
        Fault::new(message, self.range_of(span))
    }

    /// The parser writes the place behind its sentence: `… at Line: 1, Column: 5`.
    fn not_parsed(&self, error: ParserError) -> Fault {
        let sentence = match error {
            ParserError::TokenizerError(sentence) | ParserError::ParserError(sentence) => sentence,
            ParserError::RecursionLimitExceeded => return self.too_deep(),
        };
        let (sentence, place) = sentence.split_once(" at Line: ").unwrap_or((&sentence, ""));
        let place = place.split_once(", Column: ").and_then(|(line, column)| {
            Some(self.byte(Location { line: line.parse().ok()?, column: column.trim().parse().ok()? }))
        });
        let parts = sentence.strip_prefix("Expected").and_then(|rest| rest.split_once(", found: "));
        let message = match parts.map(|(expected, found)| (expected.trim_start_matches([':', ' ']), found)) {
            Some((expected, found)) => {
                let one = expected.chars().all(|c| !c.is_alphanumeric());
                let expected = if one { format!("`{expected}`") } else { expected.to_owned() };
                match found {
                    "EOF" => format!("expected {expected}, found the end of the text"),
                    found => format!("expected {expected}, found `{found}`"),
                }
            }
            None => no_operator(sentence).unwrap_or_else(|| lower_first(sentence)),
        };
        let start = place.unwrap_or_else(|| self.text.trim_end().len());
        let end = self.text[start..].chars().next().map_or(start, |c| start + c.len_utf8());
        Fault::new(message, Some(start..end))
    }
}

/// Makes `a AND b AND c AND d` a tree of two levels, which means the same in the same order, and bounds the depth of all others.
struct Balance {
    depth: usize,
}

impl VisitorMut for Balance {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr {
            let op = op.clone();
            let mut parts = Vec::new();
            let mut rest = std::mem::replace(expr, Expr::Tuple(Vec::new()));
            loop {
                match rest {
                    Expr::BinaryOp { left, op: same, right } if same == op => {
                        parts.push(*right);
                        rest = *left;
                    }
                    first => break parts.push(first),
                }
            }
            parts.reverse();
            *expr = together(parts, &op).unwrap_or(Expr::Tuple(Vec::new()));
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

/// The parts in their order, half of them on each side; `None` without any.
pub(crate) fn together(mut parts: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    if parts.len() < 2 {
        return parts.pop();
    }
    let right = parts.split_off(parts.len().div_ceil(2));
    let (left, right) = (Box::new(together(parts, op)?), Box::new(together(right, op)?));
    Some(Expr::BinaryOp { left, op: op.clone(), right })
}

/// The first operator that is read otherwise elsewhere, or by nobody here, with what to write in its place.
fn not_offered(tokens: &[TokenWithSpan]) -> Option<(&'static str, Span)> {
    let tokens: Vec<&TokenWithSpan> =
        tokens.iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).collect();
    let keyword = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    let is_text = |token: &Token| matches!(token, Token::SingleQuotedString(_));
    tokens.windows(2).find_map(|pair| {
        let (token, next) = (&pair[0].token, &pair[1].token);
        let why = match (token, keyword(token), keyword(next)) {
            // The engine looks for the pattern anywhere in the text, and knows no `%`.
            (_, Some(Keyword::SIMILAR), Some(Keyword::TO)) => {
                "there is no `SIMILAR TO`; write `LIKE`, or `~` with a regular expression"
            }
            (_, Some(Keyword::RLIKE | Keyword::REGEXP), _) if is_text(next) => {
                "there is no `RLIKE` and no `REGEXP`; write `~`"
            }
            // A column may be called so; then no other name follows.
            (_, Some(Keyword::COLLATE), Some(Keyword::NoKeyword)) => {
                "there is no `COLLATE`: texts are compared by their bytes; write `lower(…)` to compare letters of both cases"
            }
            // As in Flink, where a function of windows takes a table and a descriptor.
            (_, Some(Keyword::TABLE), _) if *next == Token::LParen => {
                "there is no `TABLE(…)`; write `FROM TUMBLE(input, time, INTERVAL '1 minute')`, without `TABLE` and `DESCRIPTOR`, and other functions of windows alike"
            }
            (Token::LongArrow, ..) => "there is no `->>`; write `json_get_string(text, key_or_index)`",
            _ => return None,
        };
        Some((why, Span::new(pair[0].span.start, pair[0].span.end)))
    })
}

/// Operators that nest without a parenthesis.
fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(word.keyword, Keyword::AND | Keyword::OR | Keyword::NOT),
        Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod | Token::StringConcat => true,
        Token::Pipe | Token::Caret | Token::Ampersand | Token::ShiftLeft | Token::ShiftRight => true,
        Token::Eq | Token::Neq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq | Token::DoubleColon => {
            true
        }
        Token::LBracket | Token::Arrow | Token::LongArrow | Token::Tilde => true,
        _ => false,
    }
}

/// The parser's sentence about a keyword that it takes for an operator and has no meaning for, in words.
fn no_operator(sentence: &str) -> Option<String> {
    let (_, rest) = sentence.strip_prefix("No infix parser for token ")?.split_once("value: \"")?;
    let (word, _) = rest.split_once('"')?;
    let instead = match word.eq_ignore_ascii_case("div") {
        true => "; write `/`, which divides integers as integers",
        false => "",
    };
    Some(format!("`{word}` is no operator here{instead}"))
}
