//! What a kernel's OpenCL C source says of its pointers: read, written, or not told. Refuses to
//! guess: what may be left out by the preprocessor, is hidden in macros or by another declaration,
//! is passed to functions or copied into other pointers is not told.
#![forbid(unsafe_code)]

use super::conditional::{Macros, Source, declares};
use clscope_profile::opencl_c::{MOST, bracketed, definitions, is_name, parameters};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There is no source that shows it, and the runtime does not tell.
    Untold,
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
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Untold => "neither source nor runtime tells",
            Self::Conditional => "used inside #if or #ifdef",
            Self::Redeclared => "its name is declared again in the kernel",
            Self::Macro => "used by way of a macro",
            Self::Passed => "passed to a function or copied into a pointer",
            Self::Differs => "the kernel is defined several times",
        }
    }
}

/// What a kernel does with each of its parameters; `None` where the source does not show the kernel.
/// `options` are those of the build: what they define is not in the source.
#[must_use]
pub fn accesses(source: &str, options: &str, kernel: &str) -> Option<Vec<Access>> {
    if source.len() > MOST || kernel.is_empty() {
        return None;
    }
    let source = Source::new(source)?;
    let macros = source.macros(options);
    let (tokens, branches) = source.tokens();
    let text = Text { source: &source, macros: &macros, tokens: &tokens, branches: &branches };
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
}

impl<'s> Text<'_, 's> {
    /// What the definition does whose name stands at `at`.
    fn definition(&self, at: usize) -> Option<Vec<Access>> {
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
            body,
            sure,
            in_macro: self.macros.arguments(body),
            macros: self.macros,
            expanded: self.macros.expanded(body),
        };
        Some(parameters.into_iter().map(|parameter| kernel.access(parameter)).collect())
    }
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

/// A kernel's body.
struct Kernel<'t, 's> {
    body: &'t [&'s str],
    /// Of each token: whether it is compiled where the kernel is.
    sure: Vec<bool>,
    /// Of each token: whether it stands among the arguments of a macro.
    in_macro: Vec<bool>,
    macros: &'t Macros<'s>,
    /// What its macros stand for.
    expanded: std::collections::HashSet<&'s str>,
}

impl Kernel<'_, '_> {
    fn access(&self, parameter: &[&str]) -> Access {
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
        let all = self.body.iter().enumerate();
        let uses: Vec<usize> = all.filter(|(_, t)| *t == name).map(|(at, _)| at).collect();
        if uses.iter().any(|at| declares(self.body, *at)) {
            return Access::Unknown(Why::Redeclared);
        }
        if self.macros.has(name) {
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
            match used(self.body, at) {
                _ if !is_sure(at) => unsure = Some(Why::Conditional),
                _ if in_macro(at) => unsure = Some(Why::Macro),
                Access::Writes if !reads_only => return Access::Writes,
                Access::Unknown(why) if !reads_only => unsure = unsure.or(Some(why)),
                _ => found = Access::Reads,
            }
        }
        match (unsure, found) {
            // It cannot be written, whatever the rest does.
            (Some(_), Access::Reads) if reads_only => Access::Reads,
            (Some(why), _) => Access::Unknown(why),
            (None, found) => found,
        }
    }
}

const ASSIGN: [&str; 11] = ["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="];

/// What one occurrence of a pointer's name does.
fn used(body: &[&str], at: usize) -> Access {
    let token = |i: usize| body.get(i).copied().unwrap_or_default();
    let before = at.checked_sub(1).map_or("", token);
    if before == "." {
        // A member of that name.
        return Access::Reads;
    }
    // name[...] with members, then what happens to it.
    let mut next = at + 1;
    let mut element = false;
    while token(next) == "[" {
        let Some((_, after)) = bracketed(body, next) else { return Access::Unknown(Why::Passed) };
        (next, element) = (after, true);
        while token(next) == "." {
            next += 2;
        }
    }
    if element {
        let stepped = ["++", "--"].iter().any(|s| token(next) == *s || before == *s);
        let assigned = ASSIGN.contains(&token(next));
        return match (assigned || stepped, before) {
            (true, _) => Access::Writes,
            // Its address goes somewhere.
            (false, "&") if !after_value(body, at - 1) => called(body, at),
            _ => Access::Reads,
        };
    }
    // *name = value
    let begins = at.checked_sub(2).is_none_or(|i| [";", "{", "}", ")"].contains(&token(i)));
    if before == "*" && begins {
        return if ASSIGN.contains(&token(next)) { Access::Writes } else { Access::Reads };
    }
    called(body, at)
}

/// Whether a sign stands behind a value, and so is an operator of two.
fn after_value(body: &[&str], sign: usize) -> bool {
    let before = sign.checked_sub(1).and_then(|i| body.get(i)).copied().unwrap_or_default();
    is_name(before) && before != "return" || [")", "]"].contains(&before)
}

