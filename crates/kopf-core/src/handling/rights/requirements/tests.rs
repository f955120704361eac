use super::*;
use crate::admission::WebhookType;
use crate::handler::{Cancellation, Conversion, FunctionId, HandlerKind, HandlerSpec};
use crate::rights::builtin_resources;
use crate::settings::CertificateSharing;

struct Case {
    registry: Registry<()>,
    settings: Settings,
    scope: Scope,
    resources: Vec<Resource>,
    coverage: Coverage,
    options: Options,
}

impl Case {
    fn new(handlers: &[(HandlerKind, &[&str])]) -> Self {
        let handlers = handlers.iter().map(|(kind, selector)| {
            let mut spec = HandlerSpec::new("fn", FunctionId::Number(1), *kind);
            spec.selector = Some(Selector::parse(selector).unwrap());
            spec.conversion = (*kind == HandlerKind::Convert).then(|| Conversion {
                source: "v1".to_owned(),
                target: "v2".to_owned(),
            });
            spec.build(()).unwrap()
        });
        let mut settings = Settings::default();
        settings.peering.standalone = true;
        settings.scanning.disabled = true;
        settings.posting.enabled = false;
        Self {
            registry: handlers.collect(),
            settings,
            scope: Scope::Cluster,
            resources: builtin_resources(),
            coverage: Coverage::Partial,
            options: Options::default(),
        }
    }

    fn scope(mut self, namespaces: &[&str]) -> Self {
        let patterns = namespaces.iter().map(|text| text.parse().unwrap());
        self.scope = Scope::Namespaces(patterns.collect());
        self
    }

    fn requirements(&self) -> Requirements {
        Requirements::of(&Usage {
            registry: &self.registry,
            settings: &self.settings,
            scope: &self.scope,
            resources: self.resources.iter().collect(),
            coverage: self.coverage,
            options: &self.options,
        })
    }

    fn permissions(&self) -> Vec<String> {
        let requirements = self.requirements();
        let permissions = requirements.permissions.iter();
        permissions.map(ToString::to_string).collect()
    }

    fn remarks(&self) -> Vec<Remark> {
        self.requirements().remarks.into_iter().collect()
    }
}

const THINGS: &[&str] = &["g", "v1", "things"];

#[test]
fn event_handlers_only_watch() {
    let case = Case::new(&[(HandlerKind::Event, THINGS), (HandlerKind::Index, THINGS)]);
    assert_eq!(
        case.permissions(),
        ["list things.g cluster-wide", "watch things.g cluster-wide"]
    );
    assert_eq!(case.remarks(), []);
}

#[test]
fn change_and_background_handlers_patch_objects_and_their_status() {
    for kind in [
        HandlerKind::Create,
        HandlerKind::Daemon(Cancellation::default()),
    ] {
        let case = Case::new(&[(kind, THINGS)]);
        assert_eq!(
            case.permissions(),
            [
                "list things.g cluster-wide",
                "patch things.g cluster-wide",
                "watch things.g cluster-wide",
                "patch things.g/status cluster-wide"
            ]
        );
    }
    let case = Case::new(&[(HandlerKind::Create, &["configmaps"])]);
    assert!(!case.permissions().iter().any(|one| one.contains("status")));
}

#[test]
fn owned_objects_are_watched_and_their_owners_patched() {
    let handler = |kind, selector: Option<&[&str]>, owns: &[&str]| {
        let mut spec = HandlerSpec::new("fn", FunctionId::Number(1), kind);
        spec.selector = selector.map(|selector| Selector::parse(selector).unwrap());
        let owns = owns.iter().map(|name| Selector::parse(&[name]).unwrap());
        spec.owns = owns.collect();
        spec.build(()).unwrap()
    };
    for (kind, selector) in [
        (HandlerKind::Child, Some(THINGS)),
        (HandlerKind::Child, None),
    ] {
        let mut case = Case::new(&[]);
        let other = handler(HandlerKind::Event, Some(THINGS), &[]);
        let owning = handler(kind, selector, &["configmaps"]);
        case.registry = [other, owning].into_iter().collect();
        assert_eq!(
            case.permissions(),
            [
                "list configmaps cluster-wide",
                "watch configmaps cluster-wide",
                "list things.g cluster-wide",
                "patch things.g cluster-wide",
                "watch things.g cluster-wide",
                "patch things.g/status cluster-wide"
            ],
            "{kind:?}"
        );
    }
    let mut case = Case::new(&[]);
    let owning = handler(HandlerKind::Create, Some(THINGS), &["configmaps"]);
    case.registry = [owning].into_iter().collect();
    let expected = [
        "create configmaps cluster-wide",
        "get configmaps cluster-wide",
        "list configmaps cluster-wide",
        "patch configmaps cluster-wide",
        "watch configmaps cluster-wide",
        "list things.g cluster-wide",
        "patch things.g cluster-wide",
        "watch things.g cluster-wide",
        "update things.g/finalizers cluster-wide",
        "patch things.g/status cluster-wide",
    ];
    assert_eq!(case.permissions(), expected, "it applies its children");
    case.coverage = Coverage::Complete;
    let is_optional = |one: &String| one.contains("finalizers") || one.contains("create");
    assert!(!case.permissions().iter().any(is_optional), "or not");
}

