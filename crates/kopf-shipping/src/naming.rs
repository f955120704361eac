//! Names of an operator in a cluster.

use kopf_core::admission::{SERVICE_PORT, ServiceReference};

/// The name and the namespace of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name of its objects; cluster roles have the namespace as a prefix.
    pub name: String,
    /// The namespace of its pods.
    pub namespace: String,
}

/// Error for a name that Kubernetes does not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid {what} {name:?}: must be 1 to {limit} lower-case letters, digits and dashes, starting with \
     a letter and ending with a letter or digit"
)]
pub struct Error {
    what: &'static str,
    name: String,
    limit: usize,
}

/// Kubernetes allows 63 characters; names of objects have suffixes of up to 8 characters.
const NAME_LIMIT: usize = 55;
const NAMESPACE_LIMIT: usize = 63;

impl Identity {
    /// Checks the names.
    ///
    /// ```
    /// use kopf_shipping::Identity;
    ///
    /// assert!(Identity::new("my-operator", "operators").is_ok());
    /// assert!(Identity::new("my_operator", "operators").is_err());
    /// ```
    pub fn new(name: &str, namespace: &str) -> Result<Self, Error> {
        check("name", name, NAME_LIMIT)?;
        check("namespace", namespace, NAMESPACE_LIMIT)?;
        Ok(Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        })
    }

    /// Converts any text, such as the name of a program, into a valid name. Invalid characters
    /// become dashes.
    ///
    /// ```
    /// use kopf_shipping::Identity;
    ///
    /// assert_eq!(Identity::name_of("My_Operator.py"), "my-operator-py");
    /// assert_eq!(Identity::name_of("99 bottles"), "operator-99-bottles");
    /// ```
    pub fn name_of(text: &str) -> String {
        let text = text.to_lowercase();
        let dashed = text.split(|char: char| !char.is_ascii_alphanumeric());
        let parts: Vec<&str> = dashed.filter(|part| !part.is_empty()).collect();
        let name = parts.join("-");
        let name = match name.chars().next() {
            Some(first) if first.is_ascii_lowercase() => name,
            Some(_) => format!("operator-{name}"),
            None => "operator".to_owned(),
        };
        let name: String = name.chars().take(NAME_LIMIT).collect();
        name.trim_end_matches('-').to_owned()
    }
}

impl Identity {
    /// Returns the Service of the webhooks. The pods get it in an environment variable, by which their
    /// webhook server announces it.
    pub fn webhook_service(&self) -> ServiceReference {
        ServiceReference {
            namespace: self.namespace.clone(),
            name: format!("{}-webhook", self.name),
            path: None,
            port: Some(SERVICE_PORT),
        }
    }
}

fn check(what: &'static str, name: &str, limit: usize) -> Result<(), Error> {
    let is_known = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    let is_valid = name.len() <= limit
        && name.starts_with(|char: char| char.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(is_known);
    if is_valid {
        return Ok(());
    }
    let name = name.to_owned();
    Err(Error { what, name, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_are_rejected() {
        for name in ["", "-a", "a-", "A", "a.b", "1a", &"a".repeat(56)] {
            let error = Identity::new(name, "ns").unwrap_err().to_string();
            assert!(error.starts_with("invalid name "), "{error}");
        }
        let error = Identity::new("a", "").unwrap_err().to_string();
        assert!(error.starts_with("invalid namespace \"\""), "{error}");
    }

    #[test]
    fn converted_names_are_valid() {
        for text in ["", "Ünïcode", "a", "___", &"long ".repeat(30), "UPPER case"] {
            let name = Identity::name_of(text);
            assert!(Identity::new(&name, "ns").is_ok(), "{text:?}: {name:?}");
        }
    }
}
