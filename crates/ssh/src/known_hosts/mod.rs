//! Which host has which key, as OpenSSH's `known_hosts` files say.
//!
//! Enters: the name of a host and the key it showed. Leaves: whether that is the host, in the words of the file.
//! A host that has any known key and shows another one has *changed*, whatever type the other one is of: an impostor
//! could choose the type.

mod file;
mod lines;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ring::digest;

use crate::host_key::HostKeyFault;
use crate::settings::HostKeyRule;
use file::KnownHostsFile;
use lines::Kind;

/// A key as it goes over the wire, with the name of its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostKey {
    pub algorithm: String,
    pub blob: Vec<u8>,
}

impl HostKey {
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.blob)
    }
}

pub(crate) struct KnownHosts {
    files: Vec<KnownHostsFile>,
    /// Which of the files learns new hosts. Locked while one is added, so that two connections to a new host cannot
    /// each bring a key of their own.
    learner: Option<(usize, Mutex<()>)>,
}

impl KnownHosts {
    pub fn new(files: &[PathBuf], rule: &HostKeyRule) -> Self {
        let mut files = files.to_vec();
        let learner = match rule {
            HostKeyRule::Strict => None,
            HostKeyRule::AcceptNew { remember_in } => {
                let place = files.iter().position(|file| file == remember_in).unwrap_or_else(|| {
                    files.push(remember_in.clone());
                    files.len() - 1
                });
                Some((place, Mutex::new(())))
            }
        };
        Self { files: files.into_iter().map(KnownHostsFile::new).collect(), learner }
    }

    /// The types of the keys known for a host, so that it is asked for one of those. Nothing if that cannot be told.
    pub fn algorithms(&self, host: &str) -> Vec<String> {
        let mut found = Vec::new();
        for lines in self.files.iter().filter_map(|file| file.read().ok()) {
            let entries = lines.about(host).filter(|entry| entry.kind == Kind::Key);
            found.extend(entries.map(|entry| entry.key.algorithm.clone()));
        }
        found
    }

    /// Whether `key` is the key of `host`. Reads files, and writes one when it learns.
    pub fn check(&self, host: &str, key: &HostKey) -> Result<(), HostKeyFault> {
        let verdict = self.look_up(host, key);
        let (Err(HostKeyFault::Unknown { authority: None, .. }), Some((place, learning))) = (&verdict, &self.learner)
        else {
            return verdict;
        };
        let _learning = learning.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody may have learnt about it since.
        let verdict = self.look_up(host, key);
        if !matches!(verdict, Err(HostKeyFault::Unknown { .. })) {
            return verdict;
        }
        let file = &self.files[*place];
        let line = format!("{host} {} {}\n", key.algorithm, STANDARD.encode(&key.blob));
        file.append(&line)
            .map_err(|source| HostKeyFault::NotRemembered { file: file.path().to_owned(), source: Arc::new(source) })
    }

    fn look_up(&self, host: &str, key: &HostKey) -> Result<(), HostKeyFault> {
        let (mut known, mut changed, mut authority) = (false, None, None);
        for file in &self.files {
            let path = || file.path().to_owned();
            let lines =
                file.read().map_err(|source| HostKeyFault::Unreadable { file: path(), source: Arc::new(source) })?;
            for entry in lines.about(host) {
                let line = entry.line;
                match entry.kind {
                    Kind::Revoked if entry.key.blob == key.blob => {
                        return Err(HostKeyFault::Revoked { file: path(), line });
                    }
                    Kind::Revoked => {}
                    Kind::Authority => authority = authority.or_else(|| Some((path(), line))),
                    Kind::Key if entry.key.blob == key.blob => known = true,
                    Kind::Key => {
                        let expected = entry.key.fingerprint();
                        changed = changed.or_else(|| Some(HostKeyFault::Changed { file: path(), line, expected }));
                    }
                }
            }
        }
        match changed {
            _ if known => Ok(()),
            Some(changed) => Err(changed),
            None => {
                let files = self.files.iter().map(|file| file.path().to_owned()).collect();
                Err(HostKeyFault::Unknown { files, authority })
            }
        }
    }
}

