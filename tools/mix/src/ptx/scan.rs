//! Statements of PTX text: where each begins and ends. Owns comments, strings and braces; refuses
//! to know what an instruction does.

use crate::Error;
use std::fmt;

/// Walks through the text.
pub(super) struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

/// A module: its head, and the bodies of its functions.
pub(super) struct Module<'t> {
    pub version: (u32, u32),
    pub target: u32,
    pub address_size: u32,
    /// Behind the directives that must come first.
    pub head: usize,
    /// Behind the last function: what follows there may be no text for the assembler.
    pub tail: usize,
    pub bodies: Vec<Body<'t>>,
}

/// A function's body.
pub(super) struct Body<'t> {
    pub name: &'t str,
    pub entry: bool,
    /// Behind the opening brace.
    pub begin: usize,
    /// The closing brace.
    pub end: usize,
    pub statements: Vec<Statement<'t>>,
}

/// A statement that matters to the flow of control.
pub(super) enum Statement<'t> {
    Label {
        at: usize,
        name: &'t str,
    },
    Instruction {
        at: usize,
        /// Behind its semicolon.
        end: usize,
        guard: Option<Guard<'t>>,
        opcode: &'t str,
        operands: &'t str,
    },
}

/// What an instruction waits for: `%p1` or `!%p1`.
#[derive(Clone, Copy)]
pub(crate) struct Guard<'t> {
    pub not: bool,
    pub predicate: &'t str,
}

impl fmt::Display for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.not { "!" } else { "" }, self.predicate)
    }
}

fn word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'%')
}

impl<'t> Scanner<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn error(&self, what: &'static str) -> Error {
        let before = self.text.get(..self.at).unwrap_or(self.text);
        Error::Syntax {
            language: "PTX",
            at: 1 + before.bytes().filter(|byte| *byte == b'\n').count(),
            what,
        }
    }

    /// Passes white space and comments.
    pub fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            let rest = self.rest();
            if rest.starts_with("//") {
                self.skip_line();
            } else if rest.starts_with("/*") {
                self.at += rest.find("*/").map_or(rest.len(), |end| end + 2);
            } else {
                return;
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = self.rest();
        self.at += rest.find('\n').map_or(rest.len(), |end| end + 1);
    }

    /// A run of the bytes that names and opcodes are made of, and dots.
    fn token(&mut self) -> &'t str {
        let rest = self.rest();
        let length = rest.bytes().take_while(|byte| word(*byte) || *byte == b'.').count();
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    fn name(&mut self) -> &'t str {
        let rest = self.rest();
        let length = rest.bytes().take_while(|byte| word(*byte)).count();
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    /// One character, a string or a comment as a whole.
    fn step(&mut self) {
        let rest = self.rest();
        if rest.starts_with("//") || rest.starts_with("/*") {
            self.skip_blank();
        } else if let Some(string) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = string.bytes().position(|byte| {
                let ends = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                ends
            });
            self.at += end.map_or(rest.len(), |end| end + 2);
        } else {
            self.at += rest.chars().next().map_or(0, char::len_utf8);
        }
    }

    /// Goes to the next of these characters outside of strings and comments.
    fn find(&mut self, wanted: &[u8]) -> Option<u8> {
        loop {
            let next = self.peek()?;
            if wanted.contains(&next) {
                return Some(next);
            }
            self.step();
        }
    }

    /// Passes what stands between this bracket and its partner.
    fn skip_pair(&mut self, open: u8, close: u8) -> Result<(), Error> {
        let mut depth = 0usize;
        while let Some(found) = self.find(&[open, close]) {
            self.at += 1;
            depth = if found == open { depth + 1 } else { depth.saturating_sub(1) };
            if depth == 0 {
                return Ok(());
            }
        }
        Err(self.error("a bracket is not closed"))
    }
}

fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

pub(super) fn module(text: &str) -> Result<Module<'_>, Error> {
    let mut s = Scanner::new(text);
    s.skip_blank();
    if s.token() != ".version" {
        return Err(s.error("it does not begin with .version"));
    }
    s.skip_blank();
    let version = version(s.token()).ok_or_else(|| s.error("the version is no number"))?;
    let mut out = Module {
        version,
        target: 0,
        address_size: 32,
        head: s.at,
        tail: text.len(),
        bodies: Vec::new(),
    };
    loop {
        s.skip_blank();
        let Some(next) = s.peek() else { return Ok(out) };
        let begin = s.at;
        match s.token() {
            ".target" => {
                s.skip_blank();
                // With a letter behind it where it is for this device alone (sm_90a).
                let digits = s.name().strip_prefix("sm_").unwrap_or_default();
                let digits = digits.trim_end_matches(|c: char| c.is_ascii_alphabetic());
                out.target = digits.parse().unwrap_or(0);
                s.skip_line();
                out.head = s.at;
            }
            ".address_size" => {
                s.skip_blank();
                out.address_size =
                    s.token().parse().map_err(|_| s.error("the address size is no number"))?;
                out.head = s.at;
            }
            ".file" | ".loc" => s.skip_line(),
            ".section" | ".metadata_section" => {
                s.find(b"{").ok_or_else(|| s.error("a section has no content"))?;
                s.skip_pair(b'{', b'}')?;
            }
            "" if next == b';' => s.at += 1,
            "" => return Err(s.error("no directive begins so")),
            _ => {
                s.at = begin;
                if let Some(body) = declaration(&mut s)? {
                    out.bodies.push(body);
                    out.tail = s.at;
                }
            }
        }
    }
}

