//! Owns `launch.json` of a capture, while the capture is made and at its end: whole, or what is left
//! where the launch's memory could not be copied. Refuses to look at memory.
#![forbid(unsafe_code)]

use super::memories::set;
use crate::recording::files::captures::{Capture, Whole};
use clscope_trace::directory::CAPTURE_FILE;
use serde_json::Value;

/// How names of files begin that hold what memory held.
pub const MEMORY: &str = "memory-";

/// A launch that is being described.
pub struct Description {
    /// Its folder.
    pub capture: Capture,
    pub document: Value,
    /// What `launch.json` says of each memory.
    pub memories: Vec<Value>,
}

/// The launch that a description is of.
#[derive(Clone, Copy)]
pub struct Launched<'k> {
    pub kernel: &'k str,
    pub number: u64,
    /// Id of its command; none where there is none yet.
    pub command: Option<u64>,
}

impl Description {
    /// Gives the folder of a whole capture its name.
    ///
    /// # Errors
    /// The system's; then it is removed.
    pub fn whole(
        mut self,
        of: Launched<'_>,
        unchecked: Option<&'static str>,
    ) -> Result<Whole, String> {
        let mut is_checked = true;
        for about in &mut self.memories {
            let read_only = |flag: &Value| flag.as_str() == Some("CL_MEM_READ_ONLY");
            let flags = about.get("flags").and_then(Value::as_array);
            if flags.is_some_and(|flags| flags.iter().any(read_only))
                || about.get("after").is_some_and(Value::is_string)
            {
                continue;
            }
            is_checked = false;
            set(about, "after_missing", unchecked.unwrap_or("it was not copied"));
        }
        self.named(of, is_checked, false)
    }

    /// Leaves what is known without what memory held, which is missing for a reason.
    ///
    /// # Errors
    /// As [`whole`](Self::whole).
    pub fn alone(mut self, of: Launched<'_>, why: &str) -> Result<Whole, String> {
        self.capture.keep(|file| !file.starts_with(MEMORY));
        for about in &mut self.memories {
            for name in ["before", "hash_before", "after", "hash_after"] {
                set(about, name, Value::Null);
            }
            for name in ["before_missing", "after_missing"] {
                set(about, name, why);
            }
        }
        self.named(of, false, true)
    }

    fn named(
        mut self,
        of: Launched<'_>,
        is_checked: bool,
        is_alone: bool,
    ) -> Result<Whole, String> {
        let document = &mut self.document;
        set(document, "checked", is_checked);
        set(document, "memories", std::mem::take(&mut self.memories));
        set(document, "command", of.command);
        let mut text = serde_json::to_vec_pretty(&document).map_err(|error| error.to_string())?;
        text.push(b'\n');
        self.capture.write(CAPTURE_FILE, &text)?;
        self.capture.whole(of.kernel, of.number, is_alone)
    }
}
