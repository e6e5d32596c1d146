//! Cursors: opaque, bound to the tenant and the list they came from, and not to be forged.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline_model::{ResourceName, TenantId};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::problem::Problem;

/// What cursors are sealed with. Made anew with each data directory.
#[derive(Clone)]
pub struct CursorKey([u8; 32]);

impl std::fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CursorKey(***)")
    }
}

const SEAL: usize = 12;
/// The longest place is the name of a host, of 253 bytes; in base64 it grows by a third.
const TEXT_MAX: usize = 512;

impl CursorKey {
    pub const fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    fn seal(&self, list: &str, tenant: TenantId, place: &str) -> [u8; SEAL] {
        // HMAC by hand: two nested hashes, each part preceded by its length.
        let inner = |pad: u8, parts: &[&[u8]]| {
            let mut hasher = Sha256::new();
            let mut block = [pad; 64];
            block.iter_mut().zip(self.0).for_each(|(b, k)| *b ^= k);
            hasher.update(block);
            for part in parts {
                hasher.update((part.len() as u64).to_be_bytes());
                hasher.update(part);
            }
            <[u8; 32]>::from(hasher.finalize())
        };
        let first = inner(0x36, &[list.as_bytes(), tenant.as_uuid().as_bytes(), place.as_bytes()]);
        let second = inner(0x5c, &[&first]);
        let mut seal = [0; SEAL];
        seal.copy_from_slice(&second[..SEAL]);
        seal
    }

    pub fn write(&self, list: &str, tenant: TenantId, place: &str) -> String {
        let mut bytes = self.seal(list, tenant, place).to_vec();
        bytes.extend_from_slice(place.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The name after which a page of resources begins, if it is not the first page.
    pub fn read_name(&self, list: &str, tenant: TenantId, text: Option<&str>) -> Result<Option<ResourceName>, Problem> {
        let Some(text) = text else { return Ok(None) };
        ResourceName::new(&self.read(list, tenant, text)?).map(Some).map_err(Problem::validation)
    }

    pub fn read(&self, list: &str, tenant: TenantId, text: &str) -> Result<String, Problem> {
        let bad = || Problem::validation("the cursor does not belong to this list");
        if text.len() > TEXT_MAX {
            return Err(bad());
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| bad())?;
        let (seal, place) = bytes.split_at_checked(SEAL).ok_or_else(bad)?;
        let place = std::str::from_utf8(place).map_err(|_| bad())?;
        if bool::from(self.seal(list, tenant, place).ct_eq(seal)) { Ok(place.to_owned()) } else { Err(bad()) }
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_own_list_and_tenant_only() {
        let key = CursorKey::new([7; 32]);
        let (one, other) =
            (TenantId::mint(Timestamp::from_millis(1), [1; 10]), TenantId::mint(Timestamp::from_millis(1), [2; 10]));
        let cursor = key.write("jobs", one, "place");
        assert_eq!(key.read("jobs", one, &cursor).unwrap(), "place");
        assert!(key.read("jobs", other, &cursor).is_err());
        assert!(key.read("events", one, &cursor).is_err());
        for n in 0..cursor.len() {
            let mut flipped = cursor.clone().into_bytes();
            flipped[n] = if flipped[n] == b'A' { b'B' } else { b'A' };
            let flipped = String::from_utf8(flipped).unwrap();
            assert!(flipped == cursor || key.read("jobs", one, &flipped).is_err());
        }
    }
}