/// As OpenSSH prints it.
fn fingerprint(blob: &[u8]) -> String {
    format!("SHA256:{}", STANDARD_NO_PAD.encode(digest::digest(&digest::SHA256, blob)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> HostKey {
        HostKey { algorithm: "ssh-ed25519".to_owned(), blob: name.as_bytes().to_vec() }
    }

    fn line(host: &str, name: &str) -> String {
        format!("{host} ssh-ed25519 {}\n", STANDARD.encode(name))
    }

    fn known(text: &str, rule: &HostKeyRule) -> (tempfile::TempDir, KnownHosts) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("known_hosts");
        std::fs::write(&path, text).unwrap();
        let known = KnownHosts::new(&[path], rule);
        (directory, known)
    }

    #[test]
    fn a_known_key_is_accepted_and_another_is_not() {
        let (_directory, known) = known(&(line("a,b", "right") + &line("a", "also right")), &HostKeyRule::Strict);
        for (host, name) in [("a", "right"), ("b", "right"), ("a", "also right")] {
            known.check(host, &key(name)).unwrap();
        }
        assert!(matches!(known.check("a", &key("wrong")), Err(HostKeyFault::Changed { line: 1, .. })));
        assert!(matches!(known.check("c", &key("right")), Err(HostKeyFault::Unknown { authority: None, .. })));
    }

    #[test]
    fn a_key_of_another_type_has_changed_too() {
        let (_directory, known) = known(&line("a", "right"), &HostKeyRule::Strict);
        let other = HostKey { algorithm: "ssh-rsa".to_owned(), blob: b"other".to_vec() };
        assert!(matches!(known.check("a", &other), Err(HostKeyFault::Changed { .. })));
        assert_eq!(known.algorithms("a"), ["ssh-ed25519"]);
    }

    #[test]
    fn a_revoked_key_is_refused_even_if_it_is_known() {
        let text = line("a", "right") + "@revoked " + &line("*", "right");
        let (_directory, known) = known(&text, &HostKeyRule::Strict);
        assert!(matches!(known.check("a", &key("right")), Err(HostKeyFault::Revoked { line: 2, .. })));
    }

    #[test]
    fn a_certificate_authority_is_named_as_the_reason_and_nothing_is_learnt() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("known_hosts");
        std::fs::write(&path, "@cert-authority ".to_owned() + &line("*.example", "authority")).unwrap();
        let known = KnownHosts::new(&[], &HostKeyRule::AcceptNew { remember_in: path.clone() });
        let refused = known.check("a.example", &key("any")).unwrap_err();
        assert!(matches!(refused, HostKeyFault::Unknown { authority: Some((_, 1)), .. }), "{refused:?}");
        assert!(refused.to_string().contains("certificates are not supported"), "{refused}");
    }

    #[test]
    fn a_new_host_is_learnt_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("learnt");
        // Somebody edited it and left out the last line break.
        std::fs::write(&path, line("other", "x").trim_end()).unwrap();
        let rule = HostKeyRule::AcceptNew { remember_in: path.clone() };
        let known = KnownHosts::new(&[], &rule);
        known.check("[a]:2222", &key("first")).unwrap();
        known.check("[a]:2222", &key("first")).unwrap();
        assert!(matches!(known.check("[a]:2222", &key("second")), Err(HostKeyFault::Changed { line: 2, .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), line("other", "x") + &line("[a]:2222", "first"));
        KnownHosts::new(&[path], &HostKeyRule::Strict).check("[a]:2222", &key("first")).unwrap();
    }

    #[test]
    fn what_cannot_be_remembered_is_not_accepted() {
        let directory = tempfile::tempdir().unwrap();
        let remember_in = directory.path().join("absent/known_hosts");
        let known = KnownHosts::new(&[], &HostKeyRule::AcceptNew { remember_in });
        assert!(matches!(known.check("a", &key("first")), Err(HostKeyFault::NotRemembered { .. })));
    }

    #[test]
    fn a_changed_file_is_read_again_and_an_absent_one_is_empty() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("known_hosts");
        let known = KnownHosts::new(std::slice::from_ref(&path), &HostKeyRule::Strict);
        let refused = known.check("a", &key("right")).unwrap_err();
        assert!(refused.to_string().contains("does not exist"), "{refused}");
        std::fs::write(&path, line("a", "right")).unwrap();
        known.check("a", &key("right")).unwrap();
        std::fs::write(&path, line("a", "other right")).unwrap();
        assert!(known.check("a", &key("right")).is_err());
    }
}
