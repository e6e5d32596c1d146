//! What a worker is registered as: what its token admitted it to, however much more it says.
//!
//! Enters: the agent whose credential it shows, if any, or its worker token's labels and admission, and what it says about itself.
//! Leaves: the labels that decide what it is handed, and those that are only shown; or why it is refused.

use std::collections::{BTreeMap, BTreeSet};

use bowline_model::host::Connection;
use bowline_model::worker::Abilities;
use bowline_model::{Admission, Labels, TaskType, WorkerName};
use bowline_store::AgentRecord;

use crate::problem::Problem;

/// Labels that begin like this decide who gets commands for which hosts.
const RESERVED: &str = "bowline/";

/// What a worker says about itself.
pub struct Said<'a> {
    pub name: &'a WorkerName,
    pub labels: &'a Labels,
    pub types: &'a [TaskType],
    /// Whether commands share its user; one that does not say does.
    pub shares_agent_user: Option<bool>,
}

/// How it is registered.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// What it is handed work by.
    pub labels: Labels,
    /// What else it said. It is shown, and decides nothing.
    pub claimed: Labels,
    pub shares_agent_user: bool,
}

/// Who registers.
pub enum Bearer<'a> {
    /// By its own credential.
    Agent(&'a AgentRecord),
    /// By a worker's token with these labels, that admits it to this.
    Worker(&'a Labels, &'a Admission),
}

pub fn admit(bearer: &Bearer<'_>, said: &Said<'_>, built_in: &BTreeSet<TaskType>) -> Result<Admitted, Problem> {
    match bearer {
        Bearer::Agent(agent) => agent_as(agent, said),
        Bearer::Worker(labels, admission) => worker_as(labels, admission, said, built_in),
    }
}

fn pairs(labels: &Labels) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn checked(labels: BTreeMap<String, String>) -> Result<Labels, Problem> {
    Labels::new(labels).map_err(|error| Problem::validation(format!("labels: {error}")))
}

fn worker_as(
    of_token: &Labels,
    admission: &Admission,
    said: &Said<'_>,
    built_in: &BTreeSet<TaskType>,
) -> Result<Admitted, Problem> {
    if let Some((key, _)) = said.labels.iter().find(|(key, _)| key.starts_with(RESERVED)) {
        return Err(Problem::forbidden(format!("the label {key} belongs to agents; enroll with a join token")));
    }
    for task_type in said.types {
        if task_type.is_reserved() {
            return Err(Problem::forbidden(format!(
                "tasks of type {task_type} go to agents; enroll with a join token"
            )));
        }
        if built_in.contains(task_type) {
            return Err(Problem::forbidden(format!(
                "tasks of type {task_type} belong to the built-in worker; give yours another name"
            )));
        }
        if !admission.admits_type(task_type) {
            let admitted = admission.task_types.as_deref().unwrap_or_default().join(", ");
            return Err(Problem::forbidden(format!(
                "the token of worker {} is not for tasks of type {task_type}; it is for {admitted}",
                said.name
            )));
        }
    }
    let mut labels = pairs(of_token);
    let mut claimed = BTreeMap::new();
    for (key, value) in said.labels.iter().filter(|(key, _)| of_token.get(key).is_none()) {
        let into = if admission.own_labels { &mut labels } else { &mut claimed };
        into.insert(key.to_owned(), value.to_owned());
    }
    Ok(Admitted { labels: checked(labels)?, claimed: checked(claimed)?, ..Admitted::default() })
}

/// What a worker with this token is handed work by now. It registered under its name, perhaps with another token that
/// admitted it to more, and may have been given this one since.
pub fn narrowed(registered: Abilities, of_token: &Labels, admission: &Admission) -> Abilities {
    let labels = registered.labels.retained(|key, value| {
        admission.own_labels || key.starts_with(Labels::RESOURCE) || of_token.get(key) == Some(value)
    });
    let task_types = registered.task_types.into_iter().filter(|name| admission.admits_type(name)).collect();
    Abilities { task_types, labels }
}

