//! Certificate signing requests: the requester is recorded, and only approval changes them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kopf_tests::{Api, ApiResponse, eventually};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn pem() -> String {
    pem_of("example.com")
}

/// Returns a request for a certificate of a member of this group.
fn pem_of(group: &str) -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    let subject = &mut params.distinguished_name;
    subject.push(DnType::CommonName, "robot.example.com");
    subject.push(DnType::OrganizationName, group);
    params.serialize_request(&key).unwrap().pem().unwrap()
}

fn request(name: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(pem()),
            // A signer without a controller.
            "signerName": "example.com/tests",
            "usages": ["client auth"],
            "username": "another-user",
        },
        "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Own"}]},
    })
}

#[tokio::test]
async fn requests_record_their_user_and_are_not_approved() {
    let api = Api::start().await;
    let name = api.unique("csr");
    let created = api.created(REQUESTS, &request(&name)).await;
    api.delete_at_end(format!("{REQUESTS}/{name}"));
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let me = api.created(path, &review).await;
    assert_eq!(
        created.at("/spec/username"),
        me.at("/status/userInfo/username")
    );
    assert_eq!(created.at("/spec/groups"), me.at("/status/userInfo/groups"));
    assert_eq!(created.at("/status"), &json!({}));
}

#[tokio::test]
async fn only_approval_changes_a_request() {
    let api = Api::start().await;
    let name = api.unique("csr");
    let created = api.created(REQUESTS, &request(&name)).await;
    let path = format!("{REQUESTS}/{name}");
    api.delete_at_end(path.clone());
    let mut changed = created.json.clone();
    changed["spec"]["usages"] = json!(["server auth"]);
    changed["metadata"]["labels"] = json!({"a": "b"});
    let updated = api.replaced(&path, &changed).await;
    assert_eq!(updated.at("/spec/usages"), &json!(["client auth"]));
    assert_eq!(updated.at("/metadata/labels/a"), "b");

    let mut approved = updated.json.clone();
    approved["status"]["conditions"] = json!([
        {"type": "Approved", "status": "True", "reason": "Test", "message": "fine"},
    ]);
    let approved = api.replaced(&format!("{path}/approval"), &approved).await;
    let condition = approved.at("/status/conditions/0");
    assert_eq!(condition["type"], "Approved");
    assert!(condition["lastUpdateTime"].is_string());
    assert!(condition["lastTransitionTime"].is_string());
    assert_eq!(approved.at("/status/certificate"), &Value::Null);
    let table = api
        .request(http::Method::GET, &path)
        .header(
            "accept",
            "application/json;as=Table;g=meta.k8s.io;v=v1,application/json",
        )
        .send()
        .await
        .ok();
    let cells = table.at("/rows/0/cells");
    assert_eq!(cells[2], "example.com/tests");
    assert_eq!(cells[4], "<none>");
    assert_eq!(cells[5], "Approved");
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let api = Api::start().await;
    let mut no_request = request(&api.unique("csr"));
    no_request["spec"]["request"] = json!(STANDARD.encode("not a request"));
    let mut no_signer = request(&api.unique("csr"));
    no_signer["spec"]["signerName"] = json!("unqualified");
    let mut no_usages = request(&api.unique("csr"));
    no_usages["spec"]["usages"] = json!([]);
    for (object, field) in [
        (no_request, "spec.request"),
        (no_signer, "spec.signerName"),
        (no_usages, "spec.usages"),
    ] {
        let refused = api
            .create(REQUESTS, &object)
            .await
            .expect_failure(422, "Invalid");
        let fields: Vec<&str> = refused.causes().iter().map(|cause| cause.1).collect();
        assert!(
            fields.contains(&field) || refused.message().contains(field),
            "{}",
            refused.message()
        );
    }
}

/// Grants a user these rules in the whole cluster.
async fn grant(api: &Api, user: &str, name: &str, rules: Value) {
    let rbac = "rbac.authorization.k8s.io";
    let name = api.unique(name);
    let role = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": name},
        "rules": rules,
    });
    let binding = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "name": user, "apiGroup": rbac}],
    });
    for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("/apis/{rbac}/v1/{plural}");
        api.created(&path, &object).await;
        api.delete_at_end(format!("{path}/{name}"));
    }
}

