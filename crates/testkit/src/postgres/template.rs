//! An initialised data directory, made once per version and user, and copied for every server.
//!
//! `initdb` takes seconds, a copy takes a moment. The template is made under a lock and appears by a rename, so a test
//! that is killed in between leaves nothing half made.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, ensure};

use super::binaries::Binaries;
use crate::workshop;

/// Goes up whenever the arguments of `initdb` below change, so that older templates are left alone.
const LAYOUT: u32 = 1;

/// Makes `data` a data directory nobody has used yet. `data` must not exist.
pub(super) fn copy_to(data: &Path, binaries: &Binaries) -> anyhow::Result<()> {
    let template = prepared(binaries)?;
    // Keeps owner and modes; and shares the blocks where the file system can.
    let copied = Command::new("cp").arg("-a").arg(&template).arg(data).output().context("cannot run cp")?;
    succeeded(&copied, "copying the template")
}

fn prepared(binaries: &Binaries) -> anyhow::Result<PathBuf> {
    let name = format!("template-{LAYOUT}-{}-{}", binaries.version, binaries.uid);
    let path = workshop::directory().join(&name);
    let _lock = workshop::lock(&format!("{name}.lock"))?;
    if !path.exists() {
        let draft = workshop::directory().join(format!("{name}.draft"));
        make(&draft, binaries)?;
        fs::rename(&draft, &path).context("cannot put the template into its place")?;
    }
    ensure!(fs::metadata(&path)?.uid() == binaries.uid, "{} has a foreign owner", path.display());
    Ok(path)
}

fn make(draft: &Path, binaries: &Binaries) -> anyhow::Result<()> {
    if draft.exists() {
        fs::remove_dir_all(draft).context("cannot remove a template that was left half made")?;
    }
    fs::create_dir(draft).context("cannot create the template")?;
    binaries.hand_over(draft)?;
    let made = binaries
        .command("initdb", draft)
        .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"])
        // The copies are synced by nobody either: what a test loses in a power cut it does not miss.
        .args(["--no-sync", "--pgdata"])
        .arg(draft)
        .output()
        .context("cannot run initdb")?;
    succeeded(&made, "initdb")
}

fn succeeded(output: &Output, what: &str) -> anyhow::Result<()> {
    let said = [&output.stdout, &output.stderr].map(|stream| String::from_utf8_lossy(stream).into_owned()).concat();
    ensure!(output.status.success(), "{what} failed with {}:\n{said}", output.status);
    Ok(())
}
