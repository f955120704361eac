//! All options in all their forms.

use std::time::Duration;

use kopf::k8s_openapi::api::core::v1::Pod;
use kopf::prelude::*;
use kopf::{Body, DryRun, Labels, Namespace, Operation, PRESENT, UserInfo};
use kopf::{ErrorsMode, Resource};

const ID: &str = "some-id";
const LIMIT: Duration = Duration::from_secs(5);

fn is_mine(resource: &Resource) -> bool {
    resource.group == "kopf.dev"
}

fn is_short(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() < 5)
}

fn is_short_and_ready(value: &Value, Spec(spec): Spec) -> kopf::Result<bool> {
    Ok(is_short(value) && spec["ready"] == true)
}

fn is_ready(Spec(spec): Spec, labels: Labels, namespace: Option<Namespace>) -> bool {
    spec["ready"] == true || labels.is_empty() || namespace.is_none()
}

fn criteria() -> Vec<(String, String)> {
    vec![("app".to_owned(), "web".to_owned())]
}

#[kopf::on::create("things")]
#[kopf::on::create("things.kopf.dev")]
#[kopf::on::create("things.v1.kopf.dev")]
#[kopf::on::create("kopf.dev", "things")]
#[kopf::on::create("kopf.dev/v1", "things")]
#[kopf::on::create("kopf.dev", "v1", "things")]
#[kopf::on::create(EVERYTHING)]
#[kopf::on::create(kopf::EVERYTHING)]
#[kopf::on::create(Pod)]
#[kopf::on::create(kopf::k8s_openapi::api::apps::v1::Deployment)]
#[kopf::on::create(is_mine)]
#[kopf::on::create(is_mine, version = "v1")]
#[kopf::on::create(|resource: &Resource| resource.namespaced)]
#[kopf::on::create(kind = "Thing")]
#[kopf::on::create(plural = "things", group = "kopf.dev", version = "v1")]
#[kopf::on::create(singular = "thing")]
#[kopf::on::create(shortcut = "th")]
#[kopf::on::create(category = "all")]
fn selectors() {}

#[kopf::on::create("things", id = "a", param = 5)]
#[kopf::on::create("things", id = ID, param = "text")]
#[kopf::on::create("things", errors = kopf::ErrorsMode::Ignored, timeout = 60, retries = 3, backoff = 0.5)]
#[kopf::on::create("things", errors = ErrorsMode::Permanent, timeout = LIMIT, retries = 1 + 2)]
#[kopf::on::create("things", errors = kopf::ErrorsMode::Temporary, backoff = Duration::from_millis(5))]
#[kopf::on::create("things", labels = {"a": "b", "c": PRESENT, "d": ABSENT, "e": is_short})]
#[kopf::on::create("things", annotations = {"a": is_short_and_ready, "b": |value: &Value| value.is_null(),})]
#[kopf::on::create("things", labels = criteria(), annotations = [("x", PRESENT)])]
#[kopf::on::create("things", when = is_ready)]
#[kopf::on::create("things", when = |body: &Body| body.name().is_some())]
#[kopf::on::create("things", when = kopf::any_((is_ready, kopf::not_(is_ready))))]
#[kopf::on::create("things", field = "spec.x", value = "y")]
#[kopf::on::create("things", field = ["spec", "x"], value = 5)]
#[kopf::on::create("things", field = "spec.x", value = json!({"y": [1, 2]}))]
#[kopf::on::create("things", field = "spec.x", value = kopf::none_((is_short, is_short_and_ready)))]
#[kopf::on::update("things", field = "spec.x", old = true, new = PRESENT)]
#[kopf::on::field("things", field = "spec.x", old = ABSENT, new = is_short)]
#[kopf::on::delete("things", optional = true)]
#[kopf::on::resume("things", deleted = true)]
#[kopf::on::event("things", labels = {"a": PRESENT}, registry = "others")]
fn options() {}

fn delay(Spec(spec): Spec, namespace: Option<Namespace>) -> kopf::Result<u64> {
    let default = if namespace.is_some() { 1 } else { 2 };
    Ok(spec["delay"].as_u64().unwrap_or(default))
}

#[kopf::daemon("things")]
#[kopf::daemon("kopf.dev", "v1", "things", id = "b", param = 5)]
#[kopf::daemon(EVERYTHING, labels = {"a": PRESENT}, annotations = {"b": is_short}, when = is_ready)]
#[kopf::daemon(Pod, field = "spec.x", value = 5, errors = kopf::ErrorsMode::Permanent, timeout = 60, retries = 3)]
#[kopf::daemon(kind = "Thing", backoff = 0.5, initial_delay = 5, registry = "others")]
#[kopf::daemon("things", cancellation_backoff = 1, cancellation_timeout = 2.5)]
#[kopf::daemon("things", cancellation_polling = LIMIT, initial_delay = LIMIT)]
#[kopf::timer("things")]
#[kopf::timer("things", interval = 10, sharp = true, idle = 0.5)]
#[kopf::timer("things", interval = LIMIT, idle = LIMIT, initial_delay = delay)]
#[kopf::timer("things", idle = 5, initial_delay = |Spec(spec): Spec| spec["delay"].as_f64().unwrap_or(1.0))]
#[kopf::timer(is_mine, interval = 1, labels = criteria(), retries = 1 + 2)]
fn in_the_background() {}

const CHOSEN: [Operation; 1] = [Operation::Connect];

fn is_root(user: UserInfo, operation: Option<Operation>, DryRun(dry): DryRun) -> bool {
    user.username() == Some("root") && operation == Some(Operation::Delete) && !dry
}

#[kopf::on::validate("things")]
#[kopf::on::validate("kopf.dev", "v1", "things", id = "b", param = 5, registry = "others")]
#[kopf::on::validate(EVERYTHING, labels = {"a": PRESENT}, annotations = {"b": is_short}, when = is_ready)]
#[kopf::on::validate(Pod, operations = ["CREATE", "UPDATE", "DELETE", "CONNECT"], when = is_root)]
#[kopf::on::validate(kind = "Thing", operations = ["CREATE", "UPDATE"], operation = "DELETE")]
#[kopf::on::validate(
    "things",
    operation = "CREATE",
    subresource = "status",
    field = "spec.x",
    value = 5
)]
#[kopf::on::validate("things", operations = CHOSEN, operation = Operation::Create)]
#[kopf::on::mutate(
    "things",
    persistent = true,
    side_effects = false,
    ignore_failures = true
)]
#[kopf::on::mutate(is_mine, subresource = "*", labels = criteria())]
fn asked() {}

pub(crate) fn main() {
    // Handlers remain ordinary functions.
    selectors();
    options();
    in_the_background();
    asked();
}
