//! Ansible inventories, read as Ansible reads them: `hosts` files, YAML, and the JSON of inventory scripts.
//!
//! Enters: text or a tree. It is first gathered the way Ansible does it (`gather`), with every variable that says how a
//! host is reached or labelled taken aside (`settings`), and then settled into an inventory of ours (`settle`).
//!
//! **Connections.** `ansible_connection=local` is an agent; everything else is SSH, which is Ansible's default, with the
//! address, port and user that apply to the host: its own, else those of its groups, where a deeper group comes before the
//! ones it is in, and `all` comes last. The old `ansible_ssh_*` names win over the new ones, as they do there. None of
//! these variables stays a variable. Other kinds of connection (winrm, docker, ...) are refused.
//!
//! **Ours in theirs.** `bowline_labels` are labels. `bowline_via`, `bowline_agent` and `bowline_through` say of a connection
//! what Ansible has no words for. That is also how they are written.
//!
//! **`all` and `ungrouped`** are not groups of ours, since every host is in the one or has no group. But variables must
//! live somewhere: if `all` has any left, there is a group `all`, which holds the groups that are in no other and the hosts
//! that have no group; if `ungrouped` has any left, there is a group `ungrouped` with the latter.
//!
//! **Secrets** are refused (`settings`). `ansible_group_priority` decides as it does there, and stays a variable.
//!
//! **Where we differ from Ansible, on purpose**: a field that is unknown is refused instead of skipped with a warning, and so
//! is a range that counts downwards, a key that is there twice, and a name that cannot be one here. The variables of a host
//! are its own also if a group has the same name. `ungrouped` holds no groups and is in none but `all`. In JSON, a group that
//! has neither hosts nor children nor vars is an empty group or a mistake, never a host.

mod gather;
mod ini;
mod json;
mod outline;
mod range;
mod settings;
mod settle;
mod yaml;

pub(crate) use ini::{read as read_ini, write as write_ini};
pub(crate) use json::{read as read_json, write as write_json};
pub(crate) use yaml::{read as read_yaml, write as write_yaml};
