//! Changes of the object by handlers.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kopf_core::field::FieldPath;
use kopf_core::patch::{BoxError, PatchFn};
use kopf_engine::invocation::SharedPatch;
use serde::Serialize;
use serde_json::{Map, Value};

use super::present::present;
use super::{Context, Declared, Extract, Rejection};
use crate::error::Error;
use crate::fields::IntoFieldPath;

/// Changes of the object, sent at the end of the cycle.
///
/// All changes of a cycle are sent together, in as few requests as possible, even if the handler
/// fails. Changes made after the handler has returned are lost.
///
/// Values are anything that serialises to JSON: strings, numbers, `json!(…)`, types with
/// `Serialize`. A `None` in them is left out, so that a partly filled type of the status changes
/// only its filled fields. A JSON null removes the field, as does [`remove`](Self::remove). If a
/// value cannot be serialised, the write fails with an error that names the
/// field, as with a failing [transformation](Self::transform).
///
/// ```
/// use kopf::Patch;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn(patch: Patch) {
///     patch.status().set("ready", true);
///     patch.spec().set("size", "1G");
///     patch.meta().label("seen", "yes").annotation("example.com/note", "hello");
///     patch.set("spec.template.replicas", 3);
///     patch.remove("spec.obsolete");
///     patch.merge(json!({"status": {"phase": "Done"}}));
/// }
///
/// let patch = Patch::default();
/// create_fn(patch.clone());
/// assert_eq!(patch.to_value()["status"], json!({"ready": true, "phase": "Done"}));
/// assert_eq!(patch.to_value()["spec"]["obsolete"], Value::Null);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Patch(SharedPatch);

impl Patch {
    /// Returns the changes of the `spec`.
    pub fn spec(&self) -> SectionPatch {
        self.section("spec")
    }

    /// Returns the changes of the `status`.
    ///
    /// ```
    /// use kopf::Patch;
    /// use kopf::prelude::*;
    ///
    /// #[kopf::schema]
    /// struct GreetingStatus {
    ///     message: String,
    ///     language: Option<String>,
    /// }
    ///
    /// #[kopf::on::create("greetings")]
    /// fn greet(patch: Patch) {
    ///     let status = GreetingStatus { message: "Hello!".into(), language: None };
    ///     patch.status().merge(status).remove("phase"); // keeps the language, if there is one
    /// }
    ///
    /// let patch = Patch::default();
    /// greet(patch.clone());
    /// assert_eq!(patch.to_value()["status"], json!({"message": "Hello!", "phase": null}));
    /// ```
    pub fn status(&self) -> SectionPatch {
        self.section("status")
    }

    /// Returns the changes of the `metadata`.
    pub fn meta(&self) -> MetaPatch {
        MetaPatch(self.section("metadata"))
    }

    fn section(&self, name: &'static str) -> SectionPatch {
        SectionPatch {
            patch: self.0.clone(),
            path: FieldPath::root().join(name),
        }
    }

    /// Sets a field, with all its parents. Null removes it; `None` changes nothing.
    pub fn set(&self, field: impl IntoFieldPath, value: impl Serialize) -> &Self {
        set(&self.0, &field.into_field_path(), value);
        self
    }

    /// Removes a field.
    pub fn remove(&self, field: impl IntoFieldPath) -> &Self {
        self.set(field, Value::Null)
    }

    /// Adds a merge-patch: objects are merged, nulls remove fields, other values replace them, `None`
    /// is left out. The changes must be an object.
    pub fn merge(&self, changes: impl Serialize) -> &Self {
        merge(&self.0, &FieldPath::root(), changes);
        self
    }

    /// Adds a function that changes the newest version of the whole object.
    ///
    /// Use it for lists, to keep items that other clients add concurrently. The function is called
    /// when the patch is applied, and again in the next cycle if the object was changed in between;
    /// it must not have other effects.
    ///
    /// ```
    /// use kopf::Patch;
    /// use kopf::prelude::*;
    ///
    /// #[kopf::on::create("kopfexamples")]
    /// fn create_fn(patch: Patch) {
    ///     patch.transform(|object| {
    ///         if let Some(items) = object["spec"]["items"].as_array_mut() {
    ///             items.push(json!("one more"));
    ///         }
    ///     });
    /// }
    /// ```
    pub fn transform<R: IntoTransformed>(
        &self,
        function: impl Fn(&mut Value) -> R + Send + Sync + 'static,
    ) -> &Self {
        let function = PatchFn::new("transform", move |object| {
            // It runs outside of the handler, where no other code catches panics.
            match catch_unwind(AssertUnwindSafe(|| function(object))) {
                Ok(result) => result.into_transformed(),
                Err(_) => Err("a transforming function of a patch panicked".into()),
            }
        });
        self.0.with(|patch| patch.add_fn(function));
        self
    }

