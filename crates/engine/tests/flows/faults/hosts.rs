//! Two hosts, and somebody who plays them: on one every command ends well, on the other none does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_model::host::{Connection, Host, Inventory};
use bowline_model::lane::LaneWeights;
use bowline_model::worker::{Abilities, Strategy};
use bowline_model::{ErrorClass, HostName, InventoryName, Labels, Outcome, RunError, TaskType, WorkerName};
use bowline_store::{ClaimRules, Claimant, ClaimedRun, InventoryPut, RunReport, Unmentioned};
use tokio::task::JoinSet;

use crate::{House, Witness};

/// Makes the hosts `h-0` and `h-2`, and plays them for as long as somebody holds what is returned.
pub async fn play(house: &House) -> JoinSet<()> {
    let host = |name: &str| Host {
        connection: Connection::Simulate { through: Labels::default() },
        ..Host::named(HostName::new(name).expect("a name"))
    };
    let put = InventoryPut {
        tenant: house.tenant,
        inventory: InventoryName::new("main").expect("a name"),
        content: Arc::new(Inventory { hosts: vec![host("h-0"), host("h-2")], groups: Vec::new() }),
        unmentioned: Unmentioned::Keep,
        by: house.author(),
        reason: None,
    };
    house.engine.ledger.put_inventory(put).await.expect("an inventory");
    let labels = Labels::new(BTreeMap::from([(Connection::REACH_LABEL.to_owned(), "simulate".to_owned())]));
    let player = Claimant {
        worker: WorkerName::new("player").expect("a name"),
        tenant: Some(house.tenant),
        passes_over: Arc::default(),
        abilities: Arc::new(Abilities {
            task_types: BTreeSet::from([TaskType::command()]),
            labels: labels.expect("labels"),
        }),
        wants: 10,
        busy: 0,
        slots: 10,
        accepts_at_once: true,
    };
    let (ledger, witness) = (Arc::clone(&house.engine.ledger), Arc::clone(&house.witness));
    let rules = ClaimRules { weights: LaneWeights::default(), strategy: Strategy::RoundRobin };
    let mut player_at_work = JoinSet::new();
    player_at_work.spawn(async move {
        loop {
            for run in ledger.claim(vec![player.clone()], rules).await.unwrap_or_default() {
                let report = carry_out(&run, &witness);
                ledger.report(vec![report]).await.expect("heard");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    player_at_work
}

fn carry_out(run: &ClaimedRun, witness: &Witness) -> RunReport {
    let unit = run.unit.as_ref().expect("a host");
    *witness.lock().expect("nobody panicked").entry((unit.command, run.attempt)).or_default() += 1;
    let fails = unit.host.as_str() == "h-0";
    RunReport {
        exit_code: Some(i32::from(fails)),
        run: run.run,
        job: Some(run.job),
        worker: run.worker.clone(),
        tenant: Some(run.tenant),
        fence: Some(run.fence),
        outcome: if fails { Outcome::Failed(ErrorClass::Permanent) } else { Outcome::Succeeded },
        error: fails.then(|| RunError::new(ErrorClass::Permanent, "asked to fail")),
        result: None,
        stored_result: None,
        last_seq: 0,
    }
}
