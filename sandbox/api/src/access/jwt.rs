//! Signed tokens (JWT, ES256) of service accounts, with the claims of a real server.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use serde_json::{Value, json};

use crate::status::{ApiError, Result};

/// Maximum length of a token, in bytes: ten times the size of one with all claims.
const MAX_LENGTH: usize = 16 << 10;

/// The signing key of one sandbox, generated with the first token.
#[derive(Default)]
pub(super) struct Signer {
    key: OnceLock<Option<EcdsaKeyPair>>,
}

impl Signer {
    fn key(&self) -> Option<&EcdsaKeyPair> {
        let made = self.key.get_or_init(|| {
            let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
            let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).ok()?;
            EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).ok()
        });
        made.as_ref()
    }

    /// Signs claims.
    pub(super) fn sign(&self, claims: &Value) -> Result<String> {
        let unavailable = || ApiError::internal("cannot sign tokens");
        let key = self.key().ok_or_else(unavailable)?;
        let header = json!({ "alg": "ES256", "kid": key_id(key) });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(claims));
        let signature = key
            .sign(&SystemRandom::new(), signed.as_bytes())
            .map_err(|_| unavailable())?;
        let signature = URL_SAFE_NO_PAD.encode(signature.as_ref());
        Ok(format!("{signed}.{signature}"))
    }

    /// Returns the claims of a token that was signed by [`sign`](Self::sign).
    pub(super) fn verify(&self, token: &str) -> Option<Value> {
        if token.len() > MAX_LENGTH {
            return None;
        }
        // Without a key, nothing was signed yet.
        let key = self.key.get()?.as_ref()?;
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: Value = serde_json::from_slice(&decoded(header)?).ok()?;
        if header.get("alg").and_then(Value::as_str) != Some("ES256") {
            return None;
        }
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.public_key().as_ref());
        public
            .verify(signed.as_bytes(), &decoded(signature)?)
            .ok()?;
        serde_json::from_slice(&decoded(claims)?).ok()
    }
}

fn key_id(key: &EcdsaKeyPair) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, key.public_key().as_ref());
    URL_SAFE_NO_PAD.encode(digest.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_other_signers_are_rejected() {
        let (signer, other) = (Signer::default(), Signer::default());
        assert_eq!(signer.verify("a.b.c"), None);
        let claims = json!({ "sub": "someone" });
        let token = signer.sign(&claims).unwrap();
        assert_eq!(signer.verify(&token), Some(claims.clone()));
        other.sign(&claims).unwrap();
        assert_eq!(other.verify(&token), None);

        let parts: Vec<&str> = token.split('.').collect();
        let forged = URL_SAFE_NO_PAD.encode(json!({ "sub": "admin" }).to_string());
        assert_eq!(
            signer.verify(&format!("{}.{forged}.{}", parts[0], parts[2])),
            None
        );
        let none = URL_SAFE_NO_PAD.encode(json!({ "alg": "none" }).to_string());
        assert_eq!(signer.verify(&format!("{none}.{}.", parts[1])), None);
        for text in [
            "",
            ".",
            "..",
            "...",
            "a.b",
            &token[1..],
            &"x".repeat(1 << 20),
        ] {
            assert_eq!(signer.verify(text), None, "{text:.20}");
        }
    }
}
