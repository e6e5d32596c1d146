//! `Retry-After`: how long whoever answered wants to be left alone.
//!
//! Enters: the headers of an answer, and the time. Leaves: so many milliseconds, bounded; or nothing, for what cannot be read
//! or is over already. A header is a wish of somebody else's server: it may hold up a job, but not for ever.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bowline_connect::header::{DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use bowline_model::Timestamp;

/// Who wants more than this is asked again after this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3_600);

/// In milliseconds from `now`, which is when the answer came. If the header came several times, the longest counts.
pub fn retry_after_ms(headers: &HeaderMap, now: Timestamp) -> Option<u64> {
    // A moment was meant by the clock of whoever wrote it, so it is held against what that clock showed.
    let since = headers.get(DATE).and_then(date).unwrap_or_else(|| {
        let since_epoch = u64::try_from(now.as_millis()).unwrap_or(0);
        UNIX_EPOCH + Duration::from_millis(since_epoch)
    });
    let waits = headers.get_all(RETRY_AFTER).iter().filter_map(|value| wait(value, since));
    let longest = waits.max().filter(|wait| !wait.is_zero())?.min(RETRY_AFTER_MAX);
    u64::try_from(longest.as_millis()).ok()
}

fn wait(value: &HeaderValue, since: SystemTime) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More seconds than fit into a number are very many seconds.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    // A moment that is over wants nothing.
    date(value)?.duration_since(since).ok()
}

fn date(value: &HeaderValue) -> Option<SystemTime> {
    httpdate::parse_http_date(value.to_str().ok()?.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-16 02:00:00 UTC.
    const NOW: Timestamp = Timestamp::from_millis(1_794_794_400_000);

    fn told(headers: &[(&'static str, &'static str)]) -> Option<u64> {
        let headers = headers.iter().map(|(name, value)| {
            let name: bowline_connect::header::HeaderName = name.parse().expect("a name");
            (name, HeaderValue::from_static(value))
        });
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value);
        }
        retry_after_ms(&map, NOW)
    }

    #[test]
    fn seconds_and_moments_are_read_in_all_their_forms() {
        for (value, ms) in [
            ("1", 1_000),
            (" 120 ", 120_000),
            ("0120", 120_000),
            ("Mon, 16 Nov 2026 02:00:30 GMT", 30_000),
            // The two older forms, which whoever reads must know.
            ("Monday, 16-Nov-26 02:00:30 GMT", 30_000),
            ("Mon Nov 16 02:00:30 2026", 30_000),
        ] {
            assert_eq!(told(&[("retry-after", value)]), Some(ms), "{value}");
        }
    }

    #[test]
    fn a_wish_without_end_has_one() {
        let most = u64::try_from(RETRY_AFTER_MAX.as_millis()).ok();
        for value in ["86400", "86401", "31536000", "99999999999999999999999999", "Fri, 16 Nov 2096 02:00:00 GMT"] {
            assert_eq!(told(&[("retry-after", value)]), most, "{value}");
        }
        assert_eq!(told(&[("retry-after", "86399")]), Some(86_399_000));
    }

    #[test]
    fn nonsense_is_ignored() {
        for value in [
            "",
            "0",
            "-5",
            "+5",
            "1.5",
            "1e3",
            "10s",
            "5, 6",
            "soon",
            "0x10",
            "٣",
            "2026-11-16T02:00:30Z",
            "Mon, 16 Nov 2026 01:59:59 GMT",
            "Mon, 16 Nov 2026 02:00:00 GMT",
            "Mon, 99 Nov 2026 02:00:30 GMT",
            "Mon, 16 Nov 2026 02:00:30 CET",
        ] {
            let header = HeaderValue::from_bytes(value.as_bytes()).expect("bytes of a header");
            let headers: HeaderMap = [(RETRY_AFTER, header)].into_iter().collect();
            assert_eq!(retry_after_ms(&headers, NOW), None, "{value}");
        }
        assert_eq!(told(&[]), None);
    }

    #[test]
    fn of_several_the_longest_that_can_be_read_counts() {
        assert_eq!(told(&[("retry-after", "5"), ("retry-after", "soon"), ("retry-after", "7")]), Some(7_000));
    }

    #[test]
    fn a_moment_is_held_against_the_clock_that_it_was_read_from() {
        // Theirs is an hour behind ours; they mean half a minute all the same.
        let later = ("retry-after", "Mon, 16 Nov 2026 01:00:30 GMT");
        assert_eq!(told(&[later]), None);
        assert_eq!(told(&[later, ("date", "Mon, 16 Nov 2026 01:00:00 GMT")]), Some(30_000));
        assert_eq!(told(&[later, ("date", "today")]), None, "a clock that cannot be read is none");
    }
}
