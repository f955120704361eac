//! Failures of TLS verification.
//!
//! CAs and client certificates are replaced from time to time. Those in memory are outdated then,
//! and connecting fails until they are read again.

use std::error::Error;
use std::io;

use rustls::AlertDescription as Alert;

/// Returns `true` if one side rejects the certificate of the other.
pub(crate) fn is_distrust(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return matches!(
                error,
                rustls::Error::InvalidCertificate(_)
                    | rustls::Error::AlertReceived(
                        Alert::BadCertificate
                            | Alert::CertificateExpired
                            | Alert::CertificateRevoked
                            | Alert::CertificateRequired
                            | Alert::CertificateUnknown
                            | Alert::UnknownCA
                    )
            );
        }
        // The inner error of an I/O error is not its source.
        let within = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        cause = match within {
            Some(within) => Some(within as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use rustls::CertificateError;

    use super::*;

    #[test]
    fn nested_causes_are_found() {
        let unknown = || rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        assert!(is_distrust(&unknown()));
        assert!(is_distrust(&io::Error::other(io::Error::other(unknown()))));
        let alert = rustls::Error::AlertReceived(Alert::UnknownCA);
        assert!(is_distrust(&io::Error::other(alert)));
        assert!(!is_distrust(&rustls::Error::AlertReceived(
            Alert::InternalError
        )));
        assert!(!is_distrust(&io::Error::from(
            io::ErrorKind::ConnectionReset
        )));
    }
}
