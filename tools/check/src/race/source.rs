//! What a kernel's OpenCL C source says of its pointers: read, written, or not told. Refuses to
//! guess: what is hidden in macros, passed to functions or copied into other pointers is not told.
#![forbid(unsafe_code)]

use clscope_profile::opencl_c::{MOST, bracketed, definitions, is_name, parameters, plain, tokens};

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

/// What a kernel does with each of its parameters; `None` where the source does not show the kernel.
#[must_use]
pub fn accesses(source: &str, kernel: &str) -> Option<Vec<Access>> {
    if source.len() > MOST || kernel.is_empty() {
        return None;
    }
    let text = plain(source);
    let tokens = tokens(&text);
    let at = definitions(&tokens, kernel).next()?;
    let (list, after) = bracketed(&tokens, at + 1)?;
    let body = match tokens.get(after) {
        Some(&"{") => bracketed(&tokens, after)?.0,
        _ => return None,
    };
    let each = parameters(list).into_iter();
    Some(each.map(|parameter| access(parameter, body)).collect())
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
    let Some(name) = parameter.iter().rev().find(|t| is_name(t)) else {
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
