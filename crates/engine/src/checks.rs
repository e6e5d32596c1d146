//! What can be said of work before it begins: of a task when it is asked for, of a workflow or a blueprint when it is stored.
//!
//! Enters: a task's type and payload, a workflow or a blueprint. Leaves: what is wrong, with its place, so that whoever wrote it hears it
//! at once and not from a run that failed. Only what stands there literally can be looked at: an expression becomes something
//! when its node is carried out, and is looked at then. Types that no handler of the house takes are nobody's business here.

use bowline_model::blueprint::{Action, BlueprintSpec};
use bowline_model::workflow::WorkflowSpec;
use bowline_model::{TaskType, TenantId};
use bowline_store::StoreResult;
use bowline_workflow::program::DefinitionMistake;
use serde_json::{Map, Value, json};

use crate::builtin::{BadPayload, Checked, Handlers, HttpRequest, RabbitmqPublish};

/// Where calls go whose address is not known yet: to a name that nobody has.
const SOMEWHERE: &str = "http://somewhere.invalid/";

/// What stands where a name is not known yet. Nobody is asked whether there is such a thing.
const SOMETHING: &str = "something";

/// Looks at work before it begins.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    handlers: Handlers,
}

/// A node, or what a `foreach` does for each of its items.
struct Place<'a> {
    /// Where its `config` is.
    path: String,
    node_type: &'a str,
    config: &'a Map<String, Value>,
    /// How long it may take, if its node's policy says so, and where that is.
    timeout: Option<(u64, String)>,
}

impl Checks {
    pub const fn new(handlers: Handlers) -> Self {
        Self { handlers }
    }

    /// A task, as somebody asks for it.
    pub async fn task(&self, tenant: TenantId, task_type: &TaskType, payload: &str) -> Checked {
        match self.handlers.find(task_type) {
            Some(handler) => handler.check(tenant, payload).await,
            None => Ok(Ok(())),
        }
    }

    /// The tasks that a workflow would begin, as far as they are written down. It has been compiled before, so its nodes have
    /// the shapes of their types.
    pub async fn workflow(&self, tenant: TenantId, spec: &WorkflowSpec) -> StoreResult<Vec<DefinitionMistake>> {
        let mut mistakes = Vec::new();
        for (n, node) in spec.nodes.iter().enumerate() {
            let outer = Place {
                path: format!("nodes[{n}].config"),
                node_type: &node.node_type,
                config: &node.config,
                timeout: node.policy.timeout_ms.map(|ms| (ms, format!("nodes[{n}].policy.timeout_ms"))),
            };
            let place = outer.inner().unwrap_or(outer);
            let Some((task_type, payload, field)) = place.task() else { continue };
            if let Err(bad) = self.task(tenant, &task_type, &payload.to_string()).await? {
                mistakes.push(place.mistake(field, &bad));
            }
        }
        Ok(mistakes)
    }

    /// The tasks that the states of a blueprint would dispatch, as far as they are written down.
    pub async fn blueprint(&self, tenant: TenantId, spec: &BlueprintSpec) -> StoreResult<Vec<DefinitionMistake>> {
        let mut mistakes = Vec::new();
        for (name, state) in &spec.states {
            for (n, action) in state.actions.iter().enumerate() {
                let at = format!("states.{name}.actions[{n}].{}", action.word());
                let tasks: Vec<(String, &TaskType, &Value)> = match action {
                    Action::DispatchTask(task) => vec![(format!("{at}.params"), &task.task_type, &task.params)],
                    Action::DispatchParallel(all) => {
                        let tasks = all.tasks.iter().enumerate();
                        tasks
                            .map(|(n, task)| (format!("{at}.tasks[{n}].params"), &task.task_type, &task.params))
                            .collect()
                    }
                    _ => continue,
                };
                for (path, task_type, params) in tasks {
                    let Some(payload) = known(task_type.as_str(), params) else { continue };
                    if let Err(bad) = self.task(tenant, task_type, &payload.to_string()).await? {
                        mistakes.push(mistake(path, &bad));
                    }
                }
            }
        }
        Ok(mistakes)
    }
}

