//! Machine code of programs as text, by a tool of the system or of a vendor, in a child of this
//! process. Owns which tool reads which format, and where machine code lies in a runtime's
//! container; refuses to decode any instruction itself.
//!
//! | format | known by | tools |
//! |---|---|---|
//! | SPIR-V | magic 0x07230203 | `spirv-dis` |
//! | NVIDIA, ELF machine 190 | ELF header | `nvdisasm`, `cuobjdump -sass` |
//! | Intel GPU, ELF machine 205 | ELF header | none: `ocloc disasm` writes a folder, the error names it |
//! | any other ELF (processors, AMD 224) | ELF header, also inside a container such as PoCL's | `llvm-objdump`, `objdump` |
#![forbid(unsafe_code)]

use crate::scratch::Scratch;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// ELF machines (System V ABI, and the vendors' supplements).
const CUDA: u16 = 190;
const INTEL_GPU: u16 = 205;

const ELF: [u8; 4] = *b"\x7fELF";
const SPIRV: [u8; 4] = 0x0723_0203u32.to_le_bytes();

/// A tool with its arguments before the file's name.
type Tool = (&'static str, &'static [&'static str]);

const OF_SPIRV: &[Tool] = &[("spirv-dis", &["--no-color"])];
const OF_CUDA: &[Tool] = &[("nvdisasm", &["-c"]), ("cuobjdump", &["-sass"])];
const OF_ELF: &[Tool] =
    &[("llvm-objdump", &["-d", "--no-show-raw-insn"]), ("objdump", &["-d", "--no-show-raw-insn"])];

/// Text of machine code, and the tool that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disassembly {
    /// The tool.
    pub tool: &'static str,
    /// What it printed.
    pub text: String,
}

/// Where the ELF image begins in a binary, and its machine: at its start, or inside a container.
fn elf(bytes: &[u8]) -> Option<(usize, u16)> {
    let at = bytes.windows(ELF.len()).position(|w| w == ELF)?;
    // e_machine: two bytes at 18, in the order that byte 5 tells.
    let machine: [u8; 2] = bytes.get(at + 18..at + 20)?.try_into().ok()?;
    let little = bytes.get(at + 5) == Some(&1);
    Some((at, if little { u16::from_le_bytes(machine) } else { u16::from_be_bytes(machine) }))
}

fn tool_in(path: &OsStr, tools: &[Tool]) -> Option<(Tool, PathBuf)> {
    tools.iter().find_map(|tool| {
        let mut folders = std::env::split_paths(path);
        let found = folders.find_map(|folder| {
            // As it is called, or with the number of a version.
            let versions = (11..=30).rev().map(|v| folder.join(format!("{}-{v}", tool.0)));
            std::iter::once(folder.join(tool.0)).chain(versions).find(|p| p.is_file())
        })?;
        Some((*tool, found))
    })
}

/// Disassembles a binary of a program with what `path` (as in `PATH`) has.
///
/// # Errors
/// Why there is no text, as a sentence's end.
pub fn disassemble(bytes: &[u8], path: &OsStr) -> Result<Disassembly, String> {
    let (image, tools) = match (bytes.get(..4) == Some(&SPIRV), elf(bytes)) {
        (true, _) => (bytes, OF_SPIRV),
        (false, Some((_, INTEL_GPU))) => {
            return Err("it is for an Intel GPU, whose disassemblers write whole folders: extract it, and run `ocloc disasm -file`".to_owned());
        }
        (false, Some((at, CUDA))) => (&bytes[at..], OF_CUDA),
        (false, Some((at, _))) => (&bytes[at..], OF_ELF),
        (false, None) => {
            return Err("it holds no machine code in a format that is known".to_owned());
        }
    };
    let Some((tool, program)) = tool_in(path, tools) else {
        let names: Vec<&str> = tools.iter().map(|t| t.0).collect();
        return Err(format!("none of {} is installed", names.join(", ")));
    };
    let failed = |error: std::io::Error| format!("{} cannot be run: {error}", tool.0);
    let folder = Scratch::new(&std::env::temp_dir(), "disassembled")?;
    let file = folder.0.join("binary");
    let ran = std::fs::write(&file, image).and_then(|()| {
        let mut command = Command::new(&program);
        command.args(tool.1).arg(&file).stdin(Stdio::null());
        command.env_remove("LD_PRELOAD").env_remove("LD_AUDIT").output()
    });
    let ran = ran.map_err(failed)?;
    let text = String::from_utf8_lossy(&ran.stdout).replace(&file.display().to_string(), "binary");
    if !ran.status.success() || text.trim().is_empty() {
        let said = String::from_utf8_lossy(&ran.stderr);
        let first = said.lines().find(|l| !l.trim().is_empty()).unwrap_or("it printed nothing");
        return Err(format!("{}: {}", tool.0, first.chars().take(200).collect::<String>()));
    }
    Ok(Disassembly { tool: tool.0, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_found_inside_containers_and_absence_is_said() {
        let own = std::fs::read("/bin/true").unwrap();
        let mut contained = b"poclbin\0some other bytes".to_vec();
        contained.extend(&own);
        assert_eq!(elf(&own).map(|e| e.0), Some(0));
        assert_eq!(elf(&contained).map(|e| e.0), Some(24));
        let nowhere = OsStr::new("/nonexistent");
        let said = disassemble(&contained, nowhere).unwrap_err();
        assert!(said.contains("llvm-objdump, objdump is installed"), "{said}");
        let spirv = [SPIRV.to_vec(), vec![0; 16]].concat();
        assert!(disassemble(&spirv, nowhere).unwrap_err().contains("spirv-dis"));
        assert!(disassemble(b"text", nowhere).unwrap_err().contains("no machine code"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        if tool_in(&path, OF_ELF).is_none() {
            clscope_testing::skip("neither llvm-objdump nor objdump is installed", true);
            return;
        }
        let made = disassemble(&contained, &path).unwrap();
        assert!(made.text.contains("Disassembly of section"), "{}", made.text);
        assert!(!made.text.contains("clscope-disassembled"), "{}", made.text);
    }
}
