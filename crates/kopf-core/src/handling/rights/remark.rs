//! Remarks on permissions that could not be derived exactly.

use std::fmt;

/// A reason why the permissions are larger or smaller than they could be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remark {
    /// The selector names no group, and no known resource has the name.
    AnyGroup(String),
    /// The selector needs a discovery.
    Unresolved(String),
    /// The selector means several resources, so that none is served.
    Ambiguous(String),
    /// The selector selects a set of resources, of which only the known ones are covered.
    KnownOnly(String),
    /// Patterns of namespaces cannot be expressed by roles.
    Patterns(String),
    /// It is not known whether the operator manages webhook configurations.
    UnmanagedWebhooks,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnyGroup(selector) => write!(
                f,
                "the API group of {selector} is unknown, so the rule is for all groups: name the group \
                 in the handler, or pass the CRD with --filename"
            ),
            Self::Unresolved(selector) => write!(
                f,
                "the resource of {selector} is unknown, so there is no rule for it: name it by group \
                 and plural name, or pass the CRD with --filename"
            ),
            Self::Ambiguous(selector) => write!(
                f,
                "several resources match {selector}, so none of them is served: name the group"
            ),
            Self::KnownOnly(selector) => write!(
                f,
                "the selector {selector} is evaluated for built-in resources and given CRDs only: \
                 pass the CRDs of the others with --filename"
            ),
            Self::Patterns(pattern) => write!(
                f,
                "roles cannot express the namespace pattern {pattern:?}, so the rules are cluster-wide"
            ),
            Self::UnmanagedWebhooks => f.write_str(
                "there are admission handlers, but settings.admission.managed is not known before the \
                 startup handlers: if it is set there, pass its value with --managed-webhooks",
            ),
        }
    }
}
