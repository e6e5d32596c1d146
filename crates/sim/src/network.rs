//! The network between everybody and the server: it delays, loses and repeats.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::Engine;
use bowline_store::{StoreError, StoreResult};

use crate::server::Server;
use crate::world::World;

/// Asks the server something. `Err` also when nothing was asked, or the answer was lost on the way.
pub async fn call<T, F: Future<Output = StoreResult<T>>>(
    world: &Rc<World>,
    ask: impl FnOnce(Arc<Engine>) -> F,
) -> StoreResult<T> {
    call_at(world, ask, |world| world.servers[0].borrow().clone()).await
}

/// The same, of whichever server is reached.
pub async fn call_any<T, F: Future<Output = StoreResult<T>>>(
    world: &Rc<World>,
    ask: impl FnOnce(Arc<Engine>) -> F,
) -> StoreResult<T> {
    call_at(world, ask, World::reached).await
}

async fn call_at<T, F: Future<Output = StoreResult<T>>>(
    world: &Rc<World>,
    ask: impl FnOnce(Arc<Engine>) -> F,
    reach: impl FnOnce(&World) -> Option<Rc<Server>>,
) -> StoreResult<T> {
    let away = |what: &str| StoreError::Unavailable(what.to_owned());
    tokio::time::sleep(Duration::from_millis(world.between(1, 20))).await;
    let Some(server) = reach(world) else { return Err(away("no server")) };
    if world.strikes(world.plan.request_lost) {
        return Err(away("the request was lost"));
    }
    let lost = world.strikes(world.plan.answer_lost);
    let answer = tokio::select! {
        biased;
        () = server.gone.cancelled() => Err(away("the server is gone")),
        answer = ask(Arc::clone(&server.engine)) => answer,
    };
    if answer.is_err() {
        // Whoever could not be heard is not silent.
        world.notes.borrow_mut().well_since = world.now();
    }
    if lost {
        return Err(StoreError::Unknown("the answer was lost".to_owned()));
    }
    answer
}

/// A pause before asking again.
pub async fn pause(world: &Rc<World>) {
    tokio::time::sleep(Duration::from_millis(world.between(20, 400))).await;
}
