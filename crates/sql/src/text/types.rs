//! `Array(t)` within a type, as ClickHouse writes it.
//!
//! Owns its other form: the parser of generic SQL knows it as `Array<t>`. Does not own what a type means (`crate::types`).

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Puts angles in place of the brackets of every `Array(t)` behind `AS` or `::`.
pub(super) fn with_angles(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_before_type = |token: &Token| match token {
        Token::Word(word) => word.keyword == Keyword::AS,
        other => *other == Token::DoubleColon,
    };
    for at in 0..tokens.len() {
        if is_before_type(&tokens[at].token) {
            of_type(&mut tokens[at + 1..]);
        }
    }
    tokens
}

/// The same for the type that `tokens` begin with, if it is one.
fn of_type(tokens: &mut [TokenWithSpan]) {
    // Of each bracket that is open, whether it is an array's.
    let mut open: Vec<bool> = Vec::new();
    let mut before: Option<Keyword> = None;
    for token in tokens.iter_mut().map(|token| &mut token.token) {
        match token {
            Token::Whitespace(_) => continue,
            Token::Word(word) if open.is_empty() && before.is_none() => before = Some(word.keyword),
            Token::Word(word) if !open.is_empty() => before = Some(word.keyword),
            Token::LParen if before.is_some() => {
                open.push(before.take() == Some(Keyword::ARRAY));
                if open.last() == Some(&true) {
                    *token = Token::Lt;
                }
            }
            Token::RParen => {
                match open.pop() {
                    None => return,
                    Some(true) => *token = Token::Gt,
                    Some(false) => {}
                }
                if open.is_empty() {
                    return;
                }
            }
            _ if open.is_empty() => return,
            _ => before = None,
        }
    }
}
