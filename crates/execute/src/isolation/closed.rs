//! Closing the agent's own directory to a command that has the agent's user.
//!
//! Landlock has no rule that forbids: a path is closed by allowing everything next to it, on every level from the root down.
//! So directly in a directory on the way to a closed path a command makes nothing new, and does not see what others make
//! there later. Looking at names stays free. Made before the process is, because that one must not allocate.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    path_beneath_rules,
};

/// The rules under which these paths are closed and `own` is open, wherever it lies.
pub(super) fn rules(closed: &[PathBuf], own: &[PathBuf]) -> Result<Option<OwnedFd>, RulesetError> {
    // Names may be listed and programs executed; neither opens a file that is closed.
    let all = AccessFs::from_all(ABI::V3) & !(AccessFs::ReadDir | AccessFs::Execute);
    let closed: Vec<PathBuf> = closed.iter().map(|path| real(path)).collect();
    let mut open = Vec::new();
    all_but(Path::new("/"), &closed, &mut open);
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)?
        .create()?
        .set_compatibility(CompatLevel::BestEffort)
        .add_rules(path_beneath_rules(&open, all))?
        .add_rules(path_beneath_rules(own, all))?;
    Ok(rules.into())
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The topmost paths in this directory under which nothing is closed.
fn all_but(directory: &Path, closed: &[PathBuf], open: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        // Where a link leads to is what counts.
        if entry.file_type().is_ok_and(|kind| kind.is_symlink()) || closed.contains(&path) {
            continue;
        }
        if closed.iter().any(|closed| closed.starts_with(&path)) {
            all_but(&path, closed, open);
        } else {
            open.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_next_to_a_closed_path_is_open() {
        let room = tempfile::tempdir().unwrap();
        let base = room.path().canonicalize().unwrap();
        for name in ["agent/runs", "agent/keys", "other", "near/inner"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        fs::write(base.join("near/key"), "").unwrap();
        std::os::unix::fs::symlink(base.join("agent"), base.join("way-in")).unwrap();
        let closed = [base.join("agent"), base.join("near/key")];
        let mut open = Vec::new();
        all_but(&base, &closed, &mut open);
        open.sort();
        assert_eq!(open, ["near/inner", "other"].map(|name| base.join(name)));
        let mut from_the_root = Vec::new();
        all_but(Path::new("/"), &closed, &mut from_the_root);
        assert!(from_the_root.contains(&PathBuf::from("/usr")));
        assert!(!from_the_root.iter().any(|path| closed.iter().any(|closed| closed.starts_with(path))));
    }
}
