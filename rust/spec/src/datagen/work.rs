//! Counts the steps of a fold, so that tests can tell its growth without a clock.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// One step.
pub(super) fn tick() {
    STEPS.set(STEPS.get() + 1);
}

/// The steps of `run`.
pub(super) fn count<T>(run: impl FnOnce() -> T) -> (T, u64) {
    STEPS.set(0);
    let result = run();
    (result, STEPS.get())
}
