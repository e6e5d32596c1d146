//! Why an agent cannot start, or stopped other than because it was asked to.

use std::io;
use std::path::PathBuf;

use bowline_execute::OpenError;
use bowline_model::WorkerName;
use bowline_model::name::NotAName;

use crate::error::WorkerError;
use crate::server::client::Refusal;

#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    #[error("the server's address: {0}")]
    Address(String),
    #[error("slots must be between 1 and 100000")]
    Slots,
    #[error(transparent)]
    Name(#[from] NotAName),
    #[error("this machine's name cannot be an agent's name; give one with --name")]
    HostName(#[source] NotAName),
    #[error("the data directory {} cannot be used", path.display())]
    Data {
        path: PathBuf,
        #[source]
        source: OpenError,
    },
    #[error(
        "the data directory {} was removed while the agent worked in it; nothing can be executed or reported without it, so the \
         agent leaves: bring it back, or enroll this agent again with a new join token",
        path.display()
    )]
    Removed { path: PathBuf },
    #[error("{} cannot be read or written", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not what an agent of this version wrote", path.display())]
    Unreadable { path: PathBuf },
    #[error("this data directory belongs to agent {enrolled}, not to {asked}; give {asked} a directory of its own")]
    OtherName { enrolled: WorkerName, asked: WorkerName },
    #[error("this agent is not enrolled yet; give it a join token with --join")]
    NotEnrolled,
    /// A join token that was used, has expired or never was; or a name or key the server knows already.
    #[error("the server did not let agent {agent} enroll: {refusal}")]
    NotEnrollable { agent: WorkerName, refusal: Refusal },
    #[error("the directory of secrets {} cannot be used: {why}", path.display())]
    Secrets { path: PathBuf, why: String },
    #[error(
        "only an agent that is root can run commands as {user}; start it as root, or without --run-as and --allow-user"
    )]
    NotRoot { user: String },
    #[error("there is no user {user} on this host to run commands as; name one with --run-as")]
    NoSuchUser { user: String },
    #[error("user {user} cannot be looked up")]
    UserLookup {
        user: String,
        #[source]
        source: io::Error,
    },
    #[error("{} cannot be passed through by user {user}, whose commands work below it; move the data directory with --data, chmod o+x it, or name another user with --run-as (or none with --share-user)", path.display())]
    Closed { path: PathBuf, user: String },
    #[error("the limit {limit} is {what}")]
    Limits { limit: &'static str, what: &'static str },
    #[error("hosts cannot be reached over SSH")]
    Ssh(#[from] bowline_ssh::BadSettings),
    #[error(transparent)]
    Server(#[from] WorkerError),
    #[error("the runs in the data directory cannot be looked at")]
    Recover(#[source] io::Error),
}
