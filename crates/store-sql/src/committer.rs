//! Group commit: whoever waits is taken along.
//!
//! While one batch commits, the next one gathers; nobody waits for a timer. A batch is one transaction; each caller gets
//! its own answer, after the commit. When a batch fails because of what is in it, it is tried again in halves, so
//! that one poisonous wish cannot fail its neighbours. When the ledger itself is away, everybody is told so at once.

use std::collections::HashSet;
use std::sync::Arc;

use bowline_model::RunId;
use bowline_model::fleet::MarginRules;
use bowline_model::planted::{self, Mistake};
use bowline_store::{
    Claimant, ClaimedRun, Observer, OutputAnswer, StoreError, StoreResult, TellAnswer, ToldEvents, Wake,
};
use rand::rngs::StdRng;
use tokio::sync::mpsc;

use crate::changes::{AttemptEnded, Changes, Heard, Tallied};
use crate::channels::{ChannelKey, Channels};
use crate::command::{Answer, Command};
use crate::db::{AnyDb, Db, Mode, PgDb, PgSettings};
use crate::failpoint;
use crate::standing::{Standing, StandingClaim};
use crate::write::{self, Desk, Emptied};

/// Wishes of one batch, by weight. Larger batches gain nothing and make the first caller wait.
const BATCH_WEIGHT: usize = 2_000;

/// What the ledger's threads share.
#[derive(Debug)]
pub struct Shared {
    pub channels: Channels,
    pub work: Wake,
    pub events: Wake,
    pub timers: Wake,
    /// Rung when commands on hosts may have something to do.
    pub fleets: Wake,
    /// Rung when something came in for runs of workflows.
    pub flows: Wake,
    pub key_ttl_ms: i64,
    pub margin: MarginRules,
    /// Rung for other servers, where there are any.
    pub others: Wake,
    pub standing: Standing,
    pub observer: Option<Arc<dyn Observer>>,
}

/// Where connections come from, and come from again.
#[derive(Debug)]
pub enum Source {
    /// One connection, for good.
    Held(Box<AnyDb>),
    /// A server that may go away and come back.
    Pg { settings: Arc<PgSettings>, db: Option<Box<AnyDb>> },
}

impl Source {
    pub async fn get(&mut self) -> StoreResult<&mut AnyDb> {
        match self {
            Self::Held(db) => Ok(db),
            Self::Pg { settings, db } => {
                if !db.as_ref().is_some_and(|db| db.is_usable()) {
                    *db = None;
                    *db = Some(Box::new(AnyDb::Pg(PgDb::connect(settings).await?)));
                }
                db.as_deref_mut().ok_or_else(|| StoreError::Unavailable("no connection".to_owned()))
            }
        }
    }
}

/// Runs until every handle to the ledger is gone.
pub async fn commit_forever(
    mut source: Source,
    wishes: Arc<tokio::sync::Mutex<mpsc::Receiver<Command>>>,
    shared: Arc<Shared>,
    mut rng: StdRng,
) {
    let mut waiting = Vec::with_capacity(256);
    loop {
        {
            let mut line = wishes.lock().await;
            let Some(first) = line.recv().await else { return };
            let mut weight = first.weight();
            waiting.push(first);
            // Whoever waits, up to a batch.
            while weight < BATCH_WEIGHT
                && let Ok(next) = line.try_recv()
            {
                weight += next.weight();
                waiting.push(next);
            }
        }
        let batch = std::mem::take(&mut waiting);
        match source.get().await {
            Ok(db) => run(db, &shared, &mut rng, batch).await,
            Err(error) => {
                tracing::warn!("{} wishes refused: {error}", batch.len());
                for command in batch {
                    command.reply(Err(error.clone()));
                }
            }
        }
    }
}

/// Answers questions until every handle to the ledger is gone.
pub async fn read_forever(mut source: Source, looks: Arc<tokio::sync::Mutex<mpsc::Receiver<crate::command::Look>>>) {
    loop {
        let look = {
            let mut line = looks.lock().await;
            match line.recv().await {
                Some(look) => look,
                None => return,
            }
        };
        match source.get().await {
            Ok(db) => look(db).await,
            // Dropping the question drops its line; the asker hears that the ledger is away.
            Err(error) => tracing::debug!("a question went unanswered: {error}"),
        }
    }
}

