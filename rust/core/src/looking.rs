//! Looking again and again instead of sleeping.
//!
//! A thread that sleeps takes long to wake, where the kernel has put its core to rest up to ten times as long as a small
//! write. Whoever expects something soon looks for it a while, and gives way to other threads between two looks.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use crate::clock;

/// With a single core, whoever looks keeps others from working.
static HAS_CORES: LazyLock<bool> = LazyLock::new(|| thread::available_parallelism().is_ok_and(|cores| cores.get() > 1));

/// Where one at a time looks: several would keep each other, and those that do the work, from running.
#[derive(Debug, Default)]
pub struct Lookout {
    is_taken: AtomicBool,
}

/// A turn at a [`Lookout`].
#[derive(Debug)]
pub struct Turn<'a> {
    lookout: &'a Lookout,
    end: Instant,
}

impl Lookout {
    /// A lookout at which nobody is.
    #[must_use]
    pub const fn new() -> Self {
        Self { is_taken: AtomicBool::new(false) }
    }

    /// Begins to look, until `end`. `None` while somebody else does, and where there is a single core.
    pub fn begin(&self, end: Instant) -> Option<Turn<'_>> {
        let is_free = *HAS_CORES && !self.is_taken.swap(true, Ordering::Acquire);
        is_free.then(|| Turn { lookout: self, end })
    }
}

impl Turn<'_> {
    /// Gives way to other threads. False when the time is over.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        let goes_on = clock::now() < self.end;
        if goes_on {
            thread::yield_now();
        }
        goes_on
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.lookout.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_at_a_time_looks_and_until_its_end() {
        let (lookout, later) = (Lookout::new(), clock::now() + Duration::from_secs(3600));
        let Some(turn) = lookout.begin(later) else {
            return assert!(!*HAS_CORES);
        };
        assert!(turn.goes_on());
        assert!(lookout.begin(later).is_none());
        drop(turn);
        let over = lookout.begin(clock::now()).unwrap();
        assert!(!over.goes_on());
    }
}
