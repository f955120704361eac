//! Storages of progress and diff-bases: the provided ones are native, others are called in Python.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kopf_core::body::Body;
use kopf_core::diffbase::{
    AnnotationsDiffBaseStorage, DiffBaseStorage, MultiDiffBaseStorage, StatusDiffBaseStorage,
};
use kopf_core::field::FieldPath;
use kopf_core::key_order::KeyOrder;
use kopf_core::patch::Patch;
use kopf_core::progress::{
    AnnotationsProgressStorage, MultiProgressStorage, ProgressRecord, ProgressStorage,
    SmartProgressStorage, StatusProgressStorage,
};
use kopf_core::storage::StorageError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::front::Front;
use crate::front::convert::{
    from_python, map_from_python, map_to_python, to_python, to_python_in_order,
};
use crate::front::raised::Raised;
use crate::front::reading::{get, need};

/// Converts a progress storage. `kopf._front.bridge.lowering` describes the provided ones; others are
/// hosted.
pub(crate) fn progress(
    front: &Arc<Front>,
    storage: &Bound<'_, PyAny>,
) -> PyResult<Arc<dyn ProgressStorage>> {
    let bridge = front.bridge.bind(storage.py());
    let described = bridge.call_method1("describe_progress_storage", (storage,))?;
    if described.is_none() {
        front.host.takes_all.store(true, Ordering::Relaxed);
        let field = bridge.call_method1("status_field", (storage,))?;
        let field: Option<Vec<String>> = field.extract()?;
        let storage = PyStorage::new(front, storage);
        let status_field = field.map(FieldPath::from_iter);
        return Ok(Arc::new(PyStorage {
            status_field,
            ..storage
        }));
    }
    let spec = described.cast::<PyDict>()?;
    Ok(match &*need::<String>(spec, "kind")? {
        "annotations" => Arc::new(annotations_progress(spec)?),
        "status" => Arc::new(status_progress(spec)?),
        "smart" => {
            let annotations = annotations_progress(spec)?;
            Arc::new(SmartProgressStorage::of(
                annotations,
                status_progress(spec)?,
            ))
        }
        _ => {
            let storages: Vec<Bound<'_, PyAny>> = need(spec, "storages")?;
            let storages = storages.iter().map(|storage| progress(front, storage));
            Arc::new(MultiProgressStorage::new(
                storages.collect::<PyResult<Vec<_>>>()?,
            ))
        }
    })
}

fn annotations_progress(spec: &Bound<'_, PyDict>) -> PyResult<AnnotationsProgressStorage> {
    let storage = AnnotationsProgressStorage::new(need::<String>(spec, "prefix")?);
    let storage = storage.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(storage
        .verbose(need(spec, "verbose")?)
        .touch_key(need::<String>(spec, "touch_key")?)
        .v1(need(spec, "v1")?)
        // Ids are names of functions, such as `_private` or `<lambda>`, which the original accepts.
        .repairs(true))
}

fn status_progress(spec: &Bound<'_, PyDict>) -> PyResult<StatusProgressStorage> {
    Ok(StatusProgressStorage::new(&need::<String>(spec, "name")?)
        .field(path(spec, "field")?)
        .touch_field(path(spec, "touch_field")?))
}

/// Converts a diff-base storage in the same way.
pub(crate) fn diffbase(
    front: &Arc<Front>,
    storage: &Bound<'_, PyAny>,
) -> PyResult<Arc<dyn DiffBaseStorage>> {
    let bridge = front.bridge.bind(storage.py());
    let described = bridge.call_method1("describe_diffbase_storage", (storage,))?;
    if described.is_none() {
        front.host.takes_all.store(true, Ordering::Relaxed);
        return Ok(Arc::new(PyStorage::new(front, storage)));
    }
    let spec = described.cast::<PyDict>()?;
    let ignored: Vec<Vec<String>> = get(spec, "ignored_fields")?.unwrap_or_default();
    let ignored = ignored.into_iter().map(FieldPath::from_iter);
    Ok(match &*need::<String>(spec, "kind")? {
        "annotations" => {
            let storage = AnnotationsDiffBaseStorage::new(need::<String>(spec, "prefix")?);
            let storage = storage.map_err(|error| PyValueError::new_err(error.to_string()))?;
            let storage = storage
                .key(need::<String>(spec, "key")?)
                .ignored_fields(ignored);
            Arc::new(storage.v1(need(spec, "v1")?))
        }
        "status" => {
            let storage = StatusDiffBaseStorage::new(&need::<String>(spec, "name")?);
            Arc::new(storage.field(path(spec, "field")?).ignored_fields(ignored))
        }
        _ => {
            let storages: Vec<Bound<'_, PyAny>> = need(spec, "storages")?;
            let storages = storages.iter().map(|storage| diffbase(front, storage));
            Arc::new(MultiDiffBaseStorage::new(
                storages.collect::<PyResult<Vec<_>>>()?,
            ))
        }
    })
}

fn path(spec: &Bound<'_, PyDict>, key: &str) -> PyResult<FieldPath> {
    Ok(FieldPath::from_iter(need::<Vec<String>>(spec, key)?))
}

