//! A chain of records, and the walk along it that names the first bad place.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use super::digest::Digest;
use super::head::Head;
use super::record::AuditRecord;
use crate::id::{NotAnId, TenantId};

/// Which chain: a tenant's, or the one of what belongs to no tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chain {
    System,
    Tenant(TenantId),
}

const SYSTEM: Uuid = Uuid::nil();

impl Chain {
    pub fn of(tenant: Option<TenantId>) -> Self {
        tenant.map_or(Self::System, Self::Tenant)
    }

    /// The id it has in the ledger: the tenant's, or zeros.
    pub const fn as_uuid(&self) -> &Uuid {
        match self {
            Self::System => &SYSTEM,
            Self::Tenant(tenant) => tenant.as_uuid(),
        }
    }

    pub fn from_uuid(uuid: Uuid) -> Self {
        if uuid.is_nil() { Self::System } else { Self::Tenant(TenantId::from_uuid(uuid)) }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.as_uuid().as_bytes()
    }
}

/// `system`, or the tenant's id.
impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system"),
            Self::Tenant(tenant) => tenant.fmt(f),
        }
    }
}

impl FromStr for Chain {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        if text == "system" { Ok(Self::System) } else { text.parse().map(Self::Tenant) }
    }
}

impl Serialize for Chain {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Chain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Chain {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AuditChain".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "description": "A tenant's id, or `system`"})
    }
}

/// What is wrong with a chain, at its first bad place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    #[error("record {0} is missing")]
    Missing(u64),
    #[error("record {0} stands where record {1} should")]
    OutOfOrder(u64, u64),
    #[error("record {0} does not follow the one before it")]
    Unlinked(u64),
    #[error("record {0} was changed")]
    Changed(u64),
    #[error("record {0} is not the one whose head was signed")]
    OtherHead(u64),
    #[error("the chain ends with record {last}, yet there was a record {head}: records {} to {head} are missing", last + 1)]
    CutOff { last: u64, head: u64 },
}

/// A walk along a chain, record by record. A chain of any length needs no more memory than its last link.
#[derive(Debug, Clone)]
pub struct ChainWalk {
    chain: Chain,
    last: u64,
    hash: Digest,
    /// Heads that must be met, the nearest last.
    heads: Vec<Head>,
}

impl ChainWalk {
    /// Before the first record. `heads` are those somebody vouches for; heads of other chains are passed over.
    pub fn new(chain: Chain, heads: impl IntoIterator<Item = Head>) -> Self {
        let mut heads: Vec<Head> = heads.into_iter().filter(|head| head.chain == chain && head.number > 0).collect();
        heads.sort_by_key(|head| std::cmp::Reverse(head.number));
        Self { chain, last: 0, hash: Digest::NONE, heads }
    }

    /// Takes the next record, or says what is wrong with it.
    pub fn step(&mut self, record: &AuditRecord) -> Result<(), ChainFault> {
        let expected = self.last + 1;
        if record.number > expected {
            return Err(ChainFault::Missing(expected));
        }
        if record.number < expected {
            return Err(ChainFault::OutOfOrder(record.number, expected));
        }
        if record.hash_in(self.chain) != record.hash {
            return Err(ChainFault::Changed(expected));
        }
        if record.prev != self.hash {
            return Err(ChainFault::Unlinked(expected));
        }
        while let Some(head) = self.heads.pop_if(|head| head.number == expected) {
            if head.hash != record.hash {
                return Err(ChainFault::OtherHead(expected));
            }
        }
        self.last = expected;
        self.hash = record.hash;
        Ok(())
    }

