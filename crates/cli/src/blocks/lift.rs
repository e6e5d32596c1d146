//! `blocks lift ID`.

use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::new_key;
use crate::output::Screen;

pub async fn lift(client: &Client, screen: &mut Screen, id: u64, reason: Option<&str>) -> Result<Exit, Failure> {
    let body = match reason {
        Some(reason) => serde_json::json!({ "reason": reason }).to_string(),
        None => "{}".to_owned(),
    };
    let request = Request::post(["blocks", &id.to_string(), "lift"]).body(body);
    let answer = client.call(&request.idempotency_key(Some(new_key())).again(Again::Safe)).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
    } else {
        screen.line(&format!("block {id} is lifted"))?;
        screen.note("hosts that were blocked by it are tried again with `bowline job retry ID`");
    }
    Ok(Exit::Success)
}
