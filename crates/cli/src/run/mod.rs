//! `run`: a command on hosts, from the question to the last host.

mod args;
mod ask;
mod named;
mod wish;
pub mod words;

pub use args::RunArgs;

use bowline_model::JobId;

use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::fleet;
use crate::job::{Accepted, new_key};
use crate::output::{Paint, Screen};
use wish::Wish;

pub async fn run(client: &Client, screen: &mut Screen, args: &RunArgs) -> Result<Exit, Failure> {
    let wish = Wish::of(client, screen, args).await?;
    let meant = ask::meant(client, screen, args).await?;
    meant.tell(screen);
    if let Some(question) = meant.question(&wish.title).filter(|_| !args.yes)
        && !screen.confirm(&question)?
    {
        return Err(Failure::Declined);
    }
    // A name of the person's own makes it safe to ask again; where there is none, this does.
    let made_up = (args.key.is_none() && args.external_id.is_none()).then(new_key);
    let request = Request::post(["jobs"]).body(wish.body()?).idempotency_key(made_up).again(Again::Patient);
    let answer = client.call(&request).await?;
    let wait = args.wait.wait();
    if screen.json() && wait.is_no() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let accepted: Accepted = answer.read()?;
    let (color, status) = (screen.color(), accepted.status.as_str());
    let again = if accepted.is_replayed() { " (the same job as before, by its key)" } else { "" };
    let line =
        format!("job {} (#{}) {}{again}", accepted.job_id, accepted.number, Paint::of_status(status).on(status, color));
    if wait.is_no() {
        screen.line(&line)?;
        screen.note(&format!("follow it with `bowline job watch {}`", accepted.job_id));
        return Ok(Exit::Success);
    }
    if !screen.json() {
        screen.note(&line);
    }
    let id: JobId = accepted.job_id.as_str().parse().map_err(|_| client.strange("it has no job id".to_owned()))?;
    let ending = fleet::Ending { all: args.all, output: !args.no_output };
    let watching = async |screen: &mut Screen| {
        Box::pin(fleet::watch(client, screen, id, ending, fleet::OnInterrupt::Cancel)).await
    };
    wait.limit().watch(screen, id, watching).await
}
