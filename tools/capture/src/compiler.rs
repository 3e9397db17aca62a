//! Translates OpenCL C to SPIR-V, so that what it executes can be counted, and SPIR-V to the bitcode
//! that runtimes with `cl_khr_spir` take, with the system's `clang` and `llvm-spirv`, in children
//! of this process. Owns which options reach the compiler; refuses all others.

use crate::scratch::Scratch;
use clscope_io::input;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Most bytes of what a tool writes.
const MOST: u64 = 64 << 20;

/// What is done in folders for the tools' files.
const WHAT: &str = "translated";

/// The programs that translate.
#[derive(Debug, Clone)]
struct Tools {
    clang: PathBuf,
    llvm_spirv: PathBuf,
}

/// Translates a source with its options to SPIR-V. Files that the tools need are made in a folder of
/// the system's for temporary ones, and taken away.
///
/// # Errors
/// Why it is not translated, as a sentence's end.
pub fn translate(source: &[u8], options: &str, path: &OsStr) -> Result<Vec<u8>, String> {
    let tools = find(path)?;
    translated(options, source, &std::env::temp_dir(), &tools)
}

/// Makes the bitcode of a SPIR-V module, as `cl_khr_spir` takes it, with calls of OpenCL 1.2.
///
/// # Errors
/// Why none is made, as a sentence's end.
pub fn bitcode(module: &[u8], path: &OsStr) -> Result<Vec<u8>, String> {
    let tools = find(path)?;
    let folder = Scratch::new(&std::env::temp_dir(), WHAT)?;
    let [from, to] = ["module", "bitcode"].map(|name| folder.0.join(name));
    std::fs::write(&from, module).map_err(|error| error.to_string())?;
    let mut spirv = Command::new(&tools.llvm_spirv);
    spirv.args(["-r", "--spirv-target-env=CL1.2"]).arg(&from).arg("-o").arg(&to);
    run(spirv, b"")?;
    input::read_inside(&to, MOST).map_err(|error| format!("no bitcode was written: {error}"))
}

/// A program of `PATH`, as it is called or with the number of a version: a pair of equal versions
/// understands itself.
fn find(path: &OsStr) -> Result<Tools, &'static str> {
    let program = |name: &str| {
        std::env::split_paths(path).map(|folder| folder.join(name)).find(|path| path.is_file())
    };
    for version in (14..=30).rev() {
        let (clang, llvm_spirv) = (format!("clang-{version}"), format!("llvm-spirv-{version}"));
        if let (Some(clang), Some(llvm_spirv)) = (program(&clang), program(&llvm_spirv)) {
            return Ok(Tools { clang, llvm_spirv });
        }
    }
    match (program("clang"), program("llvm-spirv")) {
        (Some(clang), Some(llvm_spirv)) => Ok(Tools { clang, llvm_spirv }),
        (None, _) => Err("clang is not installed"),
        (_, None) => Err("llvm-spirv is not installed, or of another version than clang"),
    }
}

/// Options that the compiler gets of those that the application gave: definitions, language, and
/// how floating-point numbers are treated. A path among them might lead anywhere.
fn passed(options: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut words = options.split_whitespace();
    while let Some(word) = words.next() {
        let word = match word {
            "-D" | "-U" => format!("{word}{}", words.next().unwrap_or_default()),
            _ => word.to_owned(),
        };
        let known = ["-D", "-U", "-cl-std=", "-cl-fast-relaxed-math", "-cl-mad-enable"];
        let known = known.iter().any(|one| word.starts_with(one))
            || matches!(
                word.as_str(),
                "-cl-finite-math-only"
                    | "-cl-unsafe-math-optimizations"
                    | "-cl-no-signed-zeros"
                    | "-cl-denorms-are-zero"
                    | "-cl-single-precision-constant"
                    | "-cl-opt-disable"
            );
        if known {
            out.push(word);
        }
    }
    out
}

/// Translates a source; files of the tools lie in a folder below `below` meanwhile.
fn translated(
    options: &str,
    source: &[u8],
    below: &Path,
    tools: &Tools,
) -> Result<Vec<u8>, String> {
    let folder = Scratch::new(below, WHAT)?;
    let [text, bitcode, module] = ["text", "bitcode", "module"].map(|name| folder.0.join(name));
    let options = passed(options);
    let standard = options.iter().any(|one| one.starts_with("-cl-std="));
    let mut clang = Command::new(&tools.clang);
    clang.args(["-S", "-x", "cl", "-target", "spir64", "-emit-llvm", "-O2", "-w"]);
    clang.args(["-Xclang", "-finclude-default-header"]);
    // What the source computes one by one stays so: SPIR-V has no reductions of vectors, and counts
    // are of the source's own instructions.
    clang.args(["-fno-vectorize", "-fno-slp-vectorize"]);
    if !standard {
        clang.arg("-cl-std=CL1.2");
    }
    clang.args(options).arg("-o").arg(&text).arg("-");
    run(clang, source)?;
    let made = input::read_inside(&text, MOST).map_err(|error| error.to_string())?;
    let made = without_freeze(&String::from_utf8_lossy(&made));
    let mut clang = Command::new(&tools.clang);
    clang.args(["-c", "-x", "ir", "-target", "spir64", "-emit-llvm", "-w"]);
    clang.args(["-Xclang", "-disable-llvm-passes"]);
    clang.arg("-o").arg(&bitcode).arg("-");
    run(clang, made.as_bytes())?;
    let mut spirv = Command::new(&tools.llvm_spirv);
    spirv.arg("--spirv-max-version=1.0").arg(&bitcode).arg("-o").arg(&module);
    run(spirv, b"")?;
    input::read_inside(&module, MOST).map_err(|error| format!("no module was written: {error}"))
}