async fn run(db: &mut AnyDb, shared: &Shared, rng: &mut StdRng, batch: Vec<Command>) {
    let mut wishes = Vec::with_capacity(batch.len());
    for command in batch {
        match command {
            Command::Look(look) => look(db).await,
            wish if wish.is_abandoned() => {}
            wish => wishes.push(wish),
        }
    }
    // Batches still to be tried, the first one last.
    let mut stack = vec![(wishes, 0u32)];
    while let Some((mut wishes, tries)) = stack.pop() {
        if wishes.is_empty() {
            continue;
        }
        let mut after = After::default();
        let stored = attempt(db, shared, rng, &wishes, &mut after).await;
        let standing = after.standing.take();
        let unaudited = after.unaudited;
        let failed = stored.as_ref().err().cloned();
        match stored {
            Ok(answers) => {
                failpoint::after_commit(&answers, standing.as_ref().is_some_and(|(_, claimed)| !claimed.is_empty()));
                after.ring(shared);
                for (wish, answer) in wishes.into_iter().zip(answers) {
                    wish.reply(Ok(answer));
                }
            }
            Err(error) => {
                db.rollback().await;
                if matches!(error, StoreError::Unknown(_)) {
                    // It may be stored. Whoever is rung in vain looks and finds nothing; whoever is not would not look.
                    // Lines it made are not remembered: one that is not stored would be used by everybody after it. Those that
                    // are stored are learned again when somebody looks for work.
                    after.emptied.clear();
                    after.lines.clear();
                    after.ring(shared);
                }
                let poisonous = matches!(error, StoreError::Conflict(_) | StoreError::Broken(_));
                let unaudited = unaudited && !matches!(error, StoreError::Conflict(_));
                if unaudited && wishes.iter().any(|wish| wish.author().is_none()) && db.is_usable() {
                    // What needs no record goes on without those who do.
                    let (privileged, plain) = wishes.into_iter().partition(|wish| wish.author().is_some());
                    stack.push((privileged, tries));
                    stack.push((plain, tries));
                } else if poisonous && wishes.len() > 1 && db.is_usable() {
                    tracing::debug!("a batch of {} is tried in halves: {error}", wishes.len());
                    let second = wishes.split_off(wishes.len() / 2);
                    stack.push((second, tries));
                    stack.push((wishes, tries));
                } else if matches!(error, StoreError::Conflict(_)) && tries < 5 && db.is_usable() {
                    stack.push((wishes, tries + 1));
                } else {
                    tracing::warn!("{} wishes refused: {error}", wishes.len());
                    // C13: what cannot be recorded is not done, and may be asked for again when it can be.
                    let error = match error {
                        StoreError::Broken(why) if unaudited => {
                            StoreError::Unavailable(format!("the audit trail cannot be written: {why}"))
                        }
                        error => error,
                    };
                    for wish in wishes {
                        wish.reply(Err(error.clone()));
                    }
                }
            }
        }
        if let Some((claim, claimed)) = standing {
            answer_standing(shared, claim, claimed, failed);
        }
    }
}

/// The claim that stood by gets what was taken for it; where nothing was, it waits on.
fn answer_standing(shared: &Shared, claim: StandingClaim, claimed: Vec<ClaimedRun>, failed: Option<StoreError>) {
    match failed {
        None if !claimed.is_empty() => claim.answer(Ok(claimed)),
        // Its hand-outs may be stored.
        Some(error @ StoreError::Unknown(_)) if !claimed.is_empty() => claim.answer(Err(error)),
        _ => shared.standing.put_back(claim),
    }
}

/// What is to be told once the batch is stored.
#[derive(Debug, Default)]
struct After {
    /// The claim that stood by, and what was taken for it.
    standing: Option<(StandingClaim, Vec<ClaimedRun>)>,
    ended: Vec<AttemptEnded>,
    channels: Vec<i64>,
    emptied: Emptied,
    timers: bool,
    events: bool,
    fleets: bool,
    flows: bool,
    /// Hosts at whose turns somebody should look before the commit.
    hosts: Vec<i64>,
    /// To be added before the commit.
    tally: Tallied,
    /// Lines that this transaction makes.
    lines: Vec<(i64, ChannelKey)>,
    /// It failed because the audit trail could not be written.
    unaudited: bool,
}

impl After {
    fn hear(&mut self, heard: Heard) {
        self.ended.extend(heard.ended);
        self.channels.extend(heard.channels);
        self.timers |= heard.timers;
        self.events |= heard.events;
        self.fleets |= heard.fleets;
        self.flows |= heard.flows;
        self.hosts.extend(heard.hosts);
        for (key, units) in heard.tally {
            *self.tally.entry(key).or_default() += units;
        }
    }

