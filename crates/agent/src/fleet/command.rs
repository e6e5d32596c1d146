//! From a command with places in it to what is executed on one host.
//!
//! Enters: a task and its command. Leaves: a manifest in which every place is filled. Pure: no file, no clock.

use std::collections::BTreeMap;

use bowline_execute::{HostLock, Limits, Manifest, Sandbox};
use bowline_model::fleet::{self, Cannot, Scope, Template};
use bowline_protocol::{HostTask, Task};
use serde_json::Value;

/// Why a command cannot be executed on this host. No value is repeated.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    #[error("{path}: {cannot}")]
    Place { path: String, cannot: Cannot },
    #[error("the parameters {first} and {second} would both be the variable {variable}")]
    SameVariable { first: String, second: String, variable: String },
}

/// What is executed for this task, with this permission of the agent's.
pub fn manifest(task: &Task, wish: &HostTask, allow_new_privileges: bool) -> Result<Manifest, FillError> {
    let (spec, host) = (&wish.command.spec, &wish.host);
    let scope = Scope { params: &wish.command.params, host_name: host.name.as_str(), host: &host.scope };
    let fill = |path: &str, template: &Template| {
        template.fill(&scope).map_err(|cannot| FillError::Place { path: path.to_owned(), cannot })
    };
    let mut env = BTreeMap::new();
    let argv = match &spec.script {
        Some(script) => {
            env = parameters(&wish.command.params)?;
            env.retain(|variable, _| !spec.secrets.contains_key(variable));
            ["/bin/sh", "-c", script, "bowline"].map(str::to_owned).to_vec()
        }
        None => {
            let items = spec.argv.iter().enumerate();
            items.map(|(n, item)| fill(&format!("argv[{n}]"), item)).collect::<Result<_, _>>()?
        }
    };
    for (variable, template) in &spec.env {
        env.insert(variable.clone(), fill(&format!("env.{variable}"), template)?);
    }
    let about = [
        ("BOWLINE_JOB_ID", task.job_id.to_string()),
        ("BOWLINE_RUN_ID", task.task_id.to_string()),
        ("BOWLINE_HOST", host.name.as_str().to_owned()),
        ("BOWLINE_ATTEMPT", task.attempt.to_string()),
        ("BOWLINE_IDEMPOTENCY_KEY", task.idempotency_key.clone()),
    ];
    env.extend(about.map(|(variable, value)| (variable.to_owned(), value)));
    Ok(Manifest {
        version: Manifest::VERSION,
        run: task.task_id,
        job: wish.unit_id,
        host: host.name.clone(),
        fence: task.fence,
        attempt: task.attempt,
        command: Some(task.job_id),
        host_fence: u64::try_from(host.fence).unwrap_or(0),
        lock: match host.lock {
            fleet::HostLock::Exclusive => HostLock::Exclusive,
            fleet::HostLock::Shared => HostLock::Shared,
        },
        argv,
        env,
        secrets: spec.secrets.clone(),
        cwd: spec.cwd.as_ref().map(|cwd| fill("cwd", cwd)).transpose()?.map(Into::into),
        stdin: spec.stdin.as_ref().map(|stdin| fill("stdin", stdin)).transpose()?,
        timeout_ms: task.timeout_ms,
        kill_grace_ms: spec.kill_grace_ms,
        output_max_bytes: spec.output_max_bytes,
        allow_new_privileges,
        // The guard says.
        limits: Limits::default(),
        user: None,
        sandbox: Sandbox::None,
        closed: Vec::new(),
        leave_children: spec.leave_children,
    })
}

