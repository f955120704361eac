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
mod admission_reviews;
mod admission_rules;
mod bootstrap;
mod certificates;
mod conflicts;
mod conversion;
mod expressions;
mod garbage_webhooks;
mod idle_watches;
mod immutable_fields;
mod layout;
mod list_order;
mod match_conditions;
mod mutated_parts;
mod mutating;
mod namespaces;
mod openapi;
mod policy_rights;
mod protobuf_responses;
mod quotas;
mod recorded_cases;
mod rules;
mod service_addresses;
mod shards;
mod sizes;
mod streaming;
mod tokens;
mod transcript_cases;
mod validating;
mod webhook_configurations;
mod webhook_failures;
mod webhook_services;
