//! Types of the elements of captured memories: what the user, the runtime and the source say. Refuses
//! to guess: where they disagree, elements are bytes.

use super::RunError;
use crate::capture::{Argument, Given, Launch};
use crate::document::Results;
use crate::element::Element;
use crate::read::Capture;
use crate::stage::Built;
use clscope_profile::opencl_c;

/// What the arguments of the captured kernel point to, by its text. Where a runtime keeps no types
/// of arguments (`-cl-kernel-arg-info`), this is all that tells.
pub(crate) fn pointed(capture: &Capture) -> Result<Vec<Option<String>>, RunError> {
    let launch = &capture.launch;
    let own = launch.program.own_files().find(|file| file.language == "opencl-c");
    let is_known = |a: &Argument| a.type_name.as_deref().and_then(Element::of_type).is_some();
    let Some(file) = own.filter(|_| !launch.arguments.iter().all(is_known)) else {
        return Ok(Vec::new());
    };
    let text = String::from_utf8(capture.program(file)?).unwrap_or_default();
    let found = opencl_c::pointed(&text, &launch.program.options, &launch.kernel);
    // Another number of arguments: it is not the text of this kernel.
    Ok(found.filter(|all| all.len() == launch.arguments.len()).unwrap_or_default())
}

/// Types of the memories' elements: what the user says, else what captured arguments, the kernel,
/// the captured source (`pointed`) and image formats say; bytes where arguments of one memory have
/// several types.
pub(crate) fn elements(
    launch: &Launch,
    built: &Built,
    pointed: &[Option<String>],
    types: &[(u32, Element)],
) -> Result<Vec<Element>, RunError> {
    let is_memory = |index: u32| {
        launch.arguments.iter().any(|a| {
            a.index == index && matches!(a.given, Given::Memory { .. } | Given::Svm { .. })
        })
    };
    if let Some((index, _)) = types.iter().find(|(index, _)| !is_memory(*index)) {
        let known: Vec<String> = (0..)
            .take(launch.arguments.len())
            .filter(|i| is_memory(*i))
            .map(|i: u32| i.to_string())
            .collect();
        return Err(RunError::NoArgument {
            index: *index,
            kernel: launch.kernel.clone(),
            known: match known.as_slice() {
                [] => "it takes none".to_owned(),
                [one] => format!("its only memory is argument {one}"),
                all => format!("its memories are arguments {}", all.join(", ")),
            },
        });
    }
    let of = |memory: &crate::capture::Memory| -> Element {
        let arguments = || launch.arguments_of(memory.id);
        let told = arguments().find_map(|a| types.iter().find(|(index, _)| *index == a.index));
        if let Some((_, element)) = told {
            return *element;
        }
        if let Some(image) = &memory.image {
            return Element::of_channel(&image.data);
        }
        let mut known: Vec<Element> = arguments()
            .filter_map(|a| {
                let told = || built.kernel.argument(a.index).type_name;
                let shown = || pointed.get(a.index as usize).cloned().flatten();
                // A name may be one that the source gives to a type: the source tells which.
                let names = [a.type_name.clone(), told(), shown()];
                names.into_iter().flatten().find_map(|name| Element::of_type(&name))
            })
            .collect();
        known.dedup();
        match known.as_slice() {
            [one] => *one,
            _ => Element::Byte,
        }
    };
    Ok(launch.memories.iter().map(of).collect())
}

/// Of results that differ: memories that were compared byte by byte since the type of their
/// elements is not known.
pub(super) fn untyped(launch: &Launch, results: &Results, out: &mut Vec<String>) {
    let differing = results.memories.iter().filter(|m| m.differing > 0);
    for of in differing.filter(|m| m.element == Element::Byte.name()) {
        let is_image = launch.memory(of.memory).is_some_and(|memory| memory.image.is_some());
        let Some(argument) = launch.arguments_of(of.memory).next().filter(|_| !is_image) else {
            continue;
        };
        let note = format!(
            "the type of what argument {0} points to is not known, so bytes were compared and no ULPs counted; --as {0}=float says what it is",
            argument.index
        );
        if !out.contains(&note) {
            out.push(note);
        }
    }
}
