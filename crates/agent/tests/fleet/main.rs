//! A fleet agent against a server that misbehaves, by capability. Commands are real processes under real keepers; the
//! server is a small scripted fake that notes whatever is said out of order.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod crash;
mod enroll;
mod fake;
mod isolation;
mod leaving;
mod local;
mod shipping;
mod simulate;
mod ssh;
