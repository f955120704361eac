//! Recordings of the original in `tests/golden`.

use std::path::Path;

use serde_json::Value;

use super::normalized::{self, Line, Write};

pub(super) struct Recording {
    calls: Vec<Value>,
    objects: Vec<Value>,
    log: String,
}

impl Recording {
    pub(super) fn load(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("golden")
            .join(name);
        let read = |file: &str| {
            let file = folder.join(file);
            std::fs::read_to_string(&file)
                .unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()))
        };
        let json = |file: &str| -> Vec<Value> {
            serde_json::from_str(&read(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
        };
        Self {
            calls: json("calls.json"),
            objects: json("objects.json"),
            log: read("log.txt"),
        }
    }

    /// Returns the object after this step; null if it did not exist.
    pub(super) fn object(&self, step: &str) -> &Value {
        let moment = self.objects.iter().find(|moment| moment["after"] == step);
        &moment.unwrap_or_else(|| panic!("nothing is recorded after {step:?}"))["object"]
    }

    pub(super) fn writes(&self) -> Vec<Write> {
        let accepted = self.calls.iter().filter(|call| {
            let status = call["status"].as_u64().unwrap_or_default();
            (200..300).contains(&status)
        });
        accepted
            .filter_map(|call| {
                let text = |key: &str| call[key].as_str().unwrap_or_default();
                normalized::of_write(
                    text("resource"),
                    text("name"),
                    text("subresource"),
                    &call["body"],
                )
            })
            .collect()
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let lines = self.log.lines().map(|line| {
            parse(line).unwrap_or_else(|| panic!("not a line about an object: {line}"))
        });
        normalized::of_lines(lines)
    }
}

/// `[time] kopf.objects         [LEVEL   ] [namespace/name] message`
fn parse(line: &str) -> Option<(&str, &str, &str)> {
    let (_, line) = line.split_once("kopf.objects")?;
    let (level, line) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let (object, message) = line.trim_start().strip_prefix('[')?.split_once("] ")?;
    let (_, name) = object.split_once('/')?;
    Some((level.trim(), name, message))
}
