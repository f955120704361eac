//! Constant defaults of built-in types: field and value.
//!
//! Defaults that depend on other fields are in `rules`. Values that the server assigns on creation
//! (addresses, node ports, selectors of jobs) are not defaults.

use super::rules::{RULES, Rule};
use serde_json::{Map, Value};

/// A value in a table of defaults.
#[derive(Debug, Clone, Copy)]
pub(super) enum Constant {
    Text(&'static str),
    Number(i64),
    Flag(bool),
    /// An empty object.
    Empty,
}

/// The defaults of one struct.
#[derive(Debug, Clone, Copy)]
pub(super) struct Defaults {
    fixed: &'static [(&'static str, Constant)],
    rule: Option<Rule>,
}

impl Defaults {
    /// Returns the defaults of a type, e.g. of `Container` in `core/v1`.
    pub(super) fn of(package: &str, name: &str) -> Self {
        let fixed = FIXED
            .iter()
            .find(|of| of.0 == package && of.1.contains(&name));
        let rule = RULES.iter().find(|of| of.0 == package && of.1 == name);
        Self {
            fixed: fixed.map_or(&[], |of| of.2),
            rule: rule.map(|of| of.2),
        }
    }

    /// Sets absent fields. Decoding has removed the zero values that count as absent.
    pub(super) fn apply(&self, map: &mut Map<String, Value>) {
        for (field, value) in self.fixed {
            set(map, field, *value);
        }
        if let Some(rule) = self.rule {
            rule(map);
        }
    }
}

impl From<Constant> for Value {
    fn from(constant: Constant) -> Self {
        match constant {
            Constant::Text(text) => text.into(),
            Constant::Number(number) => number.into(),
            Constant::Flag(flag) => flag.into(),
            Constant::Empty => Self::Object(Map::new()),
        }
    }
}

/// Sets a field that is absent, or serialised as an unset zero value.
pub(super) fn set(map: &mut Map<String, Value>, field: &str, value: impl Into<Value>) {
    if map.get(field).is_none_or(Value::is_null) {
        map.insert(field.to_owned(), value.into());
    }
}

use Constant::{Empty, Flag, Number, Text};

/// Package, names of types, and their fields.
type Row = (
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, Constant)],
);

/// Declares rows: packages, names of types, and their fields.
macro_rules! rows {
    ($($package:literal { $($($kind:ident)|+ => $($field:ident: $value:expr),+;)+ })+) => {
        &[$($(
            ($package, &[$(stringify!($kind)),+], &[$((stringify!($field), $value)),+]),
        )+)+]
    };
}