/// Starts with a user who can write requests, but has no rights on signers.
async fn with_approver() -> (Api, String) {
    let api = Api::start_with_rbac().await;
    let user = api.unique("approver");
    let resources =
        ["", "/approval", "/status"].map(|end| format!("certificatesigningrequests{end}"));
    let rules = json!([{
        "apiGroups": ["certificates.k8s.io"], "resources": resources, "verbs": ["*"],
    }]);
    grant(&api, &user, "csr-writer", rules).await;
    eventually("the role to be in force", async || {
        let request = api.request(http::Method::GET, REQUESTS);
        let listed = request.header("impersonate-user", &user).send().await;
        (listed.code == 200).then_some(())
    })
    .await;
    (api, user)
}

async fn put_as(api: &Api, user: &str, path: &str, object: &Value) -> ApiResponse {
    let request = api.request(http::Method::PUT, path);
    let request = request.header("impersonate-user", user);
    request.json(object).send().await
}

/// Creates a request and returns its path and the object with the changed status.
async fn decided(api: &Api, status: Value) -> (String, Value) {
    let name = api.unique("csr");
    let mut object = api.created(REQUESTS, &request(&name)).await.json.clone();
    let path = format!("{REQUESTS}/{name}");
    api.delete_at_end(path.clone());
    object["status"] = status;
    (path, object)
}

/// Checks that a write to a subresource is forbidden until the user has the right on the signers.
async fn needs_right_on_signers(subresource: &str, verb: &str, status: Value) {
    let (api, user) = with_approver().await;
    let (path, object) = decided(&api, status).await;
    let path = format!("{path}/{subresource}");
    let forbidden = put_as(&api, &user, &path, &object).await;
    let name = object["metadata"]["name"].as_str().unwrap();
    assert_eq!(
        forbidden.expect_failure(403, "Forbidden").message(),
        format!(
            "certificatesigningrequests.certificates.k8s.io \"{name}\" is forbidden: user not permitted to \
             {verb} requests with signerName \"example.com/tests\""
        )
    );
    let rules = json!([{
        "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": [verb],
        "resourceNames": ["example.com/*"],
    }]);
    grant(&api, &user, "csr-decider", rules).await;
    eventually("the right on the signers", async || {
        let written = put_as(&api, &user, &path, &object).await;
        (written.code == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn approvals_need_the_right_on_the_signer() {
    let approved = json!([{"type": "Approved", "status": "True", "reason": "T", "message": "m"}]);
    needs_right_on_signers("approval", "approve", json!({"conditions": approved})).await;
}

#[tokio::test]
async fn signatures_need_the_right_on_the_signer() {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["robot.example.com".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let certificate = STANDARD.encode(certificate);
    needs_right_on_signers("status", "sign", json!({"certificate": certificate})).await;
}

#[tokio::test]
async fn masters_get_no_certificates() {
    let (api, user) = with_approver().await;
    let create = async |group: &str, signer: &str| {
        let mut object = request(&api.unique("csr"));
        object["spec"]["request"] = json!(STANDARD.encode(pem_of(group)));
        object["spec"]["signerName"] = json!(signer);
        let request = api.request(http::Method::POST, &format!("{REQUESTS}?dryRun=All"));
        let request = request.header("impersonate-user", &user);
        request.json(&object).send().await
    };
    let clients = "kubernetes.io/kube-apiserver-client";
    create("developers", clients).await.expect_code(201);
    create("system:masters", "example.com/tests")
        .await
        .expect_code(201);
    let forbidden = create("system:masters", clients).await;
    let forbidden = forbidden.expect_failure(403, "Forbidden");
    let reason = "is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group \
                  is not allowed";
    assert!(
        forbidden.message().ends_with(reason),
        "{}",
        forbidden.message()
    );
}
