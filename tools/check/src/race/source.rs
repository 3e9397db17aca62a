//! What a kernel's OpenCL C source says of its pointers: read, written, or not told. Refuses to
//! guess: what is hidden in macros, passed to functions or copied into other pointers is not told.
#![forbid(unsafe_code)]

/// What a kernel does with the memory of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It reads it, and cannot write it.
    Reads,
    /// It writes it, and may read it.
    Writes,
    /// It does not touch it.
    Nothing,
    /// The source does not tell.
    Unknown,
}

/// Longest source that is looked at, in bytes.
const MOST: usize = 4 << 20;

/// What a kernel does with each of its parameters; `None` where the source does not show the kernel.
#[must_use]
pub fn accesses(source: &str, kernel: &str) -> Option<Vec<Access>> {
    if source.len() > MOST || kernel.is_empty() {
        return None;
    }
    let text = plain(source);
    let tokens = tokens(&text);
    let at = definition(&tokens, kernel)?;
    let (parameters, after) = bracketed(&tokens, at + 1)?;
    let body = match tokens.get(after) {
        Some(&"{") => bracketed(&tokens, after)?.0,
        _ => return None,
    };
    let each = split(parameters).into_iter().filter(|p| !p.is_empty() && *p != ["void"]);
    Some(each.map(|parameter| access(parameter, body)).collect())
}

/// The text without comments, literals and directives, each of them a blank.
fn plain(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source.chars().peekable();
    let mut line_begins = true;
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('/', Some('/')) => {
                while rest.peek().is_some_and(|c| *c != '\n') {
                    rest.next();
                }
            }
            ('/', Some('*')) => {
                rest.next();
                let mut before = ' ';
                for c in rest.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
                out.push(' ');
            }
            ('"' | '\'', _) => {
                let mut escaped = false;
                for inner in rest.by_ref() {
                    if inner == '\n' || (inner == c && !escaped) {
                        break;
                    }
                    escaped = inner == '\\' && !escaped;
                }
                out.push(' ');
            }
            ('#', _) if line_begins => {
                let mut before = ' ';
                for c in rest.by_ref() {
                    if c == '\n' && before != '\\' {
                        break;
                    }
                    before = c;
                }
                out.push('\n');
            }
            _ => {
                line_begins = c == '\n' || (line_begins && c.is_whitespace());
                out.push(c);
                continue;
            }
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Words and signs.
fn tokens(text: &str) -> Vec<&str> {
    const SIGNS: [&str; 16] = [
        "<<=", ">>=", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++",
        "--",
    ];
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let first = rest.chars().next().unwrap_or(' ');
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else {
            SIGNS
                .iter()
                .find(|sign| rest.starts_with(**sign))
                .map_or(first.len_utf8(), |sign| sign.len())
        };
        if !first.is_whitespace() {
            out.extend(rest.get(..length));
        }
        at += length;
    }
    out
}

/// Where the kernel's name stands in its definition.
fn definition(tokens: &[&str], kernel: &str) -> Option<usize> {
    let named = |at: &usize| tokens.get(at + 1) == Some(&"(");
    tokens.iter().enumerate().filter(|(_, t)| **t == kernel).map(|(at, _)| at).filter(named).find(
        |at| {
            let before = tokens.get(..*at).unwrap_or_default();
            let begin = before.iter().rposition(|t| [";", "}"].contains(t)).map_or(0, |p| p + 1);
            let is_kernel = before
                .get(begin..)
                .is_some_and(|t| t.iter().any(|t| ["kernel", "__kernel"].contains(t)));
            // A declaration has no body.
            is_kernel
                && bracketed(tokens, at + 1)
                    .is_some_and(|(_, after)| tokens.get(after) == Some(&"{"))
        },
    )
}

/// What stands between the bracket at `at` and the one that closes it, and where it goes on.
fn bracketed<'t, 's>(tokens: &'t [&'s str], at: usize) -> Option<(&'t [&'s str], usize)> {
    let mut depth = 0_usize;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some((tokens.get(at + 1..i)?, i + 1));
                }
            }
            _ => {}
        }
    }
    None
}

/// The parameters of a list.
fn split<'t, 's>(list: &'t [&'s str]) -> Vec<&'t [&'s str]> {
    let (mut out, mut begin, mut depth) = (Vec::new(), 0, 0_i32);
    for (i, token) in list.iter().enumerate() {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "," if depth == 0 => {
                out.extend(list.get(begin..i));
                begin = i + 1;
            }
            _ => {}
        }
    }
    out.extend(list.get(begin..));
    out
}

