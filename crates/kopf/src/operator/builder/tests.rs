//! Configurations of operators and their validation.

use std::pin::Pin;

use kopf_core::admission::{ServerError, Serving, Shutdown};

use super::*;
use crate::on;

fn handler() {}

#[test]
fn errors_name_invalid_handlers() {
    let error = Operator::builder()
        .handler(on::create("things", handler))
        .handler(on::create("", handler).id("second"))
        .build()
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("invalid handler \"second\": "),
        "{error}"
    );
}

#[test]
fn errors_name_ids_that_cannot_be_stored() {
    let build = |id| {
        let handler = on::create("things", handler).id(id);
        Operator::builder().handler(handler).build()
    };
    assert!(build("a/b.c").is_ok());
    let error = build("a b").unwrap_err().to_string();
    let expected = "invalid handler \"a b\": the id \"a b\" cannot be kept";
    assert!(error.starts_with(expected), "{error}");
    let event = on::event("things", handler).id("a b");
    assert!(Operator::builder().handler(event).build().is_ok());
}

#[derive(Debug)]
struct NoServer;

impl WebhookServer for NoServer {
    fn serve(
        self: Arc<Self>,
        _: Arc<dyn Serving>,
        _: Shutdown,
    ) -> Pin<Box<dyn Future<Output = Result<(), ServerError>> + Send>> {
        Box::pin(async { Ok(()) })
    }
}

#[test]
fn webhooks_are_validated() {
    let validate = || Operator::builder().handler(on::validate("things", handler));
    let built = validate()
        .webhooks(NoServer, "my-operator.example.com")
        .build();
    let settings = &built.unwrap().0.settings;
    assert!(settings.admission.server.is_some());
    let built = validate().webhooks(NoServer, "My Operator").build();
    let BuildError::Settings(error) = built.unwrap_err() else {
        panic!("another error");
    };
    let expected = "settings.admission.managed must look like name.example.com, in lower case";
    assert!(error.to_string().contains(expected), "{error}");
    let idle = Operator::builder().handler(on::create("things", handler));
    let built = idle.webhooks(NoServer, "my-operator.example.com").build();
    assert_eq!(
        built.unwrap_err().to_string(),
        "webhooks are configured, but there are no handlers of on::validate, on::mutate or \
         on::convert"
    );
}

#[test]
fn invalid_namespaces_are_rejected() {
    let error = Operator::builder()
        .namespaces(["good", ""])
        .build()
        .unwrap_err();
    assert_eq!(error.to_string(), "invalid namespace pattern \"\"");
}

#[test]
fn has_scope_reports_whether_a_scope_is_set() {
    let builder = Operator::builder();
    assert!(builder.is_empty() && !builder.has_scope());
    let builder = builder
        .namespaces(["a*"])
        .handler(on::create("things", handler));
    assert!(!builder.is_empty() && builder.has_scope());
}

#[test]
fn operators_can_be_converted_repeatedly() {
    let operator = Operator::builder()
        .handler(on::create("things", handler))
        .build()
        .unwrap();
    let first = format!("{:?}", operator.to_engine());
    assert_eq!(first, format!("{:?}", operator.clone().to_engine()));
    assert!(first.contains("handlers: 1"), "{first}");
}

#[test]
fn listers_need_a_stream_of_their_kind() {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    use crate::indexing::Lister;

    fn list(_: Lister<Pod>, _: Lister<ConfigMap>) {}

    let build = |owns: &'static [&'static str]| {
        let owner = on::reconcile("things", list).owns(owns.iter().copied());
        Operator::builder().handler(owner).build()
    };
    assert!(build(&["pods", "configmaps"]).is_ok());
    let error = build(&["pods"]).unwrap_err().to_string();
    let expected = "no handler watches configmaps: add them to the option `owns`";
    assert!(error.contains(expected), "{error}");
    assert!(
        error.starts_with("invalid handler \"list\": argument"),
        "{error}"
    );
    let watched = Operator::builder()
        .handler(on::event(crate::Select::of::<Pod>(), handler))
        .handler(on::event("configmap", handler).id("second"))
        .handler(on::create("things", list));
    let built = watched.build().unwrap();
    let kept: Vec<_> = built.0.front.indices.keys().cloned().collect();
    assert_eq!(kept.len(), 2, "{kept:?}");
    let others = Operator::builder().handler(on::event("pods", handler));
    assert!(others.build().unwrap().0.front.indices.is_empty());
}
