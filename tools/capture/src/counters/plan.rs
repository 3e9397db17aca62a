//! Owns the choice of a metric set and a configuration for an Intel GPU. Refuses to open anything,
//! and to guess a set.
#![forbid(unsafe_code)]

use super::choice::Options;
use clscope_metrics::set::MetricSet;
use clscope_metrics::variables::Variables;
use clscope_metrics::{builtin, directory};
use clscope_oa::Generation;
use clscope_oa::config::{Registers, Uuid};
use clscope_oa::flex::FlexError;
use std::path::Path;

/// A GPU's metric set, the configuration it needs, and the registers to load that with.
#[derive(Debug)]
pub(super) struct Plan {
    /// The set; none where a configuration was named that no set describes.
    pub set: Option<MetricSet>,
    /// The configuration.
    pub uuid: Uuid,
    /// Registers to load it with; none where it is loaded already.
    pub registers: Option<Registers>,
}

/// Why no configuration can be chosen. Each error names the next step.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlanError {
    /// Nothing is known of this generation.
    #[error(
        "no metric set is built in for {0:?}: name one of a directory, --counters oa:SET --metrics DIR"
    )]
    NothingBuiltIn(Generation),
    /// A set is known, and no configuration for it.
    #[error(
        "what is built in for {0:?} needs a configuration of a directory: --counters oa:SET --metrics DIR"
    )]
    NoConfiguration(Generation),
    /// The directory of sets cannot be read.
    #[error(transparent)]
    Directory(#[from] directory::DirectoryError),
    /// A set without UUID.
    #[error("the set {0} names no configuration (UUID)")]
    WithoutUuid(String),
    /// No set has this name.
    #[error(
        "there is no metric set {0:?}: `clscope list-counters` lists those there are, --metrics DIR reads others"
    )]
    UnknownSet(String),
    /// Several GPUs have a set of this name.
    #[error(
        "the set {name} is there for {}: name the file of this GPU with --metrics, or its UUID",
        chips.join(", ")
    )]
    SeveralSets { name: String, chips: Vec<String> },
    /// Event codes are known of one generation only.
    #[error("--counter: the event codes that are published are Gen9's, and this GPU is {0:?}")]
    OtherGeneration(Generation),
    /// A counter can be changed only where the whole configuration can be loaded.
    #[error(
        "--counter needs the set's registers, to load them with the counter changed: name a directory with --metrics"
    )]
    NoRegisters,
    /// An event that the registers cannot count.
    #[error(transparent)]
    Event(#[from] FlexError),
}

/// The sets a user may mean by a name: those of the directory.
fn library(metrics: Option<&Path>) -> Result<Vec<MetricSet>, PlanError> {
    let Some(path) = metrics.map(Path::to_owned).or_else(directory::installed) else {
        return Ok(Vec::new());
    };
    Ok(directory::read(&path)?.sets)
}

