//! Words of the host's that kernels look at while they wait: a communicator that is over says so there.

use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::{result, sys};

use crate::Result;
use crate::cuda::{Gpu, driver};
use crate::lock::Mutex;

/// How much is allocated at a time.
const PAGE: usize = 4096;

/// How far words are apart: a line of the host's caches.
const APART: usize = 64;

/// Words that nobody has, of the page that was allocated last; and those that somebody has. A word serves
/// once: a kernel that was left to itself may look at it for as long as the process lives.
static WORDS: Mutex<(Vec<Stop>, Vec<Stop>)> = Mutex::new((Vec::new(), Vec::new()));

/// A word that all GPUs read.
#[derive(Clone, Copy)]
pub(crate) struct Stop(&'static AtomicU32);

impl Stop {
    /// A new one, which is not set.
    pub(crate) fn new(gpu: &'static Gpu) -> Result<Self> {
        let mut words = WORDS.lock();
        let (free, taken) = &mut *words;
        if free.is_empty() {
            *free = page(gpu)?;
        }
        let Some(word) = free.pop() else { return Self::new(gpu) };
        taken.push(word);
        Ok(word)
    }

    /// Ends the kernels that look at it, now and later.
    pub(crate) fn set(self) {
        self.0.store(1, Ordering::Release);
    }

    /// Sets all that there are: the process ends.
    pub(crate) fn set_all() {
        let words = WORDS.lock();
        words.1.iter().for_each(|word| word.set());
    }

    pub(crate) fn address(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }
}

fn page(gpu: &'static Gpu) -> Result<Vec<Stop>> {
    gpu.bind()?;
    let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
    // SAFETY: the context is current, and the size not 0.
    let page = unsafe { result::malloc_host(PAGE, flags) };
    let page =
        page.map_err(|error| driver::no_memory(PAGE, gpu.ordinal(), error))?.cast::<AtomicU32>();
    let word = |at: usize| {
        let place = page.wrapping_byte_add(at);
        // SAFETY: it is inside the page, aligned, and nobody else's.
        unsafe { place.write(AtomicU32::new(0)) };
        // SAFETY: as above; the page is never freed, and written by atomic stores only from here on.
        Stop(unsafe { &*place })
    };
    Ok((0..PAGE).step_by(APART).map(word).collect())
}
