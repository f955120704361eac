//! Token files of pods and kubeconfigs, which other processes keep up to date.
//!
//! kube has the same feature, but takes line feeds as a part of the token.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use http::header::{AUTHORIZATION, HeaderValue};
use kopf_core::sync::Mutex;
use kube::config::AuthInfo;
use tokio::time::Instant;
use tower::{Layer, Service};

use super::error::Error;
use super::info::authorization;

/// The age of a token after which its file is read again.
const FRESH: Duration = Duration::from_secs(60);

/// A layer that adds the token of a file to requests.
#[derive(Clone)]
pub(super) struct TokenFile {
    path: Arc<PathBuf>,
    cached: Arc<Mutex<Cached>>,
}

struct Cached {
    header: HeaderValue,
    read: Instant,
}

impl TokenFile {
    /// Takes over the token file of a user, unless other credentials have precedence.
    pub(super) fn take(user: &mut AuthInfo) -> Result<Option<Self>, Error> {
        let has_password = user.username.is_some() && user.password.is_some();
        if has_password || user.token.is_some() || user.auth_provider.is_some() {
            return Ok(None);
        }
        let Some(path) = user.token_file.take() else {
            return Ok(None);
        };
        let path = PathBuf::from(path);
        let header = read(&path)?;
        Ok(Some(Self {
            path: Arc::new(path),
            cached: Arc::new(Mutex::new(Cached {
                header,
                read: Instant::now(),
            })),
        }))
    }

    fn header(&self) -> HeaderValue {
        let mut cached = self.cached.lock();
        if cached.read.elapsed() >= FRESH {
            // The file can be removed after it was read. Then the token is kept until the server
            // rejects it.
            if let Ok(header) = read(&self.path) {
                cached.header = header;
            }
            cached.read = Instant::now();
        }
        cached.header.clone()
    }
}

fn read(path: &PathBuf) -> Result<HeaderValue, Error> {
    let token = fs::read_to_string(path).map_err(|source| Error::File {
        what: "token",
        path: path.clone(),
        source,
    })?;
    match token.trim() {
        "" => Err(Error::Invalid {
            what: "token",
            problem: format!("the file {} is empty", path.display()),
        }),
        token => Ok(authorization(&format!("Bearer {token}"))?.1),
    }
}

impl<S> Layer<S> for TokenFile {
    type Service = WithToken<S>;

    fn layer(&self, inner: S) -> WithToken<S> {
        WithToken {
            token: self.clone(),
            inner,
        }
    }
}

#[derive(Clone)]
pub(super) struct WithToken<S> {
    token: TokenFile,
    inner: S,
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for WithToken<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        let header = self.token.header();
        request.headers_mut().insert(AUTHORIZATION, header);
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn user(path: &std::path::Path) -> AuthInfo {
        AuthInfo {
            token_file: Some(path.display().to_string()),
            ..AuthInfo::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn token_file_is_read_again_every_minute() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "one\n").unwrap();
        let token = TokenFile::take(&mut user(&path)).unwrap().unwrap();
        assert_eq!(token.header(), "Bearer one");
        fs::write(&path, "  two\r\n").unwrap();
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(token.header(), "Bearer one");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(token.header(), "Bearer two");
        fs::remove_file(&path).unwrap();
        tokio::time::advance(FRESH).await;
        assert_eq!(token.header(), "Bearer two", "the last one is kept");
    }

    #[test]
    fn other_credentials_have_precedence() {
        let mut user = user(std::path::Path::new("/nowhere"));
        user.token = Some("t".to_owned().into());
        assert!(TokenFile::take(&mut user).unwrap().is_none());
    }

    #[test]
    fn unusable_files_are_rejected() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("token");
        let problem = |path| TokenFile::take(&mut user(path)).err().unwrap().to_string();
        assert!(problem(&path).contains("cannot be read"));
        fs::write(&path, "\n").unwrap();
        assert!(problem(&path).ends_with("is empty"));
        fs::write(&path, "hunter2\nhunter2").unwrap();
        assert!(!problem(&path).contains("hunter2"));
    }
}
