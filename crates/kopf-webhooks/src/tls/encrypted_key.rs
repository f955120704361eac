//! Private keys with a password: PKCS #8 with PBES2, which is what OpenSSL 3 writes.
//!
//! Only what is in use today: a key derived by PBKDF2, and AES in CBC mode. What is older (keys
//! encrypted by DES, keys by OpenSSL's own format) is refused with a hint.

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

/// How often a password is stirred at most. OpenSSL does it 2,048 times, and careful people several
/// 100,000 times; this takes seconds.
const MOST_ITERATIONS: u32 = 10_000_000;

/// An encrypted key as it was found.
pub(super) enum Encrypted {
    Pkcs8(Vec<u8>),
    Other(&'static str),
}

/// The encrypted key of a text, if there is one.
pub(super) fn find(text: &[u8]) -> Option<Encrypted> {
    let text = std::str::from_utf8(text).ok()?;
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        return Some(Encrypted::Other("it has OpenSSL's old format"));
    }
    let (_, rest) = text.split_once(BEGIN)?;
    let (body, _) = rest.split_once(END)?;
    let body: String = body.split_whitespace().collect();
    Some(match STANDARD.decode(body) {
        Ok(der) => Encrypted::Pkcs8(der),
        Err(_) => Encrypted::Other("it is not valid base64"),
    })
}

/// The key itself, or the reason why it cannot be had.
pub(super) fn decrypt(
    key: &Encrypted,
    password: Option<&str>,
) -> Result<PrivateKeyDer<'static>, &'static str> {
    let der = match key {
        Encrypted::Pkcs8(der) => der,
        Encrypted::Other(reason) => return Err(reason),
    };
    let password = password.ok_or("it has a password, and none is given by `password`")?;
    let scheme = Scheme::parse(der)?;
    let plain = scheme.decrypt(password.as_bytes())?;
    // A wrong password passes the check of the padding once in 256 times.
    let is_key = Any::from_der(&plain)
        .is_ok_and(|(rest, key)| rest.is_empty() && key.header.tag() == Tag::Sequence);
    if !is_key {
        return Err("the password is wrong");
    }
    Ok(PrivateKeyDer::Pkcs8(plain.into()))
}

/// What an encrypted key says about itself.
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
        const BROKEN: &str = "it is not a valid PKCS #8 key";
        let mut outer = Fields::within(der).ok_or(BROKEN)?;
        let mut algorithm = outer.fields().ok_or(BROKEN)?;
        let data = outer.take(Tag::OctetString).ok_or(BROKEN)?;
        if algorithm.oid().ok_or(BROKEN)? != "1.2.840.113549.1.5.13" {
            return Err("it is not encrypted by PBES2");
        }
        let mut parameters = algorithm.fields().ok_or(BROKEN)?;
        let mut derivation = parameters.fields().ok_or(BROKEN)?;
        let mut encryption = parameters.fields().ok_or(BROKEN)?;
        if derivation.oid().ok_or(BROKEN)? != "1.2.840.113549.1.5.12" {
            return Err("its password is not stirred by PBKDF2");
        }
        let mut stirring = derivation.fields().ok_or(BROKEN)?;
        let salt = stirring.take(Tag::OctetString).ok_or(BROKEN)?;
        let iterations = stirring.number().ok_or(BROKEN)?;
        if iterations.get() > MOST_ITERATIONS {
            return Err("its password is stirred too often");
        }
        // The length of the key is optional, and the cipher says it anyway.
        let _ = stirring.take(Tag::Integer);
        let derivation = match stirring.fields().and_then(|mut prf| prf.oid()).as_deref() {
            None | Some("1.2.840.113549.2.7") => pbkdf2::PBKDF2_HMAC_SHA1,
            Some("1.2.840.113549.2.9") => pbkdf2::PBKDF2_HMAC_SHA256,
            Some("1.2.840.113549.2.10") => pbkdf2::PBKDF2_HMAC_SHA384,
            Some("1.2.840.113549.2.11") => pbkdf2::PBKDF2_HMAC_SHA512,
            Some(_) => return Err("its password is stirred by an unknown hash"),
        };
        let cipher = match encryption.oid().ok_or(BROKEN)?.as_str() {
            "2.16.840.1.101.3.4.1.2" => Cipher::Aes128,
            "2.16.840.1.101.3.4.1.22" => Cipher::Aes192,
            "2.16.840.1.101.3.4.1.42" => Cipher::Aes256,
            _ => return Err("it is not encrypted by AES in CBC mode"),
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
            .map_err(|_| "its initialization vector has another length")?;
        let mut buffer = self.data.to_vec();
        let length = decryptor
            .decrypt_padded::<Pkcs7>(&mut buffer)
            .map_err(|_| "the password is wrong")?
            .len();
        buffer.truncate(length);
        Ok(buffer)
    }
}

/// Reads values in DER, one after another.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The values of the sequence that this is.
    fn within(der: &'a [u8]) -> Option<Self> {
        Fields(der).fields()
    }

    /// The content of the next value, if it is of this type; otherwise it stays.
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
    fn other_passwords_are_refused() {
        for (name, text) in KEYS {
            for password in ["", "Secret", "secret "] {
                let error = decrypted(text, Some(password)).unwrap_err();
                assert_eq!(error, "the password is wrong", "{name}");
            }
            let error = decrypted(text, None).unwrap_err();
            assert!(error.contains("none is given"), "{error}");
        }
    }

    #[test]
    fn what_is_older_is_refused_with_the_reason() {
        for (text, problem) in [
            (include_str!("testdata/des3.pem"), "AES in CBC mode"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
                "old format",
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
            // Some changes are not noticed here, but none is the end.
            let _ = decrypt(&Encrypted::Pkcs8(bent), Some("secret"));
        }
        assert!(find(PLAIN.as_bytes()).is_none());
    }
}
