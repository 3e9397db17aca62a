//! Metric sets out of the public XML (Mesa's and igt's `oa-*.xml`). Owns the mapping of elements
//! and attributes; refuses a file as a whole only where it is no XML or holds no set: a figure
//! whose equation is not understood is skipped and reported.
//!
//! `metrics` holds `set` elements (symbol_name, name, chipset, hw_config_guid) with `counter`
//! (symbol_name, name, description, equation, max_equation, availability, units, mdapi_group) and
//! `register_config` (type NOA, OA or FLEX, availability) with `register` (address, value; a type
//! of its own overrides).

use crate::rpn::Equation;
use crate::set::{ListKind, Metric, MetricSet, Origin, RegisterList};
use clscope_oa::config::Register;
use roxmltree::{Document, Node, ParsingOptions};
use thiserror::Error;

/// A file that gives no sets.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum XmlError {
    /// Not XML, or with parts that are not read (a DTD).
    #[error("{file}: not readable as XML: {reason}")]
    Syntax { file: String, reason: String },
    /// XML of something else.
    #[error("{file}: holds no metric set (no <set> with a symbol_name)")]
    NoSet { file: String },
}

/// What was found in a file.
#[derive(Debug, PartialEq)]
pub struct Sets {
    /// The sets.
    pub sets: Vec<MetricSet>,
    /// What was left out, and why.
    pub problems: Vec<String>,
}

/// The largest published file has some 80,000 nodes.
const MOST_NODES: u32 = 4_000_000;