const FIXED: &[Row] = rows! {
    "admissionregistration/v1" {
        MatchResources => matchPolicy: Text("Equivalent"), namespaceSelector: Empty,
            objectSelector: Empty;
        MutatingAdmissionPolicySpec | ValidatingAdmissionPolicySpec => failurePolicy: Text("Fail");
        MutatingWebhook => failurePolicy: Text("Fail"), matchPolicy: Text("Equivalent"),
            namespaceSelector: Empty, objectSelector: Empty, reinvocationPolicy: Text("Never"),
            timeoutSeconds: Number(10);
        RuleWithOperations | NamedRuleWithOperations => scope: Text("*");
        ServiceReference => port: Number(443);
        ValidatingWebhook => failurePolicy: Text("Fail"), matchPolicy: Text("Equivalent"),
            namespaceSelector: Empty, objectSelector: Empty, timeoutSeconds: Number(10);
    }
    "apiextensions/v1" {
        ServiceReference => port: Number(443);
    }
    "apiregistration/v1" {
        ServiceReference => port: Number(443);
    }
    "apps/v1" {
        DaemonSetSpec => revisionHistoryLimit: Number(10);
        DeploymentSpec => progressDeadlineSeconds: Number(600), replicas: Number(1),
            revisionHistoryLimit: Number(10);
        ReplicaSetSpec => replicas: Number(1);
        StatefulSetPersistentVolumeClaimRetentionPolicy => whenDeleted: Text("Retain"),
            whenScaled: Text("Retain");
        StatefulSetSpec => persistentVolumeClaimRetentionPolicy: Empty,
            podManagementPolicy: Text("OrderedReady"), replicas: Number(1),
            revisionHistoryLimit: Number(10);
    }
    "autoscaling/v1" {
        HorizontalPodAutoscalerSpec => minReplicas: Number(1);
    }
    "autoscaling/v2" {
        HorizontalPodAutoscalerSpec => minReplicas: Number(1);
    }
    "batch/v1" {
        CronJobSpec => concurrencyPolicy: Text("Allow"), failedJobsHistoryLimit: Number(1),
            successfulJobsHistoryLimit: Number(3), suspend: Flag(false);
        PodFailurePolicyOnPodConditionsPattern => status: Text("True");
    }
    "core/v1" {
        AzureDiskVolumeSource => cachingMode: Text("ReadWrite"), fsType: Text("ext4"),
            kind: Text("Shared"), readOnly: Flag(false);
        ConfigMapVolumeSource | DownwardAPIVolumeSource | ProjectedVolumeSource | SecretVolumeSource =>
            defaultMode: Number(0o644);
        Container | EphemeralContainer => terminationMessagePath: Text("/dev/termination-log"),
            terminationMessagePolicy: Text("File");
        ContainerPort | EndpointPort | ServicePort => protocol: Text("TCP");
        FileKeySelector => optional: Flag(false);
        GRPCAction => service: Text("");
        HTTPGetAction => path: Text("/"), scheme: Text("HTTP");
        HostPathVolumeSource => type: Text("");
        ISCSIPersistentVolumeSource | ISCSIVolumeSource => iscsiInterface: Text("default");
        NamespaceStatus => phase: Text("Active");
        ObjectFieldSelector => apiVersion: Text("v1");
        PersistentVolumeClaimSpec => volumeMode: Text("Filesystem");
        PersistentVolumeClaimStatus | PersistentVolumeStatus => phase: Text("Pending");
        PersistentVolumeSpec => persistentVolumeReclaimPolicy: Text("Retain"),
            volumeMode: Text("Filesystem");
        PodSpec => dnsPolicy: Text("ClusterFirst"), restartPolicy: Text("Always"),
            schedulerName: Text("default-scheduler"), securityContext: Empty,
            terminationGracePeriodSeconds: Number(30);
        Probe => failureThreshold: Number(3), periodSeconds: Number(10),
            successThreshold: Number(1), timeoutSeconds: Number(1);
        RBDPersistentVolumeSource | RBDVolumeSource => keyring: Text("/etc/ceph/keyring"),
            pool: Text("rbd"), user: Text("admin");
        ReplicationControllerSpec => replicas: Number(1);
        ScaleIOPersistentVolumeSource | ScaleIOVolumeSource => fsType: Text("xfs"),
            storageMode: Text("ThinProvisioned");
        Secret => type: Text("Opaque");
        ServiceAccountTokenProjection => expirationSeconds: Number(3600);
    }
    "discovery/v1" {
        EndpointPort => name: Text(""), protocol: Text("TCP");
    }
    "flowcontrol/v1" {
        ExemptPriorityLevelConfiguration => lendablePercent: Number(0),
            nominalConcurrencyShares: Number(0);
        FlowSchemaSpec => matchingPrecedence: Number(1000);
        LimitedPriorityLevelConfiguration => lendablePercent: Number(0),
            nominalConcurrencyShares: Number(30);
        QueuingConfiguration => handSize: Number(8), queueLengthLimit: Number(50),
            queues: Number(64);
    }
    "networking/v1" {
        IngressClassParametersReference => scope: Text("Cluster");
        NetworkPolicyPort => protocol: Text("TCP");
    }
    "scheduling/v1" {
        PriorityClass => preemptionPolicy: Text("PreemptLowerPriority");
    }
    "storage/v1" {
        CSIDriverSpec => attachRequired: Flag(true), fsGroupPolicy: Text("ReadWriteOnceWithFSType"),
            podInfoOnMount: Flag(false), requiresRepublish: Flag(false), seLinuxMount: Flag(false),
            storageCapacity: Flag(false);
        StorageClass => reclaimPolicy: Text("Delete"), volumeBindingMode: Text("Immediate");
    }
};
