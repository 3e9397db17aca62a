//! What the preprocessor may do to OpenCL C: which tokens stand inside conditional text, and what
//! macros put in a name's place, or may put there. Refuses to evaluate a condition other than `0`
//! and `1`.

use clscope_profile::opencl_c::{Piece, bracketed, is_name, pieces, tokens};
use std::collections::{HashMap, HashSet};

/// Deepest nesting of conditionals that is looked at; compilers must take 63 (C99 5.2.4.1).
const DEEPEST: usize = 255;
/// Most tokens that macros may make of a source.
const MOST_TOKENS: usize = 1 << 21;
/// Deepest nesting of macros that is followed.
const DEEPEST_MACRO: usize = 64;

/// The pieces of a source that may be compiled: text with its branch, and what macros stand for.
#[derive(Default)]
pub struct Source {
    texts: Vec<(String, usize)>,
    /// Definitions of macros with their branches.
    defines: Vec<(String, usize)>,
    /// Names whose definition is taken back somewhere.
    undefined: Vec<String>,
    /// Something is included: it may define anything.
    includes: bool,
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
                "define" if !is_dead => out.defines.push((rest.trim_start().to_owned(), branch)),
                "undef" if !is_dead => out.undefined.push(rest.trim().to_owned()),
                "include" | "include_next" | "import" if !is_dead => out.includes = true,
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
        let mut out = Macros { stands_for: HashMap::new(), known: HashMap::new() };
        for (define, branch) in &self.defines {
            out.add(define);
            out.know(define, *branch == 0 && !self.includes);
        }
        // `-DNAME=VALUE`, and `-D NAME`; the value may be followed by other options, which do no
        // harm.
        for define in options.split("-D").skip(1) {
            out.add(define);
            out.know(define, false);
        }
        for name in &self.undefined {
            out.know(name, false);
        }
        out
    }
}

/// A macro that is defined once, and always.
struct Macro<'s> {
    /// Its parameters; `None` of one that takes none.
    parameters: Option<Vec<&'s str>>,
    body: Vec<&'s str>,
}

/// Macros by name.
pub struct Macros<'s> {
    /// The tokens that may stand for them.
    stands_for: HashMap<&'s str, Vec<&'s str>>,
    /// What is certain to stand for them; `None` where that is not.
    known: HashMap<&'s str, Option<Macro<'s>>>,
}

impl<'s> Macros<'s> {
    fn add(&mut self, define: &'s str) {
        if let Some((name, stands_for)) = tokens(define).split_first() {
            self.stands_for.entry(name).or_default().extend(stands_for);
        }
    }

    /// Takes note of a definition; a second one of a name makes both uncertain.
    fn know(&mut self, define: &'s str, is_sure: bool) {
        let all = tokens(define);
        let Some((name, rest)) = all.split_first() else { return };
        let takes = define.get(name.len()..).is_some_and(|rest| rest.starts_with('('));
        let (list, body) = match takes.then(|| bracketed(rest, 0)).flatten() {
            Some((list, after)) => (Some(list), rest.get(after..).unwrap_or_default()),
            None => (None, rest),
        };
        let words = |list: &[&'s str]| -> Vec<&'s str> {
            list.iter().copied().filter(|token| *token != ",").collect()
        };
        let parameters = list.map(words);
        let is_plain = is_sure
            && takes == parameters.is_some()
            && parameters.iter().flatten().all(|p| is_name(p))
            && !body.contains(&"#");
        let of = is_plain.then(|| Macro { parameters, body: body.to_vec() });
        self.known.entry(name).and_modify(|known| *known = None).or_insert(of);
    }

    /// The tokens with their branches, and with what is certain to stand for macros in their
    /// places. Others stay as they are; all do where there would be too many.
    pub fn replaced(
        &self,
        tokens: Vec<&'s str>,
        branches: Vec<usize>,
    ) -> (Vec<&'s str>, Vec<usize>) {
        let given: Vec<(&str, usize)> = tokens.into_iter().zip(branches).collect();
        let mut out = Vec::with_capacity(given.len());
        let all = match self.replace(&given, &mut Vec::new(), &mut out) {
            Some(()) => out,
            None => given,
        };
        all.into_iter().unzip()
    }

    /// `None` where there are too many.
    fn replace(
        &self,
        given: &[Token<'s>],
        within: &mut Vec<&'s str>,
        out: &mut Vec<Token<'s>>,
    ) -> Option<()> {
        let mut at = 0;
        while let Some((token, branch)) = given.get(at).copied() {
            if out.len() > MOST_TOKENS || within.len() > DEEPEST_MACRO {
                return None;
            }
            at += 1;
            let of = self.known.get(token).and_then(Option::as_ref);
            let Some(of) = of.filter(|_| !within.contains(&token)) else {
                out.push((token, branch));
                continue;
            };
            let body: Vec<(&str, usize)> = match &of.parameters {
                None => of.body.iter().map(|t| (*t, branch)).collect(),
                Some(parameters) => {
                    let Some((arguments, after)) = arguments(given, at, branch) else {
                        out.push((token, branch));
                        continue;
                    };
                    let none = parameters.is_empty() && arguments.iter().all(|a| a.is_empty());
                    if !none && arguments.len() != parameters.len() {
                        out.push((token, branch));
                        continue;
                    }
                    at = after;
                    let mut body = Vec::new();
                    for token in &of.body {
                        match parameters.iter().position(|p| p == token) {
                            Some(which) => {
                                // An argument is replaced before it stands in the body.
                                let argument = arguments.get(which).copied().unwrap_or_default();
                                self.replace(argument, within, &mut body)?;
                            }
                            None => body.push((*token, branch)),
                        }
                        if body.len() > MOST_TOKENS {
                            return None;
                        }
                    }
                    body
                }
            };
            within.push(token);
            let done = self.replace(&body, within, out);
            within.pop();
            done?;
        }
        Some(())
    }

    /// Whether there is one of that name.
    pub fn has(&self, name: &str) -> bool {
        self.stands_for.contains_key(name)
    }

    /// All tokens that may come of these.
    pub fn expanded(&self, tokens: &[&'s str]) -> HashSet<&'s str> {
        let mut out = HashSet::new();
        let mut left: Vec<&str> = tokens.to_vec();
        let mut seen = HashSet::new();
        while let Some(token) = left.pop() {
            let Some(stands_for) = self.stands_for.get(token).filter(|_| seen.insert(token)) else {
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

/// A token and its branch.
type Token<'s> = (&'s str, usize);
/// The tokens of each argument, and where it goes on.
type Arguments<'t, 's> = (Vec<&'t [Token<'s>]>, usize);

/// The arguments of a macro whose bracket stands at `at`, all of one branch, and where it goes on.
fn arguments<'t, 's>(
    given: &'t [Token<'s>],
    at: usize,
    branch: usize,
) -> Option<Arguments<'t, 's>> {
    if given.get(at)?.0 != "(" {
        return None;
    }
    let (mut depth, mut begin, mut out) = (0_usize, at + 1, Vec::new());
    for (i, (token, of)) in given.iter().enumerate().skip(at) {
        if *of != branch {
            return None;
        }
        match *token {
            "(" => depth += 1,
            ")" if depth == 1 => {
                out.push(given.get(begin..i)?);
                return Some((out, i + 1));
            }
            ")" => depth -= 1,
            "," if depth == 1 => {
                out.push(given.get(begin..i)?);
                begin = i + 1;
            }
            _ => {}
        }
    }
    None
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
pub(super) fn opening(body: &[&str], at: usize) -> Option<usize> {
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
