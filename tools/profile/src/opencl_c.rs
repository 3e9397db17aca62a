//! What OpenCL C shows without a compiler: its tokens, the definitions of its kernels, and the
//! types of their parameters. Refuses to preprocess and to guess: what a macro may have made, or
//! what is defined twice and differently, is not told.

use std::collections::{HashMap, HashSet};

/// Longest source that is looked at, in bytes.
pub const MOST: usize = 4 << 20;

/// A piece of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text without comments and literals, each of them a blank.
    Text(String),
    /// A directive without its sign and its comments: `define N 4`.
    Directive(String),
}

/// The text without comments, literals and directives, each of them a blank.
pub fn plain(source: &str) -> String {
    let texts = pieces(source).into_iter().map(|piece| match piece {
        Piece::Text(text) => text,
        Piece::Directive(_) => "\n".to_owned(),
    });
    texts.collect()
}

/// The text and its directives in turn. Lines that a backslash goes on with are one.
pub fn pieces(source: &str) -> Vec<Piece> {
    let source = source.replace("\\\r\n", "").replace("\\\n", "");
    let mut out = Vec::new();
    let mut text = String::new();
    let mut rest = source.chars().peekable();
    let mut line_begins = true;
    let mut directive: Option<String> = None;
    while let Some(c) = rest.next() {
        let in_directive = directive.is_some();
        let to = directive.as_mut().unwrap_or(&mut text);
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
                to.push(' ');
            }
            ('"' | '\'', _) => {
                let mut escaped = false;
                // A literal ends with its line at the latest, which ends a directive, too.
                while let Some(inner) = rest.next_if(|inner| *inner != '\n') {
                    if inner == c && !escaped {
                        break;
                    }
                    escaped = inner == '\\' && !escaped;
                }
                to.push(' ');
            }
            ('#', _) if line_begins && !in_directive => {
                out.push(Piece::Text(std::mem::take(&mut text)));
                directive = Some(String::new());
            }
            ('\n', _) if in_directive => {
                out.extend(directive.take().map(Piece::Directive));
                line_begins = true;
            }
            _ => {
                line_begins = c == '\n' || (line_begins && c.is_whitespace());
                to.push(c);
            }
        }
    }
    out.extend(directive.map(Piece::Directive));
    out.push(Piece::Text(text));
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a token is a word or a number, and no sign.
pub fn is_name(token: &str) -> bool {
    token.starts_with(is_word)
}

/// Words and signs of a text without comments.
pub fn tokens(text: &str) -> Vec<&str> {
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

/// Where a kernel's name stands in its definitions, of which conditional text may have several.
pub fn definitions<'t>(tokens: &'t [&str], kernel: &'t str) -> impl Iterator<Item = usize> + 't {
    let named = |at: &usize| tokens.get(at + 1) == Some(&"(");
    let all = tokens.iter().enumerate().filter(move |(_, t)| **t == kernel).map(|(at, _)| at);
    all.filter(named).filter(|at| {
        let before = tokens.get(..*at).unwrap_or_default();
        let begin = before.iter().rposition(|t| [";", "}"].contains(t)).map_or(0, |p| p + 1);
        let is_kernel = before
            .get(begin..)
            .is_some_and(|t| t.iter().any(|t| ["kernel", "__kernel"].contains(t)));
        // A declaration has no body.
        is_kernel
            && bracketed(tokens, at + 1).is_some_and(|(_, after)| tokens.get(after) == Some(&"{"))
    })
}

/// What stands between the bracket at `at` and the one that closes it, and where it goes on.
pub fn bracketed<'t, 's>(tokens: &'t [&'s str], at: usize) -> Option<(&'t [&'s str], usize)> {
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
pub fn parameters<'t, 's>(list: &'t [&'s str]) -> Vec<&'t [&'s str]> {
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
    out.retain(|p| !p.is_empty() && *p != ["void"]);
    out
}

/// Words of a parameter that say nothing of its type.
const QUALIFIERS: [&str; 24] = [
    "const",
    "__const",
    "volatile",
    "__volatile",
    "__volatile__",
    "restrict",
    "__restrict",
    "__restrict__",
    "global",
    "__global",
    "local",
    "__local",
    "constant",
    "__constant",
    "private",
    "__private",
    "generic",
    "__generic",
    "read_only",
    "__read_only",
    "write_only",
    "__write_only",
    "read_write",
    "__read_write",
];

