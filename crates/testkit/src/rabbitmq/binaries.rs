//! Where RabbitMQ and Erlang's name service live on this machine.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// Distributions put the scripts themselves here. What they put into `/usr/sbin` only becomes another user and calls these.
const SCRIPTS: &str = "/usr/lib/rabbitmq/bin";

#[derive(Debug, Clone)]
pub(super) struct Binaries {
    pub server: PathBuf,
    pub ctl: PathBuf,
    /// The name service without which an Erlang node has no name.
    pub epmd: PathBuf,
}

impl Binaries {
    pub fn find() -> anyhow::Result<Self> {
        let installed = "scripts/install-test-deps.sh installs one";
        let server = find("rabbitmq-server").with_context(|| format!("no rabbitmq-server found; {installed}"))?;
        let ctl = find("rabbitmqctl").with_context(|| format!("no rabbitmqctl found; {installed}"))?;
        let epmd = find("epmd").with_context(|| format!("no epmd found, which belongs to Erlang; {installed}"))?;
        Ok(Self { server, ctl, epmd })
    }
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(Path::new(SCRIPTS).to_owned())
        .chain(std::env::split_paths(&path))
        .map(|directory| directory.join(name))
        .find(|file| file.is_absolute() && file.is_file())
}
