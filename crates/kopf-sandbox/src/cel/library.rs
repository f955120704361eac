//! Functions available in all expressions.

use std::sync::{Arc, LazyLock};

use kube_cel::KubeCelExt as _;
use kube_cel::cel::{Context, ResolveResult, Value};

/// Names of types, which are values in CEL. Here they are strings.
const TYPES: [&str; 12] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "timestamp",
    "uint",
];

/// Names of all functions and methods, including those of policies.
const FUNCTIONS: [&str; 155] = [
    "abs",
    "add",
    "allowed",
    "asApproximateFloat",
    "asInteger",
    "authorizer",
    "bitAnd",
    "bitNot",
    "bitOr",
    "bitShiftLeft",
    "bitShiftRight",
    "bitXor",
    "bool",
    "byte",
    "bytes",
    "ceil",
    "charAt",
    "check",
    "cidr",
    "compareTo",
    "contains",
    "containsCIDR",
    "containsIP",
    "date",
    "datetime",
    "decode",
    "distinct",
    "dns1035Label",
    "dns1035LabelPrefix",
    "dns1123Label",
    "dns1123LabelPrefix",
    "dns1123Subdomain",
    "dns1123SubdomainPrefix",
    "double",
    "duration",
    "dyn",
    "encode",
    "endsWith",
    "equivalent",
    "error",
    "errored",
    "escapeKey",
    "family",
    "fieldSelector",
    "find",
    "findAll",
    "first",
    "flatten",
    "floor",
    "format",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getEscapedPath",
    "getFullYear",
    "getHost",
    "getHostname",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getPort",
    "getQuery",
    "getScheme",
    "getSeconds",
    "greatest",
    "group",
    "hasValue",
    "indexOf",
    "int",
    "intersects",
    "ip",
    "isCIDR",
    "isCIDRv4",
    "isCIDRv6",
    "isCanonical",
    "isFinite",
    "isGlobalUnicast",
    "isGreaterThan",
    "isIP",
    "isIPv4",
    "isIPv6",
    "isInf",
    "isInteger",
    "isLessThan",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isNaN",
    "isQuantity",
    "isSemver",
    "isSorted",
    "isURL",
    "isUnspecified",
    "join",
    "labelSelector",
    "labelValue",
    "last",
    "lastIndexOf",
    "least",
    "lowerAscii",
    "major",
    "masked",
    "matches",
    "max",
    "min",
    "minor",
    "name",
    "named",
    "namespace",
    "none",
    "of",
    "ofNonZeroValue",
    "optFlatMap",
    "optMap",
    "or",
    "orValue",
    "patch",
    "path",
    "prefixLength",
    "qualifiedName",
    "quantity",
    "quote",
    "range",
    "reason",
    "replace",
    "resource",
    "reverse",
    "round",
    "semver",
    "serviceAccount",
    "sign",
    "size",
    "slice",
    "sort",
    "split",
    "sqrt",
    "startsWith",
    "string",
    "sub",
    "subresource",
    "substring",
    "sum",
    "timestamp",
    "trim",
    "trunc",
    "type",
    "uint",
    "upperAscii",
    "uri",
    "url",
    "uuid",
    "validate",
    "value",
];

/// The functions and types. Built once, because there are more than a hundred.
static BASE: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut base = Context::default().with_all();
    base.add_function("dyn", |value: Value| -> ResolveResult { Ok(value) });
    base.add_function("type", |value: Value| -> ResolveResult {
        Ok(Value::String(Arc::new(type_of(&value))))
    });
    super::bounded::register(&mut base);
    for name in TYPES {
        base.add_variable_from_value(name, Value::String(Arc::new(name.to_owned())));
    }
    base
});

pub(super) fn base() -> &'static Context<'static> {
    &BASE
}

/// Returns `true` if there is a function or method of this name.
pub(super) fn is_function(name: &str) -> bool {
    FUNCTIONS.binary_search(&name).is_ok()
}

/// Returns `true` for names that stand for types or for namespaces of functions.
pub(super) fn is_type(name: &str) -> bool {
    const NAMESPACES: [&str; 10] = [
        "base64",
        "format",
        "ip",
        "jsonpatch",
        "lists",
        "math",
        "optional",
        "sets",
        "strings",
        "cidr",
    ];
    TYPES.contains(&name) || NAMESPACES.contains(&name)
}

fn type_of(value: &Value) -> String {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Duration(_) => "duration",
        Value::Timestamp(_) => "timestamp",
        Value::Null => "null_type",
        Value::Opaque(_) | Value::Function(..) => "dyn",
    }
    .to_owned()
}
