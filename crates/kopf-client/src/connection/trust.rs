//! Connections that fail because of certificates.
//!
//! Authorities are replaced from time to time, and so are the certificates of clients. Whoever has read
//! theirs before that has to read them again: the same attempt fails for as long as it is made.

use std::error::Error;
use std::io;

use rustls::AlertDescription as Alert;

/// Whether one side does not accept the certificate of the other.
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
        // Errors of input and output do not count what is in them among their sources.
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
    fn reasons_are_found_wherever_they_are() {
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
