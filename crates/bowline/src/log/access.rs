//! Which requests get a line in the log.

use std::io::IsTerminal;
use std::str::FromStr;

use serde::Deserialize;
use tracing::level_filters::LevelFilter;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessLog {
    /// Every request; on a terminal, where people read, only those that failed on the server's side.
    #[default]
    Auto,
    All,
    /// Those that failed on the server's side.
    Errors,
    Off,
}

impl AccessLog {
    /// From which level on lines about requests are written.
    pub fn level(self) -> LevelFilter {
        match self {
            Self::All => LevelFilter::INFO,
            Self::Auto if !std::io::stderr().is_terminal() => LevelFilter::INFO,
            Self::Auto | Self::Errors => LevelFilter::WARN,
            Self::Off => LevelFilter::OFF,
        }
    }
}

impl FromStr for AccessLog {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "all" => Ok(Self::All),
            "errors" => Ok(Self::Errors),
            "off" => Ok(Self::Off),
            _ => anyhow::bail!("the access log is auto, all, errors or off"),
        }
    }
}