    /// After the last record: where the chain ends, unless somebody vouched for more.
    pub fn finish(&self) -> Result<(u64, Digest), ChainFault> {
        match self.heads.first() {
            Some(head) => Err(ChainFault::CutOff { last: self.last, head: head.number }),
            None => Ok((self.last, self.hash)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::audit::{Action, Deed};
    use crate::time::Timestamp;

    fn tenant() -> Chain {
        Chain::Tenant(TenantId::mint(Timestamp::from_millis(1), [1; 10]))
    }

    fn chain_of(count: u64) -> Vec<AuditRecord> {
        let mut records: Vec<AuditRecord> = Vec::new();
        for number in 1..=count {
            let deed = Deed {
                chain: tenant(),
                author: "token:1".into(),
                action: Action::JobCancel,
                resource: format!("job/{number}"),
                diff: None,
                reason: Some("because".to_owned()),
                result: "done".to_owned(),
            };
            let prev = records.last().map_or(Digest::NONE, |record| record.hash);
            records.push(AuditRecord::seal(&deed, number, prev, Timestamp::from_millis(number as i64)));
        }
        records
    }

    fn walk(records: &[AuditRecord], heads: &[Head]) -> Result<u64, ChainFault> {
        let mut walk = ChainWalk::new(tenant(), heads.iter().copied());
        records.iter().try_for_each(|record| walk.step(record))?;
        walk.finish().map(|(last, _)| last)
    }

    fn head_of(record: &AuditRecord) -> Head {
        Head { chain: tenant(), number: record.number, hash: record.hash, at: record.at }
    }

    /// B101, in all four ways, and the first bad place is named.
    #[test]
    fn every_sort_of_damage_is_named() {
        let good = chain_of(30);
        let head = head_of(&good[29]);
        assert_eq!(walk(&good, &[head, head_of(&good[9])]), Ok(30));
        assert_eq!(walk(&[], &[]), Ok(0), "nothing happened yet");

        let mut changed = good.clone();
        changed[6].reason = None;
        assert_eq!(walk(&changed, &[]), Err(ChainFault::Changed(7)));

        let mut removed = good.clone();
        removed.remove(6);
        assert_eq!(walk(&removed, &[]), Err(ChainFault::Missing(7)));

        assert_eq!(walk(&good[..20], &[]), Ok(20), "a chain alone cannot know that it was longer");
        let cut = walk(&good[..20], &[head]).unwrap_err();
        assert_eq!(cut, ChainFault::CutOff { last: 20, head: 30 });
        assert_eq!(
            cut.to_string(),
            "the chain ends with record 20, yet there was a record 30: records 21 to 30 are missing"
        );

        let mut swapped = good.clone();
        swapped.swap(6, 11);
        assert_eq!(walk(&swapped, &[]), Err(ChainFault::Missing(7)));
        let numbers = (swapped[6].number, swapped[11].number);
        (swapped[6].number, swapped[11].number) = (numbers.1, numbers.0);
        assert_eq!(walk(&swapped, &[]), Err(ChainFault::Changed(7)), "with their numbers made to fit, too");

        let mut twice = good.clone();
        twice.insert(7, good[6].clone());
        assert_eq!(walk(&twice, &[]), Err(ChainFault::OutOfOrder(7, 8)));
    }

    /// Whoever can write everything can make a chain that is sound in itself. Somebody else's memory of a head shows it.
    #[test]
    fn a_chain_made_anew_is_found_out_by_a_head() {
        let good = chain_of(30);
        let mut forged = good[..6].to_vec();
        for number in 7..=30 {
            let deed = Deed {
                chain: tenant(),
                author: "token:2".into(),
                action: Action::JobCancel,
                resource: "job/none".to_owned(),
                diff: None,
                reason: None,
                result: "done".to_owned(),
            };
            let prev = forged.last().map_or(Digest::NONE, |record: &AuditRecord| record.hash);
            forged.push(AuditRecord::seal(&deed, number, prev, Timestamp::from_millis(1)));
        }
        assert_eq!(walk(&forged, &[]), Ok(30), "sound in itself");
        assert_eq!(walk(&forged, &[head_of(&good[11]), head_of(&good[29])]), Err(ChainFault::OtherHead(12)));
        let mut relinked = good.clone();
        relinked[6].prev = good[0].hash;
        relinked[6].hash = relinked[6].hash_in(tenant());
        assert_eq!(walk(&relinked, &[]), Err(ChainFault::Unlinked(7)));
    }

    #[test]
    fn a_record_belongs_to_one_chain() {
        let good = chain_of(3);
        let mut elsewhere = ChainWalk::new(Chain::System, [head_of(&good[2])]);
        assert_eq!(elsewhere.finish(), Ok((0, Digest::NONE)), "heads of other chains are passed over");
        assert_eq!(elsewhere.step(&good[0]), Err(ChainFault::Changed(1)));
    }

    /// Others may have stored these by now: the form in which a record is hashed never changes.
    #[test]
    fn the_canonical_form_stays_as_it_is() {
        let record = &chain_of(1)[0];
        assert_eq!(record.hash.to_string(), "2d9b7e473f73b458ec39d99d5b3a93f69fc22c632857965b2327817de362ac38");
    }

    #[test]
    fn chains_print_and_parse() {
        for chain in [Chain::System, tenant()] {
            assert_eq!(chain.to_string().parse(), Ok(chain));
            assert_eq!(Chain::from_uuid(*chain.as_uuid()), chain);
        }
        assert!("nobody".parse::<Chain>().is_err());
    }

    fn any_text() -> impl Strategy<Value = Option<String>> {
        prop::option::of("[a-c0-9]{0,3}")
    }

    proptest! {
        /// No two different records have one canonical form, wherever one text ends and the next begins.
        #[test]
        fn different_records_have_different_hashes(
            one in (any_text(), any_text(), any_text(), "[a-c]{0,2}", "[a-c]{0,2}"),
            two in (any_text(), any_text(), any_text(), "[a-c]{0,2}", "[a-c]{0,2}"),
        ) {
            let with = |texts: &(Option<String>, Option<String>, Option<String>, String, String)| {
                let (diff, reason, ip, resource, result) = texts.clone();
                AuditRecord { diff, reason, ip, resource, result, ..chain_of(1).remove(0) }.hash_in(tenant())
            };
            prop_assert_eq!(with(&one) == with(&two), one == two);
        }
    }
}
