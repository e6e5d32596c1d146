//! Heads of the audit trail, signed and kept outside the ledger.
//!
//! A chain shows that nothing in it was changed; that its end was cut off it cannot show. So the server says regularly,
//! with its own key, where every chain ends: to a file in its data directory, and to the log, which others keep. Whoever
//! takes records away must take back all of that, too. The key is made at the first start and never leaves the directory.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bowline_cli::audit::read_heads;
use bowline_model::audit::{AuditRecord, Chain, Digest, Head, SignedHead};
use bowline_store::{AuditFilter, AuditFrom, AuditStore, Ledger};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// How often a head that moved is signed.
const EVERY: Duration = Duration::from_secs(5 * 60);

/// Where they are kept.
pub fn heads_path(data_dir: &Path) -> PathBuf {
    data_dir.join("audit").join("heads.jsonl")
}

fn public_path(data_dir: &Path) -> PathBuf {
    data_dir.join("audit").join("key.pub")
}

/// The heads this installation has signed; `None` if it never did.
pub fn kept(data_dir: &Path) -> anyhow::Result<Option<Vec<Head>>> {
    let (path, public) = (heads_path(data_dir), public_path(data_dir));
    if !path.exists() {
        return Ok(None);
    }
    let key = std::fs::read_to_string(&public).with_context(|| format!("{} cannot be read", public.display()))?;
    Ok(Some(read_heads(&path, key.trim())?))
}

/// Heads for which the ledger has no such record: it was restored from an earlier moment, or somebody took them away.
pub async fn missing(ledger: &dyn AuditStore, heads: &[Head]) -> anyhow::Result<Vec<Head>> {
    let mut last: BTreeMap<Chain, Head> = BTreeMap::new();
    for head in heads {
        last.entry(head.chain).and_modify(|there| *there = later(*there, *head)).or_insert(*head);
    }
    let mut missing = Vec::new();
    for head in last.into_values() {
        let from = AuditFrom::After(head.number.saturating_sub(1));
        let found = ledger.list_audit(head.chain, AuditFilter::default(), from, 1).await?;
        let same = |record: &AuditRecord| record.number == head.number && record.hash == head.hash;
        if !found.items.first().is_some_and(same) {
            missing.push(head);
        }
    }
    Ok(missing)
}

fn later(one: Head, other: Head) -> Head {
    if other.number > one.number { other } else { one }
}

/// Who signs heads.
pub struct HeadKeeper {
    ledger: Arc<dyn Ledger>,
    key: Ed25519KeyPair,
    public: String,
    path: PathBuf,
    /// How far each chain was when it was signed last.
    signed: Mutex<BTreeMap<Chain, Digest>>,
}

impl HeadKeeper {
    /// With the key of this data directory, made if there is none. Says in the log what the ledger has lost since.
    pub async fn open(ledger: Arc<dyn Ledger>, data_dir: &Path) -> anyhow::Result<Arc<Self>> {
        let directory = data_dir.join("audit");
        std::fs::create_dir_all(&directory).with_context(|| format!("{} cannot be made", directory.display()))?;
        let secret = directory.join("key");
        if !secret.exists() {
            let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
                .map_err(|_| anyhow::anyhow!("no key for the audit trail can be made"))?;
            write_secret(&secret, made.as_ref())?;
        }
        let bytes = std::fs::read(&secret).with_context(|| format!("{} cannot be read", secret.display()))?;
        let key = Ed25519KeyPair::from_pkcs8(&bytes).map_err(|_| {
            anyhow::anyhow!("{} is no Ed25519 key; the heads signed with it are lost", secret.display())
        })?;
        let public = hex(key.public_key().as_ref());
        let public_path = public_path(data_dir);
        std::fs::write(&public_path, format!("{public}\n"))
            .with_context(|| format!("{} cannot be written", public_path.display()))?;
        let mut signed = BTreeMap::new();
        match kept(data_dir) {
            Ok(heads) => {
                let heads = heads.unwrap_or_default();
                signed.extend(heads.iter().map(|head| (head.chain, head.hash)));
                for head in missing(&*ledger, &heads).await? {
                    tracing::error!(
                        "the audit chain {} had a record {} whose head was signed at {}, and has it no more: the ledger \
                         is of an earlier moment, or records were taken away",
                        head.chain,
                        head.number,
                        head.at
                    );
                }
            }
            Err(error) => tracing::error!("the signed heads of the audit trail cannot be believed: {error:#}"),
        }
        Ok(Arc::new(Self { ledger, key, public, path: heads_path(data_dir), signed: Mutex::new(signed) }))
    }

    /// Signs every head that moved. How many did.
    pub async fn keep(&self) -> anyhow::Result<usize> {
        let mut signed = self.signed.lock().await;
        let heads = self.ledger.audit_heads().await?;
        let moved: Vec<Head> = heads.into_iter().filter(|head| signed.get(&head.chain) != Some(&head.hash)).collect();
        if moved.is_empty() {
            return Ok(0);
        }
        let mut lines = String::new();
        for head in &moved {
            let signature = hex(self.key.sign(&head.statement()).as_ref());
            let signed = SignedHead { head: *head, key: self.public.clone(), signature };
            let line = serde_json::to_string(&signed)?;
            // For whoever keeps the log elsewhere; on a terminal it would only be noise.
            if std::io::stderr().is_terminal() {
                tracing::debug!(audit.head = %line, "audit chain {} ends with record {}", head.chain, head.number);
            } else {
                tracing::info!(audit.head = %line, "audit chain {} ends with record {}", head.chain, head.number);
            }
            lines.push_str(&line);
            lines.push('\n');
        }
        append(&self.path, &lines)?;
        signed.extend(moved.iter().map(|head| (head.chain, head.hash)));
        Ok(moved.len())
    }

    /// Signs heads until the house closes. The last ones are signed by whoever closes it, when nothing moves any more.
    pub async fn keep_forever(self: Arc<Self>, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            if let Err(error) = self.keep().await {
                tracing::warn!("the heads of the audit trail were not signed: {error:#}");
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn write_secret(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let what = || format!("{} cannot be written", path.display());
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).with_context(what)?;
    file.write_all(bytes).with_context(what)?;
    file.sync_all().with_context(what)
}

/// Adds whole lines. A line that a crash cut off was never relied on; it goes first.
fn append(path: &Path, lines: &str) -> anyhow::Result<()> {
    let what = || format!("{} cannot be written", path.display());
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path).with_context(what)?;
    let mut last = [b'\n'];
    if file.metadata().with_context(what)?.len() > 0 {
        file.seek(SeekFrom::End(-1)).with_context(what)?;
        file.read_exact(&mut last).with_context(what)?;
    }
    if last != [b'\n'] {
        let there = std::fs::read(path).with_context(what)?;
        let whole = there.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64).with_context(what)?;
    }
    file.write_all(lines.as_bytes()).with_context(what)?;
    file.sync_all().with_context(what)
}
