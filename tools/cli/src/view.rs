//! `clscope view`: the report's page, or the timeline for Perfetto's viewer, served to a browser on
//! this machine. Owns a server that knows one file: it listens on 127.0.0.1, and gives the file to
//! who knows its unguessable path, since other users of the machine reach the port as well. The
//! data leaves the machine by no way. Refuses every other path, method and host name.
#![forbid(unsafe_code)]

use crate::output::say;
use anyhow::{Context, Result, bail};
use clscope_export::{page, perfetto, power};
use clscope_profile::profile::{Options, Profile};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Most bytes of a request: what browsers send is shorter.
const REQUEST: u64 = 16 << 10;
/// A browser that asks for nothing must not keep others waiting.
const PATIENCE: Duration = Duration::from_secs(10);
/// The only port from which Perfetto's hosted viewer may fetch a trace over plain HTTP.
const PERFETTO_PORT: u16 = 9001;
const PERFETTO: &str = "https://ui.perfetto.dev";

/// Options of `clscope view`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope view                        the newest trace's report as a page in the browser
  clscope view run --show perfetto    its timeline in Perfetto's viewer; the data stays here
  clscope view --no-browser           print the address only")]
pub struct Args {
    /// Trace directories; the newest of the working directory if none is named
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// What is shown
    #[arg(long, value_enum, default_value_t = Show::Html, value_name = "WHAT")]
    show: Show,
    /// Address of a Perfetto viewer of your own
    #[arg(long, value_name = "URL", default_value = PERFETTO)]
    ui: String,
    /// Port to listen on, 0 for any that is free [default: 0; for perfetto: 9001]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Print the address instead of opening it
    #[arg(long)]
    no_browser: bool,
    #[command(flatten)]
    names: crate::args::NameArgs,
    #[command(flatten)]
    parameters: crate::parameters::ParameterArgs,
    #[command(flatten)]
    energy: crate::args::EnergyArgs,
}

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Show {
    /// The report's page
    Html,
    /// The timeline, in Perfetto's viewer
    Perfetto,
}

/// What is served.
struct Served {
    path: String,
    content_type: &'static str,
    body: Vec<u8>,
    /// The origin of another site that may read it.
    reader: Option<String>,
    port: u16,
}

/// Serves until it is interrupted.
///
/// # Errors
/// If the trace cannot be read, or the port is taken.
pub fn run(args: &Args) -> Result<()> {
    if args.show == Show::Perfetto && !args.ui.starts_with("http") {
        bail!("--ui {} is no address: name one as {PERFETTO}", args.ui);
    }
    let body = body(args)?;
    let port = args.port.unwrap_or(if args.show == Show::Perfetto { PERFETTO_PORT } else { 0 });
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| {
        format!("cannot listen on 127.0.0.1:{port}; choose another with --port")
    })?;
    let port = listener.local_addr().context("cannot tell the port")?.port();
    let (name, content_type) = match args.show {
        Show::Html => ("report.html", "text/html; charset=utf-8"),
        Show::Perfetto => ("trace", "application/octet-stream"),
    };
    let ui = args.ui.trim_end_matches('/');
    let served = Served {
        path: format!("/{}/{name}", secret()?),
        content_type,
        body,
        reader: (args.show == Show::Perfetto).then(|| ui.to_owned()),
        port,
    };
    let local = format!("http://127.0.0.1:{port}{}", served.path);
    let address = match args.show {
        Show::Html => local,
        Show::Perfetto => format!("{ui}/#!/?url={local}"),
    };
    say(format_args!("{address}"));
    if !args.no_browser && !opened(&address) {
        say("no browser could be started: open the address above yourself");
    }
    say("serving until you press Ctrl-C");
    // A connection that broke off is no reason to end.
    for stream in listener.incoming().flatten() {
        let _ = answer(stream, &served);
    }
    Ok(())
}

fn body(args: &Args) -> Result<Vec<u8>> {
    let profile = Profile::open(&args.traces)?;
    let energy = args.energy.options();
    let form = args.names.form(false);
    let view = profile.view(Options { energy, name_sites: true, form, ..Options::default() });
    let report = view.report()?;
    let names = profile.files().names();
    if report.duration_ns.is_none() {
        bail!("nothing of {} could be read: `clscope report` says why", names.join(", "));
    }
    let mut body = Vec::new();
    match args.show {
        Show::Html => {
            let explained = match view.has_mixes() {
                true => crate::explain::all(&view, &args.parameters)?,
                false => Vec::new(),
            };
            let options = page::Options { title: None, most: Some(64 << 20), explained };
            page::write(&view, &report, &options, &mut body)?;
        }
        Show::Perfetto => {
            let power = power::Power::of(&view)?;
            let times = || view.times();
            let document = perfetto::Document {
                trace: view.trace(),
                alignment: view.alignment(),
                power: &power,
                by: view.energy_grouping(),
                sources: &names,
                report: &times,
                options: perfetto::Options::default(),
            };
            document.write(&mut body)?;
        }
    }
    Ok(body)
}

/// 128 random bits.
fn secret() -> Result<String> {
    let mut bits = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut f| f.read_exact(&mut bits))
        .context("cannot read /dev/urandom for a path that nobody guesses")?;
    Ok(clscope_trace::ids::hex(&bits))
}

/// Whether a browser was started.
fn opened(address: &str) -> bool {
    let mut start = Command::new("xdg-open");
    start.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    start.status().is_ok_and(|status| status.success())
}

/// Answers one request.
fn answer(mut stream: TcpStream, served: &Served) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new((&stream).take(REQUEST)).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let mut host = None;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("host")
        {
            host = Some(value.trim().to_owned());
        }
    }
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // Another name for this address would be some site's that wants the file.
    let names = [format!("127.0.0.1:{}", served.port), format!("localhost:{}", served.port)];
    let known = host.is_some_and(|h| names.contains(&h)) && path == served.path;
    let (status, body): (&str, &[u8]) = match (known, method) {
        (true, "GET") => ("200 OK", &served.body),
        (true, "HEAD") => ("200 OK", b""),
        (true, _) => ("405 Method Not Allowed", b""),
        (false, _) => ("404 Not Found", b""),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n",
        served.content_type,
        if status.starts_with("200") { served.body.len() } else { 0 },
    )?;
    if let Some(reader) = served.reader.as_ref().filter(|_| known) {
        write!(stream, "Access-Control-Allow-Origin: {reader}\r\n")?;
    }
    stream.write_all(b"\r\n")?;
    stream.write_all(body)?;
    stream.flush()
}
