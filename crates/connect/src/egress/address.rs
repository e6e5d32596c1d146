//! Which addresses are out in the public, and which are not. A pure judgement about one address.
//!
//! *Closed* is what belongs to this machine, to somebody's own network, to many at once, or to nobody. Of IPv6 only
//! `2000::/3` is given out to the public, so everything else is closed, whatever it will be used for. Some IPv6
//! addresses *carry* an IPv4 address, to which a translator or tunnel passes on what is sent; those are as good or bad as
//! what they carry.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What sort of address it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sort {
    Public,
    Closed,
    /// Judge these instead. Every one of them must be good, and there must be one.
    Carries(Vec<Ipv4Addr>),
}

pub fn sort(address: IpAddr) -> Sort {
    match address {
        IpAddr::V4(v4) if is_closed(v4) => Sort::Closed,
        IpAddr::V4(_) => Sort::Public,
        IpAddr::V6(v6) => sort_v6(v6),
    }
}

const fn is_closed(v4: Ipv4Addr) -> bool {
    matches!(
        v4.octets(),
        [0 | 10 | 127 | 224..=255, ..] // this network, private, loopback, multicast and reserved
            | [100, 64..=127, ..] // behind a provider's translator; clouds keep their metadata here, too
            | [169, 254, ..] // link-local, with the metadata of most clouds
            | [172, 16..=31, ..]
            | [192, 0, 0 | 2, _] // protocol assignments, documentation
            | [192, 88, 99, _] // 6to4 relays
            | [192, 168, ..]
            | [198, 18..=19, ..] // benchmarks
            | [198, 51, 100, _] // documentation
            | [203, 0, 113, _] // documentation
    )
}

fn sort_v6(v6: Ipv6Addr) -> Sort {
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => carried(v6, &[[12, 13, 14, 15]]),
        // Whoever runs such a translator chose how long its prefix is, and with it where the IPv4 address stands (RFC 6052:
        // 48, 56, 64 or 96 bits, with byte 8 left out). We cannot know, so every reading must be good.
        [0x64, 0xff9b, 1, ..] => {
            carried(v6, &[[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], [12, 13, 14, 15]])
        }
        [0x2002, ..] => carried(v6, &[[2, 3, 4, 5]]),
        [0x2001, 0..=0x1ff, ..] // protocol assignments: Teredo, benchmarks, overlays
        | [0x2001, 0xdb8, ..] // documentation
        | [0x3fff, 0..=0xfff, ..] /* documentation */ => Sort::Closed,
        [0x2000..=0x3fff, ..] => Sort::Public,
        // Loopback, private, link-local, multicast, what translators and routers use among themselves, and what was never
        // given out.
        _ => Sort::Closed,
    }
}

/// The IPv4 addresses at these bytes. One that begins with zero is nobody's: it is an empty place, not a reading.
fn carried(v6: Ipv6Addr, places: &[[usize; 4]]) -> Sort {
    let bytes = v6.octets();
    let read = places.iter().map(|place| Ipv4Addr::from(place.map(|byte| bytes[byte])));
    Sort::Carries(read.filter(|v4| v4.octets()[0] != 0).collect())
}

#[cfg(test)]
mod tests {
    use ipnet::IpNet;
    use proptest::prelude::*;

    use super::*;

    /// Ranges that are closed, as the registries list them: all there are of IPv4 and within `2000::/3`, and samples of the rest.
    const CLOSED: [&str; 30] = [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/96",
        "::ffff:0:0:0/96",
        "100::/64",
        "100:0:0:1::/64",
        "2001::/23",
        "2001:2::/48",
        "2001:db8::/32",
        "3fff::/20",
        "4000::/3",
        "5f00::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
        "255.255.255.255/32",
    ];

    fn closed() -> Vec<IpNet> {
        CLOSED.iter().map(|text| text.parse().expect("a network")).collect()
    }

    fn before(address: IpAddr) -> Option<IpAddr> {
        match address {
            IpAddr::V4(a) => u32::from(a).checked_sub(1).map(|n| Ipv4Addr::from(n).into()),
            IpAddr::V6(a) => u128::from(a).checked_sub(1).map(|n| Ipv6Addr::from(n).into()),
        }
    }

    fn after(address: IpAddr) -> Option<IpAddr> {
        match address {
            IpAddr::V4(a) => u32::from(a).checked_add(1).map(|n| Ipv4Addr::from(n).into()),
            IpAddr::V6(a) => u128::from(a).checked_add(1).map(|n| Ipv6Addr::from(n).into()),
        }
    }

    #[test]
    fn every_range_is_closed_from_its_first_to_its_last_address_and_no_further() {
        let nets = closed();
        let mut beyond = 0;
        for net in &nets {
            for inside in [net.network(), net.broadcast()] {
                assert_eq!(sort(inside), Sort::Closed, "{inside} in {net}");
            }
            let neighbours = [before(net.network()), after(net.broadcast())].into_iter().flatten();
            let given_out = |address: &IpAddr| {
                address.is_ipv4() || "2000::/3".parse::<IpNet>().expect("a network").contains(address)
            };
            let open = |address: &IpAddr| given_out(address) && !nets.iter().any(|net| net.contains(address));
            for outside in neighbours.filter(open) {
                assert_ne!(sort(outside), Sort::Closed, "{outside} beside {net}");
                beyond += 1;
            }
        }
        assert!(beyond > 20, "{beyond} neighbours were looked at");
    }

