//! Counts beside those of Oclgrind as text. Refuses to judge which of both is right.

use crate::figure::thousands;
use clscope_io::text::{count, line};
use clscope_profile::mixes::simulated::{Compared, Comparison, OfKernel};

/// The comparison as tables, a kernel each.
pub fn text(of: &Comparison) -> String {
    let mut out = String::new();
    for of in &of.kernels {
        out += &kernel(of);
    }
    for (names, whose) in
        [(&of.only_counted, "of the trace alone"), (&of.only_simulated, "in Oclgrind alone")]
    {
        if !names.is_empty() {
            out += &format!("Kernels {whose}: {}\n", line(&names.join(", ")));
        }
    }
    let (agree, all) = of.agreement();
    out += &match all {
        0 => "Nothing to compare.\n".to_owned(),
        _ => format!("{agree} of {} agree.\n", count(all as u64, "figure", "figures")),
    };
    out
}

fn kernel(of: &OfKernel) -> String {
    let mut out = format!("{}: {}", line(&of.kernel), count(of.launches, "launch", "launches"));
    if let Some(why) = &of.not_compared {
        return out + &format!(", not compared: {}\n", line(why));
    }
    out += &match of.counted == of.launches {
        true => ", all counted\n".to_owned(),
        false => format!(", {} counted: the others are taken to be alike\n", of.counted),
    };
    out += &format!("  {:<30}{:>18}{:>18}{:>12}\n", "all launches", "clscope", "Oclgrind", "more");
    for figure in &of.figures {
        let counted = match figure.counted.fract() == 0.0 && figure.counted < 9e15 {
            true => thousands(figure.counted as u64),
            false => format!("~{}", thousands(figure.counted.round() as u64)),
        };
        out += &format!(
            "  {:<30}{counted:>18}{:>18}{:>12}\n",
            figure.figure,
            thousands(figure.simulated),
            difference(figure)
        );
    }
    if !of.without_bytes.is_empty() {
        let names = of.without_bytes.join(", ");
        out += &format!("  Oclgrind counts no bytes of {names}\n");
    }
    if of.chosen_groups && !of.figures.iter().all(Compared::agrees) {
        out += "  Each runtime chose the work-groups: what is done once a group differs\n";
    }
    out
}

fn difference(of: &Compared) -> String {
    match of.difference() {
        _ if of.agrees() => "0".to_owned(),
        Some(share) => format!("{:+.3} %", share * 100.0),
        None => "-".to_owned(),
    }
}