    fn ring(mut self, shared: &Shared) {
        if let Some(observer) = &shared.observer {
            shared.channels.tell(observer, &self.ended);
        }
        // Claims come last: a line that got something and was then found empty is empty.
        for (channel, stamp) in self.emptied {
            shared.channels.found_empty(channel, stamp);
            self.channels.retain(|queued| *queued != channel);
        }
        shared.channels.made(self.lines);
        let work = !self.channels.is_empty();
        shared.channels.queued(self.channels);
        if work {
            shared.work.ring();
        }
        if self.timers {
            shared.timers.ring();
        }
        if self.fleets {
            shared.fleets.ring();
        }
        if self.flows {
            shared.flows.ring();
        }
        if self.events {
            shared.events.ring();
            shared.others.ring();
        }
    }
}

/// One transaction for the whole batch.
async fn attempt(
    db: &mut AnyDb,
    shared: &Shared,
    rng: &mut StdRng,
    wishes: &[Command],
    after: &mut After,
) -> StoreResult<Vec<Answer>> {
    for wish in wishes {
        let keys = match wish {
            Command::Submit(jobs, _) => write::channel_keys(jobs),
            Command::Turn(turns, _) => write::channel_keys(turns.iter().flat_map(|order| &order.turn.children)),
            Command::FireSchedules(firings, _) => {
                write::channel_keys(firings.iter().flat_map(|firing| &firing.jobs).map(|(_, job)| job))
            }
            Command::TriggerSchedule(trigger, _) => write::channel_keys([&trigger.job]),
            _ => continue,
        };
        shared.channels.ensure(db, &keys).await?;
    }
    let now = db.begin(Mode::Write).await?;
    let mut desk = Desk { now, rng, channels: &shared.channels, key_ttl_ms: shared.key_ttl_ms, margin: shared.margin };
    let mut answers: Vec<Option<Answer>> = wishes.iter().map(|_| None).collect();
    submit_all(db, &mut desk, wishes, &mut answers, after).await?;
    let told = tell_all(db, &mut desk, wishes, &mut answers, after).await?;
    report_all(db, &mut desk, wishes, &mut answers, told, after).await?;
    beat_all(db, &mut desk, wishes, &mut answers, after).await?;
    turn_all(db, &mut desk, wishes, &mut answers, after).await?;
    for (n, wish) in wishes.iter().enumerate() {
        if answers[n].is_none() && !matches!(wish, Command::Claim(..)) {
            answers[n] = Some(one(db, &mut desk, wish, after).await?);
        }
    }
    give_hosts(db, &mut desk, after).await?;
    // Timers, retries and replays may queue into lines that another server made. Those that this transaction makes are
    // not to be relied on before the commit.
    let made: HashSet<i64> = after.lines.iter().map(|(made, _)| *made).collect();
    let known: Vec<i64> = after.channels.iter().copied().filter(|id| !made.contains(id)).collect();
    shared.channels.learn(db, &known).await?;
    if !after.channels.is_empty() || shared.channels.has_active() {
        after.standing = shared.standing.take().map(|claim| (claim, Vec::new()));
    }
    claim_all(db, &mut desk, wishes, &mut answers, after).await?;
    give_hosts(db, &mut desk, after).await?;
    write::write_tally(db, &mut after.tally).await?;
    let answers: Option<Vec<Answer>> = answers.into_iter().collect();
    let answers = answers.ok_or_else(|| StoreError::Broken("a wish was left without an answer".to_owned()))?;
    if planted::on(Mistake::AnswerBeforeCommit) {
        // The mistake: what follows can still fail, and nobody will hear of it.
        if db.commit().await.is_err() {
            db.rollback().await;
        }
        return Ok(answers);
    }
    let deeds = write::deeds(wishes, &answers)?;
    if deeds.is_empty() {
        db.commit().await?;
        return Ok(answers);
    }
    if planted::on(Mistake::AuditOutside) {
        // The mistake: what was done is done, and its record may be missing.
        db.commit().await?;
        desk.now = db.begin(Mode::Write).await?;
        if write::append_audit(db, &desk, &deeds).await.is_err() || db.commit().await.is_err() {
            db.rollback().await;
        }
        return Ok(answers);
    }
    let recorded = write::append_audit(db, &desk, &deeds).await;
    after.unaudited = recorded.is_err();
    recorded?;
    db.commit().await?;
    Ok(answers)
}

