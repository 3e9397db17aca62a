//! One file, served to a browser on this machine. Owns a server that listens on 127.0.0.1 and gives
//! the file to who knows its unguessable path, since other users of the machine reach the port as
//! well. The data leaves the machine by no way. Refuses every other path, method and host name.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// Most bytes of a request: what browsers send is shorter.
const REQUEST: u64 = 16 << 10;
/// A browser that asks for nothing must not keep others waiting.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum ServeError {
    /// The port is taken, or not for this user.
    #[error("cannot listen on 127.0.0.1:{port}; choose another with --port")]
    Listen { port: u16, source: io::Error },
    /// The system does not say which port it chose.
    #[error("cannot tell the port")]
    Port(#[source] io::Error),
    /// There are no random bits.
    #[error("cannot read /dev/urandom for a path that nobody guesses")]
    Secret(#[source] io::Error),
}

/// What is served.
#[derive(Debug)]
pub struct Served {
    /// Its name, the end of its path.
    pub name: &'static str,
    /// Its type, as browsers are told it.
    pub content_type: &'static str,
    /// Its bytes.
    pub body: Vec<u8>,
    /// The origin of another site that may read it.
    pub reader: Option<String>,
}

/// A server of one file, which listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    port: u16,
    path: String,
    file: Served,
}

impl Server {
    /// Listens on a port, 0 for any that is free.
    ///
    /// # Errors
    /// If the port cannot be had.
    pub fn new(port: u16, file: Served) -> Result<Self, ServeError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|source| ServeError::Listen { port, source })?;
        let port = listener.local_addr().map_err(ServeError::Port)?.port();
        let path = format!("/{}/{}", secret().map_err(ServeError::Secret)?, file.name);
        Ok(Self { listener, port, path, file })
    }

    /// Where the file is.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.path)
    }

    /// Serves until the process ends.
    pub fn serve(&self) {
        // A connection that broke off is no reason to end.
        for stream in self.listener.incoming().flatten() {
            let _ = self.answer(stream);
        }
    }

    /// Answers one request.
    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
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
        let names = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let known = host.is_some_and(|h| names.contains(&h)) && path == self.path;
        let (status, body): (&str, &[u8]) = match (known, method) {
            (true, "GET") => ("200 OK", &self.file.body),
            (true, "HEAD") => ("200 OK", b""),
            (true, _) => ("405 Method Not Allowed", b""),
            (false, _) => ("404 Not Found", b""),
        };
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n",
            self.file.content_type,
            if status.starts_with("200") { self.file.body.len() } else { 0 },
        )?;
        if let Some(reader) = self.file.reader.as_ref().filter(|_| known) {
            write!(stream, "Access-Control-Allow-Origin: {reader}\r\n")?;
        }
        stream.write_all(b"\r\n")?;
        stream.write_all(body)?;
        stream.flush()
    }
}

/// 128 random bits.
fn secret() -> io::Result<String> {
    let mut bits = [0; 16];
    File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bits))?;
    Ok(clscope_trace::ids::hex(&bits))
}