#[test]
fn creators_of_objects_can_block_the_deletion_of_owners() {
    let case = Case::new(&[
        (HandlerKind::Create, THINGS),
        (HandlerKind::Event, &["g", "v1", "others"]),
    ]);
    let blocking = |extra: &str| {
        let mut requirements = case.requirements();
        requirements.add_extra(&extra.parse().unwrap());
        let permissions = requirements.permissions.iter().map(ToString::to_string);
        let permissions = permissions.filter(|one| one.contains("finalizers"));
        permissions.collect::<Vec<_>>()
    };
    for extra in ["create:configmaps", "get,patch:configmaps", "*:configmaps"] {
        assert_eq!(blocking(extra), ["update things.g/finalizers cluster-wide"]);
    }
    assert!(blocking("get,delete:configmaps").is_empty());
}

#[test]
fn permissions_of_namespaces_and_of_cluster_scoped_objects_are_separate() {
    let handlers: &[(HandlerKind, &[&str])] = &[
        (HandlerKind::Event, &["pods"]),
        (HandlerKind::Event, &["nodes"]),
    ];
    let case = Case::new(handlers).scope(&["a", "b"]);
    assert_eq!(
        case.permissions(),
        [
            "list nodes cluster-wide",
            "watch nodes cluster-wide",
            "list pods in the namespace \"a\"",
            "watch pods in the namespace \"a\"",
            "list pods in the namespace \"b\"",
            "watch pods in the namespace \"b\""
        ]
    );
    let patterned = Case::new(handlers).scope(&["a", "b-*"]);
    assert!(
        patterned
            .permissions()
            .contains(&"list pods cluster-wide".to_owned())
    );
    assert_eq!(patterned.remarks(), [Remark::Patterns("b-*".to_owned())]);
}

#[test]
fn events_are_created_where_the_objects_are() {
    let mut case = Case::new(&[(HandlerKind::Event, &["nodes"])]).scope(&["a"]);
    case.settings.posting.enabled = true;
    let expected = "create events in the namespace \"default\"".to_owned();
    assert!(case.permissions().contains(&expected));
    let mut case = Case::new(&[(HandlerKind::Event, &["pods"])]).scope(&["a"]);
    case.settings.posting.enabled = true;
    assert!(
        case.permissions()
            .contains(&"create events in the namespace \"a\"".to_owned())
    );
}

#[test]
fn scanning_needs_definitions_and_namespaces() {
    let mut case = Case::new(&[]);
    case.settings.scanning.disabled = false;
    let definitions = "customresourcedefinitions.apiextensions.k8s.io cluster-wide";
    assert_eq!(
        case.permissions(),
        [
            format!("list {definitions}"),
            format!("watch {definitions}")
        ]
    );
    let case = case.scope(&["a"]);
    assert!(
        case.permissions()
            .contains(&"watch namespaces cluster-wide".to_owned())
    );
}

#[test]
fn peering_is_for_one_object() {
    let mut case = Case::new(&[]);
    case.settings.peering.standalone = false;
    assert_eq!(
        case.permissions(),
        [
            "list clusterkopfpeerings.kopf.dev cluster-wide",
            "watch clusterkopfpeerings.kopf.dev cluster-wide",
            "patch clusterkopfpeerings.kopf.dev \"default\" cluster-wide"
        ]
    );
    let expected = "patch kopfpeerings.kopf.dev \"default\" in the namespace \"a\"";
    let namespaced = case.scope(&["a"]);
    assert!(namespaced.permissions().contains(&expected.to_owned()));
    let mut absent = namespaced;
    absent.coverage = Coverage::Complete;
    assert_eq!(absent.permissions(), [""; 0], "no peering in the cluster");
}

#[test]
fn webhook_configurations_need_permissions_if_they_are_managed() {
    let validating = HandlerKind::Admission(WebhookType::Validating);
    let mut case = Case::new(&[(validating, THINGS)]);
    assert_eq!(case.permissions(), [""; 0]);
    assert_eq!(case.remarks(), [Remark::UnmanagedWebhooks]);
    case.settings.admission.managed = Some("auto.kopf.dev".to_owned());
    let permissions = case.permissions();
    for plural in [
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
    ] {
        for expected in [
            format!("create {plural} cluster-wide"),
            format!("list {plural} \"auto.kopf.dev\" cluster-wide"),
            format!("patch {plural} \"auto.kopf.dev\" cluster-wide"),
            format!("watch {plural} \"auto.kopf.dev\" cluster-wide"),
        ] {
            assert!(
                permissions.contains(&expected),
                "{expected}: {permissions:?}"
            );
        }
    }
    assert_eq!(permissions.len(), 8);
    assert_eq!(case.remarks(), []);
}

