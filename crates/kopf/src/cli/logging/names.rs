//! Names of loggers.

use std::borrow::Cow;

/// Returns the name of the logger of a target.
///
/// Targets in the framework are module paths, which change with its code. They become `kopf` and
/// one word, such as `kopf::watching`. Other targets are unchanged.
pub(super) fn logger_name(target: &str) -> Cow<'_, str> {
    let mut parts = target.splitn(3, "::");
    let (krate, module) = (parts.next().unwrap_or_default(), parts.next());
    let name = match (krate, module) {
        ("kopf" | "kopf_engine" | "kopf_client" | "kopf_core", Some(module)) => module,
        ("kopf", None) => return Cow::Borrowed(target),
        (krate, _) => match krate.strip_prefix("kopf_").or(krate.strip_prefix("kopf.")) {
            Some(rest) => rest,
            None => return Cow::Borrowed(target),
        },
    };
    Cow::Owned(format!("kopf::{}", name.replace('.', "::")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_framework_have_one_form() {
        for (target, expected) in [
            ("kopf.objects", "kopf::objects"),
            ("kopf.activities.startup", "kopf::activities::startup"),
            ("kopf.cli", "kopf::cli"),
            ("kopf::cli::running", "kopf::cli"),
            ("kopf_engine::queueing::stream", "kopf::queueing"),
            ("kopf_engine::operator", "kopf::operator"),
            ("kopf_client::watching::observer", "kopf::watching"),
            ("kopf_webhooks::endpoint", "kopf::webhooks"),
            ("kopf_sandbox", "kopf::sandbox"),
            ("kopf", "kopf"),
            ("my_operator", "my_operator"),
            ("my_operator::pods::deeper", "my_operator::pods::deeper"),
            ("kopfs::x", "kopfs::x"),
        ] {
            assert_eq!(logger_name(target), expected);
        }
    }
}
