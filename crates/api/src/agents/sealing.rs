//! The key to which secrets for an agent are sealed, as the agent shows it when it registers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_model::WorkerName;
use bowline_protocol::{SealingOffer, sealing_message};
use bowline_seal::SealingKey;
use bowline_store::AgentRecord;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::json;

use crate::problem::Problem;

/// The key that was offered, if it is one and if the agent itself offers it.
pub fn offered_key(agent: Option<&AgentRecord>, name: &WorkerName, offer: &SealingOffer) -> Result<[u8; 32], Problem> {
    let field = |part: &str, what: &str| {
        let name = format!("sealing.{part}");
        Problem::validation(format!("{name}: {what}")).with(json!({"field": name}))
    };
    let agent = agent.ok_or_else(|| Problem::forbidden("only agents are given secrets; enroll with a join token"))?;
    let no_key = || field("public_key", "an X25519 key: 32 bytes in base64");
    let key: [u8; 32] =
        STANDARD.decode(&offer.public_key).ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(no_key)?;
    SealingKey::from_bytes(&key).map_err(|_| no_key())?;
    let signature = STANDARD.decode(&offer.signature).map_err(|_| field("signature", "64 bytes in base64"))?;
    UnparsedPublicKey::new(&ED25519, agent.public_key)
        .verify(&sealing_message(name, &key), &signature)
        .map_err(|_| field("signature", "it is not by the key the agent enrolled with"))?;
    Ok(key)
}
