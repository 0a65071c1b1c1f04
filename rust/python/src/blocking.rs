//! How a thread waits for a future.
//!
//! A small write or read is ready before a thread that sleeps has woken, so a waiting thread first looks
//! (`lance_context_core::looking`).

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use lance_context_core::clock;
use lance_context_core::looking::Lookout;

/// How long a thread looks before it sleeps: as long as a small write or read takes.
const LOOKING: Duration = Duration::from_micros(300);

/// One thread of the process at a time looks.
static LOOKOUT: Lookout = Lookout::new();

/// Polls `future` on this thread until it is ready. Calls `glance` at least every `slice` meanwhile, and gives up with
/// its error.
///
/// # Errors
/// What `glance` returns.
pub fn block_on<T, E>(
    future: impl Future<Output = T>,
    slice: Duration,
    mut glance: impl FnMut() -> Result<(), E>,
) -> Result<T, E> {
    let mut future = pin!(future);
    let sleeper = Arc::new(Sleeper { is_woken: AtomicBool::new(false), thread: thread::current() });
    let waker = Waker::from(Arc::clone(&sleeper));
    let mut glanced = clock::now();
    let end = glanced + LOOKING;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Ok(output);
        }
        sleeper.look_until(end);
        while !sleeper.is_woken.swap(false, Ordering::Acquire) {
            match slice.checked_sub(glanced.elapsed()) {
                Some(rest) => thread::park_timeout(rest),
                None => {
                    glance()?;
                    glanced = clock::now();
                }
            }
        }
    }
}

/// The thread that waits, and whether its future has something new.
struct Sleeper {
    is_woken: AtomicBool,
    thread: Thread,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Sleeper {
    /// Returns when there is something new, or it is time to sleep.
    fn look_until(&self, end: Instant) {
        let Some(turn) = LOOKOUT.begin(end) else { return };
        loop {
            if self.is_woken.load(Ordering::Acquire) || !turn.goes_on() {
                return;
            }
        }
    }
}
