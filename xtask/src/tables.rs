//! Compares tables of the reference with the sources: limits and options of webhook servers, and values
//! of labels of metrics.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result};

const WEBHOOKS: &str = "docs/reference/webhook-server.md";
const METRICS: &str = "docs/reference/metrics.md";

/// Enums of labels, with their files and the rows of their values.
const LABELS: &[(&str, &str, &str)] = &[
    ("handlers.rs", "OutcomeLabel", "`outcome` of handlers"),
    ("resources.rs", "PatchLabel", "`outcome` of patches"),
    ("streams.rs", "StreamLabel", "`state` of streams"),
];

/// Options of servers that are not for users.
const INTERNAL: &[&str] = &["default_host"];

/// Checks all tables.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let read = |path: &str| crate::read(&root.join(path));
    let webhooks = read(WEBHOOKS)?;
    let metrics = read(METRICS)?;
    let folder = "crates/kopf-webhooks/src";
    let mut problems = differences(
        WEBHOOKS,
        "limits",
        &limits(&read(&format!("{folder}/limits.rs"))?)?,
        &rows(&webhooks, "Limits"),
    );
    let documented: BTreeSet<_> = rows(&webhooks, "Options")
        .iter()
        .flat_map(|row| names(row.split(" = ").next().unwrap_or_default()))
        .collect();
    problems.extend(differences(
        WEBHOOKS,
        "options",
        &options(&read(&format!("{folder}/server.rs"))?),
        &documented,
    ));
    for (file, name, row) in LABELS {
        let source = read(&format!("crates/kopf-engine/src/metrics/{file}"))?;
        let documented = label_values(&metrics, row);
        problems.extend(differences(
            METRICS,
            row,
            &values(&source, name)?,
            &documented,
        ));
    }
    Ok(problems)
}

fn differences(
    page: &str,
    what: &str,
    code: &BTreeSet<String>,
    documented: &BTreeSet<String>,
) -> Vec<String> {
    let missing = code.difference(documented);
    let extra = documented.difference(code);
    missing
        .map(|item| format!("{page}: {what}: {item} is missing"))
        .chain(extra.map(|item| format!("{page}: {what}: {item} is not in the code")))
        .collect()
}

/// Returns the first two cells of the rows of a section, as `names = default`.
fn rows(page: &str, section: &str) -> BTreeSet<String> {
    let title = format!("\n## {section}\n");
    let text = page.split_once(&title).map_or("", |(_, text)| text);
    let text = text.split("\n## ").next().unwrap_or_default();
    text.lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|row| {
            let (name, rest) = row.split_once(" | ")?;
            let (default, _) = rest.split_once(" | ")?;
            Some(format!("`{name} = {default}").replace('`', ""))
        })
        .collect()
}

/// Returns the fields and defaults of the limits, as they are documented.
fn limits(source: &str) -> Result<BTreeSet<String>> {
    let (_, defaults) = source
        .split_once("fn default() -> Self {")
        .context("the defaults of the limits are not found")?;
    let fields = defaults
        .lines()
        .map(str::trim)
        .filter_map(|line| line.strip_suffix(',')?.split_once(": "));
    Ok(fields
        .map(|(name, value)| format!("{name} = {}", written(value)))
        .collect())
}

/// Returns a value as people write it: `16 MiB`, `10 s`, `2 min`, `1,024`.
fn written(value: &str) -> String {
    if let Some(size) = value.strip_suffix(" * 1024 * 1024") {
        return format!("{size} MiB");
    }
    let seconds = value.strip_prefix("Duration::from_secs(");
    if let Some(seconds) = seconds.and_then(|rest| rest.strip_suffix(')')?.parse::<u32>().ok()) {
        return match seconds {
            60.. if seconds % 60 == 0 => format!("{} min", seconds / 60),
            _ => format!("{seconds} s"),
        };
    }
    match value.parse::<u32>() {
        Ok(number) if number >= 1000 => format!("{},{:03}", number / 1000, number % 1000),
        _ => value.to_owned(),
    }
}

/// Returns the methods that set an option of a server.
fn options(source: &str) -> BTreeSet<String> {
    let setters = source
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("pub fn "))
        .filter(|line| line.contains("(mut self"));
    let names = setters.filter_map(|line| line.split(['(', '<']).next());
    names
        .filter(|name| !INTERNAL.contains(name))
        // A constructor in Rust.
        .chain(["service"])
        .map(str::to_owned)
        .collect()
}

/// Returns the values of an enum of labels: `Accepted = "accepted",`.
fn values(source: &str, name: &str) -> Result<BTreeSet<String>> {
    let (_, body) = source
        .split_once(&format!("enum {name} {{"))
        .with_context(|| format!("the enum {name} is not found"))?;
    let body = body.split('}').next().unwrap_or_default();
    let values = body.lines().filter_map(|line| line.split_once(" = \""));
    Ok(values
        .filter_map(|(_, value)| Some(value.split_once('"')?.0.to_owned()))
        .collect())
}

/// Returns the values in the row of a label; explanations after colons are not values.
fn label_values(page: &str, label: &str) -> BTreeSet<String> {
    let prefix = format!("| {label} | ");
    let row = page.lines().find_map(|line| line.strip_prefix(&prefix));
    let parts = row.unwrap_or_default().split([';', ',']);
    parts
        .filter_map(|part| part.trim().strip_prefix('`')?.split_once('`'))
        .map(|(value, _)| value.to_owned())
        .collect()
}

/// Returns the words in a cell.
fn names(cell: &str) -> Vec<String> {
    cell.split(", ").map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_for_people() {
        let source = "fn default() -> Self {\n Self {\n body: 16 * 1024 * 1024,\n time: Duration::from_secs(10),\n \
                      idle: Duration::from_secs(120),\n many: 1024,\n }";
        let expected = [
            "body = 16 MiB",
            "idle = 2 min",
            "many = 1,024",
            "time = 10 s",
        ];
        assert!(limits(source).unwrap().iter().eq(expected));
    }

    #[test]
    fn tables_are_compared_in_both_directions() {
        let page = "# T\n\n## Limits\n\n| limit | default | meaning |\n|---|---|---|\n| `body` | 16 MiB | x |\n| `old` | 1 s | x |\n\n## B\n\n| `c` | 1 | x |\n";
        let code = BTreeSet::from(["body = 16 MiB".to_owned(), "new = 2 s".to_owned()]);
        let problems = differences("page", "limits", &code, &rows(page, "Limits"));
        assert_eq!(
            problems,
            [
                "page: limits: new = 2 s is missing",
                "page: limits: old = 1 s is not in the code"
            ]
        );
    }

    #[test]
    fn values_of_labels_are_read_from_both() {
        let source = "enum A {\n    /// Doc.\n    One = \"one\",\n    Two = \"two\",\n}";
        let page = "| `a` of b | `one`: the `x`, `two`; `three` |";
        assert_eq!(values(source, "A").unwrap().len(), 2);
        let documented = label_values(page, "`a` of b");
        assert!(documented.iter().eq(["one", "three", "two"]));
    }

    #[test]
    fn setters_are_options() {
        let source = "    pub fn new() -> Self {\n    pub fn addr(mut self, a: u8) -> Self {\n    pub fn sans<S>(mut self) {\n";
        assert!(options(source).iter().eq(["addr", "sans", "service"]));
    }
}