/// Types that the text gives a name; `None` for those that it gives to several types, or to one
/// that is no scalar or vector.
type Aliases<'s> = HashMap<&'s str, Option<String>>;

/// The types of what a kernel's pointers point to, one for each parameter: `float4`. `None` for a
/// parameter that is no pointer, and where the text does not tell; nothing at all where it does not
/// show the kernel. `options` are those of the build: what they define may be anything.
pub fn pointed(source: &str, options: &str, kernel: &str) -> Option<Vec<Option<String>>> {
    if source.len() > MOST || kernel.is_empty() {
        return None;
    }
    let text = plain(source);
    let tokens = tokens(&text);
    let macros = macros(source, options);
    let aliases = aliases(&tokens);
    let mut each = definitions(&tokens, kernel).filter_map(|at| {
        let (list, _) = bracketed(&tokens, at + 1)?;
        let types = parameters(list).into_iter();
        Some(types.map(|one| pointee(one, &aliases, &macros)).collect::<Vec<_>>())
    });
    let mut out = each.next()?;
    for other in each {
        if other.len() != out.len() {
            return None;
        }
        for (known, other) in out.iter_mut().zip(other) {
            if *known != other {
                *known = None;
            }
        }
    }
    Some(out)
}

/// Names that directives and options define.
fn macros<'s>(source: &'s str, options: &'s str) -> HashSet<&'s str> {
    let name = |text: &'s str| {
        let text = text.trim_start();
        let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
        text.get(..end).filter(|name| !name.is_empty())
    };
    let directives = source.lines().filter_map(|line| {
        name(line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?)
    });
    // `-DNAME`, and `-D NAME`; of quotes and other options nothing is known but that.
    let options = options.split("-D").skip(1).filter_map(name);
    directives.chain(options).collect()
}

/// The text without attributes.
fn bare<'s>(tokens: &[&'s str]) -> Vec<&'s str> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match (*token, bracketed(tokens, at + 1)) {
            ("__attribute__" | "__attribute", Some((_, after))) => at = after,
            (token, _) => {
                out.push(token);
                at += 1;
            }
        }
    }
    out
}

fn aliases<'s>(tokens: &[&'s str]) -> Aliases<'s> {
    let mut out = Aliases::new();
    for (at, _) in tokens.iter().enumerate().filter(|(_, token)| **token == "typedef") {
        let rest = tokens.get(at + 1..).unwrap_or_default();
        let mut depth = 0_usize;
        let end = rest.iter().position(|token| {
            match *token {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            *token == ";" && depth == 0
        });
        let body = bare(rest.get(..end.unwrap_or(0)).unwrap_or_default());
        let Some((name, of)) = body.split_last() else { continue };
        let plain = of.iter().all(|token| is_name(token));
        let of: Vec<&str> = of.iter().copied().filter(|t| !QUALIFIERS.contains(t)).collect();
        let of = (plain && is_name(name) && !of.is_empty()).then(|| of.join(" "));
        // Arrays, functions and lists end in a sign: their names stand somewhere before it.
        let names = if is_name(name) { std::slice::from_ref(name) } else { &body };
        for name in names {
            let known = out.entry(name).or_insert_with(|| of.clone());
            if *known != of {
                *known = None;
            }
        }
    }
    out
}

