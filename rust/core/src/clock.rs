//! Time and randomness, in one module so that everything else is deterministic.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A monotonic reading.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
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
