//! Short forms of demangled names: `sycl::detail::Wrapper<app::Sum, 4>` is `Wrapper<Sum, 4>`. Works
//! on text, whatever it is, and refuses to nest deeper than a bound. Two names may have the same
//! short form: who shows names sees to it.

/// Deepest template arguments that are shortened.
const DEPTH: usize = 16;

/// The last part of a qualified name, template arguments likewise. A lambda is no name: the
/// function around it stays.
pub fn last(name: &str) -> String {
    shortened(name, DEPTH)
}

fn shortened(name: &str, depth: usize) -> String {
    if depth == 0 {
        return name.to_owned();
    }
    let parts: Vec<&str> = split(name, "::").into_iter().filter(|p| !is_call(p)).collect();
    let named = parts.iter().rposition(|p| !is_lambda(p)).unwrap_or(0);
    let of = parts.get(named..).unwrap_or_default();
    let parts: Vec<String> = of.iter().map(|part| shorten_part(part, depth)).collect();
    if parts.is_empty() { name.to_owned() } else { parts.join("::") }
}

/// The call operator of a lambda, which its name says already.
fn is_call(part: &str) -> bool {
    part.starts_with("operator()(")
}

fn is_lambda(part: &str) -> bool {
    part.starts_with("{lambda(") || part.starts_with("'lambda") || part.starts_with("{unnamed")
}

/// One part: the number of a lambda without its parameters, a function without them, template
/// arguments shortened.
fn shorten_part(part: &str, depth: usize) -> String {
    if is_lambda(part) {
        let number = part.rfind('#').and_then(|at| part.get(at..)).unwrap_or("}");
        let kind = if part.starts_with("{unnamed") { "unnamed" } else { "lambda" };
        return format!("{{{kind}{number}");
    }
    // What stands before the parameters, which begin outside all brackets.
    let part = split(part, "(").first().copied().unwrap_or(part);
    let Some((name, rest)) = part.split_once('<') else { return part.to_owned() };
    let Some((inside, behind)) = rest.rsplit_once('>') else { return part.to_owned() };
    if name.ends_with("operator") {
        return part.to_owned();
    }
    let arguments: Vec<String> =
        split(inside, ", ").into_iter().map(|argument| shortened(argument, depth - 1)).collect();
    format!("{name}<{}>{behind}", arguments.join(", "))
}

/// Splits where `at` stands outside all brackets.
fn split<'t>(text: &'t str, at: &str) -> Vec<&'t str> {
    let mut out = Vec::new();
    let (mut depth, mut begin) = (0_u32, 0);
    let mut before = ' ';
    for (i, c) in text.char_indices() {
        if depth == 0 && i >= begin && text[i..].starts_with(at) && i > begin {
            out.push(&text[begin..i]);
            begin = i + at.len();
        }
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            // Not the arrow of operator->.
            '>' if before != '-' => depth = depth.saturating_sub(1),
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
    }
    out.push(text.get(begin..).unwrap_or_default());
    out
}
