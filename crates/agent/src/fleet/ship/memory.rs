//! Tells the stories in the outbox, a thousand runs at a time.

use std::sync::Arc;

use bowline_model::RunId;
use bowline_protocol::RunNews;
use tokio::task::JoinSet;
use tracing::warn;

use super::upload::{Brought, bring, part};
use super::{RUNS_MAX, post};
use crate::fleet::outbox::Story;
use crate::fleet::shared::Fleet;

/// How many ranges of output are under way at once.
const UPLOADS_MAX: usize = 32;

pub(crate) async fn memory_loop(fleet: Arc<Fleet>) {
    loop {
        let mut stories = tokio::select! {
            () = fleet.link.end.cancelled() => return,
            stories = fleet.outbox.take(RUNS_MAX) => stories,
        };
        bring_output(&fleet, &mut stories).await;
        let ended: Vec<RunId> =
            stories.iter().filter(|(_, story)| story.ended.is_some()).map(|(run, _)| *run).collect();
        let news = stories.into_iter().map(|(run_id, story)| {
            let Story { fence, events, ended, .. } = story;
            RunNews { run_id, fence, events, ended }
        });
        let Some(heard) = post(&fleet.link, news.collect()).await else { return };
        for (run, refused) in heard.values().filter_map(|heard| Some((heard.run_id, heard.refused.as_ref()?))) {
            // Nothing was executed, so there is nothing to keep.
            warn!(run.id = %run, "the server does not take what there is to tell about run {run}: {refused}");
        }
        ended.into_iter().for_each(|run| fleet.roster.done(run));
    }
}

async fn bring_output(fleet: &Arc<Fleet>, stories: &mut [(RunId, Story)]) {
    let mut uploads = JoinSet::new();
    for (run, story) in stories {
        let Some(output) = story.output.take() else { continue };
        if uploads.len() >= UPLOADS_MAX {
            uploads.join_next().await;
        }
        let (run, fleet) = (*run, Arc::clone(fleet));
        uploads.spawn(async move {
            let part = part(run, "stdout", 0, output);
            if let Brought::Refused(refusal) = bring(&fleet.link, &part).await {
                warn!(run.id = %run, "the server does not take the output of run {run}: {refusal}");
            }
        });
    }
    while uploads.join_next().await.is_some() {}
}
