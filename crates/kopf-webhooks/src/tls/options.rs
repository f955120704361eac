//! TLS options of a server.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;

use super::Verify;
use crate::Error;

/// TLS options of a server.
#[derive(Clone, Default)]
pub(crate) struct Options {
    pub(crate) cadata: Option<Vec<u8>>,
    pub(crate) cafile: Option<PathBuf>,
    pub(crate) cadump: Option<PathBuf>,
    pub(crate) context: Option<Arc<ServerConfig>>,
    pub(crate) insecure: bool,
    pub(crate) certfile: Option<PathBuf>,
    pub(crate) pkeyfile: Option<PathBuf>,
    pub(crate) password: Option<String>,
    pub(crate) extra_sans: Vec<String>,
    pub(crate) verify_mode: Option<Verify>,
    pub(crate) verify_cafile: Option<PathBuf>,
    pub(crate) verify_capath: Option<PathBuf>,
    pub(crate) verify_cadata: Option<Vec<u8>>,
}

// Passwords and keys must not be logged.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("insecure", &self.insecure)
            .field("certfile", &self.certfile)
            .field("pkeyfile", &self.pkeyfile)
            .field("cafile", &self.cafile)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Returns `true` if there is a CA for client certificates.
    pub(crate) fn has_verify_ca(&self) -> bool {
        self.verify_cafile.is_some() || self.verify_capath.is_some() || self.verify_cadata.is_some()
    }

    /// Returns the verification mode. By default, a CA for clients makes certificates optional.
    pub(crate) fn verify(&self) -> Verify {
        match self.verify_mode.unwrap_or_default() {
            Verify::None if self.has_verify_ca() => Verify::Optional,
            mode => mode,
        }
    }

    /// Returns `true` if the certificate is generated.
    pub(crate) fn is_generated(&self) -> bool {
        !self.insecure && self.context.is_none() && self.certfile.is_none()
    }

    /// Rejects invalid combinations before any file is read.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.insecure && self.context.is_some() {
            return Err(Error::Options("insecure mode excludes a TLS context"));
        }
        if self.insecure && (self.certfile.is_some() || self.pkeyfile.is_some()) {
            return Err(Error::Options("insecure mode excludes a certificate"));
        }
        if self.insecure && self.verify() != Verify::None {
            return Err(Error::Options(
                "insecure mode cannot verify client certificates",
            ));
        }
        if self.context.is_some() && (self.certfile.is_some() || self.pkeyfile.is_some()) {
            return Err(Error::Options(
                "a TLS context contains its certificate: it excludes certfile and pkeyfile",
            ));
        }
        if self.context.is_some() && self.verify() != Verify::None {
            return Err(Error::Options(
                "a TLS context configures the verification of clients: it excludes options for that",
            ));
        }
        if self.certfile.is_some() != self.pkeyfile.is_some() {
            return Err(Error::Options("certfile and pkeyfile must be set together"));
        }
        if self.verify() != Verify::None && !self.has_verify_ca() {
            return Err(Error::Options(
                "client certificates cannot be verified without verify_cafile, verify_capath \
                 or verify_cadata",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicting_options_are_rejected() {
        let file = || Some(PathBuf::from("x.pem"));
        let good = Options::default();
        let cases: [(Options, &str); 6] = [
            (
                Options {
                    insecure: true,
                    certfile: file(),
                    pkeyfile: file(),
                    ..good.clone()
                },
                "excludes a certificate",
            ),
            (
                Options {
                    insecure: true,
                    verify_cafile: file(),
                    ..good.clone()
                },
                "cannot verify",
            ),
            (
                Options {
                    certfile: file(),
                    ..good.clone()
                },
                "must be set together",
            ),
            (
                Options {
                    pkeyfile: file(),
                    ..good.clone()
                },
                "must be set together",
            ),
            (
                Options {
                    verify_mode: Some(Verify::Required),
                    ..good.clone()
                },
                "without verify_cafile",
            ),
            (
                Options {
                    verify_mode: Some(Verify::Optional),
                    ..good.clone()
                },
                "without verify_cafile",
            ),
        ];
        good.check().unwrap();
        for (options, problem) in cases {
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn client_ca_makes_client_certificates_optional() {
        let mut options = Options::default();
        assert_eq!(options.verify(), Verify::None);
        options.verify_cadata = Some(Vec::new());
        assert_eq!(options.verify(), Verify::Optional);
        options.verify_mode = Some(Verify::None);
        assert_eq!(options.verify(), Verify::Optional);
        options.verify_mode = Some(Verify::Required);
        assert_eq!(options.verify(), Verify::Required);
    }

    #[test]
    fn passwords_are_absent_from_debug_output() {
        let options = Options {
            password: Some("hunter2".to_owned()),
            ..Options::default()
        };
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
