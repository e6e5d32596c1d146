//! Key pairs, made by OpenSSH itself: what we read is to be judged by what others write.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// Makes a pair; the public half lies beside the private one as `.pub`. `kind` is what `ssh-keygen -t` takes.
pub(super) fn make(path: &Path, kind: &str, passphrase: &str) -> anyhow::Result<()> {
    for stale in [path.to_owned(), public(path)] {
        let _ = std::fs::remove_file(stale);
    }
    let answer = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-N", passphrase, "-C", "testkit", "-f"])
        .arg(path)
        .output()
        .context("cannot run ssh-keygen; scripts/install-test-deps.sh installs it")?;
    ensure!(answer.status.success(), "ssh-keygen: {}", String::from_utf8_lossy(&answer.stderr));
    Ok(())
}

/// Algorithm and key as they stand in `authorized_keys` and `known_hosts`, without the comment.
pub(super) fn public_text(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(public(path)).context("cannot read a public key")?;
    Ok(text.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

/// `SHA256:…`, as `ssh-keygen -l` says it.
pub(super) fn fingerprint(path: &Path) -> anyhow::Result<String> {
    let answer = Command::new("ssh-keygen").arg("-lf").arg(public(path)).output().context("cannot run ssh-keygen")?;
    let said = String::from_utf8_lossy(&answer.stdout).into_owned();
    said.split_whitespace().nth(1).map(str::to_owned).with_context(|| format!("ssh-keygen -l said {said:?}"))
}

fn public(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}