/// A pointer that is an argument: of functions that store or change through it, or of others.
fn called(body: &[&str], at: usize) -> Access {
    let mut depth = 0_i32;
    for i in (0..at).rev() {
        match body.get(i).copied().unwrap_or_default() {
            ")" | "]" => depth += 1,
            "[" => depth -= 1,
            "(" if depth > 0 => depth -= 1,
            "(" => {
                let function = i.checked_sub(1).and_then(|f| body.get(f)).copied().unwrap_or("");
                return match function {
                    f if f.starts_with("vstore") => Access::Writes,
                    f if f.starts_with("vload") => Access::Reads,
                    f if f.starts_with("atomic_load") => Access::Reads,
                    f if f.starts_with("atomic_") || f.starts_with("atom_") => Access::Writes,
                    _ => Access::Unknown(Why::Passed),
                };
            }
            ";" | "{" | "}" => return Access::Unknown(Why::Passed),
            _ => {}
        }
    }
    Access::Unknown(Why::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{Nothing, Reads, Unknown, Writes};
    use proptest::prelude::*;

    fn of(source: &str) -> Vec<Access> {
        accesses(source, "", "k").unwrap()
    }

    #[test]
    fn what_the_source_shows_is_told() {
        assert_eq!(
            of(
                "kernel void k(global const float *a, global float *b, __constant int *c, float x) { b[get_global_id(0)] = a[c[0]] * x; }"
            ),
            [Reads, Writes, Reads, Unknown(Why::Untold)]
        );
        assert_eq!(of("__kernel void k(__global int *a) { }"), [Nothing]);
        assert_eq!(
            of("kernel void k(global int *a, global int *b) { a[0] += b[0]; }"),
            [Writes, Reads]
        );
        assert_eq!(of("kernel void k(global float4 *a) { a[1].x = 2; }"), [Writes]);
        assert_eq!(of("kernel void k(global int *a) { *a = 2; }"), [Writes]);
        assert_eq!(of("kernel void k(global int *a) { atomic_inc(&a[3]); }"), [Writes]);
        assert_eq!(of("kernel void k(global int *a) { a[3]++; }"), [Writes]);
        assert_eq!(
            of("kernel void k(global float *a, global float *b) { vstore4(vload4(0, b), 0, a); }"),
            [Writes, Reads]
        );
        assert_eq!(
            of(
                "kernel void k(read_only image2d_t i, write_only image2d_t o, read_write image2d_t b, image2d_t d) {}"
            ),
            [Reads, Writes, Unknown(Why::Untold), Reads]
        );
        assert_eq!(
            of("kernel void k(global int *a, global int *b) { if (a[0] == b[1]) return; }"),
            [Reads, Reads]
        );
    }

    #[test]
    fn what_the_source_hides_is_not_told() {
        assert_eq!(of("kernel void k(global int *a) { store(a, 3); }"), [Unknown(Why::Passed)]);
        assert_eq!(
            of("kernel void k(global int *a) { global int *q = a + 4; q[0] = 1; }"),
            [Unknown(Why::Passed)]
        );
        assert_eq!(
            of("kernel void k(global int *a, GLOBAL(int, b)) { a[0] = 1; }"),
            [Writes, Unknown(Why::Untold)]
        );
        assert_eq!(accesses("kernel void k(global int *a, MORE) { a[0] = 1; }", "", "k"), None);
        assert_eq!(accesses("KERNEL(k, int *a) { a[0] = 1; }", "", "k"), None);
        assert_eq!(accesses("kernel void k(global int *a);", "", "k"), None);
        assert_eq!(accesses("void k(global int *a) { a[0] = 1; }", "", "k"), None);
    }

    #[test]
    fn comments_strings_and_directives_say_nothing() {
        let source = "// kernel void k(int a) {}\n/* k( */\n#define X \\\n kernel void k(x) {}\n\
            const constant char *s = \"kernel void k(int b) {}\";\nkernel void k(global int *a) { /* a[0] = 1; */ int i = a[0]; // a[0] = 2;\n}";
        assert_eq!(of(source), [Reads]);
    }

    #[test]
    fn what_may_not_be_compiled_is_not_told_by_table() {
        let conditional = Unknown(Why::Conditional);
        for (body, want) in [
            ("\n#ifdef W\n a[0] = 1;\n#endif\n", conditional),
            ("\n#if N > 2\n a[0] = 1;\n#else\n a[1] = 2;\n#endif\n", conditional),
            ("\n#ifndef R\n int x = a[0];\n#endif\n", conditional),
            ("int x = a[0];\n#ifdef W\n a[0] = 1;\n#endif\n", conditional),
            ("a[1] = 2;\n#ifdef W\n a[0] = 1;\n#endif\n", Writes),
            // Known conditions.
            ("\n#if 0\n a[0] = 1;\n#endif\n", Nothing),
            ("\n # if 0 // no\n a[0] = 1;\n#ifdef X\n#else\na[1] = 1;\n#endif\n#endif\n", Nothing),
            ("\n#if 0\n a[0] = 1;\n#else\n int x = a[0];\n#endif\n", Reads),
            ("\n#if 1\n a[0] = 1;\n#else\n int x = a[0];\n#endif\n", Writes),
            ("\n#if 1\n int x = a[0];\n#elif X\n a[0] = 1;\n#else\n a[0] = 1;\n#endif\n", Reads),
            ("\n#if 0\n#elif X\n a[0] = 1;\n#endif\n", conditional),
            ("\n#if 0\n#define SET a[0] = 1\n#endif\n int x = a[0];", Reads),
        ] {
            assert_eq!(of(&format!("kernel void k(global int *a) {{ {body} }}")), [want], "{body}");
        }
        // The kernel itself may stand inside one: it is there where it is launched.
        assert_eq!(of("#ifdef X\nkernel void k(global int *a) { a[0] = 1; }\n#endif"), [Writes]);
        let twice = "#ifdef X\nkernel void k(global int *a, global int *b) { a[0] = b[0]; }\n#else\n\
            kernel void k(global int *a, global int *b) { int x = a[0] + b[0]; }\n#endif";
        assert_eq!(of(twice), [Unknown(Why::Differs), Reads]);
        // Parameters without a number, and bodies without an end.
        for source in [
            "kernel void k(\n#ifdef X\nglobal int *x,\n#endif\nglobal int *a) { a[0] = 1; }",
            "#define MORE global int *x, global int *y\nkernel void k(global int MORE, global int *a) { a[0] = 1; }",
            "kernel void k(global int *a) {\n#ifdef X\n if (a[0]) {\n#else\n {\n#endif\n } }\n\
             void f(global int *a) { a[0] = 1; }\n}",
        ] {
            assert_eq!(accesses(source, "", "k"), None, "{source}");
        }
        let deep = "#if X\n".repeat(100_000);
        assert_eq!(accesses(&format!("{deep}kernel void k(global int *a) {{ }}"), "", "k"), None);
    }

    #[test]
    fn a_name_that_is_declared_again_is_not_told() {
        for body in [
            "int a[4]; a[0] = 1;",
            "local float a[4]; a[0] = 1;",
            "{ int *a = 0; *a = 1; }",
            "int x = f(1, 2), a[4]; a[0] = 1;",
            "int x[2] = {1, 2}, a[4]; a[0] = 1;",
            "int *x, *a; a[0] = 1;",
            "for (int i = 0, a = 1; i < 4; i++) a++;",
            "int __attribute__((aligned(4))) a[4]; a[0] = 1;",
            "int (*a)[4]; a[0][1] = 1;",
            "TYPE(4) a[4]; a[0] = 1;",
        ] {
            let found = of(&format!("kernel void k(global int *a) {{ {body} }}"));
            assert_eq!(found, [Unknown(Why::Redeclared)], "{body}");
        }
        for body in [
            "if (x) a[0] = 1;",
            "if (x) y = 1; else a[0] = 1;",
            "x = 1, a[0] = 2;",
            "*a = 1;",
            "int y = x * a[0]; a[0] = y;",
            "int y = f(x, a[0]); a[0] = y;",
            "int y = f(x * a[0], x * y, a[1]); a[0] = y;",
            "for (int i = 0; i < 4; i++) a[i] = 1;",
            "x = (int) a[0]; do a[0]++; while (0);",
        ] {
            let found = of(&format!("kernel void k(global int *a, int x) {{ {body} }}"));
            assert_eq!(found[0], Writes, "{body}");
        }
    }

    #[test]
    fn what_a_macro_may_do_is_not_told() {
        for (defines, body) in [
            ("#define P(i) a[i]", "P(0) = 1;"),
            ("#define P(i) Q(i)\n#define Q(i) a[i]", "P(0) = 1;"),
            ("#define P(i) a ## i", "P(0)[0] = 1;"),
            ("#define OUT a", "OUT[0] = 1;"),
            ("#define a b", "a[0] = 1;"),
            ("#define SET(x) x = 1", "SET(a[0]);"),
            ("#define DEBUG(x)", "DEBUG(a[0] = 1);"),
            ("#define DEBUG(x)", "DEBUG(f(a[0] = 1));"),
            ("#ifdef X\n#define P(i) a[i]\n#else\n#define P(i) b[i]\n#endif", "P(0) = 1;"),
        ] {
            let found = of(&format!("{defines}\nkernel void k(global int *a) {{ {body} }}"));
            assert_eq!(found, [Unknown(Why::Macro)], "{defines} {body}");
        }
        let source = "kernel void k(global int *a) { OUT[0] = 1; }";
        assert_eq!(accesses(source, "-w -DOUT=a", "k").unwrap(), [Unknown(Why::Macro)]);
        // Of others nothing is lost.
        let source =
            "#define N 4\n#define P(p, i) p[i]\nkernel void k(global int *a) { a[N] = 1; }";
        assert_eq!(of(source), [Writes]);
    }

    #[test]
    fn a_pointer_to_what_is_not_constant_may_be_constant_itself() {
        assert_eq!(of("kernel void k(global int * const a) { a[0] = 1; }"), [Writes]);
        assert_eq!(of("kernel void k(global int * restrict a) { a[0] = 1; }"), [Writes]);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[kernel voidglobal*a(){}\\[\\];=+&,/\"'#\n\\\\é]{0,200}") {
            let _ = accesses(&format!("kernel void k(global int *a) {{ {text} }}"), &text, "k");
            let _ = accesses(&text, "", "k");
        }
    }
}
