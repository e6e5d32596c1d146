//! An agent by itself, and its keepers, for tests. In the product both are subcommands of the one binary.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["keeper", run_dir] => bowline_execute::keeper::main(std::path::Path::new(run_dir)),
        ["agent", server, data, name, join, ssh @ ..] if matches!(ssh.len(), 0 | 3) => {
            agent(server, data, name, join, ssh)
        }
        _ => {
            eprintln!("usage: bowline-fleet keeper RUN_DIRECTORY");
            eprintln!("       bowline-fleet agent SERVER DATA NAME JOIN_TOKEN [SSH_USER SSH_KEY KNOWN_HOSTS]");
            ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
fn agent(server: &str, data: &str, name: &str, join: &str, ssh: &[&str]) -> ExitCode {
    use bowline_agent::CancellationToken;
    use bowline_agent::fleet::{FleetAgent, FleetSettings, Reach, SshSettings};

    let work = async {
        let keeper = [std::env::current_exe()?.into_os_string(), "keeper".into()];
        let mut settings = FleetSettings::new(server, data, keeper);
        settings.name = Some(name.to_owned());
        settings.join = Some(join.to_owned());
        // Tests look at what commands do in directories of their own.
        settings.isolation.share_user = true;
        if let [user, key, known_hosts] = ssh {
            let mut ssh = SshSettings::new(*user);
            ssh.key_files = vec![key.into()];
            ssh.known_hosts = vec![known_hosts.into()];
            settings.reach = Some(Reach::Ssh(ssh));
        }
        let agent = FleetAgent::open(settings).await.map_err(std::io::Error::other)?;
        agent.run(CancellationToken::new()).await.map_err(std::io::Error::other)
    };
    let done = tokio::runtime::Runtime::new().and_then(|runtime| runtime.block_on(work));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("agents need Linux");
    ExitCode::FAILURE
}
