//! Rights on certificate signing requests, as the admission plugins CertificateApproval,
//! CertificateSigning and CertificateSubjectRestriction of a real server check them.
//!
//! Without them, the right to approve requests would be the right to become any user.

use kopf_sandbox_schema::object::meta;
use kopf_sandbox_schema::rights::{Access, Action, MASTERS};
use serde_json::Value;

use super::{Cluster, signing};
use crate::call::Call;
use crate::status::{ApiError, Result};

const GROUP: &str = "certificates.k8s.io";

/// The signer of certificates for clients of the API server.
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

impl Cluster {
    /// Rejects a write to a certificate request that its user has no right to. `old` is `None` for new
    /// objects. Without RBAC, everything is accepted.
    pub(crate) fn check_certificate_rights(
        &self,
        call: &Call,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<()> {
        let is_request =
            &*call.kind.group == GROUP && &*call.kind.plural == "certificatesigningrequests";
        if !self.rbac || !is_request {
            return Ok(());
        }
        // The signer cannot be changed.
        let signer = text(old.unwrap_or(object), "/spec/signerName");
        let lacks = |verb: &str| {
            let done = self.has_right_on_signer(call, verb, signer);
            (!done).then(|| {
                format!("user not permitted to {verb} requests with signerName {signer:?}")
            })
        };
        let why = match (call.subresource.as_deref(), old) {
            (None, None) if signer == CLIENTS => signing::has_organization(object, MASTERS)
                .then(|| format!("use of {CLIENTS} signer with {MASTERS} group is not allowed")),
            (Some("approval"), Some(_)) => lacks("approve"),
            (Some("status"), Some(old)) if is_decided_differently(object, old) => lacks("sign"),
            _ => None,
        };
        match why {
            Some(why) => Err(ApiError::forbidden(&call.kind, meta::name(object), &why)),
            None => Ok(()),
        }
    }

    /// Returns `true` if the user has the right on this signer, or on all signers of its domain.
    fn has_right_on_signer(&self, call: &Call, verb: &str, signer: &str) -> bool {
        let domain = signer.split('/').next().unwrap_or_default();
        [signer, &format!("{domain}/*")].into_iter().any(|name| {
            let access = Access {
                verb,
                group: GROUP,
                resource: "signers",
                name,
                ..Access::default()
            };
            self.allows(&call.user, Action::Resource(access)).is_some()
        })
    }
}

/// Returns `true` if the certificate or the conditions differ.
fn is_decided_differently(object: &Value, old: &Value) -> bool {
    ["/status/certificate", "/status/conditions"]
        .into_iter()
        .any(|field| object.pointer(field) != old.pointer(field))
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}
