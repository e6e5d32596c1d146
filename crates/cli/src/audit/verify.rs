//! `audit verify`: the walk along a chain, done here and not by the server that is doubted.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use bowline_model::audit::{AuditRecord, Chain, ChainFault, ChainWalk, Head};
use clap::Args;
use serde_json::json;

use super::walk::{Exported, each};
use super::{ChainArgs, read_heads};
use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

/// Where a server started here keeps the heads it has signed.
const DEFAULT_HEADS: &str = "./bowline-data/audit/heads.jsonl";

#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    chain: ChainArgs,
    /// Verify an exported chain instead of the server's
    #[arg(long, value_name = "PATH", conflicts_with = "chain")]
    file: Option<PathBuf>,
    /// Signed heads the chain must contain [default: ./bowline-data/audit/heads.jsonl if it exists]
    #[arg(long, value_name = "PATH")]
    heads: Option<PathBuf>,
    /// The public key they are signed with, as hex digits [default: what key.pub beside them says]
    #[arg(long, value_name = "HEX")]
    key: Option<String>,
}

impl VerifyArgs {
    /// The heads somebody vouches for. `None` where none were kept; then a cut end goes unnoticed.
    fn heads(&self) -> Result<Option<Vec<Head>>, Failure> {
        let path = match &self.heads {
            Some(path) => path.as_path(),
            None if Path::new(DEFAULT_HEADS).exists() => Path::new(DEFAULT_HEADS),
            None => return Ok(None),
        };
        let key = match &self.key {
            Some(key) => key.clone(),
            None => {
                let beside = path.with_file_name("key.pub");
                std::fs::read_to_string(&beside)
                    .map_err(|error| Failure::Usage(format!("{}: {error}; give --key", beside.display())))?
            }
        };
        read_heads(path, key.trim()).map(Some).map_err(|error| Failure::Usage(error.to_string()))
    }
}

/// A walk that may not have begun: which chain it is comes with the first record.
struct Walk {
    heads: Vec<Head>,
    walk: Option<(Chain, ChainWalk)>,
    fault: Option<ChainFault>,
}

impl Walk {
    fn of(&mut self, chain: Chain) -> &mut ChainWalk {
        let heads = &self.heads;
        &mut self.walk.get_or_insert_with(|| (chain, ChainWalk::new(chain, heads.iter().copied()))).1
    }

    fn take(&mut self, chain: Chain, record: &AuditRecord) -> bool {
        self.fault = self.of(chain).step(record).err();
        self.fault.is_none()
    }
}

pub async fn verify(client: &Client, screen: &mut Screen, args: &VerifyArgs) -> Result<Exit, Failure> {
    let heads = args.heads()?;
    let vouched = heads.is_some();
    let mut walk = Walk { heads: heads.unwrap_or_default(), walk: None, fault: None };
    match &args.file {
        Some(path) => walk_file(path, &mut walk)?,
        None => {
            let chain = each(client, &args.chain, |chain, record| Ok(walk.take(chain, &record))).await?;
            walk.of(chain);
        }
    }
    let Some((chain, end)) = &walk.walk else {
        return Err(Failure::Usage("there is no record in the file".to_owned()));
    };
    let verdict = walk.fault.clone().map_or_else(|| end.finish(), Err);
    if screen.json() {
        let said = match &verdict {
            Ok((records, hash)) => {
                json!({"ok": true, "chain": chain, "records": records, "hash": hash, "heads": vouched})
            }
            Err(fault) => json!({"ok": false, "chain": chain, "fault": fault.to_string(), "heads": vouched}),
        };
        screen.json_line(&said.to_string())?;
    } else {
        match &verdict {
            Ok((records, hash)) => {
                screen.line(&format!("chain {chain}: {records} records, each follows the one before it."))?;
                screen.line(&format!("head: {hash}"))?;
            }
            Err(fault) => screen.line(&format!("chain {chain}: {fault}."))?,
        }
        if verdict.is_ok() && !vouched {
            screen.note("without signed heads (--heads) nobody can tell whether its end was cut off");
        }
    }
    Ok(if verdict.is_ok() { Exit::Success } else { Exit::Refused })
}

fn walk_file(path: &Path, walk: &mut Walk) -> Result<(), Failure> {
    let bad = |what: String| Failure::Usage(format!("{}: {what}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| bad(error.to_string()))?;
    let mut first = None;
    for (n, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| bad(error.to_string()))?;
        let read: Exported = serde_json::from_str(&line).map_err(|error| bad(format!("line {}: {error}", n + 1)))?;
        let chain = *first.get_or_insert(read.chain);
        if read.chain != chain {
            return Err(bad(format!("line {} belongs to another chain", n + 1)));
        }
        if !walk.take(chain, &read.record) {
            break;
        }
    }
    Ok(())
}
