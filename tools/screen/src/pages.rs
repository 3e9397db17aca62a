//! Owns what is made of the command line's own description: completions of shells and manual pages.
//! Refuses to describe an option itself: all words are those of `--help`.

use crate::output::{self, say};
use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::Man;
use clscope_io::output::{Access, create_dir, own_directory};
use roff::{Roff, roman};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Options of `clscope completions`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope completions bash > ~/.local/share/bash-completion/completions/clscope
  clscope completions zsh > ~/.zfunc/_clscope
  clscope completions fish > ~/.config/fish/completions/clscope.fish")]
pub struct CompletionArgs {
    /// The shell
    shell: clap_complete::Shell,
}

/// Options of `clscope man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Directory to write clscope.1, clscope-record.1 and the others to; it is made if it is not
    /// there
    directory: PathBuf,
}

/// Prints the script.
///
/// # Errors
/// If it cannot be written.
pub fn completions(mut command: Command, args: &CompletionArgs) -> Result<()> {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    let mut out = output::file_to_stdout(false);
    out.write_all(&script).and_then(|()| out.flush()).context("cannot write the script to stdout")
}

/// Writes the pages.
///
/// # Errors
/// If they cannot be written.
pub fn man(command: Command, args: &ManArgs) -> Result<()> {
    let directory = &args.directory;
    let made = match create_dir(directory, Access::Umask) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => own_directory(directory),
        other => other,
    };
    made.with_context(|| format!("cannot write manual pages to {}", directory.display()))?;
    let mut command = command.disable_help_subcommand(true);
    // Only then do subcommands know their whole names.
    command.build();
    let pages = page(&command, directory)?;
    say(format_args!("{pages} manual pages in {}", directory.display()));
    Ok(())
}

/// Writes the page of a command and those below it; gives their number.
fn page(command: &Command, directory: &Path) -> Result<usize> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut text = Vec::new();
    let page = Man::new(command.clone()).title(name).manual("clscope");
    page.render(&mut text).context("cannot write a manual page")?;
    text.extend(examples(command).to_roff().into_bytes());
    output::write_whole(&directory.join(format!("{name}.1")), |out| Ok(out.write_all(&text)?))?;
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .try_fold(1, |pages, below| Ok(pages + self::page(below, directory)?))
}

/// What `--help` begins with: a heading, then a line for each example.
fn examples(command: &Command) -> Roff {
    let mut section = Roff::new();
    let text = command.get_before_help().map(ToString::to_string).unwrap_or_default();
    let mut lines = text.lines().skip(1).map(str::trim_start).peekable();
    if lines.peek().is_some() {
        section.control("SH", ["EXAMPLES"]).control("nf", []);
        lines.for_each(|line| {
            section.text([roman(line)]);
        });
        section.control("fi", []);
    }
    section
}