impl Place<'_> {
    fn inner(&self) -> Option<Self> {
        let node = self.config.get("node").filter(|_| self.node_type == "foreach")?;
        Some(Place {
            path: format!("{}.node.config", self.path),
            node_type: node.get("type")?.as_str()?,
            config: node.get("config")?.as_object()?,
            timeout: self.timeout.clone(),
        })
    }

    /// The task that it begins: type, payload, and the field that holds the payload, if it is not the whole.
    fn task(&self) -> Option<(TaskType, Value, &'static str)> {
        match self.node_type {
            HttpRequest::NAME => Some((HttpRequest::task_type(), self.call(), "")),
            RabbitmqPublish::TASK_TYPE => Some((RabbitmqPublish::task_type(), self.message(), "")),
            "task" => {
                let task_type = TaskType::new(self.config.get("type")?.as_str()?).ok()?;
                let payload = known(task_type.as_str(), self.config.get("payload").unwrap_or(&Value::Null))?;
                Some((task_type, payload, ".payload"))
            }
            _ => None,
        }
    }

    /// The payload of a call, without everything that becomes something later.
    fn call(&self) -> Value {
        let mut payload = without_open(self.config);
        payload.entry("url").or_insert(SOMEWHERE.into());
        if let Some((timeout_ms, _)) = self.timeout {
            payload.insert("timeout_ms".to_owned(), timeout_ms.into());
        }
        if let Some(Value::Array(accept)) = payload.get_mut("accept") {
            for status in accept.iter_mut().filter(|status| status.is_number()) {
                *status = json!(status.to_string());
            }
        }
        payload.into()
    }

    /// The payload of a message. A node may leave out the routing key, and then it is an empty one.
    fn message(&self) -> Value {
        let mut payload = without_open(self.config);
        for (field, value) in [("routing_key", json!("")), ("body", Value::Null)] {
            payload.entry(field).or_insert(value);
        }
        payload.into()
    }

    fn mistake(&self, field: &str, bad: &BadPayload) -> DefinitionMistake {
        match (&self.timeout, bad.place.as_str()) {
            (Some((_, path)), "timeout_ms") if field.is_empty() => {
                DefinitionMistake { path: path.clone(), what: bad.what.clone() }
            }
            _ => mistake(format!("{}{field}", self.path), bad),
        }
    }
}

/// Says what is wrong with a payload that stands at a path.
fn mistake(path: String, bad: &BadPayload) -> DefinitionMistake {
    let what =
        if bad.code == BadPayload::VALIDATION { bad.what.clone() } else { format!("{}: {}", bad.code, bad.what) };
    let path = if bad.place.is_empty() { path } else { format!("{path}.{}", bad.place) };
    DefinitionMistake { path, what }
}

/// As much of a payload as can be looked at now. Where the house knows the fields, those that become something later are left
/// out; otherwise all of it must be there.
fn known(task_type: &str, payload: &Value) -> Option<Value> {
    if !is_open(payload) {
        return Some(payload.clone());
    }
    let wanted: &[(&str, Value)] = match task_type {
        HttpRequest::NAME => &[("url", json!(SOMEWHERE))],
        RabbitmqPublish::TASK_TYPE => {
            &[("broker", json!(SOMETHING)), ("routing_key", json!(SOMETHING)), ("body", Value::Null)]
        }
        _ => return None,
    };
    let written = payload.as_object().filter(|fields| !fields.keys().any(|name| name.contains("{{")))?;
    let mut left = without_open(written);
    // What was there and is open is something; what was never there is missed.
    for (field, value) in wanted.iter().filter(|(field, _)| written.contains_key(*field)) {
        left.entry(*field).or_insert(value.clone());
    }
    Some(left.into())
}

/// Fields, without everything that becomes something later: the fields themselves, or what is open in an object.
fn without_open(fields: &Map<String, Value>) -> Map<String, Value> {
    let mut left = fields.clone();
    left.retain(|name, value| match value {
        Value::Object(inner) if name != "body" => {
            inner.retain(|name, value| !name.contains("{{") && !is_open(value));
            true
        }
        value => !is_open(value),
    });
    left
}

