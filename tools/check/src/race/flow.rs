//! Where a pointer goes that stands in an expression of OpenCL C: what it points to is read or
//! written, it is passed to a function, copied into another pointer, or only compared and moved.
//! Refuses to follow it where precedence or types would have to be known.

use super::conditional::opening;
use super::source::{Access, Why};
use clscope_profile::opencl_c::{bracketed, is_name};

/// What becomes of one occurrence of a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow<'s> {
    /// What it points to is read.
    Reads,
    /// What it points to is written.
    Writes,
    /// Neither: it is compared, moved, or its size is asked for.
    Nothing,
    /// It is passed to a function.
    Into {
        /// The function's name.
        function: &'s str,
        /// Which of its arguments, from 0.
        index: usize,
    },
    /// It is copied into a local pointer.
    Copied {
        /// Where that one's name stands.
        at: usize,
        /// What it points to is constant.
        reads_only: bool,
    },
    /// That is not known.
    Unknown,
}

const ASSIGN: [&str; 11] = ["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="];
const CONTROL: [&str; 5] = ["if", "while", "for", "switch", "return"];

/// Part of a body that is an expression.
#[derive(Clone, Copy)]
struct Span<'t, 's> {
    body: &'t [&'s str],
    /// From the first token to one past the last.
    begin: usize,
    end: usize,
}

/// What becomes of the pointer whose name stands at `at`.
pub fn flow<'s>(body: &[&'s str], at: usize) -> Flow<'s> {
    let span = Span { body, begin: at, end: at + 1 };
    match span.is_member() {
        // Another thing of that name.
        true => Flow::Nothing,
        false => span.pointer(0),
    }
}

/// Deepest nesting that is followed.
const DEEPEST: usize = 64;

