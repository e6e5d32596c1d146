//! A keeper by itself, for tests. In the product it is a hidden subcommand of the one binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        #[cfg(target_os = "linux")]
        Some(run_dir) => bowline_execute::keeper::main(std::path::Path::new(&run_dir)),
        _ => {
            eprintln!("usage: bowline-keeper RUN_DIRECTORY (on Linux)");
            ExitCode::FAILURE
        }
    }
}
