//! The data of the cluster: resources, bodies, essences, patches, owned objects.

pub mod body;
#[doc(hidden)]
pub mod children;
pub mod conditions;
#[doc(hidden)]
pub mod definition;
#[doc(hidden)]
pub mod essence;
#[doc(hidden)]
pub mod finalizer;
pub mod hierarchy;
#[doc(hidden)]
pub mod keys;
#[doc(hidden)]
pub mod managers;
pub mod namespace;
#[doc(hidden)]
pub mod patch;
pub mod reference;
pub mod resource;
#[doc(hidden)]
pub mod results;
pub mod secrets;
#[doc(hidden)]
pub mod selector;
#[doc(hidden)]
pub mod sizes;
