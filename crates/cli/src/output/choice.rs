//! `-o json`, for those whose fingers know it: the same as `--json`.

use clap::{Args, ValueEnum};

use super::Screen;

#[derive(Debug, Clone, Copy, Default, Args)]
pub struct OutputArgs {
    /// As what; json is the same as --json
    #[arg(long, short, value_enum)]
    output: Option<Output>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

impl OutputArgs {
    /// Tells the screen what was wanted.
    pub fn tell(self, screen: &mut Screen) {
        if self.output == Some(Output::Json) {
            screen.wants_json();
        }
    }
}
