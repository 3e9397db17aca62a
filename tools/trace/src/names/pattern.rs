//! Patterns that users choose names by: `*` for any characters, `?` for one. Refuses anything more.

/// Whether a pattern with `*` and `?` matches a whole name.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (p, n): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut i, mut j) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while j < n.len() {
        match p.get(i) {
            Some('*') => {
                star = Some((i, j));
                i += 1;
            }
            Some(c) if *c == '?' || *c == n[j] => {
                i += 1;
                j += 1;
            }
            _ => match star {
                // The last star takes one character more.
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    i = at + 1;
                    j = taken + 1;
                }
                None => return false,
            },
        }
    }
    p[i..].iter().all(|c| *c == '*')
}

/// Whether a name is meant by what a user wrote: the whole name by a pattern with `*` or `?`, any
/// part of it by anything else.
pub fn is_meant(wanted: &str, name: &str) -> bool {
    if wanted.contains(['*', '?']) { matches(wanted, name) } else { name.contains(wanted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name, is) in [
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("*", "", true),
            ("?b*", "abc", true),
            ("?", "", false),
            ("*a*b", "xxaxxb", true),
            ("**", "x", true),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }

    #[test]
    fn without_either_any_part_of_a_name_is_meant() {
        for (wanted, name, is) in [
            ("scale", "vec_scale_2", true),
            ("scale*", "vec_scale_2", false),
            ("*scale*", "vec_scale_2", true),
            ("", "x", true),
            ("b?", "ab", false),
        ] {
            assert_eq!(is_meant(wanted, name), is, "{wanted} {name}");
        }
    }
}