/// Whoever is next at hosts that were left gets them in the same transaction.
async fn give_hosts(db: &mut AnyDb, desk: &mut Desk<'_>, after: &mut After) -> StoreResult<()> {
    let hosts = std::mem::take(&mut after.hosts);
    if !hosts.is_empty() {
        after.hear(write::admit(db, desk, hosts).await?);
    }
    Ok(())
}

async fn submit_all(
    db: &mut AnyDb,
    desk: &mut Desk<'_>,
    wishes: &[Command],
    answers: &mut [Option<Answer>],
    after: &mut After,
) -> StoreResult<()> {
    let mut jobs = Vec::new();
    for wish in wishes {
        if let Command::Submit(own, _) = wish {
            jobs.extend(own);
        }
    }
    if jobs.is_empty() {
        for (n, wish) in wishes.iter().enumerate() {
            if matches!(wish, Command::Submit(..)) {
                answers[n] = Some(Answer::Submit(Vec::new()));
            }
        }
        return Ok(());
    }
    let (stored, heard) = write::submit(db, desk, &jobs).await?;
    heard.into_iter().for_each(|h| after.hear(h));
    let mut stored = stored.into_iter();
    for (n, wish) in wishes.iter().enumerate() {
        if let Command::Submit(own, _) = wish {
            answers[n] = Some(Answer::Submit(stored.by_ref().take(own.len()).collect()));
        }
    }
    Ok(())
}

/// What happened in runs, before how they ended. Answers those who only tell; the answers to shipments are given back, to
/// be completed with what became of their reports.
async fn tell_all(
    db: &mut AnyDb,
    desk: &mut Desk<'_>,
    wishes: &[Command],
    answers: &mut [Option<Answer>],
    after: &mut After,
) -> StoreResult<Vec<(usize, Vec<TellAnswer>)>> {
    let mut told: Vec<&ToldEvents> = Vec::new();
    let mut ending: HashSet<RunId> = HashSet::new();
    for wish in wishes {
        match wish {
            Command::Tell(own, _) => told.push(own),
            Command::Ship((own, reports), _) => {
                told.extend(own);
                ending.extend(reports.iter().map(|report| report.run));
            }
            _ => {}
        }
    }
    let (heard_of, heard) = write::tell(db, desk, &told, &ending).await?;
    heard.into_iter().for_each(|h| after.hear(h));
    let mut heard_of = heard_of.into_iter();
    let mut shipped = Vec::new();
    for (n, wish) in wishes.iter().enumerate() {
        match wish {
            Command::Tell(..) => answers[n] = heard_of.next().map(Answer::Tell),
            Command::Ship((own, _), _) => shipped.push((n, heard_of.by_ref().take(own.len()).collect())),
            _ => {}
        }
    }
    Ok(shipped)
}

async fn report_all(
    db: &mut AnyDb,
    desk: &mut Desk<'_>,
    wishes: &[Command],
    answers: &mut [Option<Answer>],
    told: Vec<(usize, Vec<TellAnswer>)>,
    after: &mut After,
) -> StoreResult<()> {
    let mut reports = Vec::new();
    for wish in wishes {
        if let Command::Report(own, _) | Command::Ship((_, own), _) = wish {
            reports.extend(own);
        }
    }
    let (settled, heard) = write::report(db, desk, &reports).await?;
    heard.into_iter().for_each(|h| after.hear(h));
    let mut settled = settled.into_iter();
    let mut told = told.into_iter();
    for (n, wish) in wishes.iter().enumerate() {
        match wish {
            Command::Report(own, _) => {
                answers[n] = Some(Answer::Report(settled.by_ref().take(own.len()).collect()));
            }
            Command::Ship((_, own), _) => {
                let told = told.next().map(|(_, told)| told).unwrap_or_default();
                answers[n] = Some(Answer::Ship((told, settled.by_ref().take(own.len()).collect())));
            }
            _ => {}
        }
    }
    Ok(())
}

async fn beat_all(
    db: &mut AnyDb,
    desk: &mut Desk<'_>,
    wishes: &[Command],
    answers: &mut [Option<Answer>],
    after: &mut After,
) -> StoreResult<()> {
    let mut beats = Vec::new();
    let mut places = Vec::new();
    for (n, wish) in wishes.iter().enumerate() {
        if let Command::Heartbeat(beat, _) = wish {
            beats.push(beat);
            places.push(n);
        }
    }
    if beats.is_empty() {
        return Ok(());
    }
    let (own, heard) = write::heartbeat(db, desk, &beats).await?;
    after.hear(heard);
    for (n, answer) in places.into_iter().zip(own) {
        answers[n] = Some(Answer::Heartbeat(answer));
    }
    Ok(())
}