    #[test]
    fn what_is_out_there_is_public() {
        for text in ["1.1.1.1", "8.8.8.8", "100.63.255.255", "172.32.0.0", "192.0.1.1", "223.255.255.255"] {
            assert_eq!(sort(text.parse().unwrap()), Sort::Public, "{text}");
        }
        for text in ["2606:4700:4700::1111", "2a00:1450:4001::1", "2001:4860:4860::8888", "2001:200::1", "3ffe::1"] {
            assert_eq!(sort(text.parse().unwrap()), Sort::Public, "{text}");
        }
    }

    /// Found public by an attack: IPv4 behind a stateless translator, and networks that nobody is reached in.
    #[test]
    fn what_is_not_given_out_is_closed() {
        for text in [
            "::ffff:0:127.0.0.1",
            "::ffff:0:a9fe:a9fe",
            "::1:0:0:1",
            "200::1",
            "1fff::1",
            "2001:2::1",
            "2001:1ff:ffff::1",
            "3fff::1",
            "3fff:fff::1",
            "4000::1",
            "5f00::1",
            "e000::1",
            "fbff::1",
        ] {
            assert_eq!(sort(text.parse().unwrap()), Sort::Closed, "{text}");
        }
    }

    #[test]
    fn what_is_carried_is_judged_instead() {
        for (text, carried) in [
            ("::ffff:127.0.0.1", vec!["127.0.0.1"]),
            ("::ffff:a9fe:a9fe", vec!["169.254.169.254"]),
            ("64:ff9b::7f00:1", vec!["127.0.0.1"]),
            ("64:ff9b::808:808", vec!["8.8.8.8"]),
            ("2002:7f00:1::", vec!["127.0.0.1"]),
            ("2002:0808:0808::1", vec!["8.8.8.8"]),
            // 96 bits of prefix, then 48, 56 and 64.
            ("64:ff9b:1::7f00:1", vec!["127.0.0.1"]),
            ("64:ff9b:1:7f00:0:100::", vec!["127.0.0.1"]),
            ("64:ff9b:1:7f:0:1::", vec!["127.0.0.1"]),
            ("64:ff9b:1:808:7f:0:100:0", vec!["8.8.127.0", "8.127.0.0", "127.0.0.1", "1.0.0.0"]),
            // Nothing is carried, so nothing is good.
            ("64:ff9b:1::", vec![]),
            ("2002::", vec![]),
            ("::ffff:0.0.0.0", vec![]),
        ] {
            let carried = carried.iter().map(|v4| v4.parse().unwrap()).collect();
            assert_eq!(sort(text.parse().unwrap()), Sort::Carries(carried), "{text}");
        }
    }

    proptest! {
        /// The judgement, written with bytes, says the same as the list, written as networks.
        #[test]
        fn the_judgement_and_the_list_agree_on_ipv4(address: u32) {
            let v4 = Ipv4Addr::from(address);
            let listed = closed().iter().any(|net| net.contains(&IpAddr::V4(v4)));
            prop_assert_eq!(sort(v4.into()) == Sort::Closed, listed, "{}", v4);
        }

        #[test]
        fn every_address_within_a_listed_range_is_closed(which in 0..CLOSED.len(), bits: u128) {
            let address = match closed()[which] {
                IpNet::V4(net) => {
                    let host = u32::try_from(bits & u128::from(u32::from(net.hostmask()))).expect("masked");
                    IpAddr::V4(Ipv4Addr::from(u32::from(net.network()) | host))
                }
                IpNet::V6(net) => {
                    IpAddr::V6(Ipv6Addr::from(u128::from(net.network()) | (bits & u128::from(net.hostmask()))))
                }
            };
            prop_assert_eq!(sort(address), Sort::Closed, "{}", address);
        }

        /// Beyond the listed and the carrying ranges, and only there, an IPv6 address is public.
        #[test]
        fn the_judgement_and_the_list_agree_on_ipv6(bits: u128, high in 0u16..=0xffff, near: bool) {
            let bits = if near { u128::from(high) << 112 | bits >> 16 } else { bits };
            let v6 = IpAddr::V6(Ipv6Addr::from(bits));
            let carrying = ["::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16"];
            let carries = carrying.iter().any(|net| net.parse::<IpNet>().expect("a network").contains(&v6));
            let listed = closed().iter().any(|net| net.contains(&v6));
            let given_out = "2000::/3".parse::<IpNet>().expect("a network").contains(&v6);
            match sort(v6) {
                Sort::Public => prop_assert!(given_out && !carries && !listed, "{}", v6),
                Sort::Closed => prop_assert!(listed || !given_out, "{}", v6),
                Sort::Carries(_) => prop_assert!(carries, "{}", v6),
            }
        }

        #[test]
        fn an_address_in_disguise_is_what_it_carries(address in 0x0100_0000u32..) {
            let v4 = Ipv4Addr::from(address);
            let low = u128::from(address);
            let nat64 = 0x0064_ff9b_u128 << 96;
            let disguises = [0xffff_u128 << 32 | low, nat64 | low, 0x2002_u128 << 112 | low << 80, nat64 | 1 << 80 | low];
            for disguise in disguises {
                prop_assert_eq!(sort(Ipv6Addr::from(disguise).into()), Sort::Carries(vec![v4]));
            }
        }
    }
}
