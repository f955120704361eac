//! Scripted failures: by an annotation of an object, or by rules of the test.

use std::str::FromStr;
use std::sync::Arc;

use kopf_sandbox_schema::object::meta;
use kopf_sandbox_store::sync::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

/// The annotation with the behaviour of an object. It also applies to objects that it controls.
pub(super) const ANNOTATION: &str = "sandbox.kopf.dev/simulate";

/// A scripted failure, instead of becoming ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Behaviour {
    /// Containers exit with code 1 and are restarted with a growing delay; a pod that is never
    /// restarted fails. `crash-loop` as an annotation.
    CrashLoop,
    /// As [`CrashLoop`](Self::CrashLoop), with the reason `OOMKilled` and code 137. `oom-kill`.
    OomKill,
    /// Images cannot be pulled; the pod stays pending. `image-pull-error`.
    ImagePullError,
    /// Containers run, and are never ready. `never-ready`.
    NeverReady,
    /// The pod is not bound to a node, the claim is not bound to a volume, and the service gets no
    /// load balancer address. `pending`.
    Pending,
}

impl Behaviour {
    const NAMES: [(&'static str, Self); 5] = [
        ("crash-loop", Self::CrashLoop),
        ("oom-kill", Self::OomKill),
        ("image-pull-error", Self::ImagePullError),
        ("never-ready", Self::NeverReady),
        ("pending", Self::Pending),
    ];

    /// Returns `true` if containers start and exit.
    pub(super) fn exits(self) -> bool {
        matches!(self, Self::CrashLoop | Self::OomKill)
    }

    /// Returns the behaviour in the annotation of an object. Unknown ones are logged and ignored.
    pub(super) fn annotated(object: &Value) -> Option<Self> {
        let name = object
            .pointer("/metadata/annotations")?
            .get(ANNOTATION)?
            .as_str()?;
        let behaviour = name.parse().ok();
        if behaviour.is_none() {
            tracing::warn!(
                namespace = meta::namespace(object).unwrap_or_default(),
                object = meta::name(object),
                value = name,
                "unknown value of the annotation {ANNOTATION}"
            );
        }
        behaviour
    }
}

/// The name of a behaviour is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown behaviour {0:?}: must be one of crash-loop, oom-kill, image-pull-error, never-ready, pending"
)]
pub struct UnknownBehaviour(String);

impl FromStr for Behaviour {
    type Err = UnknownBehaviour;

    fn from_str(name: &str) -> Result<Self, UnknownBehaviour> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, behaviour)| *behaviour)
            .ok_or_else(|| UnknownBehaviour(name.to_owned()))
    }
}

/// A rule with the behaviour of the pods, claims and services that it matches.
#[derive(Debug, Clone)]
#[must_use]
pub struct Script {
    behaviour: Behaviour,
    namespace: Option<String>,
    name_prefix: String,
}

impl Script {
    /// Returns a script for all objects.
    pub fn new(behaviour: Behaviour) -> Self {
        Self {
            behaviour,
            namespace: None,
            name_prefix: String::new(),
        }
    }

    /// Limits the script to a namespace.
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.namespace = Some(name.into());
        self
    }

    /// Limits the script to objects whose names start with a prefix. Names of pods start with the
    /// names of their Deployments, StatefulSets, DaemonSets or Jobs.
    pub fn name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.name_prefix = prefix.into();
        self
    }

    fn matches(&self, object: &Value) -> bool {
        let namespace = self.namespace.as_deref();
        namespace.is_none_or(|name| meta::namespace(object) == Some(name))
            && meta::name(object).starts_with(&self.name_prefix)
    }
}

/// The scripts of a sandbox. The last one that matches an object applies, unless the object has an
/// annotation.
#[derive(Debug, Clone, Default)]
pub struct Scripts {
    list: Arc<Mutex<Vec<Script>>>,
    changed: Arc<Notify>,
}

impl Scripts {
    /// Adds a script. It also applies to existing objects.
    pub fn add(&self, script: Script) {
        let mut list = self.list.lock();
        list.push(script);
        self.changed.notify_one();
    }

    /// Removes all scripts: objects recover.
    pub fn clear(&self) {
        let mut list = self.list.lock();
        list.clear();
        self.changed.notify_one();
    }

    /// Waits for the next change. Cancel-safe.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn of(&self, object: &Value) -> Option<Behaviour> {
        let list = self.list.lock();
        let mut matching = list.iter().rev().filter(|script| script.matches(object));
        matching.next().map(|script| script.behaviour)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_annotation_values_are_ignored() {
        let pod = |value: &str| json!({ "metadata": { "annotations": { (ANNOTATION): value } } });
        assert_eq!(
            Behaviour::annotated(&pod("crash-loop")),
            Some(Behaviour::CrashLoop)
        );
        assert_eq!(Behaviour::annotated(&pod("explode")), None);
        assert_eq!(Behaviour::annotated(&json!({})), None);
    }

    #[test]
    fn last_matching_script_wins() {
        let scripts = Scripts::default();
        scripts.add(Script::new(Behaviour::NeverReady));
        scripts.add(
            Script::new(Behaviour::Pending)
                .namespace("shop")
                .name_prefix("web"),
        );
        let pod = |namespace: &str, name: &str| json!({ "metadata": { "namespace": namespace, "name": name } });
        assert_eq!(scripts.of(&pod("shop", "web-1")), Some(Behaviour::Pending));
        assert_eq!(
            scripts.of(&pod("shop", "db-1")),
            Some(Behaviour::NeverReady)
        );
        assert_eq!(
            scripts.of(&pod("other", "web-1")),
            Some(Behaviour::NeverReady)
        );
        scripts.clear();
        assert_eq!(scripts.of(&pod("shop", "web-1")), None);
    }
}
