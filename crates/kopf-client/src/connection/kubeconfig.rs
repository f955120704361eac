//! Kubeconfigs: which server, and who to be there.
//!
//! Reading and merging of the files, with relative paths resolved, is kube's. Choosing the context
//! is repeated here because kube's way of it reads proxies from the environment, and fails on what
//! it finds there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Config;
use kube::config::{AuthInfo, Cluster, Kubeconfig};

use super::Options;
use super::error::Error;
use super::proxy::Proxy;
use super::stack::{Target, address, certificates};

pub(crate) fn load(options: &Options) -> Result<Target, Error> {
    let kubeconfig = match &options.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    }?;
    choose(kubeconfig, options)
}

fn choose(kubeconfig: Kubeconfig, options: &Options) -> Result<Target, Error> {
    let name = options
        .context
        .clone()
        .or(kubeconfig.current_context)
        .filter(|name| !name.is_empty())
        .ok_or_else(|| problem("it has no current context, and none is given"))?;
    let context = kubeconfig
        .contexts
        .into_iter()
        .find(|context| context.name == name)
        .and_then(|context| context.context)
        .ok_or_else(|| problem(format!("there is no context {name:?}")))?;
    let cluster = kubeconfig
        .clusters
        .into_iter()
        .find(|cluster| cluster.name == context.cluster)
        .and_then(|cluster| cluster.cluster)
        .ok_or_else(|| problem(format!("there is no cluster {:?}", context.cluster)))?;
    // As in kubectl, nobody is somebody, too.
    let user = kubeconfig
        .auth_infos
        .into_iter()
        .find(|user| Some(&user.name) == context.user.as_ref())
        .and_then(|user| user.auth_info)
        .unwrap_or_default();

    let server = cluster
        .server
        .as_deref()
        .ok_or_else(|| problem(format!("the cluster {:?} has no server", context.cluster)))?;
    let mut config = Config::new(address(server)?);
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or_default();
    config.root_cert = authorities(&cluster)?;
    config.tls_server_name.clone_from(&cluster.tls_server_name);
    config.auth_info = identity(user, &cluster)?;
    config.default_namespace = context.namespace.unwrap_or_default();
    let proxy = Proxy::find(
        cluster.proxy_url.as_deref(),
        options.trust_env,
        &config.cluster_url,
    )?;
    Ok(Target { config, proxy })
}

fn authorities(cluster: &Cluster) -> Result<Option<Vec<Vec<u8>>>, Error> {
    const WHAT: &str = "CA";
    let bundle = match (
        &cluster.certificate_authority_data,
        &cluster.certificate_authority,
    ) {
        (Some(data), _) => STANDARD.decode(data.trim()).map_err(|_| Error::Invalid {
            what: WHAT,
            problem: "it is not base64".to_owned(),
        })?,
        (None, Some(path)) => std::fs::read(path).map_err(|source| Error::File {
            what: WHAT,
            path: path.into(),
            source,
        })?,
        (None, None) => return Ok(None),
    };
    certificates(WHAT, &bundle).map(Some)
}

fn identity(mut user: AuthInfo, cluster: &Cluster) -> Result<AuthInfo, Error> {
    if let Some(exec) = &mut user.exec
        && exec.provide_cluster_info
    {
        exec.cluster = Some(cluster.try_into()?);
    }
    // Providers that are no more have left their tokens: these are still good for a while.
    if let Some(provider) = &user.auth_provider
        && !matches!(provider.name.as_str(), "oidc" | "gcp")
        && let Some(token) = provider.config.get("access-token")
    {
        user.token = Some(token.clone().into());
        user.auth_provider = None;
    }
    Ok(user)
}

fn problem(problem: impl Into<String>) -> Error {
    Error::Kubeconfig {
        problem: problem.into(),
    }
}
