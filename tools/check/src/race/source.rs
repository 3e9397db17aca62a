//! What a kernel's OpenCL C source says of its pointers: read, written, or not told. Follows them
//! into the source's functions, and into pointers that are declared with them. Refuses to guess:
//! what may be left out by the preprocessor, is hidden in macros or by another declaration, or goes
//! where it cannot be followed is not told.

use super::conditional::{Macros, Source, declares};
use super::flow::{Flow, built_in, flow};
use clscope_profile::opencl_c::{MOST, bracketed, definitions, is_name, parameters};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Most functions of a source that are looked at.
const MOST_FUNCTIONS: usize = 4096;
/// Most pointers that are copied one from the other.
const DEEPEST: usize = 16;

/// What a kernel does with the memory of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It reads it, and cannot write it.
    Reads,
    /// It writes it, and may read it.
    Writes,
    /// It does not touch it.
    Nothing,
    /// That is not known.
    Unknown(Why),
}

/// Why it is not known what a kernel does with an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// There is no source that shows it, and the runtime does not say.
    Untold,
    /// The same, of a program that was not made of source.
    Unseen,
    /// Its use may not be compiled.
    Conditional,
    /// Its name is declared again in the kernel.
    Redeclared,
    /// A macro may use it, or leave its use out.
    Macro,
    /// It goes to a function or into another pointer.
    Passed,
    /// The kernel is defined several times, and not alike.
    Differs,
}

impl Why {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Untold => "neither source nor runtime says",
            Self::Unseen => "of a binary or SPIR-V, and the runtime does not say",
            Self::Conditional => "used inside #if or #ifdef",
            Self::Redeclared => "its name is declared again in the kernel",
            Self::Macro => "used by way of a macro",
            Self::Passed => "passed to a function or copied into a pointer",
            Self::Differs => "the kernel is defined several times",
        }
    }
}

/// What a kernel does with each of its parameters; `None` where the source does not show the
/// kernel. `options` are those of the build: what they define is not in the source.
pub fn accesses(source: &str, options: &str, kernel: &str) -> Option<Vec<Access>> {
    if source.len() > MOST || kernel.is_empty() {
        return None;
    }
    let source = Source::new(source)?;
    let macros = source.macros(options);
    let (tokens, branches) = source.tokens();
    let (tokens, branches) = macros.replaced(tokens, branches);
    let text = Text::new(&source, &macros, &tokens, &branches);
    let mut each = definitions(&tokens, kernel).map(|at| text.definition(at));
    let mut out = each.next()??;
    for other in each {
        let other = other.filter(|other| other.len() == out.len())?;
        for (known, other) in out.iter_mut().zip(other) {
            if *known != other {
                *known = Access::Unknown(Why::Differs);
            }
        }
    }
    Some(out)
}

/// A source's tokens, and what the preprocessor may do to them.
struct Text<'t, 's> {
    source: &'s Source,
    macros: &'t Macros<'s>,
    tokens: &'t [&'s str],
    branches: &'t [usize],
    /// Where functions with a body have their names.
    functions: HashMap<&'s str, Vec<usize>>,
    /// What definitions do that were looked at; nothing of those that are looked at now.
    known: RefCell<HashMap<usize, Option<Vec<Access>>>>,
}

