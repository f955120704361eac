//! The data of the cluster: resources, bodies, essences, patches, owned objects.

pub mod body;
pub mod children;
pub mod conditions;
pub mod definition;
pub mod essence;
pub mod finalizer;
pub mod hierarchy;
pub mod keys;
pub mod managers;
pub mod namespace;
pub mod patch;
pub mod reference;
pub mod resource;
pub mod results;
pub mod secrets;
pub mod selector;
pub mod sizes;
