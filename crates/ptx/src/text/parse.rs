//! From tokens to statements.

use std::iter::Peekable;

use super::ast::{Function, Instruction, Item, Kind, Operand, Place, Space, Type, Unit, Variable};
use super::lex::{Token, Tokens};
use crate::Error;

type Result<T> = std::result::Result<T, Error>;

/// Reads a module. `name` is for messages.
pub(crate) fn parse<'a>(name: &'a str, text: &'a str) -> Result<Unit<'a>> {
    Parser { name, tokens: Tokens::of(text).peekable(), line: 1, source: (0, 0) }.unit()
}

struct Parser<'a> {
    name: &'a str,
    tokens: Peekable<Tokens<'a>>,
    line: u32,
    source: (u32, u32),
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Result<Token<'a>> {
        let (token, line) =
            self.tokens.next().ok_or_else(|| Error::syntax(self.name, self.line, "the end of the text"))?;
        self.line = line;
        if let Token::Wrong(_) = token { self.wrong(token) } else { Ok(token) }
    }

    fn peek(&mut self) -> Option<Token<'a>> {
        self.tokens.peek().map(|(token, _)| *token)
    }

    fn wrong<T>(&self, what: Token<'_>) -> Result<T> {
        Err(Error::syntax(self.name, self.line, &format!("`{}`", what.text())))
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = self.peek() == Some(Token::Mark(mark));
        if found {
            self.tokens.next();
        }
        found
    }

    fn expect(&mut self, mark: &str) -> Result<()> {
        match self.next()? {
            Token::Mark(found) if found == mark => Ok(()),
            other => self.wrong(other),
        }
    }

    fn word(&mut self) -> Result<&'a str> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            other => self.wrong(other),
        }
    }

    fn number(&mut self) -> Result<u64> {
        let negative = self.eat("-");
        let value = match self.next()? {
            Token::Decimal(text) => {
                let digits = text.trim_end_matches('U');
                let octal = digits.len() > 1 && digits.starts_with('0');
                u64::from_str_radix(digits, if octal { 8 } else { 10 }).ok()
            }
            Token::Hexadecimal(text) => u64::from_str_radix(text[2..].trim_end_matches('U'), 16).ok(),
            other => return self.wrong(other),
        };
        let value =
            value.ok_or_else(|| Error::syntax(self.name, self.line, "a number of more than 64 bits"))?;
        Ok(if negative { value.wrapping_neg() } else { value })
    }

    fn skip_to(&mut self, end: &str) -> Result<()> {
        while self.next()? != Token::Mark(end) {}
        Ok(())
    }

    fn unit(mut self) -> Result<Unit<'a>> {
        let mut unit = Unit::default();
        while self.peek().is_some() {
            match self.next()? {
                Token::Directive(".version") => unit.version = Some(self.version()?),
                Token::Directive(".target") => unit.arch = self.target()?,
                Token::Directive(".address_size") => {
                    if self.number()? != 64 {
                        return Err(Error::syntax(self.name, self.line, "an address size other than 64"));
                    }
                    unit.is_64_bit = true;
                }
                Token::Directive(".file") => self.file(&mut unit)?,
                Token::Directive(".section") => self.skip_to("}")?,
                Token::Directive(".loc") => self.location()?,
                Token::Directive(".alias" | ".pragma") => self.skip_to(";")?,
                Token::Directive(".visible" | ".extern" | ".weak" | ".common") => {}
                Token::Directive(".entry") => unit.functions.push(self.function(true)?),
                Token::Directive(".func") => unit.functions.push(self.function(false)?),
                Token::Directive(space) if space_of(space).is_some() => {
                    let space = space_of(space).expect("just asked");
                    unit.variables.extend(self.variables(space)?);
                }
                other => return self.wrong(other),
            }
        }
        Ok(unit)
    }

    /// What the version brings shows by its instructions.
    fn version(&mut self) -> Result<(u32, u32)> {
        let token = self.next()?;
        let numbers = match token {
            Token::Version(text) => text.split_once('.'),
            _ => None,
        };
        match numbers.map(|(major, minor)| (major.parse(), minor.parse())) {
            Some((Ok(major), Ok(minor))) => Ok((major, minor)),
            _ => self.wrong(token),
        }
    }

    fn target(&mut self) -> Result<u32> {
        let word = self.word()?;
        while self.eat(",") {
            self.word()?;
        }
        let digits = word.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_alphabetic());
        digits.parse().map_err(|_| Error::syntax(self.name, self.line, word))
    }

    fn file(&mut self, unit: &mut Unit<'a>) -> Result<()> {
        let number = self.number()? as u32;
        if let Token::Text(path) = self.next()? {
            unit.files.insert(number, path.trim_matches('"').to_owned());
        }
        while self.eat(",") {
            self.number()?;
        }
        Ok(())
    }

    /// `.loc file line column[, function_name label[+offset], inlined_at file line column]`
    fn location(&mut self) -> Result<()> {
        self.source = (self.number()? as u32, self.number()? as u32);
        self.number()?;
        while self.eat(",") {
            if self.word()? == "inlined_at" {
                for _ in 0..3 {
                    self.number()?;
                }
            } else {
                self.word()?;
                if self.eat("+") {
                    self.number()?;
                }
            }
        }
        Ok(())
    }

    fn function(&mut self, kernel: bool) -> Result<Function<'a>> {
        let results = if self.eat("(") { self.parameters()? } else { Vec::new() };
        let name = self.word()?;
        let parameters = if self.eat("(") { self.parameters()? } else { Vec::new() };
        let mut function = Function {
            name,
            kernel,
            results,
            parameters,
            most_threads: None,
            required_block: None,
            body: None,
        };
        loop {
            match self.next()? {
                Token::Mark(";") => return Ok(function),
                Token::Mark("{") => break,
                Token::Directive(directive) => self.directive(directive, &mut function)?,
                other => return self.wrong(other),
            }
        }
        function.body = Some(self.body()?);
        Ok(function)
    }

    /// What stands between a function's parameters and its body.
    fn directive(&mut self, directive: &str, function: &mut Function<'a>) -> Result<()> {
        match directive {
            ".maxntid" => {
                let most = self.extents()?.iter().try_fold(1_u32, |all, axis| all.checked_mul(*axis));
                function.most_threads = Some(most.unwrap_or(u32::MAX));
            }
            ".reqntid" => function.required_block = Some(self.extents()?),
            ".noreturn" => {}
            ".pragma" => self.skip_to(";")?,
            // Hints for the compiler of machine code.
            ".minnctapersm" | ".maxnctapersm" | ".maxnreg" => drop(self.number()?),
            ".explicitcluster" | ".reqnctapercluster" | ".maxclusterrank" | ".blocksareclusters" => {
                let what = format!("clusters of blocks, which {directive} asks for");
                return Err(Error::unknown(self.name, self.line, &what));
            }
            other => return Err(Error::unknown(self.name, self.line, &format!("directive {other}"))),
        }
        Ok(())
    }

    /// `x{, y{, z}}`
    fn extents(&mut self) -> Result<[u32; 3]> {
        let mut extents = [1; 3];
        for (axis, extent) in extents.iter_mut().enumerate() {
            if axis > 0 && !self.eat(",") {
                break;
            }
            let number = self.number()?;
            *extent = u32::try_from(number)
                .map_err(|_| Error::syntax(self.name, self.line, "an extent of more than 32 bits"))?;
        }
        Ok(extents)
    }

    fn parameters(&mut self) -> Result<Vec<Variable<'a>>> {
        let mut parameters = Vec::new();
        while !self.eat(")") {
            match self.next()? {
                Token::Directive(".param") => parameters.push(self.variable(Space::Param)?),
                // Functions may have their parameters in registers; nothing emits that.
                other => return self.wrong(other),
            }
            self.eat(",");
        }
        Ok(parameters)
    }

    fn variables(&mut self, space: Space) -> Result<Vec<Variable<'a>>> {
        let first = self.variable(space)?;
        let (align, element) = (first.align, first.element);
        let mut all = vec![first];
        while self.eat(",") {
            all.push(self.declarator(space, align, element)?);
        }
        self.expect(";")?;
        Ok(all)
    }

    /// `.align 8 .b8 name[16] = {1, 2}`, and the attributes of pointers.
    fn variable(&mut self, space: Space) -> Result<Variable<'a>> {
        let (mut align, mut element, mut lanes) = (0, 0, 1);
        let mut pointer = false;
        loop {
            match self.peek() {
                Some(Token::Directive(".align")) => {
                    self.next()?;
                    let wanted = self.number()?;
                    if !wanted.is_power_of_two() || wanted > 1 << 20 {
                        return Err(Error::syntax(self.name, self.line, &format!(".align {wanted}")));
                    }
                    if !pointer {
                        align = wanted;
                    }
                }
                Some(Token::Directive(".ptr")) => {
                    self.next()?;
                    pointer = true;
                }
                Some(Token::Directive(".attribute")) => self.skip_to(")")?,
                Some(Token::Directive(word)) => {
                    self.next()?;
                    match word {
                        ".v2" => lanes = 2,
                        ".v4" => lanes = 4,
                        _ if space_of(word).is_some() => {}
                        _ => match Type::of(&word[1..]) {
                            Some(of) => element = u64::from(of.bytes()),
                            None => return self.wrong(Token::Directive(word)),
                        },
                    }
                }
                _ => break,
            }
        }
        let element = element * lanes;
        self.declarator(space, align.max(element).max(1), element)
    }

    fn declarator(&mut self, space: Space, align: u64, element: u64) -> Result<Variable<'a>> {
        let (name, line) = (self.word()?, self.line);
        let (mut bytes, mut open) = (element, false);
        while self.eat("[") {
            if self.eat("]") {
                (bytes, open) = (0, true);
            } else {
                bytes *= self.number()?;
                self.expect("]")?;
            }
        }
        let mut initial = Vec::new();
        if self.eat("=") {
            match self.eat("{") {
                true => {
                    while !self.eat("}") {
                        initial.push(self.operand()?);
                        self.eat(",");
                    }
                }
                false => initial.push(self.operand()?),
            }
        }
        Ok(Variable { name, line, space, align, bytes, open, element, initial })
    }

    fn body(&mut self) -> Result<Vec<Item<'a>>> {
        let mut items = Vec::new();
        let mut depth = 1;
        loop {
            match self.next()? {
                Token::Mark("{") => {
                    depth += 1;
                    items.push(Item::Open);
                }
                Token::Mark("}") => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(items);
                    }
                    items.push(Item::Close);
                }
                Token::Mark(";") => {}
                Token::Directive(".loc") => self.location()?,
                Token::Directive(".pragma") => self.skip_to(";")?,
                Token::Directive(".reg") => items.push(self.registers()?),
                Token::Directive(space) if space_of(space).is_some() => {
                    let space = space_of(space).expect("just asked");
                    items.extend(self.variables(space)?.into_iter().map(Item::Variable));
                }
                Token::Word(word) if self.eat(":") => items.push(self.label(word)?),
                Token::Word(word) => items.push(self.instruction(None, word)?),
                Token::Mark("@") => {
                    let negated = self.eat("!");
                    let guard = (self.word()?, negated);
                    let word = self.word()?;
                    items.push(self.instruction(Some(guard), word)?);
                }
                other => return self.wrong(other),
            }
        }
    }

    fn registers(&mut self) -> Result<Item<'a>> {
        let of = loop {
            let token = self.next()?;
            let Token::Directive(word) = token else { return self.wrong(token) };
            if let Some(of) = Type::of(&word[1..]) {
                break of;
            }
            if word == ".b128" {
                break Type { kind: Kind::Bits, bits: 128 };
            }
        };
        let mut names = Vec::new();
        loop {
            let name = self.word()?;
            let count = if self.eat("<") {
                let count = self.number()? as u32;
                self.expect(">")?;
                Some(count)
            } else {
                None
            };
            names.push((name, count));
            if !self.eat(",") {
                break;
            }
        }
        self.expect(";")?;
        Ok(Item::Registers { of, names })
    }

    fn label(&mut self, word: &'a str) -> Result<Item<'a>> {
        if self.peek() == Some(Token::Directive(".branchtargets")) {
            self.next()?;
            let mut to = Vec::new();
            while !self.eat(";") {
                to.push(self.word()?);
                self.eat(",");
            }
            return Ok(Item::Targets { label: word, to });
        }
        Ok(Item::Label(word))
    }

    fn instruction(&mut self, guard: Option<(&'a str, bool)>, opcode: &'a str) -> Result<Item<'a>> {
        let place = Place { line: self.line, source: self.source };
        let mut operands = Vec::new();
        while !self.eat(";") {
            operands.push(self.operand()?);
            if self.eat("|") {
                let first = operands.pop().expect("pushed just now");
                operands.push(Operand::Pair(Box::new(first), Box::new(self.operand()?)));
            }
            self.eat(",");
        }
        Ok(Item::Instruction(Instruction { place, guard, opcode, operands }))
    }

    fn operand(&mut self) -> Result<Operand<'a>> {
        Ok(match self.peek() {
            Some(Token::Word("_")) => {
                self.next()?;
                Operand::Nothing
            }
            Some(Token::Word(word)) => {
                self.next()?;
                // `generic(symbol)` of an initial value.
                if word == "generic" && self.eat("(") {
                    let name = self.word()?;
                    self.expect(")")?;
                    return Ok(Operand::Name(name));
                }
                Operand::Name(word)
            }
            Some(Token::Float(text)) => {
                self.next()?;
                let bits = u64::from_str_radix(&text[2..], 16).unwrap_or(0);
                Operand::Float(bits)
            }
            Some(Token::Mark("[")) => self.address()?,
            Some(Token::Mark("{")) => Operand::Vector(self.list("{", "}")?),
            Some(Token::Mark("(")) => Operand::List(self.list("(", ")")?),
            Some(Token::Mark("!")) => {
                self.next()?;
                Operand::Not(self.word()?)
            }
            _ => Operand::Integer(self.number()?),
        })
    }

    fn list(&mut self, open: &str, close: &str) -> Result<Vec<Operand<'a>>> {
        self.expect(open)?;
        let mut all = Vec::new();
        while !self.eat(close) {
            all.push(self.operand()?);
            self.eat(",");
        }
        Ok(all)
    }

    fn address(&mut self) -> Result<Operand<'a>> {
        self.expect("[")?;
        let base = match self.peek() {
            Some(Token::Word(word)) => {
                self.next()?;
                Some(word)
            }
            _ => None,
        };
        let offset = match (&base, self.peek()) {
            (Some(_), Some(Token::Mark("]"))) => 0,
            (Some(_), _) => {
                self.eat("+");
                self.number()? as i64
            }
            (None, _) => self.number()? as i64,
        };
        self.expect("]")?;
        Ok(Operand::Address { base, offset })
    }
}

fn space_of(directive: &str) -> Option<Space> {
    Some(match directive {
        ".global" => Space::Global,
        ".const" => Space::Constant,
        ".shared" => Space::Shared,
        ".local" => Space::Local,
        ".param" => Space::Param,
        _ => return None,
    })
}