impl<'t, 's> Text<'t, 's> {
    fn new(
        source: &'s Source,
        macros: &'t Macros<'s>,
        tokens: &'t [&'s str],
        branches: &'t [usize],
    ) -> Self {
        let functions = functions(tokens);
        Self { source, macros, tokens, branches, functions, known: RefCell::default() }
    }

    /// What a function does with one of its parameters.
    fn function(&self, name: &str, index: usize) -> Access {
        let Some(all) = self.functions.get(name) else { return built_in(name, index) };
        let mut found = None;
        for at in all {
            let access = self.definition(*at).and_then(|all| all.get(index).copied());
            let Some(access) = access else { return Access::Unknown(Why::Passed) };
            if found.is_some_and(|found| found != access) {
                return Access::Unknown(Why::Differs);
            }
            found = Some(access);
        }
        found.unwrap_or(Access::Unknown(Why::Passed))
    }

    /// What the definition does whose name stands at `at`.
    fn definition(&self, at: usize) -> Option<Vec<Access>> {
        if let Some(known) = self.known.borrow().get(&at) {
            return known.clone();
        }
        if self.known.borrow().len() > MOST_FUNCTIONS {
            return None;
        }
        // A function that calls itself does not show what it does.
        self.known.borrow_mut().insert(at, None);
        let found = self.looked_at(at);
        self.known.borrow_mut().insert(at, found.clone());
        found
    }

    fn looked_at(&self, at: usize) -> Option<Vec<Access>> {
        let (list, after) = bracketed(self.tokens, at + 1)?;
        if self.tokens.get(after) != Some(&"{") {
            return None;
        }
        let (body, end) = bracketed(self.tokens, after)?;
        // Parameters that may be left out, or become several, have no numbers.
        let own = *self.branches.get(after)?;
        if self.branches.get(at..after)?.iter().any(|branch| *branch != own) {
            return None;
        }
        let parameters = parameters(list);
        let is_hidden = |p: &&[&str]| p.iter().filter(|t| is_name(t)).count() < 2;
        if self.macros.expanded(list).contains(",") || parameters.iter().any(is_hidden) {
            return None;
        }
        let branches = self.branches.get(after..end)?;
        if !are_balanced(self.tokens.get(after..end)?, branches) {
            return None;
        }
        let sure: Vec<bool> = self
            .branches
            .get(after + 1..end - 1)?
            .iter()
            .map(|branch| self.source.is_sure(*branch, own))
            .collect();
        let kernel = Kernel {
            text: self,
            body,
            sure,
            in_macro: self.macros.arguments(body),
            expanded: self.macros.expanded(body),
        };
        Some(parameters.into_iter().map(|parameter| kernel.access(parameter)).collect())
    }
}

/// Where functions with a body have their names.
fn functions<'s>(tokens: &[&'s str]) -> HashMap<&'s str, Vec<usize>> {
    let mut out: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let begins = is_name(token) && tokens.get(at + 1) == Some(&"(");
        match *token {
            "{" => match bracketed(tokens, at) {
                Some((_, after)) => at = after,
                None => return out,
            },
            _ if begins => {
                let Some((_, after)) = bracketed(tokens, at + 1) else { return out };
                match tokens.get(after) == Some(&"{") {
                    true => {
                        out.entry(token).or_default().push(at);
                        at = after;
                    }
                    // An attribute, or a declaration.
                    false => at += 1,
                }
            }
            _ => at += 1,
        }
    }
    out
}

/// Whether the brackets of each branch close what they open: so the text ends where it seems to.
fn are_balanced(tokens: &[&str], branches: &[usize]) -> bool {
    let mut open = Vec::new();
    tokens.iter().zip(branches).all(|(token, branch)| match *token {
        "(" | "[" | "{" => {
            open.push(branch);
            true
        }
        ")" | "]" | "}" => open.pop() == Some(branch),
        _ => true,
    })
}

/// A function's body.
struct Kernel<'x, 't, 's> {
    text: &'x Text<'t, 's>,
    body: &'t [&'s str],
    /// Of each token: whether it is compiled where the function is.
    sure: Vec<bool>,
    /// Of each token: whether it stands among the arguments of a macro.
    in_macro: Vec<bool>,
    /// What its macros may stand for.
    expanded: HashSet<&'s str>,
}

