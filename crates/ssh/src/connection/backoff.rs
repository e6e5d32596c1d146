//! How long to wait before a server that broke off is called again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(60);
const LONGEST: Duration = Duration::from_secs(2);

/// Before the try with this number, the first repetition being 1. `chance` is between 0 and 1: servers break off when
/// too many call at once, so those must not all come back at once.
pub(crate) fn pause_before(repetition: u32, chance: f64) -> Duration {
    let longest = FIRST.saturating_mul(1 << repetition.saturating_sub(1).min(10)).min(LONGEST);
    longest.mul_f64(0.3 + 0.7 * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_to_its_limit_and_is_never_nothing() {
        let at = |repetition, chance| pause_before(repetition, chance).as_millis();
        assert_eq!((at(1, 1.0), at(2, 1.0), at(3, 1.0), at(99, 1.0)), (60, 120, 240, 2000));
        assert_eq!((at(1, 0.0), at(99, 0.0)), (18, 600));
    }
}
