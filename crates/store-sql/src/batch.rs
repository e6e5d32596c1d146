//! A batch: one transaction for everybody in it, and what is told afterwards.
//!
//! The order within it is fixed: what was submitted, what happened in runs, how they ended, who is still there, what
//! workflows do next, everything else, and at last the claims, so that what the batch queued can be handed out with it.

use std::collections::HashSet;

use bowline_model::RunId;
use bowline_model::planted::{self, Mistake};
use bowline_store::{Claimant, ClaimedRun, StoreError, StoreResult, TellAnswer, ToldEvents};
use rand::rngs::StdRng;

use crate::changes::{AttemptEnded, Heard, Tallied};
use crate::channels::ChannelKey;
use crate::command::{Answer, Command};
use crate::db::{AnyDb, Db, Mode};
use crate::shared::Shared;
use crate::single::one;
use crate::standing::StandingClaim;
use crate::write::{self, Desk, Diff, Emptied};

/// What is to be told once the batch is stored.
#[derive(Debug, Default)]
pub struct After {
    /// The claim that stood by, and what was taken for it.
    pub standing: Option<(StandingClaim, Vec<ClaimedRun>)>,
    pub ended: Vec<AttemptEnded>,
    pub channels: Vec<i64>,
    pub emptied: Emptied,
    pub timers: bool,
    pub events: bool,
    pub fleets: bool,
    pub flows: bool,
    /// Resources may be others now.
    pub resources: bool,
    /// Hosts at whose turns somebody should look before the commit.
    pub hosts: Vec<i64>,
    /// To be added before the commit.
    pub tally: Tallied,
    /// What changed in configuration, for the audit trail.
    pub diffs: Vec<Diff>,
    /// Lines that this transaction makes.
    pub lines: Vec<(i64, ChannelKey)>,
    /// A person has accepted the clock, under this name.
    pub accepted_clock: Option<String>,
    /// It failed because the audit trail could not be written.
    pub unaudited: bool,
}

impl After {
    pub fn hear(&mut self, heard: Heard) {
        self.ended.extend(heard.ended);
        self.channels.extend(heard.channels);
        self.timers |= heard.timers;
        self.events |= heard.events;
        self.fleets |= heard.fleets;
        self.flows |= heard.flows;
        self.diffs.extend(heard.diffs);
        self.hosts.extend(heard.hosts);
        for (key, units) in heard.tally {
            *self.tally.entry(key).or_default() += units;
        }
    }

