//! The usual options of each command, which its `--help` shows. Refuses to know what options do.
#![forbid(unsafe_code)]

use clap::Command;

/// The usual options of commands that have many. Commands that are not here show all.
const USUAL: [(&str, &str); 15] = [
    (
        "record",
        "output force device-timing kernels max-size replay mix capture call-sites counters sensors gpu-power quiet",
    ),
    (
        "stat",
        "repeat warm-up format to with output device-timing kernels replay counters gpu-power quiet",
    ),
    ("report", "format all output section sort by limit name device with explain-energy"),
    ("view", "show port no-browser section sort by limit name device with"),
    ("diff", "fail-on format output limit name with"),
    ("explain", "format all limit name device parameters with"),
    ("roofline", "output energy name device parameters with"),
    ("what-if", "local global clock on local-memory format parameters"),
    ("top", "interval sort once format output"),
    ("bench", "device quick show window output format"),
    ("kernel", "device from repeat tolerance counters mix local options export"),
    ("sql", "recipe format limit"),
    ("perfetto", "output from to tracks host-calls"),
    ("decode", "stream format metrics counters"),
    ("replay", "for kernels mix counters device trust"),
];

/// The command and all below it, with the two ways of help.
pub fn with_help(command: Command) -> Command {
    clscope_screen::help::with_help(command, &USUAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    /// Distinct options of all commands.
    const OPTIONS: usize = 82;

    /// Lines and columns of a small screen.
    const SCREEN: (usize, usize) = (50, 100);

    fn each(of: &Command, to: &mut Vec<Command>) {
        to.push(of.clone());
        of.get_subcommands().filter(|of| !of.is_hide_set()).for_each(|of| each(of, to));
    }

    #[test]
    fn the_help_of_each_command_fits_a_screen_and_help_all_has_every_option() {
        let mut all = Vec::new();
        each(&with_help(crate::Cli::command()), &mut all);
        assert!(all.len() > 30, "{}", all.len());
        for mut command in all.into_iter().map(|of| of.term_width(SCREEN.1)) {
            let (name, short) = (command.get_name().to_owned(), command.render_help().to_string());
            let lines = short.lines().count();
            assert!(lines <= SCREEN.0, "{name}: {lines} lines\n{short}");
            let whole = command.render_long_help().to_string();
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let Some(long) = arg.get_long() else { continue };
                assert!(whole.contains(&format!("--{long}")), "{name}: {long}");
            }
        }
    }

    #[test]
    fn usual_options_are_options_of_their_commands() {
        let mut all = Vec::new();
        each(&crate::Cli::command(), &mut all);
        for (name, usual) in USUAL {
            let of: Vec<&Command> = all.iter().filter(|of| of.get_name() == name).collect();
            assert!(!of.is_empty(), "{name}");
            for option in usual.split(' ') {
                let has = |of: &&Command| of.get_arguments().any(|a| a.get_long() == Some(option));
                assert!(of.iter().any(has), "{name}: {option}");
            }
        }
    }

    /// A new option takes the place of another, or is one more thing for every reader.
    #[test]
    fn there_are_no_more_options_than_today() {
        let mut all = Vec::new();
        each(&crate::Cli::command(), &mut all);
        let arguments = all.iter().flat_map(Command::get_arguments);
        let options: BTreeSet<&str> = arguments.filter_map(Arg::get_long).collect();
        assert!(options.len() <= OPTIONS, "{} options: {options:?}", options.len());
    }
}
