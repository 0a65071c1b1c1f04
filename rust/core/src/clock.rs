//! Time and randomness, in one module so that everything else is deterministic.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A monotonic reading.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// Time since the machine started, the time it was suspended included: a deadline by this clock holds
/// for a process, or a machine, that was stopped for a while.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library's clock stands still during a suspension")]
pub(crate) fn since_boot() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec for the call to write to.
    if unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) } != 0 {
        return Duration::MAX;
    }
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Time since the first call; elsewhere the standard clock has to do.
#[cfg(not(target_os = "linux"))]
pub(crate) fn since_boot() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(now);
    now().duration_since(*START)
}

/// Milliseconds since the Unix epoch, comparable with the modification times of stored objects.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub(crate) fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// Waits before retry number `attempt` (from 0): exponential from 2 ms to 200 ms, with full jitter,
/// so that two writers that collide do not collide again.
#[expect(clippy::disallowed_methods, reason = "the one place that draws random numbers")]
pub(crate) async fn back_off(attempt: u32) {
    let ceiling_ms = 2_u64.saturating_pow(attempt.min(8)).clamp(2, 200);
    tokio::time::sleep(Duration::from_millis(rand::random_range(1..=ceiling_ms))).await;
}

/// The moment `age` ago by the wall clock.
pub(crate) fn ago(age: Duration) -> chrono::DateTime<chrono::Utc> {
    let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    chrono::DateTime::from_timestamp_millis(wall_ms().saturating_sub(age_ms)).unwrap_or_default()
}
