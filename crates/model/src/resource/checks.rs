//! Looks on after the first problem of a spec, so that its author is told of all of them at once.

use super::BadSpec;

/// What was found so far.
#[derive(Debug, Default)]
pub struct Checks {
    found: Vec<BadSpec>,
}

impl Checks {
    /// Takes down what another check found.
    pub fn add(&mut self, checked: Result<(), BadSpec>) -> &mut Self {
        if let Err(BadSpec { others, path, what, forbidden }) = checked {
            self.found.push(BadSpec { others: Vec::new(), path, what, forbidden });
            self.found.extend(others);
        }
        self
    }

    /// Takes down a problem unless something holds.
    pub fn holds(&mut self, holds: bool, path: &str, what: impl Into<String>) -> &mut Self {
        if !holds {
            self.found.push(BadSpec::at(path, what));
        }
        self
    }

    pub fn done(self) -> Result<(), BadSpec> {
        BadSpec::several(self.found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{ResourceKind, Spec};

    fn paths(kind: ResourceKind, spec: Value) -> Vec<String> {
        let spec = Spec::from_value(kind, spec).expect("it can be read");
        let bad = spec.check().expect_err("it is not good");
        assert_eq!(bad.others.iter().map(|other| other.others.len()).sum::<usize>(), 0, "one list, not a tree");
        bad.all().map(|bad| bad.path.clone()).collect()
    }

    #[test]
    fn everything_that_is_wrong_with_a_spec_is_told_at_once() {
        let command = json!({
            "argv": ["deploy", "{{ params.version }}", "ghp_0123456789abcdefghijABCDEFGHIJ012345"],
            "env": {"1A": "x", "API_PASSWORD": "hunter2"},
            "kill_grace_ms": 600_001,
            "user": "-x",
            "approval": {"quorum": 0},
        });
        let found = paths(ResourceKind::Command, command);
        let wrong = ["env", "argv[2]", "env.API_PASSWORD", "argv[1]", "kill_grace_ms", "user", "approval.quorum"];
        assert_eq!(found, wrong);
        let secret = json!({
            "ref": "env://KEY", "version": "", "description": "x\ny", "commands": ["no name"], "connectors": ["http_request"]
        });
        assert_eq!(paths(ResourceKind::SecretRef, secret), ["description", "version", "commands", "hosts"]);
        let broker = json!({"url": "amqps://a.example", "username": "", "password": {"secret_ref": "key"}, "ca": "none", "description": ""});
        assert_eq!(paths(ResourceKind::Rabbitmq, broker), ["description", "ca", "username"]);
        let schedule = json!({"misfire_max": 0, "grace_ms": 1, "start": {"type": "echo", "priority": 200}});
        let wrong = ["cron", "misfire_max", "grace_ms", "start.priority"];
        assert_eq!(paths(ResourceKind::Schedule, schedule), wrong);
        let trigger = json!({
            "rabbitmq": {"broker": "mq", "queue": "", "prefetch": 0}, "start": {"type": "echo", "payload": [1]},
        });
        assert_eq!(paths(ResourceKind::Trigger, trigger), ["rabbitmq.queue", "rabbitmq.prefetch", "start.payload"]);
    }
}
