//! Signatures of all functions and operators of Kubernetes 1.36.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::types::Type;

/// One signature. The parameters of a method start with its target.
#[derive(Debug, Clone)]
pub(super) struct Signature {
    pub(super) is_method: bool,
    pub(super) parameters: Vec<Type>,
    pub(super) result: Type,
}

/// The signatures by the name of the function. Built once.
static TABLE: LazyLock<HashMap<&'static str, Vec<Signature>>> = LazyLock::new(|| {
    let mut table: HashMap<&'static str, Vec<Signature>> = HashMap::new();
    for line in SOURCE.lines() {
        let Some((names, signatures)) = line.split_once(": ") else {
            continue;
        };
        for name in names.split(", ") {
            let parsed = signatures.split("; ").filter_map(signature);
            table.entry(name).or_default().extend(parsed);
        }
    }
    table
});

/// Returns the signatures of a function, or an empty slice if there is none of this name.
pub(super) fn signatures(name: &str) -> &'static [Signature] {
    TABLE.get(name).map_or(&[], Vec::as_slice)
}

/// Parses a signature such as `string.(int) bool` or `(int, int) int`.
fn signature(text: &str) -> Option<Signature> {
    let (before, result) = text.rsplit_once(") ")?;
    let (target, parameters) = before.split_once('(')?;
    let (target, parameters) = match before.split_once(".(") {
        Some((target, parameters)) => (Some(target), parameters),
        None if target.is_empty() => (None, parameters),
        None => return None,
    };
    let mut types: Vec<Type> = Vec::new();
    types.extend(target.and_then(Type::parse));
    for parameter in split(parameters) {
        types.push(Type::parse(parameter)?);
    }
    Some(Signature {
        is_method: target.is_some(),
        parameters: types,
        result: Type::parse(result)?,
    })
}

/// Splits at commas outside of parentheses.
pub(super) fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.extend(text.get(start..index).map(str::trim));
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..).map(str::trim).filter(|it| !it.is_empty()));
    parts
}

