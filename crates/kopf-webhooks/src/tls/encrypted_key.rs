//! Encrypted private keys: PKCS #8 with PBES2, the format of OpenSSL 3.
//!
//! Supported are keys derived by PBKDF2, and AES in CBC mode. Older formats (DES, OpenSSL's own
//! format) are rejected with a hint. Without the feature `encrypted-keys`, all of them are rejected.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::PrivateKeyDer;

const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// An encrypted key in a PEM file.
pub(super) enum Encrypted {
    Pkcs8(Vec<u8>),
    Other(&'static str),
}

/// Returns the encrypted key in PEM data, if there is one.
pub(super) fn find(text: &[u8]) -> Option<Encrypted> {
    let text = std::str::from_utf8(text).ok()?;
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        return Some(Encrypted::Other("unsupported format: OpenSSL's old one"));
    }
    let (_, rest) = text.split_once(BEGIN)?;
    let (body, _) = rest.split_once(END)?;
    let body: String = body.split_whitespace().collect();
    Some(match STANDARD.decode(body) {
        Ok(der) => Encrypted::Pkcs8(der),
        Err(_) => Encrypted::Other("invalid Base64"),
    })
}

/// Decrypts the key. The error is the reason of the failure.
pub(super) fn decrypt(
    key: &Encrypted,
    password: Option<&str>,
) -> Result<PrivateKeyDer<'static>, &'static str> {
    let der = match key {
        Encrypted::Pkcs8(der) => der,
        Encrypted::Other(reason) => return Err(reason),
    };
    let password = password.ok_or("it is encrypted, and the option `password` is not set")?;
    decrypt_pkcs8(der, password)
}

#[cfg(not(feature = "encrypted-keys"))]
fn decrypt_pkcs8(_: &[u8], _: &str) -> Result<PrivateKeyDer<'static>, &'static str> {
    Err("it is encrypted, which requires the feature `encrypted-keys`")
}

#[cfg(feature = "encrypted-keys")]
fn decrypt_pkcs8(der: &[u8], password: &str) -> Result<PrivateKeyDer<'static>, &'static str> {
    use pkcs8::EncryptedPrivateKeyInfoRef;

    /// Maximum number of PBKDF2 iterations, which takes seconds. The default of OpenSSL is 2,048;
    /// several 100,000 are common for long-lived keys.
    const MOST_ITERATIONS: u32 = 10_000_000;

    let key = EncryptedPrivateKeyInfoRef::try_from(der)
        .map_err(|_| "invalid PKCS #8 key, or unsupported cipher: must be AES in CBC mode")?;
    let parameters = key.encryption_algorithm.pbes2();
    let parameters = parameters.ok_or("unsupported encryption: must be PBES2")?;
    let derivation = parameters.kdf.pbkdf2();
    let derivation = derivation.ok_or("unsupported key derivation: must be PBKDF2")?;
    if derivation.iteration_count > MOST_ITERATIONS {
        return Err("too many iterations of PBKDF2");
    }
    // The document is checked to be DER: a wrong password produces valid padding once in 256 times.
    let plain = key.decrypt(password);
    let plain = plain.map_err(|_| "wrong password")?;
    Ok(PrivateKeyDer::Pkcs8(plain.as_bytes().to_vec().into()))
}

#[cfg(all(test, feature = "encrypted-keys"))]
mod tests {
    use super::*;

    // Each by: openssl pkcs8 -topk8 -v2 aes-… -v2prf hmacWith… -passout pass:secret
    const KEYS: [(&str, &str); 4] = [
        (
            "aes-256, sha256",
            include_str!("testdata/aes256-sha256.pem"),
        ),
        ("aes-128, sha1", include_str!("testdata/aes128-sha1.pem")),
        (
            "aes-192, sha512",
            include_str!("testdata/aes192-sha512.pem"),
        ),
        (
            "aes-256, sha384",
            include_str!("testdata/aes256-sha384.pem"),
        ),
    ];
    const PLAIN: &str = include_str!("testdata/plain.pem");

    fn decrypted(text: &str, password: Option<&str>) -> Result<Vec<u8>, &'static str> {
        let key = find(text.as_bytes()).expect("it is encrypted");
        decrypt(&key, password).map(|key| key.secret_der().to_vec())
    }

    #[test]
    fn keys_of_openssl_are_decrypted() {
        use rustls::pki_types::pem::PemObject;

        let plain = PrivateKeyDer::from_pem_slice(PLAIN.as_bytes()).unwrap();
        for (name, text) in KEYS {
            let key = decrypted(text, Some("secret")).unwrap();
            assert_eq!(key, plain.secret_der(), "{name}");
        }
    }

    #[test]
    fn wrong_passwords_are_rejected() {
        for (name, text) in KEYS {
            for password in ["", "Secret", "secret "] {
                let error = decrypted(text, Some(password)).unwrap_err();
                assert_eq!(error, "wrong password", "{name}");
            }
            let error = decrypted(text, None).unwrap_err();
            assert!(error.contains("`password` is not set"), "{error}");
        }
    }

    #[test]
    fn older_formats_are_rejected_with_a_reason() {
        for (text, problem) in [
            (include_str!("testdata/des3.pem"), "AES in CBC mode"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
                "unsupported format",
            ),
        ] {
            let error = decrypted(text, Some("secret")).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn broken_keys_are_errors() {
        let (_, text) = KEYS[0];
        let Some(Encrypted::Pkcs8(der)) = find(text.as_bytes()) else {
            panic!("it is encrypted");
        };
        for length in 0..der.len() {
            let cut = Encrypted::Pkcs8(der[..length].to_vec());
            assert!(decrypt(&cut, Some("secret")).is_err(), "{length}");
        }
        for position in 0..der.len() {
            let mut bent = der.clone();
            bent[position] ^= 0x81;
            // Some changes are not detected here, but none may panic.
            let _ = decrypt(&Encrypted::Pkcs8(bent), Some("secret"));
        }
        assert!(find(PLAIN.as_bytes()).is_none());
    }
}
