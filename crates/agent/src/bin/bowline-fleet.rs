//! An agent by itself, and its keepers, for tests. In the product both are subcommands of the one binary.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["keeper", run_dir] => bowline_execute::keeper::main(std::path::Path::new(run_dir)),
        ["agent", server, data, name, join] => agent(server, data, name, join),
        _ => {
            eprintln!("usage: bowline-fleet keeper RUN_DIRECTORY | agent SERVER DATA NAME JOIN_TOKEN");
            ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
fn agent(server: &str, data: &str, name: &str, join: &str) -> ExitCode {
    use bowline_agent::CancellationToken;
    use bowline_agent::fleet::{FleetAgent, FleetSettings};

    let work = async {
        let keeper = [std::env::current_exe()?.into_os_string(), "keeper".into()];
        let mut settings = FleetSettings::new(server, data, keeper);
        settings.name = Some(name.to_owned());
        settings.join = Some(join.to_owned());
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
