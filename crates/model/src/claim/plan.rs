//! How many places each channel gets in the next claim.
//!
//! Lanes share by weight, and every lane that has work gets at least one place; inside a lane, tenants take turns, and
//! inside a tenant its channels do. `turn` moves on with every claim, so that whoever was last is first next time.

use crate::id::TenantId;
use crate::lane::{Lane, LaneWeights};

/// A channel that may have work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelHead {
    pub channel: i64,
    pub lane: Lane,
    pub tenant: TenantId,
}

/// How many runs to take from a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub channel: i64,
    pub take: u32,
}

/// Splits `places` over the channels. The shares are in the order in which they should be asked; what a channel
/// cannot fill, the caller may offer again with that channel left out.
pub fn plan(heads: &[ChannelHead], weights: &LaneWeights, places: u32, turn: u64) -> Vec<Share> {
    let mut shares = Vec::new();
    let lanes: Vec<(Lane, u32)> = Lane::ALL
        .into_iter()
        .filter(|lane| heads.iter().any(|h| h.lane == *lane))
        .map(|lane| (lane, weights.of(lane).max(1)))
        .collect();
    let total: u32 = lanes.iter().map(|(_, weight)| weight).sum();
    if total == 0 {
        return shares;
    }
    // Whole rounds by weight; what is left over goes to the lanes whose place in the round comes next.
    let (rounds, rest) = (places / total, places % total);
    let start = u32::try_from(turn.wrapping_mul(u64::from(rest.max(1))) % u64::from(total)).unwrap_or(0);
    let round = if rest > 0 { round_of(&lanes, total) } else { Vec::new() };
    for (lane, weight) in &lanes {
        let extra = (0..rest).filter(|step| round[((start + step) % total) as usize] == *lane).count();
        let quota = rounds * weight + u32::try_from(extra).unwrap_or(0);
        share_lane(heads, *lane, quota, mix(turn), &mut shares);
    }
    shares
}

/// Whose place each slot of a round is. The lanes are spread over the round instead of standing in blocks: each slot
/// goes to the lane that is furthest behind its due.
fn round_of(lanes: &[(Lane, u32)], total: u32) -> Vec<Lane> {
    let mut given: Vec<u32> = vec![0; lanes.len()];
    let mut round = Vec::with_capacity(total as usize);
    for step in 0..total {
        let behind = |n: usize| i64::from(lanes[n].1) * i64::from(step + 1) - i64::from(given[n]) * i64::from(total);
        let chosen = (0..lanes.len()).rev().max_by_key(|n| behind(*n)).unwrap_or(0);
        given[chosen] += 1;
        round.push(lanes[chosen].0);
    }
    round
}