fn agent_as(agent: &AgentRecord, said: &Said<'_>) -> Result<Admitted, Problem> {
    if let Some(other) = said.types.iter().find(|task_type| !task_type.is_reserved()) {
        return Err(Problem::forbidden(format!(
            "agents take commands only; tasks of type {other} need a worker with a worker token"
        )));
    }
    let mut labels = pairs(&agent.labels);
    let mut claimed = BTreeMap::new();
    for (key, value) in said.labels.iter() {
        if !key.starts_with(RESERVED) {
            if !labels.contains_key(key) {
                claimed.insert(key.to_owned(), value.to_owned());
            }
        } else if key == Connection::REACH_LABEL {
            if !agent.admission.admits_reach(value) {
                return Err(Problem::forbidden(format!(
                    "the join token of agent {0} does not let it reach hosts by {value}; start it once with a new one, made \
                     with `bowline token create --kind join --name {0} --reach {value}`",
                    said.name
                )));
            }
            labels.insert(key.to_owned(), value.to_owned());
        } else if !(key == Connection::AGENT_LABEL && value == said.name.as_str()) {
            return Err(Problem::forbidden(format!("the label {key} is given by the server")));
        }
    }
    labels.insert(Connection::AGENT_LABEL.to_owned(), said.name.as_str().to_owned());
    let shares_agent_user = said.shares_agent_user.unwrap_or(true);
    if agent.sealing_key.is_some() && (!shares_agent_user || agent.admission.secrets_for_shared_user) {
        labels.insert(Connection::SEALING_LABEL.to_owned(), Connection::SEALING.to_owned());
    }
    Ok(Admitted { labels: checked(labels)?, claimed: checked(claimed)?, shares_agent_user })
}

#[cfg(test)]
mod tests {
    use bowline_model::admission::Reach;
    use bowline_model::{TenantId, Timestamp};

    use super::*;

    fn labels(text: &str) -> Labels {
        Labels::from_canonical(text).unwrap()
    }

    fn name() -> WorkerName {
        WorkerName::new("web1").unwrap()
    }

    fn types(list: &[&str]) -> Vec<TaskType> {
        list.iter().map(|text| TaskType::new(text).unwrap()).collect()
    }

    fn agent(text: &str, reach: &[Reach]) -> AgentRecord {
        AgentRecord {
            tenant: TenantId::mint(Timestamp::from_millis(1), [1; 10]),
            name: name(),
            public_key: [1; 32],
            sealing_key: None,
            labels: labels(text),
            admission: Admission { reach: reach.iter().copied().collect(), ..Admission::default() },
            token: "t".to_owned(),
            token_before: None,
            enrolled_at: Timestamp::default(),
        }
    }

    fn as_agent(agent: &AgentRecord, text: &str, shares: Option<bool>) -> Result<Admitted, Problem> {
        let (name, labels, types) = (name(), labels(text), [TaskType::command()]);
        let said = Said { name: &name, labels: &labels, types: &types, shares_agent_user: shares };
        admit(&Bearer::Agent(agent), &said, &BTreeSet::new())
    }

    fn as_worker(admission: &Admission, text: &str, list: &[&str]) -> Result<Admitted, Problem> {
        as_worker_with("", admission, text, list)
    }

    fn as_worker_with(given: &str, admission: &Admission, text: &str, list: &[&str]) -> Result<Admitted, Problem> {
        let given = labels(given);
        let (name, labels, types) = (name(), labels(text), types(list));
        let said = Said { name: &name, labels: &labels, types: &types, shares_agent_user: None };
        let built_in = [TaskType::new("echo").unwrap(), TaskType::new("http_request").unwrap()].into();
        admit(&Bearer::Worker(&given, admission), &said, &built_in)
    }

    #[test]
    fn an_agent_is_what_its_join_token_said() {
        let plain = agent("dc=fra", &[]);
        let got = as_agent(&plain, "dc=ams x=1", Some(false)).unwrap();
        assert_eq!((got.labels, got.claimed), (labels("bowline/agent=web1 dc=fra"), labels("x=1")));
        assert!(as_agent(&plain, "bowline/reach=ssh", None).is_err(), "reach is given, not taken");
        assert!(as_agent(&plain, "bowline/agent=web2", None).is_err());
        assert!(as_agent(&plain, "bowline/sealing=x25519", None).is_err());
        let reaching = agent("dc=fra", &[Reach::Ssh]);
        let got = as_agent(&reaching, "bowline/reach=ssh", None).unwrap();
        assert_eq!(got.labels, labels("bowline/agent=web1 bowline/reach=ssh dc=fra"));
        assert!(as_agent(&reaching, "bowline/reach=simulate", None).is_err());
        assert_eq!(as_agent(&reaching, "", None).unwrap().labels, labels("bowline/agent=web1 dc=fra"));
    }

