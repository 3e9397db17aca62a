//! What the preprocessor may do to OpenCL C: which tokens stand inside conditional text, and what
//! macros may put in a name's place. Refuses to evaluate a condition other than `0` and `1`.
#![forbid(unsafe_code)]

use clscope_profile::opencl_c::{Piece, is_name, pieces, tokens};
use std::collections::{HashMap, HashSet};

/// Deepest nesting of conditionals that is looked at; compilers must take 63 (C99 5.2.4.1).
const DEEPEST: usize = 255;

/// The pieces of a source that may be compiled: text with its branch, and what macros stand for.
#[derive(Default)]
pub struct Source {
    texts: Vec<(String, usize)>,
    defines: Vec<String>,
    /// Each branch of a conditional: the branch that it stands in. The first is all of the text.
    parents: Vec<usize>,
}

/// A conditional that is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// This branch is compiled, and none that follows.
    Taken,
    /// This branch is not; one that follows may be.
    NotYet,
    /// One of another branch, or none that follows, is compiled.
    Over,
    /// Not known; the branch that it stands in.
    Maybe(usize),
}

impl Source {
    /// Of a text; `None` where conditionals are nested too deeply.
    pub fn new(source: &str) -> Option<Self> {
        let mut out = Self { parents: vec![0], ..Self::default() };
        let mut open: Vec<Open> = Vec::new();
        let mut branch = 0;
        for piece in pieces(source) {
            let is_dead = open.iter().any(|o| matches!(o, Open::NotYet | Open::Over));
            let directive = match piece {
                Piece::Text(text) => {
                    if !is_dead {
                        out.texts.push((text, branch));
                    }
                    continue;
                }
                Piece::Directive(directive) => directive,
            };
            let directive = directive.trim_start();
            let end = directive.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(directive.len());
            let (word, rest) = directive.split_at(end);
            match word {
                "if" | "ifdef" | "ifndef" => {
                    if open.len() == DEEPEST {
                        return None;
                    }
                    open.push(match (word, rest.trim()) {
                        ("if", "0") => Open::NotYet,
                        ("if", "1") => Open::Taken,
                        _ => {
                            let within = branch;
                            branch = out.branch(within);
                            Open::Maybe(within)
                        }
                    });
                }
                "else" | "elif" | "elifdef" | "elifndef" => {
                    let Some(last) = open.last_mut() else { continue };
                    match *last {
                        Open::Taken | Open::Over => *last = Open::Over,
                        Open::NotYet if word == "else" => *last = Open::Taken,
                        Open::NotYet => {
                            *last = Open::Maybe(branch);
                            branch = out.branch(branch);
                        }
                        Open::Maybe(within) => branch = out.branch(within),
                    }
                }
                "endif" => {
                    if let Some(Open::Maybe(within)) = open.pop() {
                        branch = within;
                    }
                }
                "define" if !is_dead => out.defines.push(rest.trim_start().to_owned()),
                _ => {}
            }
        }
        Some(out)
    }

    fn branch(&mut self, within: usize) -> usize {
        self.parents.push(within);
        self.parents.len() - 1
    }

    /// All tokens, and the branch of each.
    pub fn tokens(&self) -> (Vec<&str>, Vec<usize>) {
        let all = self
            .texts
            .iter()
            .flat_map(|(text, branch)| tokens(text).into_iter().map(|token| (token, *branch)));
        all.unzip()
    }

    /// Whether text of one branch is compiled wherever text of another one is.
    pub fn is_sure(&self, branch: usize, wherever: usize) -> bool {
        // A branch has a greater number than the one that it stands in.
        let mut at = wherever;
        while at > branch {
            at = self.parents.get(at).copied().unwrap_or(0);
        }
        at == branch
    }

    /// What its directives and a build's options define.
    pub fn macros<'s>(&'s self, options: &'s str) -> Macros<'s> {
        let mut out = Macros(HashMap::new());
        for define in &self.defines {
            out.add(define);
        }
        // `-DNAME=VALUE`, and `-D NAME`; the value may be followed by other options, which do no harm.
        options.split("-D").skip(1).for_each(|define| out.add(define));
        out
    }
}

