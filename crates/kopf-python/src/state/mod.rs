//! Settings, storages, credentials, namespaces.

pub(crate) mod login;
pub(crate) mod scope;
pub(crate) mod settings;
pub(crate) mod storages;
