//! Hosts without an agent: how long one that reaches them by SSH needs for all.

use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use super::agent_process::AgentProcess;
use super::{job, put_all, seconds};
use crate::bench::server::Measured;

/// `facts`: a directory with the list `hosts`, one address a line, and the file `facts`: user, port, private key, known
/// hosts. The first job makes all connections; the second finds them open.
pub(super) async fn ssh(server: &Measured, data: &Path, facts: &Path) -> anyhow::Result<Value> {
    let list = std::fs::read_to_string(facts.join("hosts")).context("cannot read the list of hosts")?;
    let text = std::fs::read_to_string(facts.join("facts")).context("cannot read the facts of the sshd")?;
    let mut lines = text.lines();
    let mut next = || lines.next().context("the facts of the sshd are not complete");
    let (user, port, key, known_hosts) = (next()?, next()?.parse::<u16>()?, next()?, next()?);
    let host = |address: &str| {
        let connection = json!({"via": "ssh", "address": address, "port": port, "user": user});
        json!({"name": format!("ssh-{}", address.replace('.', "-")), "connection": connection})
    };
    let hosts: Vec<Value> = list.lines().map(host).collect();
    let count = hosts.len();
    put_all(server, "ssh", hosts).await?;
    let args = ["--reach", "ssh", "--ssh-key", key, "--known-hosts", known_hosts];
    let _agent = AgentProcess::join(server, "ssh", data, args).await?;
    let first = job::one_job(server, "ssh", count).await?;
    let again = job::one_job(server, "ssh", count).await?;
    Ok(json!({"hosts": count, "first_s": seconds(first), "again_s": seconds(again)}))
}
