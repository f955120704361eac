//! Kubeconfigs.
//!
//! The kube crate reads and merges the files and resolves relative paths. The list of files is
//! handled here, because kube fails if any of them is absent. So is the choice of the context,
//! because kube reads proxies from the environment there, and fails on invalid ones.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::slice;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Config;
use kube::config::{AuthInfo, Cluster, Kubeconfig, KubeconfigError};

use super::Options;
use super::error::Error;
use super::info::authorization;
use super::proxy::Proxy;
use super::stack::{Target, address, certificates};

pub(crate) fn load(options: &Options) -> Result<Target, Error> {
    let paths = match &options.kubeconfig {
        Some(path) => vec![path.clone()],
        None => default_paths(env::var_os("KUBECONFIG").as_deref(), env::home_dir())?,
    };
    let (kubeconfig, paths) = read(&paths)?;
    choose(kubeconfig, options).map_err(|error| match error {
        Error::Kubeconfig { problem } => in_files(&paths, problem),
        error => error,
    })
}

/// Returns the default paths of kubeconfigs.
fn default_paths(list: Option<&OsStr>, home: Option<PathBuf>) -> Result<Vec<PathBuf>, Error> {
    let listed: Vec<_> = list
        .into_iter()
        .flat_map(env::split_paths)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    if !listed.is_empty() {
        return Ok(listed);
    }
    match home {
        Some(home) => Ok(vec![home.join(".kube/config")]),
        None => Err(problem(
            "$KUBECONFIG is not set, and there is no home directory",
        )),
    }
}

/// Merges all existing files, and returns their paths. As in kubectl, some can be absent.
fn read(paths: &[PathBuf]) -> Result<(Kubeconfig, Vec<PathBuf>), Error> {
    let mut merged = Kubeconfig::default();
    let mut found = Vec::new();
    for path in paths {
        let one = match Kubeconfig::read_from(path) {
            Ok(one) => one,
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == ErrorKind::NotFound => {
                continue;
            }
            Err(KubeconfigError::ReadConfig(error, _)) => {
                return Err(in_files(slice::from_ref(path), error.to_string()));
            }
            Err(error) => return Err(located(slice::from_ref(path), error)),
        };
        found.push(path.clone());
        merged = merged.merge(one).map_err(|error| located(&found, error))?;
    }
    match (found.is_empty(), paths) {
        (false, _) => Ok((merged, found)),
        (true, [_]) => Err(in_files(paths, "no such file")),
        (true, _) => Err(in_files(paths, "none of these files exists")),
    }
}

fn located(paths: &[PathBuf], error: KubeconfigError) -> Error {
    match error.into() {
        Error::Kubeconfig { problem } => in_files(paths, problem),
        error => error,
    }
}

fn in_files(paths: &[PathBuf], what: impl fmt::Display) -> Error {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    problem(format!("{}: {what}", paths.join(", ")))
}

fn choose(kubeconfig: Kubeconfig, options: &Options) -> Result<Target, Error> {
    let name = options
        .context
        .clone()
        .or(kubeconfig.current_context)
        .filter(|name| !name.is_empty())
        .ok_or_else(|| problem("no current context, and none is given"))?;
    let context = kubeconfig
        .contexts
        .into_iter()
        .find(|context| context.name == name)
        .and_then(|context| context.context)
        .ok_or_else(|| problem(format!("no context {name:?}")))?;
    let cluster = kubeconfig
        .clusters
        .into_iter()
        .find(|cluster| cluster.name == context.cluster)
        .and_then(|cluster| cluster.cluster)
        .ok_or_else(|| problem(format!("no cluster {:?}", context.cluster)))?;
    // As in kubectl, an absent user means requests without credentials.
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
    Ok(Target::new(config, proxy))
}

fn authorities(cluster: &Cluster) -> Result<Option<Vec<Vec<u8>>>, Error> {
    const WHAT: &str = "CA";
    let bundle = match (
        &cluster.certificate_authority_data,
        &cluster.certificate_authority,
    ) {
        (Some(data), _) => STANDARD.decode(data.trim()).map_err(|_| Error::Invalid {
            what: WHAT,
            problem: "not base64".to_owned(),
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
    // Tokens of removed auth providers can still be valid.
    if let Some(provider) = &user.auth_provider
        && !matches!(provider.name.as_str(), "oidc" | "gcp")
        && let Some(token) = provider.config.get("access-token")
    {
        user.token = Some(token.clone().into());
        user.auth_provider = None;
    }
    // Tokens from files end with line feeds. Other invalid characters are reported now.
    let written = serde_json::to_value(&user).ok();
    if let Some(token) = written
        .as_ref()
        .and_then(|user| user.get("token")?.as_str())
    {
        authorization(&format!("Bearer {}", token.trim()))?;
        user.token = Some(token.trim().to_owned().into());
    }
    Ok(user)
}

fn problem(problem: impl Into<String>) -> Error {
    Error::Kubeconfig {
        problem: problem.into(),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn absent_files_are_skipped() {
        let folder = TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, context: &str| {
            std::fs::write(at(name), format!("current-context: {context}")).unwrap();
        };
        write("a", "first");
        write("b", "second");
        let list = env::join_paths([at("none"), at("a"), PathBuf::new(), at("b")]).unwrap();
        let listed = default_paths(Some(&list), None).unwrap();
        let (merged, found) = read(&listed).unwrap();
        assert_eq!(merged.current_context.as_deref(), Some("first"));
        assert_eq!(found, [at("a"), at("b")]);

        let error = read(&[at("none"), at("nil")]).unwrap_err().to_string();
        let expected = format!(
            "cannot use the kubeconfig: {}, {}: none of these files exists",
            at("none").display(),
            at("nil").display()
        );
        assert_eq!(error, expected);
        let error = read(&[at("nil")]).unwrap_err().to_string();
        assert!(error.ends_with("nil: no such file"), "{error}");
    }

    #[test]
    fn unreadable_files_are_named() {
        let folder = TempDir::new().unwrap();
        let good = folder.path().join("good");
        let bad = folder.path().join("bad");
        std::fs::write(&good, "current-context: x").unwrap();
        std::fs::write(&bad, "users: {").unwrap();
        for (paths, named) in [
            (vec![good.clone(), bad.clone()], &bad),
            (vec![folder.path().to_owned()], &folder.path().to_owned()),
        ] {
            let error = read(&paths).unwrap_err().to_string();
            let beginning = format!("cannot use the kubeconfig: {}: ", named.display());
            assert!(error.starts_with(&beginning), "{error}");
        }
        let options = Options {
            kubeconfig: Some(good.clone()),
            ..Options::default()
        };
        let error = load(&options).err().unwrap().to_string();
        let expected = format!("{}: no context \"x\"", good.display());
        assert!(error.ends_with(&expected), "{error}");
    }

    #[test]
    fn default_path_is_in_the_home_directory() {
        let home = || Some(PathBuf::from("/home/me"));
        let expected = [PathBuf::from("/home/me/.kube/config")];
        assert_eq!(default_paths(None, home()).unwrap(), expected);
        assert_eq!(
            default_paths(Some(OsStr::new(":")), home()).unwrap(),
            expected
        );
        assert!(default_paths(None, None).is_err());
    }
}
