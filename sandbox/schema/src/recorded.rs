//! Data recorded from a real server; the README of the `data` folder describes the files.
//!
//! The texts are parsed where they are used, on first use.

/// The built-in kinds, as in aggregated discovery.
pub static DISCOVERY: &str = include_str!("../data/discovery.json");
/// The parts of legacy discovery that do not follow from the aggregated one.
pub static LEGACY_DISCOVERY: &str = include_str!("../data/discovery-legacy.json");
/// The default roles and bindings.
pub(crate) static ROLES: &str = include_str!("../data/rbac.json");
/// The columns of the tables of built-in kinds.
pub static TABLES: &str = include_str!("../data/tables.json");
/// The descriptions of schemas and operations.
pub static DESCRIPTIONS: &str = include_str!("../data/texts.json");
/// The Go types of built-in kinds.
pub(crate) static TYPES: &str = include_str!("../data/types.json");
/// The version of the server.
pub static VERSION: &str = include_str!("../data/version.json");
/// Objects before and after defaulting, for tests.
#[cfg(test)]
pub(crate) static DEFAULTS: &str = include_str!("../data/defaults.json");

/// The name of a file is the path of the document with `__` for `/`.
macro_rules! document {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../data/openapi/v3/", $name, ".json")),
        )
    };
}

/// About 1 MB of the binary. Read when a client requests a document or writes an object.
pub static DOCUMENTS: &[(&str, &str)] = &[
    document!("api__v1"),
    document!("apis__admissionregistration.k8s.io__v1"),
    document!("apis__apiextensions.k8s.io__v1"),
    document!("apis__apiregistration.k8s.io__v1"),
    document!("apis__apps__v1"),
    document!("apis__authentication.k8s.io__v1"),
    document!("apis__authorization.k8s.io__v1"),
    document!("apis__autoscaling__v1"),
    document!("apis__autoscaling__v2"),
    document!("apis__batch__v1"),
    document!("apis__certificates.k8s.io__v1"),
    document!("apis__coordination.k8s.io__v1"),
    document!("apis__discovery.k8s.io__v1"),
    document!("apis__events.k8s.io__v1"),
    document!("apis__flowcontrol.apiserver.k8s.io__v1"),
    document!("apis__networking.k8s.io__v1"),
    document!("apis__node.k8s.io__v1"),
    document!("apis__policy__v1"),
    document!("apis__rbac.authorization.k8s.io__v1"),
    document!("apis__resource.k8s.io__v1"),
    document!("apis__scheduling.k8s.io__v1"),
    document!("apis__storage.k8s.io__v1"),
];

/// Returns a recorded document without descriptions.
pub fn document(path: &str) -> Option<&'static str> {
    let name = path.replace('/', "__");
    DOCUMENTS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}
