//! An explanation as lines for people. Owns the layout; refuses to say what is not in the value.

use crate::table::wrapped;
use clscope_io::text::{count, line};
use clscope_models::explain::{
    Explained, Explanation, Explanatory, FirstLaunches, Lever, Moved, Statement,
};
use clscope_models::{Figure, Missing};

/// Column of the sentences.
const INDENT: usize = 14;
/// Lines of a kernel, unless all is wanted.
const LINES: usize = 30;
/// Changes, and unknown inputs, of a kernel, unless all are wanted.
const FEW: usize = 3;
/// What is left out unless all is wanted: the numbers behind a verdict.
const BEHIND: [&str; 3] = ["bounds", "occupancy", "divergence"];

/// What of an explanation is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shown {
    /// The user named kernels, so that transfers and idle time are left out.
    pub only_kernels: bool,
    /// The numbers behind verdicts too, however long.
    pub all: bool,
    /// Columns of a line.
    pub width: usize,
}

/// An explanation as lines.
pub fn render(of: &Explanation, shown: Shown) -> String {
    let mut out = String::new();
    for device in &of.devices {
        render_device(device, shown, &mut out);
    }
    wrapped(&out, shown.width)
}

fn render_device(of: &Explained, shown: Shown, out: &mut String) {
    let only = shown.only_kernels;
    let parameters = of
        .parameters
        .as_ref()
        .map_or_else(|| "not measured".to_owned(), |date| format!("parameters of {date}"));
    let forced = of.forced.as_ref().map(|of| format!("; forced: {}", line(of)));
    let forced = forced.unwrap_or_default();
    out.push_str(&format!("{} ({parameters}{forced})\n", line(&of.device)));
    let shared = Shared::new(of);
    for kernel in &of.kernels {
        render_kernel(kernel, &shared, shown, out);
    }
    if of.more_kernels > 0 && !only {
        out.push_str(&format!(
            "\n{} with {:.1} % of the time: --limit 0 shows {}\n",
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
    shared.render(of, out);
    out.push('\n');
}

/// What is said once for all kernels of a device that it holds for: what would decide their verdicts,
/// and what several of them lack.
struct Shared<'e> {
    decide: Vec<(&'e str, Vec<&'e str>)>,
    missing: Vec<(&'e Missing, usize)>,
}

/// Names of kernels in one line.
const NAMES: usize = 4;

impl<'e> Shared<'e> {
    fn new(of: &'e Explained) -> Self {
        let (mut decide, mut lacks) = (Vec::<(&str, Vec<&str>)>::new(), Vec::new());
        for kernel in &of.kernels {
            if let Some(command) = kernel.decide.as_deref() {
                match decide.iter_mut().find(|(other, _)| *other == command) {
                    Some((_, names)) => names.push(&kernel.kernel),
                    None => decide.push((command, vec![&kernel.kernel])),
                }
            }
            for m in &kernel.missing {
                match lacks.iter_mut().find(|(other, _)| *other == m) {
                    Some((_, n)) => *n += 1,
                    None => lacks.push((m, 1)),
                }
            }
        }
        lacks.retain(|(_, n)| *n > 1);
        Self { decide, missing: lacks }
    }

    /// Whether what would give it stands beside what decides.
    fn is_advised(&self, of: &Missing) -> bool {
        let command = |text: &'e str| text.split('`').nth(1);
        let own = of.remedy.split('`').nth(1);
        own.is_some() && self.decide.iter().any(|(text, _)| command(text) == own)
    }

    /// What is left to be said of one kernel.
    fn rest(&self, of: &[Missing]) -> Vec<Missing> {
        let is_shared = |m: &Missing| self.missing.iter().any(|(other, _)| *other == m);
        of.iter().filter(|m| !is_shared(m) && !self.is_advised(m)).cloned().collect()
    }

    fn render(&self, of: &Explained, out: &mut String) {
        let before = out.len();
        for (n, (command, names)) in self.decide.iter().enumerate() {
            let mut of: Vec<String> =
                names.iter().take(NAMES).map(|name| line(name).into_owned()).collect();
            if names.len() > NAMES {
                of.push(format!("{} more", names.len() - NAMES));
            }
            let heading = if n == 0 { "to decide" } else { "" };
            put(heading, &format!("{command}: {}", of.join(", ")), out);
        }
        let several = self.missing.iter().filter(|(m, _)| !self.is_advised(m));
        let several = several
            .map(|(m, n)| Missing::new(format!("of {n} kernels: {}", m.what), m.remedy.clone()));
        let all: Vec<Missing> =
            several.chain(of.missing.iter().filter(|m| !self.is_advised(m)).cloned()).collect();
        missing(&all, out);
        if out.len() > before && of.kernels.len() > 1 {
            out.insert(before, '\n');
        }
    }
}

fn ns(of: f64) -> String {
    match of {
        t if t >= 1e9 => format!("{:.2} s", t * 1e-9),
        t if t >= 1e6 => format!("{:.2} ms", t * 1e-6),
        t if t >= 1e3 => format!("{:.2} us", t * 1e-3),
        t => format!("{t:.0} ns"),
    }
}

fn render_kernel(of: &Explanatory, shared: &Shared<'_>, shown: Shown, out: &mut String) {
    let lacks = shared.rest(&of.missing);
    let mut head = format!("\n{}", line(&of.kernel));
    head += &format!("  {}", count(of.launches, "launch", "launches"));
    if let Some(time) = of.time_ns {
        head += &match &of.first_launches {
            Some(FirstLaunches { later_ns, launches, held_up, others: 1.., .. }) => {
                let first = match (launches, held_up) {
                    (0, _) => "those held up",
                    (1, 0) => "the first",
                    (_, 0) => "first ones",
                    _ => "first ones and those held up",
                };
                format!(" of {} ({} with {first})", estimate(*later_ns), estimate(time))
            }
            _ => format!(" of {}", estimate(time)),
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
    if shown.all {
        statements(&of.statements, out);
        levers(&of.levers, out);
        missing(&lacks, out);
        return;
    }
    let first: Vec<Statement> =
        of.statements.iter().filter(|s| !BEHIND.contains(&s.topic)).cloned().collect();
    let mut text = String::new();
    statements(&first, &mut text);
    levers(&of.levers[..of.levers.len().min(FEW)], &mut text);
    missing(&lacks[..lacks.len().min(FEW)], &mut text);
    let text = wrapped(&text, shown.width);
    // The head has two lines, the hint one.
    let lines: Vec<&str> = text.lines().collect();
    let kept = lines.len().min(LINES - 3);
    for line in &lines[..kept] {
        out.push_str(line);
        out.push('\n');
    }
    if kept < lines.len() || lacks.len() > FEW || of.levers.len() > FEW {
        put("", "more with --all", out);
    }
}

/// A mean time; one of which a part was sampled is about that, with its interval.
fn estimate(of: Figure) -> String {
    if !of.estimated {
        return ns(of.value);
    }
    format!("~{}", of.interval().in_words(ns))
}

fn render_transfers(of: &Moved, out: &mut String) {
    out.push_str(&format!("\ntransfers, {}\n", of.direction));
    statements(&of.statements, out);
    levers(&of.levers, out);
    missing(&of.missing, out);
}

/// A line with a heading.
fn put(heading: &str, text: &str, out: &mut String) {
    out.push_str(&format!("  {heading:<width$}{}\n", line(text), width = INDENT - 2));
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
        let evidence = format!(" [{}]", s.evidence.name());
        put(heading, &format!("{}{evidence}", s.text), out);
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
        let gain = match gains.is_empty() {
            true => String::new(),
            false => format!(": saves {} {}", gains.join(", "), lever.over.words()),
        };
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
    use clscope_models::explain::Options;
    use clscope_models::facts::OnDevice;
    use clscope_models::{Evidence, Kernel};

    fn said(topic: &'static str, text: &str) -> Statement {
        let (text, numbers) = (text.to_owned(), Vec::new());
        Statement { topic, text, numbers, evidence: Evidence::Counted }
    }

    /// However much there is to say of a kernel, it fits 30 lines; all of it is there on request.
    #[test]
    fn a_kernel_fits_its_lines() {
        let kernel = Kernel { name: "k".to_owned(), launches: 1, ..Kernel::default() };
        let on = OnDevice { name: "d".to_owned(), kernels: vec![kernel], ..OnDevice::default() };
        let options = Options { least_share: 0.0, access_rates: false, wanted: &|_| true };
        let mut of = clscope_models::explain::device(&on, None, options);
        let text = "word ".repeat(60);
        for topic in ["does", "bounds", "verdict", "joules", "launch"].repeat(8) {
            of.kernels[0].statements.push(said(topic, &text));
        }
        of.kernels[0].missing = vec![Missing::new("a", "b"); 9];
        let render = |all| {
            let mut out = String::new();
            let shared = Shared::new(&of);
            render_kernel(
                &of.kernels[0],
                &shared,
                Shown { all, only_kernels: true, width: 100 },
                &mut out,
            );
            wrapped(&out, 100)
        };
        let (few, all) = (render(false), render(true));
        assert!(few.lines().count() <= LINES && few.contains("--all"), "{few}");
        assert!(!few.contains("bounds") && all.contains("bounds"), "{all}");
        assert!(all.lines().count() > 80 && !all.contains("--all"), "{all}");
    }

    /// A command is written once, however many kernels need it, and names them.
    #[test]
    fn a_command_is_said_once_for_all_kernels_that_need_it() {
        for n in [1usize, 2, 5, 9] {
            let kernels = (0..n).map(|k| Kernel {
                name: format!("kernel{k}"),
                launches: 1,
                total_ns: Some(1e9),
                time_ns: Some(Figure::exact(1e9, Evidence::Measured)),
                ..Kernel::default()
            });
            let on = OnDevice {
                name: "d".to_owned(),
                kernels: kernels.collect(),
                ..OnDevice::default()
            };
            let options = Options { least_share: 0.0, access_rates: false, wanted: &|_| true };
            let devices = vec![clscope_models::explain::device(&on, None, options)];
            assert!(devices[0].kernels.iter().all(|k| k.limit.is_some() && k.decide.is_some()));
            let of = Explanation {
                schema: "",
                traces: Vec::new(),
                display_names: Default::default(),
                devices,
            };
            for all in [false, true] {
                let text = render(&of, Shown { all, only_kernels: false, width: 1000 });
                for command in ["clscope record --mix`", "clscope bench model`"] {
                    assert_eq!(text.matches(command).count(), 1, "{text}");
                }
                let line = text.lines().find(|l| l.contains("--mix`")).unwrap();
                assert!(line.contains("to decide") && line.contains("kernel0"), "{text}");
                assert_eq!(line.contains(" more"), n > NAMES, "{text}");
                let lacks: Vec<&str> =
                    text.lines().filter(|l| l.contains("joules of a launch")).collect();
                assert_eq!(lacks.len(), 1, "{text}");
            }
        }
    }

    #[test]
    fn a_sampled_time_is_about_its_value_and_has_its_interval() {
        let exact = Figure::exact(2e3, Evidence::Measured);
        assert_eq!(estimate(exact), "2.00 us");
        let sampled = Figure { low: 1.5e3, estimated: true, ..exact };
        assert_eq!(estimate(sampled), "~2.00 us -25/+0%");
    }

    #[test]
    fn lines_are_as_wide_as_a_terminal_and_names_stay_on_theirs() {
        let mut out = String::new();
        statements(&[said("does", "word ".repeat(60).trim())], &mut out);
        out = wrapped(&out, 100);
        assert!(out.lines().all(|l| l.chars().count() <= 100), "{out}");
        assert!(out.lines().count() > 2 && out.trim_end().ends_with("[counted]"));
        out.clear();
        put("", "a\nname\u{1b}[31m", &mut out);
        assert_eq!(out.lines().count(), 1, "{out:?}");
        assert!(!out.contains('\u{1b}'));
    }
}
