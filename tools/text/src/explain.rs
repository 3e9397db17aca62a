//! An explanation as lines for people. Owns the layout; refuses to say what is not in the value.
#![forbid(unsafe_code)]

use clscope_io::text::{count, line};
use clscope_models::explain::{
    Explained, Explanation, Explanatory, FirstLaunches, Lever, Moved, Statement,
};
use clscope_models::{Figure, Missing};

/// Column of the sentences.
const INDENT: usize = 14;
/// Columns of a line.
const WIDTH: usize = 100;

/// Everything; `only` where the user named kernels, so that the rest is left out.
pub fn render(of: &Explanation, only: bool) -> String {
    let mut out = String::new();
    for device in &of.devices {
        render_device(device, only, &mut out);
    }
    out
}

fn render_device(of: &Explained, only: bool, out: &mut String) {
    let parameters = of
        .parameters
        .as_ref()
        .map_or_else(|| "not measured".to_owned(), |date| format!("parameters of {date}"));
    let forced = of.forced.as_ref().map(|of| format!("; forced: {}", line(of)));
    let forced = forced.unwrap_or_default();
    out.push_str(&format!("{} ({parameters}{forced})\n", line(&of.device)));
    for kernel in &of.kernels {
        render_kernel(kernel, out);
    }
    if of.more_kernels > 0 && !only {
        out.push_str(&format!(
            "\n{} with {:.1} % of the time: --least 0 shows {}\n",
            count(of.more_kernels as u64, "more kernel", "more kernels"),
            of.more_share * 100.0,
            if of.more_kernels == 1 { "it" } else { "them" }
        ));
    }
    if !only {
        for moved in &of.transfers {
            render_transfers(moved, out);
        }
        if !of.idle.is_empty() {
            out.push_str("\nidle\n");
            statements(&of.idle, out);
            levers(&of.idle_levers, out);
        }
    }
    missing(&of.missing, out);
    out.push('\n');
}

fn ns(of: f64) -> String {
    match of {
        t if t >= 1e9 => format!("{:.2} s", t * 1e-9),
        t if t >= 1e6 => format!("{:.2} ms", t * 1e-6),
        t if t >= 1e3 => format!("{:.2} us", t * 1e-3),
        t => format!("{t:.0} ns"),
    }
}

fn render_kernel(of: &Explanatory, out: &mut String) {
    let mut head = format!("\n{}", line(&of.kernel));
    head += &format!("  {}", count(of.launches, "launch", "launches"));
    if let Some(time) = of.time_ns {
        head += &match &of.first_launches {
            Some(FirstLaunches { later_ns, launches, .. }) => {
                let first = if *launches == 1 { "the first" } else { "first ones" };
                format!(" of {} ({} with {first})", estimate(*later_ns), estimate(time))
            }
            None => format!(" of {}", estimate(time)),
        };
    }
    if let Some(share) = of.share {
        head += &format!(", {:.1} % of the kernels' time", share * 100.0);
    }
    if let Some(items) = of.items {
        let local = of.local.map_or_else(String::new, |l| format!(" in groups of {l}"));
        head += &format!("; {}{local}", count(items, "item", "items"));
    }
    out.push_str(&head);
    out.push('\n');
    statements(&of.statements, out);
    levers(&of.levers, out);
    missing(&of.missing, out);
}

/// A mean time; one of which a part was sampled is about that, with its interval.
fn estimate(of: Figure) -> String {
    if !of.estimated {
        return ns(of.value);
    }
    let end = |of: f64| if of.is_finite() { ns(of) } else { "?".to_owned() };
    format!("~{} ({} to {})", ns(of.value), end(of.low), end(of.high))
}

fn render_transfers(of: &Moved, out: &mut String) {
    out.push_str(&format!("\ntransfers, {}\n", of.direction));
    statements(&of.statements, out);
    levers(&of.levers, out);
    missing(&of.missing, out);
}

/// One line, or several, below a heading.
fn put(heading: &str, text: &str, out: &mut String) {
    let mut column = INDENT;
    out.push_str(&format!("  {heading:<width$}", width = INDENT - 2));
    for (n, word) in line(text).split(' ').enumerate() {
        let length = word.chars().count();
        if n > 0 && column + 1 + length > WIDTH {
            out.push_str(&format!("\n{:INDENT$}", ""));
            column = INDENT;
        } else if n > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
}

fn statements(of: &[Statement], out: &mut String) {
    let mut last = "";
    for s in of {
        // The conclusion stands out; a heading is written once.
        let heading = match s.topic {
            "verdict" => "=>",
            topic if topic == last => "",
            topic => topic,
        };
        put(heading, &format!("{} [{}]", s.text, s.evidence.name()), out);
        last = s.topic;
    }
}

fn levers(of: &[Lever], out: &mut String) {
    for (n, lever) in of.iter().enumerate() {
        let mut gains = Vec::new();
        if let Some(time) = lever.saves_ns.filter(|t| t.value > 0.0) {
            gains.push(up_to(time, &ns));
        }
        if let Some(joules) = lever.saves_joules.filter(|j| j.value > 0.0) {
            gains.push(up_to(joules, &|j| format!("{j:.3} J")));
        }
        let gain =
            if gains.is_empty() { String::new() } else { format!(": saves {}", gains.join(", ")) };
        let heading = if n == 0 { "could help" } else { "" };
        put(heading, &format!("{}{gain} [{}]", lever.text, lever.evidence.name()), out);
    }
}

fn up_to(of: Figure, shown: &dyn Fn(f64) -> String) -> String {
    if of.low <= 0.0 {
        format!("up to {}", shown(of.high.max(of.value)))
    } else {
        format!("{} ({} to {})", shown(of.value), shown(of.low), shown(of.high))
    }
}

fn missing(of: &[Missing], out: &mut String) {
    for (n, m) in of.iter().enumerate() {
        put(if n == 0 { "not known" } else { "" }, &format!("{}: {}", m.what, m.remedy), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_models::Evidence;

    #[test]
    fn a_sampled_time_is_about_its_value_and_has_its_interval() {
        let exact = Figure::exact(2e3, Evidence::Measured);
        assert_eq!(estimate(exact), "2.00 us");
        let sampled = Figure { low: 1.5e3, estimated: true, ..exact };
        assert_eq!(estimate(sampled), "~2.00 us (1.50 us to 2.00 us)");
    }

    #[test]
    fn lines_are_as_wide_as_a_terminal_and_names_stay_on_theirs() {
        let mut out = String::new();
        let s = Statement {
            topic: "does",
            text: "word ".repeat(60).trim().to_owned(),
            evidence: Evidence::Counted,
        };
        statements(&[s], &mut out);
        assert!(out.lines().all(|l| l.chars().count() <= WIDTH), "{out}");
        assert!(out.lines().count() > 2 && out.trim_end().ends_with("[counted]"));
        out.clear();
        put("", "a\nname\u{1b}[31m", &mut out);
        assert_eq!(out.lines().count(), 1, "{out:?}");
        assert!(!out.contains('\u{1b}'));
    }
}
