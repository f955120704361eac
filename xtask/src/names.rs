//! Names of exported types: none is only `Error`, `State`, `Options` or the like, without its
//! subject. In an error message, a signature or a list of imports, the module is not visible.

use std::path::Path;

use anyhow::Result;

/// Names that say nothing without a subject.
const BARE: [&str; 7] = [
    "Config", "Context", "Error", "Inner", "Kind", "Options", "State",
];

/// Exported types with such a name: the file, the name, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "crates/kopf/src/error.rs",
        "Error",
        "the error that users return from handlers: `kopf::Error`, as `kube::Error`",
    ),
    (
        "crates/kopf/src/extract/context.rs",
        "Context",
        "what extractors extract from: `kopf::extract::Context`",
    ),
    (
        "crates/kopf/src/extract/operator.rs",
        "State",
        "the extractor of shared state, named as in axum",
    ),
    (
        "crates/kopf/src/on/kinds.rs",
        "Kind",
        "the kind of a handler in bounds of builders: `kopf::on::Kind`",
    ),
];

/// Exported types that still have such a name. Users name them by their modules, as
/// `kopf_core::field::Error`. The list may only become shorter.
const UNNAMED: &[(&str, &str)] = &[
    ("crates/kopf-client/src/connection/error.rs", "Error"),
    ("crates/kopf-client/src/connection/mod.rs", "Options"),
    ("crates/kopf-client/src/error/mod.rs", "Error"),
    ("crates/kopf-core/src/cluster/body/mod.rs", "Error"),
    ("crates/kopf-core/src/cluster/children/manifest.rs", "Kind"),
    ("crates/kopf-core/src/cluster/children/mod.rs", "Error"),
    ("crates/kopf-core/src/cluster/essence.rs", "Error"),
    ("crates/kopf-core/src/cluster/hierarchy/mod.rs", "Error"),
    ("crates/kopf-core/src/cluster/keys/mod.rs", "Error"),
    ("crates/kopf-core/src/cluster/namespace/mod.rs", "Error"),
    ("crates/kopf-core/src/cluster/patch/calls.rs", "Error"),
    ("crates/kopf-core/src/cluster/resource.rs", "Error"),
    ("crates/kopf-core/src/cluster/selector/spec.rs", "Error"),
    ("crates/kopf-core/src/declaration/handler/spec.rs", "Error"),
    ("crates/kopf-core/src/declaration/lifecycle.rs", "Error"),
    ("crates/kopf-core/src/handling/object/cycle.rs", "Error"),
    ("crates/kopf-core/src/handling/object/state.rs", "State"),
    (
        "crates/kopf-core/src/handling/rights/extra_permission.rs",
        "Error",
    ),
    ("crates/kopf-core/src/handling/rights/mod.rs", "Options"),
    ("crates/kopf-core/src/handling/settings/mod.rs", "Error"),
    (
        "crates/kopf-core/src/persistence/progress/state/mod.rs",
        "State",
    ),
    ("crates/kopf-core/src/values/field.rs", "Error"),
    ("crates/kopf-core/src/values/timestamp.rs", "Error"),
    ("crates/kopf-engine/src/activities/outcome.rs", "Error"),
    ("crates/kopf-engine/src/admission/mod.rs", "Error"),
    ("crates/kopf-engine/src/applying.rs", "Error"),
    ("crates/kopf-engine/src/definitions.rs", "Error"),
    ("crates/kopf-engine/src/leading/mod.rs", "Error"),
    ("crates/kopf-engine/src/metrics/description.rs", "Kind"),
    ("crates/kopf-engine/src/operator/error.rs", "Error"),
    ("crates/kopf-engine/src/peering/command.rs", "Error"),
    ("crates/kopf-inspect/src/state.rs", "State"),
    ("crates/kopf-shipping/src/chart/mod.rs", "Error"),
    ("crates/kopf-shipping/src/files.rs", "Error"),
    ("crates/kopf-shipping/src/naming.rs", "Error"),
    ("crates/kopf-shipping/src/scaffold/naming.rs", "Error"),
    ("crates/kopf-shipping/src/scaffold/origin.rs", "Error"),
    ("crates/kopf-shipping/src/yaml.rs", "Error"),
    ("crates/kopf-webhooks/src/error.rs", "Error"),
    ("sandbox/api/src/certificates.rs", "Error"),
    ("sandbox/api/src/request/options.rs", "Options"),
    ("sandbox/schema/src/kind.rs", "Kind"),
    ("sandbox/schema/src/typing/table.rs", "Error"),
    ("sandbox/server/src/manifests/error.rs", "Error"),
    ("sandbox/server/src/sandbox/mod.rs", "Error"),
];

