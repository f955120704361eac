//! Query strings with percent-encoded values.

use std::fmt::Write as _;

/// Adds parameters to a path, which may already have some.
///
/// ```
/// let path = kopf_tests::with_query("/api/v1/pods", &[("labelSelector", "a in (b)")]);
/// assert_eq!(path, "/api/v1/pods?labelSelector=a%20in%20%28b%29");
/// ```
pub fn with_query(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut result = path.to_owned();
    for (name, value) in parameters {
        result.push(if result.contains('?') { '&' } else { '?' });
        result.push_str(name);
        result.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                result.push(char::from(byte));
            } else {
                write!(result, "%{byte:02X}").expect("writing to a String never fails");
            }
        }
    }
    result
}
