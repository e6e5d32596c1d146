//! An agent's key pair for secrets: the public half is shown to the server, the private half opens what it sealed.

use std::fmt;

use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, Serializable};
use zeroize::Zeroizing;

/// Why bytes are no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no X25519 key")]
pub struct NotAKey;

/// The public half.
#[derive(Clone)]
pub struct SealingKey(pub(crate) <X25519HkdfSha256 as Kem>::PublicKey);

impl SealingKey {
    pub const BYTES: usize = 32;

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NotAKey> {
        // Zero is a point, but everybody can open what is sealed to it.
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(NotAKey);
        }
        <X25519HkdfSha256 as Kem>::PublicKey::from_bytes(bytes).map(Self).map_err(|_| NotAKey)
    }

    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        self.0.to_bytes().into()
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey")
    }
}

/// The private half. It is not shown, and cannot be copied by accident.
pub struct OpeningKey(pub(crate) <X25519HkdfSha256 as Kem>::PrivateKey);

impl OpeningKey {
    pub const BYTES: usize = 32;

    /// A new one, from the randomness of the system.
    pub fn make() -> Self {
        Self(X25519HkdfSha256::gen_keypair().0)
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NotAKey> {
        <X25519HkdfSha256 as Kem>::PrivateKey::from_bytes(bytes).map(Self).map_err(|_| NotAKey)
    }

    /// To keep it on a disk that only its owner reads.
    pub fn reveal(&self) -> Zeroizing<[u8; Self::BYTES]> {
        Zeroizing::new(self.0.to_bytes().into())
    }

    pub fn sealing_key(&self) -> SealingKey {
        SealingKey(X25519HkdfSha256::sk_to_pk(&self.0))
    }
}

impl fmt::Debug for OpeningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpeningKey(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_and_read_again() {
        let key = OpeningKey::make();
        let again = OpeningKey::from_bytes(&*key.reveal()).unwrap();
        assert_eq!(key.sealing_key().to_bytes(), again.sealing_key().to_bytes());
        let other = SealingKey::from_bytes(&key.sealing_key().to_bytes()).unwrap();
        assert_eq!(other.to_bytes(), key.sealing_key().to_bytes());
        assert_ne!(OpeningKey::make().sealing_key().to_bytes(), key.sealing_key().to_bytes());
        assert_eq!(format!("{key:?} {other:?}"), "OpeningKey(***) SealingKey");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for bytes in [&[][..], &[1; 31], &[1; 33], &[0; 32]] {
            assert_eq!(SealingKey::from_bytes(bytes).map(|_| ()), Err(NotAKey), "{} bytes", bytes.len());
        }
        assert!(OpeningKey::from_bytes(&[1; 31]).is_err());
    }
}
