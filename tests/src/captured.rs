//! Captures of launches, made by hand: what `clscope record --capture` would leave of a launch
//! whose every byte the test knows. Refuses to check them: the command does.
#![forbid(unsafe_code)]

pub use clscope_trace::hash;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A capture that is being made.
#[derive(Debug)]
pub struct Captured {
    /// Its folder.
    pub folder: PathBuf,
    /// What `launch.json` will hold; tests may change it before it is written.
    pub launch: Value,
}
/// Values as bytes.
pub fn bytes<const N: usize, T: Copy>(values: &[T], of: fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| of(*value)).collect()
}

/// Single-precision values as bytes.
pub fn floats(values: &[f32]) -> Vec<u8> {
    bytes(values, f32::to_le_bytes)
}

/// 32-bit integers as bytes.
pub fn words(values: &[u32]) -> Vec<u8> {
    bytes(values, u32::to_le_bytes)
}

impl Captured {
    /// A capture of a kernel without a program, memories and arguments.
    ///
    /// # Panics
    /// If the folder cannot be made.
    pub fn new(folder: &Path, kernel: &str, global: &[u64]) -> Self {
        std::fs::create_dir_all(folder).expect("a folder for the capture");
        let launch = json!({
            "schema": 1, "clscope": "0.1.0", "kernel": kernel, "launch": 1, "command": null,
            "process": {"pid": 1, "incarnation": 0},
            "platform": {"name": "P", "vendor": "V", "version": "OpenCL 1.2"},
            "device": {"name": "D", "vendor": "V", "version": "OpenCL 1.2", "driver": "1", "type": "cpu"},
            "program": {"origin": "source", "options": "", "files": []},
            "dimensions": global.len(), "offset": null, "global": global, "local": null,
            "queue": {"properties": "0x2"},
            "memories": [], "arguments": [],
            "duration_ns": null, "duration_missing": "this capture was made by hand",
        });
        Self { folder: folder.to_owned(), launch }
    }

    fn file(&self, name: &str, content: &[u8]) {
        let path = self.folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a file in the folder")).expect("its folder");
        std::fs::write(path, content).expect("a file of the capture");
    }

    fn list(&mut self, name: &str) -> &mut Vec<Value> {
        self.launch[name].as_array_mut().expect("a list")
    }

    /// Adds a file of the program.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn program(mut self, name: &str, language: &str, content: &[u8]) -> Self {
        self.file(name, content);
        let file = json!({"file": name, "language": language, "bytes": content.len(), "hash": hash(content)});
        self.launch["program"]["files"].as_array_mut().expect("a list").push(file);
        self
    }

    /// Adds the source.
    pub fn source(self, text: &str) -> Self {
        self.program("program.cl", "opencl-c", text.as_bytes())
    }

    /// Adds a memory; gives its id.
    ///
    /// # Panics
    /// If its files cannot be written.
    pub fn memory(&mut self, kind: &str, flag: &str, before: &[u8], after: Option<&[u8]>) -> u64 {
        let id = self.list("memories").len() as u64;
        let names = [format!("memory-{id}.before"), format!("memory-{id}.after")];
        self.file(&names[0], before);
        if let Some(after) = after {
            self.file(&names[1], after);
        }
        let memory = json!({
            "id": id, "kind": kind, "bytes": before.len(), "flags": [flag], "before": names[0],
            "after": after.map(|_| &names[1]), "hash_before": hash(before), "hash_after": after.map(hash),
        });
        self.list("memories").push(memory);
        id
    }

    /// Adds the next argument, of a kind with its fields.
    ///
    /// # Panics
    /// If `fields` is no object.
    pub fn argument(&mut self, kind: &str, fields: Value) {
        let mut argument = fields;
        argument["index"] = self.list("arguments").len().into();
        argument["kind"] = kind.into();
        self.list("arguments").push(argument);
    }

    /// Adds a buffer and the argument that is it.
    pub fn buffer(&mut self, type_name: &str, before: &[u8], after: Option<&[u8]>) -> u64 {
        let flag = if after.is_some() { "CL_MEM_READ_WRITE" } else { "CL_MEM_READ_ONLY" };
        let id = self.memory("buffer", flag, before, after);
        let size = before.len();
        let fields =
            json!({"memory": id, "offset": 0, "size": size, "flags": [flag], "type": type_name});
        self.argument("memory", fields);
        id
    }

    /// Adds an argument that is a value.
    pub fn value(&mut self, content: &[u8]) {
        let hex: String = content.iter().map(|byte| format!("{byte:02x}")).collect();
        self.argument("value", json!({"bytes": content.len(), "value": hex}));
    }

    /// Writes the description; gives the folder.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self) -> String {
        self.file("launch.json", self.launch.to_string().as_bytes());
        self.folder.display().to_string()
    }
}
