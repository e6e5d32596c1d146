//! Where OpenSSH lives on this machine, and what sshd needs before it starts.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::workshop;

/// Where an sshd that runs as root locks up the part of itself that talks to strangers. Compiled into it; packages make
/// it at boot, which a container never has.
const EMPTY_ROOT: &str = "/run/sshd";

#[derive(Debug, Clone)]
pub(super) struct Binaries {
    /// Absolute, as sshd starts itself again for each connection and insists on it.
    pub sshd: PathBuf,
    /// Whom it lets in: the user we are, as it cannot become anybody else unless we are root.
    pub user: String,
}

impl Binaries {
    pub fn find() -> anyhow::Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let sshd = std::iter::once(PathBuf::from("/usr/sbin"))
            .chain(std::env::split_paths(&path))
            .map(|directory| directory.join("sshd"))
            .find(|sshd| sshd.is_absolute() && sshd.is_file())
            .context("no sshd found; scripts/install-test-deps.sh installs one")?;
        if workshop::own_uid()? == 0 && !Path::new(EMPTY_ROOT).is_dir() {
            std::fs::DirBuilder::new()
                .mode(0o755)
                .recursive(true)
                .create(EMPTY_ROOT)
                .with_context(|| format!("cannot create {EMPTY_ROOT}, without which sshd does not run as root"))?;
        }
        let answer = Command::new("id").arg("-un").output().context("cannot ask id who we are")?;
        let user = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        ensure!(answer.status.success() && !user.is_empty(), "this user has no name, so sshd would not let it in");
        Ok(Self { sshd, user })
    }
}
