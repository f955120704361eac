//! Helm charts of operators.

mod pieces;
#[cfg(test)]
mod rendering;
#[cfg(test)]
mod tests;

use kopf_core::namespace;
use kopf_core::registry::Registry;
use kopf_core::rights::{PermissionScope, Requirements};
use kopf_core::settings::{Leading, Replication, Settings};

use crate::deployment::Deployment;
use crate::files::File;
use crate::plan::{LEASE_OPTION, Plan};
use crate::{Identity, rbac, yaml};

const NAME: &str = "{{ .Release.Name }}";
const NAMESPACE: &str = "{{ .Release.Namespace }}";

/// Error for a chart that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A pattern of served namespaces is invalid.
    #[error(transparent)]
    Namespace(#[from] namespace::Error),
    /// A CRD cannot be written.
    #[error(transparent)]
    Yaml(#[from] yaml::Error),
}

/// How the pods of a chart elect a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Election {
    /// By a value of the chart, with its default.
    Value(bool),
    /// By the code of the operator: it is not an option of the chart.
    Code,
}

/// Returns the files of a Helm chart. Objects are named after the release, in its namespace. So are
/// the Lease and the shared certificate of replicas, unless the code of the operator sets their
/// names. Values determine the rest of the pods.
pub fn chart<F>(
    plan: &Plan,
    registry: &Registry<F>,
    settings: &Settings,
    deployment: &Deployment,
) -> Result<Vec<File>, Error> {
    let election = if settings.leading.replication() == Replication::Single {
        Election::Value(plan.launch.lease.is_some())
    } else {
        Election::Code
    };
    let release = Identity {
        name: NAME.to_owned(),
        namespace: NAMESPACE.to_owned(),
    };
    let mut files = vec![
        File::new("Chart.yaml", pieces::metadata(&plan.identity)),
        File::new("values.yaml", pieces::values(deployment, election)),
    ];
    for definition in &plan.definitions {
        let name = definition["metadata"]["name"].as_str().unwrap_or("crd");
        let text = yaml::documents(std::slice::from_ref(definition))?;
        files.push(File::new(format!("crds/{name}.yaml"), text));
    }
    let roles = roles(plan, registry, settings, election, &release)?;
    files.push(File::new("templates/rbac.yaml", roles));
    let elected = with_election(plan, election);
    let mut named = deployment.clone();
    named.arguments = elected.launch.arguments();
    let text = named.text(&release, &pieces::parts(&named, election));
    files.push(File::new("templates/deployment.yaml", text));
    if let Some(service) = deployment.service(&release) {
        files.push(File::new("templates/service.yaml", service));
    }
    files.extend(pieces::optional_objects(deployment));
    Ok(files)
}

/// Returns the roles: with an election by a value, those with and without it.
fn roles<F>(
    plan: &Plan,
    registry: &Registry<F>,
    settings: &Settings,
    election: Election,
    release: &Identity,
) -> Result<String, Error> {
    let elected = with_election(plan, election);
    let more = released(&elected, &elected.requirements(registry, settings)?);
    let mut alone = plan.clone();
    alone.launch.lease = None;
    let less = released(&alone, &alone.requirements(registry, settings)?);
    let mut documents = match election {
        Election::Value(_) => rbac::alternatives(release, pieces::ELECTION, &more, &less),
        Election::Code => rbac::documents(release, &more),
    };
    if let Some(account) = documents.first_mut() {
        account.push_str(pieces::ACCOUNT_ANNOTATIONS);
    }
    Ok(documents.join("---\n"))
}

/// Returns the operator with the option of the election, unless its code elects.
fn with_election(plan: &Plan, election: Election) -> Plan {
    let mut plan = plan.clone();
    if let Election::Value(_) = election {
        plan.launch.lease = Some(plan.identity.name.clone());
    }
    plan
}

/// Moves the permissions in the operator's namespace to the namespace of the release, and renames
/// the Secret of the certificate that the replicas of this Lease share.
fn released(plan: &Plan, requirements: &Requirements) -> Requirements {
    let mut requirements = requirements.clone();
    let certificate = plan.launch.lease.as_deref().and_then(certificate_secret);
    let permissions = requirements.permissions.into_iter();
    let permissions = permissions.map(|mut permission| {
        if permission.scope == PermissionScope::Namespace(plan.identity.namespace.clone()) {
            permission.scope = PermissionScope::Namespace(NAMESPACE.to_owned());
            let is_certificate = certificate.is_some() && permission.name == certificate;
            if permission.resource == "secrets" && is_certificate {
                permission.name = certificate_secret(NAME);
            }
        }
        permission
    });
    requirements.permissions = permissions.collect();
    requirements
}

/// Returns the name of the Secret with the certificate that the replicas of a Lease share.
fn certificate_secret(lease: &str) -> Option<String> {
    let mut leading = Leading::default();
    leading.enabled = true;
    lease.clone_into(&mut leading.name);
    leading.certificate_secret_name()
}

/// Returns `true` for the argument with the name of the Lease.
fn is_lease(argument: &str) -> bool {
    argument.starts_with(LEASE_OPTION)
}
