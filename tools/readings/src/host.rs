//! What the headers of a trace's files say of machine and process, wherever they are written.
//! Refuses to invent ids: what the system does not report is zero, as the format defines.

/// Id of this machine (`/etc/machine-id`), zeros if unknown.
pub fn machine_id() -> [u8; 16] {
    hex_file("/etc/machine-id")
}

/// Id of its current boot, zeros if unknown.
pub fn boot_id() -> [u8; 16] {
    hex_file("/proc/sys/kernel/random/boot_id")
}

/// Host name, empty if unknown.
pub fn name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|s| s.trim().to_owned())
        .unwrap_or_default()
}

/// Inode of the pid namespace.
///
/// # Errors
/// If `/proc` does not show it.
pub fn pid_namespace() -> std::io::Result<u64> {
    Ok(std::os::unix::fs::MetadataExt::ino(&std::fs::metadata("/proc/self/ns/pid")?))
}

fn hex_file(path: &str) -> [u8; 16] {
    id(&std::fs::read(path).unwrap_or_default())
}

/// The first 32 hexadecimal digits, whatever stands between them.
fn id(text: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    let digits: Vec<u8> = text.iter().copied().filter(u8::is_ascii_hexdigit).collect();
    if digits.len() >= 32 {
        for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
            let text = std::str::from_utf8(pair).unwrap_or("00");
            *byte = u8::from_str_radix(text, 16).unwrap_or(0);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_are_read_with_and_without_dashes_and_short_ones_are_none() {
        let wanted = [
            0xd4, 0x1d, 0x8c, 0xd9, 0x8f, 0x00, 0xb2, 0x04, 0xe9, 0x80, 0x09, 0x98, 0xec, 0xf8,
            0x42, 0x7e,
        ];
        assert_eq!(super::id(b"d41d8cd98f00b204e9800998ecf8427e\n"), wanted);
        assert_eq!(super::id(b"d41d8cd9-8f00-b204-e980-0998ecf8427e\n"), wanted);
        assert_eq!(super::id(b"d41d8cd98f00b204"), [0; 16]);
    }
}
