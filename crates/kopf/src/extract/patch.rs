//! What the handler wants to change on the object.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kopf_core::field::FieldPath;
use kopf_core::patch::{BoxError, PatchFn};
use kopf_engine::invocation::SharedPatch;
use serde_json::{Map, Value};

use super::{Context, Declared, Extract, Rejection};
use crate::error::Error;
use crate::filters::IntoFieldPath;

/// What is to be changed on the object when the handlers of this cycle are over.
///
/// All changes of a cycle are sent together, in as few requests as possible, and also if the
/// handler fails. Changes made after the handler has returned are lost.
///
/// ```
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
    /// Changes of the `spec`.
    pub fn spec(&self) -> SectionPatch {
        self.section("spec")
    }

    /// Changes of the `status`.
    pub fn status(&self) -> SectionPatch {
        self.section("status")
    }

    /// Changes of the `metadata`.
    pub fn meta(&self) -> MetaPatch {
        MetaPatch(self.section("metadata"))
    }

    fn section(&self, name: &'static str) -> SectionPatch {
        SectionPatch {
            patch: self.0.clone(),
            path: FieldPath::root().join(name),
        }
    }

    /// Sets a field, wherever it is, with all its parents. Null removes it.
    pub fn set(&self, field: impl IntoFieldPath, value: impl Into<Value>) -> &Self {
        let (field, value) = (field.into_field_path(), value.into());
        self.0.with(|patch| patch.set(&field, value));
        self
    }

    /// Removes a field, wherever it is.
    pub fn remove(&self, field: impl IntoFieldPath) -> &Self {
        self.set(field, Value::Null)
    }

    /// Adds a whole merge-patch: objects are merged, nulls remove, all else is replaced. What is
    /// no object is ignored.
    pub fn merge(&self, changes: impl Into<Value>) -> &Self {
        if let Value::Object(merge) = changes.into() {
            let changes = kopf_core::patch::Patch {
                merge,
                ..kopf_core::patch::Patch::default()
            };
            self.0.with(|patch| patch.merge_from(changes));
        }
        self
    }

    /// Changes the object by a function, which sees the newest version of the whole object.
    ///
    /// This is the way to change lists: whatever others have added meanwhile stays. The function
    /// is called when the patch is applied, and again in the next cycle if the object was changed
    /// by others in between; it must not have other effects.
    ///
    /// ```
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
            // It runs outside of the handler, where nothing else would stop a panic.
            match catch_unwind(AssertUnwindSafe(|| function(object))) {
                Ok(result) => result.into_transformed(),
                Err(_) => Err("a transforming function of a patch has panicked".into()),
            }
        });
        self.0.with(|patch| patch.add_fn(function));
        self
    }

    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.0.with(|patch| patch.is_empty())
    }

    /// The changes so far as a merge-patch, without transforming functions.
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

/// What a transforming function of a patch returns: nothing, or a [`Result`](crate::Result).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned from a transforming function",
    label = "return `()` or `kopf::Result<()>`"
)]
pub trait IntoTransformed {
    /// Converts it for the engine.
    fn into_transformed(self) -> Result<(), BoxError>;
}

impl IntoTransformed for () {
    fn into_transformed(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl IntoTransformed for Result<(), Error> {
    fn into_transformed(self) -> Result<(), BoxError> {
        self.map_err(BoxError::from)
    }
}

/// Changes of a section of the object.
#[derive(Debug, Clone)]
pub struct SectionPatch {
    patch: SharedPatch,
    path: FieldPath,
}

impl SectionPatch {
    /// Sets a key of the section. Null removes it.
    pub fn set(&self, key: impl Into<String>, value: impl Into<Value>) -> &Self {
        let (path, value) = (self.path.join(key.into()), value.into());
        self.patch.with(|patch| patch.set(&path, value));
        self
    }

    /// Removes a key of the section.
    pub fn remove(&self, key: impl Into<String>) -> &Self {
        self.set(key, Value::Null)
    }

    /// Adds a merge-patch of the section: objects are merged, nulls remove, all else is replaced.
    /// What is no object is ignored.
    pub fn merge(&self, changes: impl Into<Value>) -> &Self {
        let changes = changes.into();
        if changes.is_object() {
            let mut whole = changes;
            for step in self.path.steps().iter().rev() {
                whole = Value::Object(Map::from_iter([(step.to_string(), whole)]));
            }
            Patch(self.patch.clone()).merge(whole);
        }
        self
    }
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

    /// Sets any key of the metadata. Null removes it.
    pub fn set(&self, key: impl Into<String>, value: impl Into<Value>) -> &Self {
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
    fn what_is_no_object_is_not_merged() {
        let patch = Patch::default();
        patch.merge(json!([1])).status().merge("text");
        assert_eq!(patch.to_value(), json!({}));
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
        assert!(error.contains("has panicked"), "{error}");
    }
}
