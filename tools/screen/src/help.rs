//! What `--help` shows: of commands with many options the usual ones, each with one sentence, so that
//! it fits a screen. `--help-all` has all of them, whole. Refuses to know what options do.

use clap::{Arg, ArgAction, Command};

/// The command and all below it, with the two ways of help: of commands in `usual` the options that
/// are named there, of others all.
pub fn with_help(mut command: Command, usual: &[(&str, &str)]) -> Command {
    let shown = usual.iter().find(|of| of.0 == command.get_name()).map(|of| of.1);
    let is_usual = |arg: &Arg| {
        let name = arg.get_long();
        shown.is_none_or(|all| name.is_none_or(|name| all.split(' ').any(|of| of == name)))
    };
    command = command.mut_args(|arg| {
        let text = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
        let is_usual = is_usual(&arg);
        let is_hidden = arg.is_hide_short_help_set() || !is_usual;
        let arg = arg.hide_short_help(is_hidden);
        match text {
            Some(text) => arg.help(first_sentence(&text)).long_help(text),
            None => arg,
        }
    });
    let all = Arg::new("help-all").long("help-all").action(ArgAction::HelpLong);
    let short = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
    command = command
        .disable_help_flag(true)
        .arg(short.help("Print the usual options").display_order(1000))
        .arg(all.help("Print all options, and all that is said of them").display_order(1001));
    let names: Vec<String> = command.get_subcommands().map(|of| of.get_name().to_owned()).collect();
    names
        .iter()
        .fold(command, |command, name| command.mut_subcommand(name, |of| with_help(of, usual)))
}

/// A text up to its first full stop.
fn first_sentence(text: &str) -> String {
    let end = [". ", ".\n", "\n\n"].iter().filter_map(|end| text.find(end)).min();
    text[..end.unwrap_or(text.len())].trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_ends_at_its_full_stop() {
        assert_eq!(first_sentence("Most bytes (K, M). Else all"), "Most bytes (K, M)");
        assert_eq!(first_sentence("From 1.5 on"), "From 1.5 on");
        assert_eq!(first_sentence("One\n\nTwo"), "One");
    }
}
