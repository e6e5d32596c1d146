//! Wishes that are granted one by one, each as if it were alone in its batch.

use bowline_store::{OutputAnswer, Promoted, Pruned, StoreError, StoreResult};

use crate::batch::After;
use crate::changes::Changes;
use crate::command::{Answer, Command};
use crate::db::AnyDb;
use crate::keyed;
use crate::write::{self, Desk};

pub async fn one(db: &mut AnyDb, desk: &mut Desk<'_>, wish: &Command, after: &mut After) -> StoreResult<Answer> {
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
            let (expired, heard) = write::expire(db, desk, *limit).await?;
            after.hear(heard);
            let (promoted, heard) = write::promote(db, desk, *limit).await?;
            after.hear(heard);
            Answer::Promote(Promoted { expired, ..promoted })
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
        Command::RetryHosts((order, approval), _) => {
            let (answer, heard) = write::retry_command(db, desk, order, approval.as_deref()).await?;
            after.hear(heard);
            Answer::RetryHosts(answer)
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
        Command::Once((key, write), _) => Answer::Once(keyed::carry_out(db, desk, key, write, after).await?),
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
        Command::RevokeToken((order, by), _) => {
            let (revoked, heard) = write::revoke_token(db, desk, order, by).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::RevokeToken(revoked.map(Box::new))
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
        Command::RenewAgent(renewal, _) => {
            let (renewed, heard) = write::renew_agent(db, desk, renewal).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::RenewAgent(renewed)
        }
        Command::SetSealingKey((tenant, name, key, by), _) => {
            let (answer, heard) = write::set_sealing_key(db, desk, *tenant, name, key, by).await?;
            after.hear(heard);
            Answer::SetSealingKey(answer)
        }
        Command::RemoveAgent(request, _) => {
            let (removed, heard) = write::remove_agent(db, desk, request).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::RemoveAgent(removed)
        }
        Command::AddOutput(output, _) => {
            let answer = write::add_output(db, desk, output).await?;
            after.events |= matches!(answer, OutputAnswer::Held { added: true, .. });
            Answer::AddOutput(answer)
        }
        Command::PlaceForOutput((identity, adopt), _) => {
            Answer::PlaceForOutput(write::place_for_output(db, identity, *adopt).await?)
        }
        Command::SetAside(subjects, _) => {
            after.hear(write::set_aside(db, desk, subjects).await?);
            Answer::SetAside(())
        }
        Command::ResumeEvaluation((tenant, subject, by), _) => {
            let (resumed, heard) = write::resume_evaluation(db, desk, *tenant, subject, by).await?;
            after.hear(heard);
            Answer::ResumeEvaluation(resumed)
        }
        Command::Conduct(thorough, _) => {
            // What this batch has changed counts already.
            write::write_tally(db, &mut after.tally).await?;
            if !desk.clock.is_held() {
                after.hear(write::let_go_of_the_past(db, desk).await?);
            }
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
        Command::RemoveHosts((tenant, inventory, hosts, by, reason), _) => {
            let about = (*tenant, inventory);
            let (removed, heard) = write::remove_hosts(db, desk, about, hosts, by, reason.as_deref()).await?;
            after.hear(heard);
            Answer::RemoveHosts(removed)
        }
        Command::PutResource(put, _) => {
            after.resources = true;
            let (answer, heard) = write::put_resource(db, desk, put).await?;
            after.hear(heard);
            Answer::PutResource(answer)
        }
        Command::Apply(documents, _) => {
            after.resources = true;
            let (applied, heard) = write::apply(db, desk, documents).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::Apply(applied)
        }
        Command::ActivateResource(activation, _) => {
            after.resources = true;
            let (answer, heard) = write::activate_resource(db, desk, activation).await?;
            after.hear(heard);
            Answer::ActivateResource(answer)
        }
        Command::DeleteResource(order, _) => {
            after.resources = true;
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
            let (count, heard) = write::signal_flows(db, desk, signal).await?;
            after.hear(heard);
            Answer::Signal(count)
        }
        Command::SpreadSignals((), _) => {
            let (any, heard) = write::spread_signals(db).await?;
            after.hear(heard);
            Answer::SpreadSignals(any)
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
        Command::Prune((retention, from), _) => {
            // By a clock that is not believed nothing is old.
            let pruned =
                if desk.clock.is_held() { Pruned::default() } else { write::prune(db, desk, retention, *from).await? };
            Answer::Prune(pruned)
        }
        // The entries themselves are appended with all others of the batch.
        Command::RecordAudit(..) => Answer::RecordAudit(()),
        Command::Ping((), _) => Answer::Ping(desk.now),
        Command::NoteTime((), _) => {
            let (status, more, heard) = write::note_time(db, desk).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::NoteTime((status, more))
        }
        Command::TakeEvidence(evidence, _) => {
            let (taken, heard) = write::take_evidence(db, desk, evidence).await?;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::TakeEvidence(taken)
        }
        Command::AcceptClock(..) => {
            let (answer, accepted, heard) = write::accept_clock(db, desk).await?;
            after.accepted_clock = accepted;
            after.timers |= answer.was_held;
            heard.into_iter().for_each(|h| after.hear(h));
            Answer::AcceptClock(answer)
        }
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
