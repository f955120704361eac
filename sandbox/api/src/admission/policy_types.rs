//! Types of the variables of admission expressions.

use kopf_sandbox_schema::cel::Type;

/// Declared variables with their types.
pub(super) type Declared = Vec<(&'static str, Type)>;

/// Returns the variables of all admission expressions.
pub(super) fn common() -> Declared {
    vec![
        ("object", Type::Dyn),
        ("oldObject", Type::Dyn),
        ("request", request()),
        (
            "authorizer",
            Type::plain("kubernetes.authorization.Authorizer"),
        ),
        // Null for webhooks.
        ("namespaceObject", namespace()),
    ]
}

/// Returns the variables of expressions of policies, except `variables`.
pub(super) fn of_policy(has_params: bool) -> Declared {
    let mut declared = common();
    if has_params {
        declared.push(("params", Type::Dyn));
    }
    declared
}

/// Returns the type of an object with fields of type string.
fn of_strings(name: &str, fields: &[&str]) -> Type {
    let string = |field: &&str| ((*field).to_owned(), Type::plain("string"));
    Type::object(name, fields.iter().map(string))
}

fn with(name: &str, fields: impl IntoIterator<Item = (&'static str, Type)>) -> Type {
    let owned = fields.into_iter().map(|(name, of)| (name.to_owned(), of));
    Type::object(name, owned)
}

fn request() -> Type {
    let string = || Type::plain("string");
    let kind = || of_strings("kubernetes.GroupVersionKind", &["group", "version", "kind"]);
    let resource = || {
        let fields = ["group", "version", "resource"];
        of_strings("kubernetes.GroupVersionResource", &fields)
    };
    let user = with(
        "kubernetes.UserInfo",
        [
            ("username", string()),
            ("uid", string()),
            ("groups", Type::list(string())),
            ("extra", Type::map(Type::list(string()))),
        ],
    );
    with(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", string()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", string()),
            ("name", string()),
            ("namespace", string()),
            ("operation", string()),
            ("userInfo", user),
            ("dryRun", Type::plain("bool")),
            ("options", Type::Dyn),
        ],
    )
}

fn namespace() -> Type {
    let string = || Type::plain("string");
    let metadata = with(
        "kubernetes.NamespaceMetadata",
        [
            ("name", string()),
            ("generateName", string()),
            ("namespace", string()),
            ("labels", Type::map(string())),
            ("annotations", Type::map(string())),
            ("UID", string()),
            ("creationTimestamp", Type::plain("timestamp")),
            ("deletionGracePeriodSeconds", Type::plain("int")),
            ("deletionTimestamp", Type::plain("timestamp")),
            ("generation", Type::plain("int")),
            ("resourceVersion", string()),
            ("finalizers", Type::list(string())),
        ],
    );
    let spec = with(
        "kubernetes.NamespaceSpec",
        [("finalizers", Type::list(string()))],
    );
    with(
        "kubernetes.Namespace",
        [
            ("metadata", metadata),
            ("spec", spec),
            (
                "status",
                of_strings("kubernetes.NamespaceStatus", &["phase"]),
            ),
        ],
    )
}
