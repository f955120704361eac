//! Code that examples share with their tests, and the doctests of the guide.

pub mod greeter;
pub mod tenants;

/// Compiles the Rust blocks of the guide, and runs those that are not marked `no_run`.
macro_rules! guide {
    ($($name:ident: $page:literal),+ $(,)?) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../../../", $page))]
            struct $name;
        )+
    };
}

guide! {
    CompareControllerRuntime: "docs/compare/controller-runtime.md",
    CompareKubeRs: "docs/compare/kube-rs.md",
    GuideAdmission: "docs/guide/admission.md",
    GuideApplyingChildren: "docs/guide/applying-children.md",
    GuideArguments: "docs/guide/arguments.md",
    GuideAsync: "docs/guide/async.md",
    GuideChildren: "docs/guide/children.md",
    GuideConditions: "docs/guide/conditions.md",
    GuideContinuity: "docs/guide/continuity.md",
    GuideConversions: "docs/guide/conversions.md",
    GuideCustomWebhookServers: "docs/guide/custom-webhook-servers.md",
    GuideDaemons: "docs/guide/daemons.md",
    GuideErrors: "docs/guide/errors.md",
    GuideEvents: "docs/guide/events.md",
    GuideFilters: "docs/guide/filters.md",
    GuideGuarantees: "docs/guide/guarantees.md",
    GuideHandlers: "docs/guide/handlers.md",
    GuideIdempotence: "docs/guide/idempotence.md",
    GuideIndexing: "docs/guide/indexing.md",
    GuideLoading: "docs/guide/loading.md",
    GuideMemos: "docs/guide/memos.md",
    GuideModels: "docs/guide/models.md",
    GuidePatches: "docs/guide/patches.md",
    GuideReconcile: "docs/guide/reconcile.md",
    GuideReconciliation: "docs/guide/reconciliation.md",
    GuideResources: "docs/guide/resources.md",
    GuideResuming: "docs/guide/resuming.md",
    GuideResults: "docs/guide/results.md",
    GuideSubHandlers: "docs/guide/sub-handlers.md",
    GuideTimers: "docs/guide/timers.md",
    GuideWatchingChildren: "docs/guide/watching-children.md",
    GuideWebhookCertificates: "docs/guide/webhook-certificates.md",
    GuideWebhookServers: "docs/guide/webhook-servers.md",
    OperateAuthentication: "docs/operate/authentication.md",
    OperateConfiguration: "docs/operate/configuration.md",
    OperateEmbedding: "docs/operate/embedding.md",
    OperateLogging: "docs/operate/logging.md",
    OperateLoginHandlers: "docs/operate/login-handlers.md",
    OperateOwnProgram: "docs/operate/own-program.md",
    OperatePeering: "docs/operate/peering.md",
    OperateProbes: "docs/operate/probes.md",
    OperateReplicas: "docs/operate/replicas.md",
    OperateScaling: "docs/operate/scaling.md",
    OperateSecrets: "docs/operate/secrets.md",
    OperateStartup: "docs/operate/startup.md",
    OperateStorages: "docs/operate/storages.md",
    ReferenceRustApi: "docs/reference/rust-api.md",
    ReferenceSettings: "docs/reference/settings.md",
    ReferenceWebhookServer: "docs/reference/webhook-server.md",
    Introduction: "docs/introduction.md",
    StartWalkthroughHandlers: "docs/start/walkthrough-handlers.md",
    StartWalkthrough: "docs/start/walkthrough.md",
    TestLab: "docs/test/lab.md",
    TestTesting: "docs/test/testing.md",
    Readme: "README.md",
}