const SOURCE: &str = "\
!_: (bool) bool
-_: (int) int; (double) double
_+_: (int, int) int; (uint, uint) uint; (double, double) double; (string, string) string; (bytes, bytes) bytes; (list(A), list(A)) list(A); (duration, duration) duration; (timestamp, duration) timestamp; (duration, timestamp) timestamp
_-_: (int, int) int; (uint, uint) uint; (double, double) double; (duration, duration) duration; (timestamp, duration) timestamp; (timestamp, timestamp) duration
_*_, _/_: (int, int) int; (uint, uint) uint; (double, double) double
_%_: (int, int) int; (uint, uint) uint
_==_, _!=_: (A, A) bool
_<_, _<=_, _>_, _>=_: (int, int) bool; (uint, uint) bool; (double, double) bool; (int, uint) bool; (int, double) bool; (uint, int) bool; (uint, double) bool; (double, int) bool; (double, uint) bool; (string, string) bool; (bytes, bytes) bool; (bool, bool) bool; (timestamp, timestamp) bool; (duration, duration) bool
@in: (A, list(A)) bool; (A, map(A, B)) bool
_[_]: (list(A), int) A; (map(A, B), A) B; (opt(list(A)), int) opt(A); (opt(map(A, B)), A) opt(B)
_[?_]: (list(A), int) opt(A); (map(A, B), A) opt(B); (opt(list(A)), int) opt(A); (opt(map(A, B)), A) opt(B)
_?_:_: (bool, A, A) A
@insert: (map(A, B), A, B) map(A, B); (map(A, B), map(A, B)) map(A, B)
@sortByAssociatedKeys: (list(A), list(B)) list(A)
size: (string) int; (bytes) int; (list(A)) int; (map(A, B)) int; string.() int; bytes.() int; list(A).() int; map(A, B).() int
contains, startsWith, endsWith: string.(string) bool
matches: string.(string) bool; (string, string) bool
int: (int) int; (uint) int; (double) int; (string) int; (timestamp) int; (duration) int
uint: (uint) uint; (int) uint; (double) uint; (string) uint
double: (double) double; (int) double; (uint) double; (string) double
string: (string) string; (bool) string; (int) string; (uint) string; (double) string; (bytes) string; (timestamp) string; (duration) string; (net.IP) string; (net.CIDR) string
bool: (bool) bool; (string) bool
bytes: (bytes) bytes; (string) bytes
timestamp: (timestamp) timestamp; (string) timestamp; (int) timestamp
duration: (duration) duration; (string) duration; (int) duration
type: (A) type(A)
dyn: (A) dyn
getFullYear, getMonth, getDate, getDayOfMonth, getDayOfWeek, getDayOfYear: timestamp.() int; timestamp.(string) int
getHours, getMinutes, getSeconds, getMilliseconds: timestamp.() int; timestamp.(string) int; duration.() int
charAt: string.(int) string
indexOf, lastIndexOf: string.(string) int; string.(string, int) int; list(A).(A) int
lowerAscii, upperAscii, trim: string.() string
replace: string.(string, string) string; string.(string, string, int) string
split: string.(string) list(string); string.(string, int) list(string)
substring: string.(int) string; string.(int, int) string
join: list(string).() string; list(string).(string) string
format: string.(list(dyn)) string
strings.quote: (string) string
find: string.(string) string
findAll: string.(string) list(string); string.(string, int) list(string)
isSorted: list(A).() bool
sum, min, max: list(int).() int; list(uint).() uint; list(double).() double; list(duration).() duration
min, max: list(string).() string; list(bool).() bool; list(bytes).() bytes; list(timestamp).() timestamp
sets.contains, sets.equivalent, sets.intersects: (list(A), list(A)) bool
lists.range: (int) list(int)
flatten: list(list(A)).() list(A); list(dyn).(int) list(dyn)
slice: list(A).(int, int) list(A)
distinct, reverse, sort: list(A).() list(A)
first, last: list(A).() opt(A)
optional.of, optional.ofNonZeroValue: (A) opt(A)
optional.none: () opt(A)
optional.unwrap: (list(opt(A))) list(A)
unwrapOpt: list(opt(A)).() list(A)
hasValue: opt(A).() bool
value: opt(A).() A
or: opt(A).(opt(A)) opt(A)
orValue: opt(A).(A) A
quantity: (string) kubernetes.Quantity
isQuantity: (string) bool
isInteger: kubernetes.Quantity.() bool
asInteger: kubernetes.Quantity.() int
sign: (kubernetes.Quantity) int
asApproximateFloat: kubernetes.Quantity.() double
add, sub: kubernetes.Quantity.(kubernetes.Quantity) kubernetes.Quantity; kubernetes.Quantity.(int) kubernetes.Quantity
isGreaterThan, isLessThan: kubernetes.Quantity.(kubernetes.Quantity) bool; kubernetes.Semver.(kubernetes.Semver) bool
compareTo: kubernetes.Quantity.(kubernetes.Quantity) int; kubernetes.Semver.(kubernetes.Semver) int
url: (string) kubernetes.URL
isURL: (string) bool
getScheme, getHost, getHostname, getPort, getEscapedPath: kubernetes.URL.() string
getQuery: kubernetes.URL.() map(string, list(string))
ip: (string) net.IP; net.CIDR.() net.IP
isIP, isCIDR, ip.isCanonical: (string) bool
family: net.IP.() int
isUnspecified, isLoopback, isLinkLocalMulticast, isLinkLocalUnicast, isGlobalUnicast: net.IP.() bool
cidr: (string) net.CIDR
containsIP: net.CIDR.(net.IP) bool; net.CIDR.(string) bool
containsCIDR: net.CIDR.(net.CIDR) bool; net.CIDR.(string) bool
masked: net.CIDR.() net.CIDR
prefixLength: net.CIDR.() int
semver: (string) kubernetes.Semver; (string, bool) kubernetes.Semver
isSemver: (string) bool; (string, bool) bool
major, minor, patch: kubernetes.Semver.() int
format.named: (string) opt(kubernetes.NamedFormat)
format.dns1123Label, format.dns1123Subdomain, format.dns1035Label, format.qualifiedName, format.dns1123LabelPrefix, format.dns1123SubdomainPrefix, format.dns1035LabelPrefix, format.labelValue, format.uri, format.uuid, format.byte, format.date, format.datetime: () kubernetes.NamedFormat
validate: kubernetes.NamedFormat.(string) opt(list(string))
path: kubernetes.authorization.Authorizer.(string) kubernetes.authorization.PathCheck
group: kubernetes.authorization.Authorizer.(string) kubernetes.authorization.GroupCheck
serviceAccount: kubernetes.authorization.Authorizer.(string, string) kubernetes.authorization.Authorizer
resource: kubernetes.authorization.GroupCheck.(string) kubernetes.authorization.ResourceCheck
subresource, namespace, name, fieldSelector, labelSelector: kubernetes.authorization.ResourceCheck.(string) kubernetes.authorization.ResourceCheck
check: kubernetes.authorization.PathCheck.(string) kubernetes.authorization.Decision; kubernetes.authorization.ResourceCheck.(string) kubernetes.authorization.Decision
allowed, errored: kubernetes.authorization.Decision.() bool
reason, error: kubernetes.authorization.Decision.() string
jsonpatch.escapeKey: (string) string
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_signatures_are_parsed() {
        for line in SOURCE.lines() {
            let (names, signatures) = line.split_once(": ").unwrap();
            for text in signatures.split("; ") {
                assert!(signature(text).is_some(), "{names}: {text}");
            }
        }
        assert_eq!(signatures("size").len(), 8);
        assert!(signatures("size")[7].is_method);
        assert_eq!(signatures("_[_]")[3].parameters.len(), 2);
    }
}
