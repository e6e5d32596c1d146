//! What a command left running, looked for in a second session once it has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use russh::client::Msg;
use russh::{Channel, ChannelMsg};
use tokio::time::{Instant, timeout, timeout_at};

use super::conversation::Conversation;
use super::stop::{NEWS_TIMEOUT, OPEN_TIMEOUT, SCRIPT_MARGIN};
use crate::command::{ChildSearch, ChildrenSeen, Hello, Swept, sweep_line};
use crate::connection::connect;

type Work = Pin<Box<dyn Future<Output = ChildrenSeen> + Send>>;

impl Conversation {
    /// Looks for what the command left running, and ends it if it is to end. The command itself has ended.
    pub(super) async fn sweep(&mut self) -> ChildrenSeen {
        let (Some(search), Some(Hello::Process(leader))) = (self.order.children.clone(), self.heard.hello) else {
            return ChildrenSeen::NotLooked;
        };
        let mut work = self.look_for(leader, search);
        let seen = loop {
            tokio::select! {
                () = self.step_on() => {}
                seen = &mut work => break seen,
            }
        };
        // What held the output open is gone, so the server will say that it is complete.
        let until = Instant::now() + NEWS_TIMEOUT;
        if matches!(&seen, ChildrenSeen::Found(children) if children.remain == 0) {
            while !self.heard.closed && timeout_at(until, self.step_on()).await.is_ok() {}
        }
        seen
    }

    fn look_for(&self, leader: u32, search: ChildSearch) -> Work {
        let (shared, connection) = (Arc::clone(&self.shared), Arc::clone(self.lease.connection()));
        let endpoint = self.order.endpoint.clone();
        let patience = search.end_after.unwrap_or(Duration::ZERO) + SCRIPT_MARGIN;
        Box::pin(async move {
            let unknown = |reason: String| ChildrenSeen::Unknown(reason);
            let look = async {
                if let Ok(Ok(channel)) = timeout(OPEN_TIMEOUT, connection.open_session()).await {
                    return run_script(channel, leader, &search).await;
                }
                // The server allows no second session on this connection.
                let own = match connect(&shared, &endpoint).await {
                    Ok(own) => own,
                    Err(error) => return unknown(error.to_string()),
                };
                let seen = match own.open_session().await {
                    Ok(channel) => run_script(channel, leader, &search).await,
                    Err(error) => unknown(error.to_string()),
                };
                own.close().await;
                seen
            };
            let to_connect = OPEN_TIMEOUT + shared.settings.connect_timeout;
            timeout(to_connect + patience, look)
                .await
                .unwrap_or_else(|_| unknown("the server did not answer".to_owned()))
        })
    }
}

async fn run_script(mut channel: Channel<Msg>, leader: u32, search: &ChildSearch) -> ChildrenSeen {
    let mut swept = Swept::default();
    if channel.exec(true, sweep_line(leader, search)).await.is_err() {
        return ChildrenSeen::Unknown("the connection was lost".to_owned());
    }
    while let Some(message) = channel.wait().await {
        match message {
            ChannelMsg::Data { data } => swept.hear(&data),
            ChannelMsg::Failure | ChannelMsg::Close => break,
            _ => {}
        }
    }
    swept.understood()
}