impl<'s> Kernel<'_, '_, 's> {
    fn access(&self, parameter: &[&'s str]) -> Access {
        let has = |words: &[&str]| parameter.iter().any(|t| words.contains(t));
        let is_image = parameter.iter().any(|t| t.starts_with("image") && t.ends_with("_t"));
        if is_image {
            return match (
                has(&["write_only", "__write_only"]),
                has(&["read_write", "__read_write"]),
            ) {
                (true, _) => Access::Writes,
                (_, true) => Access::Unknown(Why::Untold),
                _ => Access::Reads,
            };
        }
        let Some(star) = parameter.iter().position(|t| *t == "*") else {
            // A value; or a type that a macro hides.
            return Access::Unknown(Why::Untold);
        };
        let constant = parameter.get(..star).unwrap_or_default();
        let reads_only = constant.iter().any(|t| ["const", "constant", "__constant"].contains(t));
        let Some(name) = parameter.iter().rev().find(|t| is_name(t)) else {
            return Access::Unknown(Why::Untold);
        };
        self.through(name, reads_only, None, 0)
    }

    /// What is done through a pointer of this name, of a parameter or declared at `declared`.
    fn through(
        &self,
        name: &'s str,
        reads_only: bool,
        declared: Option<usize>,
        depth: usize,
    ) -> Access {
        let all = self.body.iter().enumerate();
        let uses: Vec<usize> = all
            .filter(|(at, token)| **token == name && Some(*at) != declared)
            .map(|(at, _)| at)
            .collect();
        if uses.iter().any(|at| declares(self.body, *at)) {
            return Access::Unknown(Why::Redeclared);
        }
        if self.text.macros.has(name) {
            return Access::Unknown(Why::Macro);
        }
        let is_sure = |at: usize| self.sure.get(at).copied().unwrap_or(false);
        let in_macro = |at: usize| self.in_macro.get(at).copied().unwrap_or(true);
        // What an unsure use does, or whether it is one at all, is not known.
        let mut unsure = None;
        // `##` makes any name.
        if self.expanded.contains(name) || self.expanded.contains("#") {
            unsure = Some(Why::Macro);
        }
        let mut found = Access::Nothing;
        for at in uses {
            match self.used(at, depth) {
                _ if !is_sure(at) => unsure = Some(Why::Conditional),
                _ if in_macro(at) => unsure = Some(Why::Macro),
                Access::Writes if !reads_only => found = Access::Writes,
                Access::Unknown(why) if !reads_only => unsure = unsure.or(Some(why)),
                Access::Nothing => {}
                _ if found == Access::Writes => {}
                _ => found = Access::Reads,
            }
        }
        match (unsure, found) {
            // A pointer that is set to another may not be what it was.
            (why, Access::Writes) if self.is_set(name, declared) => {
                Access::Unknown(why.unwrap_or(Why::Passed))
            }
            // It is written, or cannot be written, whatever the rest does.
            (_, Access::Writes) => Access::Writes,
            (Some(_), Access::Reads) if reads_only => Access::Reads,
            (Some(why), _) => Access::Unknown(why),
            (None, found) => found,
        }
    }

    /// Whether a pointer is set to something else, or may be by its address.
    fn is_set(&self, name: &str, declared: Option<usize>) -> bool {
        let token = |at: Option<usize>| at.and_then(|at| self.body.get(at)).copied();
        self.body.iter().enumerate().any(|(at, found)| {
            let before = token(at.checked_sub(1)).unwrap_or(";");
            let next = token(Some(at + 1)).unwrap_or(";");
            let is_set = next == "=" && ![".", ">", "*"].contains(&before);
            let lends = before == "&" && [")", ","].contains(&next);
            Some(at) != declared && *found == name && (is_set || lends)
        })
    }

    /// What one occurrence of a pointer's name does.
    fn used(&self, at: usize, depth: usize) -> Access {
        match flow(self.body, at) {
            Flow::Reads => Access::Reads,
            Flow::Writes => Access::Writes,
            Flow::Nothing => Access::Nothing,
            Flow::Into { function, .. } if self.text.macros.has(function) => {
                Access::Unknown(Why::Macro)
            }
            Flow::Into { function, index } => self.text.function(function, index),
            Flow::Copied { at, reads_only } if depth < DEEPEST => {
                let Some(name) = self.body.get(at) else { return Access::Unknown(Why::Passed) };
                match self.is_set(name, Some(at)) {
                    true => Access::Unknown(Why::Passed),
                    false => self.through(name, reads_only, Some(at), depth + 1),
                }
            }
            _ => Access::Unknown(Why::Passed),
        }
    }
}

#[cfg(test)]
mod tests;