impl<'t, 's> Span<'t, 's> {
    fn token(&self, at: usize) -> &'s str {
        self.body.get(at).copied().unwrap_or_default()
    }

    fn before(&self, by: usize) -> &'s str {
        self.begin.checked_sub(by).map_or("", |at| self.token(at))
    }

    fn next(&self, by: usize) -> &'s str {
        self.token(self.end + by)
    }

    fn is_member(&self) -> bool {
        self.before(1) == "." || (self.before(1) == ">" && self.before(2) == "-")
    }

    /// Whether the sign before it has nothing on its left: it is no operator of two.
    fn is_unary(&self) -> bool {
        let left = self.before(2);
        let is_cast = left == ")" && self.cast_ends_at(self.begin.saturating_sub(2));
        is_cast
            || !(is_name(left) && !CONTROL.contains(&left) || [")", "]"].contains(&left))
            // if (x) *p = 1;
            || left == ")" && self.control_ends_at(self.begin.saturating_sub(2))
    }

    /// Whether a bracket that closes there holds a pointer type: `(global int *)`.
    fn cast_ends_at(&self, at: usize) -> bool {
        opening(self.body, at).is_some_and(|open| {
            let inner = self.body.get(open + 1..at).unwrap_or_default();
            let stars = inner.iter().rev().take_while(|t| **t == "*").count();
            let words = inner.get(..inner.len() - stars).unwrap_or_default();
            stars > 0 && !words.is_empty() && words.iter().all(|t| is_name(t))
        })
    }

    /// Whether a bracket that closes there belongs to `if`, `while` or `for`.
    fn control_ends_at(&self, at: usize) -> bool {
        let open = opening(self.body, at).and_then(|open| open.checked_sub(1));
        open.is_some_and(|word| ["if", "while", "for"].contains(&self.token(word)))
    }

    /// As a pointer.
    fn pointer(self, depth: usize) -> Flow<'s> {
        if depth > DEEPEST {
            return Flow::Unknown;
        }
        let Self { body, begin, end } = self;
        let more = |begin, end| Self { body, begin, end };
        match (self.before(1), self.next(0)) {
            (_, "[") => return self.element(depth + 1),
            (_, "-") if self.next(1) == ">" => return self.element(depth + 1),
            // p++ moves it, wherever that stands.
            (_, "++" | "--") => return more(begin, end + 1).pointer(depth + 1),
            ("++" | "--", _) => return more(begin - 1, end).pointer(depth + 1),
            ("*", _) if self.is_unary() => return more(begin - 1, end).element(depth + 1),
            (")", _) if self.cast_ends_at(begin - 1) => {
                return match opening(body, begin - 1) {
                    Some(open) => more(open, end).pointer(depth + 1),
                    None => Flow::Unknown,
                };
            }
            _ => {}
        }
        // p + 4: up to where the sum ends, in which nothing else may be a pointer that counts.
        if ["+", "-"].contains(&self.next(0)) {
            let Some(end) = self.sum_ends() else { return Flow::Unknown };
            return match [")", ",", ";"].contains(&self.token(end)) {
                true => more(begin, end).closed(depth + 1),
                false => Flow::Unknown,
            };
        }
        self.closed(depth)
    }

    /// Where a sum ends that begins with it: at a bracket that closes, a comma or the statement's
    /// end.
    fn sum_ends(&self) -> Option<usize> {
        let mut at = self.end;
        loop {
            match self.token(at) {
                "" | "{" | "}" | "?" | ":" => return None,
                ")" | "]" | "," | ";" => return Some(at),
                "(" | "[" => at = bracketed(self.body, at)?.1,
                "<" | ">" | "=" | "&" | "|" | "^" | "==" | "!=" | "<=" | ">=" => return None,
                _ => at += 1,
            }
        }
    }

    /// As a pointer behind which nothing is done with it.
    fn closed(self, depth: usize) -> Flow<'s> {
        let Self { body, begin, end } = self;
        match (self.before(1), self.next(0)) {
            ("(", ")") => {
                let function = self.before(2);
                match function {
                    "sizeof" => Flow::Nothing,
                    word if CONTROL.contains(&word) && word != "return" => Flow::Nothing,
                    word if is_name(word) && word != "return" => Flow::Into { function, index: 0 },
                    // (*f)(p)
                    ")" if !self.cast_ends_at(begin - 2) && !self.control_ends_at(begin - 2) => {
                        Flow::Unknown
                    }
                    "]" => Flow::Unknown,
                    _ => Self { body, begin: begin - 1, end: end + 1 }.pointer(depth + 1),
                }
            }
            ("(" | ",", "," | ")") => self.argument(),
            ("=", ";") => self.initializes(),
            // Moved, not used.
            (_, "+=" | "-=") | (";" | "{" | "}" | ")" | "(" | ",", ";") => Flow::Nothing,
            (_, "==" | "!=" | "<=" | ">=" | "&" | "|" | "?") if !self.is_assigned() => {
                Flow::Nothing
            }
            ("==" | "!=" | "!", ")" | ";" | "&" | "|" | "?") => Flow::Nothing,
            _ => Flow::Unknown,
        }
    }

    /// Whether an assignment stands right before it.
    fn is_assigned(&self) -> bool {
        ASSIGN.contains(&self.before(1)) || self.before(1) == "return"
    }

    /// As an argument.
    fn argument(&self) -> Flow<'s> {
        let (mut depth, mut index) = (0_usize, 0);
        for i in (0..self.begin).rev() {
            match self.token(i) {
                ")" | "]" | "}" => depth += 1,
                "(" if depth == 0 => {
                    let function = i.checked_sub(1).map_or("", |at| self.token(at));
                    let is_call = is_name(function) && !CONTROL.contains(&function);
                    return match is_call {
                        true => Flow::Into { function, index },
                        false => Flow::Unknown,
                    };
                }
                "[" | "{" if depth == 0 => return Flow::Unknown,
                "(" | "[" | "{" => depth -= 1,
                "," if depth == 0 => index += 1,
                ";" if depth == 0 => return Flow::Unknown,
                _ => {}
            }
        }
        Flow::Unknown
    }

    /// As what a pointer is declared with: `global int *q = p + 1;`.
    fn initializes(&self) -> Flow<'s> {
        let Some(at) = self.begin.checked_sub(2) else { return Flow::Unknown };
        let mut star = at;
        // Qualifiers of the pointer itself.
        loop {
            let Some(before) = star.checked_sub(1) else { return Flow::Unknown };
            star = before;
            match self.token(star) {
                "*" => break,
                "const" | "restrict" | "__restrict" | "private" | "__private" => {}
                _ => return Flow::Unknown,
            }
        }
        let words = (0..star).rev().take_while(|i| is_name(self.token(*i))).count();
        let begin = star - words;
        let opens = begin.checked_sub(1).map_or("", |i| self.token(i));
        let first = self.body.get(begin..star).unwrap_or_default();
        let is_type = words > 0 && !first.iter().any(|word| CONTROL.contains(word));
        if !is_type || !is_name(self.token(at)) || !["", ";", "{", "}"].contains(&opens) {
            return Flow::Unknown;
        }
        let constant = ["const", "constant", "__constant"];
        Flow::Copied { at, reads_only: first.iter().any(|word| constant.contains(word)) }
    }

    /// As what the pointer points to.
    fn element(self, depth: usize) -> Flow<'s> {
        let Self { body, mut begin, mut end } = self;
        if depth > DEEPEST {
            return Flow::Unknown;
        }
        let mut member = None;
        loop {
            let of = Self { body, begin, end };
            match (of.before(1), of.next(0)) {
                (_, "[") => match bracketed(body, end) {
                    Some((_, after)) => end = after,
                    None => return Flow::Unknown,
                },
                (_, ".") => (end, member) = (end + 2, Some(of.next(1))),
                (_, "-") if of.next(1) == ">" => (end, member) = (end + 3, Some("")),
                ("(", ")") if !is_name(of.before(2)) || CONTROL.contains(&of.before(2)) => {
                    if ["if", "while", "for", "switch"].contains(&of.before(2)) {
                        return Flow::Reads;
                    }
                    (begin, end) = (begin - 1, end + 1);
                }
                (_, "++" | "--") | ("++" | "--", _) => return Flow::Writes,
                (_, sign) if ASSIGN.contains(&sign) => return Flow::Writes,
                // Its address is another pointer.
                ("&", _) if of.is_unary() && of.before(2) != "&" => {
                    return Self { body, begin: begin - 1, end }.pointer(depth + 1);
                }
                // An array that is a member becomes a pointer where it goes on; vectors seldom are
                // behind an arrow.
                (before, _) if member.is_some_and(|name| !is_component(name)) => {
                    let is_copied = before == "=" && of.before(3) == "*";
                    let goes = ["(", ","].contains(&before) || is_copied;
                    return if goes { Flow::Unknown } else { Flow::Reads };
                }
                _ => return Flow::Reads,
            }
        }
    }
}

