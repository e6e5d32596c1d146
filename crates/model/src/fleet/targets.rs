//! The hosts of a job, as the ledger keeps them: their numbers, in the order they are begun, small.
//!
//! Each number is written as its difference to the one before, in as few bytes as it needs: hosts that were imported
//! together take one byte each.

/// Why bytes are not a list of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a list of hosts is cut off or damaged")]
pub struct DamagedTargets;

pub fn write_targets(hosts: &[i64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(hosts.len() + 8);
    let mut before = 0i64;
    for host in hosts {
        let step = host.wrapping_sub(before);
        before = *host;
        // Small steps in either direction are small numbers.
        let mut rest = ((step << 1) ^ (step >> 63)).cast_unsigned();
        while rest >= 0x80 {
            bytes.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    bytes
}

pub fn read_targets(bytes: &[u8]) -> Result<Vec<i64>, DamagedTargets> {
    let mut hosts = Vec::with_capacity(bytes.len());
    let (mut before, mut rest, mut shift) = (0i64, 0u64, 0u32);
    for byte in bytes {
        if shift > 63 {
            return Err(DamagedTargets);
        }
        rest |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            let step = (rest >> 1).cast_signed() ^ -((rest & 1).cast_signed());
            before = before.wrapping_add(step);
            hosts.push(before);
            (rest, shift) = (0, 0);
        }
    }
    if shift == 0 { Ok(hosts) } else { Err(DamagedTargets) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(hosts in prop::collection::vec(any::<i64>(), 0..50)) {
            prop_assert_eq!(read_targets(&write_targets(&hosts)), Ok(hosts));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            let _ = read_targets(&bytes);
        }
    }

    #[test]
    fn neighbours_take_a_byte_each() {
        let hosts: Vec<i64> = (1_000_000..1_010_000).collect();
        assert!(write_targets(&hosts).len() < 10_010);
    }
}
