//! Custom resources as types: the attribute, plain derives, validation rules, disabled schemas.

use kopf::kube::{CustomResourceExt as _, Resource as _};
use kopf::prelude::*;
use kopf::schemars;
use kopf::serde_json;

/// A type with options in both attributes and its own derives.
#[kopf::resource(group = "example.com", version = "v1", kind = "Greeting", namespaced)]
#[kube(status = "GreetingStatus", shortname = "gr", derive = "PartialEq")]
#[derive(PartialEq, Clone)]
#[serde(rename_all = "camelCase")]
struct GreetingSpec {
    full_name: Option<String>,
}

#[kopf::schema]
#[derive(Default, PartialEq)]
struct GreetingStatus {
    message: Option<String>,
    tone: Option<Tone>,
}

#[kopf::schema]
#[derive(PartialEq)]
enum Tone {
    Polite,
    Rude,
}

#[kopf::resource(
    group = "example.com",
    version = "v1",
    kind = "Limit",
    validation = "self.metadata.name == 'singleton'"
)]
struct LimitSpec {
    #[x_kube(validation = "self > 0")]
    greetings: u32,
}

#[kopf::resource(
    group = "example.com",
    version = "v1",
    kind = "Anything",
    schema = "disabled"
)]
struct AnythingSpec {
    value: Value,
}

#[kopf::on::create(Greeting)]
async fn greet(greeting: kopf::Object<Greeting>, patch: kopf::Patch) {
    let name = greeting.spec.full_name.as_deref().unwrap_or("world");
    patch.status().merge(GreetingStatus {
        message: Some(format!("Hello, {name}!")),
        tone: Some(Tone::Polite),
    });
}

pub(crate) fn main() {
    let crd = serde_json::to_value(Greeting::crd()).unwrap_or_default();
    let version = &crd["spec"]["versions"][0];
    let properties = &version["schema"]["openAPIV3Schema"]["properties"];
    assert_eq!(
        properties["spec"]["properties"]["fullName"]["type"],
        "string"
    );
    assert_eq!(properties["status"]["properties"]["tone"]["type"], "string");
    assert_eq!(crd["spec"]["scope"], "Namespaced");
    assert_eq!(Greeting::shortnames(), ["gr"]);

    let crd = serde_json::to_value(Limit::crd()).unwrap_or_default();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let rule = |schema: &Value| schema["x-kubernetes-validations"][0]["rule"].clone();
    assert_eq!(rule(schema), "self.metadata.name == 'singleton'");
    let field = &schema["properties"]["spec"]["properties"]["greetings"];
    assert_eq!(rule(field), "self > 0");

    assert_eq!(Anything::kind(&()), "Anything");
    let _ = Tone::Rude;
}
