//! Descriptors from a privileged helper to an unprivileged reader, over a Unix socket. Owns the
//! message and the check of who asks; passes energy counters only (perf events and powercap files),
//! which read nothing else: MSR files have no kind here. Refuses peers outside the group, and, on
//! the reader's side, a helper that is not root.
//!
//! # The message
//! One per connection, from the helper: `CLSCOPEH`, then two little-endian u32 (bytes of text,
//! number of descriptors), with the descriptors attached as SCM_RIGHTS to these 16 bytes; then the
//! text: for each descriptor one line, `perf,` or `file,` before a domain line of
//! [`crate::replay`]. A refused peer gets the same head with no descriptor and one line
//! `refused,REASON`.

use crate::error::SensorError;
use crate::files::{Files, Roots, read_count};
use crate::rapl::Processor;
use crate::rapl::perf::{self, PerfCounter, PerfFd, PowerPmu};
use crate::rapl::powercap::Powercap;
use crate::replay::{domain_line, parse_domain};
use crate::source::{Domain, Pace, SensorSource, TakeReading, Value, read_each};
use crate::units::Clock;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use thiserror::Error;

const MAGIC: &[u8; 8] = b"CLSCOPEH";
const HEAD: usize = 16;
const MAX_TEXT: usize = 64 * 1024;
/// The kernel's limit per message (SCM_MAX_FD).
const MAX_FDS: usize = 253;
const WHAT: &str = "energy counters from the helper";

/// What went wrong between helper and reader.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HandoverError {
    /// The socket failed.
    #[error("{WHAT}: {attempt} failed")]
    Io {
        /// What was attempted.
        attempt: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The helper refused us, or we refuse the peer.
    #[error("{WHAT}: refused: {0}")]
    Refused(String),
    /// The message is not the helper's.
    #[error("{WHAT}: malformed message: {0}")]
    Malformed(&'static str),
}

fn io_error(attempt: &'static str) -> impl FnOnce(io::Error) -> HandoverError {
    move |source| HandoverError::Io { attempt, source }
}

/// How a passed descriptor is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A perf event: eight bytes.
    Perf,
    /// A powercap file: decimal text from offset 0.
    File,
}

/// A descriptor with what it counts.
pub struct Offer {
    /// What.
    pub domain: Domain,
    /// How it is read.
    pub kind: Kind,
    /// The descriptor.
    pub fd: OwnedFd,
}

/// Who is at the other end of a socket (SO_PEERCRED, SO_PEERGROUPS): as it was when it connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Peer {
    /// Asks the kernel.
    ///
    /// # Errors
    /// The system's.
    pub fn ask(stream: &UnixStream) -> io::Result<Peer> {
        let mut cred = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut size = size_of::<libc::ucred>() as libc::socklen_t;
        let fd = stream.as_raw_fd();
        // SAFETY: `cred` is writable and `size` says how large it is; the descriptor is open while
        // `stream` lives.
        let rc = unsafe {
            libc::getsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut cred).cast(),
                &mut size,
            )
        };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
        // The kernel allows 65536 groups; no user of sensors needs more than these.
        let mut groups = vec![0 as libc::gid_t; 1024];
        let mut size = size_of_val(&groups[..]) as libc::socklen_t;
        // SAFETY: as above, with the vector's storage.
        let rc = unsafe {
            libc::getsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &mut size,
            )
        };
        // Too many groups, or a kernel before 4.13: the primary group alone decides.
        let count = if rc == 0 { size as usize / size_of::<libc::gid_t>() } else { 0 };
        groups.truncate(count);
        Ok(Peer { uid: cred.uid, gid: cred.gid, groups })
    }

    /// Whether this peer may have the counters: root, or a member of `group`.
    pub fn is_allowed(&self, group: u32) -> bool {
        self.uid == 0 || self.gid == group || self.groups.contains(&group)
    }
}

/// Opens what the helper has to give: powercap zones, else perf events. To be called with
/// privilege, with the real roots or ones the administrator named; never with paths from a peer.
///
/// # Errors
/// Where neither interface gives anything.
pub fn open_offers(files: &dyn Files, roots: &Roots) -> Result<Vec<Offer>, SensorError> {
    let refused = match Powercap::open(files, roots) {
        Ok((powercap, _)) => {
            let offers: Vec<Offer> = powercap
                .paths()
                .filter_map(|(domain, path)| {
                    let fd = OwnedFd::from(File::open(path).ok()?);
                    Some(Offer { domain: domain.clone(), kind: Kind::File, fd })
                })
                .collect();
            if !offers.is_empty() {
                return Ok(offers);
            }
            SensorError::Unsupported {
                what: WHAT,
                why: "no powercap file can be opened".to_owned(),
            }
        }
        Err(error) => error,
    };
    let Ok(pmu) = PowerPmu::describe(files, roots) else { return Err(refused) };
    let cpu_kind = Processor::read(files, roots);
    let mut offers: Vec<Offer> = Vec::new();
    for event in &pmu.events {
        for &cpu in &pmu.cpus {
            let domain =
                perf::event_domain(event, &cpu_kind, perf::package_of(files, roots, cpu), cpu);
            if offers.iter().any(|o| o.domain.name == domain.name) {
                continue;
            }
            if let Ok(fd) = perf::open_fd(event.pmu_type, event.config, cpu) {
                offers.push(Offer { domain, kind: Kind::Perf, fd });
            }
        }
    }
    if offers.is_empty() { Err(refused) } else { Ok(offers) }
}

