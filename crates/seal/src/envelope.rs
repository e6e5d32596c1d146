//! The envelope: the values of one run, as JSON, sealed. On the wire it is the encapsulated key and then the sealed text.

use bowline_model::RunId;
use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable, single_shot_open, single_shot_seal};
use zeroize::Zeroizing;

use crate::{OpeningKey, SealingKey, SecretValue, Values};

/// What the key is derived for. Another use of an agent's key would have another one.
const INFO: &[u8] = b"bowline secrets 1";
const ENCAPSULATED_BYTES: usize = 32;

/// For which hand-out the values are: nobody can put an envelope into another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addressed {
    pub run: RunId,
    pub fence: u32,
}

impl Addressed {
    fn bytes(self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..16].copy_from_slice(self.run.as_uuid().as_bytes());
        bytes[16..].copy_from_slice(&self.fence.to_be_bytes());
        bytes
    }
}

/// Values could not be sealed to this key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the secrets cannot be sealed to the agent's key")]
pub struct NotSealed;

/// Why an envelope was not opened. It does not say which part of it was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sealed secrets are not for this agent, this run or this fence, or they were changed on the way")]
pub struct NotOpened;

/// Seals values, for one hand-out of one run, to one agent.
pub fn seal(values: &Values, to: &SealingKey, addressed: Addressed) -> Result<Vec<u8>, NotSealed> {
    let text = write(values)?;
    let (encapsulated, sealed) = single_shot_seal::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
        &OpModeS::Base,
        &to.0,
        INFO,
        &text,
        &addressed.bytes(),
    )
    .map_err(|_| NotSealed)?;
    let mut envelope = encapsulated.to_bytes().to_vec();
    envelope.extend_from_slice(&sealed);
    Ok(envelope)
}

/// Opens an envelope that was made for this hand-out.
pub fn open(envelope: &[u8], with: &OpeningKey, addressed: Addressed) -> Result<Values, NotOpened> {
    let (encapsulated, sealed) = envelope.split_at_checked(ENCAPSULATED_BYTES).ok_or(NotOpened)?;
    let encapsulated = <X25519HkdfSha256 as Kem>::EncappedKey::from_bytes(encapsulated).map_err(|_| NotOpened)?;
    let text = single_shot_open::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
        &OpModeR::Base,
        &with.0,
        &encapsulated,
        INFO,
        sealed,
        &addressed.bytes(),
    )
    .map(Zeroizing::new)
    .map_err(|_| NotOpened)?;
    // serde's strings are made once and moved into their wrapper: no copy is left behind.
    let values: std::collections::BTreeMap<String, String> = serde_json::from_slice(&text).map_err(|_| NotOpened)?;
    Ok(values.into_iter().map(|(name, value)| (name, SecretValue::new(value))).collect())
}

/// As JSON, into memory that never has to grow, so that no half of it is left in freed memory.
fn write(values: &Values) -> Result<Zeroizing<Vec<u8>>, NotSealed> {
    // The longest escape of a byte has six.
    let room = values.iter().map(|(name, value)| 8 + 6 * (name.len() + value.reveal().len())).sum::<usize>() + 2;
    let mut text = Zeroizing::new(Vec::with_capacity(room));
    let shown: std::collections::BTreeMap<&str, &str> =
        values.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
    serde_json::to_writer(&mut *text, &shown).map_err(|_| NotSealed)?;
    debug_assert!(text.len() <= room, "the text grew");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;
    use proptest::prelude::*;

    use super::*;

    fn run(n: u8) -> RunId {
        RunId::mint(Timestamp::from_millis(1_000), [n; 10])
    }

    fn values(value: &str) -> Values {
        [("secret://db".to_owned(), SecretValue::new(value)), ("secret://x".to_owned(), SecretValue::new(""))].into()
    }

    #[test]
    fn only_the_right_agent_opens_it_and_only_for_this_run_and_fence() {
        let (key, other) = (OpeningKey::make(), OpeningKey::make());
        let addressed = Addressed { run: run(1), fence: 3 };
        let envelope = seal(&values("hunter22"), &key.sealing_key(), addressed).unwrap();
        let opened = open(&envelope, &key, addressed).unwrap();
        assert_eq!((opened["secret://db"].reveal(), opened["secret://x"].reveal()), ("hunter22", ""));
        assert_eq!(open(&envelope, &other, addressed).map(|_| ()), Err(NotOpened), "another agent");
        let wrong_run = Addressed { run: run(2), ..addressed };
        assert_eq!(open(&envelope, &key, wrong_run).map(|_| ()), Err(NotOpened), "another run");
        for fence in [0, 2, 4] {
            let wrong_fence = Addressed { fence, ..addressed };
            assert_eq!(open(&envelope, &key, wrong_fence).map(|_| ()), Err(NotOpened), "another fence");
        }
        for length in [0, 1, 31, 32, 33, 47, envelope.len() - 1] {
            assert_eq!(open(&envelope[..length], &key, addressed).map(|_| ()), Err(NotOpened), "cut at {length}");
        }
    }

    #[test]
    fn any_changed_bit_is_noticed() {
        let key = OpeningKey::make();
        let addressed = Addressed { run: run(1), fence: 1 };
        let envelope = seal(&values("hunter22"), &key.sealing_key(), addressed).unwrap();
        for at in 0..envelope.len() {
            for bit in 0..8 {
                // X25519 ignores the highest bit of a public key, so it is bound by the key schedule instead.
                let mut changed = envelope.clone();
                changed[at] ^= 1 << bit;
                assert_eq!(open(&changed, &key, addressed).map(|_| ()), Err(NotOpened), "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn the_value_is_not_in_the_envelope_and_no_two_envelopes_are_alike() {
        let key = OpeningKey::make();
        let addressed = Addressed { run: run(1), fence: 1 };
        let first = seal(&values("hunter22"), &key.sealing_key(), addressed).unwrap();
        let second = seal(&values("hunter22"), &key.sealing_key(), addressed).unwrap();
        assert!(!first.windows(8).any(|part| part == b"hunter22"));
        assert_ne!(first, second);
        assert_ne!(first[..32], second[..32], "each has a key of its own");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_goes_in_comes_out(value in "(?s).{0,200}", fence in any::<u32>()) {
            let key = OpeningKey::make();
            let addressed = Addressed { run: run(7), fence };
            let envelope = seal(&values(&value), &key.sealing_key(), addressed).unwrap();
            let opened = open(&envelope, &key, addressed).unwrap();
            prop_assert_eq!(opened["secret://db"].reveal(), value);
        }
    }
}