/// Chooses what a GPU of this generation counts. `named`: the set the user asked for. `is_loaded`:
/// whether the kernel has a configuration.
pub(super) fn plan(
    options: &Options,
    named: Option<&str>,
    generation: Generation,
    variables: &Variables,
    is_loaded: &dyn Fn(&Uuid) -> bool,
) -> Result<Plan, PlanError> {
    let registers = |set: &MetricSet| -> Option<Registers> {
        if set.lists.is_empty() { None } else { set.registers(variables).ok() }
    };
    let mut plan = match named {
        None => {
            let set = builtin::core(generation).ok_or(PlanError::NothingBuiltIn(generation))?;
            let fitting: Vec<Uuid> = builtin::fitting_configurations(generation)
                .iter()
                .filter_map(|(_, u)| u.parse().ok())
                .collect();
            let loaded = fitting.iter().find(|u| is_loaded(u)).copied();
            match (loaded, registers(&set)) {
                (Some(uuid), _) if options.counter.is_empty() => {
                    Plan { set: Some(set), uuid, registers: None }
                }
                (_, Some(registers)) => Plan {
                    uuid: Uuid::of_registers(&registers),
                    registers: Some(registers),
                    set: Some(set),
                },
                (_, None) => {
                    let uuid = set.uuid.or(fitting.first().copied());
                    let uuid = uuid.ok_or(PlanError::NoConfiguration(generation))?;
                    Plan { set: Some(set), uuid, registers: None }
                }
            }
        }
        Some(name) => {
            let sets = library(options.metrics.as_deref())?;
            let fits = |s: &&MetricSet| {
                s.symbol.eq_ignore_ascii_case(name)
                    || s.uuid.is_some_and(|u| u.as_str().eq_ignore_ascii_case(name))
            };
            let mut found: Vec<&MetricSet> = sets.iter().filter(fits).collect();
            // A set of one name is there for every GPU: the one whose configuration is loaded is
            // this GPU's.
            if let Some(loaded) = found.iter().position(|s| s.uuid.is_some_and(|u| is_loaded(&u))) {
                found = vec![found[loaded]];
            }
            match (&found[..], name.parse::<Uuid>()) {
                ([set], _) => {
                    let uuid =
                        set.uuid.ok_or_else(|| PlanError::WithoutUuid(set.symbol.clone()))?;
                    Plan { set: Some((*set).clone()), uuid, registers: registers(set) }
                }
                // A configuration by itself: its counts as they come.
                ([], Ok(uuid)) => Plan { set: None, uuid, registers: None },
                ([], Err(_)) => return Err(PlanError::UnknownSet(name.to_owned())),
                (several, _) => {
                    let chips = several.iter().map(|s| s.chipset.clone()).collect();
                    return Err(PlanError::SeveralSets { name: name.to_owned(), chips });
                }
            }
        }
    };
    if !options.counter.is_empty() {
        if generation != Generation::Gen9 {
            return Err(PlanError::OtherGeneration(generation));
        }
        let registers = plan.registers.take().ok_or(PlanError::NoRegisters)?;
        let registers = registers.with_events(&options.counter)?;
        plan.uuid = Uuid::of_registers(&registers);
        plan.registers = Some(registers);
        if let Some(set) = &mut plan.set {
            set.program(&options.counter);
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuid(text: &str) -> Uuid {
        text.parse().unwrap()
    }

    #[test]
    fn a_loaded_configuration_comes_first_and_registers_after_it() {
        let options = Options::default();
        let variables = Variables::new();
        let basic = uuid("12994724-3a5a-4303-bb3c-ba0175d2c200");
        let got = plan(&options, None, Generation::Gen9, &variables, &|u| *u == basic).unwrap();
        assert_eq!((got.uuid, got.registers), (basic, None));
        // Not loaded: the EU counters alone can be programmed without any published list.
        let got = plan(&options, None, Generation::Gen9, &variables, &|_| false).unwrap();
        let registers = got.registers.unwrap();
        assert_eq!(got.uuid, Uuid::of_registers(&registers));
        assert!(!registers.flex.is_empty() && registers.mux.is_empty());
        let got = plan(&options, None, Generation::Gen12, &variables, &|_| false).unwrap();
        assert_eq!(
            (got.uuid.as_str(), got.registers),
            ("397a46d9-03dd-4696-8196-270362e1c575", None)
        );
        for (generation, words) in [(Generation::Gen8, "built in"), (Generation::Xe, "--metrics")] {
            let why =
                plan(&options, None, generation, &variables, &|_| false).unwrap_err().to_string();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn a_programmed_counter_changes_the_configuration() {
        let options = Options {
            counter: vec!["a7=fine:0,coarse:7,inc:7".parse().unwrap()],
            ..Options::default()
        };
        let basic = uuid("12994724-3a5a-4303-bb3c-ba0175d2c200");
        let plain =
            plan(&Options::default(), None, Generation::Gen9, &Variables::new(), &|_| false)
                .unwrap();
        let got =
            plan(&options, None, Generation::Gen9, &Variables::new(), &|u| *u == basic).unwrap();
        assert!(got.uuid != basic && got.uuid != plain.uuid);
        // The example of the Gen9.5 thesis (Duarte 2018): 1904 with its fine filter.
        let example = Options {
            counter: vec!["a7=fine:7,coarse:7,inc:0".parse().unwrap()],
            ..Options::default()
        };
        let got = plan(&example, None, Generation::Gen9, &Variables::new(), &|_| false).unwrap();
        assert_eq!(got.registers.unwrap().flex[0].value & 0xfff, 1904);
        assert!(
            plan(&options, None, Generation::Gen12, &Variables::new(), &|_| true)
                .unwrap_err()
                .to_string()
                .contains("Gen9")
        );
    }

    #[test]
    fn sets_by_name_come_from_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let set = |chip: &str, uuid: &str| {
            format!(
                r#"<metrics><set name="Basic" chipset="{chip}" symbol_name="Basic" hw_config_guid="{uuid}">
                <counter name="A" symbol_name="A" data_type="uint64" semantic_type="event" units="events" description="d" equation="A 1 READ"/>
                </set></metrics>"#
            )
        };
        let (one, two) =
            ("12994724-3a5a-4303-bb3c-ba0175d2c200", "397a46d9-03dd-4696-8196-270362e1c575");
        std::fs::write(dir.path().join("oa-kblgt2.xml"), set("KBLGT2", one)).unwrap();
        std::fs::write(dir.path().join("oa-tglgt2.xml"), set("TGLGT2", two)).unwrap();
        let options = Options { metrics: Some(dir.path().to_owned()), ..Options::default() };
        let ask = |name: &str, loaded: &str| {
            plan(&options, Some(name), Generation::Gen9, &Variables::new(), &|u| {
                u.as_str() == loaded
            })
        };
        assert_eq!(ask("basic", two).unwrap().uuid, uuid(two));
        assert!(ask("Basic", "").unwrap_err().to_string().contains("KBLGT2, TGLGT2"));
        assert!(ask("Other", "").unwrap_err().to_string().contains("list-counters"));
        // A configuration without description: raw counts.
        let bare = ask("99c1a40e-a090-4354-86e3-4d068bb1917e", "").unwrap();
        assert!(bare.set.is_none());
        assert_eq!(ask(one, "").unwrap().set.unwrap().chipset, "KBLGT2");
    }
}