/// Aligned room for the control message of `MAX_FDS` descriptors.
#[repr(C, align(8))]
struct Control([u8; 1040]);

fn send_head(stream: &UnixStream, head: &[u8; HEAD], fds: &[RawFd]) -> io::Result<()> {
    let mut control = Control([0; 1040]);
    let mut part = libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: HEAD };
    // SAFETY: plain data; all-zero is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    if !fds.is_empty() {
        let bytes = size_of_val(fds) as libc::c_uint;
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: pure arithmetic.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as _;
        // SAFETY: the control buffer is set, aligned for cmsghdr, and holds CMSG_SPACE of at most
        // MAX_FDS descriptors (checked by the caller), so the first header and its data lie inside
        // it; CMSG_DATA is aligned for c_int.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&message);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(bytes) as _;
            std::ptr::copy_nonoverlapping(
                fds.as_ptr(),
                libc::CMSG_DATA(first).cast::<RawFd>(),
                fds.len(),
            );
        }
    }
    // SAFETY: every pointer in `message` refers to a local that lives to the end of this function.
    let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
    match usize::try_from(sent) {
        Ok(HEAD) => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

fn receive_head(stream: &UnixStream) -> io::Result<([u8; HEAD], Vec<OwnedFd>, bool)> {
    let mut head = [0u8; HEAD];
    let mut control = Control([0; 1040]);
    let mut part = libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: HEAD };
    // SAFETY: plain data; all-zero is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_WAITALL;
    // SAFETY: every pointer in `message` refers to a local that lives to the end of this function.
    let got = unsafe { libc::recvmsg(stream.as_raw_fd(), &mut message, flags) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut fds = Vec::new();
    // SAFETY: the kernel wrote well-formed control messages of msg_controllen bytes into the
    // buffer; the CMSG macros walk exactly these. Each descriptor was just made for this process
    // and has no other owner.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&message);
        while !next.is_null() {
            if (*next).cmsg_level == libc::SOL_SOCKET && (*next).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*next).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(next).cast::<RawFd>();
                for i in 0..bytes / size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                }
            }
            next = libc::CMSG_NXTHDR(&message, next);
        }
    }
    if got as usize != HEAD {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((head, fds, message.msg_flags & libc::MSG_CTRUNC != 0))
}

fn send(stream: &UnixStream, text: &str, fds: &[RawFd]) -> Result<(), HandoverError> {
    let mut head = [0u8; HEAD];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&(text.len() as u32).to_le_bytes());
    head[12..].copy_from_slice(&(fds.len() as u32).to_le_bytes());
    send_head(stream, &head, fds).map_err(io_error("sending descriptors"))?;
    (&*stream).write_all(text.as_bytes()).map_err(io_error("sending their description"))
}

/// Serves one connection: gives the counters to a member of `group` (a group id) or root, refuses
/// others.
///
/// # Errors
/// [`HandoverError::Refused`] names the peer that was turned away; else the socket's. None of them
/// need end the helper.
pub fn serve(stream: &UnixStream, offers: &[Offer], group: u32) -> Result<Peer, HandoverError> {
    let peer = Peer::ask(stream).map_err(io_error("asking who the peer is"))?;
    serve_peer(stream, offers, group, peer)
}

fn serve_peer(
    stream: &UnixStream,
    offers: &[Offer],
    group: u32,
    peer: Peer,
) -> Result<Peer, HandoverError> {
    if !peer.is_allowed(group) {
        let reason = format!("user {} is not in group {group}", peer.uid);
        send(stream, &format!("refused,{reason}\n"), &[])?;
        return Err(HandoverError::Refused(reason));
    }
    let offers = offers.get(..MAX_FDS).unwrap_or(offers);
    let mut text = String::new();
    for (id, offer) in offers.iter().enumerate() {
        let kind = match offer.kind {
            Kind::Perf => "perf",
            Kind::File => "file",
        };
        text.push_str(&format!("{kind},{}\n", domain_line(id, &offer.domain)));
    }
    let fds: Vec<RawFd> = offers.iter().map(|offer| offer.fd.as_raw_fd()).collect();
    send(stream, &text, &fds)?;
    Ok(peer)
}

