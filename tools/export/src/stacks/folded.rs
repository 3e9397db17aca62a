//! Owns folded stacks: one line for each, `outer;inner WEIGHT`, as flame-graph scripts read them.

use super::{Stack, Weight};
use std::io::{Result, Write};

/// A frame without the format's separator. It is on one line already.
fn escaped(name: &str) -> String {
    name.replace(';', ",")
}

/// Writes stacks with a weight.
///
/// # Errors
/// If `out` cannot be written.
pub fn write(stacks: &[Stack], by: Weight, mut out: impl Write) -> Result<()> {
    for stack in stacks {
        let Some(weight) = stack.weight(by).filter(|w| *w > 0) else { continue };
        let frames: Vec<String> = stack.frames.iter().map(|f| escaped(&f.name)).collect();
        writeln!(out, "{} {weight}", frames.join(";"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::Frame;

    #[test]
    fn names_keep_to_their_line_and_frame() {
        let stack = Stack {
            frames: vec![Frame::new("a;b"), Frame::new("k\n1 2\u{1b}[0m")],
            count: 7,
            ..Stack::default()
        };
        let mut out = Vec::new();
        write(std::slice::from_ref(&stack), Weight::Count, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a,b;k\\n1 2\\u{1b}[0m 7\n");
        let mut out = Vec::new();
        write(&[stack], Weight::Energy, &mut out).unwrap();
        assert!(out.is_empty(), "what is not known is no line of 0");
    }
}