    #[test]
    fn an_agent_that_shares_its_user_gets_secrets_only_if_its_join_token_says_so() {
        let keyed = AgentRecord { sealing_key: Some([1; 32]), ..agent("", &[]) };
        let sealing = |agent: &AgentRecord, shares| {
            let got = as_agent(agent, "", shares).unwrap();
            (got.shares_agent_user, got.labels.iter().any(|(key, _)| key == Connection::SEALING_LABEL))
        };
        assert_eq!(sealing(&keyed, Some(false)), (false, true));
        assert_eq!(sealing(&keyed, Some(true)), (true, false));
        assert_eq!(sealing(&keyed, None), (true, false), "one that does not say is not trusted");
        let admission = Admission { secrets_for_shared_user: true, ..Admission::default() };
        assert_eq!(sealing(&AgentRecord { admission, ..keyed }, Some(true)), (true, true));
    }

    #[test]
    fn an_agent_takes_commands_only() {
        let (agent, name, none) = (agent("", &[]), name(), Labels::default());
        for list in [&["mail"][..], &["bowline.command", "http_request"]] {
            let types = types(list);
            let said = Said { name: &name, labels: &none, types: &types, shares_agent_user: None };
            assert!(admit(&Bearer::Agent(&agent), &said, &BTreeSet::new()).is_err(), "{list:?}");
        }
    }

    #[test]
    fn a_worker_cannot_make_itself_an_agent() {
        let any = Admission::default();
        assert!(as_worker(&any, "bowline/agent=web1", &["x"]).is_err());
        assert!(as_worker(&any, "bowline/reach=simulate", &["x"]).is_err());
        assert!(as_worker(&any, "x=1", &["bowline.command"]).is_err());
        assert_eq!(as_worker(&any, "", &["x"]).unwrap().labels, labels(""));
    }

    #[test]
    fn a_worker_has_the_labels_of_its_token() {
        let (plain, own) = (Admission::default(), Admission { own_labels: true, ..Admission::default() });
        for (given, admission, said, counts, shown) in [
            ("", &plain, "gpu=a100", "", "gpu=a100"),
            ("gpu=a100", &plain, "", "gpu=a100", ""),
            ("gpu=a100", &plain, "gpu=h100 site=fra", "gpu=a100", "site=fra"),
            ("gpu=a100", &own, "gpu=h100 site=fra", "gpu=a100 site=fra", ""),
        ] {
            let got = as_worker_with(given, admission, said, &["x"]).unwrap();
            assert_eq!((got.labels, got.claimed), (labels(counts), labels(shown)), "{given}: {said}");
        }
    }

    #[test]
    fn a_registration_with_another_token_gives_no_more_than_the_token_of_now() {
        let registered = Abilities {
            task_types: types(&["gpu.render", "mail"]).into_iter().collect(),
            labels: labels("gpu=a100 site=fra").with_resources(&[("gpu".to_owned(), 2.0)].into()).unwrap(),
        };
        let now = Admission { task_types: Some(vec!["gpu.*".to_owned()]), ..Admission::default() };
        let got = narrowed(registered.clone(), &labels("site=fra gpu=h100"), &now);
        assert_eq!(got.task_types, types(&["gpu.render"]).into_iter().collect());
        assert_eq!(got.labels, labels("site=fra").with_resources(&[("gpu".to_owned(), 2.0)].into()).unwrap());
        let own = Admission { own_labels: true, ..Admission::default() };
        assert_eq!(narrowed(registered.clone(), &Labels::default(), &own), registered);
    }

    #[test]
    fn a_worker_takes_the_types_of_its_token_and_none_that_are_built_in() {
        let any = Admission::default();
        assert!(as_worker(&any, "", &["mail", "gpu.render"]).is_ok());
        assert!(as_worker(&any, "", &["mail", "http_request"]).is_err());
        let gpu = Admission { task_types: Some(vec!["gpu.*".to_owned(), "*".to_owned()]), ..Admission::default() };
        assert!(as_worker(&gpu, "", &["echo"]).is_err(), "no pattern opens what is built in");
        let gpu = Admission { task_types: Some(vec!["gpu.*".to_owned()]), ..Admission::default() };
        assert!(as_worker(&gpu, "", &["gpu.render"]).is_ok());
        assert!(as_worker(&gpu, "", &["gpu.render", "mail"]).is_err());
    }
}
