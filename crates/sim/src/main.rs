//! `bowline-sim [--scene jobs|flows] [--seed N] [--from N] [--count N]`: runs seeds, prints those that fail, and how often
//! the rare cases were reached. One seed is simulated for `--seed`, 200 from the first on otherwise.

use std::process::ExitCode;

use bowline_sim::{FleetCounts, FlowCounts, simulate, simulate_flows};

fn main() -> anyhow::Result<ExitCode> {
    let (mut from, mut count, mut flows) = (1, 200, false);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| anyhow::anyhow!("{word} needs a value"))?;
        match (word.as_str(), value.as_str()) {
            ("--scene", "jobs") => flows = false,
            ("--scene", "flows") => flows = true,
            ("--scene", other) => anyhow::bail!("there is no scene {other}; there are jobs and flows"),
            ("--seed", _) => (from, count) = (value.parse()?, 1),
            ("--from", _) => from = value.parse()?,
            ("--count", _) => count = value.parse()?,
            (other, _) => anyhow::bail!("unknown option {other}; there are --scene, --seed, --from and --count"),
        }
    }
    let mut failed = 0;
    let (mut on_hosts, mut of_workflows) = (FleetCounts::default(), FlowCounts::default());
    for seed in from..from + count {
        let report = if flows { simulate_flows(seed)? } else { simulate(seed)? };
        on_hosts = on_hosts.plus(report.fleet);
        of_workflows = of_workflows.plus(report.flow);
        if report.violations.is_empty() {
            continue;
        }
        failed += 1;
        let scene = if flows { "--scene flows " } else { "" };
        println!("seed {seed} fails; replay it with `cargo run -p bowline-sim -- {scene}--seed {seed}`");
        for violation in &report.violations {
            println!("  {violation}");
        }
    }
    let named: Vec<_> = if flows { of_workflows.named().into() } else { on_hosts.named().into() };
    for (what, times) in named {
        println!("{times:>8} {what}");
    }
    println!("{count} seeds from {from} on: {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