    /// Returns `true` if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.0.with(|patch| patch.is_empty())
    }

    /// Returns the current changes as a merge-patch, without transforming functions.
    pub fn to_value(&self) -> Value {
        self.0.with(|patch| Value::Object(patch.merge.clone()))
    }
}

impl Extract for Patch {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        context.object("Patch")?;
        Ok(Self(context.call("Patch")?.patch.clone()))
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Patch")
    }
}

/// A result of a transforming function of a patch: `()` or [`kopf::Result<()>`](crate::Result).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned from a transforming function",
    label = "return `()` or `kopf::Result<()>`"
)]
pub trait IntoTransformed {
    /// Converts the result for the engine.
    fn into_transformed(self) -> Result<(), BoxError>;
}

impl IntoTransformed for () {
    fn into_transformed(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl IntoTransformed for Result<(), Error> {
    fn into_transformed(self) -> Result<(), BoxError> {
        self.map_err(Error::into_boxed)
    }
}

/// Changes of a section of the object.
#[derive(Debug, Clone)]
pub struct SectionPatch {
    patch: SharedPatch,
    path: FieldPath,
}

impl SectionPatch {
    /// Sets a key of the section. Null removes it; `None` changes nothing.
    pub fn set(&self, key: impl Into<String>, value: impl Serialize) -> &Self {
        set(&self.patch, &self.path.join(key.into()), value);
        self
    }

    /// Removes a key of the section.
    pub fn remove(&self, key: impl Into<String>) -> &Self {
        self.set(key, Value::Null)
    }

    /// Adds a merge-patch of the section: objects are merged, nulls remove fields, other values
    /// replace them, `None` is left out. The changes must be an object, such as the type of the
    /// status.
    pub fn merge(&self, changes: impl Serialize) -> &Self {
        merge(&self.patch, &self.path, changes);
        self
    }
}

fn set(patch: &SharedPatch, field: &FieldPath, value: impl Serialize) {
    match present(value) {
        Ok(None) => {}
        Ok(Some(value)) => patch.with(|patch| patch.set(field, value)),
        Err(error) => fail(patch, format_args!("cannot set {field}: {error}")),
    }
}

fn merge(patch: &SharedPatch, field: &FieldPath, changes: impl Serialize) {
    let name = |field: &FieldPath| match field.to_string() {
        name if name.is_empty() => "the object".to_owned(),
        name => name,
    };
    match present(changes) {
        Ok(None) => {}
        Ok(Some(changes @ Value::Object(_))) => {
            let mut whole = changes;
            for step in field.steps().iter().rev() {
                whole = Value::Object(Map::from_iter([(step.to_string(), whole)]));
            }
            if let Value::Object(merge) = whole {
                let changes = kopf_core::patch::Patch {
                    merge,
                    ..kopf_core::patch::Patch::default()
                };
                patch.with(|patch| patch.merge_from(changes));
            }
        }
        Ok(Some(other)) => {
            let other: String = other.to_string().chars().take(50).collect();
            let field = name(field);
            fail(
                patch,
                format_args!("cannot merge {other} into {field}: must be an object"),
            );
        }
        Err(error) => fail(
            patch,
            format_args!("cannot merge into {}: {error}", name(field)),
        ),
    }
}

/// Makes the write fail with the reason.
fn fail(patch: &SharedPatch, reason: impl Display) {
    let reason = reason.to_string();
    let function = PatchFn::new("set", move |_| Err(reason.clone().into()));
    patch.with(|patch| patch.add_fn(function));
}

/// Changes of the metadata of the object.
#[derive(Debug, Clone)]
pub struct MetaPatch(SectionPatch);

impl MetaPatch {
    /// Sets a label.
    pub fn label(&self, key: impl Into<String>, value: impl Into<String>) -> &Self {
        self.at("labels").set(key, value.into());
        self
    }

    /// Removes a label.
    pub fn remove_label(&self, key: impl Into<String>) -> &Self {
        self.at("labels").remove(key);
        self
    }

    /// Sets an annotation.
    pub fn annotation(&self, key: impl Into<String>, value: impl Into<String>) -> &Self {
        self.at("annotations").set(key, value.into());
        self
    }

    /// Removes an annotation.
    pub fn remove_annotation(&self, key: impl Into<String>) -> &Self {
        self.at("annotations").remove(key);
        self
    }

    /// Sets any key of the metadata. Null removes it; `None` changes nothing.
    pub fn set(&self, key: impl Into<String>, value: impl Serialize) -> &Self {
        self.0.set(key, value);
        self
    }

    fn at(&self, key: &str) -> SectionPatch {
        SectionPatch {
            patch: self.0.patch.clone(),
            path: self.0.path.join(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_of_all_sections_are_collected() {
        let patch = Patch::default();
        assert!(patch.is_empty());
        patch.status().set("ready", true).set("count", 3_usize);
        patch.spec().remove("old").merge(json!({"a": {"b": 1}}));
        patch.spec().merge(json!({"a": {"c": 2}}));
        patch.meta().label("l", "1").remove_label("m");
        patch.meta().annotation("x.y/z", "1").remove_annotation("n");
        patch.set("data.key", "value").set(["data", "a.b"], 1);
        assert!(!patch.is_empty());
        assert_eq!(
            patch.to_value(),
            json!({
                "status": {"ready": true, "count": 3},
                "spec": {"old": null, "a": {"b": 1, "c": 2}},
                "metadata": {
                    "labels": {"l": "1", "m": null},
                    "annotations": {"x.y/z": "1", "n": null},
                },
                "data": {"key": "value", "a.b": 1},
            })
        );
    }

    #[test]
    fn types_are_serialised() {
        #[derive(Serialize)]
        struct Progress {
            done: u32,
            error: Option<String>,
        }
        let progress = || Progress {
            done: 3,
            error: None,
        };
        let patch = Patch::default();
        patch.set("spec.progress", progress());
        patch.status().set("progress", progress()).merge(progress());
        assert_eq!(
            patch.to_value(),
            json!({
                "spec": {"progress": {"done": 3}},
                "status": {"progress": {"done": 3}, "done": 3},
            })
        );
    }

    #[test]
    fn only_json_nulls_remove_fields() {
        let patch = Patch::default();
        patch.set("spec.kept", None::<u32>).merge(None::<Value>);
        assert!(patch.is_empty());
        patch.set("spec.gone", Value::Null);
        patch
            .status()
            .merge(json!({"gone": null, "kept": {"a": 1}}));
        assert_eq!(
            patch.to_value(),
            json!({"spec": {"gone": null}, "status": {"gone": null, "kept": {"a": 1}}})
        );
    }

    #[test]
    fn values_that_cannot_be_written_fail_the_write() {
        let unusable = || std::collections::BTreeMap::from([((1, 2), 3)]);
        let failure = |change: &dyn Fn(&Patch)| {
            let patch = Patch::default();
            change(&patch);
            assert_eq!(patch.to_value(), json!({}));
            run(&patch, &mut json!({})).unwrap_err()
        };
        assert_eq!(
            failure(&|patch| _ = patch.status().set("x", unusable())),
            "cannot set status.x: key must be a string"
        );
        assert_eq!(
            failure(&|patch| _ = patch.merge(json!([1]))),
            "cannot merge [1] into the object: must be an object"
        );
        assert_eq!(
            failure(&|patch| _ = patch.status().merge("text")),
            "cannot merge \"text\" into status: must be an object"
        );
    }

    fn run(patch: &Patch, object: &mut Value) -> Result<(), String> {
        let function = patch.0.with(|patch| patch.fns.first().cloned()).unwrap();
        function.call(object).map_err(|error| error.to_string())
    }

    #[test]
    fn functions_transform_objects() {
        let patch = Patch::default();
        patch.transform(|object| object["x"] = json!(1));
        let mut object = json!({});
        assert_eq!(run(&patch, &mut object), Ok(()));
        assert_eq!(object, json!({"x": 1}));
    }

    #[test]
    fn functions_that_fail_are_errors() {
        let patch = Patch::default();
        patch.transform(|_| Err(crate::permanent("not so")));
        assert_eq!(run(&patch, &mut json!({})), Err("not so".to_owned()));
        let patch = Patch::default();
        patch.transform(|object| object["list"][5] = json!(1));
        let error = run(&patch, &mut json!({"list": []})).unwrap_err();
        assert!(error.contains("panicked"), "{error}");
    }
}