/// Asks the helper at `socket` for its counters.
///
/// # Errors
/// Where there is no helper, it is not root's, or it refuses.
pub fn connect(socket: &Path) -> Result<Passed, HandoverError> {
    let stream =
        UnixStream::connect(socket).map_err(io_error("connecting to the helper's socket"))?;
    let limit = Some(std::time::Duration::from_secs(5));
    stream.set_read_timeout(limit).map_err(io_error("limiting the wait for the helper"))?;
    let helper = Peer::ask(&stream).map_err(io_error("asking who the helper is"))?;
    if helper.uid != 0 {
        // Forged figures of another user would appear in a report as measured.
        return Err(HandoverError::Refused(format!(
            "the helper belongs to user {}, not root",
            helper.uid
        )));
    }
    receive(&stream)
}

/// Takes the message from a connected stream.
///
/// # Errors
/// As [`connect`], and [`HandoverError::Malformed`]. Descriptors of a bad message are closed.
pub fn receive(stream: &UnixStream) -> Result<Passed, HandoverError> {
    use HandoverError::Malformed;
    let (head, fds, cut) = receive_head(stream).map_err(io_error("receiving descriptors"))?;
    let word = |at: usize| {
        head.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
    };
    let (length, count) = (word(8) as usize, word(12) as usize);
    if &head[..8] != MAGIC {
        return Err(Malformed("no such beginning"));
    }
    if cut || count != fds.len() {
        return Err(Malformed(
            "descriptors are missing: the limit of open files may be reached (ulimit -n)",
        ));
    }
    if length > MAX_TEXT {
        return Err(Malformed("a description of more than 64 KiB"));
    }
    let mut text = vec![0u8; length];
    (&*stream).read_exact(&mut text).map_err(io_error("receiving their description"))?;
    let text = String::from_utf8(text).map_err(|_| Malformed("a description that is no text"))?;
    if let Some(reason) = text.strip_prefix("refused,") {
        return Err(HandoverError::Refused(reason.trim_end().to_owned()));
    }
    let mut passed = Passed { domains: Vec::new(), counters: Vec::new() };
    let mut lines = text.lines();
    for (id, fd) in fds.into_iter().enumerate() {
        let (kind, domain) =
            lines.next().and_then(|l| l.split_once(',')).ok_or(Malformed("a line is missing"))?;
        let domain =
            parse_domain(domain, id).ok_or(Malformed("a domain line that cannot be read"))?;
        let file = File::from(fd);
        passed.counters.push(match kind {
            "perf" => Counter::Perf(PerfFd(file)),
            "file" => Counter::File(file),
            _ => return Err(Malformed("a descriptor of unknown kind")),
        });
        passed.domains.push(domain);
    }
    if lines.next().is_some() {
        return Err(Malformed("more lines than descriptors"));
    }
    Ok(passed)
}

enum Counter {
    Perf(PerfFd),
    File(File),
}

/// Counters received from the helper, as a source.
pub struct Passed {
    domains: Vec<Domain>,
    counters: Vec<Counter>,
}

impl SensorSource for Passed {
    fn about(&self) -> (&str, &[Domain], Pace) {
        ("helper", &self.domains, perf::RAPL_PACE)
    }

