//! Parts of experiments as commands: as they are listed, and as they ran. Owns the text alone;
//! refuses to choose values: that is [`super::measure`].

use super::{Part, Span, measure};
use crate::suite::Case;
use crate::sweep::{Along, Axis};
use clscope_microbench::cl::DeviceFacts;
use clscope_microbench::settings::Settings;

/// What a part ran with.
pub struct Ran<'a> {
    /// The device.
    pub device: &'a DeviceFacts,
    /// The axes whose values the user chose.
    pub asked: &'a [Along],
    /// The settings of the run.
    pub settings: &'a Settings,
    /// The points.
    pub cases: Vec<&'a Case>,
}

impl Ran<'_> {
    /// The values of an axis that ran.
    fn values(&self, axis: Axis) -> Vec<String> {
        let places = self.cases.iter().filter_map(|c| c.place.as_ref()).flat_map(|p| &p.at);
        let mut out: Vec<String> = Vec::new();
        for at in places.filter(|at| at.axis == axis) {
            let value = crate::sweep::shown(&at.value);
            if !out.contains(&value) {
                out.push(value);
            }
        }
        out
    }
}

/// The values of an axis where no device is known; none: the usual ones.
fn listed(span: Span) -> Vec<String> {
    match span {
        Span::Usual => Vec::new(),
        Span::Rounds => ["U/2", "U", "U+1", "..4U"].map(str::to_owned).to_vec(),
        Span::Powers => ["1", "2", "4", "..U"].map(str::to_owned).to_vec(),
        Span::Numbers(numbers) | Span::OfUnits(_, numbers) => {
            numbers.iter().map(ToString::to_string).collect()
        }
        Span::Types(types) => types.iter().map(|t| t.name().to_owned()).collect(),
    }
}

impl Part {
    /// The command that measures it by itself.
    pub fn command(&self) -> String {
        let mut out = self.text(
            |case| case.to_owned(),
            |_, span| listed(span),
            &measure::settings(self, &Settings::default()),
        );
        let of = self.along.iter().find_map(|(_, span)| match span {
            Span::OfUnits(of, _) => Some(of),
            _ => None,
        });
        if let Some(of) = of {
            out += &format!("  # more groups where the device has more than {of} units");
        }
        out
    }

    /// The command that measures what ran.
    pub fn command_of(&self, ran: &Ran<'_>) -> String {
        let values = |axis: Axis, span: Span| {
            let chosen = ran.asked.iter().any(|a| a.axis == axis && !a.values.is_empty());
            if span == Span::Usual && !chosen { Vec::new() } else { ran.values(axis) }
        };
        self.text(|case| measure::stands_in(case, ran.device), values, ran.settings)
    }

    fn text(
        &self,
        case: impl Fn(&str) -> String,
        values: impl Fn(Axis, Span) -> Vec<String>,
        settings: &Settings,
    ) -> String {
        let mut out = "clscope-lab".to_owned();
        let cases: Vec<String> = self.cases.iter().map(|c| case(c)).collect();
        if self.along.is_empty() {
            out += &format!(" {}", cases.join(" "));
        } else {
            let axes: Vec<String> = self
                .along
                .iter()
                .map(|(axis, span)| match values(*axis, *span) {
                    none if none.is_empty() => axis.name().to_owned(),
                    values => format!("{}={}", axis.name(), values.join(",")),
                })
                .collect();
            out += &format!(" {} --sweep {}", cases.join(" "), axes.join(","));
        }
        let seconds = settings.window_ns.map(|ns| ns as f64 / 1e9);
        let given = [
            ("--iterations", settings.iterations.map(|n| n.to_string())),
            ("--warm-up", settings.warm_up.map(|n| n.to_string())),
            ("--window", seconds.map(|s| s.to_string())),
            ("--repeat", settings.repeat.map(|n| n.to_string())),
            ("--sensors", settings.power.then(|| "always".to_owned())),
        ];
        for (option, value) in given {
            out.extend(value.map(|value| format!(" {option} {value}")));
        }
        if settings.counters {
            out += " --counters";
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(cases: &'static [&'static str], along: &'static [(Axis, Span)], power: bool) -> Part {
        Part { cases, along, power, iterations: None }
    }

    #[test]
    fn commands_are_those_of_the_command_line() {
        let part = sweep(
            &["power/float/mad/scalar"],
            &[(Axis::Blocks, Span::Rounds), (Axis::Width, Span::Numbers(&[1, 4]))],
            true,
        );
        assert_eq!(
            part.command(),
            "clscope-lab power/float/mad/scalar --sweep blocks=U/2,U,U+1,..4U,width=1,4 --sensors always"
        );
        let plain = sweep(&["latency/add/ilp1", "latency/stream/ilp1"], &[], false);
        assert_eq!(plain.command(), "clscope-lab latency/add/ilp1 latency/stream/ilp1");
    }

    /// What the user chose and what the device lacks are in it.
    #[test]
    fn what_ran_is_told() {
        let device = super::super::report::tests::device();
        let all = Settings { full: true, ..Settings::default() };
        let name = "flop/private/float/mad/scalar";
        let cases = (crate::suite::flop::SUITE.cases)(&device, &all);
        let case = cases.iter().find(|c| c.id == name).unwrap();
        let part = sweep(
            &["flop/private/float/fma/scalar"],
            &[(Axis::Blocks, Span::Usual), (Axis::Width, Span::Numbers(&[1, 4, 16]))],
            false,
        );
        let at = |axis, numbers: &[usize]| Along {
            axis,
            values: numbers.iter().map(|n| crate::sweep::Value::Number(*n)).collect(),
        };
        let asked = [at(Axis::Width, &[1, 4])];
        let axes = [at(Axis::Blocks, &[8]), asked[0].clone()];
        let points = crate::sweep::grid(case, &device, &all, &axes).unwrap();
        let settings = Settings { iterations: Some(8), ..Settings::default() };
        let ran = Ran {
            device: &device,
            asked: &asked,
            settings: &settings,
            cases: points.iter().collect(),
        };
        assert_eq!(
            part.command_of(&ran),
            format!("clscope-lab {name} --sweep blocks,width=1,4 --iterations 8")
        );
    }
}