/// Folders with the published crates.
const FOLDERS: [&str; 2] = ["crates", "sandbox"];

/// Returns the exported types without a subject, and exceptions that are not needed any longer.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let mut files = Vec::new();
        crate::collect(&root.join(folder), &mut files)?;
        for file in files {
            let place = file.strip_prefix(root).unwrap_or(&file);
            let place = place.display().to_string();
            if place.split('/').any(|part| part == "src") {
                let text = crate::read(&file)?;
                let names = bare(&text).map(|(line, name)| (place.clone(), line, name.to_owned()));
                found.extend(names);
            }
        }
    }
    let known = EXCEPTIONS.iter().map(|(file, name, _)| (*file, *name));
    let known: Vec<_> = known.chain(UNNAMED.iter().copied()).collect();
    Ok(problems(&found, &known))
}

/// Returns the declarations of exported types without a subject, with their lines.
fn bare(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let mut words = line.trim_start().split(' ');
        if words.next() != Some("pub") {
            return None;
        }
        let is_type = matches!(words.next(), Some("struct" | "enum" | "trait" | "type"));
        let rest = words.next().filter(|_| is_type)?;
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let name = rest.get(..end.unwrap_or(rest.len()))?;
        BARE.contains(&name).then_some((index + 1, name))
    })
}

fn problems(found: &[(String, usize, String)], exceptions: &[(&str, &str)]) -> Vec<String> {
    let wrong = found.iter().filter(|(place, _, name)| {
        let mut known = exceptions.iter();
        !known.any(|one| one.0 == place && one.1 == name)
    });
    let wrong = wrong.map(|(place, line, name)| {
        format!("{place}:{line}: the exported type {name} needs its subject in the name")
    });
    let stale = exceptions.iter().filter(|(file, name)| {
        !found
            .iter()
            .any(|(place, _, known)| place == file && known == name)
    });
    let stale = stale.map(|(file, name)| {
        format!("xtask/src/names.rs: the exception {name} of {file} is not needed any longer")
    });
    wrong.chain(stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exported_types_without_a_subject_are_found() {
        let text = "pub enum Error {\n    pub struct State<T>(T);\npub trait Kind: Copy {}\n\
                    pub type Options = ();\npub struct Inner;\n";
        let found: Vec<_> = bare(text).collect();
        let expected = [
            (1, "Error"),
            (2, "State"),
            (3, "Kind"),
            (4, "Options"),
            (5, "Inner"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn other_names_and_hidden_types_pass() {
        let text = "pub enum WatchError {\npub(crate) struct State;\nenum Error {\n\
                    type Error = Infallible;\npub fn Error() {}\npub struct Errors;\n// pub enum Error {";
        assert_eq!(bare(text).count(), 0);
    }

    #[test]
    fn exceptions_count_only_for_their_file_and_while_needed() {
        let exceptions = [("a.rs", "Error"), ("b.rs", "Kind")];
        let found = |place: &str| (place.to_owned(), 3, "Error".to_owned());
        assert_eq!(
            problems(&[found("a.rs"), found("c.rs")], &exceptions),
            [
                "c.rs:3: the exported type Error needs its subject in the name",
                "xtask/src/names.rs: the exception Kind of b.rs is not needed any longer",
            ]
        );
    }
}
