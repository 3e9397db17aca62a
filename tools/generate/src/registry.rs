//! Reads commands out of `cl.xml` and the order of the dispatch table out of `cl_icd.h`.

use anyhow::{Context, Result, ensure};
use roxmltree::{Document, Node};
use std::collections::HashMap;

/// The commands of loader management: they speak about loaders and layers, not about work, and are
/// never wrapped.
const LOADER_MANAGEMENT: [&str; 8] = [
    "clIcdGetPlatformIDsKHR",
    "clIcdGetFunctionAddressForPlatformKHR",
    "clIcdSetPlatformDispatchDataKHR",
    "clGetLayerInfo",
    "clInitLayer",
    "clInitLayerWithProperties",
    "clDeinitLayer",
    "clGetICDLoaderInfoOCLICD",
];

/// A parameter of a command.
pub struct Parameter {
    /// Name.
    pub name: String,
    /// Type's name without pointers, empty for function pointers.
    pub base: String,
    /// Levels of pointers, an array counting as one.
    pub pointers: usize,
    /// Whether the outermost pointee is const.
    pub constant: bool,
    /// Whether it is a pointer to a function.
    pub function: bool,
    /// All of it, as in C.
    pub declaration: String,
}

/// A command of the registry.
pub struct RegistryCommand {
    /// Name.
    pub name: String,
    /// Core version `1.0` or extension `cl_khr_...`.
    pub origin: String,
    /// Whether it belongs to an extension.
    pub extension: bool,
    /// Return type as in C.
    pub returns: String,
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
}

impl RegistryCommand {
    /// The parameter of that name.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|p| p.name == name)
    }
}

/// All commands that are wrapped, of the whole registry.
pub fn read(document: &Document<'_>) -> Result<Vec<RegistryCommand>> {
    let out = commands(document)?;
    ensure!(out.len() > 200, "only {} commands found: is this the OpenCL registry?", out.len());
    Ok(out)
}

/// Commands that are wrapped: core first, then extensions, each in the order of the document.
pub fn commands(document: &Document<'_>) -> Result<Vec<RegistryCommand>> {
    let root = document.root_element();
    let mut core = HashMap::new();
    for feature in root.children().filter(|n| n.has_tag_name("feature")) {
        for command in feature.descendants().filter(|n| n.has_tag_name("command")) {
            core.entry(command.attribute("name").unwrap_or_default())
                .or_insert(feature.attribute("number").unwrap_or_default());
        }
    }
    let mut extensions = HashMap::new();
    for extension in root.descendants().filter(|n| n.has_tag_name("extension")) {
        for command in extension.descendants().filter(|n| n.has_tag_name("command")) {
            extensions
                .entry(command.attribute("name").unwrap_or_default())
                .or_insert(extension.attribute("name").unwrap_or_default());
        }
    }
    let list = root
        .children()
        .find(|n| n.has_tag_name("commands"))
        .context("the registry has no <commands>")?;
    let mut out = Vec::new();
    for node in list.children().filter(|n| n.has_tag_name("command")) {
        let Some(proto) = node.children().find(|n| n.has_tag_name("proto")) else { continue };
        let name = child_text(proto, "name").context("a command without a name")?;
        if LOADER_MANAGEMENT.contains(&name.as_str()) {
            continue;
        }
        let (origin, extension) = match (core.get(name.as_str()), extensions.get(name.as_str())) {
            (Some(version), _) => ((*version).to_owned(), false),
            (None, Some(extension)) => ((*extension).to_owned(), true),
            (None, None) => ("unregistered".to_owned(), true),
        };
        let returns = all_text(proto).replace(&name, "");
        let parameters = node
            .children()
            .filter(|n| n.has_tag_name("param"))
            .map(parameter)
            .collect::<Result<_>>()?;
        out.push(RegistryCommand {
            name,
            origin,
            extension,
            returns: squeeze(&returns),
            parameters,
        });
    }
    out.sort_by_key(|c| c.extension);
    Ok(out)
}

fn parameter(node: Node<'_, '_>) -> Result<Parameter> {
    let text = squeeze(&all_text(node));
    let name =
        child_text(node, "name").with_context(|| format!("a parameter without a name: {text}"))?;
    let function = text.contains("CL_CALLBACK");
    let base = if function {
        String::new()
    } else {
        child_text(node, "type").unwrap_or_else(|| text.split(' ').next().unwrap_or("").to_owned())
    };
    let pointers = if function { 0 } else { text.matches('*').count() + text.matches('[').count() };
    let constant = text.starts_with("const ");
    Ok(Parameter { name, base, pointers, constant, function, declaration: text })
}

fn child_text(node: Node<'_, '_>, tag: &str) -> Option<String> {
    node.children().find(|n| n.has_tag_name(tag)).and_then(|n| n.text()).map(str::to_owned)
}

fn all_text(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|n| n.text()).collect()
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Names in the order of `struct _cl_icd_dispatch`: the layout of the table that loaders, drivers
/// and layers share.
pub fn dispatch_order(header: &str) -> Result<Vec<String>> {
    let body = header
        .split("typedef struct _cl_icd_dispatch {")
        .nth(1)
        .context("no struct _cl_icd_dispatch in the header")?;
    let body =
        body.split("} cl_icd_dispatch;").next().context("struct _cl_icd_dispatch does not end")?;
    // On Windows some entries have types; elsewhere they are `void *` in an #else branch of the
    // same order: names repeat there.
    let mut out: Vec<String> = Vec::new();
    for declaration in without_comments(body).split(';') {
        let Some(name) = declaration.split_whitespace().last() else { continue };
        let name = name.trim_start_matches('*').trim_start_matches("cl_api_").to_owned();
        if name.starts_with("cl") && !out.contains(&name) {
            out.push(name);
        }
    }
    ensure!(out.len() > 100, "only {} entries found in struct _cl_icd_dispatch", out.len());
    Ok(out)
}

fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, r)| r);
    }
    out.push_str(rest);
    out.lines().filter(|l| !l.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_dispatch_table_is_that_of_the_struct() {
        let entries: String = (0..120)
            .map(|i| format!("  cl_api_clF{i} clF{i}; /* a comment; clNot{i} */\n"))
            .collect();
        let header = format!(
            "typedef struct _cl_icd_dispatch {{\n#ifdef _WIN32\n{entries}#else\n  void *clF0;\n#endif\n}} cl_icd_dispatch;"
        );
        let order = dispatch_order(&header).unwrap();
        assert_eq!(order.len(), 120);
        assert_eq!(order.first().map(String::as_str), Some("clF0"));
        assert_eq!(order.last().map(String::as_str), Some("clF119"));
    }

    #[test]
    fn what_is_no_registry_or_header_is_refused() {
        let document = Document::parse("<registry><commands/></registry>").unwrap();
        let error = read(&document).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("is this the OpenCL registry"), "{error}");
        assert!(dispatch_order("int main(void);").is_err());
    }
}
