//! What clients can see of a Kubernetes API, asserted alike on the sandbox and on the real one.
//!
//! One file per topic, one function per behaviour. A case writes only into its own namespace and
//! its own API group, because on the real control plane all of them run at once on one server.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests are tests, too"
)]
#![allow(
    clippy::needless_pass_by_value,
    clippy::similar_names,
    reason = "helper functions take `json!(…)` as it is, and every patch has a path"
)]

mod access;
mod admission_plugins;
mod admission_reviews;
mod admission_rules;
mod apply;
mod apply_custom;
mod bad_bodies;
mod bad_requests;
mod bindings;
mod bootstrap;
mod both_forms;
mod builtin_rules;
mod builtin_statuses;
mod certificates;
mod conflicts;
mod conversion;
mod custom_subresources;
mod custom_versions;
mod deeper_rules;
mod definition_changes;
mod definitions;
mod deletion;
mod discovery;
mod dry_run;
mod field_validation;
mod garbage;
mod generations;
mod identity;
mod immutable_fields;
mod json_patch;
mod list_order;
mod managers;
mod merge_patch;
mod metadata;
mod metadata_only;
mod mutated_parts;
mod mutating;
mod names;
mod namespaces;
mod no_op;
mod openapi;
mod ownership;
mod paging;
mod policies;
mod protobuf_responses;
mod put_creates;
mod quiet_watches;
mod reviews;
mod rights;
mod rules;
mod schemas;
mod selectors;
mod service_addresses;
mod shards;
mod sizes;
mod statuses;
mod stored_versions;
mod strategic;
mod streaming;
mod subresources;
mod tables;
mod tokens;
mod two_forms;
mod validating;
mod verbs;
mod versions;
mod watches;
mod webhook_configurations;
mod webhook_failures;
mod written_forms;