#[test]
fn options_add_leases_and_definitions() {
    let mut case = Case::new(&[]);
    case.options = Options {
        leases: Leases::In("ops".to_owned()),
        installs_definitions: true,
    };
    let permissions = case.permissions();
    let lease = "update leases.coordination.k8s.io in the namespace \"ops\"";
    assert!(permissions.contains(&lease.to_owned()), "{permissions:?}");
    let definition = "create customresourcedefinitions.apiextensions.k8s.io cluster-wide";
    assert!(permissions.contains(&definition.to_owned()));
}

#[test]
fn replicas_with_webhooks_need_the_secret_of_their_certificate() {
    let secrets = |case: &Case| {
        let permissions = case.permissions().into_iter();
        let secrets = permissions.filter(|one| one.contains("secrets"));
        secrets.collect::<Vec<_>>()
    };
    for kind in [
        HandlerKind::Admission(WebhookType::Validating),
        HandlerKind::Convert,
    ] {
        let mut case = Case::new(&[(kind, THINGS)]);
        case.settings.leading.enabled = true;
        case.settings.leading.name = "op".to_owned();
        assert_eq!(secrets(&case), [""; 0], "there are no Leases");
        case.options.leases = Leases::In("ops".to_owned());
        assert_eq!(
            secrets(&case),
            [
                "create secrets in the namespace \"ops\"",
                "get secrets \"op-webhook-certificate\" in the namespace \"ops\"",
                "update secrets \"op-webhook-certificate\" in the namespace \"ops\"",
            ]
        );
        case.settings.leading.certificate_secret = CertificateSharing::Unshared;
        assert_eq!(secrets(&case), [""; 0]);
    }
    let mut case = Case::new(&[(HandlerKind::Event, THINGS)]);
    case.settings.leading.enabled = true;
    case.options.leases = Leases::In("ops".to_owned());
    assert_eq!(secrets(&case), [""; 0], "there are no webhooks");
}

#[test]
fn managed_conversions_need_to_patch_their_crds() {
    let mut case = Case::new(&[(HandlerKind::Convert, &["g", "v1", "things"])]);
    let definition =
        "patch customresourcedefinitions.apiextensions.k8s.io \"things.g\" cluster-wide";
    assert!(!case.permissions().contains(&definition.to_owned()));
    case.settings.admission.managed = Some("auto.kopf.dev".to_owned());
    let permissions = case.permissions();
    for expected in [
        definition,
        "create validatingwebhookconfigurations.admissionregistration.k8s.io cluster-wide",
    ] {
        assert!(
            permissions.contains(&expected.to_owned()),
            "{permissions:?}"
        );
    }
    let mut case = Case::new(&[(HandlerKind::Convert, &["things"])]);
    case.settings.admission.managed = Some("auto.kopf.dev".to_owned());
    let any = "patch customresourcedefinitions.apiextensions.k8s.io cluster-wide";
    assert!(case.permissions().contains(&any.to_owned()));
}

#[test]
fn names_are_resolved_by_known_resources_or_taken_as_plural_names() {
    let case = Case::new(&[(HandlerKind::Event, &["deploy"])]);
    assert!(
        case.permissions()
            .contains(&"list deployments.apps cluster-wide".to_owned())
    );
    let case = Case::new(&[(HandlerKind::Event, &["things"])]);
    assert!(
        case.permissions()
            .contains(&"list things.* cluster-wide".to_owned())
    );
    assert_eq!(
        case.remarks(),
        [Remark::AnyGroup("name=\"things\"".to_owned())]
    );
    let case = Case::new(&[(HandlerKind::Event, &["Thing"])]);
    assert_eq!(case.permissions(), [""; 0]);
    assert_eq!(
        case.remarks(),
        [Remark::Unresolved("name=\"Thing\"".to_owned())]
    );
}

#[test]
fn sets_of_resources_are_wildcards_or_the_known_ones() {
    let registry = |selector| {
        let mut spec = HandlerSpec::new("fn", FunctionId::Number(1), HandlerKind::Event);
        spec.selector = Some(selector);
        [spec.build(()).unwrap()].into_iter().collect()
    };
    let mut case = Case::new(&[]);
    case.registry = registry(Selector::everything());
    assert_eq!(
        case.permissions(),
        ["list *.* cluster-wide", "watch *.* cluster-wide"]
    );
    case.coverage = Coverage::Complete;
    assert!(
        case.permissions()
            .contains(&"list pods cluster-wide".to_owned())
    );
    case.coverage = Coverage::Partial;
    case.registry = registry(Selector::predicate(|resource| resource.kind == "Pod"));
    assert_eq!(
        case.permissions(),
        ["list pods cluster-wide", "watch pods cluster-wide"]
    );
    assert_eq!(case.remarks(), [Remark::KnownOnly("predicate".to_owned())]);
}

#[test]
fn unknown_resources_of_a_cluster_are_not_served() {
    let mut case = Case::new(&[(HandlerKind::Event, THINGS)]);
    case.coverage = Coverage::Complete;
    assert_eq!(case.permissions(), [""; 0]);
}

#[test]
fn extra_permissions_are_for_all_served_places() {
    let case = Case::new(&[]).scope(&["a", "b"]);
    let mut requirements = case.requirements();
    requirements.add_extra(&"create:pods".parse().unwrap());
    assert_eq!(requirements.permissions.len(), 2);
}
