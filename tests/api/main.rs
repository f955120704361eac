//! Behaviour of the Kubernetes API, with the same assertions for the sandbox and a real server.
//!
//! One file per topic, one function per behaviour. A case writes only into its own namespace and
//! its own API group, because all cases share one real control plane and run concurrently.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests are tests"
)]
#![allow(
    clippy::needless_pass_by_value,
    clippy::similar_names,
    reason = "helper functions take `json!(…)` by value, and every patch has a path"
)]

mod accepted_objects;
mod access;
mod admission_plugins;
mod admission_reviews;
mod admission_rules;
mod apply;
mod apply_custom;
mod bad_bodies;
mod bad_requests;
mod bindings;
mod body_syntax;
mod bootstrap;
mod builtin_rules;
mod builtin_statuses;
mod builtin_validation;
mod certificates;
mod conflicts;
mod conversion;
mod crd_changes;
mod crds;
mod custom_subresources;
mod custom_versions;
mod deletion;
mod discovery;
mod dry_run;
mod expressions;
mod field_validation;
mod garbage;
mod generations;
mod identity;
mod idle_watches;
mod immutable_fields;
mod json_patch;
mod layout;
mod list_order;
mod managers;
mod match_conditions;
mod merge_patch;
mod metadata;
mod metadata_only;
mod multi_version_kinds;
mod multi_version_requests;
mod mutated_parts;
mod mutating;
mod mutating_policies;
mod names;
mod namespaces;
mod no_op;
mod openapi;
mod ownership;
mod paging;
mod policies;
mod policy_rights;
mod protobuf_responses;
mod put_creates;
mod quotas;
mod recorded_cases;
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
mod validating;
mod verbs;
mod versions;
mod watches;
mod webhook_configurations;
mod webhook_failures;
mod webhook_services;