/// A declaration of the module: a function with a body, or anything that ends in a semicolon.
fn declaration<'t>(s: &mut Scanner<'t>) -> Result<Option<Body<'t>>, Error> {
    let mut entry = None;
    let mut name = "";
    loop {
        s.skip_blank();
        match s.peek() {
            None if entry.is_some() => return Err(s.error("a function has no body")),
            // Directives that this reader does not know may end without a semicolon; functions
            // behind one would have been found.
            None => return Ok(None),
            Some(b';') => {
                s.at += 1;
                return Ok(None);
            }
            Some(b'(') => s.skip_pair(b'(', b')')?,
            Some(b'{') => match entry {
                Some(entry) => return body(s, name, entry).map(Some),
                // The value of a variable.
                None => s.skip_pair(b'{', b'}')?,
            },
            Some(byte) if word(byte) || byte == b'.' => match s.token() {
                ".entry" => entry = Some(true),
                ".func" => entry = Some(false),
                token if entry.is_some() && name.is_empty() && !token.starts_with('.') => {
                    name = token;
                }
                _ => {}
            },
            Some(_) => s.step(),
        }
    }
}

fn body<'t>(s: &mut Scanner<'t>, name: &'t str, entry: bool) -> Result<Body<'t>, Error> {
    s.at += 1;
    let mut out = Body { name, entry, begin: s.at, end: s.at, statements: Vec::new() };
    let mut depth = 1usize;
    loop {
        s.skip_blank();
        let at = s.at;
        match s.peek() {
            None => return Err(s.error("a function's body has no end")),
            Some(b'{') => {
                depth += 1;
                s.at += 1;
            }
            Some(b'}') => {
                depth -= 1;
                if depth == 0 {
                    out.end = at;
                    s.at += 1;
                    return Ok(out);
                }
                s.at += 1;
            }
            Some(b';') => s.at += 1,
            Some(b'.') => match s.token() {
                ".loc" | ".file" => s.skip_line(),
                _ => {
                    s.find(b";").ok_or_else(|| s.error("a directive has no end"))?;
                    s.at += 1;
                }
            },
            Some(b'@') => {
                s.at += 1;
                s.skip_blank();
                let not = s.peek() == Some(b'!');
                if not {
                    s.at += 1;
                    s.skip_blank();
                }
                let predicate = s.name();
                if predicate.is_empty() {
                    return Err(s.error("a guard names no predicate"));
                }
                s.skip_blank();
                out.statements.push(instruction(s, at, Some(Guard { not, predicate }))?);
            }
            Some(byte) if word(byte) => {
                let before = s.at;
                let name = s.name();
                let is_label = !name.is_empty() && {
                    s.skip_blank();
                    s.peek() == Some(b':') && !s.rest().starts_with("::")
                };
                if is_label {
                    s.at += 1;
                    out.statements.push(Statement::Label { at, name });
                } else {
                    s.at = before;
                    out.statements.push(instruction(s, at, None)?);
                }
            }
            Some(_) => return Err(s.error("no statement begins so")),
        }
    }
}

fn instruction<'t>(
    s: &mut Scanner<'t>,
    at: usize,
    guard: Option<Guard<'t>>,
) -> Result<Statement<'t>, Error> {
    let rest = s.rest();
    // Opcodes may hold `::` (cp.async.bulk.shared::cluster).
    let length = rest.bytes().take_while(|byte| word(*byte) || matches!(byte, b'.' | b':')).count();
    let opcode = rest.get(..length).unwrap_or_default();
    if opcode.is_empty() {
        return Err(s.error("an instruction has no name"));
    }
    s.at += length;
    let begin = s.at;
    s.find(b";").ok_or_else(|| s.error("an instruction has no end"))?;
    let operands = s.text.get(begin..s.at).unwrap_or_default();
    s.at += 1;
    Ok(Statement::Instruction { at, end: s.at, guard, opcode, operands })
}