/// LLVM's text without the instruction `freeze`, which SPIR-V has none for: where a value is
/// defined, it is that value.
fn without_freeze(text: &str) -> String {
    let line = |line: &str| {
        let (head, rest) = line.split_once(" = freeze ")?;
        let value = rest.split(", !").next()?;
        let (kind, value) = value.trim_end().rsplit_once(' ')?;
        Some(format!("{head} = select i1 true, {kind} {value}, {kind} {value}\n"))
    };
    text.lines().map(|l| line(l).unwrap_or_else(|| format!("{l}\n"))).collect()
}

/// The first line that names an error, else the first line; with the one behind it, if it ends as
/// if that belonged to it.
fn first_message(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let at = lines.iter().position(|line| line.contains("error")).unwrap_or(0);
    match (lines.get(at), lines.get(at + 1)) {
        (Some(line), Some(next)) if line.ends_with(':') => format!("{line} {next}"),
        (Some(line), _) => (*line).to_owned(),
        (None, _) => "no message".to_owned(),
    }
}

/// Runs a tool to its end with something on its standard input. `Err` is its first message.
fn run(mut tool: Command, on_input: &[u8]) -> Result<(), String> {
    let name = tool.get_program().to_string_lossy().into_owned();
    let failed = |error: io::Error| format!("{name} cannot be run: {error}");
    let mut child = tool
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .env_remove("LD_PRELOAD")
        .env_remove("LD_AUDIT")
        .spawn()
        .map_err(failed)?;
    if let Some(mut to) = child.stdin.take() {
        // A compiler that refuses its options reads nothing.
        let _ = to.write_all(on_input);
    }
    let ended = child.wait_with_output().map_err(failed)?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(format!("{name}: {}", first_message(&said).chars().take(200).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_values_are_themselves() {
        assert_eq!(
            without_freeze("  %8 = freeze <4 x i32> %7, !dbg !3\n  ret void"),
            "  %8 = select i1 true, <4 x i32> %7, <4 x i32> %7\n  ret void\n"
        );
    }

    /// Bits of comparisons of sums of neighbours, as a face detection has them: LLVM makes a
    /// reduction of a vector of them.
    const PATTERN: &str = "-DSUM(a,b,c,d)=(p[a]-p[b]-p[c]+p[d])
        kernel void pattern(global const int *p, global const int16 *features, global const int *bits, global int *out, int n)
        {
            p += get_global_id(0);
            int s = 0;
            for (int i = 0; i < n; i++) {
                int16 o = features[i];
                int c = SUM(o.s5, o.s6, o.s9, o.sa);
                int mask, idx = SUM(o.s0, o.s1, o.s4, o.s5) >= c ? 4 : 0;
                idx |= SUM(o.s1, o.s2, o.s5, o.s6) >= c ? 2 : 0;
                idx |= SUM(o.s2, o.s3, o.s6, o.s7) >= c ? 1 : 0;
                mask = SUM(o.s6, o.s7, o.sa, o.sb) >= c ? 16 : 0;
                mask |= SUM(o.sa, o.sb, o.se, o.sf) >= c ? 8 : 0;
                mask |= SUM(o.s9, o.sa, o.sd, o.se) >= c ? 4 : 0;
                mask |= SUM(o.s8, o.s9, o.sc, o.sd) >= c ? 2 : 0;
                mask |= SUM(o.s4, o.s5, o.s8, o.s9) >= c ? 1 : 0;
                s += (bits[idx] & (1 << mask)) ? 1 : 0;
            }
            out[get_global_id(0)] = s;
        }";

    #[test]
    fn what_a_compiler_would_make_vectors_of_is_translated() {
        let Ok(tools) = find(&std::env::var_os("PATH").unwrap_or_default()) else {
            clscope_testing::skip("clang and llvm-spirv of one version are not installed", true);
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let of = |options: &str, source: &str| {
            translated(options, source.as_bytes(), folder.path(), &tools)
        };
        let (options, source) = PATTERN.split_once('\n').unwrap();
        let module = of(options, source).unwrap();
        assert_eq!(module.get(..4), Some(&0x0723_0203u32.to_le_bytes()[..]));
        let wrong = of("", "kernel void k(").unwrap_err();
        assert!(wrong.contains("error"), "{wrong}");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "files of its own are gone"
        );
    }

    #[test]
    fn a_message_over_two_lines_is_told_whole() {
        let said = "\nInvalidFunctionCall: Unexpected llvm intrinsic:\n llvm.x [Src: a.cpp]\n";
        let told = "InvalidFunctionCall: Unexpected llvm intrinsic: llvm.x [Src: a.cpp]";
        assert_eq!(first_message(said), told);
        assert_eq!(first_message("warning: a\nk.cl:1: error: b\nc"), "k.cl:1: error: b");
        assert_eq!(first_message("a\nb"), "a");
        assert_eq!(first_message(""), "no message");
    }

    #[test]
    fn only_harmless_options_reach_the_compiler() {
        let given =
            "-D N=4 -DM=2 -I/etc -o /etc/passwd -cl-std=CL2.0 -fplugin=x.so -cl-fast-relaxed-math";
        let passed = passed(given);
        assert_eq!(passed, ["-DN=4", "-DM=2", "-cl-std=CL2.0", "-cl-fast-relaxed-math"]);
    }
}
