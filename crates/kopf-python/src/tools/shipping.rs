//! `kopf rbac`, `kopf manifests`, `kopf peering` and `kopf new`.
//!
//! `kopf._front.tools.shipping` describes the handlers and the options. Nothing is started, and no
//! functions are called except for callable selectors.

use std::path::PathBuf;
use std::sync::Arc;

use kopf_core::handler::{FunctionId, HandlerKind, HandlerSpec};
use kopf_core::registry::Registry;
use kopf_core::resource::Resource;
use kopf_core::rights::Requirements;
use kopf_core::selector::Predicate;
use kopf_core::settings::Settings;
use kopf_shipping::scaffold::{Language, Origin, Project};
use kopf_shipping::{Deployment, Identity, Launch, PeeringGroup, Plan, Webhooks};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::declare::description::{HandlerDescription, SelectorDescription};
use crate::declare::selecting::selector_with;
use crate::front;
use crate::front::convert::objects;
use crate::front::reading::{get, need};

/// Output for stdout, and notes for stderr.
type Printed = (String, Vec<String>);

/// Returns the service account, the roles and the bindings of an operator.
#[pyfunction]
pub(crate) fn rbac(
    handlers: Vec<HandlerDescription>,
    options: &Bound<'_, PyDict>,
) -> PyResult<Printed> {
    let plan = plan(options)?;
    let registry = registry(&handlers, &need(options, "resource")?)?;
    let requirements = requirements(&plan, &registry)?;
    let text = kopf_shipping::rbac(&plan.identity, &requirements);
    Ok((text, kopf_shipping::notes(&registry, &requirements)))
}

/// Returns all manifests of an operator, or writes a Helm chart and returns its files.
#[pyfunction]
pub(crate) fn manifests(
    handlers: Vec<HandlerDescription>,
    options: &Bound<'_, PyDict>,
) -> PyResult<Printed> {
    let plan = plan(options)?;
    let registry = registry(&handlers, &need(options, "resource")?)?;
    let requirements = requirements(&plan, &registry)?;
    let mut reviewing = registry.handlers().iter();
    let is_reviewing = reviewing.any(|handler| {
        matches!(
            handler.kind,
            HandlerKind::Admission(_) | HandlerKind::Convert
        )
    });
    let deployment = Deployment {
        image: get(options, "image")?.unwrap_or_else(|| format!("{}:latest", plan.identity.name)),
        replicas: need(options, "replicas")?,
        command: vec!["kopf".to_owned()],
        arguments: plan.launch.arguments(),
        files: need(options, "files")?,
        webhooks: if is_reviewing {
            Webhooks::Served
        } else {
            Webhooks::Absent
        },
    };
    let mut notes = kopf_shipping::notes(&registry, &requirements);
    let note = plan.note_on_replicas(deployment.replicas);
    notes.extend(note.map(str::to_owned));
    let (identity, definitions) = (&plan.identity, &plan.definitions);
    let text = match get::<PathBuf>(options, "helm")? {
        None => kopf_shipping::manifests(identity, &requirements, definitions, &deployment)
            .map_err(wrong)?,
        Some(folder) => {
            let files = kopf_shipping::chart(&plan, &registry, &Settings::default(), &deployment);
            let files = files.map_err(wrong)?;
            kopf_shipping::write_new(&folder, &files).map_err(wrong)?;
            let paths = files.iter().map(|file| folder.join(&file.path));
            let lines: Vec<_> = paths.map(|path| format!("{}\n", path.display())).collect();
            lines.concat()
        }
    };
    Ok((text, notes))
}

/// Creates a project. Returns the next steps.
#[pyfunction]
pub(crate) fn new_project(options: &Bound<'_, PyDict>) -> PyResult<String> {
    let language = if get(options, "rust")?.unwrap_or(false) {
        Language::Rust
    } else {
        Language::Python
    };
    let origin = match get::<PathBuf>(options, "kopf_path")? {
        Some(path) => Origin::at(&path, language).map_err(wrong)?,
        None => Origin::Released,
    };
    let project = Project {
        name: need(options, "name")?,
        language,
        origin,
    };
    let folder: PathBuf = need(options, "path")?;
    project.create(&folder).map_err(wrong)?;
    Ok(project.next_steps(&folder))
}

fn plan(options: &Bound<'_, PyDict>) -> PyResult<Plan> {
    let flag = |key: &str| -> PyResult<bool> { Ok(get(options, key)?.unwrap_or(false)) };
    let name: String = need(options, "name")?;
    let name = if flag("is_given")? {
        name
    } else {
        Identity::name_of(&name)
    };
    let namespace = get::<String>(options, "namespace")?;
    let identity = Identity::new(&name, namespace.as_deref().unwrap_or(&name)).map_err(wrong)?;
    let allowed: Vec<String> = need(options, "allow")?;
    let extras = allowed.iter().map(|text| text.parse());
    Ok(Plan {
        identity,
        launch: Launch {
            namespaces: need(options, "serve")?,
            standalone: flag("standalone")?,
            peering: get(options, "peering")?,
            installs_definitions: flag("install_crds")?,
            lease: flag("leader_elect")?.then(|| name.clone()),
        },
        extras: extras.collect::<Result<_, _>>().map_err(wrong)?,
        managed_webhooks: get(options, "managed_webhooks")?,
        definitions: objects(options, "definitions")?,
        other_definitions: objects(options, "other_definitions")?,
    })
}

/// Converts the properties of handlers that determine permissions. `resource` makes the argument of
/// callable selectors.
fn registry(handlers: &[HandlerDescription], resource: &Py<PyAny>) -> PyResult<Registry<()>> {
    let mut registry = Registry::default();
    let select = |given: &SelectorDescription| {
        let resource = Python::attach(|py| resource.clone_ref(py));
        selector_with(given, |function| predicate(function, resource))
    };
    for given in handlers {
        let function = FunctionId::Number(0);
        let mut declared = HandlerSpec::new(&*given.id, function, given.kind.handled()?);
        if let Some(target) = given.kind.target() {
            declared.filters.field = target.field_path();
            declared.selector = target.selector.as_ref().map(select).transpose()?;
        }
        declared.owns = given
            .kind
            .owns()
            .iter()
            .map(select)
            .collect::<PyResult<_>>()?;
        declared.webhook = given.kind.webhook()?;
        declared.conversion = given.kind.conversion();
        registry.add(declared.build(()).map_err(wrong)?);
    }
    Ok(registry)
}

/// Converts a callable selector. If it raises an exception, it selects nothing.
fn predicate(function: Py<PyAny>, resource: Py<PyAny>) -> Predicate {
    Arc::new(move |found: &Resource| {
        let selected = Python::attach(|py| {
            let found = resource.call1(py, (front::describe(py, found)?,))?;
            function.bind(py).call1((found,))?.is_truthy()
        });
        selected.unwrap_or(false)
    })
}

fn requirements(plan: &Plan, registry: &Registry<()>) -> PyResult<Requirements> {
    plan.requirements(registry, &Settings::default())
        .map_err(wrong)
}

fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Returns the CRDs of peering objects and the default objects in YAML.
#[pyfunction]
pub(crate) fn peering(legacy: bool) -> &'static str {
    kopf_shipping::peering(if legacy {
        PeeringGroup::Legacy
    } else {
        PeeringGroup::Current
    })
}
