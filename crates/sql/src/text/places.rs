//! The place of an expression in its text.
//!
//! Owns the characters that the parser leaves out of an expression's span: the word and the parentheses of `CAST(… AS …)` and its like, signs before
//! it, types and `IS NULL` behind it. Does not own the places of names and clauses ([`super`]).

use std::ops::Range;

use datafusion_sql::sqlparser::ast::{CastKind, Expr, Spanned};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::{OurDialect, Text};

/// The tokens of a text without blanks, each with its bytes.
struct Tokens(Vec<(Token, Range<usize>)>);

impl Text<'_> {
    /// All bytes of an expression; `None` if the parser does not know its place.
    pub(crate) fn place(&self, expr: &Expr) -> Option<Range<usize>> {
        let tokens = Tokenizer::new(&OurDialect, self.text).tokenize_with_location().ok()?;
        let tokens = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
        let places =
            tokens.map(|token| (token.token, self.byte(token.span.start)..self.byte(token.span.end)));
        let tokens = Tokens(places.collect());
        let (first, last) = self.tokens_of(expr, &tokens)?;
        Some(tokens.0[first].1.start..tokens.0[last].1.end)
    }

    /// The first and the last token of an expression.
    fn tokens_of(&self, expr: &Expr, tokens: &Tokens) -> Option<(usize, usize)> {
        let of = |expr: &Expr| self.tokens_of(expr, tokens);
        match expr {
            Expr::Cast { kind: CastKind::DoubleColon, expr, .. } => {
                let (first, last) = of(expr)?;
                Some((first, tokens.type_behind(last)))
            }
            Expr::Cast { expr, .. } | Expr::Extract { expr, .. } => Some(tokens.call_around(of(expr)?)),
            Expr::Ceil { expr, .. } | Expr::Floor { expr, .. } => Some(tokens.call_around(of(expr)?)),
            Expr::Substring { expr, .. } | Expr::Trim { expr, .. } | Expr::Position { expr, .. } => {
                Some(tokens.call_around(of(expr)?))
            }
            Expr::Overlay { expr, .. } => Some(tokens.call_around(of(expr)?)),
            Expr::UnaryOp { expr, .. } => {
                let (first, last) = of(expr)?;
                Some((first.saturating_sub(1), last))
            }
            Expr::BinaryOp { left, right, .. } => {
                let (left, right) = (of(left)?, of(right)?);
                Some(tokens.balanced(left.0, right.1))
            }
            Expr::Nested(inner) => {
                let (first, last) = of(inner)?;
                Some((first.saturating_sub(1), (last + 1).min(tokens.0.len() - 1)))
            }
            Expr::IsNull(expr) | Expr::IsNotNull(expr) | Expr::IsTrue(expr) | Expr::IsNotTrue(expr) => {
                let (first, last) = of(expr)?;
                Some((first, tokens.is_behind(last)))
            }
            Expr::IsFalse(expr) | Expr::IsNotFalse(expr) => {
                let (first, last) = of(expr)?;
                Some((first, tokens.is_behind(last)))
            }
            other => {
                let span = other.span();
                if span.start.line == 0 || span.end.line == 0 {
                    return None;
                }
                let (start, end) = (self.byte(span.start), self.byte(span.end));
                let first = tokens.0.iter().position(|(_, at)| at.start >= start)?;
                let last = tokens.0.iter().rposition(|(_, at)| at.end <= end)?;
                (first <= last).then(|| tokens.balanced(first, last))
            }
        }
    }
}

impl Tokens {
    fn token(&self, at: usize) -> Option<&Token> {
        self.0.get(at).map(|(token, _)| token)
    }

    /// With the parentheses that are open or closed within, and the word before one that is put in front.
    fn balanced(&self, mut first: usize, mut last: usize) -> (usize, usize) {
        let (mut open, mut missing) = (0_usize, 0_usize);
        for at in first..=last {
            match self.token(at) {
                Some(Token::LParen | Token::LBracket) => open += 1,
                Some(Token::RParen | Token::RBracket) if open == 0 => missing += 1,
                Some(Token::RParen | Token::RBracket) => open -= 1,
                _ => {}
            }
        }
        for _ in 0..missing {
            first = self.opening_before(first).unwrap_or(first);
        }
        if missing > 0 && first > 0 && matches!(self.token(first - 1), Some(Token::Word(_))) {
            first -= 1;
        }
        for _ in 0..open {
            last = self.closing_behind(last).unwrap_or(last);
        }
        (first, last)
    }

    /// From the word before the parenthesis around these tokens to the end of that parenthesis.
    fn call_around(&self, (first, last): (usize, usize)) -> (usize, usize) {
        let (Some(open), Some(close)) = (self.opening_before(first), self.closing_behind(last)) else {
            return (first, last);
        };
        (open.saturating_sub(1), close)
    }

    fn opening_before(&self, first: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for at in (0..first).rev() {
            match self.token(at)? {
                Token::RParen | Token::RBracket => depth += 1,
                Token::LParen | Token::LBracket if depth == 0 => return Some(at),
                Token::LParen | Token::LBracket => depth -= 1,
                _ => {}
            }
        }
        None
    }

    fn closing_behind(&self, last: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for at in last + 1..self.0.len() {
            match self.token(at)? {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket if depth == 0 => return Some(at),
                Token::RParen | Token::RBracket => depth -= 1,
                _ => {}
            }
        }
        None
    }

    /// The end of `::Type(…)`.
    fn type_behind(&self, last: usize) -> usize {
        if self.token(last + 1) != Some(&Token::DoubleColon) || self.token(last + 2).is_none() {
            return last;
        }
        match self.token(last + 3) {
            Some(Token::LParen) => self.closing_behind(last + 3).unwrap_or(last + 2),
            _ => last + 2,
        }
    }

    /// The end of `IS NOT NULL`.
    fn is_behind(&self, last: usize) -> usize {
        let is_part = |at: usize| {
            matches!(
                self.token(at),
                Some(Token::Word(word)) if matches!(word.keyword, Keyword::IS | Keyword::NOT | Keyword::NULL | Keyword::TRUE | Keyword::FALSE)
            )
        };
        let mut end = last;
        while is_part(end + 1) {
            end += 1;
        }
        end
    }
}