/// Parameters as a script sees them.
fn parameters(params: &serde_json::Map<String, Value>) -> Result<BTreeMap<String, String>, FillError> {
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    let mut env = BTreeMap::new();
    for (name, value) in params {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let variable = format!("PARAM_{}", name.chars().map(plain).collect::<String>());
        if let Some(first) = names.insert(variable.clone(), name) {
            return Err(FillError::SameVariable { first: first.to_owned(), second: name.clone(), variable });
        }
        env.insert(variable, text);
    }
    Ok(env)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn task(command: &Value) -> (Task, HostTask) {
        let params = json!({
            "unit_id": "01890a5d-ac96-774b-bcce-b302099a8059",
            "command": command,
            "host": {"id": 7, "name": "web-1", "connection": {"via": "agent"}, "lock": "shared", "fence": 9,
                     "scope": {"labels": {"role": "web"}, "vars": {"port": 80}}},
        });
        let wish = serde_json::from_value(params.clone()).unwrap();
        let task = json!({
            "task_id": "01890a5d-ac96-774b-bcce-b302099a8057", "task_type": "bowline.command", "params": params,
            "job_id": "01890a5d-ac96-774b-bcce-b302099a8058", "worker_id": "web-1", "lane": "default", "attempt": 2,
            "fence": 3, "idempotency_key": "k1", "timeout_ms": 5_000, "created_at": "2026-01-01T00:00:00Z",
        });
        (serde_json::from_str(&task.to_string()).unwrap(), wish)
    }

    fn made(command: &Value) -> Result<Manifest, FillError> {
        let (task, wish) = task(command);
        manifest(&task, &wish, false)
    }

    #[test]
    fn places_are_filled_and_the_run_is_described() {
        let made = made(&json!({
            "spec": {"argv": ["echo", "{{ params.user }}@{{ host.name }}", "{{ host.labels.role }}"],
                     "params": {}, "env": {"PORT": "{{ host.vars.port }}"}, "secrets": {"TOKEN": "api"},
                     "cwd": "/srv/{{ params.user }}", "stdin": "hello {{ params.user }}", "kill_grace_ms": 7,
                     "output_max_bytes": 99},
            "params": {"user": "ann; rm -rf /"},
        }))
        .unwrap();
        assert_eq!(made.check(), Ok(()));
        assert_eq!(made.argv, ["echo", "ann; rm -rf /@web-1", "web"]);
        let env = |name: &str| made.env.get(name).map(String::as_str);
        assert_eq!(env("PORT"), Some("80"));
        assert_eq!(env("PARAM_USER"), None, "only scripts have them");
        assert_eq!(env("BOWLINE_JOB_ID"), Some("01890a5d-ac96-774b-bcce-b302099a8058"));
        assert_eq!(env("BOWLINE_RUN_ID"), Some("01890a5d-ac96-774b-bcce-b302099a8057"));
        assert_eq!((env("BOWLINE_HOST"), env("BOWLINE_ATTEMPT")), (Some("web-1"), Some("2")));
        assert_eq!(env("BOWLINE_IDEMPOTENCY_KEY"), Some("k1"));
        assert_eq!(made.cwd.as_deref(), Some(std::path::Path::new("/srv/ann; rm -rf /")));
        assert_eq!(made.stdin.as_deref(), Some("hello ann; rm -rf /"));
        assert_eq!(made.job.to_string(), "01890a5d-ac96-774b-bcce-b302099a8059", "the unit, not the whole job");
        assert_eq!((made.fence, made.host_fence, made.lock), (3, 9, HostLock::Shared));
        assert_eq!((made.timeout_ms, made.kill_grace_ms, made.output_max_bytes), (5_000, 7, 99));
        assert_eq!(made.secrets["TOKEN"], "api");
    }

    #[test]
    fn a_script_gets_its_parameters_as_variables_and_never_as_text() {
        let made = made(&json!({
            "spec": {"script": "echo $PARAM_USER_NAME {{ no place }}", "params": {}, "env": {"PARAM_OWN": "mine"},
                     "secrets": {"PARAM_KEY": "key"}},
            "params": {"user-name": "$(reboot)", "n": 3, "list": [1, "a"], "obj": {"a": 1}, "none": null,
                       "own": "theirs", "key": "not this", "yes": true},
        }))
        .unwrap();
        assert_eq!(made.argv, ["/bin/sh", "-c", "echo $PARAM_USER_NAME {{ no place }}", "bowline"]);
        let given: Vec<_> = made.env.iter().filter(|(name, _)| name.starts_with("PARAM_")).collect();
        let given: Vec<_> = given.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            given,
            [
                ("PARAM_LIST", "[1,\"a\"]"),
                ("PARAM_N", "3"),
                ("PARAM_OBJ", "{\"a\":1}"),
                ("PARAM_OWN", "mine"),
                ("PARAM_USER_NAME", "$(reboot)"),
                ("PARAM_YES", "true"),
            ]
        );
        assert_eq!(made.check(), Ok(()));
    }

    #[test]
    fn what_cannot_be_filled_is_named_without_values() {
        let missing = made(&json!({"spec": {"argv": ["x", "{{ params.user }}"], "params": {}}})).unwrap_err();
        assert_eq!(missing.to_string(), "argv[1]: params.user has no value");
        let twins = made(&json!({"spec": {"script": "x", "params": {}}, "params": {"a-b": 1, "a_b": 2}})).unwrap_err();
        assert_eq!(twins.to_string(), "the parameters a-b and a_b would both be the variable PARAM_A_B");
    }
}