/// A storage of a user. Called in tasks that the event loop polls.
struct PyStorage {
    front: Arc<Front>,
    storage: Py<PyAny>,
    name: String,
    /// The field with the progress records, if they are stored in the status.
    status_field: Option<FieldPath>,
}

impl PyStorage {
    fn new(front: &Arc<Front>, storage: &Bound<'_, PyAny>) -> Self {
        let name = storage.get_type().name();
        Self {
            front: Arc::clone(front),
            storage: storage.clone().unbind(),
            name: name.map(|name| name.to_string()).unwrap_or_default(),
            status_field: None,
        }
    }

    fn ask<T>(
        &self,
        method: &'static str,
        ask: impl FnOnce(&Bound<'_, PyAny>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, StorageError> {
        let asked = Python::attach(|py| ask(self.front.bridge.bind(py), self.storage.bind(py)));
        asked.map_err(|error| {
            let text = format!("{}.{method}() has failed: {error}", self.name);
            StorageError::custom(Raised::with_text(error, text))
        })
    }

    /// Calls a method that changes a patch.
    fn change(
        &self,
        method: &'static str,
        patch: &mut Patch,
        call: impl FnOnce(&Bound<'_, PyAny>, &Bound<'_, PyAny>, &Bound<'_, PyDict>) -> PyResult<()>,
    ) -> Result<(), StorageError> {
        let merge = self.ask(method, |bridge, storage| {
            let merge = map_to_python(bridge.py(), &patch.merge)?;
            call(bridge, storage, &merge)?;
            map_from_python(&merge)
        })?;
        patch.merge = merge;
        Ok(())
    }

    fn body<'py>(&self, py: Python<'py>, body: &Body) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.front.body(py, body)?.into_bound(py))
    }
}

impl ProgressStorage for PyStorage {
    fn status_field(&self) -> Option<&FieldPath> {
        self.status_field.as_ref()
    }

    fn fetch(&self, key: &str, body: &Body) -> Result<Option<ProgressRecord>, StorageError> {
        self.ask("fetch", |bridge, storage| {
            let body = self.body(bridge.py(), body)?;
            let record = bridge.call_method1("storage_fetch", (storage, key, body))?;
            Ok(ProgressRecord::from_value(&from_python(&record)?))
        })
    }

    fn store(
        &self,
        key: &str,
        record: &ProgressRecord,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError> {
        self.change("store", patch, |bridge, storage, merge| {
            let body = self.body(bridge.py(), body)?;
            let record = to_python(bridge.py(), &record.to_value())?;
            bridge.call_method1("storage_store", (storage, key, record, body, merge))?;
            Ok(())
        })
    }

    fn purge(&self, key: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        self.change("purge", patch, |bridge, storage, merge| {
            let body = self.body(bridge.py(), body)?;
            bridge.call_method1("storage_purge", (storage, key, body, merge))?;
            Ok(())
        })
    }

    fn touch(
        &self,
        body: &Body,
        patch: &mut Patch,
        value: Option<&str>,
    ) -> Result<(), StorageError> {
        self.change("touch", patch, |bridge, storage, merge| {
            let body = self.body(bridge.py(), body)?;
            bridge.call_method1("storage_touch", (storage, body, merge, value))?;
            Ok(())
        })
    }

    fn clear(&self, essence: &mut Value) -> Result<(), StorageError> {
        *essence = self.ask("clear", |bridge, storage| {
            let essence = to_python(bridge.py(), essence)?;
            from_python(&bridge.call_method1("storage_clear", (storage, essence))?)
        })?;
        Ok(())
    }

    fn flush(&self) -> Result<(), StorageError> {
        self.ask("flush", |_, storage| {
            storage.call_method0("flush").map(drop)
        })
    }
}

impl DiffBaseStorage for PyStorage {
    fn build(&self, body: &Body, extra_fields: &[FieldPath]) -> Result<Value, StorageError> {
        self.ask("build", |bridge, storage| {
            let body = self.body(bridge.py(), body)?;
            let fields: Vec<Vec<&str>> = extra_fields
                .iter()
                .map(|field| field.steps().iter().map(|step| &**step).collect())
                .collect();
            from_python(&bridge.call_method1("storage_build", (storage, body, fields))?)
        })
    }

    fn strip(&self, _body: &Body, _essence: &mut Value) {
        // `build` strips the essence.
    }

    fn fetch(&self, body: &Body) -> Result<Option<Value>, StorageError> {
        self.ask("fetch", |bridge, storage| {
            let body = self.body(bridge.py(), body)?;
            let essence = bridge.call_method1("storage_fetch_essence", (storage, body))?;
            Ok(Some(from_python(&essence)?).filter(|essence| !essence.is_null()))
        })
    }

    fn store(&self, body: &Body, patch: &mut Patch, essence: &Value) -> Result<(), StorageError> {
        let order = body.order().map(Arc::as_ref);
        self.change("store", patch, |bridge, storage, merge| {
            let body = self.body(bridge.py(), body)?;
            let order = KeyOrder::of_essence(essence, order);
            let essence = to_python_in_order(bridge.py(), essence, Some(&order))?;
            bridge.call_method1("storage_store_essence", (storage, body, merge, essence))?;
            Ok(())
        })
    }
}

impl fmt::Debug for PyStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
