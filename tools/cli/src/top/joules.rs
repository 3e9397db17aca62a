//! Joules beside the screen: a thread asks the report's estimator again and again, and rests a
//! hundred times as long as it took. Refuses to draw.
#![forbid(unsafe_code)]

use clscope_live::document::Document;
use clscope_live::joules::{Joules, pause_after};
use clscope_profile::energy::attribute;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

/// The newest answer, and where the next one comes from.
pub struct Asked {
    answers: Receiver<(Joules, Instant)>,
    newest: Option<(Joules, Instant)>,
}

impl Asked {
    /// Begins to ask. The thread ends with this value, or with the process.
    pub fn of(trace: &Path, energy: attribute::Options) -> std::io::Result<Self> {
        let (give, answers) = sync_channel(1);
        let trace = trace.to_owned();
        std::thread::Builder::new().name("clscope-joules".to_owned()).spawn(move || {
            loop {
                let begin = Instant::now();
                // What cannot be read shows on the screen as files that cannot be read.
                if let Ok(joules) = Joules::of(&trace, energy.clone())
                    && give.send((joules, begin)).is_err()
                {
                    return;
                }
                std::thread::sleep(pause_after(begin.elapsed()));
            }
        })?;
        Ok(Self { answers, newest: None })
    }

    /// Enters the newest joules into a document.
    pub fn enter(&mut self, document: &mut Document) {
        if let Some(newest) = self.answers.try_iter().last() {
            self.newest = Some(newest);
        }
        if let Some((joules, at)) = &self.newest {
            joules.enter(document, at.elapsed());
        }
    }
}
