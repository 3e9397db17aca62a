//! What a call was, with its arguments by name and its place: the form in which all rules see it.

use clscope_analysis::event::{Call, Enqueued, Kept};
use clscope_analysis::input::Definitions;
use clscope_analysis::time::HostNs;
use clscope_trace::defs::ArgumentKind;
use clscope_trace::record::error_text;

/// A call that names something, also one that has no record since the process died in it.
#[derive(Debug, Clone, Copy)]
pub struct At<'c> {
    /// The function's name.
    pub function: &'c str,
    /// Where in the application it stands.
    pub place: Option<&'c str>,
    /// When it began.
    pub begin: HostNs,
    /// The process died in it.
    pub died: bool,
}

impl At<'_> {
    /// What a finding says, with what came of it.
    pub fn says(&self, what: &str) -> String {
        let died = if self.died { "; the process died in this call" } else { "" };
        format!("{what}{died}")
    }
}

/// A host call.
pub struct Seen<'c> {
    /// What ids mean.
    pub definitions: &'c Definitions,
    /// The call.
    pub call: &'c Call<'c>,
    /// The function's name.
    pub function: &'c str,
    /// Where in the application it stands.
    pub place: Option<&'c str>,
}

impl<'c> Seen<'c> {
    /// The call, as what it names is judged.
    pub fn at(&self) -> At<'c> {
        let (function, place) = (self.function, self.place);
        At { function, place, begin: self.call.span.begin, died: false }
    }

    /// The kernel that it launches, or was to launch.
    pub fn launched(&self) -> Option<u32> {
        match self.enqueued() {
            Some(of) => Some(of.record.object).filter(|_| of.record.kind.is_kernel()),
            None => self.object("kernel").filter(|_| self.function.starts_with("clEnqueue")),
        }
    }

    /// A kept argument.
    pub fn argument(&self, name: &str) -> Option<u64> {
        let function = self.definitions.function(self.call.function)?;
        self.call.arguments(function).find(|a| a.argument.name == name).map(|a| a.value)
    }

    /// An object among the arguments; `None` where it was never seen.
    pub fn object(&self, name: &str) -> Option<u32> {
        self.argument(name).and_then(|id| u32::try_from(id).ok()).filter(|id| *id != 0)
    }

    /// The objects that the call names, with the arguments' names. Not the one that it made.
    pub fn objects(&self) -> Vec<(&'c str, u32)> {
        let Some(function) = self.definitions.function(self.call.function) else {
            return Vec::new();
        };
        let named = self.call.arguments(function).filter(|a| {
            a.argument.kind == ArgumentKind::Object && a.argument.name != "return" && a.value != 0
        });
        let mut out = Vec::new();
        for argument in named {
            if let Ok(id) = u32::try_from(argument.value)
                && let Some(at) =
                    function.arguments.iter().find(|a| a.name == argument.argument.name)
            {
                out.push((at.name.as_str(), id));
            }
        }
        out
    }

    /// The command that it enqueued.
    pub fn enqueued(&self) -> Option<&'c Enqueued<'c>> {
        match &self.call.kept {
            Kept::Enqueue(enqueued) if self.call.result == 0 => Some(enqueued),
            _ => None,
        }
    }

    /// Whether it succeeded.
    pub fn succeeded(&self) -> bool {
        self.call.result == 0
    }

    /// How many equal calls in a row it stands for.
    pub fn count(&self) -> u64 {
        self.call.count()
    }

    /// Its error with the arguments that are known.
    pub fn error(&self) -> String {
        error_text(self.call.result)
    }

    /// Its arguments for people.
    pub fn arguments(&self) -> String {
        let Some(function) = self.definitions.function(self.call.function) else {
            return String::new();
        };
        let shown = self.call.arguments(function).filter(|a| a.argument.name != "return");
        let texts: Vec<String> = shown
            .map(|a| match a.argument.kind {
                ArgumentKind::Object | ArgumentKind::Event => {
                    format!("{}=#{}", a.argument.name, a.value)
                }
                ArgumentKind::Flags | ArgumentKind::Pointer | ArgumentKind::Enum => {
                    format!("{}={:#x}", a.argument.name, a.value)
                }
                _ => format!("{}={}", a.argument.name, a.value),
            })
            .collect();
        texts.join(", ")
    }
}
