//! How a command comes to life: with an environment of its own, a group of its own, and nothing of ours.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use crate::isolation::{Confinement, Held};
use crate::manifest::Manifest;
use crate::place::Place;
use crate::process::{Identity, RUN_VARIABLE};
use crate::secrets::Secrets;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const LANG: &str = "C.UTF-8";
/// What the kernel lets everybody have. A larger pipe means fewer turns between the command and us.
const PIPE_BYTES: usize = 1 << 20;

pub(super) struct Spawned {
    pub identity: Identity,
    /// Where its output can be read, without waiting: standard output, then standard error.
    pub pipes: [OwnedFd; 2],
}

pub(super) fn spawn(place: &Place, manifest: &Manifest, secrets: &Secrets, held: &Held) -> io::Result<Spawned> {
    let (program, arguments) = manifest.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let [(out, out_end), (err, err_end)] = [pipe()?, pipe()?];
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", std::env::var_os("HOME").unwrap_or_else(|| "/".into()))
        .env("LANG", std::env::var_os("LANG").unwrap_or_else(|| LANG.into()))
        .envs(of_the_user(place, manifest))
        .envs(&manifest.env)
        .envs(manifest.secrets.iter().filter_map(|(variable, name)| Some((variable, secrets.get(name)?))))
        // The mark by which its processes are found when nobody who knew them is left.
        .env(RUN_VARIABLE, manifest.run.to_string())
        .process_group(0)
        .stdin(input(manifest.stdin.as_deref())?)
        .stdout(out_end)
        .stderr(err_end);
    let directory = manifest.cwd.clone().unwrap_or_else(|| place.work());
    let confinement = Confinement::new(place, manifest, &directory, held.rlimits.clone()).map_err(io::Error::other)?;
    let witness = confinement.install(&mut command)?;
    let child = command.spawn().map_err(|error| witness.explain(error))?;
    // The command is not waited for through `child`: whoever adopts others waits for everybody at once.
    Ok(Spawned { identity: Identity::of(child.id())?, pipes: [out, err] })
}

/// Variables that tell a command who it is. In a sandbox its home is where it may write.
fn of_the_user(place: &Place, manifest: &Manifest) -> Vec<(&'static str, OsString)> {
    let mut variables: Vec<(&'static str, OsString)> = Vec::new();
    if let Some(user) = &manifest.user {
        variables.extend([("HOME", user.home.clone().into()), ("USER", user.name.clone().into())]);
        variables.push(("LOGNAME", user.name.clone().into()));
    }
    if !manifest.sandbox.is_none() {
        variables.extend([("HOME", place.work().into()), ("TMPDIR", place.tmp().into())]);
    }
    variables
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    // Refused to a user who has many pipes already. It is then slower, and nothing else.
    let _ = fcntl_setpipe_size(&read, PIPE_BYTES);
    fcntl_setfl(&read, OFlags::NONBLOCK)?;
    Ok((read, write))
}

/// A file that is in memory only, so that a command may take its time with it and nobody must wait.
fn input(text: Option<&str>) -> io::Result<Stdio> {
    let Some(text) = text else { return Ok(Stdio::null()) };
    let mut file = File::from(memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}
