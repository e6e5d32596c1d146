//! Which labels a worker has: what it says, as far as it may say it, and what its join token said.

use bowline_model::host::Connection;
use bowline_model::{Labels, TaskType, WorkerName};
use bowline_store::AgentRecord;

use crate::problem::Problem;

/// Labels that begin like this decide who gets commands for which hosts.
const RESERVED: &str = "bowline/";

/// The labels a worker is registered with. A worker that is no agent has none of ours and takes no types of ours.
pub fn labels_of(
    agent: Option<&AgentRecord>,
    name: &WorkerName,
    said: &Labels,
    types: &[TaskType],
) -> Result<Labels, Problem> {
    let Some(agent) = agent else {
        if let Some((key, _)) = said.iter().find(|(key, _)| key.starts_with(RESERVED)) {
            return Err(Problem::forbidden(format!("the label {key} belongs to agents; enroll with a join token")));
        }
        if let Some(taken) = types.iter().find(|task_type| task_type.is_reserved()) {
            return Err(Problem::forbidden(format!("tasks of type {taken} go to agents; enroll with a join token")));
        }
        return Ok(said.clone());
    };
    let own = |key: &str| key.starts_with(RESERVED) && key != Connection::REACH_LABEL;
    if let Some((key, _)) =
        said.iter().find(|(key, value)| own(key) && !(*key == Connection::AGENT_LABEL && *value == name.as_str()))
    {
        return Err(Problem::forbidden(format!("the label {key} is given by the server")));
    }
    let mut labels: std::collections::BTreeMap<String, String> =
        said.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    labels.extend(agent.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())));
    labels.insert(Connection::AGENT_LABEL.to_owned(), name.as_str().to_owned());
    if agent.sealing_key.is_some() {
        labels.insert(Connection::SEALING_LABEL.to_owned(), Connection::SEALING.to_owned());
    }
    Labels::new(labels).map_err(|e| Problem::validation(format!("labels: {e}")))
}

#[cfg(test)]
mod tests {
    use bowline_model::{TenantId, Timestamp};

    use super::*;

    fn labels(text: &str) -> Labels {
        Labels::from_canonical(text).unwrap()
    }

    fn name() -> WorkerName {
        WorkerName::new("web1").unwrap()
    }

    fn agent(text: &str) -> AgentRecord {
        AgentRecord {
            tenant: TenantId::mint(Timestamp::from_millis(1), [1; 10]),
            name: name(),
            public_key: [1; 32],
            sealing_key: None,
            labels: labels(text),
            token: "t".to_owned(),
            enrolled_at: Timestamp::default(),
        }
    }

    #[test]
    fn an_agent_has_its_own_name_and_what_it_joined_with() {
        let agent = agent("dc=fra");
        let types = [TaskType::command()];
        let got = labels_of(Some(&agent), &name(), &labels("dc=ams x=1 bowline/reach=ssh"), &types).unwrap();
        assert_eq!(got, labels("bowline/agent=web1 bowline/reach=ssh dc=fra x=1"));
        assert!(labels_of(Some(&agent), &name(), &labels("bowline/agent=web2"), &types).is_err());
        assert!(labels_of(Some(&agent), &name(), &labels("bowline/sealing=x25519"), &types).is_err());
        let agent = AgentRecord { sealing_key: Some([1; 32]), ..agent };
        let got = labels_of(Some(&agent), &name(), &labels(""), &types).unwrap();
        assert_eq!(got, labels("bowline/agent=web1 bowline/sealing=x25519 dc=fra"));
    }

    #[test]
    fn a_worker_cannot_make_itself_an_agent() {
        assert!(labels_of(None, &name(), &labels("bowline/agent=web1"), &[]).is_err());
        assert!(labels_of(None, &name(), &labels("bowline/reach=simulate"), &[]).is_err());
        assert!(labels_of(None, &name(), &labels("x=1"), &[TaskType::command()]).is_err());
        assert_eq!(labels_of(None, &name(), &labels("x=1"), &[]).unwrap(), labels("x=1"));
    }
}
