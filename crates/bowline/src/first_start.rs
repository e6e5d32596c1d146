//! The first start: a tenant to work in, and a token to get in with. No default secrets: each installation makes its own.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use bowline_auth::{Audiences, Scope, Scopes, TokenKind, TokenText};
use bowline_model::TenantId;
use bowline_store::{Clock, Ledger, TokenRecord};
use rand::RngExt;

use crate::modes::prepare_directory;

pub const TENANT: &str = "default";

/// Who does in the audit trail what nobody asked for.
const AUTHOR: &str = "bowline";

async fn find(ledger: &dyn Ledger) -> anyhow::Result<Option<TenantId>> {
    Ok(ledger.list_tenants().await?.into_iter().find(|tenant| tenant.name == TENANT).map(|tenant| tenant.id))
}

/// Where the administrator's token lies.
pub fn token_path(data_dir: &Path) -> PathBuf {
    data_dir.join("admin.token")
}

/// Whether somebody can get in as an administrator.
pub async fn has_administrator(ledger: &dyn Ledger, clock: &dyn Clock) -> anyhow::Result<bool> {
    match find(ledger).await? {
        Some(tenant) => administrated(ledger, clock, tenant).await,
        None => Ok(false),
    }
}

async fn administrated(ledger: &dyn Ledger, clock: &dyn Clock, tenant: TenantId) -> anyhow::Result<bool> {
    let now = clock.now();
    let can_get_in = |t: &TokenRecord| {
        let good = t.revoked_at.is_none() && t.expires_at.is_none_or(|end| end > now);
        good && t.scopes.split(' ').any(|scope| scope == Scope::Admin.text())
    };
    Ok(ledger.list_tokens(Some(tenant)).await?.iter().any(can_get_in))
}

/// Makes the first tenant and its administrator, if there is none yet. Whether it did.
pub async fn welcome(ledger: &dyn Ledger, clock: &dyn Clock, data_dir: &Path) -> anyhow::Result<(TenantId, bool)> {
    prepare_directory(data_dir)?;
    let tenant = first_tenant(ledger, clock).await?;
    make_administrator(ledger, clock, data_dir, tenant).await
}

/// The first tenant, made if there is none yet.
pub async fn first_tenant(ledger: &dyn Ledger, clock: &dyn Clock) -> anyhow::Result<TenantId> {
    let tenant = match find(ledger).await? {
        Some(there) => there,
        None => {
            let id = TenantId::mint(clock.now(), rand::rng().random());
            let made = ledger.create_tenant(id, TENANT.to_owned(), AUTHOR.into()).await?.map(|tenant| tenant.id);
            // Another server may have been faster.
            let there = if made.is_some() { made } else { find(ledger).await? };
            there.context("the default tenant is neither new nor there")?
        }
    };
    Ok(tenant)
}

async fn make_administrator(
    ledger: &dyn Ledger,
    clock: &dyn Clock,
    data_dir: &Path,
    tenant: TenantId,
) -> anyhow::Result<(TenantId, bool)> {
    if administrated(ledger, clock, tenant).await? {
        return Ok((tenant, false));
    }
    let now = clock.now();
    let mut entropy = [0u8; bowline_auth::token::ENTROPY_BYTES];
    rand::rng().fill(&mut entropy);
    let token = TokenText::mint(TokenKind::Api, entropy);
    // The file first: a token that is stored but was never written down would lock everybody out.
    write_secret(&token_path(data_dir), token.expose())?;
    let record = TokenRecord {
        labels: Default::default(),
        admission: Default::default(),
        id: token.id().to_string(),
        kind: TokenKind::Api.to_string(),
        tenant: Some(tenant),
        name: "admin".to_owned(),
        secret_hash: token.secret_hash(),
        scopes: Scopes::of(Scope::Admin).to_string(),
        audiences: Audiences::ALL.to_string(),
        email: None,
        made_by: None,
        person: None,
        created_at: now,
        expires_at: None,
        revoked_at: None,
        used_at: None,
    };
    ledger.create_token(record, AUTHOR.into()).await?;
    Ok((tenant, true))
}

fn write_secret(path: &Path, text: &str) -> anyhow::Result<()> {
    let what = || format!("the administrator's token cannot be written to {}", path.display());
    if path.exists() {
        // Of another ledger, perhaps one that is still in use.
        let aside = path.with_extension("token.old");
        std::fs::rename(path, &aside).with_context(what)?;
        tracing::warn!(
            "the token that lay in {} opens another ledger; it is in {} now",
            path.display(),
            aside.display()
        );
    }
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).with_context(what)?;
    writeln!(file, "{text}").with_context(what)?;
    file.sync_all().with_context(what)
}
