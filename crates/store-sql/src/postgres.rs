//! The threadless side of PostgreSQL: one thread with one runtime, on which committers, readers and the listener take turns.

use std::sync::Arc;
use std::time::Duration;

use bowline_store::StoreResult;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};
use tokio_postgres::AsyncMessage;

use crate::command::Look;
use crate::committer::{Source, commit_forever, read_forever};
use crate::db::{Db, Mode, PgDb, PgSettings, PgTarget, Sql, Val, connect_postgres};
use crate::ledger::{Own, own};
use crate::migrate::{self, Migrated};
use crate::queue::WriteQueue;
use crate::shared::Shared;
use crate::write::learn_time;

/// Two, so that one gathers and decides while the other waits for the disk.
const COMMITTERS: u64 = 2;
const READERS: usize = 3;
/// Bells for other servers are rung at most this often; a bell is cheap, a commit with a bell in it is not.
const BELL_GAP: Duration = Duration::from_millis(5);
const NOTIFY: Sql = Sql::Same("select pg_notify('bowline', $1)");

type Opened = oneshot::Sender<StoreResult<(Migrated, Own)>>;

/// The body of the ledger's thread.
pub fn run(
    settings: PgSettings,
    shared: Arc<Shared>,
    writes: Arc<WriteQueue>,
    looks: mpsc::Receiver<Look>,
    seed: u64,
    make: bool,
    ready: Opened,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime of one thread");
    let settings = Arc::new(settings);
    LocalSet::new().block_on(&runtime, async move {
        let mut rng = StdRng::seed_from_u64(seed);
        match open(&settings, &shared, &mut rng, make).await {
            Ok(opened) => drop(ready.send(Ok(opened))),
            Err(error) => {
                drop(ready.send(Err(error)));
                return;
            }
        }
        let looks = Arc::new(tokio::sync::Mutex::new(looks));
        let source = || Source::postgres(&settings, &shared);
        let mut committers = Vec::new();
        for n in 0..COMMITTERS {
            let rng = StdRng::seed_from_u64(seed.wrapping_add(n + 1));
            let (writes, shared) = (writes.taker(), Arc::clone(&shared));
            committers.push(spawn_local(commit_forever(source(), writes, shared, rng)));
        }
        for _ in 0..READERS {
            spawn_local(read_forever(source(), Arc::clone(&looks)));
        }
        let name = format!("{:016x}", {
            use rand::RngExt;
            rng.random::<u64>()
        });
        spawn_local(listen_forever(Arc::clone(&settings), Arc::clone(&shared), name.clone()));
        spawn_local(ring_forever(source(), Arc::clone(&shared), name));
        for committer in committers {
            drop(committer.await);
        }
    });
}

async fn open(
    settings: &Arc<PgSettings>,
    shared: &Shared,
    rng: &mut StdRng,
    make: bool,
) -> StoreResult<(Migrated, Own)> {
    let mut db = PgDb::connect(settings).await?;
    let migrated = migrate::postgres(&mut db, make).await?;
    shared.channels.learn_all(&mut db).await?;
    shared.channels.replace_active(&mut db).await?;
    learn_time(&mut db, &shared.clock).await?;
    // The database's clock decides, from the first moment: what our own says before that must not become known.
    let mut db = db.with_clock(&shared.clock);
    db.begin(Mode::Snapshot).await?;
    db.rollback().await;
    let own = own(&mut db, rng).await?;
    Ok((migrated, own))
}

/// Rings for the other servers, however often this one did something.
async fn ring_forever(mut source: Source, shared: Arc<Shared>, name: String) {
    let mut others = shared.others.listen();
    loop {
        others.rung().await;
        if let Ok(db) = source.get().await
            && let Err(error) = db.query(NOTIFY, &[Val::Text(&name)], |_| Ok(())).await
        {
            tracing::debug!(%error, "cannot notify the other servers");
        }
        tokio::time::sleep(BELL_GAP).await;
    }
}

/// Hears the other servers' bells. When the line breaks it is laid again; a look at the tables makes up for what was missed.
async fn listen_forever(settings: Arc<PgSettings>, shared: Arc<Shared>, name: String) {
    let mut source = Source::postgres(&settings, &shared);
    loop {
        if let Err(error) = listen(&settings, &mut source, &shared, &name).await {
            tracing::debug!(%error, "cannot listen to the other servers");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        look(&mut source, &shared).await;
    }
}

async fn listen(
    settings: &PgSettings,
    source: &mut Source,
    shared: &Shared,
    name: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let target = PgTarget::parse(&settings.url)?;
    let (client, mut connection) = tokio::time::timeout(settings.connect_timeout, connect_postgres(&target)).await??;
    let (heard, mut bells) = mpsc::channel::<()>(1);
    let own = name.to_owned();
    let hearing = spawn_local(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(bell) = message
                && bell.payload() != own
            {
                // Full means that a look is already due.
                let _ = heard.try_send(());
            }
        }
    });
    client.batch_execute("listen bowline").await?;
    // What was rung before anybody listened.
    look(source, shared).await;
    while bells.recv().await.is_some() {
        look(source, shared).await;
    }
    hearing.abort();
    Ok(())
}

/// Looks which lines have work, on a connection that is kept between looks.
async fn look(source: &mut Source, shared: &Shared) {
    match source.get().await {
        Ok(db) => match shared.channels.replace_active(db).await {
            // Also where it is no news: it may be known since before the last claim, which found nothing there yet.
            Ok(sight) if sight.work => shared.work.ring(),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "cannot read the queue"),
        },
        Err(error) => tracing::debug!(%error, "cannot read the queue"),
    }
    shared.events.ring();
    shared.timers.ring();
    shared.flows.ring();
}
