//! Whom a command runs as.

use std::ffi::CString;
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;

use nix::unistd::{Uid, User, getgrouplist};

use crate::manifest::RunUser;

impl RunUser {
    /// The user of this name with all its groups, from wherever this system has its users.
    pub fn find(name: &str) -> io::Result<Option<Self>> {
        let Some(user) = User::from_name(name)? else { return Ok(None) };
        let groups = getgrouplist(&CString::new(name)?, user.gid)?;
        Ok(Some(Self {
            name: user.name,
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
            home: user.dir,
        }))
    }

    /// What the user of this process is called; its number where it has no name.
    pub fn own_name() -> String {
        let me = Uid::effective();
        User::from_uid(me).ok().flatten().map_or_else(|| me.to_string(), |user| user.name)
    }
}

/// Makes a directory the user's, or leaves it as it is.
pub(crate) fn give(directory: &Path, user: Option<&RunUser>) -> io::Result<()> {
    user.map_or(Ok(()), |user| chown(directory, Some(user.uid), Some(user.gid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_with_their_groups() {
        let root = RunUser::find("root").unwrap().unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!(RunUser::find("no such user").unwrap(), None);
        assert!(!RunUser::own_name().is_empty());
    }
}