async fn turn_all(
    db: &mut AnyDb,
    desk: &mut Desk<'_>,
    wishes: &[Command],
    answers: &mut [Option<Answer>],
    after: &mut After,
) -> StoreResult<()> {
    for (n, wish) in wishes.iter().enumerate() {
        if let Command::Turn(turns, _) = wish {
            let (own, heard) = write::turn_flows(db, desk, turns).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            answers[n] = Some(Answer::Turn(own));
        }
    }
    Ok(())
}

/// Claims come last, so that what this batch queued can be handed out with it.
async fn claim_all(
    db: &mut AnyDb,
    desk: &mut Desk<'_>,
    wishes: &[Command],
    answers: &mut [Option<Answer>],
    after: &mut After,
) -> StoreResult<()> {
    let mut claimants: Vec<&Claimant> = Vec::new();
    let mut spans = Vec::new();
    let mut rules = None;
    for (n, wish) in wishes.iter().enumerate() {
        if let Command::Claim((own, own_rules), _) = wish {
            rules = Some(own_rules);
            spans.push((n, claimants.len(), own.len()));
            claimants.extend(own);
        }
    }
    let standing_from = claimants.len();
    if let Some((claim, _)) = &after.standing {
        rules = Some(&claim.rules);
        claimants.extend(&claim.claimants);
    }
    let Some(rules) = rules else { return Ok(()) };
    let (mut claimed, emptied, heard) = write::claim(db, desk, &claimants, rules, &after.channels).await?;
    if let Some((_, own)) = &mut after.standing {
        own.extend(claimed.drain(standing_from..).flatten());
    }
    for (n, from, len) in spans {
        let own = claimed[from..from + len].iter_mut().flat_map(std::mem::take).collect();
        answers[n] = Some(Answer::Claim(own));
    }
    heard.into_iter().for_each(|h| after.hear(h));
    after.emptied = emptied;
    Ok(())
}