/// Scatters the turns, so that a lane that is served every so many turns does not meet the same tenant each time.
fn mix(turn: u64) -> u64 {
    let x = turn.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn share_lane(heads: &[ChannelHead], lane: Lane, quota: u32, turn: u64, shares: &mut Vec<Share>) {
    let mut tenants: Vec<TenantId> = heads.iter().filter(|h| h.lane == lane).map(|h| h.tenant).collect();
    tenants.sort_unstable();
    tenants.dedup();
    let count = u64::try_from(tenants.len()).unwrap_or(1).max(1);
    for nth in 0..count {
        let tenant = tenants[usize::try_from((nth + turn % count) % count).unwrap_or(0)];
        let portion = portion(quota, nth, count);
        if portion == 0 {
            continue;
        }
        let channels: Vec<i64> =
            heads.iter().filter(|h| h.lane == lane && h.tenant == tenant).map(|h| h.channel).collect();
        let width = channels.len() as u64;
        for inner in 0..width {
            let take = self::portion(portion, inner, width);
            if take > 0 {
                let channel = channels[usize::try_from((inner + (turn >> 20) % width) % width).unwrap_or(0)];
                shares.push(Share { channel, take });
            }
        }
    }
}

/// The `nth` of `count` nearly equal parts of `whole`; the first ones take the remainder.
fn portion(whole: u32, nth: u64, count: u64) -> u32 {
    let whole = u64::from(whole);
    u32::try_from(whole / count + u64::from(nth < whole % count)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::time::Timestamp;

    fn tenant(n: u8) -> TenantId {
        TenantId::mint(Timestamp::from_millis(1), [n; 10])
    }

    fn head(channel: i64, lane: Lane, owner: u8) -> ChannelHead {
        ChannelHead { channel, lane, tenant: tenant(owner) }
    }

    fn heads() -> impl Strategy<Value = Vec<ChannelHead>> {
        prop::collection::vec((0usize..4, 0u8..5), 1..20).prop_map(|list| {
            list.into_iter().enumerate().map(|(n, (lane, owner))| head(n as i64, Lane::ALL[lane], owner)).collect()
        })
    }

    proptest! {
        #[test]
        fn a_plan_gives_away_exactly_the_places(heads in heads(), places in 1u32..500, turn: u64) {
            let shares = plan(&heads, &LaneWeights::default(), places, turn);
            prop_assert_eq!(shares.iter().map(|s| s.take).sum::<u32>(), places);
        }

        #[test]
        fn nobody_starves(heads in heads(), places in 1u32..6) {
            let mut seen: BTreeMap<i64, u32> = BTreeMap::new();
            for turn in 0..2_000 {
                for share in plan(&heads, &LaneWeights::default(), places, turn) {
                    *seen.entry(share.channel).or_default() += share.take;
                }
            }
            for head in &heads {
                prop_assert!(seen.contains_key(&head.channel), "{head:?} never had a turn");
            }
        }
    }

    #[test]
    fn lanes_share_by_weight() {
        let heads =
            [head(1, Lane::Critical, 1), head(2, Lane::Webhook, 1), head(3, Lane::Default, 1), head(4, Lane::Low, 1)];
        let shares = plan(&heads, &LaneWeights::default(), 160, 0);
        let takes: Vec<_> = shares.iter().map(|s| (s.channel, s.take)).collect();
        assert_eq!(takes, [(1, 80), (2, 40), (3, 30), (4, 10)]);
    }

    #[test]
    fn lanes_are_spread_over_a_round() {
        let lanes = Lane::ALL.map(|lane| (lane, LaneWeights::default().of(lane)));
        let letters = |lane: &Lane| lane.as_str()[..1].to_owned();
        assert_eq!(round_of(&lanes, 16).iter().map(letters).collect::<String>(), "cwdccwcdlcwccdwc");
        let two = [(Lane::Critical, 8), (Lane::Low, 1)];
        assert_eq!(round_of(&two, 9).iter().map(letters).collect::<String>(), "cccclcccc");
    }

    #[test]
    fn claims_of_any_size_go_through_the_round_place_by_place() {
        let heads: Vec<_> = (0..).zip(Lane::ALL).map(|(n, lane)| head(n, lane, 1)).collect();
        let lanes = Lane::ALL.map(|lane| (lane, LaneWeights::default().of(lane)));
        let round = round_of(&lanes, 16);
        for places in 1..16_usize {
            for turn in 0..32_usize {
                let mut wanted: BTreeMap<Lane, u32> = BTreeMap::new();
                for place in turn * places..(turn + 1) * places {
                    *wanted.entry(round[place % 16]).or_default() += 1;
                }
                let shares = plan(&heads, &LaneWeights::default(), places as u32, turn as u64);
                let taken = shares.iter().map(|share| (Lane::ALL[share.channel as usize], share.take));
                assert_eq!(taken.collect::<BTreeMap<Lane, u32>>(), wanted, "turn {turn} of {places} places");
            }
        }
    }

    #[test]
    fn turns_are_scattered_as_splitmix64_does() {
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        let known = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f, 0xf88b_b8a8_724c_81ec];
        assert_eq!([0, 1, 2, 3].map(|n| mix(step.wrapping_mul(n))), known);
    }

    #[test]
    fn parts_are_nearly_equal_and_the_first_are_the_larger_ones() {
        let parts = |whole: u32, count: u64| (0..count).map(|nth| portion(whole, nth, count)).collect::<Vec<_>>();
        assert_eq!(parts(11, 3), [4, 4, 3]);
        assert_eq!(parts(9, 3), [3, 3, 3]);
        assert_eq!(parts(2, 3), [1, 1, 0]);
    }

    #[test]
    fn the_channels_of_a_tenant_take_turns() {
        let heads: Vec<_> = (0..3).map(|n| head(n, Lane::Default, 1)).collect();
        let mut first = BTreeMap::new();
        for turn in 0..300 {
            let shares = plan(&heads, &LaneWeights::default(), 4, turn);
            assert_eq!(shares.iter().map(|share| share.take).collect::<Vec<_>>(), [2, 1, 1]);
            *first.entry(shares[0].channel).or_insert(0_u32) += 1;
        }
        assert!(first.len() == 3 && first.values().all(|times| *times > 50), "{first:?}");
    }

    #[test]
    fn nobody_gets_anything_where_nobody_waits() {
        assert_eq!(plan(&[], &LaneWeights::default(), 10, 3), []);
        assert_eq!(plan(&[head(1, Lane::Low, 1)], &LaneWeights::default(), 0, 3), []);
    }

    #[test]
    fn tenants_share_a_lane_equally_however_many_channels_one_has() {
        let mut heads: Vec<_> = (0..9).map(|n| head(n, Lane::Default, 1)).collect();
        heads.push(head(100, Lane::Default, 2));
        let shares = plan(&heads, &LaneWeights::default(), 20, 0);
        let second: u32 = shares.iter().filter(|s| s.channel == 100).map(|s| s.take).sum();
        assert_eq!(second, 10);
    }
}
