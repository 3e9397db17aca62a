//! Every figure and table of the documents, with what becomes of it here. Owns their order; refuses
//! to quote a caption: what they show is in our words.

use super::{DOCUMENTS, Experiment, How};

/// What becomes of a figure or table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// An experiment measures it.
    Measured,
    /// The same, with a sensor of power, or with emulated or recorded readings in its place.
    Metered,
    /// It is computed, without a device.
    Computed,
    /// Another one shows it.
    ShownBy(&'static str),
    /// Nothing shows it, because of this.
    Not(&'static str),
}

/// A figure or table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caption {
    /// Its name.
    pub name: &'static str,
    /// What it shows, in our words; empty where another one shows it.
    pub shows: &'static str,
    /// What becomes of it.
    pub standing: Standing,
}

impl Experiment {
    /// What becomes of what it shows.
    pub fn standing(&self) -> Standing {
        match self.how {
            How::Cannot(why) => Standing::Not(why),
            How::Compute(_) => Standing::Computed,
            How::Measure { .. } => {
                let metered = |case: &&str| {
                    ["power/", "classes/", "transfer/continuous"]
                        .iter()
                        .any(|p| case.starts_with(p))
                };
                let is_metered =
                    self.parts().iter().any(|p| p.power || p.cases.iter().any(metered));
                if is_metered { Standing::Metered } else { Standing::Measured }
            }
        }
    }
}

/// All figures and tables, and other experiments, of a document of this key, in order.
pub fn captions(key: &str) -> Vec<Caption> {
    let mut out = Vec::new();
    for of in DOCUMENTS.iter().filter(|d| d.key == key) {
        let made =
            |e: &Experiment| Caption { name: e.name, shows: e.shows, standing: e.standing() };
        out.extend(of.experiments.iter().map(made));
        let shown = |(name, by): (&&'static str, &&'static str)| Caption {
            name,
            shows: "",
            standing: Standing::ShownBy(by),
        };
        out.extend(of.shown_by.iter().map(shown));
        for (why, all) in &of.without {
            out.extend(all.iter().map(|(name, shows)| Caption {
                name,
                shows,
                standing: Standing::Not(why),
            }));
        }
    }
    out.sort_by_key(|c| place(c.name));
    out
}

/// Its place in a document: figures before tables, numbers as numbers.
fn place(name: &str) -> (String, Vec<u32>, String) {
    let rest = name.split('/').nth(1).unwrap_or_default();
    let kind: String = rest.chars().take_while(char::is_ascii_alphabetic).collect();
    let numbers = rest.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    (kind, numbers.collect(), rest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_is_there_once() {
        let all: Vec<Caption> = DOCUMENTS.iter().flat_map(|d| captions(d.key)).collect();
        let names: BTreeSet<&str> = all.iter().map(|c| c.name).collect();
        assert_eq!(names.len(), all.len());
        let at = |name: &str| all.iter().position(|c| c.name == name).unwrap();
        assert!(at("000/fig4.9") < at("000/fig4.10") && at("000/fig4.17") < at("000/tab2.1"));
    }
}
