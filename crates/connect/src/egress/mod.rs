//! Egress: calls to addresses that others chose, and the rules about where they may lead.
//!
//! A *target* is a URL that has the right shape: http or https, no login in it, a name in its normal form. It is *denied*
//! when the rules do not let us go there: by its port, or by any one of the addresses its name has. Names are resolved
//! once per connection, by the judge ([`Judge`]) whose answer is what is connected to, so what was checked is what is dialled.
//! The judge is asked for brokers, too, which speak no HTTP.
//! Whoever is denied hears that and nothing more: which address it was, or whether one is there, would be a map of our
//! network.

mod address;
mod client;
mod doors;
mod error;
mod headers;
mod judge;
mod redirect;
mod resolver;
mod room;
mod rules;
mod target;
mod tenants;

pub use address::{Sort, sort};
pub use client::{Answer, Call, Egress};
pub use doors::Doors;
pub use error::EgressError;
pub use headers::{BadHeader, header};
pub use ipnet::IpNet;
pub use judge::Judge;
pub use redirect::{REDIRECTS_MAX, RedirectRefused};
pub use resolver::{Resolver, SystemResolver};
pub use room::AnswerRoom;
pub use rules::{EgressRules, RESPONSE_MAX_BYTES};
pub use target::{BadTarget, target};
pub use tenants::TenantRules;
