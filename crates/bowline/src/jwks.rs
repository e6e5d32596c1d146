//! Fetches the key set of the issuer of service tokens. The address comes from the configuration, never from a token.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bowline_api::Gate;
use bowline_auth::jwt::Fetching;
use bowline_auth::{JwksFetcher, JwtConfig, JwtKeys, JwtVerifier, SecretBytes};
use bowline_store::Clock;
use tokio_util::sync::CancellationToken;

use crate::config::AuthConfig;

const PATIENCE: Duration = Duration::from_secs(5);
const SIZE_MAX: usize = 1 << 20;
const EVERY: Duration = Duration::from_secs(600);

struct Fetcher {
    client: reqwest::Client,
    url: String,
}

impl JwksFetcher for Fetcher {
    fn fetch(&self) -> Fetching<'_> {
        Box::pin(async move {
            let mut answer = self.client.get(&self.url).send().await.map_err(|e| e.to_string())?;
            if !answer.status().is_success() {
                return Err(format!("the issuer answered {}", answer.status()));
            }
            let mut text = Vec::new();
            while let Some(chunk) = answer.chunk().await.map_err(|e| e.to_string())? {
                text.extend_from_slice(&chunk);
                if text.len() > SIZE_MAX {
                    return Err("the key set is too large".to_owned());
                }
            }
            String::from_utf8(text).map_err(|e| e.to_string())
        })
    }
}

/// The verifier the configuration asks for, if any.
pub fn verifier(config: &AuthConfig) -> anyhow::Result<Option<JwtVerifier>> {
    let keys = match (&config.jwt_shared_secret, &config.jwt_jwks_url) {
        (Some(secret), _) => JwtKeys::SharedSecret(SecretBytes::from(secret.clone())),
        (None, Some(url)) => {
            let client = bowline_http::client()
                .timeout(PATIENCE)
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .build()
                .context("the client for auth.jwt_jwks_url cannot be made")?;
            JwtKeys::Jwks(Arc::new(Fetcher { client, url: url.clone() }))
        }
        (None, None) => return Ok(None),
    };
    let config = JwtConfig {
        issuer: config.jwt_issuer.clone().unwrap_or_default(),
        audience_control: config.jwt_audience_control.clone(),
        audience_exec: config.jwt_audience_exec.clone(),
        lifetime_max_s: bowline_auth::jwt::LIFETIME_MAX_S,
        keys,
    };
    JwtVerifier::new(config).map(Some).context("the section [auth] is wrong")
}

/// Fetches the keys now and then, so that withdrawn ones go.
pub async fn refresh_forever(gate: Arc<Gate>, clock: Arc<dyn Clock>, stop: CancellationToken) -> anyhow::Result<()> {
    let Some(jwt) = gate.jwt() else { return Ok(()) };
    loop {
        if let Err(error) = jwt.refresh_keys(clock.outside().as_millis() / 1_000).await {
            tracing::warn!("the keys of service tokens were not refreshed: {error}");
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}