    pub fn ring(mut self, shared: &Shared) {
        if self.resources {
            shared.known.forget();
        }
        if let Some(accepted) = self.accepted_clock {
            shared.clock.accept(Some(accepted));
        }
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
pub async fn attempt(
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
    let (key_ttl_ms, margin) = (shared.key_ttl_ms, shared.margin);
    let desk = Desk { now, rng, channels: &shared.channels, key_ttl_ms, margin, clock: &shared.clock };
    let mut batch = Batch { db, desk, wishes, answers: wishes.iter().map(|_| None).collect(), after };
    batch.submit_all().await?;
    let told = batch.tell_all().await?;
    batch.report_all(told).await?;
    batch.beat_all().await?;
    batch.turn_all().await?;
    batch.grant_the_others().await?;
    batch.give_hosts().await?;
    batch.call_the_standing(shared).await?;
    batch.claim_all().await?;
    batch.give_hosts().await?;
    let Batch { db, mut desk, answers, after, .. } = batch;
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
    let deeds = write::deeds(wishes, &answers, &after.diffs)?;
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

/// A transaction under way: who is in it, and what is known already.
struct Batch<'a> {
    db: &'a mut AnyDb,
    desk: Desk<'a>,
    wishes: &'a [Command],
    answers: Vec<Option<Answer>>,
    after: &'a mut After,
}

impl Batch<'_> {
    /// Whoever is next at hosts that were left gets them in the same transaction.
    async fn give_hosts(&mut self) -> StoreResult<()> {
        let hosts = std::mem::take(&mut self.after.hosts);
        if !hosts.is_empty() {
            self.after.hear(write::admit(self.db, &mut self.desk, hosts).await?);
        }
        Ok(())
    }

    async fn submit_all(&mut self) -> StoreResult<()> {
        let mut jobs = Vec::new();
        for wish in self.wishes {
            if let Command::Submit(own, _) = wish {
                jobs.extend(own);
            }
        }
        if jobs.is_empty() {
            for (n, wish) in self.wishes.iter().enumerate() {
                if matches!(wish, Command::Submit(..)) {
                    self.answers[n] = Some(Answer::Submit(Vec::new()));
                }
            }
            return Ok(());
        }
        let (stored, heard) = write::submit(self.db, &mut self.desk, &jobs).await?;
        heard.into_iter().for_each(|h| self.after.hear(h));
        let mut stored = stored.into_iter();
        for (n, wish) in self.wishes.iter().enumerate() {
            if let Command::Submit(own, _) = wish {
                self.answers[n] = Some(Answer::Submit(stored.by_ref().take(own.len()).collect()));
            }
        }
        Ok(())
    }

    /// What happened in runs, before how they ended. Answers those who only tell; the answers to shipments are given back, to
    /// be completed with what became of their reports.
    async fn tell_all(&mut self) -> StoreResult<Vec<(usize, Vec<TellAnswer>)>> {
        let mut told: Vec<&ToldEvents> = Vec::new();
        let mut ending: HashSet<RunId> = HashSet::new();
        for wish in self.wishes {
            match wish {
                Command::Tell(own, _) => told.push(own),
                Command::Ship((own, reports), _) => {
                    told.extend(own);
                    ending.extend(reports.iter().map(|report| report.run));
                }
                _ => {}
            }
        }
        let (heard_of, heard) = write::tell(self.db, &mut self.desk, &told, &ending).await?;
        heard.into_iter().for_each(|h| self.after.hear(h));
        let mut heard_of = heard_of.into_iter();
        let mut shipped = Vec::new();
        for (n, wish) in self.wishes.iter().enumerate() {
            match wish {
                Command::Tell(..) => self.answers[n] = heard_of.next().map(Answer::Tell),
                Command::Ship((own, _), _) => shipped.push((n, heard_of.by_ref().take(own.len()).collect())),
                _ => {}
            }
        }
        Ok(shipped)
    }

    async fn report_all(&mut self, told: Vec<(usize, Vec<TellAnswer>)>) -> StoreResult<()> {
        let mut reports = Vec::new();
        for wish in self.wishes {
            if let Command::Report(own, _) | Command::Ship((_, own), _) = wish {
                reports.extend(own);
            }
        }
        let (settled, heard) = write::report(self.db, &mut self.desk, &reports).await?;
        heard.into_iter().for_each(|h| self.after.hear(h));
        let mut settled = settled.into_iter();
        let mut told = told.into_iter();
        for (n, wish) in self.wishes.iter().enumerate() {
            match wish {
                Command::Report(own, _) => {
                    self.answers[n] = Some(Answer::Report(settled.by_ref().take(own.len()).collect()));
                }
                Command::Ship((_, own), _) => {
                    let told = told.next().map(|(_, told)| told).unwrap_or_default();
                    self.answers[n] = Some(Answer::Ship((told, settled.by_ref().take(own.len()).collect())));
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn beat_all(&mut self) -> StoreResult<()> {
        let mut beats = Vec::new();
        let mut places = Vec::new();
        for (n, wish) in self.wishes.iter().enumerate() {
            if let Command::Heartbeat(beat, _) = wish {
                beats.push(beat);
                places.push(n);
            }
        }
        if beats.is_empty() {
            return Ok(());
        }
        let (own, heard) = write::heartbeat(self.db, &mut self.desk, &beats).await?;
        self.after.hear(heard);
        for (n, answer) in places.into_iter().zip(own) {
            self.answers[n] = Some(Answer::Heartbeat(answer));
        }
        Ok(())
    }

    async fn turn_all(&mut self) -> StoreResult<()> {
        for (n, wish) in self.wishes.iter().enumerate() {
            if let Command::Turn(turns, _) = wish {
                let (own, heard) = write::turn_flows(self.db, &mut self.desk, turns).await?;
                heard.into_iter().for_each(|h| self.after.hear(h));
                self.answers[n] = Some(Answer::Turn(own));
            }
        }
        Ok(())
    }

    /// Everybody whose wish is like no other in the batch.
    async fn grant_the_others(&mut self) -> StoreResult<()> {
        for (n, wish) in self.wishes.iter().enumerate() {
            if self.answers[n].is_none() && !matches!(wish, Command::Claim(..)) {
                self.answers[n] = Some(one(self.db, &mut self.desk, wish, self.after).await?);
            }
        }
        Ok(())
    }

    /// Takes along the claim that stands by, if there may be something for it.
    async fn call_the_standing(&mut self, shared: &Shared) -> StoreResult<()> {
        // Timers, retries and replays may queue into lines that another server made. Those that this transaction makes
        // are not to be relied on before the commit.
        let made: HashSet<i64> = self.after.lines.iter().map(|(made, _)| *made).collect();
        let known: Vec<i64> = self.after.channels.iter().copied().filter(|id| !made.contains(id)).collect();
        shared.channels.learn(self.db, &known).await?;
        if !self.after.channels.is_empty() || shared.channels.has_active() {
            self.after.standing = shared.standing.take().map(|claim| (claim, Vec::new()));
        }
        Ok(())
    }

    /// Claims come last, so that what this batch queued can be handed out with it.
    async fn claim_all(&mut self) -> StoreResult<()> {
        let mut claimants: Vec<&Claimant> = Vec::new();
        let mut spans = Vec::new();
        let mut rules = None;
        for (n, wish) in self.wishes.iter().enumerate() {
            if let Command::Claim((own, own_rules), _) = wish {
                rules = Some(own_rules);
                spans.push((n, claimants.len(), own.len()));
                claimants.extend(own);
            }
        }
        let standing_from = claimants.len();
        if let Some((claim, _)) = &self.after.standing {
            rules = Some(&claim.rules);
            claimants.extend(&claim.claimants);
        }
        let Some(rules) = rules else { return Ok(()) };
        let (mut claimed, emptied, heard) =
            write::claim(self.db, &mut self.desk, &claimants, rules, &self.after.channels).await?;
        if let Some((_, own)) = &mut self.after.standing {
            own.extend(claimed.drain(standing_from..).flatten());
        }
        for (n, from, len) in spans {
            let own = claimed[from..from + len].iter_mut().flat_map(std::mem::take).collect();
            self.answers[n] = Some(Answer::Claim(own));
        }
        heard.into_iter().for_each(|h| self.after.hear(h));
        self.after.emptied = emptied;
        Ok(())
    }
}