/// Whether somewhere in it there is a place for a value that is not known yet.
fn is_open(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{"),
        Value::Array(list) => list.iter().any(is_open),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains("{{") || is_open(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use bowline_connect::egress::{Doors, TenantRules};
    use bowline_model::Timestamp;
    use bowline_store::{Clock, Ledger, ManualClock};
    use bowline_store_sql::{SqlLedger, SqlSettings};

    use super::*;
    use crate::secrets::{SecretRules, Secrets};

    /// With the handlers of the house that look at payloads, as the server has them.
    async fn checks() -> Checks {
        let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000)) as Arc<dyn Clock>;
        let ledger = SqlLedger::open_memory_alone(&SqlSettings::new(Arc::clone(&clock))).expect("a ledger");
        let ledger: Arc<dyn Ledger> = Arc::new(ledger);
        let made = ledger.create_tenant(tenant(), "acme".to_owned(), "ada".into()).await;
        made.expect("stored").expect("a tenant");
        let secrets =
            Secrets::new(Arc::clone(&ledger), Arc::clone(&clock), SecretRules::default(), BTreeMap::default());
        let doors = Doors::new(TenantRules::default()).expect("doors");
        let publish = RabbitmqPublish::new(ledger, Arc::clone(&secrets), TenantRules::default());
        let mut handlers = Handlers::standard();
        handlers.add(HttpRequest::task_type(), Arc::new(HttpRequest::new(doors, secrets, clock)));
        handlers.add(RabbitmqPublish::task_type(), Arc::new(publish));
        Checks::new(handlers)
    }

    fn tenant() -> TenantId {
        TenantId::mint(Timestamp::from_millis(1), [1; 10])
    }

    fn lines(mistakes: Vec<DefinitionMistake>) -> Vec<String> {
        mistakes.into_iter().map(|mistake| format!("{}: {}", mistake.path, mistake.what)).collect()
    }

    async fn of_node(checks: &Checks, node_type: &str, config: Value) -> Vec<String> {
        let nodes = json!([{"id": "n", "type": node_type, "config": config}]);
        let spec = serde_json::from_value(json!({"nodes": nodes, "edges": []})).expect("a workflow");
        lines(checks.workflow(tenant(), &spec).await.expect("looked at"))
    }

    async fn of_state(checks: &Checks, action: Value) -> Vec<String> {
        let spec = json!({"start": "a", "states": {"a": {"actions": [action]}}});
        let spec = serde_json::from_value(spec).expect("a blueprint");
        lines(checks.blueprint(tenant(), &spec).await.expect("looked at"))
    }

    #[tokio::test]
    async fn messages_are_looked_at_as_far_as_they_are_written() {
        let checks = checks().await;
        let long = "k".repeat(300);
        for (field, value, line) in [
            ("properties", json!({"foo": 1}), "nodes[0].config.properties.foo: unknown field `foo`"),
            ("properties", json!({"priority": 999}), "nodes[0].config.properties.priority: invalid value"),
            ("routing_key", json!(long), "nodes[0].config.routing_key: at most 255 bytes"),
            ("headers", json!({"n": u64::MAX}), "nodes[0].config.headers.n: a whole number"),
        ] {
            let mut config = json!({"broker": "b", "exchange": "x", "body": {"n": "{{ variables.n }}"}});
            assert_eq!(of_node(&checks, "rabbitmq_publish", config.clone()).await, [""; 0]);
            config[field] = value;
            let found = of_node(&checks, "rabbitmq_publish", config.clone()).await;
            assert!(found.len() == 1 && found[0].starts_with(line), "{line}: {found:?}");
            let each = json!({"items": [1], "node": {"type": "rabbitmq_publish", "config": config}});
            let found = of_node(&checks, "foreach", each).await;
            let line = line.replace("config.", "config.node.config.");
            assert!(found.len() == 1 && found[0].starts_with(&line), "{line}: {found:?}");
        }
        // What becomes something later is looked at then.
        let open = json!({
            "broker": "b", "routing_key": "{{ variables.key }}", "body": "{{ variables.body }}",
            "properties": {"priority": "{{ variables.n }}", "type": "t"}, "headers": {"n": "{{ variables.n }}"},
        });
        assert_eq!(of_node(&checks, "rabbitmq_publish", open).await, [""; 0]);
        // One header is written, the other is not: the first one is looked at.
        let headers = json!({"written": u64::MAX, "open": "{{ variables.n }}"});
        let half = json!({"broker": "b", "routing_key": "k", "body": 1, "headers": headers});
        let found = of_node(&checks, "rabbitmq_publish", half).await;
        assert!(found.len() == 1 && found[0].starts_with("nodes[0].config.headers.written: "), "{found:?}");
        // Whoever asks for the task itself hears the same.
        let task =
            json!({"type": "rabbitmq_publish", "payload": {"broker": "b", "routing_key": "{{ variables.key }}"}});
        let found = of_node(&checks, "task", task).await;
        assert!(found.len() == 1 && found[0].starts_with("nodes[0].config.payload: missing field `body`"), "{found:?}");
    }

    #[tokio::test]
    async fn calls_are_looked_at_as_far_as_they_are_written() {
        let (checks, url) = (checks().await, "https://example.com/");
        let text = json!({"content-type": "text/plain"});
        for (config, line) in [
            (json!({"url": url, "accept": ["2xx", 404]}), None),
            (json!({"url": url, "accept": ["2xx", 99]}), Some("accept: a list such as")),
            (json!({"url": "ftp://example.com/"}), Some("url: the url must begin with")),
            (json!({"url": "http://127.0.0.1/"}), Some("url: EGRESS_DENIED: ")),
            (json!({"url": "{{ variables.url }}", "query": {"n": ["{{ variables.n }}"]}}), None),
            (json!({"url": "{{ variables.url }}", "method": "FETCH"}), Some("method: one of GET")),
            (json!({"url": url, "headers": {"{{ variables.name }}": "a", "x-a": "{{ variables.a }}"}}), None),
            (json!({"url": url, "headers": {"x-a": "{{ variables.a }}", "x-b": 1}}), Some("headers.x-b: a text, or")),
            // A body is open as a whole: what is left of it would be another one.
            (json!({"url": url, "headers": text, "body": {"n": "{{ variables.n }}", "m": 1}}), None),
            (json!({"url": url, "headers": text, "body": {"n": 1}}), Some("body: only a text")),
        ] {
            let fits = |found: &[String], at: &str| match line {
                Some(line) => found.len() == 1 && found[0].starts_with(&format!("nodes[0].config.{at}{line}")),
                None => found.is_empty(),
            };
            let found = of_node(&checks, "http_request", config.clone()).await;
            assert!(fits(&found, ""), "{config}: {found:?}");
            let each = json!({"items": [1], "node": {"type": "http_request", "config": config}});
            let found = of_node(&checks, "foreach", each).await;
            assert!(fits(&found, "node.config."), "{config}: {found:?}");
        }
        // Only a `foreach` carries out a node of its own; and a task whose fields have no names yet is looked at later.
        let inner = json!({"url": url, "node": {"type": "http_request", "config": {"url": 1}}});
        let found = of_node(&checks, "http_request", inner).await;
        assert!(found.len() == 1 && found[0].starts_with("nodes[0].config.node: unknown field"), "{found:?}");
        let later = json!({"type": "http_request", "payload": {"url": "ftp://a", "{{ variables.name }}": 1}});
        assert_eq!(of_node(&checks, "task", later).await, [""; 0]);
    }

    #[tokio::test]
    async fn a_time_limit_is_refused_where_it_was_written() {
        let checks = checks().await;
        let of = async |node_type: &str, config: Value| {
            let node = json!({"id": "n", "type": node_type, "config": config, "policy": {"timeout_ms": 3_600_001}});
            let spec = serde_json::from_value(json!({"nodes": [node], "edges": []})).expect("a workflow");
            lines(checks.workflow(tenant(), &spec).await.expect("looked at"))
        };
        let call = json!({"url": "https://example.com/"});
        let found = of("http_request", call.clone()).await;
        assert!(found.len() == 1 && found[0].starts_with("nodes[0].policy.timeout_ms: between 1 and"), "{found:?}");
        let each = json!({"items": [1], "node": {"type": "http_request", "config": call}});
        let found = of("foreach", each).await;
        assert!(found.len() == 1 && found[0].starts_with("nodes[0].policy.timeout_ms: between 1 and"), "{found:?}");
        // The policy of a task is not for what its payload says.
        let task = json!({"type": "http_request", "payload": {"url": "https://example.com/", "timeout_ms": 0}});
        let found = of("task", task).await;
        let line = "nodes[0].config.payload.timeout_ms: between 1 and";
        assert!(found.len() == 1 && found[0].starts_with(line), "{found:?}");
        let found = of("http_request", json!({"url": "ftp://example.com/"})).await;
        assert!(found.len() == 1 && found[0].starts_with("nodes[0].config.url: "), "{found:?}");
    }

    #[tokio::test]
    async fn what_states_dispatch_is_looked_at_like_what_nodes_do() {
        let checks = checks().await;
        let dispatch = |task_type: &str, params: Value| json!({"dispatch_task": {"type": task_type, "params": params, "transitions": {"success": "a"}}});
        let good = json!({"url": "https://example.com/{{ variables.id }}", "headers": {"x-a": "{{ variables.a }}"}});
        for (action, line) in [
            (dispatch("http_request", good.clone()), None),
            (dispatch("http_request", json!("{{ variables.call }}")), None),
            (dispatch("of.somebody.else", json!({"url": 1})), None),
            (dispatch("http_request", json!({"url": "ftp://example.com"})), Some("dispatch_task.params.url: ")),
            (
                dispatch("http_request", json!({"url": "{{ variables.url }}", "method": "FETCH"})),
                Some("dispatch_task.params.method: one of GET"),
            ),
            (dispatch("http_request", json!({})), Some("dispatch_task.params: missing field `url`")),
            (
                json!({"dispatch_parallel": {"aggregate_into": "a", "tasks": [
                    {"type": "http_request", "params": good},
                    {"type": "rabbitmq_publish", "params": {"broker": "b", "routing_key": "q", "body": 1, "tpye": 1}},
                ]}}),
                Some("dispatch_parallel.tasks[1].params.tpye: unknown field `tpye`"),
            ),
        ] {
            let found = of_state(&checks, action.clone()).await;
            let fits = match line {
                Some(line) => found.len() == 1 && found[0].starts_with(&format!("states.a.actions[0].{line}")),
                None => found.is_empty(),
            };
            assert!(fits, "{action}: {found:?}");
        }
    }
}
