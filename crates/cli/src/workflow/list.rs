//! `workflow list`: the workflows that the server has, and the blueprints.

use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;
use crate::resource;

pub async fn list(client: &Client, screen: &mut Screen) -> Result<Exit, Failure> {
    resource::list(client, screen, &["workflow", "blueprint"]).await
}