/// Macros by name: the tokens that may stand for them.
pub struct Macros<'s>(HashMap<&'s str, Vec<&'s str>>);

impl<'s> Macros<'s> {
    fn add(&mut self, define: &'s str) {
        if let Some((name, stands_for)) = tokens(define).split_first() {
            self.0.entry(name).or_default().extend(stands_for);
        }
    }

    /// Whether there is one of that name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// All tokens that may come of these.
    pub fn expanded(&self, tokens: &[&'s str]) -> HashSet<&'s str> {
        let mut out = HashSet::new();
        let mut left: Vec<&str> = tokens.to_vec();
        let mut seen = HashSet::new();
        while let Some(token) = left.pop() {
            let Some(stands_for) = self.0.get(token).filter(|_| seen.insert(token)) else {
                continue;
            };
            out.extend(stands_for.iter().copied());
            left.extend(stands_for);
        }
        out
    }

    /// Whether each token stands among the arguments of a macro.
    pub fn arguments(&self, tokens: &[&str]) -> Vec<bool> {
        let mut open = Vec::new();
        let mut out = Vec::with_capacity(tokens.len());
        let mut before = "";
        for token in tokens {
            out.push(open.last().copied().unwrap_or(false));
            match *token {
                "(" => open.push(out.last().copied().unwrap_or(false) || self.has(before)),
                ")" => drop(open.pop()),
                _ => {}
            }
            before = token;
        }
        out
    }
}

const CONTROL: [&str; 10] =
    ["return", "else", "do", "goto", "case", "default", "if", "for", "while", "switch"];

/// Whether an occurrence of a name declares it anew: `int a[4]`, `float *a`, `int x = 1, a`.
pub fn declares(body: &[&str], at: usize) -> bool {
    let token = |i: Option<usize>| i.and_then(|i| body.get(i)).copied().unwrap_or_default();
    let is_type = |t: &str| is_name(t) && !CONTROL.contains(&t) && t != "sizeof";
    let before = at.checked_sub(1);
    match token(before) {
        // TYPE(4) a, or behind an attribute; not if (x) a, nor a cast.
        ")" => opening(body, at - 1).is_some_and(|o| is_type(token(o.checked_sub(1)))),
        "(" => false,
        // int (*a)[4]
        "*" if token(at.checked_sub(2)) == "(" => {
            token(Some(at + 1)) == ")" && token(Some(at + 2)) == "["
        }
        sign @ ("*" | ",") => {
            let begin = statement(body, at);
            let opens = begin.checked_sub(1);
            if ["(", "["].contains(&token(opens)) && token(begin.checked_sub(2)) != "for" {
                return false;
            }
            let first = body.get(begin..at).unwrap_or_default();
            let (words, rest) = first.split_at(first.iter().take_while(|t| is_name(t)).count());
            if words.is_empty() || !words.iter().all(|word| is_type(word)) {
                return false;
            }
            // T *b, a; T b, *a; T *a: but not x = y * a.
            let stars = rest.iter().rev().take_while(|t| **t == "*").count();
            let of_list = words.len() > 1 || rest.first() == Some(&"*");
            match rest.get(..rest.len() - stars).unwrap_or_default() {
                [] => sign == "*",
                [.., ","] => of_list,
                _ => false,
            }
        }
        word => is_type(word),
    }
}

/// Where the bracket opens that closes at `at`.
fn opening(body: &[&str], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (i, token) in body.get(..=at)?.iter().enumerate().rev() {
        match *token {
            ")" | "]" | "}" => depth += 1,
            "(" | "[" | "{" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

/// Where the statement begins that a token stands in; within brackets, behind the bracket.
fn statement(body: &[&str], at: usize) -> usize {
    let mut i = at;
    while let Some(before) = i.checked_sub(1) {
        let is_initializer = body.get(i).is_some_and(|next| [",", ";"].contains(next));
        i = match body.get(before).copied().unwrap_or_default() {
            ")" | "]" => opening(body, before).unwrap_or(before),
            "}" if is_initializer => opening(body, before).unwrap_or(before),
            ";" | "{" | "}" | "(" | "[" => return i,
            _ => before,
        };
    }
    0
}
