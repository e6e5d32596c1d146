//! A run of a workflow on the server: reading it, and saying things to it.

use bowline_model::JobId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::actor::ActorView;
use crate::client::{Again, Answer, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::new_key;
use crate::output::Text;

/// Steps asked for at once.
const PAGE: &str = "100";

/// The answer to `GET /jobs/{id}`, as far as it matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RunDetail {
    pub job: RunJob,
    pub workflow: Option<RunView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RunJob {
    pub status: Text,
    pub result: Value,
    pub error: Option<Fault>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Fault {
    pub class: Text,
    pub message: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RunView {
    pub name: Text,
    pub created_by: ActorView,
    pub version: Option<u32>,
    pub steps: u32,
    pub node: Text,
    pub paused_for: Text,
    pub wakes_at: Text,
    pub waits: Vec<WaitView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct WaitView {
    pub kind: Text,
    pub node: Text,
    pub name: Text,
    pub key: Text,
    pub expires_at: Text,
    pub hash: Text,
}

impl RunJob {
    /// How it ended; `None` while it has not.
    pub fn end(&self) -> Option<Exit> {
        match self.status.as_str() {
            "success" => Some(Exit::Success),
            "failed" | "dead" | "error" => Some(Exit::Refused),
            "canceled" => Some(Exit::Canceled),
            _ => None,
        }
    }
}

impl RunDetail {
    pub fn view(&self) -> Result<&RunView, Failure> {
        self.workflow.as_ref().ok_or_else(|| {
            Failure::Usage("this job is not a workflow run; `bowline job get` shows what it is".to_owned())
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct StepView {
    pub n: u32,
    pub node: Text,
    #[serde(rename = "type")]
    pub node_type: Text,
    pub visit: u32,
    pub status: Text,
    pub exit: Value,
    pub input: Value,
    pub input_bytes: Option<u64>,
    pub previous: Vec<Text>,
    pub next: Vec<Text>,
    pub output: Value,
    pub error: Option<Fault>,
    pub began_at: Text,
    pub ended_at: Text,
    pub origin: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct StepPage {
    pub steps: Vec<StepView>,
    next: Option<u32>,
    /// What an execution that has ended never came to.
    pub skipped: Vec<SkippedView>,
    pub skipped_count: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SkippedView {
    pub node: Text,
    #[serde(rename = "type")]
    pub node_type: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContextView {
    pub step: u32,
    pub steps: u32,
    pub context: Value,
    pub diff: Vec<Change>,
    pub places: Vec<Place>,
    pub debug: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Change {
    pub path: Text,
    pub before: Value,
    pub after: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Place {
    pub node: Text,
    pub visit: u32,
    pub waits: Value,
}

/// The answer to `GET /jobs/{id}/graph?format=json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct GraphView {
    pub definition: Value,
    pub nodes: std::collections::BTreeMap<String, String>,
}

/// One run.
pub struct Remote<'c> {
    pub client: &'c Client,
    pub id: JobId,
}

impl<'c> Remote<'c> {
    pub const fn new(client: &'c Client, id: JobId) -> Self {
        Self { client, id }
    }

    fn get(&self, what: Option<&'static str>) -> Request {
        let id = self.id.to_string();
        // A server that restarts is worth some patience.
        Request::get(["jobs", id.as_str()].into_iter().chain(what)).again(Again::Patient)
    }

    async fn post(&self, verb: &str, body: &Value) -> Result<Answer, Failure> {
        self.client.call(&Request::post(["jobs", &self.id.to_string(), verb]).body(body.to_string())).await
    }

    pub async fn job(&self) -> Result<Answer, Failure> {
        self.client.call(&self.get(None)).await
    }

    pub async fn detail(&self) -> Result<RunDetail, Failure> {
        self.job().await?.read()
    }

    /// Every step from this one on.
    pub async fn steps(&self, from: u32) -> Result<Vec<StepView>, Failure> {
        self.steps_and_skipped(from).await.map(|page| page.steps)
    }

    /// The same, and what was skipped.
    pub async fn steps_and_skipped(&self, from: u32) -> Result<StepPage, Failure> {
        let (mut all, mut next) = (StepPage::default(), Some(from));
        while let Some(from) = next {
            let request = self.get(Some("steps")).query("limit", PAGE).query("from", from.to_string());
            let page: StepPage = self.client.call(&request).await?.read()?;
            all.steps.extend(page.steps);
            (all.skipped, all.skipped_count) = (page.skipped, page.skipped_count);
            next = page.next.filter(|next| *next > from);
        }
        Ok(all)
    }

    pub async fn context_answer(&self, step: Option<u32>) -> Result<Answer, Failure> {
        self.client.call(&self.get(Some("context")).query_if("step", step.map(|step| step.to_string()))).await
    }

    pub async fn context(&self, step: Option<u32>) -> Result<ContextView, Failure> {
        self.context_answer(step).await?.read()
    }

    pub async fn graph(&self) -> Result<GraphView, Failure> {
        self.client.call(&self.get(Some("graph")).query("format", "json")).await?.read()
    }

    pub async fn steer(&self, order: Value, reason: Option<&str>) -> Result<(), Failure> {
        let mut body = json!({ "order": order });
        if let Some(reason) = reason {
            body["reason"] = reason.into();
        }
        self.post("steer", &body).await.map(drop)
    }

    /// Once, however often it has to be asked for.
    pub async fn fork(&self, body: &Value) -> Result<Answer, Failure> {
        let request = Request::post(["jobs", &self.id.to_string(), "fork"]).body(body.to_string());
        self.client.call(&request.idempotency_key(Some(new_key())).again(Again::Patient)).await
    }

    pub async fn shadow(&self, body: &Value) -> Result<Answer, Failure> {
        self.post("shadow", body).await
    }

    pub async fn signal(&self, body: &Value) -> Result<Answer, Failure> {
        self.post("signal", body).await
    }

    pub async fn cancel(&self, reason: &str) -> Result<(), Failure> {
        self.post("cancel", &json!({ "reason": reason })).await.map(drop)
    }

    /// A yes or a no to what waits for one.
    pub async fn decide(&self, yes: bool, node: Option<&str>, reason: Option<&str>) -> Result<(), Failure> {
        let verb = if yes { "approve" } else { "reject" };
        let mut body = json!({});
        if let Some(node) = node {
            body["node"] = node.into();
        }
        if let Some(reason) = reason {
            body["reason"] = reason.into();
        }
        self.post(verb, &body).await.map(drop)
    }
}
