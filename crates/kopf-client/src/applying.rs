//! Server-side apply.

use http::Method;
use kopf_core::key_order::Ordered;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::error::Error;
use crate::patching::Target;
use crate::request::{Call, parse_in_order};

/// The content type of manifests. JSON is YAML, and all supported servers accept it.
const APPLY: &str = "application/apply-patch+yaml";

/// The treatment of fields that belong to other managers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FieldOwnership {
    /// They are left to their managers: setting them to other values is a conflict.
    #[default]
    Respect,
    /// They are taken over.
    TakeOver,
}

impl Target<'_> {
    /// Applies a manifest on the server's side, and returns the object as stored, with the order of
    /// its keys. The object is created if it does not exist.
    ///
    /// # Errors
    /// 409 if other managers own fields of the manifest, unless their fields are taken over.
    pub async fn apply(
        &self,
        manager: &str,
        ownership: FieldOwnership,
        manifest: &Value,
    ) -> Result<Ordered, Error> {
        let path = self.resource.url(self.namespace, Some(self.name), None)?;
        let manager = utf8_percent_encode(manager, NON_ALPHANUMERIC);
        let force = match ownership {
            FieldOwnership::Respect => "",
            FieldOwnership::TakeOver => "&force=true",
        };
        let path = format!("{path}?fieldManager={manager}{force}");
        let call = Call::with_content(Method::PATCH, path, APPLY, manifest);
        parse_in_order(&self.client.ask(call).await?)
    }
}

#[cfg(test)]
mod tests {
    use kopf_core::resource::Resource;
    use serde_json::json;

    use super::*;
    use crate::script::{Script, ok, refusal};

    #[tokio::test]
    async fn manifests_are_applied_with_their_manager() {
        let object = json!({"kind": "K"});
        let (client, script) = Script::new([ok(&object), ok(&object), refusal(409), refusal(404)]);
        let resource = Resource {
            group: "kopf.dev".to_owned(),
            version: "v1".to_owned(),
            plural: "kopfexamples".to_owned(),
            ..Resource::default()
        };
        let target = Target {
            client: &client,
            resource: &resource,
            namespace: None,
            name: "a",
            uid: None,
        };
        for ownership in [FieldOwnership::Respect, FieldOwnership::TakeOver] {
            let applied = target.apply("a b", ownership, &object).await;
            assert_eq!(applied.unwrap(), (object.clone(), None));
        }
        let conflict = target.apply("m", FieldOwnership::Respect, &object).await;
        assert!(conflict.unwrap_err().is_conflict());
        assert_eq!(target.get().await.unwrap(), None);
        let requests = script.requests();
        let path = "/apis/kopf.dev/v1/kopfexamples/a?fieldManager=a%20b";
        assert_eq!(requests[0].path, path);
        assert_eq!(requests[0].headers["content-type"], APPLY);
        assert_eq!(requests[0].body, object.to_string());
        assert_eq!(requests[1].path, format!("{path}&force=true"));
    }
}