/// What functions of the language do with a pointer.
pub fn built_in(name: &str, index: usize) -> Access {
    match (name, index) {
        (f, 2) if f.starts_with("vstore") => Access::Writes,
        (f, 1) if f.starts_with("vload") => Access::Reads,
        (f, 0) if f.starts_with("atomic_load") => Access::Reads,
        (f, 0) if f.starts_with("atomic_") || f.starts_with("atom_") => Access::Writes,
        ("async_work_group_copy" | "async_work_group_strided_copy", 0) => Access::Writes,
        ("async_work_group_copy" | "async_work_group_strided_copy", 1) => Access::Reads,
        ("prefetch", 0) => Access::Reads,
        ("fract" | "frexp" | "modf" | "sincos" | "lgamma_r", 1) | ("remquo", 2) => Access::Writes,
        _ => Access::Unknown(Why::Passed),
    }
}

/// Whether a name is one of a vector's components: `x`, `s3`, `even`, `xyz`.
fn is_component(name: &str) -> bool {
    let letters = |of: &str, these: &str| !of.is_empty() && of.chars().all(|c| these.contains(c));
    let numbers = name.strip_prefix(['s', 'S']);
    ["lo", "hi", "even", "odd"].contains(&name)
        || letters(name, "xyzw")
        || numbers.is_some_and(|of| letters(of, "0123456789abcdefABCDEF"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_profile::opencl_c::tokens;
    use proptest::prelude::*;

    fn follow(text: &str) -> String {
        let body = tokens(text);
        let at = body.iter().position(|t| *t == "p").unwrap();
        match flow(&body, at) {
            Flow::Into { function, index } => format!("{function} {index}"),
            Flow::Copied { at, reads_only } => format!("copied {} {reads_only}", body[at]),
            other => format!("{other:?}").to_lowercase(),
        }
    }

    #[test]
    fn where_pointers_go_by_table() {
        for (text, want) in [
            ("x = p[i];", "reads"),
            ("p[i] = 1;", "writes"),
            ("p[i].x += 1;", "writes"),
            ("++p[i];", "writes"),
            ("p[i]++;", "writes"),
            ("*p = 1;", "writes"),
            ("if (x) *p = 1;", "writes"),
            ("y = x * p[0];", "reads"),
            ("*(p + i) = 1;", "writes"),
            ("x = *(p + i) + 1;", "reads"),
            ("*p++ = 1;", "writes"),
            ("x = *p++;", "reads"),
            ("*++p = 1;", "writes"),
            ("(*p)++;", "writes"),
            ("(*p).a = 1;", "writes"),
            ("p->a = 1;", "writes"),
            ("x = p->a;", "reads"),
            ("p->a[3] = 1;", "writes"),
            ("(p + 4)->a = 1;", "writes"),
            ("(p + i)[2] = 1;", "writes"),
            ("(*(p + i)).x = 1;", "writes"),
            ("((global char *)p)[i] = 1;", "writes"),
            ("x = ((global const char *)p)[i];", "reads"),
            ("*(global int *)p = 1;", "writes"),
            ("*(global int *)(p + 4) = 1;", "writes"),
            ("*(global int *)&p[4] = 1;", "writes"),
            ("x = *(global int *)&p[4];", "reads"),
            ("f(p);", "f 0"),
            ("x = f(1, g(2), p + 3);", "f 2"),
            ("f(&p[i], 1);", "f 0"),
            ("f(1, (global int *)p);", "f 1"),
            ("f(p[i], 1);", "reads"),
            ("f(p[i].xy, 1);", "reads"),
            ("f(p->a, 1);", "unknown"),
            ("x = p->a + 1;", "reads"),
            ("int *q = p->a + 1;", "unknown"),
            ("if (p) x = 1;", "nothing"),
            ("if (p == 0) x = 1;", "nothing"),
            ("x = p ? 1 : 2;", "unknown"),
            ("p += i;", "nothing"),
            ("p++;", "nothing"),
            ("x = sizeof(p);", "nothing"),
            ("x.p = 1;", "nothing"),
            ("x->p = 1;", "nothing"),
            ("global int *q = p + 1;", "copied q false"),
            ("{ const global int *q = &p[1]; }", "copied q true"),
            ("global int *const restrict q = p;", "copied q false"),
            ("global int *q = p, *r = 0;", "unknown"),
            ("q = p;", "unknown"),
            ("p = q;", "unknown"),
            ("return p;", "unknown"),
            ("(i ? p : o)[i] = 1;", "unknown"),
            ("x = i[p];", "unknown"),
            ("(*f)(p);", "unknown"),
            ("x = p - q;", "nothing"),
            ("for (; p < q; p++) x++;", "unknown"),
            ("x = a & p[i];", "reads"),
            ("x = &p[i] == q;", "nothing"),
            ("x = a && p[i];", "reads"),
        ] {
            let got = follow(text);
            // What is not known may be said of less than could be.
            assert!(got == want || (want == "nothing" && got == "unknown"), "{text} {got} {want}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[pqf(){}\\[\\];=+*&,.<>?:! -]{0,60}") {
            let body = tokens(&text);
            for at in 0..body.len() {
                let _ = flow(&body, at);
            }
        }
    }
}
