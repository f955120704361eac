//! Encrypted private keys: PKCS #8 with PBES2, the format of OpenSSL 3.
//!
//! Supported are keys derived by PBKDF2, and AES in CBC mode. Older formats (DES, OpenSSL's own
//! format) are rejected with a hint.

use std::num::NonZeroU32;

use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockModeDecrypt, KeyIvInit};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::pbkdf2;
use rustls::pki_types::PrivateKeyDer;
use x509_parser::asn1_rs::{Any, FromDer, Oid, Tag};

const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// Maximum number of PBKDF2 iterations, which takes seconds. The default of OpenSSL is 2,048;
/// several 100,000 are common for long-lived keys.
const MOST_ITERATIONS: u32 = 10_000_000;

/// An encrypted key.
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
    let scheme = Scheme::parse(der)?;
    let plain = scheme.decrypt(password.as_bytes())?;
    // A wrong password produces valid padding once in 256 times.
    let is_key = Any::from_der(&plain)
        .is_ok_and(|(rest, key)| rest.is_empty() && key.header.tag() == Tag::Sequence);
    if !is_key {
        return Err("wrong password");
    }
    Ok(PrivateKeyDer::Pkcs8(plain.into()))
}

/// The parameters of an encrypted key.
struct Scheme<'a> {
    derivation: pbkdf2::Algorithm,
    salt: &'a [u8],
    iterations: NonZeroU32,
    cipher: Cipher,
    iv: &'a [u8],
    data: &'a [u8],
}

#[derive(Clone, Copy)]
enum Cipher {
    Aes128,
    Aes192,
    Aes256,
}

impl<'a> Scheme<'a> {
    fn parse(der: &'a [u8]) -> Result<Self, &'static str> {
        const BROKEN: &str = "invalid PKCS #8 key";
        let mut outer = Fields::within(der).ok_or(BROKEN)?;
        let mut algorithm = outer.fields().ok_or(BROKEN)?;
        let data = outer.take(Tag::OctetString).ok_or(BROKEN)?;
        if algorithm.oid().ok_or(BROKEN)? != "1.2.840.113549.1.5.13" {
            return Err("unsupported encryption: must be PBES2");
        }
        let mut parameters = algorithm.fields().ok_or(BROKEN)?;
        let mut derivation = parameters.fields().ok_or(BROKEN)?;
        let mut encryption = parameters.fields().ok_or(BROKEN)?;
        if derivation.oid().ok_or(BROKEN)? != "1.2.840.113549.1.5.12" {
            return Err("unsupported key derivation: must be PBKDF2");
        }
        let mut parameters = derivation.fields().ok_or(BROKEN)?;
        let salt = parameters.take(Tag::OctetString).ok_or(BROKEN)?;
        let iterations = parameters.number().ok_or(BROKEN)?;
        if iterations.get() > MOST_ITERATIONS {
            return Err("too many iterations of PBKDF2");
        }
        // The length of the key is optional, and implied by the cipher.
        let _ = parameters.take(Tag::Integer);
        let derivation = match parameters.fields().and_then(|mut prf| prf.oid()).as_deref() {
            None | Some("1.2.840.113549.2.7") => pbkdf2::PBKDF2_HMAC_SHA1,
            Some("1.2.840.113549.2.9") => pbkdf2::PBKDF2_HMAC_SHA256,
            Some("1.2.840.113549.2.10") => pbkdf2::PBKDF2_HMAC_SHA384,
            Some("1.2.840.113549.2.11") => pbkdf2::PBKDF2_HMAC_SHA512,
            Some(_) => return Err("unsupported hash of PBKDF2"),
        };
        let cipher = match encryption.oid().ok_or(BROKEN)?.as_str() {
            "2.16.840.1.101.3.4.1.2" => Cipher::Aes128,
            "2.16.840.1.101.3.4.1.22" => Cipher::Aes192,
            "2.16.840.1.101.3.4.1.42" => Cipher::Aes256,
            _ => return Err("unsupported cipher: must be AES in CBC mode"),
        };
        let iv = encryption.take(Tag::OctetString).ok_or(BROKEN)?;
        Ok(Self {
            derivation,
            salt,
            iterations,
            cipher,
            iv,
            data,
        })
    }

    fn decrypt(&self, password: &[u8]) -> Result<Vec<u8>, &'static str> {
        match self.cipher {
            Cipher::Aes128 => self.decrypt_by::<cbc::Decryptor<aes::Aes128>, 16>(password),
            Cipher::Aes192 => self.decrypt_by::<cbc::Decryptor<aes::Aes192>, 24>(password),
            Cipher::Aes256 => self.decrypt_by::<cbc::Decryptor<aes::Aes256>, 32>(password),
        }
    }

    fn decrypt_by<D, const KEY: usize>(&self, password: &[u8]) -> Result<Vec<u8>, &'static str>
    where
        D: BlockModeDecrypt + KeyIvInit,
    {
        let mut key = [0; KEY];
        pbkdf2::derive(
            self.derivation,
            self.iterations,
            self.salt,
            password,
            &mut key,
        );
        let decryptor = D::new_from_slices(&key, self.iv)
            .map_err(|_| "invalid length of the initialization vector")?;
        let mut buffer = self.data.to_vec();
        let length = decryptor
            .decrypt_padded::<Pkcs7>(&mut buffer)
            .map_err(|_| "wrong password")?
            .len();
        buffer.truncate(length);
        Ok(buffer)
    }
}

/// A reader of DER values.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Returns the values of a sequence.
    fn within(der: &'a [u8]) -> Option<Self> {
        Fields(der).fields()
    }

    /// Returns the content of the next value if it has this type; otherwise does not advance.
    fn take(&mut self, tag: Tag) -> Option<&'a [u8]> {
        let (rest, value) = Any::from_der(self.0).ok()?;
        if value.header.tag() != tag {
            return None;
        }
        self.0 = rest;
        Some(value.data)
    }

    fn fields(&mut self) -> Option<Self> {
        self.take(Tag::Sequence).map(Fields)
    }

    fn oid(&mut self) -> Option<String> {
        self.take(Tag::Oid)
            .map(|oid| Oid::new(oid.into()).to_id_string())
    }

    fn number(&mut self) -> Option<NonZeroU32> {
        let bytes = self.take(Tag::Integer)?;
        let number = bytes.iter().try_fold(0_u64, |number, byte| {
            number.checked_mul(256)?.checked_add(u64::from(*byte))
        })?;
        NonZeroU32::new(u32::try_from(number).ok()?)
    }
}

#[cfg(test)]
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
