//! What was measured: told as it comes, and written down whole.

use std::path::Path;

use bowline_cli::{Output, document};
use serde_json::{Map, Value, json};

/// Figures of one run of the bench.
#[derive(Debug)]
pub struct Figures {
    output: Option<Output>,
    all: Map<String, Value>,
}

impl Figures {
    /// `output`: JSON and YAML are one document at the end instead of a line for each figure.
    pub fn new(on_postgres: bool, output: Option<Output>) -> Self {
        let engine = if on_postgres { "postgres" } else { "sqlite" };
        Self { output, all: Map::from_iter([("engine".to_owned(), engine.into())]) }
    }

    pub fn note(&mut self, name: &str, value: Value) {
        if matches!(self.output, None | Some(Output::Table)) {
            println!("{name}: {value}");
        }
        self.all.insert(name.to_owned(), value);
    }

    pub fn finish(self, out: Option<&Path>) -> anyhow::Result<()> {
        let figures = Value::Object(self.all);
        if let Some(text) = document(&figures, self.output) {
            print!("{text}");
        }
        if let Some(path) = out {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(path, format!("{figures:#}\n"))?;
        }
        Ok(())
    }
}

/// Where most of them are, and how far off the worst ones.
pub fn quantiles(mut millis: Vec<f64>) -> Value {
    millis.sort_by(f64::total_cmp);
    let at = |q: f64| {
        let place = ((millis.len() as f64 - 1.0) * q).round() as usize;
        millis.get(place).map(|v| (v * 1_000.0).round() / 1_000.0)
    };
    json!({"samples": millis.len(), "p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "max_ms": at(1.0)})
}
