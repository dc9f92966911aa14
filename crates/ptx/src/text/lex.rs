//! Tokens of PTX (PTX ISA 9.0, section 4).

use logos::{Lexer, Logos};

#[derive(Logos, Clone, Copy, Debug, PartialEq)]
#[logos(skip r"[ \t\r\n\f]+")]
#[logos(skip r"//[^\n]*")]
#[logos(skip r"/\*([^*]|\*[^/])*\*/")]
pub(crate) enum Token<'a> {
    /// `.reg`, `.shared::cta`
    #[regex(r"\.[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z0-9_]+)*")]
    Directive(&'a str),
    /// A name, or an opcode with its modifiers: `ld.relaxed.gpu.u32`, `%tid.x`, `$L__BB0_2`
    #[regex(r"[A-Za-z_%$][A-Za-z0-9_$]*((\.|::)[A-Za-z0-9_]+)*")]
    Word(&'a str),
    #[regex(r"0[xX][0-9A-Fa-f]+U?")]
    Hexadecimal(&'a str),
    #[regex(r"0[fFdD][0-9A-Fa-f]+")]
    Float(&'a str),
    #[regex(r"[0-9]+U?", priority = 3)]
    Decimal(&'a str),
    /// `9.0` of `.version`
    #[regex(r"[0-9]+\.[0-9]+")]
    Version(&'a str),
    #[regex(r#""[^"]*""#)]
    Text(&'a str),
    #[regex(r"[@!(){}\[\],;:=|<>+\-]")]
    Mark(&'a str),
    /// What is no token of PTX.
    Wrong(&'a str),
}

/// The tokens of a text, each with its line.
pub(crate) struct Tokens<'a> {
    lexer: Lexer<'a, Token<'a>>,
    line: u32,
    /// Up to where lines are counted.
    seen: usize,
}

impl<'a> Tokens<'a> {
    pub(crate) fn of(text: &'a str) -> Tokens<'a> {
        Tokens { lexer: Token::lexer(text), line: 1, seen: 0 }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = (Token<'a>, u32);

    fn next(&mut self) -> Option<(Token<'a>, u32)> {
        let token = self.lexer.next()?;
        let begin = self.lexer.span().start;
        let passed = &self.lexer.source().as_bytes()[self.seen..begin];
        self.line += passed.iter().filter(|byte| **byte == b'\n').count() as u32;
        self.seen = begin;
        Some((token.unwrap_or(Token::Wrong(self.lexer.slice())), self.line))
    }
}

impl<'a> Token<'a> {
    /// As it stands in the text.
    pub(crate) fn text(self) -> &'a str {
        match self {
            Token::Directive(text)
            | Token::Word(text)
            | Token::Hexadecimal(text)
            | Token::Float(text)
            | Token::Decimal(text)
            | Token::Version(text)
            | Token::Text(text)
            | Token::Mark(text)
            | Token::Wrong(text) => text,
        }
    }
}
