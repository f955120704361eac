//! The `/version` endpoint.

use serde_json::{Value, json};

/// Returns the version document. Clients compare the numbers with their own version, so they are
/// those of the recorded server. The suffix marks the sandbox.
pub fn version() -> Value {
    let recorded: Value = serde_json::from_str(kopf_sandbox_schema::recorded::VERSION)
        .expect("the recorded version is part of the build");
    let text = |field: &str| {
        recorded
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    json!({
        "major": text("major"),
        "minor": text("minor"),
        "emulationMajor": text("emulationMajor"),
        "emulationMinor": text("emulationMinor"),
        "minCompatibilityMajor": text("minCompatibilityMajor"),
        "minCompatibilityMinor": text("minCompatibilityMinor"),
        "gitVersion": format!("{}+sandbox", text("gitVersion")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_parseable_by_clients() {
        let version = version();
        assert_eq!(
            (&version["major"], &version["minor"]),
            (&json!("1"), &json!("36"))
        );
        let text = version["gitVersion"].as_str().unwrap();
        assert!(
            text.starts_with("v1.36.") && text.ends_with("+sandbox"),
            "{text}"
        );
    }
}