/// Reads the sets of one file's text; `file` is its name for messages.
///
/// # Errors
/// [`XmlError`].
pub fn parse(file: &str, text: &str) -> Result<Sets, XmlError> {
    let options =
        ParsingOptions { allow_dtd: false, nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let syntax = |reason: String| XmlError::Syntax { file: file.to_owned(), reason };
    let document =
        Document::parse_with_options(text, options).map_err(|e| syntax(e.to_string()))?;
    let mut found = Sets { sets: Vec::new(), problems: Vec::new() };
    for node in document.descendants().filter(|n| n.has_tag_name("set")) {
        if let Some(set) = set(file, node, &mut found.problems) {
            found.sets.push(set);
        }
    }
    if found.sets.is_empty() { Err(XmlError::NoSet { file: file.to_owned() }) } else { Ok(found) }
}

fn text(node: Node<'_, '_>, name: &str) -> String {
    node.attribute(name).unwrap_or_default().trim().to_owned()
}

fn set(file: &str, node: Node<'_, '_>, problems: &mut Vec<String>) -> Option<MetricSet> {
    let symbol = node.attribute("symbol_name").filter(|s| !s.is_empty())?.to_owned();
    let uuid = node.attribute("hw_config_guid").map(str::parse).and_then(|parsed| {
        parsed.inspect_err(|error| problems.push(format!("{file}: {symbol}: {error}"))).ok()
    });
    let mut set = MetricSet {
        name: text(node, "name"),
        chipset: text(node, "chipset"),
        uuid,
        metrics: Vec::new(),
        lists: Vec::new(),
        origin: Origin::File(file.to_owned()),
        symbol,
    };
    for child in node.children().filter(Node::is_element) {
        match child.tag_name().name() {
            "counter" => match metric(child) {
                Ok(metric) => set.metrics.push(metric),
                Err(reason) => problems.push(format!("{file}: {}: {reason}", set.symbol)),
            },
            "register_config" => {
                if let Err(reason) = lists(child, &mut set.lists) {
                    problems.push(format!("{file}: {}: {reason}", set.symbol));
                }
            }
            _ => {}
        }
    }
    Some(set)
}

fn equation(node: Node<'_, '_>, name: &str) -> Result<Option<Equation>, String> {
    let text = node.attribute(name).filter(|t| !t.trim().is_empty());
    text.map(|t| Equation::parse(t).map_err(|e| e.to_string())).transpose()
}

fn metric(node: Node<'_, '_>) -> Result<Metric, String> {
    let symbol = text(node, "symbol_name");
    let named = |reason: String| format!("{symbol}: {reason}");
    if symbol.is_empty() {
        return Err("a counter without symbol_name".to_owned());
    }
    Ok(Metric {
        name: text(node, "name"),
        description: text(node, "description"),
        unit: text(node, "units"),
        group: text(node, "mdapi_group"),
        equation: equation(node, "equation")
            .map_err(named)?
            .ok_or_else(|| named("no equation".to_owned()))?,
        max: equation(node, "max_equation").map_err(named)?,
        availability: equation(node, "availability").map_err(named)?,
        symbol: symbol.clone(),
    })
}

fn kind(name: &str) -> Option<ListKind> {
    match name {
        "NOA" => Some(ListKind::Mux),
        "OA" => Some(ListKind::Boolean),
        "FLEX" => Some(ListKind::Flex),
        _ => None,
    }
}

fn word(text: Option<&str>) -> Option<u32> {
    let text = text?.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A list with a register that is not understood is left out whole: half a configuration counts
/// something else.
fn lists(node: Node<'_, '_>, out: &mut Vec<RegisterList>) -> Result<(), String> {
    let name = node.attribute("type").unwrap_or_default();
    let whole = kind(name);
    let availability = equation(node, "availability")?;
    let mut found: Vec<RegisterList> = Vec::new();
    for register in node.children().filter(|n| n.has_tag_name("register")) {
        let own = register.attribute("type").map_or(whole, kind);
        let parsed =
            word(register.attribute("address")).zip(word(register.attribute("value"))).zip(own);
        let Some(((address, value), kind)) = parsed else {
            return Err(format!(
                "a register of the list {name:?} is not understood: the list is left out"
            ));
        };
        let register = Register { address, value };
        match found.last_mut().filter(|l| l.kind == kind) {
            Some(list) => list.registers.push(register),
            None => found.push(RegisterList {
                kind,
                availability: availability.clone(),
                registers: vec![register],
            }),
        }
    }
    out.append(&mut found);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = r#"<?xml version="1.0"?>
<metrics version="1" merge_md5="">
  <set name="Compute" chipset="KBLGT2" symbol_name="ComputeBasic" hw_config_guid="12994724-3a5a-4303-bb3c-ba0175d2c200">
    <counter name="EU Active" symbol_name="EuActive" description="Busy &amp; bright." units="percent" max_equation="100"
             equation="A 7 READ $EuCoresTotalCount UDIV 100 UMUL $GpuCoreClocks FDIV" mdapi_group="EU Array"/>
    <counter symbol_name="Odd" equation="A 7 READ FROB"/>
    <counter symbol_name="None"/>
    <counter symbol_name="Sampler" equation="B 0 READ" availability="$SubsliceMask 0x09 AND" max_equation=""/>
    <register_config type="NOA" availability="$SliceMask 0x01 AND">
      <register type="NOA" address="0x00009888" value="0x104F00E0"/>
      <register type="NOA" address="0x00009888" value="0x124F1C00"/>
    </register_config>
    <register_config type="FLEX"><register type="FLEX" address="0x0000E458" value="0x00005004"/></register_config>
    <register_config type="OA"><register address="0x2710" value="0"/></register_config>
    <register_config type="OA"><register address="oops" value="0"/></register_config>
    <something/>
  </set>
  <set name="nameless"/>
</metrics>"#;

    #[test]
    fn sets_are_read_and_oddities_told() {
        let got = parse("oa-kblgt2.xml", FILE).unwrap();
        assert_eq!(got.sets.len(), 1);
        let set = &got.sets[0];
        assert_eq!(
            (set.symbol.as_str(), set.chipset.as_str(), set.origin.to_string().as_str()),
            ("ComputeBasic", "KBLGT2", "oa-kblgt2.xml")
        );
        assert_eq!(set.uuid.unwrap().as_str(), "12994724-3a5a-4303-bb3c-ba0175d2c200");
        let symbols: Vec<&str> = set.metrics.iter().map(|m| m.symbol.as_str()).collect();
        assert_eq!(symbols, ["EuActive", "Sampler"]);
        assert_eq!(
            (set.metrics[0].description.as_str(), set.metrics[0].unit.as_str()),
            ("Busy & bright.", "percent")
        );
        assert!(set.metrics[1].max.is_none() && set.metrics[1].availability.is_some());
        let kinds: Vec<(ListKind, usize)> =
            set.lists.iter().map(|l| (l.kind, l.registers.len())).collect();
        assert_eq!(kinds, [(ListKind::Mux, 2), (ListKind::Flex, 1), (ListKind::Boolean, 1)]);
        assert_eq!(set.lists[0].registers[1], Register { address: 0x9888, value: 0x124f_1c00 });
        assert_eq!(got.problems.len(), 3, "{:?}", got.problems);
        assert!(
            got.problems[0].starts_with("oa-kblgt2.xml: ComputeBasic: Odd: equation"),
            "{:?}",
            got.problems
        );
    }

    #[test]
    fn other_files_are_refused() {
        assert!(matches!(parse("x", "no xml"), Err(XmlError::Syntax { .. })));
        assert!(matches!(parse("x", "<a><b/></a>"), Err(XmlError::NoSet { .. })));
        // Entities could be made to explode: no DTD is read.
        let bomb = "<!DOCTYPE a [<!ENTITY x \"y\">]><metrics><set symbol_name=\"&x;\"/></metrics>";
        assert!(matches!(parse("x", bomb), Err(XmlError::Syntax { .. })));
        let deep = "<set>".repeat(100_000);
        assert!(parse("x", &deep).is_err());
    }

    proptest! {
        /// A file with any bytes changed is read, or refused, and never more.
        #[test]
        fn damaged_files_are_answered(changes in prop::collection::vec((0usize..FILE.len(), any::<u8>()), 0..12), cut in 0usize..FILE.len()) {
            let mut bytes = FILE.as_bytes().to_vec();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            for text in [String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&bytes[..cut])] {
                if let Ok(sets) = parse("x", &text) {
                    prop_assert!(!sets.sets.is_empty());
                }
            }
        }
    }
}