fn access(parameter: &[&str], body: &[&str]) -> Access {
    let has = |words: &[&str]| parameter.iter().any(|t| words.contains(t));
    let is_image = parameter.iter().any(|t| t.starts_with("image") && t.ends_with("_t"));
    if is_image {
        return match (has(&["write_only", "__write_only"]), has(&["read_write", "__read_write"])) {
            (true, _) => Access::Writes,
            (_, true) => Access::Unknown,
            _ => Access::Reads,
        };
    }
    let Some(star) = parameter.iter().position(|t| *t == "*") else {
        // A value; or a type that a macro hides.
        return Access::Unknown;
    };
    let constant = parameter.get(..star).unwrap_or_default();
    let reads_only = constant.iter().any(|t| ["const", "constant", "__constant"].contains(t));
    let Some(name) = parameter.iter().rev().find(|t| t.starts_with(is_word)) else {
        return Access::Unknown;
    };
    let uses: Vec<usize> =
        body.iter().enumerate().filter(|(_, t)| *t == name).map(|(at, _)| at).collect();
    // A local variable of the same name would hide it.
    let mut found = if uses.is_empty() { Access::Nothing } else { Access::Reads };
    for at in uses {
        match used(body, at) {
            Access::Writes if !reads_only => return Access::Writes,
            Access::Unknown if !reads_only => found = Access::Unknown,
            _ => {}
        }
    }
    found
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
        let Some((_, after)) = bracketed(body, next) else { return Access::Unknown };
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
    before.ends_with(is_word) && before != "return" || [")", "]"].contains(&before)
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
                    _ => Access::Unknown,
                };
            }
            ";" | "{" | "}" => return Access::Unknown,
            _ => {}
        }
    }
    Access::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{Nothing, Reads, Unknown, Writes};
    use proptest::prelude::*;

    fn of(source: &str) -> Vec<Access> {
        accesses(source, "k").unwrap()
    }

    #[test]
    fn what_the_source_shows_is_told() {
        assert_eq!(
            of(
                "kernel void k(global const float *a, global float *b, __constant int *c, float x) { b[get_global_id(0)] = a[c[0]] * x; }"
            ),
            [Reads, Writes, Reads, Unknown]
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
            [Reads, Writes, Unknown, Reads]
        );
        assert_eq!(
            of("kernel void k(global int *a, global int *b) { if (a[0] == b[1]) return; }"),
            [Reads, Reads]
        );
    }

    #[test]
    fn what_the_source_hides_is_not_told() {
        assert_eq!(of("kernel void k(global int *a) { store(a, 3); }"), [Unknown]);
        assert_eq!(
            of("kernel void k(global int *a) { global int *q = a + 4; q[0] = 1; }"),
            [Unknown]
        );
        assert_eq!(of("kernel void k(GLOBAL(a)) { a[0] = 1; }"), [Unknown]);
        assert_eq!(accesses("KERNEL(k, int *a) { a[0] = 1; }", "k"), None);
        assert_eq!(accesses("kernel void k(global int *a);", "k"), None);
        assert_eq!(accesses("void k(global int *a) { a[0] = 1; }", "k"), None);
    }

    #[test]
    fn comments_strings_and_directives_say_nothing() {
        let source = "// kernel void k(int a) {}\n/* k( */\n#define X \\\n kernel void k(x) {}\n\
            const constant char *s = \"kernel void k(int b) {}\";\nkernel void k(global int *a) { /* a[0] = 1; */ int i = a[0]; // a[0] = 2;\n}";
        assert_eq!(of(source), [Reads]);
    }

    #[test]
    fn a_pointer_to_what_is_not_constant_may_be_constant_itself() {
        assert_eq!(of("kernel void k(global int * const a) { a[0] = 1; }"), [Writes]);
        assert_eq!(of("kernel void k(global int * restrict a) { a[0] = 1; }"), [Writes]);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[kernel voidglobal*a(){}\\[\\];=+&,/\"'#\n\\\\é]{0,200}") {
            let _ = accesses(&format!("kernel void k(global int *a) {{ {text} }}"), "k");
            let _ = accesses(&text, "k");
        }
    }
}
