//! Ports that belong to one test, also while nothing listens on them.
//!
//! A port asked from the kernel and given back is soon the source port of somebody's outgoing connection; then a server
//! that starts again cannot bind, or a client that dials a dead server is connected to itself. So our ports come from
//! below the kernel's own range, and a lock keeps other test processes away from them.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Mutex;

use crate::workshop;

/// How many ports below the kernel's range we choose from: also how many empty lock files may pile up.
const RANGE: u16 = 8192;

/// A loopback port nobody listens on, reserved for this process until it ends.
///
/// # Panics
/// If a thousand tries found none.
#[must_use]
pub fn free_port() -> u16 {
    bind().0
}

/// The same, with a listener already on it. The port stays ours after the listener is gone.
pub(crate) fn bind() -> (u16, TcpListener) {
    static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let top = ephemeral_low();
    for _ in 0..1000 {
        let port = rand::random_range(top.saturating_sub(RANGE).max(1024)..top);
        let Ok(Some(reservation)) = workshop::try_lock(&format!("ports/{port}")) else { continue };
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            RESERVED.lock().expect("nobody panics while pushing to a list").push(reservation);
            return (port, listener);
        }
    }
    panic!("no free port below {top} in a thousand tries");
}

/// Where the ports begin which the kernel gives to outgoing connections.
fn ephemeral_low() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .filter(|low| *low > 2 * 1024)
        .unwrap_or(32768)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_not_given_twice() {
        let mut ports: Vec<u16> = (0..100).map(|_| free_port()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 100);
    }

    #[test]
    fn a_port_can_be_bound_and_lies_below_the_kernels_range() {
        let port = free_port();
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(port < ephemeral_low());
    }
}
