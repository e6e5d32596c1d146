//! `bowline-sim [--seed N] [--from N] [--count N]`: runs seeds, prints those that fail, and how often the rare cases of
//! commands on hosts were reached. One seed is simulated for `--seed`, 200 from the first on otherwise.

use std::process::ExitCode;

use bowline_sim::FleetCounts;

fn main() -> anyhow::Result<ExitCode> {
    let (mut from, mut count) = (1, 200);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value: u64 = words.next().ok_or_else(|| anyhow::anyhow!("{word} needs a number"))?.parse()?;
        match word.as_str() {
            "--seed" => (from, count) = (value, 1),
            "--from" => from = value,
            "--count" => count = value,
            other => anyhow::bail!("unknown option {other}; there are --seed, --from and --count"),
        }
    }
    let mut failed = 0;
    let mut fleet = FleetCounts::default();
    for seed in from..from + count {
        let report = bowline_sim::simulate(seed)?;
        fleet = fleet.plus(report.fleet);
        if report.violations.is_empty() {
            continue;
        }
        failed += 1;
        println!("seed {seed} fails; replay it with `cargo run -p bowline-sim -- --seed {seed}`");
        for violation in &report.violations {
            println!("  {violation}");
        }
    }
    for (what, times) in fleet.named() {
        println!("{times:>8} {what}");
    }
    println!("{count} seeds from {from} on: {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
