//! Figures that take the whole trace, beside the screen: a thread asks for them again and again,
//! and rests a hundred times as long as it took. Refuses to draw.

use clscope_live::document::Document;
use clscope_live::whole::{Whole, pause_after};
use clscope_profile::energy::attribute;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

/// The newest answer, and where the next one comes from.
pub struct Asked {
    answers: Receiver<(Whole, Instant)>,
    newest: Option<(Whole, Instant)>,
}

impl Asked {
    /// Begins to ask. The thread ends with this value, or with the process.
    pub fn begin(trace: &Path, energy: attribute::Options) -> std::io::Result<Self> {
        let (give, answers) = sync_channel(1);
        let trace = trace.to_owned();
        std::thread::Builder::new().name("clscope-whole".to_owned()).spawn(move || {
            loop {
                let begin = Instant::now();
                // What cannot be read shows on the screen as files that cannot be read.
                if let Ok(whole) = Whole::of_trace(&trace, energy.clone())
                    && give.send((whole, begin)).is_err()
                {
                    return;
                }
                std::thread::sleep(pause_after(begin.elapsed()));
            }
        })?;
        Ok(Self { answers, newest: None })
    }

    /// Enters the newest answer into a document.
    pub fn enter(&mut self, document: &mut Document) {
        if let Some(newest) = self.answers.try_iter().last() {
            self.newest = Some(newest);
        }
        if let Some((whole, at)) = &self.newest {
            whole.enter(document, at.elapsed());
        }
    }
}
