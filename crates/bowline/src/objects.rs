//! Where output is kept, and whether it is the place that the ledger means.
//!
//! The ledger says where a range of output is; the bytes are in a directory beside it. Servers that share a ledger must share
//! the directory, or each would have half of the output and tell people that the other half is missing. So the directory
//! has a name of its own, and the ledger remembers it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use bowline_backbone::{BlobStore, FileBlobs};
use bowline_store::Ledger;

use crate::config::Config;
use crate::modes::close_tree;

/// Opens the place for output. With `adopt` it becomes the ledger's place, whatever was that before.
pub async fn open(config: &Config, ledger: &dyn Ledger, adopt: bool) -> anyhow::Result<Arc<dyn BlobStore>> {
    let place = config.server.objects_dir();
    let unusable = || format!("output cannot be kept in {}", place.display());
    close_tree(&place)?;
    let blobs = FileBlobs::open(&place).with_context(unusable)?;
    let fresh = format!("{:032x}", rand::random::<u128>());
    let identity = blobs.identity(&fresh).with_context(unusable)?;
    let wanted = ledger.place_for_output(identity.clone(), adopt).await?;
    if wanted != identity {
        bail!(mismatch(&place, &identity, &wanted));
    }
    Ok(Arc::new(blobs))
}

fn mismatch(place: &Path, identity: &str, wanted: &str) -> String {
    format!(
        "the output of this ledger is kept elsewhere: it is in the objects directory {wanted}, and {} is {identity}. \
         All servers of a ledger share one objects directory; mount it here and name it with server.objects_dir. If the other \
         one is gone for good, `bowline serve --adopt-objects` makes this one the ledger's, and output that is not in it is lost",
        place.display()
    )
}