/// What a parameter points to.
fn pointee(one: &[&str], aliases: &Aliases<'_>, macros: &HashSet<&str>) -> Option<String> {
    let all = bare(one);
    if all.iter().any(|token| macros.contains(token)) {
        return None;
    }
    let star = all.iter().position(|token| *token == "*")?;
    let (before, after) = (all.get(..star)?, all.get(star + 1..)?);
    let is_plain = |token: &&&str| !QUALIFIERS.contains(*token);
    // One pointer, and behind it nothing but its name.
    let mut names = after.iter().filter(is_plain);
    if !names.next().is_some_and(|name| is_name(name)) || names.next().is_some() {
        return None;
    }
    let mut base: Vec<&str> = before.iter().filter(is_plain).copied().collect();
    if base.is_empty() || !base.iter().all(|token| is_name(token)) {
        return None;
    }
    for _ in 0..aliases.len() {
        let [name] = base[..] else { break };
        let Some(of) = aliases.get(name) else { break };
        base = of.as_deref()?.split(' ').collect();
        if base.iter().any(|token| macros.contains(token)) {
            return None;
        }
    }
    Some(base.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn find_pointed(source: &str) -> Vec<Option<String>> {
        pointed(source, "", "k").unwrap()
    }

    fn find_pointee(parameter: &str) -> Option<String> {
        find_pointed(&format!("kernel void k({parameter}) {{ }}")).remove(0)
    }

    #[test]
    fn spellings_of_pointers_by_table() {
        for (parameter, want) in [
            ("__global float*x", Some("float")),
            ("const __global float4 * restrict x", Some("float4")),
            ("float const global* const __restrict x", Some("float")),
            ("global unsigned\nint *x", Some("unsigned int")),
            ("global float /* of * this */ * // and that\n x", Some("float")),
            ("global half* x __attribute__((unused))", Some("half")),
            ("__attribute__((address_space(1))) double *x", Some("double")),
            ("local double * x", Some("double")),
            ("constant struct pair *x", Some("struct pair")),
            // No pointers, or none that is told.
            ("float x", None),
            ("global float **x", None),
            ("global float *x[4]", None),
            ("global float x[]", None),
            ("global float * global * x", None),
            ("GLOBAL(float) x", None),
            ("GLOBAL(float *) x", None),
            ("global float *", None),
            ("read_only image2d_t x", None),
        ] {
            assert_eq!(find_pointee(parameter).as_deref(), want, "{parameter}");
        }
    }

    #[test]
    fn directives_end_with_their_line_and_not_within_a_comment() {
        let source = "int a;\n/* x */ # define P(i) p[i] /* long\n #if */ + \\\n 1 // end\n\
            char *s = \"#if\"; // goes on \\\n#if\nint b;\n  #endif";
        let text = |text: &str| Piece::Text(text.to_owned());
        let directive = |text: &str| Piece::Directive(text.to_owned());
        assert_eq!(
            pieces(source),
            [
                text("int a;\n  "),
                directive(" define P(i) p[i]   +  1 "),
                text("char *s =  ; \nint b;\n  "),
                directive("endif"),
                text(""),
            ]
        );
        assert_eq!(plain("#define A\nint a;\n#if 1"), "\nint a;\n\n");
    }

    #[test]
    fn names_of_types_are_followed() {
        let kernel = "kernel void k(global vec *x) { }";
        for (text, want) in [
            ("typedef float vec;", Some("float")),
            ("typedef float real; typedef real vec;", Some("float")),
            ("typedef real vec; typedef unsigned int real;", Some("unsigned int")),
            ("typedef float4 vec __attribute__((aligned(4)));", Some("float4")),
            ("#ifdef D\ntypedef double vec;\n#else\ntypedef float vec;\n#endif\n", None),
            ("typedef struct { float x; } vec;", None),
            ("typedef float vec[4];", None),
            ("typedef float *vec;", None),
            ("typedef vec vec;", Some("vec")),
            ("#define vec float\n", None),
            ("#  define real double\ntypedef real vec;", None),
        ] {
            assert_eq!(find_pointed(&format!("{text}\n{kernel}"))[0].as_deref(), want, "{text}");
        }
        let text = format!("typedef REAL vec; {kernel}");
        assert_eq!(pointed(&text, "-cl-mad-enable -DREAL=float", "k").unwrap(), [None]);
        assert_eq!(pointed(&text, "-D REAL=float", "k").unwrap(), [None]);
    }

    #[test]
    fn definitions_that_differ_tell_what_they_have_in_common() {
        let text = "#ifdef A\nkernel void k(global float *x, global int *y) {}\n#else\n\
            kernel void k(global double *x, global int *y) {}\n#endif";
        assert_eq!(find_pointed(text), [None, Some("int".to_owned())]);
        let text = "kernel void k(global float *x) {} kernel void k(global int *y, int n) {}";
        assert_eq!(pointed(text, "", "k"), None);
        // A declaration and another kernel are none.
        let text = "kernel void k(global int *x); kernel void other(global char *x) { k(x); }\n\
            kernel void k(global float *x) { }";
        assert_eq!(find_pointed(text), [Some("float".to_owned())]);
        assert_eq!(pointed("KERNEL(k, global float *x) { }", "", "k"), None);
        assert_eq!(pointed("#define K kernel void k(global float *x) { }\n", "", "k"), None);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(
            text in "[kernel voidtypf#globa*(){}\\[\\];=+&,/\"'\n\\\\é-]{0,200}"
        ) {
            let _ = pointed(&text, &text, "k");
            let _ = pointed(&format!("typedef {text}; kernel void k({text}) {{ }}"), "", "k");
        }
    }
}
