//! The steps of the demo. Each prints an explanation, waits for the effect, and fails on timeout.

use kopf_sandbox::Sandbox;
use kopf_sandbox::manifests::Manifests;
use serde_json::{Map, Value, json};

use super::bakeries::Bakeries;
use crate::failure::{Failure, of_manifests};
use crate::table;
use kopf_inspect::{Screen, Style};

const OBJECTS: &str = include_str!("../../demo/2-objects.yaml");

/// Decorator, name and description of each handler.
const HANDLERS: [(&str, &str, &str); 4] = [
    ("create", "open", "fails once and is retried"),
    ("update", "change", "receives the diff"),
    ("field", "loaves", "runs when spec.loaves changes"),
    ("delete", "close", "runs before the object is deleted"),
];

/// The steps and their output.
pub(super) struct Story<'a> {
    pub(super) terminal: &'a Screen,
    pub(super) sandbox: &'a Sandbox,
    pub(super) bakeries: Bakeries,
}

impl Story<'_> {
    pub(super) fn handlers(&self) {
        self.step("An operator, with four handlers (crates/kopf-cli/src/demo/handlers.rs)");
        for (cause, name, purpose) in HANDLERS {
            self.terminal.line(&[
                (Style::Plain, &format!("   on::{cause:8}")),
                (Style::Strong, &format!("{name:8}")),
                (Style::Plain, purpose),
            ]);
        }
    }

    pub(super) async fn run(&self) -> Result<(), Failure> {
        self.step(
            "Create a bakery: `open` fails with a temporary error and is retried after a second",
        );
        self.create().await?;
        let object = self.bakeries.handled("corner", 10).await?;
        self.explain(
            "The result of `open` is in the status, the last handled configuration in an annotation:",
        );
        self.object(&object);

        self.step("Change it: `change` receives the diff since the last handling");
        let change = json!({"spec": {"bread": "wheat", "loaves": 25}});
        self.bakeries.patch("corner", &change).await?;
        self.bakeries.handled("corner", 25).await?;
        self.table().await?;

        self.step(
            "Delete it: the finalizer of the operator keeps the object until `close` succeeds",
        );
        self.bakeries.delete("corner").await?;
        self.bakeries.gone("corner").await?;
        self.explain("Now it is gone.");
        Ok(())
    }

    /// Creates the object again for manual changes.
    pub(super) async fn recreate(&self) -> Result<(), Failure> {
        self.step("Create it again");
        self.create().await?;
        self.bakeries.handled("corner", 10).await?;
        Ok(())
    }

    async fn create(&self) -> Result<(), Failure> {
        let manifests = Manifests::parse([("2-objects.yaml", OBJECTS)]).map_err(of_manifests)?;
        manifests.load(self.sandbox).await.map_err(of_manifests)?;
        Ok(())
    }

    /// Prints an excerpt of the object as YAML.
    fn object(&self, object: &Value) {
        let text = serde_saphyr::to_string(&excerpt(object)).unwrap_or_default();
        for line in text.lines() {
            self.terminal
                .line(&[(Style::Command, &format!("     {line}"))]);
        }
    }

    async fn table(&self) -> Result<(), Failure> {
        for line in table::render(&self.bakeries.table().await?) {
            self.terminal
                .line(&[(Style::Command, &format!("     {line}"))]);
        }
        Ok(())
    }

    pub(super) fn step(&self, text: &str) {
        self.terminal
            .line(&[(Style::Good, "=> "), (Style::Strong, text)]);
    }

    pub(super) fn explain(&self, text: &str) {
        self.terminal.plain(&format!("   {text}"));
    }
}

fn excerpt(object: &Value) -> Value {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let kept = |from: &Value, keys: &[&str]| {
        let entries = keys.iter().filter_map(|key| {
            let value = from.get(key)?.clone();
            Some(((*key).to_owned(), value))
        });
        Value::Object(entries.collect::<Map<_, _>>())
    };
    let mut excerpt = kept(object, &["spec", "status"]);
    if let Some(fields) = excerpt.as_object_mut() {
        let metadata = kept(metadata, &["name", "finalizers", "annotations"]);
        fields.insert("metadata".to_owned(), metadata);
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_has_the_spec_and_selected_metadata() {
        let object = json!({"kind": "Bakery", "spec": {"bread": "rye"},
                            "metadata": {"name": "corner", "uid": "u", "annotations": {"a": "b"}}});
        let expected = json!({"spec": {"bread": "rye"},
                              "metadata": {"name": "corner", "annotations": {"a": "b"}}});
        assert_eq!(excerpt(&object), expected);
    }
}