async fn one(db: &mut AnyDb, desk: &mut Desk<'_>, wish: &Command, after: &mut After) -> StoreResult<Answer> {
    let answer = match wish {
        Command::GiveBack(runs, _) => {
            let runs = runs.iter().map(|run| *run.as_uuid()).collect();
            after.hear(write::give_back(db, desk, runs).await?);
            Answer::GiveBack(())
        }
        Command::Reclaim(prefix, _) => {
            let (count, heard) = write::reclaim(db, desk, prefix).await?;
            after.hear(heard);
            Answer::Reclaim(count)
        }
        Command::Reap((times, listened), _) => {
            let (reaped, heard) = write::reap(db, desk, times, *listened).await?;
            after.hear(heard);
            Answer::Reap(reaped)
        }
        Command::Promote(limit, _) => {
            let (promoted, heard) = write::promote(db, desk, *limit).await?;
            after.hear(heard);
            Answer::Promote(promoted)
        }
        Command::Cancel(order, _) => {
            let (answer, heard) = write::cancel(db, desk, order).await?;
            after.hear(heard);
            Answer::Cancel(answer)
        }
        Command::Retry(order, _) => {
            let (answer, heard) = write::retry(db, desk, order).await?;
            after.hear(heard);
            Answer::Retry(answer)
        }
        Command::Replay(order, _) => {
            let (closed, heard) = write::replay(db, desk, order).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::Replay(closed)
        }
        Command::Purge(order, _) => {
            let (closed, heard) = write::purge(db, desk, order).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::Purge(closed)
        }
        Command::Note(notice, _) => {
            let mut changes = Changes::at(desk.now);
            changes.tell(notice.tenant, None, None, notice.kind, notice.data.clone());
            after.hear(changes.write(db).await?);
            Answer::Note(())
        }
        Command::CreateTenant((id, name, _), _) => {
            Answer::CreateTenant(write::create_tenant(db, desk, *id, name).await?)
        }
        Command::CreateToken((token, by), _) => {
            let (made, heard) = write::create_token(db, desk, token, by).await?;
            after.hear(heard);
            Answer::CreateToken(made)
        }
        Command::RevokeToken((id, tenant, by), _) => {
            let (revoked, heard) = write::revoke_token(db, desk, id, *tenant, by).await?;
            after.hear(heard);
            Answer::RevokeToken(revoked)
        }
        Command::Register(worker, _) => {
            after.hear(write::register_worker(db, desk, worker).await?);
            Answer::Register(())
        }
        Command::Drain((tenant, name, draining, _), _) => {
            Answer::Drain(write::drain_worker(db, *tenant, name, *draining).await?)
        }
        Command::Enroll((join, agent, token, _), _) => {
            let (answer, heard) = write::enroll_agent(db, desk, join, agent, token).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::Enroll(answer)
        }
        Command::SetSealingKey((tenant, name, key), _) => {
            Answer::SetSealingKey(write::set_sealing_key(db, *tenant, name, key).await?)
        }
        Command::AddOutput(output, _) => {
            let answer = write::add_output(db, desk, output).await?;
            after.events |= matches!(answer, OutputAnswer::Held { added: true, .. });
            Answer::AddOutput(answer)
        }
        Command::PlaceForOutput((identity, adopt), _) => {
            Answer::PlaceForOutput(write::place_for_output(db, identity, *adopt).await?)
        }
        Command::Conduct(thorough, _) => {
            // What this batch has changed counts already.
            write::write_tally(db, &mut after.tally).await?;
            after.hear(write::let_go_of_the_past(db, desk).await?);
            if *thorough {
                after.hosts.extend(write::forgotten_hosts(db, 100).await?);
            }
            let (conducted, heard) = write::conduct(db, desk, &mut after.lines).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::Conduct(conducted)
        }
        Command::Decide(order, _) => {
            let (answer, heard) = write::decide(db, desk, order).await?;
            after.hear(heard);
            Answer::Decide(answer)
        }
        Command::Block(block, _) => {
            let (answer, heard) = write::block(db, desk, block).await?;
            after.hear(heard);
            Answer::Block(answer)
        }
        Command::Unblock((tenant, id, by, reason), _) => {
            let (lifted, heard) = write::unblock(db, desk, *tenant, *id, by, reason.as_deref()).await?;
            after.hear(heard);
            Answer::Unblock(lifted)
        }
        Command::Release(order, _) => {
            let (answer, heard) = write::release(db, desk, order).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::Release(answer)
        }
        Command::PutInventory(put, _) => {
            let (answer, heard) = write::put_inventory(db, desk, put).await?;
            after.hear(heard);
            Answer::PutInventory(answer)
        }
        Command::RemoveHosts((tenant, inventory, hosts, by), _) => {
            let (removed, heard) = write::remove_hosts(db, desk, *tenant, inventory, hosts, by).await?;
            after.hear(heard);
            Answer::RemoveHosts(removed)
        }
        Command::PutResource(put, _) => {
            let (answer, heard) = write::put_resource(db, desk, put).await?;
            after.hear(heard);
            Answer::PutResource(answer)
        }
        Command::Apply(documents, _) => {
            let (applied, heard) = write::apply(db, desk, documents).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::Apply(applied)
        }
        Command::ActivateResource((order, version), _) => {
            let (answer, heard) = write::activate_resource(db, desk, order, *version).await?;
            after.hear(heard);
            Answer::ActivateResource(answer)
        }
        Command::DeleteResource(order, _) => {
            let (answer, heard) = write::delete_resource(db, desk, order).await?;
            after.hear(heard);
            Answer::DeleteResource(answer)
        }
        Command::KeepDefinition((tenant, hash, body), _) => {
            Answer::KeepDefinition(write::keep_definition(db, *tenant, hash, body).await?)
        }
        Command::Steer(order, _) => {
            let (answer, heard) = write::steer_flow(db, desk, order).await?;
            after.hear(heard);
            Answer::Steer(answer)
        }
        Command::Signal(signal, _) => {
            let (count, heard) = write::signal_flows(db, signal).await?;
            after.hear(heard);
            Answer::Signal(count)
        }
        Command::FireSchedules(firings, _) => {
            let (fired, heard) = write::fire(db, desk, firings).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::FireSchedules(fired)
        }
        Command::TriggerSchedule(trigger, _) => {
            let (answer, heard) = write::trigger(db, desk, trigger).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::TriggerSchedule(answer)
        }
        Command::Prune((retention, from), _) => Answer::Prune(write::prune(db, desk, retention, *from).await?),
        Command::Ping((), _) => Answer::Ping(desk.now),
        Command::Submit(..)
        | Command::Turn(..)
        | Command::Claim(..)
        | Command::Tell(..)
        | Command::Report(..)
        | Command::Ship(..)
        | Command::Heartbeat(..)
        | Command::Look(_) => {
            return Err(StoreError::Broken("this wish is not taken one by one".to_owned()));
        }
    };
    Ok(answer)
}
