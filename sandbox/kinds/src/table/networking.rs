//! Rows of the groups `networking.k8s.io` and `discovery.k8s.io`.

use serde_json::{Value, json};

use super::core::load_balancer;
use super::object::{Object, first_three};

pub(super) fn cells(kind: &str, object: Object<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "Ingress" => {
            let ports = if object.list("/spec/tls").is_empty() {
                "80"
            } else {
                "80, 443"
            };
            vec![
                object.name(),
                json!(
                    object
                        .get("/spec/ingressClassName")
                        .unwrap_or(&json!("<none>"))
                ),
                hosts(object),
                json!(load_balancer(object).join(",")),
                json!(ports),
                object.age(),
            ]
        }
        "IngressClass" => ingress_class(object),
        "NetworkPolicy" => vec![
            object.name(),
            object.selector("/spec/podSelector"),
            object.age(),
        ],
        "ServiceCIDR" => {
            vec![
                object.name(),
                json!(object.texts("/spec/cidrs").join(",")),
                object.age(),
            ]
        }
        "IPAddress" => vec![object.name(), parent(object), object.age()],
        "EndpointSlice" => endpoint_slice(object),
        _ => return None,
    })
}

fn hosts(object: Object<'_>) -> Value {
    let rules = object.list("/spec/rules").len();
    let mut shown = Vec::new();
    let mut more = false;
    for rule in object.items("/spec/rules") {
        more = more || shown.len() == 3;
        let host = rule.text("/host");
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    json!(match (shown.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, false) => shown.join(","),
        (false, true) => format!("{} + {} more...", shown.join(","), rules - 3),
    })
}

fn ingress_class(object: Object<'_>) -> Vec<Value> {
    let default = object.annotation("ingressclass.kubernetes.io/is-default-class") == Some("true");
    let suffix = if default { " (default)" } else { "" };
    let parameters = match object.get("/spec/parameters").map(|it| object.of(it)) {
        None => "<none>".to_owned(),
        Some(it) => {
            let group = it.get("/apiGroup").and_then(Value::as_str);
            let group = group.map(|group| format!(".{group}")).unwrap_or_default();
            format!("{}{group}/{}", it.text("/kind"), it.text("/name"))
        }
    };
    vec![
        json!(format!("{}{suffix}", object.text("/metadata/name"))),
        json!(object.text("/spec/controller")),
        json!(parameters),
        object.age(),
    ]
}

fn parent(object: Object<'_>) -> Value {
    let Some(parent) = object.get("/spec/parentRef").map(|it| object.of(it)) else {
        return json!("<none>");
    };
    let mut text = parent.text("/resource").to_lowercase();
    let group = parent.text("/group").to_lowercase();
    if !group.is_empty() {
        text = format!("{text}.{group}");
    }
    let namespace = parent.text("/namespace");
    if !namespace.is_empty() {
        text = format!("{text}/{namespace}");
    }
    json!(format!("{text}/{}", parent.text("/name")))
}

fn endpoint_slice(object: Object<'_>) -> Vec<Value> {
    let ports: Vec<String> = object
        .items("/ports")
        .map(|port| {
            let name = port.get("/name").and_then(Value::as_str);
            port.printed("/port")
                .unwrap_or_else(|| name.unwrap_or("*").to_owned())
        })
        .collect();
    let addresses: Vec<String> = object
        .items("/endpoints")
        .flat_map(|endpoint| endpoint.texts("/addresses"))
        .map(str::to_owned)
        .collect();
    let shown = |texts: &[String]| match first_three(texts) {
        text if text.is_empty() => json!("<unset>"),
        text => json!(text),
    };
    vec![
        object.name(),
        json!(object.text("/addressType")),
        shown(&ports),
        shown(&addresses),
        object.age(),
    ]
}
