//! Made-up executions, for trying out an orchestrator without touching a host.
//!
//! Enters: a seed and how bad the world is. Leaves: what a run on a host would look like. Pure: the same seed, host, run and
//! attempt give the same scene on every machine, and nothing sleeps here.

use bowline_model::{HostName, RunId};
use sha2::{Digest, Sha256};

/// A world. Probabilities are from 0 to 1; of what happens to a run, the first that applies is taken: it falls silent, it
/// times out, it fails, it succeeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulation {
    pub seed: u64,
    /// The shortest and the longest run.
    pub latency_ms: (u64, u64),
    pub failure: f64,
    pub timeout: f64,
    pub disconnect: f64,
}

/// What a run would look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scene {
    pub after_ms: u64,
    pub output: Vec<u8>,
    pub end: SceneEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SceneEnd {
    Succeeded,
    /// With this exit code, which is never 0.
    Failed(i32),
    /// It does not end before its time limit.
    TimesOut,
    /// Nothing is heard of the host for a while; then it goes on as if nothing had happened.
    Silence {
        for_ms: u64,
    },
}

impl Simulation {
    pub fn play(&self, host: &HostName, run: RunId, attempt: u32) -> Scene {
        let mut dice = Dice::new(self.seed, host, run, attempt);
        let (least, most) = (self.latency_ms.0.min(self.latency_ms.1), self.latency_ms.0.max(self.latency_ms.1));
        let after_ms = least + dice.below((most - least).saturating_add(1));
        // Every die is thrown in every scene, so that one probability does not change what the others decide.
        let (silent, slow, bad) = (dice.chance(), dice.chance(), dice.chance());
        let silence_ms = 1_000 + dice.below(30_000);
        let exit_code = [1, 2, 4, 100, 126, 127, 137, 255][dice.index(8)];
        let end = if silent < self.disconnect {
            SceneEnd::Silence { for_ms: silence_ms }
        } else if slow < self.timeout {
            SceneEnd::TimesOut
        } else if bad < self.failure {
            SceneEnd::Failed(exit_code)
        } else {
            SceneEnd::Succeeded
        };
        let mut output = format!("{host}: attempt {attempt}\n");
        for step in 1..=1 + dice.index(4) {
            output.push_str(&format!("{host}: step {step} took {} ms\n", dice.below(after_ms.saturating_add(1))));
        }
        if let SceneEnd::Failed(code) = end {
            output.push_str(&format!("{host}: failed with {code}\n"));
        }
        Scene { after_ms, output: output.into_bytes(), end }
    }
}

/// Numbers out of a hash: as good as thrown, and the same for ever.
struct Dice {
    key: [u8; 32],
    throws: u64,
}

impl Dice {
    fn new(seed: u64, host: &HostName, run: RunId, attempt: u32) -> Self {
        let mut hash = Sha256::new();
        hash.update(seed.to_le_bytes());
        hash.update(run.as_uuid().as_bytes());
        hash.update(attempt.to_le_bytes());
        hash.update(host.as_str());
        Self { key: hash.finalize().into(), throws: 0 }
    }

    fn next(&mut self) -> u64 {
        self.throws += 1;
        let hash = Sha256::new().chain_update(self.key).chain_update(self.throws.to_le_bytes()).finalize();
        hash.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }

    /// From 0 to `end`, without `end`; 0 if there is nothing to choose from.
    fn below(&mut self, end: u64) -> u64 {
        let thrown = u128::from(self.next()) * u128::from(end);
        u64::try_from(thrown >> 64).unwrap_or(0)
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// From 0 to 1, without 1.
    fn chance(&mut self) -> f64 {
        // 53 bits are what a fraction holds exactly.
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::*;

    fn world(failure: f64, timeout: f64, disconnect: f64) -> Simulation {
        Simulation { seed: 7, latency_ms: (20, 400), failure, timeout, disconnect }
    }

    fn run(number: u8) -> RunId {
        RunId::mint(Timestamp::from_millis(1), [number; 10])
    }

    fn scenes(world: &Simulation) -> Vec<Scene> {
        let hosts = (0..50).map(|number| HostName::new(&format!("web-{number}")).unwrap());
        hosts.flat_map(|host| (0..20).map(move |number| world.play(&host, run(number), 1))).collect()
    }

    #[test]
    fn the_same_question_has_the_same_answer() {
        let world = world(0.3, 0.1, 0.1);
        assert_eq!(scenes(&world), scenes(&world));
        let host = HostName::new("web-1").unwrap();
        let first = world.play(&host, run(1), 1);
        assert_ne!(first, world.play(&host, run(1), 2));
        assert_ne!(first, world.play(&host, run(2), 1));
        assert_ne!(first, world.play(&HostName::new("web-2").unwrap(), run(1), 1));
        assert_ne!(first, Simulation { seed: 8, ..world }.play(&host, run(1), 1));
        // Known for ever: a changed answer would change everybody's recorded simulations.
        assert_eq!((first.after_ms, first.end), (24, SceneEnd::Failed(1)));
        let said = "web-1: attempt 1\nweb-1: step 1 took 22 ms\nweb-1: step 2 took 10 ms\nweb-1: step 3 took 0 ms\n";
        assert_eq!(String::from_utf8(first.output).unwrap(), format!("{said}web-1: failed with 1\n"));
        let silent = Simulation { disconnect: 1.0, ..world }.play(&host, run(1), 1);
        assert_eq!((silent.after_ms, silent.end), (24, SceneEnd::Silence { for_ms: 6_301 }));
        assert_eq!(String::from_utf8(silent.output).unwrap(), said, "the other dice fell as before");
    }

    #[test]
    fn a_run_has_one_to_four_steps_and_none_is_longer_than_the_run() {
        let mut counts = std::collections::BTreeSet::new();
        for scene in scenes(&world(0.0, 0.0, 0.0)) {
            let text = String::from_utf8(scene.output).unwrap();
            let took = |line: &str| line.strip_suffix(" ms")?.rsplit_once(' ')?.1.parse::<u64>().ok();
            let steps: Vec<u64> = text.lines().filter_map(took).collect();
            assert!(steps.iter().all(|took| *took <= scene.after_ms), "{text}");
            counts.insert(steps.len());
        }
        assert_eq!(Vec::from_iter(counts), [1, 2, 3, 4]);
    }

    #[test]
    fn chances_are_what_they_are_called() {
        assert!(scenes(&world(0.0, 0.0, 0.0)).iter().all(|scene| scene.end == SceneEnd::Succeeded));
        assert!(
            scenes(&world(1.0, 0.0, 0.0)).iter().all(|scene| matches!(scene.end, SceneEnd::Failed(code) if code > 0))
        );
        assert!(scenes(&world(1.0, 1.0, 0.0)).iter().all(|scene| scene.end == SceneEnd::TimesOut));
        assert!(scenes(&world(1.0, 1.0, 1.0)).iter().all(|scene| matches!(scene.end, SceneEnd::Silence { .. })));
        let failed = scenes(&world(0.25, 0.0, 0.0)).iter().filter(|scene| scene.end != SceneEnd::Succeeded).count();
        assert!((200..300).contains(&failed), "{failed} of 1000");
    }

    #[test]
    fn a_run_takes_as_long_as_it_may() {
        assert!(scenes(&world(0.1, 0.1, 0.1)).iter().all(|scene| (20..=400).contains(&scene.after_ms)));
        let turned = Simulation { latency_ms: (9, 9), ..world(0.0, 0.0, 0.0) };
        assert!(scenes(&turned).iter().all(|scene| scene.after_ms == 9));
    }
}
