//! How a thread waits for a future.
//!
//! A thread that sleeps takes long to wake, where the kernel has put its core to rest up to ten times as long as a small
//! write. So a waiting thread first looks again and again, and lets others have the core in between. One thread of the
//! process at a time does: several would keep each other, and those that do the work, from running.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use lance_context_core::clock;

/// How long a thread looks before it sleeps: as long as a small write or read takes.
const LOOKING: Duration = Duration::from_micros(300);

/// Whether somebody looks.
static LOOKED_FOR: AtomicBool = AtomicBool::new(false);

/// With a single core, whoever looks keeps others from working.
static HAS_CORES: LazyLock<bool> = LazyLock::new(|| thread::available_parallelism().is_ok_and(|cores| cores.get() > 1));

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
    let began = clock::now();
    let mut glanced = began;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Ok(output);
        }
        sleeper.look_until(began + LOOKING);
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
    /// Returns at once if others look already.
    fn look_until(&self, end: Instant) {
        if !*HAS_CORES || LOOKED_FOR.swap(true, Ordering::Acquire) {
            return;
        }
        while !self.is_woken.load(Ordering::Acquire) && clock::now() < end {
            thread::yield_now();
        }
        LOOKED_FOR.store(false, Ordering::Release);
    }
}