    fn read(&mut self, clock: &mut dyn Clock, out: TakeReading<'_>) -> Result<(), SensorError> {
        let path = Path::new("(descriptor from the helper)");
        read_each(&self.counters, clock, out, |counter| {
            let counts = match counter {
                Counter::Perf(fd) => {
                    fd.count().map_err(|e| crate::files::read_error(WHAT, path, e))?
                }
                // From offset 0: the passed descriptor's own offset is shared with every other
                // reader.
                Counter::File(file) => read_count(WHAT, file, path)?,
            };
            Ok(Value::Counter(counts))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Plane, Quantity, Range};
    use crate::units::{EnergyUnit, RawNs};

    fn offers(dir: &Path) -> Vec<Offer> {
        ["package-0", "package-0/dram"]
            .iter()
            .enumerate()
            .map(|(i, name)| {
                let path = dir.join(i.to_string());
                std::fs::write(&path, format!("{}\n", 1000 + i)).unwrap();
                let quantity =
                    Quantity::Energy { unit: EnergyUnit::MICROJOULE, range: Range::Wraps(99_999) };
                let domain = Domain {
                    plane: Some(Plane::Package),
                    package: Some(0),
                    ..Domain::new(*name, quantity)
                };
                Offer { domain, kind: Kind::File, fd: File::open(path).unwrap().into() }
            })
            .collect()
    }

    /// A helper's end and a reader's, which waits for a message no longer than a test may.
    fn pair() -> (UnixStream, UnixStream) {
        let (helper, reader) = UnixStream::pair().unwrap();
        reader.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        (helper, reader)
    }

    fn me() -> Peer {
        let (a, _b) = UnixStream::pair().unwrap();
        Peer::ask(&a).unwrap()
    }

    #[test]
    fn descriptors_arrive_and_read_on_after_the_name_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let offers = offers(dir.path());
        let (helper, reader) = pair();
        let group = me().gid;
        assert_eq!(serve(&helper, &offers, group).unwrap().gid, group);
        let mut passed = receive(&reader).unwrap();
        let want: Vec<Domain> = offers.iter().map(|o| o.domain.clone()).collect();
        assert_eq!(passed.domains(), want);
        drop(offers);
        std::fs::write(dir.path().join("0"), "2000\n").unwrap();
        std::fs::remove_file(dir.path().join("0")).unwrap();
        for _ in 0..2 {
            let mut values = Vec::new();
            passed.read(&mut || RawNs(1), &mut |r| values.push(r.value)).unwrap();
            assert_eq!(values, [Value::Counter(2000), Value::Counter(1001)]);
        }
    }

    #[test]
    fn strangers_are_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let offers = offers(dir.path());
        let stranger = Peer { uid: 1000, gid: 1000, groups: vec![27] };
        let (helper, reader) = pair();
        let refused = serve_peer(&helper, &offers, 998, stranger).err().unwrap();
        assert!(matches!(refused, HandoverError::Refused(_)));
        match receive(&reader) {
            Err(HandoverError::Refused(why)) => assert_eq!(why, "user 1000 is not in group 998"),
            other => panic!("{:?}", other.map(|_| ())),
        }
    }

    #[test]
    fn membership_by_table() {
        let table = [
            (Peer { uid: 0, gid: 0, groups: vec![] }, true),
            (Peer { uid: 7, gid: 998, groups: vec![] }, true),
            (Peer { uid: 7, gid: 7, groups: vec![4, 998] }, true),
            (Peer { uid: 7, gid: 7, groups: vec![4] }, false),
        ];
        for (peer, want) in table {
            assert_eq!(peer.is_allowed(998), want, "{peer:?}");
        }
    }

    #[test]
    fn messages_that_are_not_ours_are_refused() {
        let file = File::open("/dev/null").unwrap();
        let head = |magic: &[u8; 8], length: u32, count: u32| {
            let mut head = [0u8; HEAD];
            head[..8].copy_from_slice(magic);
            head[8..12].copy_from_slice(&length.to_le_bytes());
            head[12..].copy_from_slice(&count.to_le_bytes());
            head
        };
        let table: [(&str, [u8; HEAD], &str); 8] = [
            ("magic", head(b"XXXXXXXX", 0, 1), ""),
            ("fewer descriptors than said", head(MAGIC, 0, 2), ""),
            ("too long", head(MAGIC, 1 << 20, 1), ""),
            ("no line", head(MAGIC, 0, 1), ""),
            ("unknown kind", head(MAGIC, 30, 1), "msr,domain,0,power,pkg,0,xxxxx"),
            ("bad domain", head(MAGIC, 30, 1), "file,domain,9,power,pkg,0,xxxx"),
            ("too many lines", head(MAGIC, 34, 1), "file,domain,0,power,pkg,0,x\nfile,x"),
            ("cut short", head(MAGIC, 31, 1), "file,"),
        ];
        for (name, head, text) in table {
            let (helper, reader) = pair();
            send_head(&helper, &head, &[file.as_raw_fd()]).unwrap();
            (&helper).write_all(text.as_bytes()).unwrap();
            drop(helper);
            let got = receive(&reader);
            assert!(
                matches!(got, Err(HandoverError::Malformed(_) | HandoverError::Io { .. })),
                "{name}"
            );
        }
        // Half a head, and none.
        for sent in [0, 7] {
            let (mut helper, reader) = pair();
            helper.write_all(&MAGIC[..sent]).unwrap();
            drop(helper);
            assert!(matches!(receive(&reader), Err(HandoverError::Io { .. })));
        }
    }

    #[test]
    fn the_helper_opens_what_the_tree_has() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::below(dir.path());
        assert!(open_offers(&crate::files::System, &roots).is_err());
        let zone = roots.sys.join("class/powercap/intel-rapl:0");
        std::fs::create_dir_all(&zone).unwrap();
        for (file, text) in
            [("name", "package-0"), ("max_energy_range_uj", "1000"), ("energy_uj", "5")]
        {
            std::fs::write(zone.join(file), text).unwrap();
        }
        let offers = open_offers(&crate::files::System, &roots).unwrap();
        assert_eq!(
            (offers.len(), offers[0].kind, offers[0].domain.name.as_str()),
            (1, Kind::File, "package-0")
        );
    }
}
